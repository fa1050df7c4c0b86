from __future__ import annotations

import pandas as pd
import polars as pl
import pytest
from tests.schema.test_file import FULL, parse

from fedslim.data.frames import dataframe_table
from fedslim.data.readers import read_table
from fedslim.errors import DataError
from fedslim.schema import Agreed, Conformed, Schema, agree, conform

HOSPITALS = {
    "north": "hb,sex,age,smoker,admitted,patient\n13.6,M,70,yes,2026-03-02,1\n9.1,F,17,no,2026-03-03,2\n",
    "south": "Geschlecht;age;HB (g/L);SMOKER;patient;admitted\nmale;70;136;ja;1;02.03.2026\nw;17;91;nein;2;3.3.2026\n",
    "east": "age,sex,hb_g_per_l,admitted,smoker\n70, m ,136.0,2026/3/2,1\n17,Female,91,2026-03-03 12:00:00,0\n",
}


@pytest.fixture
def table(tmp_path):
    def made(text, name="a.csv"):
        path = tmp_path / name
        path.write_text(text.replace(";", ","), encoding="utf-8")
        return read_table(path)

    return made


def column(schema, name, table):
    return next(each for each in Conformed(schema, table).report if each.name == name)


def test_the_report_names_a_few_categories(table):
    schema = Schema.of({"columns": {"x": {"kind": "categorical"}, "y": {"kind": "categorical"}}})
    rows = table("x;y\n" + "".join(f"{'ab'[n % 2]};{n}\n" for n in range(9)))
    assert column(schema, "x", rows).becomes == "2 items: a, b"
    assert column(schema, "y", rows).becomes == "9 items: 0, 1, 2, 3, …"


def test_units_spellings_order_and_names_are_unified(table):
    schema = parse(FULL)
    sites = [conform(schema, table(text)) for text in HOSPITALS.values()]
    agreed = agree(schema, sites)
    rows = [list(map(set, site.items(agreed))) for site in sites]
    assert rows[0] == rows[1] == rows[2]
    assert {"sex=male", "age=≥65", "smoker", "admitted=Monday"} < rows[0][0]
    assert {"sex=female", "age=<18", "admitted=Tuesday"} < rows[0][1]
    assert not any("smoker" in item or "patient" in item for item in rows[0][1])
    assert agreed.cuts == {"hb": (9.1, 13.6, 13.7)}


@pytest.mark.parametrize("header", ["Bilirubin (total) [g/L]", "bilirubin (total)(G/L)", "Bilirubin (total) (g/L)"])
def test_a_header_names_a_unit_after_a_name_with_brackets(table, header):
    rule = {"kind": "numeric", "unit": "g/dL", "units": {"g/L": 0.1}, "cuts": [5.0]}
    site = conform(Schema.of({"columns": {"Bilirubin (total)": rule}}), table(f"{header};n\n40;1\n60;2\n"))
    assert site.values("Bilirubin (total)").tolist() == [4.0, 6.0]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_a_dataframe_and_a_file_give_the_same_items(frame, tmp_path):
    schema = parse(FULL)
    rows = {"hb": [13.6, None, 7.25], "sex": ["M", "f", None], "age": [1, 20, 99], "smoker": [True, False, True]}
    df = frame(rows | {"admitted": ["2026-03-01"] * 3})
    (df.to_csv if frame is pd.DataFrame else df.write_csv)(
        tmp_path / "a.csv", **({"index": False} if frame is pd.DataFrame else {})
    )
    one, other = conform(schema, dataframe_table(df)), conform(schema, read_table(tmp_path / "a.csv"))
    agreed = agree(schema, [one])
    assert list(one.items(agreed)) == list(other.items(agree(schema, [other])))


