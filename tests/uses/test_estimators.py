from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from fedslim import Slim, SlimClassifier, SlimOutlierDetector
from fedslim.data import TransactionDatabase, builtin_database
from fedslim.errors import CodeTableError, DataError, ParameterError
from fedslim.federated import FedSlimClassifier
from fedslim.uses.cells import labelled

LISTS = "lists of numbers are rows of items, so what was fitted on lists does not take arrays"
NOT_APPLICABLE = {
    Slim: {},
    SlimClassifier: {"check_classifiers_train": LISTS},
    SlimOutlierDetector: {
        "check_outliers_train": LISTS,
        "check_outliers_fit_predict": "in its two columns of ten even intervals no itemset pays, so all rows are alike",
    },
}
ROWS = [["bread", "milk", "jam"], ["bread", "milk"], ["jam", "tea"], ["tea"]] * 8
CLASSES = ["morning", "morning", "evening", "evening"] * 8


@pytest.mark.parametrize("estimator", NOT_APPLICABLE)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks(estimator):
    results = check_estimator(estimator(), expected_failed_checks=NOT_APPLICABLE[estimator], on_skip=None)
    failed = {result["check_name"] for result in results if result["status"] == "xfail"}
    assert failed == set(NOT_APPLICABLE[estimator])


# -- Slim --------------------------------------------------------------------------------------------------------------


def test_score_samples_is_higher_for_normal_rows_and_score_compares_tables():
    slim = Slim().fit(ROWS)
    usual, odd = slim.score_samples([["bread", "milk"], ["bread", "tea"]])
    assert usual > odd
    assert slim.score_samples(ROWS).tolist() == (-slim.code_lengths(ROWS)).tolist()
    assert slim.score(ROWS) > Slim(max_itemset_size=1).fit(ROWS).score(ROWS) == pytest.approx(0, abs=0.2)
    assert (cross_val_score(Slim(), np.array(ROWS, dtype=object), cv=3) > 0).all()


def test_output_is_a_frame_if_asked_for():
    for library, frame in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        slim = Slim().set_output(transform=library)
        covers = slim.fit_transform(ROWS)
        assert isinstance(covers, frame)
        assert "{bread, milk}" in covers.columns
        assert covers.shape[0] == len(ROWS)
        assert list(slim.inverse_transform(covers)) == [tuple(sorted(row)) for row in ROWS]


def test_features_are_counted_and_named_for_arrays_and_frames_only():
    assert Slim().fit(np.eye(4, dtype=int)).n_features_in_ == 4
    slim = Slim().fit(pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}))
    assert slim.feature_names_in_.tolist() == ["a", "b"]
    assert not hasattr(slim.fit(ROWS), "n_features_in_")
    with pytest.raises(ValueError, match="expecting 4 features"):
        Slim().fit(np.eye(4, dtype=int)).transform(np.eye(3, dtype=int))


def test_no_two_features_have_the_same_name():
    slim = Slim().fit([["a", "b"]] * 9 + [["a, b"]] * 9 + [["a b"], ["a"], ["b"]])
    names = slim.get_feature_names_out().tolist()
    assert len(set(names)) == len(names)


def test_tables_are_short_in_print_and_start_with_what_saves_most():
    slim = Slim().fit(builtin_database("encounters"))
    assert len(repr(slim.table_)) < 120
    saved = slim.codetable_["bits_saved"][: len(slim.table_)].tolist()
    assert saved == sorted(saved, reverse=True)


# -- classes -----------------------------------------------------------------------------------------------------------


def test_the_probability_of_a_class_follows_from_its_bits():
    model = SlimClassifier().fit(ROWS, CLASSES)
    bits = np.stack([table.code_lengths(ROWS) for table in model.tables_], axis=1) + 1  # both are half of the rows
    assert model.code_lengths(ROWS) == pytest.approx(bits)
    weights = 2.0**-bits
    assert model.predict_proba(ROWS) == pytest.approx(weights / weights.sum(axis=1, keepdims=True))
    assert model.predict(ROWS).tolist() == CLASSES
    assert model.classes_.tolist() == ["evening", "morning"]


def test_a_frequent_class_needs_fewer_bits_with_a_prior():
    y = ["a"] * 30 + ["b"] * 2
    model = SlimClassifier().fit([["x"]] * 32, y)
    assert model.predict([["x"]]).tolist() == ["a"]
    assert model.code_lengths([["x"]])[0] - clone(model).set_params(prior=False).fit([["x"]] * 32, y).code_lengths(
        [["x"]]
    )[0] == pytest.approx([np.log2(32 / 30), np.log2(32 / 2)])


def test_it_works_with_everything_in_scikit_learn():
    rows = np.array(ROWS, dtype=object)
    assert cross_val_score(SlimClassifier(), rows, CLASSES, cv=4).min() == 1.0
    search = GridSearchCV(SlimClassifier(), {"prior": [True, False], "width": [1, 4]}, cv=2).fit(rows, CLASSES)
    assert search.best_score_ == 1.0
    pipeline = make_pipeline(FunctionTransformer(), SlimClassifier()).fit(rows, CLASSES)
    assert pipeline.predict(rows).tolist() == CLASSES
    again = pickle.loads(pickle.dumps(pipeline))  # noqa: S301  # our own bytes
    assert again.predict(rows).tolist() == CLASSES


