"""The same table from files, objects and real databases is the same database."""

from __future__ import annotations

import contextlib
import gzip
import json
import logging
import os
import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st
from postgres import PASSWORD, running

from fedslim import Slim
from fedslim.data import as_database, encode, from_dataframe, load, read
from fedslim.data.columns import Column, number_transactions, ranked
from fedslim.data.readers import read_table
from fedslim.data.sql import MaskedUrl, masked
from fedslim.errors import DataError, MissingExtraError, ParameterError
from fedslim.mdl.mining import mine

duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")

ROWS = [("v1", "fever", 39.5), ("v1", "rash", None), ("v2", "fever", 38.0), ("v3", None, 37.25)]
WIDE = [
    ("who=v1", "what=fever", "t=39.5"),
    ("who=v1", "what=rash"),
    ("who=v2", "what=fever", "t=38"),
    ("who=v3", "t=37.25"),
]
LONG = [("fever", "rash"), ("fever",), ()]
PAIR = {"transaction_column": "who", "item_column": "what"}
TABLE = pa.table(dict(zip(("who", "what", "t"), map(list, zip(*ROWS, strict=True)), strict=True)))


@pytest.fixture(scope="module")
def postgres():
    try:
        with running() as server:
            yield server
    except FileNotFoundError:
        pytest.skip("PostgreSQL is not installed")


@pytest.fixture(scope="module")
def adbc():
    return pytest.importorskip("adbc_driver_postgresql", reason="adbc-driver-postgresql is not installed")


def in_sqlite(folder, rows=ROWS):
    path = folder / "clinic.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table visits (who text, what text, t real)")
        connection.executemany("insert into visits values (?, ?, ?)", rows)
    connection.close()
    return f"sqlite:///{path}"


def in_duckdb(folder):
    path = folder / "clinic.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("create table visits (who varchar, what varchar, t double)")
        connection.executemany("insert into visits values (?, ?, ?)", ROWS)
    return f"duckdb:///{path}"


# -- objects ---------------------------------------------------------------------------------------------------------


class Stream:
    """Anything with an Arrow stream."""

    def __arrow_c_stream__(self, requested_schema=None):
        return TABLE.__arrow_c_stream__(requested_schema)


OBJECTS = {
    "table": lambda: TABLE,
    "batches": lambda: TABLE.to_reader(max_chunksize=1),
    "dataset": lambda: ds.dataset(TABLE),
    "scanner": lambda: ds.dataset(TABLE).scanner(),
    "polars": lambda: pl.DataFrame(ROWS, schema=["who", "what", "t"], orient="row"),
    "lazy": lambda: pl.LazyFrame(ROWS, schema=["who", "what", "t"], orient="row"),
    "relation": lambda: duckdb.from_arrow(TABLE),
    "any": Stream,
}


@pytest.mark.parametrize("make", OBJECTS.values(), ids=OBJECTS)
def test_any_arrow_stream_is_read_wide_and_long(make):
    assert list(from_dataframe(make())) == WIDE
    assert list(from_dataframe(make(), **PAIR)) == LONG
    assert list(as_database(make())) == WIDE
    database, encoding = encode(make())
    assert list(encode(make(), encoding)[0]) == list(database)


def test_mine_and_slim_take_streams():
    table = pa.table({"a": ["x", "y"] * 6, "b": ["p", "q"] * 6})
    by_list = mine(as_database([[f"a={a}", f"b={b}"] for a, b in zip("xy" * 6, "pq" * 6, strict=True)])).table
    assert Slim().fit(table).table_.itemsets == mine(as_database(table)).table.itemsets
    assert [row.usage for row in Slim().fit(pl.from_arrow(table)).table_] == [row.usage for row in by_list]


def test_columns_in_batches_are_those_of_one_batch():
    rng = random.Random(3)
    table = pa.table(
        {
            "s": [rng.choice(["a", "b", "c", None]) for _ in range(500)],
            "c": pa.array([rng.choice("xyz") for _ in range(500)]).dictionary_encode(),
            "n": [rng.choice([None, 1, -2, 2**40]) for _ in range(500)],
            "u": pa.array([rng.choice([None, 1, 2**64 - 1]) for _ in range(500)], pa.uint64()),
            "f": [rng.choice([None, 0.5, float("nan")]) for _ in range(500)],
            "b": [rng.choice([True, None, False]) for _ in range(500)],
            "d": pa.array([rng.choice([None, 1, 700]) for _ in range(500)], pa.date32()),
            "e": pa.nulls(500),
        }
    )
    whole = from_dataframe(table)
    for size in (1, 7, 499):
        assert from_dataframe(table.to_reader(max_chunksize=size)) == whole
    assert f"u={2**64 - 1}" in whole.vocabulary
    assert "d=1971-12-02" in whole.vocabulary


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (pa.array([["a"], None]), r"column 'x' has a list"),
        (pa.array([None, b"\xff"]), r"column 'x' has a bytes, which is not a single value \(row 2\)"),
        (pa.array([{"a": 1}, None]), r"column 'x' has a dict"),
    ],
)
def test_cells_that_are_no_single_values_are_reported(column, told):
    with pytest.raises(DataError, match=told):
        from_dataframe(pa.table({"x": column}))