@pytest.mark.parametrize(
    ("name", "rule", "values", "told"),
    [
        ("hb", {"kind": "numeric", "range": [3, 25], "units": {"g/L": 0.1}}, ["136", "91", "120"], "looks like g/L"),
        ("hb", {"kind": "numeric", "range": [3, 25]}, ["13600", "9100", "12000"], "by a factor of 1000"),
        ("hb", {"kind": "numeric", "range": [3, 25]}, ["77", "99", "78"], "check the column and its unit|factor"),
        ("hb", {"kind": "numeric"}, ["13.6", "high"], "'high' is not readable as a number"),
        ("hb", {"kind": "numeric"}, ["1,234", "2,345"], "may be a thousand or one"),
        (
            "sex",
            {"kind": "categorical", "categories": ["male", "female"]},
            ["M", "F"],
            "are not among the categories of the schema; add them",
        ),
        ("dead", {"kind": "boolean"}, ["yes", "perhaps"], "'perhaps' is neither true nor false"),
        ("day", {"kind": "date"}, ["2026-02-30", "2026-02-28"], "'2026-02-30' is not readable as a date"),
        ("day", {"kind": "date", "date_format": "%m/%d/%Y"}, ["2026-02-01"], "as a date"),
    ],
)
def test_what_does_not_fit_is_told_in_one_sentence(table, name, rule, values, told):
    schema = Schema.of({"columns": {name: rule, "more": {"kind": "ignore"}}})
    rows = table(f"{name};more\n" + "".join(f'"{value}";1\n' for value in values))
    with pytest.raises(DataError, match=told) as error:
        conform(schema, rows)
    assert "\n" not in str(error.value)
    assert "a.csv" in str(error.value)
    assert repr(name) in str(error.value)


@pytest.mark.parametrize(
    ("rule", "values", "told"),
    [
        ({"kind": "categorical"}, [f"P{n}" for n in range(30)], "identifier"),
        ({"kind": "categorical"}, ["2026-01-01", "2026-02-01"] * 15, "dates"),
        ({"kind": "numeric", "range": [0, 50]}, [*range(29), 120], "1 of 30 values are outside"),
        ({"kind": "numeric"}, ["<0.5", "1.5", ">9"] * 10, "just below"),
        ({"kind": "numeric"}, ["0,5", "1,5"] * 15, "decimal commas"),
        ({"kind": "numeric"}, [*range(29), -99], "-99 may mean missing"),
        ({"kind": "categorical", "categories": ["a"], "unknown": "other"}, ["a", "b"] * 15, "become 'other'"),
        ({"kind": "categorical"}, ["?"] * 30, "every value is missing"),
        ({"kind": "categorical", "synonyms": {"female": ["f"]}}, ["F", "w"] * 15, "the synonyms do not name 'w'"),
        ({"kind": "numeric", "units": {"g/L": 0.1}}, range(30), "a wrong unit would not be noticed"),
        (
            {"kind": "numeric", "cuts": [7, 12]},
            range(70, 100),
            "outside the cuts; the unit looks wrong by a factor of 10",
        ),
    ],
)
def test_what_looks_wrong_is_noted(table, rule, values, told):
    schema = Schema.of({"columns": {"x": rule}})
    rows = table("x;y\n" + "".join(f'"{value}";1\n' for value in values))
    found = column(schema, "x", rows)
    assert told in " ".join(found.notes)
    assert not found.errors


@pytest.mark.parametrize(
    ("header", "told"),
    [("a;b", "none of the schema's columns is here, only a, b"), ("HB (g/L);sex", "add 'g/L' as unit, or to units")],
)
def test_columns_that_are_not_there_are_told(table, header, told):
    schema = Schema.of({"columns": {"hb": {"kind": "numeric"}, "sex": {"kind": "categorical"}}})
    with pytest.raises(DataError, match=told):
        conform(schema, table(header + "\n136;M\n"))


