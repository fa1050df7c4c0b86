"""`--labels` names items from a catalogue."""

from __future__ import annotations

import json

import pytest

from fedslim.data import ItemSecret, Vocabulary, labels_for, load, over, read_labels
from fedslim.data.vocabulary import names_for
from fedslim.errors import DataError
from fedslim.mdl.mining import mine

SECRET = ItemSecret.from_random(bytes(range(32)))


@pytest.fixture
def unnamed(tmp_path, monkeypatch):
    """A code table whose items are known by their ids, but for one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("drug,sign\n" + "ibuprofen,rash\n" * 9 + "aspirin,fever\n" * 8)
    table = mine(load("a.csv")).table
    ids = {label: f"#{SECRET.id_of(label).hex()}" for label in table.vocabulary if label != "sign=rash"}
    table.renamed(ids).save("table.json")
    SECRET.write("members.secret")
    (tmp_path / "codes.csv").write_text(
        'sign=rash,redness of the skin\ndrug=ibuprofen,"tablets, 400 mg"\n"sign=cough"\n\ndrug=aspirin\n'
    )
    (tmp_path / "codes.txt").write_text("sign=rash\ndrug=ibuprofen\n")
    return table


def shown(ran):
    return {label for row in json.loads(ran.out)["top"] for label in row["items"]}


@pytest.mark.usefixtures("unnamed")
def test_show_names_items(fedslim):
    assert sum(label.startswith("#") for label in shown(fedslim("show", "table.json", "--json"))) == 3
    texts = shown(fedslim("show", "table.json", "--json", "--labels", "codes.csv"))
    assert "sign=rash redness of the skin" in texts
    named = shown(fedslim("show", "table.json", "--json", "--labels", "codes.csv", "--secret", "members.secret"))
    assert {"sign=rash redness of the skin", "drug=ibuprofen tablets, 400 mg", "drug=aspirin"} < named
    assert sum(label.startswith("#") for label in named) == 1
    plain = shown(fedslim("show", "table.json", "--json", "--labels", "codes.txt", "--secret", "members.secret"))
    assert {"sign=rash", "drug=ibuprofen"} < plain
    assert "3 shown by id, without a name here" in fedslim("show", "table.json").out


def test_a_report_names_items(fedslim, tmp_path):
    out = tmp_path / "run"
    assert fedslim("simulate", "encounters", "--members", 2, "--max-rounds", 3, "--no-compare", "--out", out).code == 0
    (tmp_path / "codes.csv").write_text("metformin,a drug against diabetes\n")
    assert fedslim("report", out, "--labels", tmp_path / "codes.csv").code == 0
    assert "metformin a drug against diabetes" in (out / "report.html").read_text("utf-8")


def test_a_catalogue_is_read_and_used_in_python(unnamed):
    catalogue = read_labels("codes.csv")
    assert catalogue == {
        "sign=rash": "redness of the skin",
        "drug=ibuprofen": "tablets, 400 mg",
        "sign=cough": "",
        "drug=aspirin": "",
    }
    agreed = Vocabulary.of(sorted(unnamed.vocabulary), SECRET)
    named = labels_for(agreed, SECRET, catalogue)
    assert sorted(label for label in named if not label.startswith("#")) == [
        "drug=aspirin",
        "drug=ibuprofen",
        "sign=rash",
    ]
    assert names_for({"a": ""}, SECRET) == {"a": "a", f"#{SECRET.id_of('a').hex()}": "a"}
    assert len(over(load("a.csv"), agreed, SECRET)) == 17
    with pytest.raises(DataError, match="no such file"):
        read_labels("nothing.csv")


def test_a_catalogue_that_cannot_be_read_is_reported(fedslim, unnamed):  # noqa: ARG001
    ran = fedslim("show", "table.json", "--labels", "nothing.csv")
    assert (ran.code, "nothing.csv" in ran.only_line) == (2, True)