def test_a_stream_without_columns_is_no_table():
    with pytest.raises(DataError):
        from_dataframe(pa.chunked_array([["a"]]))


# -- files -----------------------------------------------------------------------------------------------------------


def test_folders_and_patterns_of_parquet_files(tmp_path):
    pq.write_table(TABLE.slice(0, 2), tmp_path / "part-0.parquet")
    pq.write_table(TABLE.slice(2), tmp_path / "part-1.parquet")
    for source in (tmp_path, tmp_path / "part-*.parquet", str(tmp_path / "part-?.parquet")):
        assert list(load(source)) == WIDE
        assert list(load(source, **PAIR)) == LONG
        assert list(as_database(source)) == WIDE
    pq.write_table(TABLE.drop(["t"]), tmp_path / "part-2.parquet")
    with pytest.raises(DataError, match=r"part-2\.parquet: this file has other columns"):
        load(tmp_path)


def test_the_names_of_folders_are_columns(tmp_path):
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(pa.table({"a": ["x"]}), tmp_path / f"year={year}" / "part.parquet")
    assert list(load(tmp_path)) == [("a=x", "year=2023"), ("a=x", "year=2024")]


def test_a_folder_without_parquet_files_is_reported(tmp_path):
    with pytest.raises(DataError, match="folder without Parquet files"):
        load(tmp_path)
    with pytest.raises(DataError, match="neither an existing file"):
        load(tmp_path / "*.parquet")


def json_lines(rows=ROWS, names=("who", "what", "t")):
    return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.jsonl.gz"])
def test_json_lines(tmp_path, name):
    path = tmp_path / name
    data = json_lines().encode()
    path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert list(read(path)) == WIDE
    assert list(read(path, **PAIR)) == LONG


def test_json_objects_may_lack_keys_and_mix_types(write):
    lines = '{"a": 1, "b": true}\n\n{"b": false, "c": "x"}\n{"a": 2.5, "c": 7}\n'
    assert list(read(write("a.jsonl", lines))) == [("a=1", "b=True"), ("b=False", "c=x"), ("a=2.5", "c=7")]
    many = "".join(f'{{"a": {k}}}\n' for k in range(5000)) + '{"late": "x"}\n'
    assert list(read(write("b.jsonl", many)))[-1] == ("late=x",)
    assert list(read(write("c.jsonl", '{"a": true, "b": 1}\n{"a": false, "b": 0}\n'))) == [("a", "b"), ()]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": 1}\n[1]\n', r"a\.jsonl:2: the line is not a JSON object"),
        ('{"a": 1}\n{"a": \n', r"a\.jsonl:2: the line is not a JSON object"),
        ('{"a": NaN}\n', r"a\.jsonl:1: the line is not a JSON object"),
        ('{"a": 1}\n{"a": [2]}\n', r"a\.jsonl:2: column 'a' has a list"),
        ('{"a": {"b": 1}}\n', r"a\.jsonl:1: column 'a' has a dict"),
        ("{}\n", "no columns"),
        ("", "is empty"),
        ('{"": 1}\n', "column 1 has no name"),
        ("[" * 100_000 + "\n", r"a\.jsonl:1: the line is not a JSON object"),
    ],
)
def test_bad_json_lines_are_reported(write, text, told):
    with pytest.raises(DataError, match=told):
        read(write("a.jsonl", text))


