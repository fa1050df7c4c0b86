from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from scipy import sparse

from fedslim.data import Encoding, as_database, builtin_database, encode
from fedslim.errors import DataError

NUMBERS = pd.DataFrame({"age": range(20, 60), "city": ["Bonn", "Ulm"] * 20})

BOTH = pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])


def cells(values):
    return st.lists(st.one_of(st.none(), values), min_size=30, max_size=30)


columns = st.fixed_dictionaries(
    {},
    optional={
        "number": cells(st.floats(-1e6, 1e6)),
        "whole": st.lists(st.integers(-(2**62), 2**62), min_size=30, max_size=30),
        "gaps": cells(st.integers(0, 40)),
        "word": cells(st.sampled_from(["a", "b", " b", "?", "é", "[1, 2)"])),
        "digits": cells(st.integers(0, 40).map(str)),
        "flag": st.lists(st.booleans(), min_size=30, max_size=30),
        "perhaps": cells(st.booleans()),
        "bit": st.lists(st.integers(0, 1), min_size=30, max_size=30),
    },
).filter(bool)


@settings(max_examples=150)
@given(
    table=columns, chosen=st.lists(st.integers(0, 29), max_size=8), frame=st.sampled_from([pd.DataFrame, pl.DataFrame])
)
def test_rows_have_the_same_items_whichever_rows_are_beside_them(table, chosen, frame):
    df = frame(table)
    whole, encoding = encode(df)
    some = df.iloc[chosen] if isinstance(df, pd.DataFrame) else df[chosen]

    part, same = encode(some, encoding)

    assert [set(row) for row in part] == [set(whole.transaction(t)) for t in chosen]
    assert same == encoding
    assert as_database(df) == whole


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=columns.filter(lambda table: "flag" in table and "word" in table), rows=st.integers(1, 30))
def test_the_same_goes_for_files(table, rows, tmp_path):
    df = pd.DataFrame(table)
    for write in ("to_csv", "to_parquet"):
        path, part = tmp_path / f"all.{write[3:]}", tmp_path / f"part.{write[3:]}"
        getattr(df, write)(path, index=False)
        getattr(df.head(rows), write)(part, index=False)
        whole, encoding = encode(path)
        assert [set(row) for row in encode(part, encoding)[0]] == [set(row) for row in whole][:rows]
        assert as_database(path) == whole


def test_a_csv_file_is_taken_as_the_dataframe_was(write):
    encoding = encode(NUMBERS)[1]
    path = write("a.csv", "city,age\nBonn,20\nUlm,59.0\nRom,?\n")
    assert list(encode(path, encoding)[0]) == [
        ("age=<24", "city=Bonn"),
        ("age=≥56", "city=Ulm"),
        ("city=Rom",),
    ]


@BOTH
def test_values_beyond_the_bounds_belong_to_the_outermost_intervals(frame):
    encoding = encode(NUMBERS)[1]
    db, _ = encode(frame({"city": ["Rom", None, "Ulm"], "age": [-1e300, float("inf"), 24]}), encoding)
    assert list(db) == [("age=<24", "city=Rom"), ("age=≥56",), ("age=[24, 28)", "city=Ulm")]


def test_a_word_in_a_column_that_was_cut_is_an_unknown_item():
    encoding = encode(NUMBERS)[1]
    db, _ = encode(pd.DataFrame({"age": ["young", "1e999"], "city": ["Ulm", "Ulm"]}), encoding)
    assert list(db) == [("age=young", "city=Ulm"), ("age=≥56", "city=Ulm")]


@pytest.mark.parametrize("values", [[2**62, 2**62 + 1, 2**62 + 2], [2**63 + 1, 2**63 + 2, 2**63 + 3]])
def test_large_integers_are_cut_exactly(values):
    db, encoding = encode(pd.DataFrame({"n": [v + 10 * k for k in range(5) for v in values], "k": ["x"] * 15}))
    for t, value in enumerate(v + 10 * k for k in range(5) for v in values):
        assert encode(pd.DataFrame({"n": [value], "k": ["x"]}), encoding)[0].transaction(0) == db.transaction(t)


@BOTH
def test_a_one_hot_table_stays_one_hot_and_a_categorical_one_categorical(frame):
    hot = encode(frame({"milk": [1, 0], "tea": [0, 1]}))[1]
    words = encode(frame({"milk": [1, 0], "tea": [0, 2]}))[1]
    assert (hot.kind, words.kind) == ("one-hot", "categorical")
    assert list(encode(frame({"tea": [1.0, None], "milk": [True, False]}), hot)[0]) == [("milk", "tea"), ()]
    assert list(encode(frame({"milk": [1], "tea": [0]}), words)[0]) == [("milk=1", "tea=0")]


def test_flags_may_come_as_texts(write):
    hot = encode(pd.DataFrame({"milk": [True, False]}))[1]
    assert list(encode(write("a.csv", "milk\nTrue\nfalse\n1\n?\n"), hot)[0]) == [("milk",), (), ("milk",), ()]


@pytest.mark.parametrize("values", [[2], [0.5], ["yes"]])
def test_values_that_are_no_flags_are_reported(values):
    hot = encode(pd.DataFrame({"milk": [True, False]}))[1]
    with pytest.raises(DataError, match="the column 'milk' has values other than 0, 1"):
        encode(pd.DataFrame({"milk": values}), hot)


def test_an_encoding_is_immutable_and_survives_pickling():
    encoding = encode(NUMBERS)[1]
    again = pickle.loads(pickle.dumps(encoding))  # noqa: S301  # our own bytes
    assert again == encoding
    assert hash(again) == hash(encoding)
    with pytest.raises(AttributeError):
        encoding.kind = "items"


@pytest.mark.parametrize("other", [[["age=<24", "never"]], builtin_database()], ids=["lists", "database"])
def test_items_are_taken_by_label_whatever_the_encoding(other):
    encoding = encode(NUMBERS)[1]
    assert encode(other, encoding) == (as_database(other), encoding)


def test_lists_databases_and_fimi_files_decide_nothing(write):
    for plain in ([["a"]], as_database([["a"]]), write("a.dat", "1 2\n"), np.array([["a", "b"]])):
        assert encode(plain)[1] == Encoding("items")


def test_columns_that_are_missing_or_new_are_named():
    encoding = encode(NUMBERS)[1]
    with pytest.raises(DataError, match=r"there is no column 'age'; the model was fitted on .* 'age', 'city'"):
        encode(NUMBERS[["city"]], encoding)
    with pytest.raises(DataError, match="not fitted on the column 'new'"):
        encode(NUMBERS.assign(new=1), encoding)


def test_a_table_where_items_were_fitted_is_reported(write):
    for table in (NUMBERS, write("a.csv", "age\n1\n")):
        with pytest.raises(
            DataError, match="a table with the column 'age', but the model was fitted on lists of items"
        ):
            encode(table, Encoding("items"))


def test_a_matrix_is_a_one_hot_table_called_by_position():
    matrix = np.eye(3, dtype=int)
    db, encoding = encode(matrix)
    assert encode(sparse.csr_array(matrix[:2]), encoding)[0] == encode(matrix[:2], encoding)[0] == db.take([0, 1])
    assert list(encode(pd.DataFrame(matrix), encoding)[0]) == list(db)
    with pytest.raises(DataError, match=r"the matrix has 2 unnamed columns.* fitted on a table with 3 columns"):
        encode(matrix[:, :2], encoding)
    with pytest.raises(DataError, match=r"the matrix has 3 unnamed columns.* fitted on lists of items"):
        encode(matrix, Encoding("items"))
