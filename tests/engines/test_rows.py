"""Rows at workers, without an engine: items that they agree on, workers that are lost, drivers that resume."""

from __future__ import annotations

import random

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from fedslim.cli import main
from fedslim.data import TransactionDatabase, load
from fedslim.engines.row_worker import RowWorker, divide
from fedslim.engines.rows import MAX_LOST, Driver, WorkerLostError, decoded, encoded
from fedslim.errors import DataError, JournalError, MissingExtraError, ParameterError, RunError
from fedslim.mdl import Slim
from fedslim.mdl.mining import mine
from fedslim.mdl.questions import Change, SlotCounts, Tried
from fedslim.report.rows import unusual_rows
from fedslim.schema import Schema


class HereEngine:
    """Workers in this process; any call may find its worker lost, before or after it has done what it was asked."""

    def __init__(self, lost=0.0, seed=0, memory=1e12):
        self.lost, self.dice, self.has, self.starts, self.calls = lost, random.Random(seed), memory, 0, 0

    def memory(self, workers):
        return self.has / workers

    def start(self, part, *, again):  # noqa: ARG002
        self.starts += 1
        return RowWorker(part)

    def call(self, worker, method, *about):
        self.calls += 1
        late = self.dice.random() < self.lost
        return WorkerLostError("gone") if late and self.dice.random() < 0.5 else (getattr(worker, method)(*about), late)

    def result(self, ticket):
        if isinstance(ticket, WorkerLostError) or ticket[1]:
            raise WorkerLostError(str(self.lost))
        return ticket[0]


def rows_at(data, n, options=None, **how):
    return Driver(HereEngine(**how), divide(data, n, options or {})).prepare()


def some_rows(seed=5, n=150):
    dice = random.Random(seed)
    habits = [dice.sample(range(24), 5) for _ in range(6)]
    return TransactionDatabase.from_transactions(
        [sorted({*dice.choice(habits), *dice.sample(range(24), 2)}) for _ in range(n)]
    )


transactions = st.lists(st.sets(st.integers(0, 9), max_size=7).map(sorted), min_size=1, max_size=40)


@given(transactions, st.integers(1, 8), st.sampled_from([0.0, 0.02]), st.sampled_from([1, 2]))
def test_the_table_is_that_of_one_place(rows, n, lost, effort):
    database = TransactionDatabase.from_transactions(rows, vocabulary=list(range(10)))
    there = mine(rows_at(database, n, lost=lost, seed=len(rows)), effort=effort)
    assert there.table == mine(database, effort=effort).table


@pytest.mark.parametrize("n", [1, 3, 7])
def test_unusual_rows_are_those_of_one_place(n):
    database = load("accidents-like:2500")
    rows = rows_at(database, n, lost=0.02)
    table = mine(rows).table
    assert unusual_rows(table, rows) == unusual_rows(table, database)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"engine": "spark"}, "no engine 'spark'"),
        ({"engine": "ray", "threads": 2}, "threads is not for an engine"),
        ({"workers": 2}, "workers is for an engine only"),
        ({"address": "here:1"}, "address is for an engine only"),
    ],
)
def test_the_estimator_refuses_what_does_not_go_together(wrong, said):
    with pytest.raises(ParameterError, match=said):
        Slim(**wrong).fit([["a", "b"]])


def test_without_ray_the_estimator_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr("fedslim.engines.find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'fedslim\[ray\]'"):
        Slim(engine="ray").fit([["a", "b"]])


def test_a_worker_that_is_always_lost_ends_the_run():
    engine = HereEngine(lost=1.0)
    with pytest.raises(RunError, match="worker 1 of 2 was lost 5 times"):
        Driver(engine, divide(some_rows(), 2, {})).prepare()
    assert engine.starts <= 2 + MAX_LOST


def test_rows_that_do_not_fit_are_refused_with_the_number_of_workers():
    with pytest.raises(DataError, match=r"each of 2 workers needs .* but has .* workers with that much memory would"):
        rows_at(some_rows(), 2, memory=1000)


def test_without_ray_the_command_says_how_to_install_it(monkeypatch, capsys):
    monkeypatch.setattr("fedslim.engines.find_spec", lambda _name: None)
    assert main(["mine", "encounters", "--engine", "ray"]) == 2
    assert "pip install 'fedslim[ray]'" in capsys.readouterr().err


# -- Parquet files with a schema -------------------------------------------------------------------------------------