@given(st.binary(max_size=300))
def test_any_bytes_are_a_table_or_a_sentence(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "fuzzed.jsonl"
    path.write_bytes(data)
    with contextlib.suppress(DataError):
        read(path)


def test_workbooks(tmp_path):
    pytest.importorskip("python_calamine", reason="python-calamine is not installed")
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl, which writes workbooks, is not installed")
    book = openpyxl.Workbook()
    for row in (["who", "what", "t"], *ROWS):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    assert list(read(tmp_path / "a.xlsx")) == WIDE
    assert list(read(tmp_path / "a.xlsx", **PAIR)) == LONG
    other = book.create_sheet("next")
    for row in (["a", "a"], [1, 2]):
        other.append(row)
    book.save(tmp_path / "b.xlsx")
    with pytest.raises(DataError, match="sheets 'Sheet', 'next'; name one of them with --table"):
        read(tmp_path / "b.xlsx")
    assert list(read(tmp_path / "b.xlsx", table="Sheet")) == WIDE
    with pytest.raises(DataError, match="both named 'a'"):
        read(tmp_path / "b.xlsx", table="next")
    with pytest.raises(DataError, match="there is no sheet 'last'"):
        read(tmp_path / "b.xlsx", table="last")
    (tmp_path / "c.xlsx").write_bytes(b"no workbook")
    with pytest.raises(DataError, match=r"c\.xlsx: cannot be read as a workbook"):
        read(tmp_path / "c.xlsx")


@pytest.mark.parametrize(
    ("encoding", "separator"),
    [("latin-1", ";"), ("utf-16", ","), ("cp1252", "|"), ("utf-16-le", "tab"), ("utf-8", ";")],
)
def test_other_encodings_and_separators(write, encoding, separator):
    mark = "\t" if separator == "tab" else separator
    text = f"Straße{mark}ort\nMüller{mark}Köln\nÄ{mark}B\n" * 1
    path = write("a.csv", text.encode(encoding))
    assert list(read(path, encoding=encoding, separator=separator)) == [
        ("Straße=Müller", "ort=Köln"),
        ("Straße=Ä", "ort=B"),
    ]


def test_options_that_do_not_apply_are_refused(write, tmp_path):
    path = write("a.csv", "a\n1\n")
    for option, value in (("query", "select 1"), ("table", "t")):
        with pytest.raises(ParameterError, match=f"--{option} is not for a"):
            read(path, **{option: value})
    for name in ("a.dat", "a.parquet"):
        with pytest.raises(ParameterError, match="--separator is not for a"):
            read(write(name, "1\n"), separator=";")
    with pytest.raises(ParameterError, match="no encoding 'utf-9'"):
        read(path, encoding="utf-9")
    for name in ("zlib", "locale"):
        with pytest.raises(ParameterError, match=f"no encoding '{name}'"):
            read(path, encoding=name)
    with pytest.raises(DataError, match="cannot be decoded as ascii"):
        read(write("b.csv", "ä\n1\n"), encoding="ascii")
    with pytest.raises(ParameterError, match="cannot separate"):
        read(path, separator="--")
    with pytest.raises(ParameterError, match="--format is not for a database"):
        load(in_sqlite(tmp_path), table="visits", format="csv")


def fedslim(*arguments, given=b"", **environment):
    return subprocess.run(
        [Path(sys.executable).with_name("fedslim"), *map(str, arguments)],
        input=given,
        capture_output=True,
        env=os.environ | environment,
        check=False,
    )


def test_standard_input():
    done = fedslim("data", "describe", "-", "--format", "csv", "--json", given=b"a,b\nx,y\n")
    assert json.loads(done.stdout)["transactions"] == 1
    done = fedslim("data", "describe", "-", "--format", "jsonl", "--json", given=gzip.compress(json_lines().encode()))
    assert json.loads(done.stdout)["transactions"] == 4
    for how, told in (((), b"--format"), (("--format", "parquet"), b"standard input")):
        done = fedslim("data", "describe", "-", *how, given=b"x")
        assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
        assert told in done.stderr


# -- databases -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [in_sqlite, in_duckdb])
def test_files_of_databases(tmp_path, monkeypatch, place):
    url = place(tmp_path)
    assert list(load(url, table="visits")) == WIDE
    assert list(load(url, query="select * from visits", **PAIR)) == LONG
    assert load(url, table="visits").name == "visits"
    assert [c.name for c in read_table(url, table="main.visits").columns] == ["who", "what", "t"]
    monkeypatch.chdir(tmp_path)
    assert list(load(url.replace(f"{tmp_path}/", ""), query="select who from visits where what = 'rash'")) == [
        ("who=v1",)
    ]
    for wrong, told in (
        ({}, "neither a query nor a table"),
        ({"query": "select 1", "table": "visits"}, "both a query and a table"),
        ({"table": "nothing"}, "the query failed"),
        ({"query": "selec"}, "the query failed"),
        ({"query": "select * from visits where false"}, "no rows"),
        ({"query": "delete from visits"}, "the query failed|read-only|no columns"),
        ({"table": "visits", **PAIR, "item_column": "x"}, "there is no column 'x'"),
    ):
        with pytest.raises((DataError, ParameterError), match=told) as caught:
            load(url, **wrong)
        assert "\n" not in str(caught.value)
    assert list(load(url, table="visits")) == WIDE
    with pytest.raises(DataError, match="no such file"):
        load(url + "x", table="visits")


def test_sqlite_may_mix_types_and_begin_with_nulls(tmp_path):
    rows = [(None, None, None)] * 70_000 + [("a", 1, 2.5), ("b", "x", 1), ("c", 1.0, b"")]
    url = in_sqlite(tmp_path, rows)
    with pytest.raises(DataError, match="column 't' has a bytes"):
        load(url, table="visits")
    found = load(url, query="select who, what from visits")
    assert list(found)[-3:] == [("who=a", "what=1"), ("who=b", "what=x"), ("who=c", "what=1.0")]


@pytest.mark.usefixtures("adbc")
def test_postgresql(postgres):
    postgres.run("create table visits (who text, what text, t double precision)")
    lines = "".join("\t".join("\\N" if cell is None else str(cell) for cell in row) + "\n" for row in ROWS)
    postgres.run("copy visits from stdin", lines.encode())
    url = postgres.url()
    assert list(load(url, table="public.visits")) == WIDE
    assert list(load(url, query="select * from visits", **PAIR)) == LONG
    kinds = "select 1::int2 a, 2::int8 b, 1.50::numeric c, true d, date '2024-05-01' e, 'x'::varchar(3) f, null g"
    expected = ("a=1", "b=2", "c=1.50", "d=True", "e=2024-05-01", "f=x")
    assert list(load(url, query=f"{kinds} union all {kinds}")) == [expected] * 2
    done = fedslim("mine", url, "--table", "visits", "--json", "--transaction-column", "who", "--item-column", "what")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert found["transactions"] == 3
    assert not leaks(done.stdout + done.stderr)


SECRETS = (PASSWORD, "s3cret", "s3cret%20p%40ss%2Fword", "s3cret+p%40ss%2Fword", "word@")


def leaks(data):
    text = data.decode() if isinstance(data, bytes) else data
    return any(secret in text for secret in SECRETS)


@pytest.mark.usefixtures("adbc")
def test_a_password_is_nowhere(postgres, tmp_path, caplog):
    """Neither in output and errors, nor in records, reports and the exceptions that a program may log."""
    caplog.set_level(logging.DEBUG)
    url = postgres.url()
    postgres.run("drop table if exists pairs")
    postgres.run("create table pairs as select n / 2 as t, 'i' || n % 7 as i from generate_series(1, 200) n")
    how = ("--table", "pairs", "--transaction-column", "t", "--item-column", "i", "--members", "3")
    done = fedslim("simulate", url, *how, "--no-compare", "--out", tmp_path / "run", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["data"].startswith("postgresql://tester:***@")
    assert fedslim("report", tmp_path / "run").returncode == 0
    texts = [done.stdout, done.stderr, *(file.read_bytes() for file in (tmp_path / "run").iterdir())]
    texts.append(fedslim("--debug", "mine", url, "--query", "selec").stderr)
    for wrong in (
        url.replace("s3cret", "xs3cret"),
        url.replace("pg-", "nowhere-"),
        url + "&port=abc",
        url + "&bad",
    ):
        with pytest.raises(DataError) as caught:
            load(wrong, query="select 1")
        texts.append(f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}")
        assert "\n" not in str(caught.value)
    texts.append(caplog.text)
    assert not any(map(leaks, texts))


@pytest.mark.usefixtures("adbc")
@pytest.mark.parametrize("password", ["hunt/er2", "a@hunt:er2", "x:hunt/er2", "hunt?er2", "hunt#er2"])
def test_a_password_that_is_not_escaped_is_not_quoted_by_the_driver(password):
    """The driver takes a part of it for the port, and says so."""
    with pytest.raises(DataError, match="%2F") as caught:
        load(f"postgresql://reader:{password}@127.0.0.1:1/clinic", query="select 1")
    assert "hunt" not in str(caught.value)
    assert "er2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:p@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u:p@x@h/d?a=1", "postgresql://u:***@h/d?a=1"),
        ("postgresql://u:p/w?x@h/d", "postgresql://u:***@h/d"),
        (
            "postgresql://h/d?user=u&password=p&sslpassword=q#f",
            "postgresql://h/d?user=u&password=***&sslpassword=***#f",
        ),
        ("postgresql://u@h/d", "postgresql://u@h/d"),
        ("sqlite:///a:b@c.db", "sqlite:///a:b@c.db"),
        ("visits.csv", "visits.csv"),
        ("mysql://u:p@h/d", "mysql://u:***@h/d"),
    ],
)
def test_urls_are_shown_without_passwords(url, shown):
    assert masked(url) == shown
    assert str(MaskedUrl(url)) == shown == f"{MaskedUrl(url)}"
    assert repr(MaskedUrl(url)) == repr(shown)
    assert MaskedUrl(url).url == url


