from __future__ import annotations

import random

import pandas as pd
import pytest

from fedslim.data import TransactionDatabase, encode, encode_together, load, write_fimi
from fedslim.data.streaming import chunks
from fedslim.errors import DataError


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr("fedslim.data.streaming.ROWS", 7)
    monkeypatch.setattr("fedslim.data.textstream.CHUNK", 64)


def rows(parts):
    return [set(row) for part in parts for row in part]


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "t.parquet"])
def test_a_table_in_chunks_has_the_rows_of_the_whole(tmp_path, name):
    made = random.Random(0)
    frame = pd.DataFrame(
        {
            "age": [made.randint(18, 90) for _ in range(100)],
            "city": [made.choice(["Bonn", "Ulm", None]) for _ in range(100)],
        }
    )
    path = tmp_path / name
    if name.endswith("parquet"):
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in name else ",")
    whole, encoding = encode(path)
    parts = list(chunks(path, encoding))
    assert len(parts) > 10 or name.endswith("parquet")
    assert rows(parts) == rows([whole])


@pytest.mark.usefixtures("small_chunks")
def test_fimi_files_come_in_blocks_and_named_data_at_once(tmp_path):
    database = TransactionDatabase.from_transactions([[i % 5, 7 + i % 3] for i in range(100)])
    write_fimi(database, tmp_path / "t.dat")
    parts = list(chunks(tmp_path / "t.dat", None))
    assert len(parts) > 3
    assert TransactionDatabase.joined(encode_together(parts)[0]) == encode_together([load(tmp_path / "t.dat")])[0][0]
    assert len(list(chunks("encounters", None))) == 1
    (tmp_path / "long.csv").write_text("order,item\n1,a\n1,b\n2,a\n")
    (long,) = chunks(tmp_path / "long.csv", None, pair=("order", "item"))
    assert list(long) == [("a", "b"), ("a",)]


def test_what_does_not_fit_is_said(tmp_path):
    (tmp_path / "t.csv").write_text("age\n1\n2\n")
    with pytest.raises(DataError, match="fitted on lists of items"):
        list(chunks(tmp_path / "t.csv", None))
    (tmp_path / "t.parquet").write_text("no Parquet")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        list(chunks(tmp_path / "t.parquet", None))
