from __future__ import annotations

import json
from math import log2

import pandas as pd
import pytest
from hypothesis import given, strategies as st

from fedslim.data import TransactionDatabase
from fedslim.errors import CodeTableError, DataError, FedslimError, MissingExtraError, WriteError
from fedslim.mdl import CodeTable, Slim, mine
from fedslim.schema import Schema

ROWS = [["bread", "milk", "jam"], ["bread", "milk"], ["jam", "tea"], ["tea"], []] * 6


@pytest.fixture(scope="module")
def table():
    return mine(TransactionDatabase.from_transactions(ROWS)).table


@pytest.fixture
def saved(table, tmp_path):
    path = tmp_path / "table.json"
    table.save(path)
    return path


def test_a_saved_table_comes_back_equal(table, saved):
    assert CodeTable.load(saved) == table


def test_saving_twice_gives_the_same_bytes(saved, tmp_path):
    again = tmp_path / "folder" / "that" / "is" / "made" / "again.json"
    CodeTable.load(saved).save(again)
    assert again.read_bytes() == saved.read_bytes()


def test_a_saved_table_has_one_itemset_on_a_line(table, saved):
    lines = saved.read_text().splitlines()
    assert sum('"items": ["' in line for line in lines) == len(table)
    assert json.loads(saved.read_text())["format"] == "fedslim-code-table"


def test_bits_saved_are_what_the_itemset_is_worth_against_spelling_it_out(table):
    best = table.top(1)[0]
    assert best.labels == ("bread", "milk")
    assert best.bits_saved > 0
    assert [e.bits_saved for e in table.top()] == sorted((e.bits_saved for e in table.itemsets), reverse=True)


def test_of_itemsets_that_save_as_much_the_larger_comes_first_then_that_of_the_first_items():
    """Supports are powers of two, so that 4 + 4 and 2 + 3 + 3 bits are exactly equal."""
    supports = (4, 4, 4, 4, 16, 8, 8, 16)
    found = (((2, 3), 4, 4, 4), ((0, 1), 4, 4, 4), ((4, 5, 6), 4, 4, 4))
    table = CodeTable(tuple("abcdefgh"), 64, supports, (0, 0, 0, 0, 12, 4, 4, 16), found)
    assert len({e.bits_saved for e in table.itemsets}) == 1
    assert [e.items for e in table.top()] == [(4, 5, 6), (0, 1), (2, 3)]
    assert [e.items for e in table.top(2)] == [(4, 5, 6), (0, 1)]
    # 4 of the 48 codes are this itemset's; the row itself costs its code and its spelling.
    assert table.itemsets[0].code_length == pytest.approx(log2(12))
    assert table.itemsets[0].bits_saved == pytest.approx(4 * (8 - log2(12)) - (log2(12) + 8))


def test_occurrences_that_were_merged_have_codes_too():
    table = CodeTable(("a", "b"), 9, (6, 6), (2, 2), (((0, 1), 4, 4, 4),), min_count=2, other=8)
    assert table.total_usage == 16
    assert table.itemsets[0].code_length == 2.0  # 4 of 16


@pytest.mark.parametrize(("singles", "other"), [((1, 2), 0), ((2, 2), 1)])
def test_a_file_holds_no_count_below_the_smallest_that_it_names(tmp_path, singles, other):
    supports = tuple(4 + single for single in singles)
    for least in (1, 2):
        table = CodeTable(("a", "b"), 9, supports, singles, (((0, 1), 4, 4, 4),), min_count=least, other=other)
        table.save(tmp_path / "table.json")
        if least == 1:
            assert CodeTable.load(tmp_path / "table.json") == table
            continue
        with pytest.raises(CodeTableError, match="the count 1"):
            CodeTable.load(tmp_path / "table.json")


def test_compression_is_reported_with_both_ratios(table):
    c = table.compression
    assert c.after.total < c.before.total
    assert c.L_percent == pytest.approx(100 * c.after.total / c.before.total)
    assert c.L_data_percent == pytest.approx(100 * c.after.data / c.before.data)


def test_nothing_to_compress_is_a_hundred_percent():
    empty = mine(TransactionDatabase.from_transactions([[], []])).table
    assert (len(empty), empty.compression.L_percent, empty.compression.L_data_percent) == (0, 100.0, 100.0)


def test_the_frame_has_the_columns_people_expect(table):
    frame = table.to_frame()
    assert list(frame.columns) == ["itemset", "usage", "support", "code_length", "bits_saved"]
    assert len(frame) == len(table.itemsets) + len(table.singletons)


