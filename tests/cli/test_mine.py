from __future__ import annotations

import json
import math
import os

import pytest

from fedslim import __version__
from fedslim.errors import WriteError
from fedslim.mdl import mining
from fedslim.mdl.codetable import CodeTable
from fedslim.mdl.mining import Mined
from fedslim.mdl.policy import WIDTH

PROMISED = {
    *("transactions", "items", "L_percent", "L_data_percent", "bits_total", "bits_data", "bits_model", "itemsets"),
    *("candidates", "seconds", "converged", "bits_total_before", "bits_data_before", "bits_model_before", "ending"),
    *("effort", "width", "data", "out", "version", "top"),
}


@pytest.fixture
def asked(monkeypatch):
    """Record the engine's arguments, and do as little mining as possible."""
    how, real = {}, mining.mine

    def mine(database, **given):
        how.update(given)
        return real(database, stop=given["stop"], min_support=10**6)

    monkeypatch.setattr(mining, "mine", mine)
    monkeypatch.setattr(mining, "prepare", lambda: None)
    return how


@pytest.fixture
def full_disk(monkeypatch):
    """Make saving fail in the given places."""
    real, full = CodeTable.save, []

    def save(table, path):
        if any(name in str(path) for name in full):
            msg = f"{path}: cannot be written (No space left on device); check the folder and the disk"
            raise WriteError(msg)
        real(table, path)

    monkeypatch.setattr(CodeTable, "save", save)
    return full.append


def finite(value):
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    if isinstance(value, list):
        return all(map(finite, value))
    return not isinstance(value, float) or math.isfinite(value)


# -- what is shown ---------------------------------------------------------------------------------------------------


def test_the_built_in_data_tell_their_story(fedslim):
    ran = fedslim("mine", "encounters")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0].split() == ["bits", "saved", "usage", "support", "items"]
    assert lines[21] == ""
    assert "high blood sugar, high HbA1c, obesity, type 2 diabetes, metformin" in lines[1]
    summary = dict(line.split(maxsplit=1) for line in lines[22:])
    assert summary["data"] == "encounters: 5,000 transactions, 76 items"
    assert summary["search"].endswith("; converged")
    assert set(summary) == {"data", "found", "L%", "bits", "search"}


def test_rows_come_by_bits_saved(fedslim):
    rows = [line.split()[0] for line in fedslim("mine", "encounters", "--top", 15).out.splitlines()[1:16]]
    saved = [int(row.replace(",", "")) for row in rows]
    assert saved == sorted(saved, reverse=True)


def test_top_0_shows_the_summary_alone(fedslim, baskets):
    assert fedslim("mine", baskets, "--top", 0).out.startswith("data ")


def test_in_a_pipe_a_row_is_a_line_without_colours_or_trailing_blanks(process, tmp_path):
    path = tmp_path / "wide.csv"
    header = [f"a rather long name of column {column}" for column in range(12)]
    path.write_text("\n".join([",".join(header), *[",".join("v" * 12)] * 30]))
    ran = process("mine", path)
    row = ran.out.splitlines()[1]
    assert all(f"{name}=v" in row for name in header)
    assert "\x1b" not in ran.out
    assert [line for line in ran.out.splitlines() if line != line.rstrip()] == []


def test_hostile_labels_are_shown_harmlessly_and_saved_as_they_are(fedslim, tmp_path):
    hostile, brackets, out = "\x1b]0;gotcha\x07\x9b2J", "[red]x[/red] [/]", tmp_path / "table.json"
    path = tmp_path / "hostile.csv"
    path.write_text(f"a,b\n{hostile},{brackets}\n" + f"{hostile},{brackets}\n" * 20)
    ran = fedslim("mine", path, "--out", out)
    assert ran.code == 0
    assert not set("\x1b\x07\x9b") & set(ran.out)
    assert f"b={brackets}" in ran.out
    assert CodeTable.load(out).itemsets[0].labels == (f"a={hostile}", f"b={brackets}")
    shown = fedslim("show", out, "--json").out
    assert shown.isascii()
    assert "\x1b" not in shown
    assert json.loads(shown)["top"][0]["items"] == [f"a={hostile}", f"b={brackets}"]


def test_empty_transactions_are_data_too(fedslim, tmp_path):
    path = tmp_path / "empty.dat"
    path.write_text("\n\n\n")
    ran = fedslim("mine", path, "--json")
    record = json.loads(ran.out)
    assert (record["transactions"], record["items"], record["L_percent"]) == (3, 0, 100.0)
    assert fedslim("mine", path).code == 0


# -- JSON ------------------------------------------------------------------------------------------------------------


