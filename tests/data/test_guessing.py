from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given, strategies as st

from fedslim.data import encode, from_dataframe, load
from fedslim.data.frames import dataframe_table
from fedslim.data.guessing import guess_column, looks_long
from fedslim.data.parsing import decimal_mark, parse_date, parse_number


def guess(values, name="x", bins=10):
    (column,) = dataframe_table(pd.DataFrame({name: values})).columns
    return guess_column(column, bins)


@pytest.mark.parametrize(
    ("values", "name", "kind", "note"),
    [
        ([f"P{n}" for n in range(30)], "x", "ignore", "identifier"),
        (list(range(30)), "patient_id", "ignore", "identifier"),
        ([str(n) for n in range(30)], "patientId", "ignore", "identifier"),
        (list(range(30)), "valid", "numeric", ""),
        ([f"{n:03}" for n in range(15)] * 2, "icd", "categorical", "leading zeros"),
        ([f"{n},5" for n in range(30)], "x", "numeric", "decimal commas"),
        (["<0.5", *(f"{n}.5" for n in range(30))], "x", "numeric", "<0.5"),
        ([-99, *range(30)], "x", "numeric", "-99 that may mean missing"),
        (["999", *map(str, range(90))], "x", "numeric", "999 that may mean missing"),
        ([-99, -98, *range(30)], "x", "numeric", ""),
        ([f"{n},500" for n in range(100, 130)], "x", "categorical", "thousands"),
        ([f"2026-01-{n:02} 10:00" for n in range(1, 31)], "x", "month", "dates"),
        ([f"31.12.{n}" for n in range(1970, 2000)], "x", "year", "dates"),
        ([None] * 30, "x", "categorical", "empty"),
        ([True, False] * 15, "x", "boolean", ""),
    ],
)
def test_columns_are_recognised(values, name, kind, note):
    found = guess(values, name)
    assert found.kind == kind
    assert note in found.note
    assert bool(found.note) == bool(note)


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=20), st.sampled_from("bif"))
def test_a_one_hot_table_has_the_same_items_in_a_file_and_in_a_dataframe(tmp_path_factory, rows, kind):
    df = pd.DataFrame(rows, columns=["bread", "milk", "tea"]).astype({"b": bool, "i": int, "f": float}[kind])
    path = tmp_path_factory.mktemp("one-hot") / "a.csv"
    df.to_csv(path, index=False)
    assert load(path) == from_dataframe(df, name="a")
    assert load(path).vocabulary == ("bread", "milk", "tea")
    if kind != "f":
        assert load(path, one_hot=False) == from_dataframe(df, one_hot=False, name="a")


def test_guesses_hold_for_later_rows():
    days = [f"2026-{n % 12 + 1:02}-0{n % 9 + 1}" for n in range(36)]
    table = pd.DataFrame({"day": days, "key": [f"k{n}" for n in range(36)], "crp": ["<0,5", "1,25", "7,5"] * 12})
    database, encoding = encode(table.assign(crp=[f"{n},25" for n in range(36)]))
    assert encoding.ignored == ("key",)
    assert "day=2026-03" in database.vocabulary
    later, _ = encode(table[["crp", "day"]][:1], encoding)
    assert list(later) == [("day=2026-01", "crp=<4")]


@pytest.mark.parametrize(
    ("text", "mark", "number"),
    [("-0", ".", 0.0), ("1,5", ",", 1.5), ("1.5", ",", None), ("≤ 2", ".", 2.0), ("1e400", ".", float("inf"))],
)
def test_numbers(text, mark, number):
    assert parse_number(text, mark) == number


def test_limits_are_beyond_their_number_and_factors_exact():
    assert parse_number("<0.5") < 0.5
    assert parse_number("> 9") > 9
    assert parse_number("136", factor=0.1) == 13.6
    assert decimal_mark(["1,5", "2"]) == ","
    assert decimal_mark(["1,500"]) is None
    assert parse_date("2026-02-30") is None


def test_a_long_table_is_recognised():
    pairs = pd.DataFrame([(v, item, 1) for v in range(15) for item in ("a", "b")], columns=["visit", "code", "n"])
    assert looks_long(dataframe_table(pairs).columns) == ("visit", "code")
    assert looks_long(dataframe_table(pd.DataFrame({"a": ["x", "y"] * 20, "b": ["u"] * 40})).columns) is None