def test_without_pandas_a_polars_frame_and_without_both_a_clear_error(table, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pandas", None)
    assert type(table.to_frame()).__module__.startswith("polars")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'fedslim\[tables\]'"):
        table.to_frame()


def test_the_notebook_view_escapes_labels():
    rows = [["<script>", "b"]] * 9
    html = mine(TransactionDatabase.from_transactions(rows)).table._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def edited(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    return path


BAD = {
    "its format is 'other'": lambda c: c.update(format="other"),
    "version 99": lambda c: c.update(version=99),
    "Invalid enum value 'alphabet'": lambda c: c.update(order="alphabet"),
    "missing required field `items`": lambda c: c.pop("items"),
    "unknown field `extra`": lambda c: c.update(extra=1),
    "listed twice": lambda c: c["items"].append(c["items"][0]),
    "'cheese', which is not in its list": lambda c: c["itemsets"][0]["items"].append("cheese"),
    "has an item twice": lambda c: c["itemsets"][0]["items"].append(c["itemsets"][0]["items"][0]),
    "not in cover order": lambda c: c["itemsets"].append(c["itemsets"][0]),
    "add up to": lambda c: c["itemsets"][0].update(usage=c["itemsets"][0]["usage"] - 1),
    "itemsets\\[0\\].usage": lambda c: c["itemsets"][0].update(usage=0),
    "transactions": lambda c: c.update(transactions=-1),
    "an item with a higher support": lambda c: (c.update(transactions=3), c["itemsets"].clear()),
    "is used 12 times and supported by 3": lambda c: c["itemsets"][0].update(support=3),
    "supported by 31 of 30 transactions": lambda c: c["itemsets"][0].update(support=31),
    "Expected `int`": lambda c: c.update(transactions="many"),
}


@pytest.mark.parametrize(("message", "change"), BAD.items())
def test_a_file_that_is_wrong_is_refused_with_the_reason(saved, message, change):
    with pytest.raises(CodeTableError, match=message) as caught:
        CodeTable.load(edited(saved, change))
    assert str(saved) in str(caught.value)


def test_a_file_that_is_not_there_or_a_folder_is_refused(tmp_path):
    for path in (tmp_path / "nothing.json", tmp_path):
        with pytest.raises(CodeTableError, match="cannot be read"):
            CodeTable.load(path)


def test_a_file_of_a_later_version_is_told_apart_from_a_damaged_one(saved):
    with pytest.raises(
        CodeTableError, match="it is of version 4, and this fedslim reads versions 1 to 3; update fedslim"
    ):
        CodeTable.load(edited(saved, lambda c: c.update(version=4, something_new=True)))


def test_a_file_without_end_is_not_read_to_its_end(saved, monkeypatch):
    monkeypatch.setattr("fedslim.mdl.files.MAX_BYTES", 100)
    for path in ("/dev/zero", saved):
        with pytest.raises(CodeTableError, match="larger than 100 bytes"):
            CodeTable.load(path)


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_cleanly(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("fuzz") / "table.json"
    path.write_bytes(content)
    with pytest.raises(FedslimError):
        CodeTable.load(path)


@given(st.data())
def test_a_damaged_file_is_refused_or_equal(table, tmp_path_factory, data):
    path = tmp_path_factory.mktemp("fuzz") / "table.json"
    table.save(path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        loaded = CodeTable.load(path)
    except CodeTableError:
        return
    assert len(loaded) == len(table)


def test_a_table_that_cannot_be_written_leaves_nothing_behind(table, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(WriteError, match="cannot create its folder"):
        table.save(tmp_path / "file" / "table.json")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


# -- the encoding ------------------------------------------------------------------------------------------------------


@pytest.fixture
def encoded(tmp_path):
    frame = pd.DataFrame({"age": range(20, 60), "city": ["Bonn", "Ulm"] * 20})
    path = tmp_path / "encoded.json"
    Slim().fit(frame).table_.save(path)
    return path


def test_a_table_of_columns_is_written_with_its_encoding_and_others_as_before(encoded, saved):
    assert json.loads(encoded.read_text())["version"] == 3
    assert json.loads(saved.read_text())["version"] == 1
    assert CodeTable.load(saved).encoding is None


@pytest.mark.parametrize(
    "change",
    [
        lambda e: e.update(kind="items"),
        lambda e: e.update(kind="new"),
        lambda e: e.pop("columns"),
        lambda e: e.update(columns="ab"),
        lambda e: e.update(columns=[1, 2]),
        lambda e: e["intervals"].pop(),
        lambda e: e["intervals"][0].update(labels=["a"]),
        lambda e: e["intervals"][0]["cuts"].reverse(),
        lambda e: e["intervals"][0].update(cuts=["a"]),
        lambda e: e.update(kind="schema"),
        lambda e: e.update(kind="schema", schema={"columns": {"a": {"kind": "?"}}}, agreed={"cuts": {}, "kept": {}}),
        lambda e: e.update(more=1),
    ],
)
def test_a_damaged_encoding_is_refused(encoded, change):
    with pytest.raises(CodeTableError, match="its encoding"):
        CodeTable.load(edited(encoded, lambda c: change(c["encoding"])))


def test_an_old_file_of_a_table_says_what_to_do(encoded, tmp_path):
    old = edited(encoded, lambda c: (c.pop("encoding"), c.update(version=1)))
    pd.DataFrame({"age": [30], "city": ["Bonn"]}).to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(DataError, match="mine it again"):
        CodeTable.load(old).code_lengths(tmp_path / "new.csv")


def test_the_encoding_of_a_schema_is_kept(tmp_path):
    frame = pd.DataFrame({"age": range(20, 60), "city": ["Bonn", "ULM"] * 20})
    schema = Schema.of({"columns": {"age": {"kind": "numeric", "bins": 4}, "city": {"kind": "categorical"}}})
    slim = Slim(schema=schema).fit(frame)
    slim.table_.save(tmp_path / "table.json")
    table = CodeTable.load(tmp_path / "table.json")
    assert table.encoding == slim.encoding_
    assert table.code_lengths(frame).tolist() == slim.code_lengths(frame).tolist()
