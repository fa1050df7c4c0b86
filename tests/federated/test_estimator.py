from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import fedslim
from fedslim import FedSlim, Slim
from fedslim.data import TransactionDatabase, builtin_database, builtin_members
from fedslim.errors import DataError, ParameterError
from fedslim.schema import Schema

TEXTS = [["bread", "milk", "jam"], ["bread", "milk"], ["jam", "tea"]] * 8
NUMBERS = [[10, 9, 2], [10, 9], [2, 111], [111, 9, 10]] * 8
RNG = np.random.default_rng(0)
FLAGS = RNG.random((60, 7)) < 0.4
TABLE = pd.DataFrame(
    {
        "age": RNG.normal(40, 10, 60),
        "visits": RNG.integers(0, 30, 60),
        "sex": RNG.choice(["f", "m"], 60),
        "ward": pd.Categorical(RNG.choice(["a", "b", "c"], 60)),
        "smokes": RNG.random(60) < 0.3,
    }
)


def cut(rows):
    """Three members, one of whom has a single row."""
    if isinstance(rows, TransactionDatabase):
        return [rows.take(range(5)), rows.take([5]), rows.take(range(6, len(rows)))]
    return [rows[:5], rows[5:6], rows[6:]]


@pytest.mark.parametrize(
    "rows",
    [
        TEXTS,
        NUMBERS,
        [*NUMBERS, ["tea"]],
        TABLE,
        pl.from_pandas(TABLE),
        TABLE[["smokes"]].assign(drinks=RNG.integers(0, 2, 60)),
        FLAGS,
        FLAGS.astype(int),
        csr_array(FLAGS.astype(int)),
        builtin_database().take(range(600)),
    ],
    ids=["texts", "numbers", "both", "pandas", "polars", "one-hot", "bool", "array", "sparse", "database"],
)
def test_members_find_together_what_slim_finds_in_all_rows(rows):
    fed, slim = FedSlim().fit(cut(rows)), Slim().fit(rows)
    assert fed.table_ == slim.table_
    assert fed.encoding_ == slim.encoding_
    assert fed.code_lengths(rows).tolist() == slim.code_lengths(rows).tolist()


def test_files_of_members(tmp_path):
    for number, part in enumerate(cut(TABLE)):
        part.to_csv(tmp_path / f"{number}.csv", index=False)
    TABLE.to_csv(tmp_path / "all.csv", index=False)
    files = [tmp_path / f"{number}.csv" for number in range(3)]
    assert FedSlim().fit(files).table_ == Slim().fit(tmp_path / "all.csv").table_


def test_fimi_files_with_different_items_are_put_together_by_number(tmp_path):
    (tmp_path / "a.dat").write_text("10 9\n10 9 2\n" * 9)
    (tmp_path / "b.dat").write_text("10 111\n9 10 111\n" * 9)
    (tmp_path / "all.dat").write_text("10 9\n10 9 2\n" * 9 + "10 111\n9 10 111\n" * 9)
    fed = FedSlim().fit([tmp_path / "a.dat", tmp_path / "b.dat"])
    assert fed.table_ == Slim().fit(tmp_path / "all.dat").table_
    assert fed.table_.vocabulary == ("2", "9", "10", "111")


def test_members_by_name():
    fed = FedSlim().fit(dict(builtin_members()))
    assert fed.table_ == Slim().fit(builtin_database()).table_
    assert fed.simulation_.members[0] == "Northgate"
    assert fed.n_members_ == 6


def test_what_is_known_after_fitting():
    fed = FedSlim().fit(cut(TEXTS))
    assert list(fed.codetable_.columns)[:4] == ["itemset", "usage", "support", "code_length"]
    assert fed.compression_.L_percent < 100
    assert (fed.n_members_, fed.converged_) == (3, True)
    assert fed.communication_.bytes_total > fed.communication_.bytes_up > 0
    assert 0 < fed.n_iter_ <= fed.candidates_
    assert fed.reconstruct(fed.transform(TEXTS)) == TransactionDatabase.from_transactions(TEXTS)


