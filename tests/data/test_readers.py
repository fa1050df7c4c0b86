from __future__ import annotations

import subprocess
import sys

import pytest

from fedslim.data import read
from fedslim.errors import DataError, ParameterError


@pytest.mark.parametrize("name", ["a.DAT", "a.txt", "a.fimi", "a.other", "noextension"])
def test_the_format_is_chosen_by_extension_or_by_name(write, name):
    chosen = None if name.lower().endswith(("dat", "txt", "fimi")) else "fimi"
    assert list(read(write(name, "2 1\n"), format=chosen)) == [("1", "2")]


def test_the_named_format_wins_over_the_extension(write):
    assert list(read(write("a.dat", "x\n7\n"), format="csv")) == [("x=7",)]


def test_an_extension_that_says_nothing_is_reported(write):
    with pytest.raises(DataError, match=r"--format: fimi, csv, tsv, parquet"):
        read(write("a.xyz", "1\n"))


def test_a_path_that_cannot_be_is_reported():
    with pytest.raises(DataError, match="cannot be read"):
        read("n" * 5000)


def test_a_format_that_does_not_exist_is_reported(write):
    with pytest.raises(ParameterError, match="there is no format 'word'"):
        read(write("a.dat", "1\n"), format="word")


def test_importing_the_data_room_loads_no_heavy_library():
    heavy = "{'pandas', 'polars', 'pyarrow', 'scipy', 'sklearn', 'numba', 'urllib.request', 'ssl'}"
    code = f"import fedslim.data, sys; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # ours
    assert done.stdout.strip() == "[]"
