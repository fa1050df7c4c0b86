from __future__ import annotations

import json
import math
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fedslim.cli.commands.show import _gap
from fedslim.cli.commands.simulate import Variant
from fedslim.errors import WriteError
from fedslim.federated import SCHEMES
from fedslim.federated.records import load_run
from fedslim.mdl import mining
from fedslim.mdl.codetable import CodeTable

PLAIN = {
    *("variant", "members", "bits_total", "bits_data", "bits_model", "L_percent", "L_data_percent", "itemsets"),
    *("candidates", "rounds", "bytes_total", "bytes_up", "bytes_down", "f1", "precision", "recall", "wr50", "wr100"),
    *("rho", "gap", "gap_recovered", "grr", "seconds", "converged"),
}
BESIDES = {
    *("data", "version", "transactions", "items", "bits_total_before", "bits_data_before", "bits_model_before", "top"),
    *("reference", "out", "masked", "ending", "seed", "sizes", "partition", "messages", "by_kind"),
    *("max_time", "max_rounds", "min_count", "min_members_with", "width", "effort", "other"),
    *("bytes_total_uncompressed", "bytes_up_uncompressed", "bytes_down_uncompressed"),
}
COMPARED = {"f1", "precision", "recall", "wr50", "wr100", "rho", "gap", "gap_recovered", "grr"}


def finite(value):
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    if isinstance(value, list):
        return all(map(finite, value))
    return not isinstance(value, float) or math.isfinite(value)


# -- x is mining in one place ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scheme", "members"), [("iid", 1), ("iid", 2), *((scheme, 10) for scheme in SCHEMES)])
def test_x_writes_the_file_that_mine_writes(fedslim, public_data, tmp_path, scheme, members):
    fedslim("mine", "ionosphere", "--from", public_data, "--out", tmp_path / "mined.json")
    ran = fedslim(
        *("simulate", "ionosphere", "--from", public_data, "--members", members, "--partition", scheme),
        *("--no-compare", "--out", tmp_path / "run"),
    )
    assert (ran.code, ran.err) == (0, "")
    assert (tmp_path / "run" / "codetable.json").read_bytes() == (tmp_path / "mined.json").read_bytes()


def test_equal_seeds_give_equal_runs(fedslim):
    records = [
        json.loads(fedslim("simulate", "encounters", "--members", 3, "--seed", 3, "--json").out) for _ in range(2)
    ]
    for record in records:
        assert record.pop("seconds") > 0
    assert records[0] == records[1]


# -- json ------------------------------------------------------------------------------------------------------------


def test_json_has_every_figure_under_its_plain_name(fedslim):
    ran = fedslim("simulate", "encounters", "--members", 4, "--partition", "dirichlet", "--alpha", 2, "--json")
    assert (ran.code, ran.err) == (0, "")
    record = json.loads(ran.out)
    assert record.keys() == PLAIN | BESIDES
    assert finite(record)
    assert [name for name in PLAIN if record[name] is None] == []
    assert (record["variant"], record["members"], record["converged"]) == ("x", 4, True)
    assert (record["f1"], record["grr"], record["reference"], record["masked"]) == (1.0, 1.0, "centralised", True)
    assert record["partition"]["parameters"] == {"members": 4, "alpha": 2.0}
    assert record["gap_recovered"] == record["gap"] > 0


@pytest.mark.parametrize("variant", ["sa", "so"])
def test_the_variants_of_the_paper_have_the_same_figures(fedslim, tmp_path, variant):
    ran = fedslim("simulate", "encounters", "--variant", variant, "--members", 3, "--json", "--out", tmp_path)
    assert (ran.code, ran.err) == (0, "")
    record = json.loads(ran.out)
    assert record.keys() == PLAIN | BESIDES
    assert finite(record)
    assert [name for name in PLAIN if record[name] is None] == []
    assert (record["variant"], record["masked"], record["converged"]) == (variant, variant == "sa", True)
    assert (record["width"], load_run(tmp_path).settings["width"]) == (1, 1)
    assert record["f1"] > 0.5
    assert CodeTable.load(tmp_path / "codetable.json").compression.L_percent == record["L_percent"]