def test_an_explanation_has_the_covers_of_the_two_best_classes():
    why = SlimClassifier().fit(ROWS, CLASSES).explain(ROWS, 1)
    assert list(why.covers) == list(why.bits) == ["morning", "evening"]
    assert "with the table of morning" in str(why)
    shown = [float(line.split()[0]) for line in str(why).splitlines() if line.startswith("  ")]
    assert sum(shown) == pytest.approx(sum(why.bits.values()), abs=0.5)
    with pytest.raises(DataError, match="no row 33"):
        SlimClassifier().fit(ROWS, CLASSES).explain(ROWS, 33)


def test_a_saved_classifier_predicts_alike_and_bad_files_are_refused(tmp_path):
    frame = pd.DataFrame({"age": np.arange(200) % 61, "city": ["Bonn", "Ulm"] * 100})
    y = (frame["age"] > 30).to_numpy()
    model = SlimClassifier().fit(frame, y)
    path = tmp_path / "classifier.json"
    model.save(path)
    again = SlimClassifier.load(path)
    assert again.predict_proba(frame).tolist() == model.predict_proba(frame).tolist()
    assert again.classes_.dtype == bool
    good = json.loads(path.read_text())
    for change, why in (
        (lambda c: c.update(version=9), "version 9"),
        (lambda c: c["classes"][0].update({"class": True}), "different values"),
        (lambda c: c["classes"].clear(), "different values"),
        (lambda c: c["classes"][0].update(table={}), "not a code table"),
    ):
        content = json.loads(json.dumps(good))
        change(content)
        path.write_text(json.dumps(content))
        with pytest.raises(CodeTableError, match=why):
            SlimClassifier.load(path)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(st.sets(st.integers(0, 6)), st.sampled_from("abc"), st.integers(0, 2)), min_size=1, max_size=40)
)
def test_members_find_the_classifier_of_all_rows_in_one_place(rows):
    db = TransactionDatabase.from_transactions([items for items, _, _ in rows])
    y = np.array([label for _, label, _ in rows])
    own = [np.array([t for t, row in enumerate(rows) if row[2] == member], np.int64) for member in range(3)]
    together = FedSlimClassifier().fit([db.take(part) for part in own], [y[part] for part in own])
    assert together.tables_ == SlimClassifier().fit(db, y).tables_
    assert together.classes_.tolist() == sorted(set(y.tolist()))


def test_equal_classifiers_are_equal_files(tmp_path):
    table = pd.DataFrame({"age": np.arange(300) % 67, "city": ["Bonn", "Ulm", "Kiel"] * 100})
    y = ["old" if age > 40 else "young" for age in table["age"]]
    SlimClassifier().fit(table, y).save(tmp_path / "one.json")
    halves = {"north": table[:100], "south": table[100:]}
    FedSlimClassifier().fit(halves, {"south": y[100:], "north": y[:100]}).save(tmp_path / "other.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "other.json").read_bytes()


def test_bad_classes_are_refused():
    with pytest.raises(DataError, match="no rows to learn from"):
        SlimClassifier().fit(pd.DataFrame({"a": []}), [])
    with pytest.raises(DataError, match="32 rows but 31 classes"):
        SlimClassifier().fit(ROWS, CLASSES[:-1])
    with pytest.raises(DataError, match="classes of 1"):
        FedSlimClassifier().fit([ROWS, ROWS], [CLASSES])


def test_classes_come_from_a_column_or_from_items(tmp_path):
    (tmp_path / "t.csv").write_text("class,x\na,1\nb,2\na,\n")
    (tmp_path / "one.csv").write_text("class\na\nb\n")
    database, labels = labelled(tmp_path / "t.csv", "class")
    assert labels == ["a", "b", "a"]
    assert list(database) == [("x=1",), ("x=2",), ()]
    database, labels = labelled([[1, 5], [2, 5], [6, 1]], "1,2")
    assert labels == ["1", "2", "1"]
    assert list(database) == [("5",), ("5",), ("6",)]
    for rows, column, why in (
        ([[1, 5], [5]], "1,2", "no item '2'"),
        ([[1, 2], [2]], "1,2", "row 1 does not have exactly one"),
        (tmp_path / "t.csv", "colour", "no column 'colour'; the columns are 'class', 'x'"),
        (tmp_path / "one.csv", "class", "'class' is the only column"),
        (tmp_path / "t.csv", "x", "row 3 has no value"),
    ):
        with pytest.raises(DataError, match=why):
            labelled(rows, column)


# -- outliers ----------------------------------------------------------------------------------------------------------


def test_planted_rows_are_found():
    db = builtin_database("encounters")
    detector = SlimOutlierDetector(contamination=0.02).fit(db)
    assert (detector.predict(db) == -1).mean() == pytest.approx(0.02, abs=0.002)
    odd = [["child", "metformin", "sumatriptan", "aspirin", "furosemide", "never seen before"]]
    assert detector.predict(odd).tolist() == [-1]
    assert detector.decision_function(odd)[0] == pytest.approx(detector.score_samples(odd)[0] - detector.offset_)
    lengths = db.lengths
    assert abs(np.corrcoef(detector.score_samples(db), lengths)[0, 1]) < 1e-9


@pytest.mark.parametrize("contamination", [0, 0.6, True, "auto"])
def test_an_impossible_contamination_is_refused(contamination):
    with pytest.raises(ParameterError, match="contamination"):
        SlimOutlierDetector(contamination=contamination).fit(ROWS)
