"""The search on Ray finds the table of one place. Run with make test-ray."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import ray
from hypothesis import HealthCheck, given, settings, strategies as st
from sklearn.base import clone

from fedslim.cli import main
from fedslim.data import TransactionDatabase, load, locate
from fedslim.engines.rows import mine_on_ray
from fedslim.errors import DataError
from fedslim.mdl import Slim, mine
from fedslim.mdl.driver import Stop
from fedslim.schema import Schema

pytestmark = [pytest.mark.usefixtures("one_node"), pytest.mark.filterwarnings("ignore")]  # warnings of Ray
PUBLIC = ("chess", "mushroom", "adult", "ionosphere", "pendigits", "letter", "connect")
FOLDER = Path(__file__).parents[2] / "../shared/data"


@pytest.fixture(scope="module")
def one_node():
    ray.init("local", num_cpus=8, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


rows = st.lists(st.sets(st.integers(0, 9), max_size=7).map(sorted), min_size=1, max_size=40)


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows, st.integers(1, 8))
def test_random_rows_give_the_table_of_one_place(transactions, workers):
    database = TransactionDatabase.from_transactions(transactions, vocabulary=list(range(10)))
    assert mine_on_ray(database, workers=workers).table == mine(database).table


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_a_table_with_columns_gives_the_same_file(tmp_path, workers):
    there, here = (tmp_path / name for name in ("there.json", "here.json"))
    mine_on_ray("encounters", workers=workers, effort=2).table.save(there)
    mine(load("encounters"), effort=2).table.save(here)
    assert there.read_bytes() == here.read_bytes()


@pytest.mark.parametrize("name", PUBLIC)
def test_public_sets_give_the_same_file(tmp_path, name):
    folder = os.environ.get("FEDSLIM_DATA") or str(FOLDER)
    try:
        locate(name, folder=folder)
    except DataError as error:
        pytest.skip(str(error))
    there, here = (tmp_path / place for place in ("there.json", "here.json"))
    mine_on_ray(name, workers=3, reading={"folder": folder}).table.save(there)
    mine(load(name, folder=folder)).table.save(here)
    assert there.read_bytes() == here.read_bytes()


FRAME = pd.DataFrame({"ward": ["a", "b", "c"] * 40, "age": range(120), "smoker": [True, False] * 60})


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "in"
    place.mkdir()
    for k in range(3):
        FRAME[k * 40 : (k + 1) * 40].to_parquet(place / f"{k}.parquet")
    return place


def test_the_estimator_gives_the_table_of_one_place(folder):
    schema = Schema.of({"columns": {"ward": {"kind": "categorical"}, "age": {"kind": "numeric", "bins": 5}}})
    baskets = [["bread", "milk", "jam"], ["bread", "milk"], ["jam", "tea"]] * 8
    for data, how in ((folder, {"schema": schema}), (str(folder / "*.parquet"), {}), (FRAME, {}), (baskets, {})):
        here, there = Slim(**how).fit(data), Slim(engine="ray", workers=2, **how).fit(data)
        assert (there.table_, there.encoding_) == (here.table_, here.encoding_)
        assert (there.converged_, there.candidates_, there.n_iter_) == (True, here.candidates_, here.n_iter_)
        rows = baskets if data is baskets else FRAME
        assert np.array_equal(there.code_lengths(rows), here.code_lengths(rows))
    assert clone(there).get_params() == there.get_params()


def test_an_estimator_that_is_fitted_again_forgets_the_columns(folder):
    model = Slim(engine="ray", workers=1).fit(FRAME)
    assert list(model.feature_names_in_) == list(FRAME)
    assert not hasattr(model.fit(folder), "feature_names_in_")


def test_time_for_reading_is_not_time_for_mining():
    stop = Stop()
    stop.started -= 1000
    assert mine_on_ray("encounters", workers=1, max_time=500, effort=1, stop=stop).converged


def test_the_report_is_that_of_one_place(folder, tmp_path, capsys):
    schema = tmp_path / "schema.toml"
    Schema.of({"columns": {"ward": {"kind": "categorical"}, "age": {"kind": "numeric", "bins": 5}}}).write(schema)
    shown = []
    for engine in ([], ["--engine", "ray", "--workers", "2"]):
        place = tmp_path / f"{len(engine)}.html"
        assert main(["mine", str(folder), "--schema", str(schema), "--report", str(place), "--live", *engine]) == 0
        assert "watch this run at http://127.0.0.1:" in capsys.readouterr().err
        data = json.loads(re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', place.read_text())[1])
        shown.append([data["runs"][0][name] for name in ("table", "rows")])
    assert shown[0] == shown[1]
    assert shown[0][1]["total"] == len(FRAME)


def test_errors_of_workers_are_told_as_in_one_place(tmp_path):
    (tmp_path / "bad.csv").write_text("a,b\n1\n")
    with pytest.raises(DataError) as here:
        load(tmp_path / "bad.csv")
    with pytest.raises(DataError) as there:
        mine_on_ray(tmp_path / "bad.csv", workers=2)
    assert str(there.value) == str(here.value)
