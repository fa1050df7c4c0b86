from __future__ import annotations

import pickle
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from scipy.sparse import coo_array, csr_array
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
    slim = Slim(
        effort=2, max_time=5, order="support", min_support=3, max_itemset_size=4, pruning=False, threads=2, width=3
    )
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
    assert "{bread, milk}" in names


def test_reconstructing_anything_else_is_refused():
    slim = Slim().fit(ROWS)
    for covers in (np.ones((2, 2)), csr_array((3, 1)), coo_array(np.array([1, 0, 0]))):
        with pytest.raises(DataError, match="takes what transform returns"):
            slim.reconstruct(covers)


def test_a_stored_zero_is_no_use():
    slim = Slim().fit(ROWS)
    n = slim.transform(ROWS).shape[1]
    assert list(slim.reconstruct(csr_array(([0], [0], [0, 1]), shape=(1, n)))) == [()]


def test_the_bits_of_a_transaction_do_not_depend_on_the_others():
    db = builtin_database("encounters")
    slim = Slim().fit(db)
    together = slim.code_lengths(db)
    assert together[::500].tolist() == [slim.code_lengths(db.take([t]))[0] for t in range(0, len(db), 500)]


def test_unusual_transactions_take_more_bits():
    db = builtin_database("encounters")
    slim = Slim().fit(db)
    usual = slim.code_lengths(db)
    odd = slim.code_lengths([["child", "metformin", "sumatriptan", "aspirin", "furosemide", "never seen before"]])
    assert len(usual) == len(db)
    assert odd[0] > np.quantile(usual, 0.99)


def test_a_pickled_estimator_scores_alike():
    slim = Slim().fit(ROWS)
    before = slim.code_lengths(ROWS)
    again = pickle.loads(pickle.dumps(slim))  # noqa: S301  # our own bytes
    assert again.code_lengths(ROWS).tolist() == before.tolist()
    assert again.table_ == slim.table_


def test_fitting_again_forgets_the_first_table():
    slim = Slim().fit(ROWS)
    slim.code_lengths(ROWS)
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
    for use in ("transform", "code_lengths", "score_samples", "score", "reconstruct"):
        with pytest.raises(NotFittedError):
            getattr(Slim(), use)(ROWS)
    with pytest.raises(NotFittedError):
        _ = Slim().codetable_


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"effort": 0}, "effort must be a whole number from 1 to 8 or None, not 0"),
        ({"effort": 9}, "effort must be a whole number from 1 to 8 or None, not 9"),
        ({"effort": True}, "effort must be"),
        ({"effort": "high"}, "effort must be"),
        ({"seed": -1}, "seed must be a whole number of at least 0, not -1"),
        ({"seed": 1.5}, "seed must be a whole number of at least 0, not 1.5"),
        ({"seed": True}, "seed must be"),
        ({"seed": None}, "seed must be"),
        ({"order": "size"}, "order must be 'usage' or 'support'"),
        ({"max_time": 0}, "max_time must be a positive number"),
        ({"max_time": float("nan")}, "max_time must be a positive number"),
        ({"max_time": "5"}, "max_time must be a positive number"),
        ({"max_itemset_size": 0}, "max_itemset_size must be a whole number of at least 1 or None"),
        ({"max_itemset_size": 2.5}, "max_itemset_size must be a whole number"),
        ({"min_support": 0}, "min_support must be a whole number of at least 1, not 0"),
        ({"min_support": None}, "min_support must be a whole number"),
        ({"width": 0}, "width must be a whole number from 1 to 64, not 0; 1 is SLIM as published"),
        ({"width": 65}, "width must be a whole number from 1 to 64, not 65"),
        ({"width": 2.0}, "width must be a whole number"),
        ({"width": True}, "width must be a whole number"),
        ({"width": None}, "width must be a whole number"),
        ({"threads": 0}, "threads must be a whole number"),
        ({"threads": True}, "threads must be a whole number"),
        ({"pruning": "no"}, "pruning must be True or False"),
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


mixed = st.lists(
    st.tuples(
        st.one_of(st.none(), st.floats(-100, 100)),
        st.integers(0, 50),
        st.one_of(st.none(), st.sampled_from(["a", "b", "c"])),
        st.booleans(),
    ),
    min_size=12,
    max_size=40,
)