def test_x_takes_an_effort_and_is_compared_with_the_same(fedslim, tmp_path, monkeypatch):
    monkeypatch.setattr("fedslim.mdl.effort.ITERATIONS", 1)
    monkeypatch.setattr("fedslim.mdl.effort.FIRST_ROUNDS", 1)
    monkeypatch.setattr("fedslim.mdl.effort.STARTS", 2)
    how = ("encounters", "--members", 2, "--json", "--effort", 3, "--seed", 4, "--out", tmp_path)
    record = json.loads(fedslim("simulate", *how).out)
    assert (record["effort"], record["seed"], record["f1"], record["converged"]) == (3, 4, 1.0, True)
    assert load_run(tmp_path).settings["effort"] == 3
    plain = json.loads(fedslim("simulate", "encounters", "--members", 2, "--no-compare", "--json").out)
    assert record["bits_total"] < plain["bits_total"]


@pytest.mark.parametrize("variant", ["sa", "so"])
def test_the_variants_of_the_paper_have_no_effort(fedslim, variant):
    ran = fedslim("simulate", "encounters", "--variant", variant, "--effort", 2)
    assert (ran.code, ran.out) == (2, "")
    assert f"effort is for variant x only; {variant} follows the paper, which has one greedy search" in ran.err


def test_without_comparing_its_figures_are_null(fedslim, monkeypatch):
    monkeypatch.setattr(mining, "mine", None)  # only the federation mines
    ran = fedslim("simulate", "encounters", "--members", 3, "--no-compare", "--json")
    record = json.loads(ran.out)
    assert {name for name in PLAIN if record[name] is None} == COMPARED
    assert record["reference"] is None
    assert "gap" not in fedslim("simulate", "encounters", "--max-rounds", 50, "--no-compare", "--top", 0).out


def test_a_reference_of_ours_and_of_another_program(fedslim, tmp_path):
    simulate = ("simulate", "encounters", "--members", 2)
    ours, theirs = tmp_path / "ours.json", tmp_path / "theirs.json"
    fedslim("mine", "encounters", "--out", ours)
    record = json.loads(fedslim(*simulate, "--reference", ours, "--json").out)
    assert (record["f1"], record["reference"]) == (1.0, str(ours))
    table = {"dataset": "d", "system": "s", "itemsets": [{"items": ["fever", "cough"], "usage": 3}]}
    theirs.write_text(json.dumps(table))
    assert json.loads(fedslim(*simulate, "--max-rounds", 50, "--reference", theirs, "--json").out)["f1"] < 0.1
    assert f"with {theirs}: " in fedslim(*simulate, "--max-rounds", 50, "--reference", theirs).out


# -- what is shown and saved -----------------------------------------------------------------------------------------


def test_people_see_what_was_found_said_and_recovered(fedslim):
    ran = fedslim("simulate", "encounters", "--top", 3)
    assert (ran.code, ran.err) == (0, "")
    found, gap, said, members, summary = ran.out.split("\n\n")
    assert len(found.splitlines()) == 4
    assert [line.split()[-1] for line in said.splitlines()][1:3] == ["Masked", "Ask"]
    assert gap.splitlines()[0].endswith("found together, by no member alone")
    assert [line.split()[0] for line in members.splitlines()[1:]] == ["500"] * 10
    facts = {line[:9].strip(): line[11:] for line in summary.splitlines() if line[0] != " "}
    assert facts["variant"].startswith("x, ")
    assert facts["partition"] == "iid: members 10; seed 0"
    assert facts["itemsets"].endswith("185 candidates tried")
    assert facts["rounds"].endswith("; converged")
    assert " up, " in facts["sent"]
    assert facts["agreement"].startswith("with all data in one place: 140 matched, 0 missed, 0 extra; F1 1.000")
    assert "GRR 1.000" in facts["gap"]
    assert {"masks", "command"}.isdisjoint(facts)


@pytest.mark.parametrize(
    ("supports", "having", "shown"),
    [((3, 1, 0, 2), "3", "3 + 1 + 0 + 2"), ((3, 1, 0, 2) * 4, "12", "0 – 1.5 – 3")],
)
def test_members_without_support_are_not_counted(supports, having, shown):
    gap = SimpleNamespace(recovered=1, found=[True], usage=[9], supports=[supports], items=[(0, 1)])
    run = SimpleNamespace(own=None, table=None, gap=gap, labels=["a", "b"])
    assert [list(column.cells) for column in _gap(run).columns] == [["9"], [having], [shown], ["a, b"]]