SCHEMA = {
    "columns": {
        "ward": {"kind": "categorical", "cap": 3},
        "code": {"kind": "categorical"},
        "age": {"kind": "numeric", "bins": 4},
        "hb": {"kind": "numeric", "bins": 3, "resolution": 0.5, "unit": "g/dL", "units": {"g/L": 0.1}},
        "bmi": {"kind": "numeric", "cuts": [18.5, 25]},
        "smoker": {"kind": "boolean"},
        "day": {"kind": "date", "part": "month"},
    }
}
values = st.floats(-1e6, 1e6) | st.integers(-3, 3).map(float) | st.none()
row = st.fixed_dictionaries(
    {
        "ward": st.sampled_from(["a", "B", "b", "c", "d", "e", None]),
        "code": st.sampled_from(["9", "10", "x", None, "?"]),
        "age": values,
        "hb (g/L)": values,
        "bmi": values,
        "smoker": st.sampled_from([True, False, None]),
        "day": st.sampled_from(["2026-03-31", "2025-12-01", "2026-03-01", None]),
    }
)
TYPES = {"age": float, "hb (g/L)": float, "bmi": float, "smoker": "boolean"}
TYPES |= dict.fromkeys(("ward", "code", "day"), "string")  # not str, for which pandas 2 writes a missing value as None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20)
@given(st.lists(st.lists(row, min_size=1, max_size=12), min_size=2, max_size=5), st.integers(1, 6))
def test_workers_with_files_agree_on_what_one_place_finds(tmp_path, files, n):
    for old in tmp_path.glob("*.parquet"):
        old.unlink()
    for k, content in enumerate(files):
        pd.DataFrame(content, columns=list(TYPES)).astype(TYPES).to_parquet(tmp_path / f"{k}.parquet")
    options = {"schema": Schema.of(SCHEMA)}
    here = load(tmp_path, **options)
    parts = divide(str(tmp_path), n, options)
    assert len(parts) == min(n, len(files))
    assert all(part.files for part in parts)
    rows = Driver(HereEngine(lost=0.02), parts).prepare()
    assert rows.vocabulary == here.vocabulary
    assert rows.transactions == here.transactions
    there, expected = mine(rows).table, mine(here).table
    assert (there, there.encoding) == (expected, expected.encoding)
    assert unusual_rows(there, rows) == unusual_rows(expected, here)


@pytest.mark.parametrize(
    ("change", "column"),
    [
        ({"age": {"kind": "numeric", "range": [0, 99]}}, [1.0, 2.0]),
        ({"age": {"kind": "numeric"}}, ["1,5", "2"]),
        ({"age": {"kind": "categorical"}}, [1.0, "2"]),
    ],
)
def test_files_that_depend_on_each_other_are_read_by_every_worker(tmp_path, change, column):
    for k, value in enumerate(column):
        pd.DataFrame({"age": [value] * 3}).to_parquet(tmp_path / f"{k}.parquet")
    options = {"schema": Schema.of({"columns": change})}
    assert not any(part.files for part in divide(str(tmp_path), 2, options))


def test_folders_named_after_values_are_read_by_every_worker(tmp_path):
    pd.DataFrame({"age": [1.0, 2.0], "year": [2025, 2026]}).to_parquet(tmp_path / "in", partition_cols=["year"])
    options = {"schema": Schema.of({"columns": {"year": {"kind": "categorical"}}})}
    source = str(tmp_path / "in")
    assert rows_at(source, 2, options).vocabulary == load(source, **options).vocabulary == ("year=2025", "year=2026")


# -- the journal -----------------------------------------------------------------------------------------------------


def test_answers_are_restored():
    counts = SlotCounts(np.array([3, 1], np.int32), np.array([5, 2**40]))
    change = Change(np.array([7], np.int32), np.array([1]), np.array([0]))
    answer = (4, counts, (change,), Tried((), (change,), ()), np.array([9, 8]), ())
    restored = decoded(encoded(answer))
    assert repr(restored) == repr(answer)
    assert [part.dtype for part in restored[1]] == [np.int32, np.int64]


class Killed(BaseException):
    pass


@pytest.mark.parametrize("effort", [1, 2])
def test_a_driver_that_was_killed_resumes(tmp_path, effort):
    database, journal = some_rows(), tmp_path / "journal"
    expected, engine = mine(database, effort=effort).table, HereEngine()
    for allowed in (30, 60, 10_000):

        class Mortal(HereEngine):
            def call(self, worker, method, *about):
                if self.calls >= allowed:  # noqa: B023
                    raise Killed
                return super().call(worker, method, *about)

        engine = Mortal()
        driver = Driver(engine, divide(database, 3, {}))
        try:
            table = mine(driver.prepare(journal, {"effort": str(effort)}), effort=effort).table
        except Killed:
            with journal.open("ab") as torn:
                torn.write(b"\0\0")
        finally:
            driver.close()
    assert table == expected
    whole = HereEngine()
    mine(Driver(whole, divide(database, 3, {})).prepare(), effort=effort)
    assert engine.calls < whole.calls - 30
    with pytest.raises(JournalError, match="of a run with other rows"):
        Driver(HereEngine(), divide(some_rows(seed=6), 3, {})).prepare(journal, {"effort": str(effort)})
    with pytest.raises(JournalError, match="of a run with other settings"):
        Driver(HereEngine(), divide(database, 3, {})).prepare(journal, {"effort": "other"})
