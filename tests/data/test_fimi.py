from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from fedslim.data import TransactionDatabase, fimi, read, textstream, write_fimi
from fedslim.errors import DataError, ParameterError

QUIET = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
item_numbers = st.one_of(st.integers(0, 300), st.integers(0, 2**63 - 1))


@QUIET
@given(
    rows=st.lists(st.lists(item_numbers, max_size=8), min_size=1, max_size=12),
    blanks=st.sampled_from([" ", "\t", "  "]),
)
@example(rows=[[2**63 - 1, 10**18, 10**17]], blanks=" ")
def test_what_is_written_by_hand_is_read_as_sets(rows, blanks, write):
    text = "".join(blanks.join(map(str, row)) + " \n" for row in rows)

    db = read(write("rows.dat", text))

    assert [{int(label) for label in row} for row in db] == [set(row) for row in rows]
    assert list(db.vocabulary) == [str(n) for n in sorted({item for row in rows for item in row})]
    assert db.duplicates_removed == sum(len(row) - len(set(row)) for row in rows)


@QUIET
@given(
    rows=st.lists(st.lists(item_numbers, max_size=8), min_size=1, max_size=12),
    name=st.sampled_from(["again.dat", "again.dat.gz"]),
)
def test_what_is_written_is_read_again(rows, name, tmp_path):
    db = TransactionDatabase.from_transactions(rows)
    assert read(write_fimi(db, tmp_path / name)) == db


@QUIET
@given(chunk=st.integers(1, 40))
def test_the_size_of_the_chunks_makes_no_difference(chunk, write):
    text = "1 22 333\n\n4444 55555\n" * 5
    before, textstream.CHUNK = textstream.CHUNK, chunk
    try:
        db = read(write("a.dat", text))
    finally:
        textstream.CHUNK = before
    assert [tuple(map(int, row)) for row in db] == [(1, 22, 333), (), (4444, 55555)] * 5


def test_blank_lines_are_empty_transactions(write):
    assert list(read(write("a.dat", "1\n\n   \n2"))) == [("1",), (), (), ("2",)]


def test_a_last_line_without_a_line_end_counts(write):
    assert read(write("a.dat", "1 2\n3")).transactions == 2


def test_item_zero_is_an_item_as_in_some_files_of_the_repository(write):
    assert list(read(write("a.dat", "0 1\n"))) == [("0", "1")]


def test_leading_zeros_do_not_make_another_item(write):
    assert read(write("a.dat", "7 007\n" + "0" * 30 + "7\n")).vocabulary == ("7",)


def test_the_database_is_called_after_its_file(write):
    assert read(write("shop.dat", "1\n")).name == "shop"
    assert read(write("shop.dat", "1\n"), name="till").name == "till"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1 2\n3 4 abc\n", r"a\.dat:2: field 3 'abc' is not a positive integer; "),
        ("-1\n", r"a\.dat:1: field 1 '-1' is not a positive integer; "),
        ("1 1.5\n", r"a\.dat:1: field 2 '1\.5' is not a positive integer; "),
        ("1 9223372036854775808\n", r"a\.dat:1: field 2 '9223372036854775808' is too large"),
        ("5\n" + "9" * 5000 + "\n", r"a\.dat:2: field 1 '99999\d*\.\.\.' is too large"),
        ("1 é\n", r"a\.dat:1: field 2 'é' is not a positive integer"),
    ],
)
def test_fields_that_are_no_items_are_named(write, text, says):
    with pytest.raises(DataError, match=says):
        read(write("a.dat", text))


def test_columns_make_no_sense_for_fimi(write):
    with pytest.raises(ParameterError, match="a FIMI file has no columns"):
        read(write("a.dat", "1\n"), transaction_column="t", item_column="i")


def test_labels_that_are_no_numbers_are_numbered_from_one(tmp_path):
    db = TransactionDatabase.from_transactions([["bread", "milk"], ["milk"]])
    assert write_fimi(db, tmp_path / "a.dat").read_text() == "1 2\n2\n"


def test_packed_files_of_equal_data_are_equal(tmp_path):
    db = TransactionDatabase.from_transactions([[1, 2], [3]])
    assert write_fimi(db, tmp_path / "a.dat.gz").read_bytes() == write_fimi(db, tmp_path / "b.dat.gz").read_bytes()


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_how_many_rows_are_written_at_a_time_makes_no_difference(tmp_path, monkeypatch, rows):
    monkeypatch.setattr(fimi, "_ROWS_PER_WRITE", rows)
    db = TransactionDatabase.from_transactions([[1, 2], [], [3], [1], [2, 3], []])
    assert write_fimi(db, tmp_path / "a.dat").read_text() == "1 2\n\n3\n1\n2 3\n\n"


def test_nothing_to_write_is_reported(tmp_path):
    with pytest.raises(DataError, match="would be empty"):
        write_fimi(TransactionDatabase.from_transactions([]), tmp_path / "a.dat")


def test_a_write_that_fails_leaves_the_old_file_and_no_rest(tmp_path, monkeypatch):
    path = tmp_path / "a.dat"
    path.write_text("old")

    def break_off(_db):
        yield b"1 2\n"
        msg = "the disk is full"
        raise OSError(msg)

    monkeypatch.setattr("fedslim.data.fimi._lines", break_off)
    with pytest.raises(DataError, match="cannot be written"):
        write_fimi(TransactionDatabase.from_transactions([[1]]), path)
    assert [p.name for p in tmp_path.iterdir()] == ["a.dat"]
    assert path.read_text() == "old"


@pytest.mark.parametrize("where", ["", "no-such-folder/a.dat"])
def test_a_place_that_cannot_be_written_is_reported(tmp_path, where):
    with pytest.raises(DataError, match=r"cannot be written|not replaced"):
        write_fimi(TransactionDatabase.from_transactions([[1]]), tmp_path / where)


def test_large_item_numbers_need_no_large_memory(write):
    db = read(write("a.dat", "1 9223372036854775807\n4000000000\n"))
    assert db.vocabulary == ("1", "4000000000", "9223372036854775807")
    assert db.items.dtype == np.int32
