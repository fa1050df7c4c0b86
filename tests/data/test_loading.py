from __future__ import annotations

import pytest

from fedslim.data import builtin_database, data_names, generate, load
from fedslim.errors import DataError, ParameterError


def test_a_builtin_set_is_loaded_by_name():
    assert load("encounters") == builtin_database("encounters")
    assert load("encounters", seed=5, name="mine") == builtin_database("encounters", seed=5)
    assert load("encounters", name="mine").name == "mine"


def test_generated_data_are_loaded_by_kind_and_size():
    assert load("wide-sparse:300", seed=2) == generate("wide-sparse", transactions=300, seed=2)


def test_a_file_is_read_with_its_options(write):
    path = write("a.txt", "t,i\n1,b\n1,a\n")
    assert list(load(path, format="csv", transaction_column="t", item_column="i")) == [("a", "b")]


def test_a_file_that_exists_wins_over_a_name(write, monkeypatch):
    monkeypatch.chdir(write("encounters", "1 2\n").parent)
    assert list(load("encounters", format="fimi")) == [("1", "2")]


def test_a_folder_does_not_hide_a_name(tmp_path, monkeypatch):
    (tmp_path / "encounters").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load("encounters").transactions == 5000


def test_a_folder_is_reported(tmp_path):
    with pytest.raises(DataError, match="this is a folder"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("encouters", "neither an existing file nor the name of a data set; did you mean encounters"),
        ("no/such.dat", "'no/such.dat' is neither an existing file"),
        ("a\0b", "neither an existing file"),
        ("x" * 5000, "neither an existing file"),
    ],
)
def test_what_is_neither_file_nor_name_is_reported(source, says):
    with pytest.raises(DataError, match=says):
        load(source)


@pytest.mark.parametrize("size", ["", "many", "-5", "0", "9" * 40, "\u0663"])
def test_a_size_that_is_no_number_is_reported(size):
    with pytest.raises(ParameterError, match="transactions"):
        load(f"wide-sparse:{size}")


def test_options_for_files_make_no_sense_for_made_data():
    with pytest.raises(ParameterError, match="encounters is generated"):
        load("encounters", format="csv")


@pytest.mark.parametrize("options", [{"format": "csv"}, {"transaction_column": "t"}, {"item_column": "i"}])
def test_options_for_tables_make_no_sense_for_public_sets(options):
    with pytest.raises(DataError, match=r"mushroom is a public set.*leave out the format"):
        load("mushroom", **options)


def test_the_format_that_a_public_set_has_may_be_named():
    with pytest.raises(DataError, match="mushroom was not found"):
        load("mushroom", format="fimi")


def test_all_names_are_listed():
    assert {"encounters", "mushroom", "accidents", "accidents-like", "wide-sparse"} <= set(data_names())
