"""Long tables without a schema: recognised by names and rows, and refused where they are not."""

from __future__ import annotations

import json
import logging
import sqlite3

import pandas as pd
import polars as pl
import pytest
from hypothesis import given, strategies as st

from fedslim.data import encode, encode_together, from_dataframe, load
from fedslim.data.frames import dataframe_table
from fedslim.data.guessing import ATTRIBUTES, ITEMS, TRANSACTIONS, VALUES, guess_long, long_by_name
from fedslim.data.readers import chunks
from fedslim.errors import ParameterError

BASKETS = st.lists(st.sets(st.sampled_from(["milk", "tea", "bread", "7", "Käse"]), min_size=1), min_size=1, max_size=12)
WORDS = TRANSACTIONS | ITEMS | ATTRIBUTES | VALUES


def pairs_of(baskets, names=("order_id", "product")):
    return pd.DataFrame([(t, item) for t, basket in enumerate(baskets) for item in sorted(basket)], columns=names)


def sources(frame, folder):
    """Yield the database of a table from each kind of source."""
    columns = [str(name) for name in frame.columns]
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_parquet(folder / "t.parquet")
    rows = [dict(zip(columns, row, strict=True)) for row in frame.astype(object).to_numpy().tolist()]
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with sqlite3.connect(folder / "t.db") as connection:
        connection.execute("drop table if exists t")
        frame.to_sql("t", connection, index=False)
    connection.close()
    for name in ("t.csv", "t.parquet", "t.jsonl"):
        yield load(folder / name)
    yield load(f"sqlite:///{folder / 't.db'}", table="t")
    yield from_dataframe(frame)
    yield from_dataframe(pl.from_pandas(frame))


@given(BASKETS, st.sampled_from([("order_id", "product"), ("InvoiceNo", "SKU"), ("Visits", "icd code")]))
def test_pairs_are_the_same_item_sets_from_every_source(tmp_path_factory, baskets, names):
    if all(len(basket) == 1 for basket in baskets):
        baskets = [*baskets, {"milk", "tea"}]
    frame = pairs_of(baskets, names)
    wanted = from_dataframe(frame, transaction_column=names[0], item_column=names[1])
    assert [set(row) for row in wanted] == baskets
    for database in sources(frame, tmp_path_factory.mktemp("pairs")):
        assert database == wanted
        assert database.encoding is None
    assert from_dataframe(frame[[*names[::-1]]]) == wanted


@given(
    st.lists(
        st.fixed_dictionaries({}, optional={"sex": st.sampled_from("mf"), "age": st.integers(18, 90).map(str)}),
        min_size=1,
        max_size=40,
    )
)
def test_attributes_with_values_are_like_columns(tmp_path_factory, people):
    people = [{"smoker": "no", "sex": "f"}, *people]
    rows = [(n, name, value) for n, person in enumerate(people) for name, value in person.items()]
    frame = pd.DataFrame(rows, columns=["patient", "variable", "value"])
    wide = pd.DataFrame([person for person in people if person])
    wanted = from_dataframe(wide[sorted(wide.columns)])
    for database in sources(frame, tmp_path_factory.mktemp("values")):
        assert database == wanted
        assert database.encoding == wanted.encoding


@given(st.data())
def test_other_names_are_no_long_table(data):
    names = data.draw(st.lists(st.text("abcdexyz_ ", min_size=1), min_size=2, max_size=3, unique_by=str.strip))
    if any(word in WORDS for name in names for word in (name.strip(), name.strip().rstrip("s"))):
        return
    assert long_by_name(names) is None


