from __future__ import annotations

import pickle
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from fedslim import Slim
from fedslim.data import TransactionDatabase, builtin_database
from fedslim.errors import DataError, ParameterError

ROWS = [["bread", "milk", "jam"], ["bread", "milk"], ["jam", "tea"]] * 8


def test_the_five_lines_of_the_readme():
    slim = Slim().fit(ROWS)
    assert list(slim.codetable_.columns)[:4] == ["itemset", "usage", "support", "code_length"]
    assert slim.compression_.L_percent < 100
    assert slim.converged_


def test_parameters_are_stored_as_given_and_cloned():
    slim = Slim(effort=2, max_time=5, order="support", min_support=3, max_itemset_size=4, pruning=False, threads=2)
    assert clone(slim).get_params() == slim.get_params()
    assert repr(slim).startswith("Slim(")


@settings(max_examples=50)
@given(st.lists(st.sets(st.integers(0, 12)), max_size=60))
def test_reconstruction_is_lossless(rows):
    db = TransactionDatabase.from_transactions(rows)
    slim = Slim().fit(db)
    covers = slim.transform(db)
    assert slim.reconstruct(covers) == db
    assert slim.inverse_transform(covers) == db
    usages = np.asarray(covers.sum(axis=0, dtype=np.int64)).ravel()
    assert usages.tolist() == [e[1] for e in slim.table_.found] + list(slim.table_.singleton_usages)


def test_covers_have_named_columns():
    slim = Slim().fit(ROWS)
    names = slim.get_feature_names_out()
    assert len(names) == slim.transform(ROWS).shape[1]
    assert "bread milk" in names


def test_reconstructing_anything_else_is_refused():
    slim = Slim().fit(ROWS)
    for covers in (np.ones((2, 2)), csr_array((3, 1))):
        with pytest.raises(DataError, match="takes what transform returns"):
            slim.reconstruct(covers)


def test_unusual_transactions_take_more_bits():
    db = builtin_database("encounters")
    slim = Slim().fit(db)
    usual = slim.score_samples(db)
    odd = slim.score_samples([["child", "metformin", "sumatriptan", "aspirin", "furosemide", "never seen before"]])
    assert len(usual) == len(db)
    assert odd[0] > np.quantile(usual, 0.99)


def test_a_pickled_estimator_scores_alike():
    slim = Slim().fit(ROWS)
    before = slim.score_samples(ROWS)
    again = pickle.loads(pickle.dumps(slim))  # noqa: S301  # our own bytes
    assert again.score_samples(ROWS).tolist() == before.tolist()
    assert again.table_ == slim.table_


def test_fitting_again_forgets_the_first_table():
    slim = Slim().fit(ROWS)
    slim.score_samples(ROWS)
    slim.fit([["x", "y"]] * 9)
    assert slim.transform([["x", "y"]]).shape == (1, 3)


def test_data_frames_lists_and_databases_give_the_same_table():
    rows = [{"a": i % 2 == 0, "b": i % 2 == 0, "c": i % 3 == 0} for i in range(30)]
    lists = [[k for k, v in row.items() if v] for row in rows]
    tables = [Slim().fit(x).table_ for x in (lists, pd.DataFrame(rows), pl.DataFrame(rows))]
    assert tables[0] == tables[1] == tables[2]


def test_it_works_in_a_pipeline():
    pipeline = make_pipeline(FunctionTransformer(lambda x: x), Slim())
    assert pipeline.fit_transform(ROWS).shape[0] == len(ROWS)


def test_before_fitting_it_says_so():
    for use in ("transform", "score_samples", "reconstruct"):
        with pytest.raises(NotFittedError):
            getattr(Slim(), use)(ROWS)
    with pytest.raises(NotFittedError):
        _ = Slim().codetable_


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"effort": 0}, "effort must be a whole number from 1 to 4, not 0"),
        ({"effort": True}, "effort must be"),
        ({"order": "size"}, "order must be 'usage' or 'support'"),
        ({"max_time": 0}, "max_time must be a positive number"),
        ({"max_time": float("nan")}, "max_time must be a positive number"),
        ({"max_itemset_size": 0}, "max_itemset_size must be at least 1"),
        ({"min_support": 0}, "min_support must be at least 1"),
        ({"threads": 0}, "threads must be at least 1"),
    ],
)
def test_parameters_that_make_no_sense_are_named(parameters, message):
    with pytest.raises(ParameterError, match=message):
        Slim(**parameters).fit(ROWS)


def test_without_a_frame_library_the_code_table_is_a_list(monkeypatch):
    slim = Slim().fit(ROWS)
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "polars", None)
    assert slim.codetable_[0]["itemset"]


def test_limits_are_kept():
    slim = Slim(max_itemset_size=2, min_support=9).fit(ROWS)
    assert all(len(e) <= 2 and e.support >= 9 for e in slim.table_.itemsets)
    assert Slim(max_itemset_size=1).fit(ROWS).table_.itemsets == ()
