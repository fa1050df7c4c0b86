from __future__ import annotations

import csv
import gzip
import io

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from fedslim.data import read, textstream
from fedslim.data.columns import MISSING_TEXTS
from fedslim.errors import DataError, ParameterError

PEOPLE = "name,age,city\nann,30,Bonn\nbob,4,\ncy,NA,Ulm\n"


def test_each_column_is_an_attribute_and_each_value_an_item(write):
    db = read(write("people.csv", PEOPLE))
    assert list(db) == [("name=ann", "age=30", "city=Bonn"), ("name=bob", "age=4"), ("name=cy", "city=Ulm")]


def test_the_vocabulary_follows_the_columns_then_numbers_by_value_and_words_by_text(write):
    db = read(write("people.csv", PEOPLE))
    assert db.vocabulary == ("name=ann", "name=bob", "name=cy", "age=4", "age=30", "city=Bonn", "city=Ulm")


def test_tabs_separate_in_tsv_and_gzip_is_unpacked(write):
    assert read(write("people.tsv", PEOPLE.replace(",", "\t"))) == read(write("people.csv", PEOPLE))
    assert read(write("people.csv.gz", gzip.compress(PEOPLE.encode()))) == read(write("people.csv", PEOPLE))


@pytest.mark.parametrize("missing", ["", "NA", "NaN", "null", "?", " ? "])
def test_missing_values_make_no_item(write, missing):
    assert list(read(write("a.csv", f"a,b\n{missing},x\n"))) == [("b=x",)]


def test_a_row_of_missing_values_is_an_empty_transaction(write):
    assert list(read(write("a.csv", "a,b\n?,?\n1,2\n"))) == [(), ("a=1", "b=2")]


def test_numbers_with_many_values_are_cut_into_intervals(write):
    rows = "".join(f"{age},x\n" for age in range(20, 60))
    db = read(write("a.csv", "age,k\n" + rows), bins=4)
    assert db.vocabulary == ("age=<30", "age=[30, 40)", "age=[40, 50)", "age=≥50", "k=x")
    assert db.supports.tolist() == [10, 10, 10, 10, 40]


def test_numbers_with_few_values_stay_as_they_are_written(write):
    db = read(write("a.csv", "n\n" + "\n".join(["10", "9", "1.50", "-2e1"] * 9)), bins=4)
    assert db.vocabulary == ("n=-2e1", "n=1.50", "n=9", "n=10")


def test_one_word_among_numbers_makes_a_column_of_words(write):
    db = read(write("a.csv", "n\n" + "10\n9\nx\n8"), bins=2)
    assert db.vocabulary == ("n=10", "n=8", "n=9", "n=x")


@pytest.mark.parametrize("text", ["1_000", "infinity", "0x10", "\u0661"])
def test_only_plain_decimal_numbers_are_numbers(write, text):
    assert f"n={text}" in read(write("a.csv", f"n\n{text}\n2\n3\n"), bins=2).vocabulary


def test_blanks_around_values_and_names_do_not_count(write):
    assert list(read(write("a.csv", "a , b\n x,y \nx, y\n"))) == [("a=x", "b=y")] * 2


def test_quotes_keep_separators_and_line_ends(write):
    db = read(write("a.csv", 'a,b\n"x,\ny","say ""hi"""\n'))
    assert list(db) == [("a=x,\ny", 'b=say "hi"')]


def test_blank_lines_are_no_rows(write):
    assert read(write("a.csv", "a,b\n1,2\n\n3,4\n\n")).transactions == 2