def test_a_folder_gets_the_table_and_the_record(fedslim, tmp_path):
    out = tmp_path / "new" / "run"
    printed = json.loads(fedslim("simulate", "encounters", "--members", 3, "--out", out, "--json").out)
    assert sorted(path.name for path in out.iterdir()) == ["codetable.json", "run.json"]
    record = load_run(out)
    assert record.figures == {name: printed[name] for name in record.figures}
    assert (len(record.gap), [own.name for own in record.members]) == (
        printed["gap"],
        ["member-1", "member-2", "member-3"],
    )
    assert CodeTable.load(out / "codetable.json") == record.code_table
    assert record.command == "fedslim simulate encounters --members 3"
    fedslim("simulate", "encounters", "--members", 3, "--no-compare", "--out", out)
    assert load_run(out).gap is None  # nothing of the earlier run is left


def test_a_full_disk_loses_nothing(fedslim, tmp_path, monkeypatch):
    real = CodeTable.save

    def save(table, path):
        if "full" in Path(path).parts:
            msg = f"{path}: cannot be written (No space left on device); check the folder and the disk"
            raise WriteError(msg)
        real(table, path)

    monkeypatch.setattr(CodeTable, "save", save)
    (tmp_path / "spare").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "spare"))
    ran = fedslim("simulate", "encounters", "--members", 3, "--no-compare", "--out", tmp_path / "full", "--json")
    assert ran.code == 1
    assert json.loads(ran.out)["itemsets"] > 0
    (rescued,) = (tmp_path / "spare").iterdir()
    assert f"the code table is saved as {rescued}" in ran.only_line
    assert len(CodeTable.load(rescued)) == json.loads(ran.out)["itemsets"]


def test_without_masks_it_says_so_loudly(fedslim):
    ran = fedslim("simulate", "encounters", "--members", 3, "--no-masking", "--no-compare")
    assert ran.only_line == (
        "fedslim: warning: --no-masking: the server sees every member's counts; for measurements only"
    )
    assert "NONE (--no-masking)" in ran.out
    assert "FOR MEASUREMENTS ONLY" in " ".join(fedslim("simulate", "--help").out.split())
    shown = fedslim("simulate", "encounters", "--max-rounds", 50, "--no-masking", "--no-compare", "--json").out
    record = json.loads(shown)
    assert record["masked"] is False


# -- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "ending"), [(("--max-rounds", 25), "out of rounds"), (("--max-time", 0.000001), "out of time")]
)
def test_limits_keep_the_best_so_far(fedslim, tmp_path, limit, ending):
    ran = fedslim("simulate", "encounters", *limit, "--no-compare", "--out", tmp_path, "--json")
    record = json.loads(ran.out)
    assert (ran.code, record["converged"], record["ending"]) == (0, False, ending)
    assert len(CodeTable.load(tmp_path / "codetable.json")) == record["itemsets"]
    assert ending in fedslim("simulate", "encounters", *limit, "--no-compare", "--top", 0).out


def test_the_first_ctrl_c_keeps_the_best_so_far(terminal, tmp_path):
    run = terminal(
        *("simulate", "accidents-like:20000", "--no-compare", "--out", tmp_path / "run", "--json"),
        stdout=subprocess.PIPE,
    )
    run.wait_for("sent")
    run.process.send_signal(signal.SIGINT)
    record = json.loads(run.process.stdout.read())
    assert run.finish() == 0
    assert "Traceback" not in run.screen
    assert "x over 10 members of accidents-like:20000" in run.screen
    assert (record["ending"], record["converged"]) == ("interrupted", False)
    assert len(CodeTable.load(tmp_path / "run" / "codetable.json")) == record["itemsets"]


INTERRUPTING = """
import signal, sys
from fedslim.cli import main
import fedslim.mdl.mining as engine

real = engine.mine

def mine(database, **how):
    signal.raise_signal(signal.SIGINT)
    return real(database, **how)

engine.mine = mine
sys.exit(main(sys.argv[1:]))
"""