def test_other_databases_and_missing_libraries_are_reported(tmp_path, monkeypatch):
    with pytest.raises(ParameterError, match=r"mysql://u:\*\*\*@h/d: fedslim reads postgresql"):
        load("mysql://u:p@h/d", table="t")
    url = in_duckdb(tmp_path)
    for module, source in (("adbc_driver_postgresql.dbapi", "postgresql://u:p@h/d"), ("duckdb", url)):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            with pytest.raises(MissingExtraError, match=r"pip install 'fedslim\[sql\]'") as caught:
                load(source, table="visits")
            assert caught.value.exit_code == 2


# -- the same everywhere ---------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), max_size=6)
NUMBERS = st.integers(-(2**40), 2**40) | st.floats(-1e6, 1e6).map(lambda value: round(value, 3))


@given(
    st.lists(st.tuples(st.none() | TEXTS, st.none() | st.integers(0, 30), st.none() | NUMBERS.map(float)), min_size=1),
)
def test_a_table_is_the_same_database_wherever_it_is(tmp_path_factory, rows):
    """But for how text spells numbers: a CSV file has 1.0 where the others have the number 1."""
    folder = tmp_path_factory.mktemp("same")
    names = ["a b", "n", "x"]
    text, n, x = (list(column) for column in zip(*rows, strict=True))
    table = pa.table([pa.array(text, pa.string()), pa.array(n, pa.int64()), pa.array(x, pa.float64())], names=names)
    expected = from_dataframe(table)
    pq.write_table(table, folder / "a.parquet", row_group_size=2)
    assert read(folder / "a.parquet") == expected
    assert from_dataframe(pl.from_arrow(table)) == expected
    (folder / "a.jsonl").write_text(json_lines(rows, names), "utf-8")
    typed = all(any(value is not None for value in column) for column in (n, x))
    path = folder / "a.db"
    with sqlite3.connect(path) as connection:
        connection.execute('create table t ("a b" text, n integer, x real)')
        connection.executemany("insert into t values (?, ?, ?)", rows)
    connection.close()
    if typed:  # without any value, nothing says whether a column has numbers
        assert read(folder / "a.jsonl") == expected
        assert load(f"sqlite:///{path}", table="t") == expected
    import csv

    from fedslim.data.discretise import number_label

    with (folder / "a.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(names)
        for row in rows:
            writer.writerow(["" if v is None else v if isinstance(v, str) else number_label(v) for v in row])
    if not all(isinstance(column, list) and from_flags(column) for column in (text, n, x)):
        assert list(read(folder / "a.csv")) == list(expected)


def from_flags(column):
    return all(value is None or (value in {0, 1} and not isinstance(value, str)) for value in column)


@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=20) | st.lists(st.integers(-5, 40), max_size=20))
def test_ranks_by_a_lookup_table_are_those_of_a_sort(values):
    for kind in (np.int32, np.int64):
        array = np.array(values, kind)
        distinct, codes = ranked(array)
        expected, places = np.unique(array, return_inverse=True)
        assert distinct.tolist() == expected.tolist()
        assert codes.tolist() == places.tolist()
        assert distinct.dtype == kind
    large = np.array([2**64 - 1, 2**64 - 3, 2**64 - 1], np.uint64)
    assert ranked(large)[0].tolist() == [2**64 - 3, 2**64 - 1]


@given(st.lists(st.integers(0, 9), max_size=30))
def test_transactions_are_numbered_by_first_appearance(codes):
    order = list(dict.fromkeys(codes))
    number, transactions = number_transactions(Column.of_numbers("t", np.array(codes, np.int32)), "the table")
    assert number.tolist() == [order.index(code) for code in codes]
    assert transactions == len(order)


def test_duckdb_downloads_nothing(tmp_path):
    """A SQLite file would make it fetch an extension from the network, and run it."""
    file = in_sqlite(tmp_path).removeprefix("sqlite:///")
    with pytest.raises(DataError) as error:
        load(f"duckdb:///{file}", table="visits")
    assert "Failed to download" not in str(error.value)


def test_a_folder_with_other_files_is_told_in_one_short_sentence(tmp_path):
    pq.write_table(TABLE, tmp_path / "b.parquet")
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(DataError, match=r"not a Parquet file.*only Parquet files in the folder"):
        load(tmp_path)
