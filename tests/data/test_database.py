from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from fedslim.data import TransactionDatabase
from fedslim.errors import DataError

rows_of_numbers = st.lists(st.lists(st.integers(0, 12), max_size=12), max_size=15)


@given(rows_of_numbers)
def test_pairs_in_any_order_make_the_same_database_as_sets(rows):
    pairs = [(t, item) for t, row in enumerate(rows) for item in row][::-1]
    tids, ids = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    labels = [f"item {i}" for i in range(13)]

    db = TransactionDatabase.from_pairs(tids, ids, labels, transactions=len(rows))

    assert [set(db.item_ids(t).tolist()) for t in range(len(db))] == [set(row) for row in rows]
    assert db.duplicates_removed == sum(len(row) - len(set(row)) for row in rows)
    assert db.supports.tolist() == [sum(item in row for row in rows) for item in range(13)]


@given(rows_of_numbers)
def test_rows_and_pairs_agree(rows):
    lengths = np.array([len(row) for row in rows], np.int64)
    flat = np.array([item for row in rows for item in row], np.int64)
    labels = [str(i) for i in range(13)]
    tids = np.repeat(np.arange(len(rows)), lengths)

    db = TransactionDatabase.from_rows(lengths, flat, labels)

    assert db == TransactionDatabase.from_pairs(tids, flat, labels, transactions=len(rows))
    assert db.duplicates_removed == flat.size - db.occurrences


@given(st.lists(st.lists(st.text(max_size=3), max_size=6), max_size=10))
def test_a_list_of_lists_comes_back_as_sets_of_labels(rows):
    db = TransactionDatabase.from_transactions(rows)

    assert [set(row) for row in db] == [set(row) for row in rows]
    assert list(db.vocabulary) == sorted({item for row in rows for item in row})


def test_numbers_are_ordered_by_value_and_come_before_texts():
    assert TransactionDatabase.from_transactions([[10, 9, "a"]]).vocabulary == ("9", "10", "a")


equals = st.sampled_from([1, 1.0, True, np.int8(1), np.float32(1), np.True_, 0, -0.0, False, 2.5, 2**53, 2.0**53])


@given(st.lists(st.lists(equals, max_size=4), max_size=6), st.randoms(use_true_random=False))
def test_labels_do_not_depend_on_which_of_the_equals_came_first(rows, random):
    order = random.sample(range(len(rows)), len(rows))
    db = TransactionDatabase.from_transactions(rows)
    shuffled = TransactionDatabase.from_transactions([rows[t][::-1] for t in order])
    assert shuffled == db.take(order)


def test_numbers_are_written_by_value_and_booleans_and_dates_by_text():
    day = dt.date(2024, 5, 1)
    db = TransactionDatabase.from_transactions([[1.0, True, day, np.float64(2.5)], np.array([1, 3]), [1e20, "x"]])
    assert db.vocabulary == ("1", "2.5", "3", str(10**20), "2024-05-01", "True", "x")
    assert list(db)[1] == ("1", "3")


def test_missing_values_of_pandas_are_no_items():
    for missing in (pd.NaT, pd.NA):
        with pytest.raises(DataError, match="transaction 1 contains a missing value"):
            TransactionDatabase.from_transactions([[missing]])


def test_items_are_looked_up_in_a_vocabulary_by_what_is_written():
    db = TransactionDatabase.from_transactions([[1.0, True], ["1"]], vocabulary=["True", "1"])
    assert list(db) == [("True", "1"), ("1",)]


def test_empty_transactions_are_kept():
    db = TransactionDatabase.from_transactions([[], ["a"], []])
    assert (db.transactions, db.occurrences) == (3, 1)


def test_a_database_of_nothing_is_a_database():
    db = TransactionDatabase.from_transactions([])
    assert (db.transactions, db.n_items, db.occurrences) == (0, 0, 0)


def test_the_arrays_cannot_be_written_to():
    db = TransactionDatabase.from_transactions([["a"]])
    with pytest.raises(ValueError, match="read-only"):
        db.items[0] = 3


def test_taking_transactions_keeps_their_order_and_the_vocabulary():
    db = TransactionDatabase.from_transactions([["a"], ["b", "c"], []])
    assert list(db.take([1, 1, 2])) == [("b", "c"), ("b", "c"), ()]
    assert db.take([]).vocabulary == db.vocabulary


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (["bread"], "transaction 1 is the string 'bread'"),
        ([[1], 7], "transaction 2 is 7, not a collection"),
        ([[1, "1"]], "same label '1'"),
        ([["a"], ["b", None]], "transaction 2 contains a missing value"),
        ([["a", float("nan")]], "transaction 1 contains a missing value"),
        ([[["a"]]], "transaction 1 contains a value of type list"),
        ([["a"], [object()]], "transaction 2 contains a value of type object"),
        ([[frozenset("ab")]], "transaction 1 contains a value of type frozenset"),
        ([["a", b"a"]], "transaction 1 contains a value of type bytes"),
        ([[1j]], "transaction 1 contains a value of type complex"),
        ([[np.datetime64("NaT", "D")]], "transaction 1 contains a missing value"),
        ([["a"], ["b", "\ud800"]], r"transaction 2 contains the string '\\ud800', which has a lone surrogate"),
        ([["a"], [10**5000]], "transaction 2 contains a number with thousands of digits"),
        ([["a"], [-(10**5000), 0.5]], "transaction 2 contains a number with thousands of digits"),
    ],
)
def test_rows_that_are_no_transactions_are_named(rows, says):
    with pytest.raises(DataError, match=says):
        TransactionDatabase.from_transactions(rows)


def test_an_item_outside_the_vocabulary_is_named():
    with pytest.raises(DataError, match="item 'c' is not in the given vocabulary"):
        TransactionDatabase.from_transactions([["c"]], vocabulary=["a", "b"])


@pytest.mark.parametrize(
    ("offsets", "items", "vocabulary", "says"),
    [
        ([0, 2], [0], "ab", "offsets must start at 0"),
        ([0, 2, 1, 2], [0, 1], "ab", "never decrease"),
        ([0, 1], [2], "ab", "item ids must be between 0 and 1"),
        ([0, 2], [1, 0], "ab", "strictly ascending"),
        ([0, 2], [1, 1], "ab", "strictly ascending"),
        ([0, 1], [0], "aa", "'a' twice"),
    ],
)
def test_arrays_that_contradict_each_other_are_refused(offsets, items, vocabulary, says):
    with pytest.raises(DataError, match=says):
        TransactionDatabase(np.array(offsets, np.int64), np.array(items, np.int32), tuple(vocabulary))


@pytest.mark.parametrize(("tids", "ids"), [([0], [2]), ([0], [-1]), ([1], [0]), ([-1], [0])])
def test_pairs_out_of_range_are_refused_rather_than_wrapped_into_a_neighbour(tids, ids):
    with pytest.raises(DataError, match="must be between"):
        TransactionDatabase.from_pairs(np.array(tids), np.array(ids), ["a", "b"], transactions=1)


def test_a_digest_is_that_of_the_transactions_their_order_and_the_labels():
    rows = [["a", "b"], ["b"]]
    same = [TransactionDatabase.from_transactions(rows, name=name) for name in ("one", "another")]
    others = (
        [["b"], ["a", "b"]],
        [["a", "b"], ["a"]],
        [["a"], ["b"]],
        [["a", "c"], ["c"]],
        [["a", "b", "b"], ["b"], []],
    )
    digests = {database.digest() for database in (*same, *map(TransactionDatabase.from_transactions, others))}
    assert same[0].digest() == same[1].digest()
    assert len(digests) == 1 + len(others)
