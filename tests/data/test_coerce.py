from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from fedslim.data import TransactionDatabase, as_database
from fedslim.errors import DataError

sparse = pytest.importorskip("scipy.sparse", reason="scipy comes with scikit-learn")


def test_a_database_is_taken_as_it_is():
    db = TransactionDatabase.from_transactions([["a"]])
    assert as_database(db) is db
    assert as_database(db, name="other").name == "other"


def test_a_path_is_read(write):
    path = write("a.dat", "1 2\n")
    assert as_database(path) == as_database(str(path)) == as_database([[1, 2]])


@given(hnp.arrays(bool, st.tuples(st.integers(0, 8), st.integers(0, 8))))
def test_arrays_sparse_matrices_and_lists_of_the_same_data_agree(array):
    db = as_database(array)
    assert [set(map(int, row)) for row in db] == [set(np.flatnonzero(row).tolist()) for row in array]
    assert db.n_items == array.shape[1]
    for same in (
        array.astype(np.int8),
        array.astype(float),
        sparse.csr_array(array),
        sparse.coo_array(array.astype(int)),
    ):
        assert as_database(same) == db


def test_an_array_of_texts_has_a_transaction_in_each_row():
    assert list(as_database(np.array([["b", "a"], ["c", "c"]]))) == [("a", "b"), ("c",)]


def test_an_array_of_lists_is_a_list_of_lists():
    array = np.empty(2, object)
    array[:] = [["a"], ["b", "a"]]
    assert list(as_database(array)) == [("a",), ("a", "b")]


def test_any_iterable_of_iterables_is_taken():
    assert list(as_database({n, n + 1} for n in (1, 2))) == [("1", "2"), ("2", "3")]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (7, "cannot convert int to transactions; give a TransactionDatabase"),
        (None, "cannot convert NoneType"),
        (b"1 2", "cannot convert bytes"),
        (np.array([1, 0]), "the array has 1 dimension"),
        (np.array([[1, 2]]), "values other than 0 and 1"),
        (np.array([[1, -1]]), "values other than 0 and 1"),
        (np.array([[1, 0.5]]), "values other than 0 and 1"),
        (np.array([[np.nan, 1]]), "values other than 0 and 1"),
        (sparse.csr_array(np.array([[0, 3]])), "values other than 0 and 1"),
        ("no/such/file.dat", "neither an existing file nor the name of a data set"),
    ],
)
def test_anything_else_is_reported(value, says):
    with pytest.raises(DataError, match=says):
        as_database(value)
