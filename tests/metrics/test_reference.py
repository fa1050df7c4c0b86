from __future__ import annotations

import json

import pytest

from fedslim.data import TransactionDatabase
from fedslim.errors import CodeTableError
from fedslim.mdl import CodeTable, mine
from fedslim.metrics import fidelity, load_reference, reference as module
from fedslim.metrics.reference import ReferenceTable

GOOD = {
    "dataset": "toy",
    "system": "by hand",
    "itemsets": [{"items": [3, 1], "usage": 7}, {"items": ["x y", "z"], "usage": 2}, {"items": [9], "usage": 4}],
}


@pytest.fixture
def write(tmp_path):
    def writer(content):
        path = tmp_path / "reference.json"
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    return writer


def test_a_reference_is_read_by_label_and_its_singletons_do_not_count(write):
    table = load_reference(write({**GOOD, "settings": "none", "L_percent": 12.5, "candidates": 3, "cpu_seconds": 0.1}))
    assert isinstance(table, ReferenceTable)
    assert [(row.labels, row.usage) for row in table.itemsets] == [(("3", "1"), 7), (("x y", "z"), 2), (("9",), 4)]
    assert (table.dataset, table.system) == ("toy", "by hand")
    assert len(table) == 2


def test_a_reference_may_be_empty(write):
    assert len(load_reference(write({**GOOD, "itemsets": []}))) == 0


def test_a_code_table_of_ours_is_a_reference_too(tmp_path):
    rows = [["bread", "milk"], ["bread", "milk", "tea"], ["tea"]] * 9
    table = mine(TransactionDatabase.from_transactions(rows)).table
    table.save(tmp_path / "table.json")
    loaded = load_reference(str(tmp_path / "table.json"))
    assert isinstance(loaded, CodeTable)
    assert fidelity(loaded, table).f1 == 1.0


def test_every_reference_of_the_other_programs_is_read(reference_folder):
    read_me = (reference_folder / "README.md").read_text()
    for path in sorted(reference_folder.glob("*.json")):
        table = load_reference(path)
        row = next(line for line in read_me.splitlines() if line.startswith(f"| {table.dataset} | {table.system} |"))
        assert int(row.split("|")[4]) == len(table)
        assert fidelity(table, table).rho == 1.0


def test_a_reference_and_our_table_of_the_same_data_share_labels(reference_folder, public_data):
    from fedslim.data import read

    reference = load_reference(reference_folder / "ionosphere.slim-cpp-2014.json")
    vocabulary = set(read(public_data / "ionosphere.dat.gz").vocabulary)
    assert {label for row in reference.itemsets for label in row.labels} <= vocabulary


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "truncated"),
        (b"not json", "malformed"),
        (b"\xff\xfe", "malformed"),
        (b"[]", "Expected `object`"),
        ({"dataset": "x", "system": "y"}, "missing required field `itemsets`"),
        ({**GOOD, "itemsets": [{"items": [1, 2]}]}, "missing required field `usage`"),
        ({**GOOD, "itemsets": [{"items": [1, 2], "usage": 0}]}, ">= 1"),
        ({**GOOD, "itemsets": [{"items": [1, 2], "usage": 1.5}]}, "Expected `int`"),
        ({**GOOD, "itemsets": [{"items": [], "usage": 1}]}, "length >= 1"),
        ({**GOOD, "itemsets": [{"items": [1.5, 2], "usage": 1}]}, "got `float`"),
        ({**GOOD, "itemsets": [{"items": [1, "1"], "usage": 1}]}, "itemset 1 has an item twice"),
        (
            {**GOOD, "itemsets": [*GOOD["itemsets"], {"items": [1, 3], "usage": 1}]},
            "itemset 4 is the same as itemset 1",
        ),
        ({**GOOD, "format": 3}, "Expected `str"),
    ],
)
def test_anything_else_is_refused_with_the_reason(write, content, why):
    path = write(content)
    with pytest.raises(CodeTableError) as caught:
        load_reference(path)
    assert str(caught.value).startswith(f"{path} is not a reference table: ")
    assert why in str(caught.value)
    assert "fedslim mine" in str(caught.value)


def test_a_damaged_code_table_is_reported_as_one(write):
    with pytest.raises(CodeTableError, match="is not a code table that fedslim can use"):
        load_reference(write({"format": "fedslim-code-table"}))


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(CodeTableError, match=r"cannot read .*No such file"):
        load_reference(tmp_path / "nothing.json")


def test_a_file_that_is_too_large_is_refused(write, monkeypatch):
    monkeypatch.setattr(module, "MAX_BYTES", 10)
    with pytest.raises(CodeTableError, match="larger than 10 bytes"):
        load_reference(write(GOOD))