@settings(max_examples=40, deadline=None)
@given(rows=mixed, size=st.integers(0, 12), library=st.sampled_from(["pandas", "polars"]), every=st.booleans())
def test_the_scores_of_a_slice_are_the_slice_of_the_scores(rows, size, library, every):
    table = dict(zip(("x", "n", "word", "flag"), map(list, zip(*rows, strict=True)), strict=True))
    table = table if every else {"flag": table["flag"], "bit": [n % 2 for n in table["n"]]}
    df = pd.DataFrame(table) if library == "pandas" else pl.DataFrame(table, strict=False)
    slim = Slim().fit(df)
    assert slim.code_lengths(df.head(size)) == pytest.approx(slim.code_lengths(df)[:size])
    assert (slim.transform(df.head(size)) != slim.transform(df)[:size]).nnz == 0
    assert slim.code_lengths(df).tolist() == slim.code_lengths(slim.reconstruct(slim.transform(df))).tolist()


PEOPLE = pd.DataFrame({"age": [*range(20, 60)], "city": ["Bonn", "Ulm"] * 20})


def test_a_pickled_estimator_remembers_how_rows_became_items():
    slim = Slim().fit(PEOPLE)
    again = pickle.loads(pickle.dumps(slim))  # noqa: S301  # our own bytes
    assert again.encoding_ == slim.encoding_
    assert again.code_lengths(PEOPLE[3:5]).tolist() == slim.code_lengths(PEOPLE[3:5]).tolist()


def test_a_file_is_scored_as_the_frame_was_fitted(tmp_path):
    slim = Slim().fit(PEOPLE)
    PEOPLE[7:9].to_csv(tmp_path / "some.csv", index=False)
    PEOPLE[7:9].to_parquet(tmp_path / "some.parquet")
    for name in ("some.csv", "some.parquet"):
        assert slim.code_lengths(tmp_path / name) == pytest.approx(slim.code_lengths(PEOPLE)[7:9])


def test_a_value_never_seen_is_scored_but_has_no_cover():
    slim = Slim().fit(PEOPLE)
    strange = pd.DataFrame({"age": [99, 20], "city": ["Rom", "Ulm"]})
    assert slim.code_lengths(strange)[0] > slim.code_lengths(strange)[1]
    with pytest.raises(DataError, match="transaction 1 has the item 'city=Rom', which the code table does not know"):
        slim.transform(strange)


def test_data_of_another_shape_than_in_fitting_are_refused():
    slim = Slim().fit(PEOPLE)
    for use in (slim.transform, slim.code_lengths):
        with pytest.raises(DataError, match="there is no column 'age'"):
            use(PEOPLE[["city"]])
        with pytest.raises(DataError, match="the model was fitted on lists of items"):
            getattr(Slim().fit(ROWS), use.__name__)(PEOPLE)
    assert slim.code_lengths([["age=<24", "city=Bonn"]]) == pytest.approx(slim.code_lengths(PEOPLE)[:1])


def test_a_schema_says_what_rows_mean_in_fitting_and_later(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(
        '[columns.age]\nkind = "numeric"\nbins = 2\n[columns.city]\nkind = "categorical"\naliases = ["Ort"]\n'
    )
    slim = clone(Slim(schema=path)).fit(PEOPLE)
    assert {label.partition("=")[0] for label in slim.table_.vocabulary} == {"age", "city"}
    again = pickle.loads(pickle.dumps(slim))  # noqa: S301  # our own bytes
    renamed = PEOPLE.rename(columns={"city": "ORT"})[["ORT", "age"]]
    assert again.code_lengths(renamed).tolist() == slim.code_lengths(PEOPLE).tolist()


def test_a_notebook_shows_the_table_once_there_is_one():
    slim = Slim(width=3)
    assert "Slim(width=3)" in slim._repr_html_()
    fitted = slim.fit([["<b>bread</b>", "milk"], ["jam"]] * 9)._repr_mimebundle_(include=None)["text/html"]
    assert "&lt;b&gt;bread&lt;/b&gt;" in fitted
    assert "1 itemsets, L% = " in fitted
    assert "<style>" in slim.table_._repr_html_()