def test_fit_transform_covers_the_rows_of_all_members():
    parts = cut(TEXTS)
    assert (FedSlim().fit_transform(parts) != FedSlim().fit(parts).transform(TEXTS)).nnz == 0


def test_generators_are_read_once():
    assert FedSlim().fit([iter(TEXTS[:5]), iter(TEXTS[5:])]).table_ == Slim().fit(TEXTS).table_


def test_parameters_are_stored_as_given_and_cloned():
    fed = FedSlim(variant="x", max_time=5, max_rounds=7, width=4, effort=1, masking=False, seed=3)
    assert clone(fed).get_params() == fed.get_params()
    assert repr(fed).startswith("FedSlim(")


def test_fitted_models_are_pickled():
    fed = FedSlim().fit(cut(TEXTS))
    again = pickle.loads(pickle.dumps(fed))  # noqa: S301  # our own
    assert again.code_lengths(TEXTS).tolist() == fed.code_lengths(TEXTS).tolist()


def test_a_limit_keeps_the_best_so_far():
    fed = FedSlim(max_rounds=30).fit(dict(builtin_members()))
    assert not fed.converged_
    assert 0 < len(fed.table_) < 135


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ([], "there are no members; give the data of at least one"),
        (TABLE, "the members' data are of type DataFrame; give a list with the data of each member"),
        ([TEXTS, TABLE], "member 1 has a list of transactions and member 2 has a table; give the data of all"),
        ({"a": TABLE, "b": FLAGS}, "a has a table and b has a matrix"),
        ([FLAGS, FLAGS[:, :3]], "the matrix of member 1 has 7 columns, that of member 2 3"),
        ([TABLE, TABLE[["age"]]], "the table of member 1 has a column 'visits', but that of member 2 does not"),
        (
            [TABLE[["age"]], TABLE[["age", "sex"]]],
            "the table of member 2 has a column 'sex', but that of member 1 does not",
        ),
        (
            [TABLE[["age"]], TABLE[["age"]].astype(str) + " years"],
            "column 'age' has numbers at member 1 and texts at member 2",
        ),
    ],
)
def test_members_that_do_not_fit_together(members, told):
    with pytest.raises(DataError) as caught:
        FedSlim().fit(members)
    assert str(caught.value).startswith(told)


def test_bad_parameters_are_told_in_fitting():
    with pytest.raises(ParameterError, match="there is no variant 'z'"):
        FedSlim(variant="z").fit([TEXTS])


def test_nothing_is_known_before_fitting():
    with pytest.raises(NotFittedError):
        _ = FedSlim().communication_
    with pytest.raises(NotFittedError):
        FedSlim().transform(TEXTS)


def test_it_is_exported():
    assert {"FedSlim", "simulate"} <= set(dir(fedslim)) & set(fedslim.__all__)


def test_members_with_tables_and_a_schema_prepare_first():
    rows = [{"age": 20 + 7 * k % 50, "sex": ["M", "f", "male"][k % 3], "hb": 9 + k % 5} for k in range(60)]
    schema = Schema.of(
        {
            "columns": {
                "age": {"kind": "numeric", "bins": 3, "resolution": 5},
                "sex": {"kind": "categorical", "synonyms": {"male": ["m"], "female": ["f"]}},
                "hb": {"kind": "numeric", "bins": 2, "resolution": 1},
            }
        }
    )
    parts = {"north": pd.DataFrame(rows[:25]), "south": pd.DataFrame(rows[25:])[["hb", "sex", "age"]]}
    fed = FedSlim(schema=schema).fit(parts)
    alone = Slim(schema=schema).fit(pd.DataFrame(rows))
    assert set(fed.table_.vocabulary) == set(alone.table_.vocabulary)
    assert fed.table_.transactions == 60
    assert fed.compression_.before == alone.compression_.before
    assert fed.transform(parts["north"]).shape[0] == 25
