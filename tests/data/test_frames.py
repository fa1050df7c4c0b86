from __future__ import annotations

import datetime as dt
import decimal
import sys

import numpy as np
import pytest

from fedslim.data import as_database, from_dataframe, read
from fedslim.errors import DataError, MissingExtraError, ParameterError

pd = pytest.importorskip("pandas", reason="pandas is an extra")
pl = pytest.importorskip("polars", reason="polars is an extra")
pa = pytest.importorskip("pyarrow", reason="pyarrow is an extra")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is an extra")

BOTH = pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])


@BOTH
def test_a_table_of_booleans_has_its_column_names_as_items(frame):
    db = from_dataframe(frame({"milk": [True, False, True], "bread": [True, False, False]}))
    assert list(db) == [("milk", "bread"), (), ("milk",)]


@BOTH
def test_a_table_of_zeros_and_ones_is_one_hot_too(frame):
    assert list(from_dataframe(frame({"milk": [1, 0], "bread": [1, 1]}))) == [("milk", "bread"), ("bread",)]


@BOTH
def test_one_column_that_is_no_flag_makes_the_table_categorical(frame):
    db = from_dataframe(frame({"milk": [True, False], "n": [1, 0], "who": ["b", "a"]}))
    assert db.vocabulary == ("milk=False", "milk=True", "n=0", "n=1", "who=a", "who=b")
    assert list(db) == [("milk=True", "n=1", "who=b"), ("milk=False", "n=0", "who=a")]


@BOTH
def test_missing_values_make_no_item(frame):
    db = from_dataframe(frame({"n": [1.0, None, 2.5], "who": ["a", None, "?"], "x": [None, None, None]}))
    assert list(db) == [("n=1", "who=a"), (), ("n=2.5",)]


@BOTH
def test_numbers_with_many_values_are_cut_as_in_a_file(frame, write):
    ages = list(range(20, 60))
    db = from_dataframe(frame({"age": ages, "k": ["x"] * 40}), bins=4)
    assert db == read(write("a.csv", "age,k\n" + "".join(f"{age},x\n" for age in ages)), bins=4)


@BOTH
def test_dates_and_decimals_are_taken_by_their_text_or_value(frame):
    db = from_dataframe(frame({"d": [dt.date(2024, 5, 1)], "m": [decimal.Decimal("1.50")]}))
    assert db.vocabulary[0] == "d=2024-05-01"
    assert db.vocabulary[1] in {"m=1.50", "m=1.5"}


@BOTH
def test_large_integers_stay_exact(frame):
    big = [2**63 + 1, 2**63 + 2]
    series = np.array(big, np.uint64)
    assert from_dataframe(frame({"id": series})).vocabulary == tuple(f"id={n}" for n in big)


@BOTH
def test_rows_of_pairs_make_transactions(frame):
    df = frame({"t": [7, 3, 7], "i": ["b", "a", "a"]})
    assert list(from_dataframe(df, transaction_column="t", item_column="i")) == [("a", "b"), ("a",)]


@BOTH
def test_lists_in_cells_are_reported(frame):
    with pytest.raises(DataError, match=r"column 'basket' has a .* not a single value"):
        from_dataframe(frame({"basket": [["a"], ["b"]]}))


@BOTH
def test_a_table_without_columns_is_reported(frame):
    with pytest.raises(DataError, match="the DataFrame: the table has no columns"):
        from_dataframe(frame({}))


def test_nullable_and_categorical_columns_of_pandas_are_taken():
    df = pd.DataFrame(
        {
            "flag": pd.array([True, None, False], dtype="boolean"),
            "count": pd.array([3, None, 12], dtype="Int64"),
            "share": pd.array([0.5, None, 1.0], dtype="Float64"),
            "size": pd.Categorical(["10", None, "9"]),
            "word": pd.array(["x", None, "y"], dtype="string"),
        }
    )
    assert list(from_dataframe(df)) == [
        ("flag=True", "count=3", "share=0.5", "size=10", "word=x"),
        (),
        ("flag=False", "count=12", "share=1", "size=9", "word=y"),
    ]


def test_categories_stay_whole_even_if_they_are_many_numbers():
    codes = [str(n) for n in range(30)]
    assert from_dataframe(pd.DataFrame({"zip": pd.Categorical(codes)})).n_items == 30
    assert from_dataframe(pl.DataFrame({"zip": pl.Series(codes, dtype=pl.Categorical)})).n_items == 30


def test_values_of_several_types_are_named_alike_in_any_order():
    values = [1, 1.0, True, "1", None, 0.5, np.float32(0.5)]
    db = from_dataframe(pd.DataFrame({"x": pd.Series(values, dtype=object)}))
    other = from_dataframe(pd.DataFrame({"x": pd.Series(values[::-1], dtype=object)}))
    assert list(db) == [("x=1",), ("x=1",), ("x=True",), ("x=1",), (), ("x=0.5",), ("x=0.5",)]
    assert list(other) == list(db)[::-1]


@pytest.mark.parametrize("value", [object(), frozenset("a"), b"a", "\ud800", 10**5000, {"a": 1}], ids=type)
def test_cells_that_cannot_be_written_are_reported(value):
    with pytest.raises(DataError, match=r"column 'x' has .* \(row 2\)"):
        from_dataframe(pd.DataFrame({"x": pd.Series(["a", value], dtype=object)}))


