"""With `min_count`, a table has no smaller count, none can be computed from it, and it stays lossless."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from test_engine_equals_twin import database, databases

from fedslim import Slim
from fedslim.errors import CodeTableError, ParameterError
from fedslim.mdl.codetable import CodeTable
from fedslim.mdl.covering import Covering
from fedslim.mdl.mining import mine
from fedslim.mdl.release import merge_rare


def counts_of(table):
    """Every count in a table."""
    found = [count for _, *three in table.found for count in three]
    return [*table.supports, *table.singleton_usages, table.other, *found]


def spelled(table):
    """How often items are spelled out, as anybody can compute it from the table."""
    left = np.array(table.supports)
    for items, usage, _, _ in table.found:
        left[list(items)] -= usage
    return left.tolist()


@settings(max_examples=200)
@example(([{0, 1}] * 9 + [{0}] * 2 + [{2}], 3), 5)
@given(databases(), st.sampled_from([1, 2, 3, 5, 10]))
def test_no_count_below_the_smallest_is_shown_or_can_be_computed(case, least):
    table = mine(database(*case), min_count=least).table
    assert all(count == 0 or count >= least for count in counts_of(table))
    assert spelled(table) == list(table.singleton_usages)
    if least > 1:
        assert all(table.supports)


@settings(max_examples=100)
@given(databases(), st.sampled_from([2, 3, 5]))
def test_a_table_stays_lossless_for_the_items_that_it_has(case, least):
    db = database(*case)
    table = mine(db, min_count=least).table
    covering = Covering(table)
    ends, elements = covering.cover(db)
    begin = 0
    for t, end in enumerate(ends.tolist()):
        items = sorted(i for e in elements[begin:end].tolist() for i in covering.items_of(e))
        assert [table.vocabulary[i] for i in items] == [x for x in db.transaction(t) if x in table.vocabulary]
        begin = end
    usages = np.bincount(elements, minlength=covering.n_elements)
    assert usages[: len(table)].tolist() == [usage for _, usage, _, _ in table.found]
    # What was merged is exactly what is missing.
    merged = db.occurrences - sum(table.supports)
    assert table.other == merged - merged % least
    # Supports are published as exactly as possible without revealing a small count.
    for items, usage, support, _ in table.found:
        labels = {table.vocabulary[i] for i in items}
        true = sum(labels <= set(db.transaction(t)) for t in range(len(db)))
        assert support == usage + (true - usage) - (true - usage) % least


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=8), st.integers(1, 6))
def test_what_is_merged_is_taken_out_of_usages_and_supports_alike(pairs, least):
    usages = np.array([u for u, _ in pairs], np.int64)
    supports = usages + np.array([10 * more for _, more in pairs], np.int64)
    shown = merge_rare(supports, usages, least)
    slow = [0 if u < least else u for u in usages.tolist()]
    assert shown.usages.tolist() == slow
    assert (shown.supports - shown.usages).tolist() == (supports - usages).tolist()
    other = int(usages.sum()) - sum(slow)
    assert shown.other == other - other % least


def test_what_is_withheld_is_merged_however_often_it_occurs():
    supports, usages = np.array([50, 40, 9]), np.array([20, 40, 9])
    shown = merge_rare(supports, usages, 5, np.array([False, True, False]))
    assert (shown.supports.tolist(), shown.usages.tolist(), shown.other) == ([50, 0, 9], [20, 0, 9], 40)


def test_a_table_with_a_smallest_count_is_the_same_after_saving_and_loading(tmp_path):
    table = mine(database([{0, 1}] * 9 + [{0}] * 2 + [{2}] * 3 + [{3}] * 6, 4), min_count=5).table
    assert table.vocabulary == ("0", "1", "3")
    assert (table.min_count, table.other) == (5, 5)  # two of 0 and three of 2
    table.save(tmp_path / "table.json")
    assert CodeTable.load(tmp_path / "table.json") == table
    text = (tmp_path / "table.json").read_text()
    (tmp_path / "table.json").write_text(text.replace('"min_count": 5', '"min_count": 8'))
    with pytest.raises(CodeTableError, match="min_count is 8"):
        CodeTable.load(tmp_path / "table.json")


def test_without_a_smallest_count_files_are_what_they_always_were(tmp_path):
    mine(database([{0, 1}] * 9, 2)).table.save(tmp_path / "table.json")
    text = (tmp_path / "table.json").read_text()
    assert '"version": 1,' in text
    assert "min_count" not in text


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "5"])
def test_a_smallest_count_that_is_none_is_refused(bad):
    with pytest.raises(ParameterError, match="min_count must be a whole number of at least 1"):
        mine(database([{0}], 1), min_count=bad)


def test_an_estimator_covers_and_scores_rows_whose_rare_items_were_merged():
    rows = [["a", "b"]] * 9 + [["a", "x"]] * 3 + [["y"]] * 2
    slim = Slim(min_count=5).fit(rows)
    assert slim.table_.vocabulary == ("a", "b")
    assert slim.table_.other == 5  # of three a, three x and two y
    assert slim.transform(rows).shape[0] == len(rows)
    known, strange = slim.code_lengths([["a"], ["y"]])
    assert 0 < strange < 8
    assert known > 0
