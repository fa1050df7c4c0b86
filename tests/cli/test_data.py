from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from fedslim.data import data_names, load, store
from fedslim.data.store import PublicSet

CONTENT = b"1 2\n2 3\n"


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """The only public data set, in its own folder."""
    digest = hashlib.sha256(CONTENT).hexdigest()
    record = PublicSet("tiny", "Tiny", 2, 3, "2", "our own", "free", "nobody", sha256=digest, by_hand="write it")
    monkeypatch.setattr(store, "_SETS", (record,))
    folder = tmp_path / "downloads"
    folder.mkdir()
    (folder / "tiny.dat").write_bytes(CONTENT)
    return folder


# -- list ------------------------------------------------------------------------------------------------------------


def test_the_list_names_everything_that_load_knows(fedslim):
    ran = fedslim("data", "list")
    assert (ran.code, ran.err) == (0, "")
    assert [name for name in data_names() if f"\n{name} " not in ran.out] == []
    assert "CC BY 4.0" in ran.out


def test_the_list_says_what_is_here(fedslim, tiny):
    def at_hand(*more):
        rows = [line.split() for line in fedslim("data", "list", *more).out.splitlines()]
        return next(row[4] for row in rows if row[:1] == ["tiny"])

    assert at_hand() == "no"
    assert at_hand("--from", tiny) == "yes"


def test_the_list_as_json(fedslim, tiny):
    sets = json.loads(fedslim("data", "list", "--json", "--from", tiny).out)["sets"]
    assert {each["kind"] for each in sets} == {"built in", "public", "generated"}
    found = next(each for each in sets if each["name"] == "tiny")
    assert (found["path"], found["licence"]) == (str(tiny / "tiny.dat"), "free")
    assert all({"name", "title", "transactions", "items", "length"} <= set(each) for each in sets)


# -- get -------------------------------------------------------------------------------------------------------------


def test_get_prints_the_path_and_nothing_else(fedslim, tiny):
    ran = fedslim("data", "get", "tiny", "--from", tiny)
    assert (ran.code, ran.err) == (0, "")
    assert Path(ran.out.removesuffix("\n")).read_bytes() == CONTENT


def test_what_was_got_can_be_mined_by_name(fedslim, tiny):
    fedslim("data", "get", "tiny", "--from", tiny)
    ran = fedslim("mine", "tiny", "--json")
    record = json.loads(ran.out)
    assert (ran.code, record["data"], record["transactions"], record["items"]) == (0, "tiny", 2, 3)


def test_a_wrong_file_is_refused(fedslim, tiny):
    (tiny / "tiny.dat").write_bytes(CONTENT + b"4\n")
    ran = fedslim("data", "get", "tiny", "--from", tiny)
    assert ran.code == 2
    assert "not the public set tiny" in ran.only_line


# -- describe --------------------------------------------------------------------------------------------------------


def test_describe(fedslim, tmp_path):
    path = tmp_path / "d.dat"
    path.write_text("1 2 2 3\n\n1\n1 3\n")
    record = json.loads(fedslim("data", "describe", path, "--json", "--top", 2).out)
    assert record == {
        "data": str(path),
        "transactions": 4,
        "items": 3,
        "occurrences": 6,
        "length_min": 0,
        "length_mean": 1.5,
        "length_max": 3,
        "density": 0.5,
        "empty": 1,
        "duplicates_removed": 1,
        "frequent": [{"item": "1", "support": 3}, {"item": "3", "support": 2}],
        "columns": [],
    }
    told = fedslim("data", "describe", path).out
    assert "transactions  4, of which 1 empty\n" in told
    assert "length        0 to 3 items, 1.50 on average\n" in told
    assert "      3  75.0  1\n" in told


def test_describe_without_items(fedslim, tmp_path):
    path = tmp_path / "d.dat"
    path.write_text("\n\n")
    ran = fedslim("data", "describe", path)
    assert ran.code == 0
    assert "most frequent" not in ran.out


def test_describe_shows_hostile_labels_harmlessly(fedslim, tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("a\n\x1b[31m[red]\n")
    ran = fedslim("data", "describe", path)
    assert "a=\ufffd[31m[red]" in ran.out
    assert "\x1b" not in ran.out


# -- make ------------------------------------------------------------------------------------------------------------


def test_make_writes_what_load_makes(fedslim, tmp_path):
    out = tmp_path / "new" / "wide.dat.gz"
    ran = fedslim("data", "make", "wide-sparse", "--transactions", 30, "--seed", 5, "--out", out)
    assert (ran.code, ran.out, ran.err) == (0, f"{out}: 30 transactions, 20,000 items\n", "")
    assert list(load(out)) == list(load("wide-sparse:30", seed=5))


def test_make_says_what_becomes_of_labels(fedslim, tmp_path):
    ran = fedslim("data", "make", "encounters", "--out", tmp_path / "e.dat")
    assert ran.code == 0
    assert "1 is 'child'" in ran.only_line
    assert len(load(tmp_path / "e.dat")) == 5000


def test_make_says_less_if_asked(fedslim, tmp_path):
    assert fedslim("data", "make", "encounters", "--out", tmp_path / "e.dat", "--quiet").err == ""


def test_a_long_table_is_described_and_can_be_refused(fedslim, tmp_path):
    (tmp_path / "sales.csv").write_text("order,product\n1,bread\n1,milk\n2,milk\n")
    (tmp_path / "visits.csv").write_text("visit,test,result\n1,rash,yes\n1,smoker,no\n2,rash,no\n")

    def described(*arguments):
        ran = fedslim("data", "describe", *arguments, "--json")
        assert ran.code == 0
        record = json.loads(ran.out)
        return record["transactions"], {each["name"]: each["kind"] for each in record["columns"]}, ran.err

    transactions, columns, told = described(tmp_path / "sales.csv")
    assert (transactions, columns) == (2, {"order": "transaction", "product": "item"})
    assert "--no-long" in told
    transactions, columns, told = described(tmp_path / "sales.csv", "--no-long")
    assert (transactions, columns, told) == (3, {"order": "categorical", "product": "categorical"}, "")
    transactions, columns, _ = described(tmp_path / "visits.csv")
    assert transactions == 2
    assert columns == {
        "visit": "transaction",
        "test": "attribute",
        "result": "value",
        "rash": "categorical",
        "smoker": "categorical",
    }
    saved = fedslim("mine", tmp_path / "visits.csv", "--out", tmp_path / "table.json")
    assert saved.code == 0
    assert fedslim("score", tmp_path / "table.json", tmp_path / "visits.csv").code == 0
    assert '"intervals"' in (tmp_path / "table.json").read_text()
