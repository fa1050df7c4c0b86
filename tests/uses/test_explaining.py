from __future__ import annotations

import pandas as pd
import pytest

from fedslim import Slim
from fedslim.data import builtin_database
from fedslim.errors import DataError
from fedslim.mdl import mine
from fedslim.uses import complete, explain, rules, score

ROWS = [["bread", "milk", "jam"], ["bread", "milk"], ["jam", "tea"]] * 8


def test_the_parts_add_up_to_the_bits_of_the_row():
    db = builtin_database("encounters")
    table = mine(db).table
    scores = score(table, db)
    for row in scores.ranking[:20].tolist():
        why = explain(table, db, row + 1)
        assert why.bits == pytest.approx(sum(part.bits for part in (*why.cover, *why.spelled, *why.unknown)))
        assert {i for part in (*why.cover, *why.spelled) for i in part.items} == set(db.transaction(row))
        assert why.beyond == pytest.approx(why.bits - why.expected)
    assert explain(table, db, int(scores.ranking[0]) + 1).rank == 1


def test_with_a_missed_item_the_row_takes_as_many_bits_fewer_as_it_says():
    db = builtin_database("encounters")
    table = mine(db).table
    row = int(score(table, db).ranking[0])
    why = explain(table, db, row + 1)
    assert why.missed
    for missed in why.missed:
        assert missed.item in missed.items
        fuller = [[*db.transaction(row), missed.item]]
        assert why.bits - table.code_lengths(fuller)[0] == pytest.approx(missed.bits_fewer)


def test_a_single_use_is_in_the_singular():
    table = Slim().fit([*ROWS, ["tea", "salt"]]).table_
    assert "{salt}  (used 1 time)" in str(explain(table, [["salt"]], 1))


def test_in_a_table_a_missing_item_takes_the_place_of_the_value_of_its_column():
    frame = pd.DataFrame({"drink": ["tea", "coffee"] * 20, "milk": ["no", "yes"] * 20, "cup": ["small", "large"] * 20})
    why = explain(Slim().fit(frame).table_, pd.DataFrame({"drink": ["tea"], "milk": ["no"], "cup": ["large"]}), 1)
    assert (why.missed[0].item, why.missed[0].instead) == ("cup=small", "cup=large")


def test_unknown_items_and_unlikely_pairs_are_named():
    rows = [["a", "b"], ["c", "d"]] * 50 + [["a", "b", "c", "d"]]
    why = explain(Slim().fit(rows).table_, [*rows, ["a", "b", "new"]], 101)
    assert {why.unlikely[0].first, why.unlikely[0].second} == {("a", "b"), ("c", "d")}
    assert why.unlikely[0].bits > 4
    why = explain(Slim().fit(rows).table_, [["a", "b", "new"]], 1)
    assert [part.items for part in why.unknown] == [("new",)]
    assert "new" in str(why)
    assert why.as_dict()["row"] == 1


@pytest.mark.parametrize("row", [0, 25])
def test_a_row_that_is_not_there_is_refused(row):
    with pytest.raises(DataError, match=f"there is no row {row}"):
        explain(Slim().fit(ROWS).table_, ROWS, row)


# -- missing cells -----------------------------------------------------------------------------------------------------


def test_each_missing_cell_gets_the_value_with_the_shortest_code():
    frame = pd.DataFrame({"drink": ["tea", "coffee"] * 20, "milk": ["no", "yes"] * 20, "a=b": ["x", "y"] * 20})
    table = Slim().fit(frame).table_
    gaps = pd.DataFrame({"drink": ["coffee", None, "tea"], "milk": [None, "no", "no"], "a=b": ["y", "x", None]})
    cells = complete(table, gaps)
    assert [(c.row, c.column, c.values[0][0]) for c in cells] == [  # noqa: PD011  # no frames
        (1, "milk", "yes"),
        (2, "drink", "tea"),
        (3, "a=b", "x"),
    ]
    value, bits = cells[0].values[1]  # noqa: PD011
    assert bits == pytest.approx(table.code_lengths(gaps.iloc[:1].assign(milk=value))[0])


def test_a_value_that_the_table_does_not_know_is_not_missing():
    frame = pd.DataFrame({"drink": ["tea", "coffee"] * 20, "milk": ["no", "yes"] * 20})
    assert complete(Slim().fit(frame).table_, pd.DataFrame({"drink": ["water"], "milk": ["no"]})) == []


def test_lists_of_items_have_no_cells():
    with pytest.raises(DataError, match="no cells to complete"):
        complete(Slim().fit(ROWS).table_, ROWS)


# -- rules -------------------------------------------------------------------------------------------------------------


def test_rules_are_what_counting_gives():
    db = builtin_database("encounters")
    frame = rules(mine(db).table, min_confidence=0.6)
    rows = [set(row) for row in db]
    n = len(rows)
    assert len(frame) > 20
    for r in frame.to_dict("records")[::7]:
        both = sum(r["antecedents"] | r["consequents"] <= row for row in rows) / n
        given = sum(r["antecedents"] <= row for row in rows) / n
        then = sum(r["consequents"] <= row for row in rows) / n
        assert r["support"] == pytest.approx(both)
        assert r["confidence"] == pytest.approx(both / given)
        assert r["confidence"] >= 0.6
        assert r["lift"] == pytest.approx(both / given / then)
        assert r["leverage"] == pytest.approx(both - given * then)
        assert r["jaccard"] == pytest.approx(both / (given + then - both))
        assert r["certainty"] == pytest.approx((r["confidence"] - then) / (1 - then))
        assert r["kulczynski"] == pytest.approx(both * (1 / given + 1 / then) / 2)
        largest = max(both * (1 - given), given * (then - both))
        assert r["zhangs_metric"] == pytest.approx(r["leverage"] / largest)
    assert frame["lift"].is_monotonic_decreasing
    assert isinstance(frame["antecedents"].iloc[0], frozenset)