def test_limits_and_decimal_commas_are_numbers(table):
    schema = Schema.of({"columns": {"crp": {"kind": "numeric", "cuts": [0.5, 9]}}})
    site = conform(schema, table('crp;x\n"<0,5";1\n"0,5";1\n"> 9";1\n"-";1\n'.replace('"-"', '"NA"')))
    assert list(site.items(Agreed())) == [("crp=<0.5",), ("crp=[0.5, 9)",), ("crp=≥9",), ()]


def test_missing_codes_hold_for_numbers_and_texts(table):
    schema = Schema.of(
        {
            "table": {"missing": ["-99"]},
            "columns": {"a": {"kind": "numeric", "cuts": [0]}, "b": {"kind": "categorical", "missing": ["unknown"]}},
        }
    )
    site = conform(schema, table("a;b\n-99;Unknown\n-1;x\n"))
    assert list(site.items(Agreed())) == [(), ("a=<0", "b=x")]
    frame = dataframe_table(pd.DataFrame({"a": [-99.0, -1.0], "b": ["unknown", "x"]}))
    assert list(conform(schema, frame).items(Agreed())) == [(), ("a=<0", "b=x")]


def test_spellings_of_unicode_are_one_category(table):
    schema = Schema.of({"columns": {"c": {"kind": "categorical"}}})
    site = conform(schema, table("c;x\nCafé;1\nCafe\u0301;1\n CAFÉ ;1\n"))
    assert site.items(Agreed()).vocabulary == ("c=café",)


def test_long_tables(table):
    schema = Schema.of(
        {
            "table": {"transaction": "visit", "item": "code"},
            "columns": {"code": {"kind": "categorical", "aliases": ["drug"], "cap": 2, "fold_case": False}},
        }
    )
    site = conform(schema, table("day;Drug;visit\n1;A;v1\n1;B;v1\n2;A;v2\n2;B;v2\n3;C;v2\n4;;v3\n"))
    agreed = agree(schema, [site])
    assert site.rows == 3
    assert site.categories("code") == {"A": 2, "B": 2, "C": 1}
    assert list(site.items(agreed)) == [("A", "B"), ("A", "B", "other"), ()]


def test_new_categories_become_other_or_an_error(table, caplog):
    columns = {"c": {"kind": "categorical"}}
    later = table("c;x\na;1\nnew;1\n")
    known = {"c=a", "c=other"}.__contains__
    site = conform(Schema.of({"columns": columns}), later)
    assert list(site.items(Agreed(), known, strict=False)) == [("c=a",), ("c=other",)]
    assert not caplog.messages  # in the run of the preparation, the server may have left the item out
    assert list(site.items(Agreed(), known)) == [("c=a",), ("c=other",)]
    assert "c=new" in caplog.text
    assert list(site.items(Agreed(), {"c=a"}.__contains__)) == [("c=a",), ()]
    strict = conform(Schema.of({"table": {"new": "error"}, "columns": columns}), later)
    with pytest.raises(DataError, match="'c=new' is new since the preparation"):
        strict.items(Agreed(), known)


def test_missing_twin_and_unknown_columns(table):
    schema = Schema.of(
        {"columns": {"a": {"kind": "categorical", "aliases": ["b"]}, "o": {"kind": "date", "optional": True}}}
    )
    with pytest.raises(DataError, match="'a' and 'b' are both 'a'"):
        conform(schema, table("a;b\n1;2\n"))
    with pytest.raises(DataError, match="no such column"):
        conform(schema, table("o;d\n2026-01-01;2\n"))
    report = conform(schema, table("a;more\n1;2\n")).report
    assert [(each.name, each.found) for each in report] == [("a", "a"), ("o", None), (None, "more")]


def test_an_interval_that_has_no_row_here_need_not_be_known(table):
    schema = Schema.of({"table": {"new": "error"}, "columns": {"n": {"kind": "numeric", "cuts": [1, 2]}}})
    site = conform(schema, table("n;x\n0.5;1\n5;1\n"))
    (low,), (high,) = site.items(Agreed())
    assert list(site.items(Agreed(), {low, high}.__contains__)) == [(low,), (high,)]