cells = st.text(alphabet="abc \",'\n\té1.", max_size=4)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(cells, cells), min_size=1, max_size=20), mark=st.sampled_from([("csv", ","), ("tsv", "\t")])
)
def test_what_the_csv_module_writes_is_read_as_its_cells(rows, mark, write):
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=mark[1]).writerows([("one", "two"), *rows])

    db = read(write(f"a.{mark[0]}", text.getvalue()), bins=99, one_hot=False)

    expected = [
        {f"{name}={cell.strip()}" for name, cell in zip(("one", "two"), row, strict=True)}
        - {f"{name}={missing}" for name in ("one", "two") for missing in MISSING_TEXTS}
        for row in rows
    ]
    assert [set(row) for row in db] == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b\n1,2\n1,2,3\n", r"a\.csv:3: the row has 3 fields, but the header has 2"),
        ('a,b\n"x\ny",2\n1\n', r"a\.csv:4: the row has 1 field, but the header has 2"),
        ("a,b\n", r"a\.csv: .*no rows"),
        ("a,b,a\n1,2,3\n", r"a\.csv:1: columns 1 and 3 are both named 'a'; rename"),
        ("a,,c\n1,2,3\n", r"a\.csv:1: column 2 has no name; "),
        ("\n\n", r"a\.csv:1: the table has no columns; "),
        ('a,b\n1,2\n"x,3\n', r"a\.csv:3: cannot be parsed \(unexpected end of data\); close every quote"),
        ('a,b\n"x"y,3\n', r"a\.csv:2: cannot be parsed"),
        (
            "a;b;c\n1;2;3\n",
            r"a\.csv:1: the header has the single column 'a;b;c', which looks like several separated by ';'",
        ),
        ("a=b,a\nc,b=c\n", r"a\.csv: two columns make the same item 'a=b=c'; rename"),
    ],
)
def test_tables_that_cannot_be_read_are_reported_with_file_and_line(write, text, says):
    with pytest.raises(DataError, match=says):
        read(write("a.csv", text))


def test_a_field_may_be_as_long_as_a_line(write):
    before = csv.field_size_limit(5000)
    path = write("a.csv", "a,b\n1," + "x" * 200_000 + "\n")
    assert read(path).vocabulary == ("a=1", "b=" + "x" * 200_000)
    csv.field_size_limit(before)


def test_a_row_of_a_long_table_is_named_by_its_line(write):
    path = write("a.csv", 't,i\n1,"a\nb"\n\n2,c\n?,d\n')
    with pytest.raises(DataError, match=r"a\.csv:6: the row has no value in 't'; every row must name"):
        read(path, transaction_column="t", item_column="i")


def test_a_row_that_quotes_spread_over_the_whole_file_is_reported(write, monkeypatch):
    monkeypatch.setattr(textstream, "LINE_LIMIT", 1000)
    with pytest.raises(DataError, match=r"a\.csv:2: the row is longer than 1,000 characters; .*quote"):
        read(write("a.csv", "a,b\n" + '"x\n",' * 500))


def test_a_long_table_has_a_row_for_each_pair(write):
    text = "when,order,thing\nmon,7,milk\nmon,3,bread\ntue,7,bread\ntue,7,milk\nwed,9,\n"
    db = read(write("a.csv", text), transaction_column="order", item_column="thing")
    assert list(db) == [("bread", "milk"), ("bread",), ()]
    assert db.duplicates_removed == 1


def test_missing_codes_of_a_long_table_are_no_items(write):
    path = write("a.csv", "t,i\n1,milk\n1,none\n2,none\n")
    db = read(path, transaction_column="t", item_column="i", missing=["none"])
    assert list(db) == [("milk",), ()]


def test_items_of_a_long_table_that_are_numbers_are_ordered_by_value(write):
    db = read(write("a.tsv", "t\ti\nx\t10\nx\t9\n"), transaction_column="t", item_column="i")
    assert db.vocabulary == ("9", "10")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs=st.lists(st.tuples(st.sampled_from("pqrst"), st.sampled_from("abc")), min_size=1, max_size=30))
def test_a_long_table_is_the_same_as_its_sets(pairs, write):
    path = write("a.csv", "t,i\n" + "".join(f"{t},{i}\n" for t, i in pairs))
    db = read(path, transaction_column="t", item_column="i")
    expected: dict[str, set[str]] = {}
    for transaction, item in pairs:
        expected.setdefault(transaction, set()).add(item)
    assert [set(row) for row in db] == list(expected.values())


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"transaction_column": "t"}, ParameterError, "needs two columns"),
        (
            {"transaction_column": "t", "item_column": "x"},
            DataError,
            "there is no column 'x'; the columns are 't', 'i'",
        ),
        ({"transaction_column": "t", "item_column": "t"}, ParameterError, "two different columns"),
        ({"transaction_column": "t", "item_column": "i"}, DataError, r"a\.csv:3: the row has no value in 't'"),
    ],
)
def test_long_tables_that_cannot_be_read_are_reported(write, options, error, says):
    with pytest.raises(error, match=says):
        read(write("a.csv", "t,i\n1,a\n,b\n"), **options)