def test_column_names_that_cannot_be_written_are_reported():
    with pytest.raises(DataError, match=r"the name of column 1 is the string .* lone surrogate"):
        from_dataframe(pd.DataFrame([[1]], columns=pd.Index(["\ud800"], dtype=object)))


def test_integers_of_128_bits_are_taken_exactly():
    df = pl.DataFrame({"n": pl.Series([2**100, None, 7], dtype=pl.Int128)})
    assert list(from_dataframe(df)) == [(f"n={2**100}",), (), ("n=7",)]
    many = pl.DataFrame({"n": pl.Series(range(40), dtype=pl.Int128)})
    assert from_dataframe(many, bins=4).vocabulary == ("n=<10", "n=[10, 20)", "n=[20, 30)", "n=≥30")


def test_a_missing_flag_of_pandas_is_not_set():
    df = pd.DataFrame({"a": pd.array([True, None], dtype="boolean"), "b": [True, True]})
    assert list(from_dataframe(df)) == [("a", "b"), ("b",)]


def test_columns_of_pandas_that_share_a_name_are_reported():
    with pytest.raises(DataError, match="columns 1 and 2 are both named 'a'"):
        from_dataframe(pd.DataFrame([[1, 2]], columns=["a", "a"]))


def test_columns_of_pandas_may_be_numbers():
    assert list(from_dataframe(pd.DataFrame(np.eye(2, dtype=bool)))) == [("0",), ("1",)]


def test_anything_but_a_dataframe_is_reported():
    with pytest.raises(DataError, match="dict is not a DataFrame or an Arrow stream"):
        from_dataframe({"a": [1]})


@BOTH
def test_a_dataframe_is_taken_by_as_database(frame):
    assert list(as_database(frame({"a": [True]}), name="mine")) == [("a",)]


# -- Parquet -----------------------------------------------------------------------------------------------------------


def test_parquet_is_read_as_a_categorical_table(tmp_path):
    table = pa.table(
        {
            "who": ["b", None, "a"],
            "n": pa.array([10, 9, None], pa.int64()),
            "x": [0.5, None, float("nan")],
            "ok": [True, None, False],
            "size": pa.array(["10", "9", None]).dictionary_encode(),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    db = read(tmp_path / "a.parquet")
    assert list(db) == [("who=b", "n=10", "x=0.5", "ok=True", "size=10"), ("n=9", "size=9"), ("who=a", "ok=False")]
    assert db.name == "a"


def test_parquet_of_flags_is_one_hot_and_of_pairs_is_long(tmp_path):
    pq.write_table(pa.table({"milk": [True, False], "bread": [None, True]}), tmp_path / "hot.parquet")
    assert list(read(tmp_path / "hot.parquet")) == [("milk",), ("bread",)]
    pq.write_table(pa.table({"t": ["x", "y", "x"], "i": [10, 9, 9]}), tmp_path / "long.pq")
    assert list(read(tmp_path / "long.pq", transaction_column="t", item_column="i")) == [("9", "10"), ("9",)]


@pytest.mark.parametrize("content", [b"not parquet at all", b"PAR1" + bytes(50) + b"PAR1"])
def test_a_damaged_parquet_file_is_reported(write, content):
    with pytest.raises(DataError, match=r"a\.parquet: cannot be read as Parquet"):
        read(write("a.parquet", content))


def test_parquet_without_rows_is_reported(tmp_path):
    pq.write_table(pa.table({"a": pa.array([], pa.string())}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="the table has no rows"):
        read(tmp_path / "a.parquet")


@pytest.mark.parametrize("make", ["missing", "folder", "empty"])
def test_parquet_paths_that_are_no_files_are_reported_in_the_same_words(tmp_path, make):
    path = tmp_path / "a.parquet"
    if make == "folder":
        path.mkdir()
    elif make == "empty":
        path.touch()
    with pytest.raises(DataError, match=r"no such file|is a folder|is empty"):
        read(path)


def test_parquet_without_a_library_says_what_to_install(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'fedslim\[tables\]'"):
        read(write("a.parquet", b"x"))


def test_bins_are_checked_for_tables():
    with pytest.raises(ParameterError, match="bins is 1"):
        from_dataframe(pd.DataFrame({"a": ["x"]}), bins=1)


def test_the_index_of_pandas_makes_no_items(tmp_path):
    df = pd.DataFrame({"a": ["x", "y", "x"], "b": ["p", "q", "q"]})
    pairs = pd.MultiIndex.from_tuples([(1, "r"), (2, "s"), (3, "t")], names=["n", None])
    for number, index in enumerate((None, [5, 9, 7], pd.Index(["u", "v", "w"], name="id"), pairs)):
        df.set_axis(range(3) if index is None else index, axis=0).to_parquet(tmp_path / f"{number}.parquet")
        assert read(tmp_path / f"{number}.parquet") == from_dataframe(df)


def test_the_index_of_pandas_may_be_asked_for_by_name(tmp_path):
    df = pd.DataFrame({"thing": ["b", "a", "a"]}, index=pd.Index([7, 3, 7], name="order"))
    df.to_parquet(tmp_path / "a.parquet")
    db = read(tmp_path / "a.parquet", transaction_column="order", item_column="thing")
    assert list(db) == [("a", "b"), ("a",)]