def interrupted(*arguments):
    command = [sys.executable, "-c", INTERRUPTING, "simulate", "encounters", "--members", "3", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_ctrl_c_while_comparing_keeps_what_the_federation_found(tmp_path):
    done = interrupted("--out", tmp_path, "--json")
    record = json.loads(done.stdout)
    assert (done.returncode, record["converged"]) == (0, True)
    assert {name for name in PLAIN if record[name] is None} == COMPARED
    assert sorted(path.name for path in tmp_path.iterdir()) == ["codetable.json", "run.json"]
    assert "not compared: stopped by Ctrl-C" in interrupted().stdout


def test_ctrl_c_before_the_federation_ends_it_with_one_line():
    done = interrupted("--partition", "support-skew")
    said = [line for line in done.stderr.splitlines() if "preparing the engine" not in line]  # printed at first use
    assert (done.returncode, done.stdout, said) == (130, "", ["fedslim: interrupted"])


# -- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["encounters", "--members", 0], "0 is out of range; give a whole number of at least 1"),
        (["encounters", "--members", 5000], "5000 is out of range; give a whole number of at most 4096"),
        (["baskets", "--members", 57], "too few transactions for 57 members; use at most 56"),
        (["baskets", "--members", 57, "--partition", "support-skew"], "too few transactions for 57 members"),
        (["baskets", "--partition", "support-skew"], "each of the 10 members needs a dominant itemset"),
        (["encounters", "--alpha", 0], "0.0 is not a positive number"),
        (["encounters", "--alpha", "nan"], "nan is not a positive number"),
        (["encounters", "--variant", "y"], "'y' is not one of 'x', 'sa', 'so'"),
        (["encounters", "--partition", "even"], "'even' is not one of 'iid', 'dirichlet'"),
        (["encounters", "--width", 0], "0 is out of range; give a whole number of at least 1"),
        (["encounters", "--width", 65], "65 is out of range; give a whole number of at most 64"),
        (["encounters", "--variant", "sa", "--width", 8], "width is for variant x only; sa follows the paper"),
        (["encounters", "--max-rounds", 0], "0 is out of range; give a whole number of at least 1"),
        (["encounters", "--max-time", 0], "0.0 is not a positive number of seconds"),
        (["encounters", "--variant", "so", "--no-masking"], "--no-masking does not go with variant so"),
        (["encounters", "--reference", "none.json"], "none.json: cannot read the reference table"),
        (["encounters", "--reference", "a.json", "--no-compare"], "--reference and --no-compare contradict each other"),
        (["encounters", "--out", "baskets"], "is a file, not a folder"),
        (["no-such-data"], "'no-such-data' is neither an existing file nor the name of a data set"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(fedslim, baskets, arguments, told):
    ran = fedslim("simulate", *(baskets if argument == "baskets" else argument for argument in arguments))
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.only_line


def test_the_reference_is_not_replaced(fedslim, tmp_path):
    reference = tmp_path / "codetable.json"
    fedslim("mine", "encounters", "--out", reference)
    ran = fedslim("simulate", "encounters", "--reference", reference, "--out", tmp_path)
    assert ran.code == 2
    assert "this is the reference and would be overwritten" in ran.only_line


# -- the demo --------------------------------------------------------------------------------------------------------


def test_the_demo_shows_what_no_hospital_finds_alone(fedslim, tmp_path):
    ran = fedslim("demo", "--quiet", "--out", tmp_path)
    assert (ran.code, ran.err) == (0, "")
    rows, found, facts = (part.splitlines() for part in ran.out.split("\n\n"))
    assert rows[0].split()[:3] == ["L%", "itemsets", "F1"]
    assert [row.split()[-1] for row in rows] == ["run", *Variant]
    assert rows[1].split()[:3] == ["57.42", "140", "1.000"]
    row = next(
        line for line in found if "dizziness, high creatinine, ibuprofen, enalapril, hydrochlorothiazide" in line
    )
    assert row.lstrip().startswith("5 + 5 + 5 + 4 + 5 + 4  x")
    assert len(rows) + len(found) + len(facts) < 20
    assert facts[-1].split() == ["report", str(tmp_path / "report.html")]
    assert all(load_run(tmp_path / variant.value).variant == variant.value for variant in Variant)
    assert "Six hospitals, mining together" in (tmp_path / "report.html").read_text()


def test_a_name_that_looks_like_an_option_can_be_typed_again(fedslim, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-my data.dat").write_text("1 2\n1 2\n2 3\n")
    assert fedslim("simulate", "--members", 2, "--no-compare", "--out", "run", "--", "-my data.dat").code == 0
    command = load_run(tmp_path / "run").command
    assert command == "fedslim simulate './-my data.dat' --members 2 --no-compare"
    assert fedslim(*shlex.split(command)[1:]).code == 0