def test_json_is_one_object_and_nothing_else(process, baskets):
    ran = process("mine", baskets, "--json")
    record = json.loads(ran.out)
    assert ran.code == 0
    assert "Traceback" not in ran.err
    assert set(record) >= PROMISED
    assert finite(record)
    assert (record["data"], record["version"], record["out"]) == (str(baskets), __version__, None)
    assert (record["transactions"], record["items"], record["itemsets"]) == (56, 6, 2)
    assert (record["converged"], record["ending"]) == (True, "converged")
    assert (record["effort"], record["width"]) == (1, WIDTH)


def test_json_agrees_with_itself_and_with_the_saved_table(fedslim, tmp_path):
    out = tmp_path / "table.json"
    record = json.loads(fedslim("mine", "encounters", "--json", "--top", 3, "--out", out).out)
    assert record["bits_total"] == pytest.approx(record["bits_data"] + record["bits_model"])
    assert record["L_percent"] == pytest.approx(100 * record["bits_total"] / record["bits_total_before"])
    assert record["L_data_percent"] == pytest.approx(100 * record["bits_data"] / record["bits_data_before"])
    assert record["out"] == str(out)
    table = CodeTable.load(out)
    assert (len(table), table.compression.L_percent) == (record["itemsets"], record["L_percent"])
    assert [set(row) for row in record["top"]] == [{"items", "usage", "support", "code_length", "bits_saved"}] * 3
    assert [tuple(row["items"]) for row in record["top"]] == [e.labels for e in table.top(3)]


# -- what is asked of the engine -------------------------------------------------------------------------------------


def test_every_option_reaches_the_engine(fedslim, baskets, asked):
    options = "--max-time 7 --effort 2 --min-support 3 --min-count 6 --max-itemset-size 4 --order support"
    options += " --no-pruning --threads 2 --width 5 --seed 9"
    assert fedslim("mine", baskets, *options.split()).code == 0
    stop = asked.pop("stop")
    assert stop.deadline - stop.started == pytest.approx(7)
    assert asked.pop("on_progress") is not None
    assert asked == {
        "effort": 2,
        "width": 5,
        "min_support": 3,
        "min_count": 6,
        "max_itemset_size": 4,
        "order": "support",
        "pruning": False,
        "threads": 2,
        "seed": 9,
    }


def test_left_out_options_are_the_engines_defaults(fedslim, baskets, asked):
    assert fedslim("mine", baskets, "--quiet").code == 0
    assert asked.pop("stop").deadline == math.inf
    assert asked == {
        "effort": None,
        "width": WIDTH,
        "min_support": 1,
        "min_count": 1,
        "max_itemset_size": None,
        "order": "usage",
        "pruning": True,
        "threads": None,
        "seed": 0,
        "on_progress": None,
    }


def test_reader_options_reach_the_reader(fedslim, tmp_path):
    path = tmp_path / "sales.data"
    path.write_text("order\tproduct\n1\tmilk\n1\tbread\n2\tmilk\n2\tbread\n")
    given = ("--format", "tsv", "--transaction-column", "order", "--item-column", "product")
    record = json.loads(fedslim("mine", path, "--json", *given).out)
    assert (record["transactions"], record["items"]) == (2, 2)


def test_bins_reach_the_reader(fedslim, tmp_path):
    path = tmp_path / "ages.csv"
    path.write_text("age\n" + "".join(f"{age}\n" for age in range(100)))
    assert json.loads(fedslim("mine", path, "--bins", 4, "--json").out)["items"] == 4


def test_a_seed_makes_other_data(fedslim):
    first, second = (fedslim("mine", "encounters", "--json", "--seed", seed).out for seed in (1, 2))
    assert json.loads(first)["bits_data_before"] != json.loads(second)["bits_data_before"]


@pytest.mark.parametrize(
    ("ending", "told"),
    [("converged", "converged"), ("out of time", "out of time"), ("interrupted", "stopped by Ctrl-C")],
)
def test_the_summary_says_how_it_ended(fedslim, baskets, monkeypatch, ending, told):
    real = mining.mine

    def mine(database, **given):
        mined = real(database, **given)
        return Mined(mined.table, mined.tally, mined.seconds, ending)

    monkeypatch.setattr(mining, "mine", mine)
    assert f"; {told}\n" in fedslim("mine", baskets).out
    record = json.loads(fedslim("mine", baskets, "--json").out)
    assert (record["ending"], record["converged"]) == (ending, ending == "converged")


def test_max_time_keeps_the_best_so_far(fedslim, tmp_path):
    out = tmp_path / "table.json"
    ran = fedslim("mine", "accidents-like:8000", "--max-time", 0.3, "--out", out)
    assert ran.code == 0
    assert "; out of time\n" in ran.out
    assert len(CodeTable.load(out)) > 0


