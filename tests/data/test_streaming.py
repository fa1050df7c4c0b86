from __future__ import annotations

import contextlib
import json
import random
import sqlite3

import pandas as pd
import pytest

from fedslim.data import Encoding, TransactionDatabase, encode_together, load, write_fimi
from fedslim.data.readers import chunks
from fedslim.errors import DataError


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr("fedslim.data.readers.ROWS", 7)
    monkeypatch.setattr("fedslim.data.columns.ROWS_AT_A_TIME", 7)
    monkeypatch.setattr("fedslim.data.records.ROWS_AT_A_TIME", 7)
    monkeypatch.setattr("fedslim.data.frames.ROWS_IN_BATCH", 7)
    monkeypatch.setattr("fedslim.data.textstream.CHUNK", 64)


def rows(parts):
    return [set(row) for part in parts for row in part]


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "t.parquet", "t.jsonl", "t.db"])
def test_a_table_in_chunks_has_the_rows_of_the_whole(tmp_path, name):
    made = random.Random(0)
    frame = pd.DataFrame(
        {
            "age": [made.randint(18, 90) for _ in range(100)],
            "city": [made.choice(["Bonn", "Ulm", None]) for _ in range(100)],
        }
    )
    path = tmp_path / name
    how = {}
    if name.endswith("parquet"):
        frame.to_parquet(path)
    elif name.endswith("jsonl"):  # the first chunks lack a key, and the last one the other
        frame.loc[:20, "city"] = None
        path.write_text("".join(json.dumps(row.dropna().to_dict()) + "\n" for _, row in frame.iterrows()))
    elif name.endswith("db"):
        with contextlib.closing(sqlite3.connect(path)) as connection:
            frame.to_sql("t", connection, index=False)
        path, how = f"sqlite:///{path}", {"table": "t"}
    else:
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in name else ",")
    whole = load(path, **how)
    parts = list(chunks(path, whole.encoding, **how))
    assert len(parts) > 10
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
    (tmp_path / "t.jsonl").write_text('{"age": 1}\n{"age": 2}\n')
    with pytest.raises(DataError, match="no object has the key 'sex'"):
        list(chunks(tmp_path / "t.jsonl", Encoding("categorical", ("age", "sex"), (None, None))))
    (tmp_path / "t.parquet").write_text("no Parquet")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        list(chunks(tmp_path / "t.parquet", None))