@given(
    st.sampled_from([("case", "code"), ("user", "event"), ("patient", "test", "result")]),
    st.lists(st.tuples(*[st.sampled_from("abc")] * 3), min_size=20, max_size=60),
)
def test_rows_that_repeat_each_other_are_no_long_table(names, rows):
    frame = pd.DataFrame([row[: len(names)] for row in rows], columns=names)
    assert guess_long(dataframe_table(frame).columns) is None
    assert from_dataframe(frame) == from_dataframe(frame, long=False)
    assert len(from_dataframe(frame)) == len(rows)


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=40))
def test_one_row_for_each_transaction_is_no_long_table(items):
    frame = pd.DataFrame({"order": range(len(items)), "item": items})
    assert guess_long(dataframe_table(frame).columns) is None


def test_some_repetition_is_allowed_and_a_row_without_a_transaction_is_not():
    frame = pairs_of([{"milk", "tea"}] * 10)
    assert guess_long(dataframe_table(pd.concat([frame, frame[:2]])).columns) == (0, 1)
    assert guess_long(dataframe_table(pd.concat([frame, frame[:3]])).columns) is None
    assert guess_long(dataframe_table(frame.astype(object).mask(frame["order_id"] == 3)).columns) is None
    assert guess_long(dataframe_table(frame.assign(price=1)).columns) is None


def test_it_is_told_and_can_be_refused(caplog):
    frame = pairs_of([{"milk", "tea"}, {"tea"}])
    with caplog.at_level(logging.WARNING, "fedslim.data"):
        assert len(from_dataframe(frame)) == 2
    assert "taken as a long table" in caplog.text
    assert "'order_id'" in caplog.text
    for choices in ({"long": False}, {"columns": ["order_id", "product"]}, {"categorical": ["product"]}):
        assert len(from_dataframe(frame, **choices)) == 3
    assert len(from_dataframe(frame, missing=["milk"]).vocabulary) == 1


def test_any_names_can_be_said_to_be_of_a_long_table():
    frame = pd.DataFrame({"a": [1, 1, 2], "b": ["x", "y", "x"]})
    assert list(from_dataframe(frame, long=True)) == [("x", "y"), ("x",)]
    assert list(from_dataframe(frame.assign(c=["u", "v", "w"]), long=True)) == [("x=u", "y=v"), ("x=w",)]
    with pytest.raises(ParameterError, match="two or three columns"):
        from_dataframe(frame.assign(c=1, d=2), long=True)
    with pytest.raises(ParameterError, match="exclude does not go with a long table"):
        from_dataframe(frame, long=True, exclude=["a"])


def test_later_rows_are_encoded_alike(tmp_path):
    pairs = pairs_of([{"milk", "tea"}, {"tea"}])
    database, encoding = encode(pairs)
    later, _ = encode(pairs[:1], encoding)  # one row does not show that the table is long, the encoding does
    assert list(later) == [("milk",)]
    pairs.to_csv(tmp_path / "t.csv", index=False)
    (chunk,) = chunks(tmp_path / "t.csv", None)
    assert chunk == database
    rows = [(n, "age", 20 + n) for n in range(40)] + [(n, "sex", n % 2) for n in range(40)]
    values = pd.DataFrame(rows, columns=["visit", "attribute", "value"])
    _, encoding = encode(values)
    assert encoding.columns == ("age", "sex")
    new = pd.DataFrame([(1, "age", 21), (1, "dose", 5), (2, "age", 99)], columns=["visit", "attribute", "value"])
    assert list(encode(new, encoding)[0]) == [("age=<24", "dose=5"), ("age=≥56",)]
    new.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    (chunk,) = chunks(tmp_path / "t.jsonl", encoding)
    assert chunk == encode(new, encoding)[0]


def test_the_transactions_of_members_are_their_own():
    one, other = pairs_of([{"milk", "tea"}, {"tea"}]), pairs_of([{"tea"}, {"bread"}])
    databases, _ = encode_together([one, other])
    assert [list(db) for db in databases] == [[("milk", "tea"), ("tea",)], [("tea",), ("bread",)]]
    assert len({db.vocabulary for db in databases}) == 1
    assert [len(db) for db in encode_together([one, other], long=False)[0]] == [3, 2]