# -- where it is saved -----------------------------------------------------------------------------------------------


def test_the_folder_of_the_table_is_made(fedslim, baskets, tmp_path):
    out = tmp_path / "new" / "folder" / "table.json"
    ran = fedslim("mine", baskets, "--out", out)
    assert ran.code == 0
    assert f"saved   {out}\n" in ran.out
    assert len(CodeTable.load(out)) == 2


@pytest.mark.parametrize(
    ("out", "told"),
    [
        ("folder", "folder"),
        ("baskets.dat", "would be overwritten"),
        ("folder/../baskets.dat", "would be overwritten"),
        ("link", "would be overwritten"),
        ("twin", "would be overwritten"),
        ("baskets.dat/table.json", "is a file"),
        ("fifo", "regular file"),
        ("x" * 300, "cannot be written"),
        ("", "folder"),
    ],
)
def test_a_place_that_cannot_be_is_told_before_anything_is_done(fedslim, baskets, asked, monkeypatch, out, told):
    monkeypatch.chdir(baskets.parent)
    os.mkfifo("fifo")
    (baskets.parent / "folder").mkdir()
    (baskets.parent / "link").symlink_to("baskets.dat")
    (baskets.parent / "twin").hardlink_to("baskets.dat")
    before = baskets.read_bytes()
    ran = fedslim("mine", "baskets.dat", "--out", out)
    assert (ran.code, ran.out) == (2, "")
    assert ran.only_line.startswith("fedslim: error: --out ")
    assert told in ran.only_line
    assert asked == {}
    assert baskets.read_bytes() == before


def test_the_report_needs_a_place_of_its_own(fedslim, baskets, asked, monkeypatch):
    monkeypatch.chdir(baskets.parent)
    (baskets.parent / "folder").mkdir()
    ran = fedslim("mine", "baskets.dat", "--out", "folder/../t.json", "--report", "t.json")
    assert ran.code == 2
    assert "--out and --report both name" in ran.only_line
    assert "--report folder: this is a folder" in fedslim("mine", "baskets.dat", "--report", "folder").only_line
    assert asked == {}


def test_a_folder_that_is_not_ours_is_told_before_anything_is_done(fedslim, baskets, asked, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)  # the tests may run as root
    ran = fedslim("mine", baskets, "--out", baskets.with_name("table.json"))
    assert (ran.code, asked) == (2, {})
    assert "you may not write to the folder" in ran.only_line


def test_a_table_that_finds_no_room_is_shown_and_saved_elsewhere(fedslim, baskets, tmp_path, monkeypatch, full_disk):
    spare = tmp_path / "spare"
    spare.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spare))
    full_disk("table.json")
    ran = fedslim("mine", baskets, "--out", tmp_path / "table.json")
    (rescued,) = spare.iterdir()
    assert ran.code == 1
    assert ran.only_line.endswith(f"; the code table is saved as {rescued} instead")
    assert "bits saved" in ran.out
    assert f"saved   {rescued}\n" in ran.out
    assert len(CodeTable.load(rescued)) == 2


def test_json_says_where_the_table_really_is(fedslim, baskets, tmp_path, monkeypatch, full_disk):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    full_disk("table.json")
    ran = fedslim("mine", baskets, "--json", "--out", tmp_path / "table.json")
    assert ran.code == 1
    assert len(CodeTable.load(json.loads(ran.out)["out"])) == 2


def test_a_table_that_finds_no_room_anywhere_is_still_shown(fedslim, baskets, tmp_path, monkeypatch, full_disk):
    spare = tmp_path / "spare"
    spare.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spare))
    full_disk(".json")
    ran = fedslim("mine", baskets, "--out", tmp_path / "table.json")
    assert ran.code == 1
    assert ran.only_line.endswith(" either")
    assert "bits saved" in ran.out
    assert "saved  " not in ran.out.split("\n\n")[1]
    assert list(spare.iterdir()) == []


def test_no_folder_for_temporary_files_is_survived(fedslim, baskets, tmp_path, monkeypatch, full_disk):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    full_disk("table.json")
    ran = fedslim("mine", baskets, "--json", "--out", tmp_path / "table.json")
    assert (ran.code, json.loads(ran.out)["out"]) == (1, None)
    assert ran.only_line.endswith("folder for temporary files either")


def test_a_table_that_looks_long_gets_a_hint_unless_its_names_tell(fedslim, tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text("where,what\n" + "".join(f"{v},{i}\n" for v in range(20) for i in ("fever", "cough")))
    ran = fedslim("mine", path)
    assert ran.code == 0
    assert "--transaction-column 'where' --item-column 'what'" in ran.err
    named = fedslim("mine", path, "--transaction-column", "where", "--item-column", "what")
    assert "--transaction-column" not in named.err
