"""The search on Ray finds the table of one place. Run with make test-ray."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import ray
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedslim.data import TransactionDatabase, load, locate
from fedslim.engines.rows import mine_on_ray
from fedslim.errors import DataError
from fedslim.mdl import mine

pytestmark = [pytest.mark.usefixtures("one_node"), pytest.mark.filterwarnings("ignore")]  # warnings of Ray
PUBLIC = ("chess", "mushroom", "adult", "ionosphere", "pendigits", "letter", "connect")
FOLDER = Path(__file__).parents[2] / "../shared/data"


@pytest.fixture(scope="module")
def one_node():
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
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


def test_errors_of_workers_are_told_as_in_one_place(tmp_path):
    (tmp_path / "bad.csv").write_text("a,b\n1\n")
    with pytest.raises(DataError) as here:
        load(tmp_path / "bad.csv")
    with pytest.raises(DataError) as there:
        mine_on_ray(tmp_path / "bad.csv", workers=2)
    assert str(there.value) == str(here.value)
