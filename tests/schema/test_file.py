from __future__ import annotations

import contextlib
import json
import pickle

import pandas as pd
import pytest
from hypothesis import given, strategies as st

from fedslim.data import Encoding, encode
from fedslim.errors import ConfigurationError, DataError, FedslimError
from fedslim.schema import Schema, encoding_from_dict

FULL = """
[table]
missing = ["-99"]
new = "error"

[columns.sex]
kind = "categorical"
aliases = ["Geschlecht"]
categories = ["female", "male"]
unknown = "other"
synonyms = { female = ["f", "w"], male = ["m"] }

[columns."blood group"]
kind = "categorical"
fold_case = false
cap = 4
optional = true

[columns.hb]
kind = "numeric"
unit = "g/dL"
units = { "g/L" = 0.1 }
alias_units = { hb_g_per_l = "g/L" }
resolution = 0.1
bins = 4
range = [3, 25]

[columns.age]
kind = "numeric"
cuts = [18, 65]

[columns.smoker]
kind = "boolean"
synonyms = { true = ["ja"], false = ["nein"] }

[columns.admitted]
kind = "date"
part = "weekday"

[columns.patient]
kind = "ignore"
"""


def parse(text):
    return Schema.parse(text.encode(), "schema.toml")


def test_a_schema_is_the_same_after_writing_reading_and_json(tmp_path):
    schema = parse(FULL)
    schema.write(tmp_path / "again.toml")
    again = Schema.read(tmp_path / "again.toml")
    assert again == schema == Schema.of(json.loads(json.dumps(schema.to_dict()))) == pickle.loads(pickle.dumps(schema))  # noqa: S301  # our own
    assert again.text() == schema.text()
    assert schema.open_columns == ("hb",)
    assert schema.capped_columns == ("blood group",)


def test_the_digest_is_that_of_the_meaning():
    schema = parse(FULL)
    commented = FULL.replace("[columns.age]", "# years\n[columns.age]\noptional = false")
    assert parse(commented).digest() == schema.digest()
    assert len(schema.digest()) == 32
    for changed in (("18, 65", "18, 66"), ('"f", "w"', '"f"'), ("[columns.age]", "[columns.Age]")):
        assert parse(FULL.replace(*changed)).digest() != schema.digest()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", r"columns: write a table \[columns.NAME\]"),
        ("columns = 3", "columns: write a table"),
        ("[column.a]\nkind = 'ignore'", "did you mean columns"),
        ("[columns.a]", r"columns.a.kind: missing"),
        ("[columns.a]\nkind = 'number'", r"columns.a.kind: 'number' cannot be used"),
        ("[columns.a]\nkind = 'numeric'\nbin = 3", r"columns.a.bin: unknown key; did you mean bins"),
        ("[columns.a]\nkind = 'numeric'\nbins = 1", "from 2 to"),
        ("[columns.a]\nkind = 'numeric'\nbins = 3\ncuts = [1]", "remove bins or cuts"),
        ("[columns.a]\nkind = 'numeric'\ncuts = [2, 1]", "ascending"),
        ("[columns.a]\nkind = 'numeric'\nresolution = 0", "above 0"),
        ("[columns.a]\nkind = 'numeric'\nresolution = nan", "above 0"),
        ("[columns.a]\nkind = 'numeric'\nrange = [1]", "a list of 2 numbers"),
        ("[columns.a]\nkind = 'numeric'\nunits = { x = inf }", "columns.a.units"),
        ("[columns.a]\nkind = 'numeric'\nalias_units = { b = 'kg' }", "'kg'"),
        ("[columns.a]\nkind = 'categorical'\nbins = 3", "for numeric columns, not for categorical"),
        ("[columns.a]\nkind = 'categorical'\ncategories = ['x']\nsynonyms = { y = ['z'] }", "'y' is not one of x"),
        ("[columns.a]\nkind = 'ignore'\n[columns.A]\nkind = 'ignore'", "both called 'a'"),
        ("[columns.a]\nkind = 'ignore'\naliases = 'b'", "list of"),
        ("[columns.' a']\nkind = 'ignore'", "without spaces at either end"),
        ("[table]\nitem = 'a'\n[columns.a]\nkind = 'categorical'", "both transaction and item"),
        ("[table]\ntransaction = 't'\nitem = 'a'\n[columns.b]\nkind = 'categorical'", "remove other columns"),
    ],
)
def test_a_mistake_gets_one_sentence_that_names_the_key(text, told):
    with pytest.raises(ConfigurationError, match=told) as error:
        parse(text)
    assert str(error.value).startswith("schema.toml")
    assert "\n" not in str(error.value)


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode(errors="replace")))
def test_any_bytes_are_a_schema_or_a_clear_error(data):
    with contextlib.suppress(FedslimError):
        Schema.parse(b'[columns.a]\nkind = "numeric"\n' + data, "schema.toml")


def test_later_rows_are_encoded_as_the_first_were():
    schema = Schema.of({"columns": {"age": {"kind": "numeric", "bins": 2}, "sex": {"kind": "categorical", "cap": 2}}})
    database, encoding = encode(pd.DataFrame({"age": range(40), "sex": ["m", "f"] * 20}), schema=schema)
    assert database.vocabulary == ("age=<20", "age=≥20", "sex=f", "sex=m")
    again = encoding_from_dict(json.loads(json.dumps(encoding.to_dict())))
    assert again == encoding == pickle.loads(pickle.dumps(encoding))  # noqa: S301  # our own
    later, _ = encode(pd.DataFrame({"SEX": ["F", "x"], "age": [999, None]}), again)
    assert list(later) == [("age=≥20", "sex=f"), ("sex=other",)]


def test_encodings_without_a_schema_can_be_kept_too():
    table = pd.DataFrame({"n": range(40), "c": ["x", "y"] * 20, "day": [f"2026-01-{d % 28 + 1:02}" for d in range(40)]})
    _, encoding = encode(table, exclude=["c"])
    again = encoding_from_dict(json.loads(json.dumps(encoding.to_dict())))
    assert isinstance(again, Encoding)
    assert again == encoding
    assert list(encode(table[:1], again)[0]) == [("n=<4", "day=2026-01")]


def test_a_schema_is_for_tables():
    schema = Schema.of({"columns": {"age": {"kind": "ignore"}}})
    with pytest.raises(FedslimError, match="schema does not go with"):
        encode([["a", "b"]], schema=schema)
    with pytest.raises(DataError, match="none of the schema"):
        encode(pd.DataFrame({"b": [1]}), schema=Schema.of({"columns": {"age": {"kind": "numeric"}}}))
