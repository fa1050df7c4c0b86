from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings, strategies as st

from fedslim.data import TransactionDatabase, builtin_database, iid
from fedslim.errors import ParameterError
from fedslim.mdl import mine
from fedslim.mdl.covering import worth
from fedslim.metrics import discovery_gap, predict_gap
from fedslim.metrics.gap import local_gain_estimate

PAIRS = ["".join(pair) for pair in combinations("abcde", 2)]
TABLES = st.dictionaries(st.sampled_from([*PAIRS, "abc", "a"]), st.integers(1, 9))


def labels(gap):
    return ["".join(itemset.labels) for itemset in gap.itemsets]


def database(*rows, vocabulary=None):
    return TransactionDatabase.from_transactions([list(row) for row in rows], vocabulary=vocabulary)


def test_the_gap_is_what_no_member_found(table):
    reference = table({"ab": 4, "cd": 9, "ef": 7, "a": 80})
    gap = discovery_gap(reference, [table({"ba": 1}), table({"ab": 1, "xy": 5})])
    assert labels(gap) == ["cd", "ef"]
    assert [itemset.usage for itemset in gap.itemsets] == [9, 7]
    assert [itemset.supports for itemset in gap.itemsets] == [(), ()]
    assert gap.local_tables == 2


def test_each_itemset_of_the_gap_has_its_support_at_each_member(table):
    databases = [
        database("abc", "ab", "ab"),
        database("ab", "bc"),
        database("xyz", "bc"),  # has no a at all
        database("ba", vocabulary="zyxcba"),
    ]
    gap = discovery_gap(table({"ab": 5, "cz": 2}), [table({})] * 4, databases)
    assert [itemset.supports for itemset in gap.itemsets] == [(3, 1, 0, 1), (0, 0, 0, 0)]


def test_recovery_by_hand(table):
    gap = discovery_gap(table({"ab": 4, "cd": 9, "ef": 7}), [table({"cd": 1})])
    recovered = gap.recovered_by(table({"cd": 3, "fe": 2, "xy": 1}))
    assert [itemset.labels for itemset in recovered] == [("e", "f")]


def test_without_a_gap_nothing_is_left_to_recover(table):
    gap = discovery_gap(table({"ab": 4}), [table({"ab": 4})], [database("ab")])
    assert len(gap) == 0
    assert gap.recovered_by(table({})) == ()


def test_without_members_everything_is_a_gap(table):
    assert labels(discovery_gap(table({"ab": 4}), [])) == ["ab"]


@given(TABLES, st.lists(TABLES, max_size=4), TABLES)
def test_the_gap_equals_its_naive_twin(table, reference, local, found):
    gap = discovery_gap(table(reference), [table(usages) for usages in local])
    expected = {x for x in reference if len(x) > 1 and not any(x in usages for usages in local)}
    assert set(labels(gap)) == expected
    assert len(gap) == len(expected)
    assert len(gap.recovered_by(table(found))) == sum(x in found for x in expected)
    assert gap.recovered_by(table(reference)) == gap.itemsets


@settings(max_examples=25)
@given(
    st.lists(st.lists(st.sets(st.sampled_from("abcde")), min_size=1, max_size=8), min_size=1, max_size=4),
    st.sets(st.sampled_from([*PAIRS, "abc"]), min_size=1),
)
def test_supports_equal_their_naive_twin(table, members, itemsets):
    databases = [database(*rows) for rows in members]
    gap = discovery_gap(table(dict.fromkeys(itemsets, 1)), [table({})] * len(members), databases)
    assert {"".join(itemset.labels) for itemset in gap.itemsets} == itemsets
    for itemset in gap.itemsets:
        assert list(itemset.supports) == [sum(set(itemset.labels) <= row for row in rows) for rows in members]


def test_splitting_a_database_opens_a_gap_that_the_whole_table_closes():
    rows = [["fever", "cough", "rash"], ["fever", "cough"], ["ache", "rash"], ["ache"], ["cough", "ache", "rash"]] * 4
    db = TransactionDatabase.from_transactions(rows)
    whole = mine(db).table
    parts = iid(db, 10).parts
    gap = discovery_gap(whole, [mine(part).table for part in parts], parts)
    assert len(gap)
    assert gap.recovered_by(whole) == gap.itemsets
    support = {element.labels: element.support for element in whole.itemsets}
    for itemset in gap.itemsets:
        assert max(itemset.supports) <= max(support[x] for x in support if set(x) == set(itemset.labels))


# -- the paper's estimate of the local gain ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gain", "code_length", "members", "local"),
    [(100.0, 5.0, 1, 100.0), (100.0, 5.0, 2, 45.0), (100.0, 5.0, 10, 1.0), (100.0, 5.0, 20, -4.5), (0.0, 0.0, 3, 0.0)],
)
def test_the_local_gain_by_hand(gain, code_length, members, local):
    assert local_gain_estimate(gain, code_length, members) == local


@given(st.floats(0, 1e6), st.floats(0, 100), st.integers(1, 1000))
def test_the_local_gain_is_the_papers_equation(gain, code_length, n):
    expected = gain / n - (n - 1) / n * 2 * code_length
    assert local_gain_estimate(gain, code_length, n) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert local_gain_estimate(gain, code_length, n + 1) <= local_gain_estimate(gain, code_length, n) + 1e-9


# -- errors ------------------------------------------------------------------------------------------------------------


def test_as_many_databases_as_tables_are_needed(table):
    with pytest.raises(ParameterError, match="2 local tables and 1 databases"):
        discovery_gap(table({}), [table({})] * 2, [database("ab")])


@pytest.mark.parametrize(
    ("gain", "code_length", "members", "message"),
    [
        (1.0, 1.0, 0, "number of members is 0"),
        (1.0, 1.0, 2.0, "number of members is 2.0"),
        (1.0, 1.0, True, "number of members is True"),
        (float("nan"), 1.0, 2, "the gain is nan"),
        (1.0, float("inf"), 2, "code length is inf"),
        (1.0, -1.0, 2, "code length is -1.0"),
    ],
)
def test_a_local_gain_of_nonsense_is_refused(gain, code_length, members, message):
    with pytest.raises(ParameterError, match=message):
        local_gain_estimate(gain, code_length, members)


# -- and how well it predicts the gap ----------------------------------------------------------------------------------


@given(
    st.lists(st.frozensets(st.sampled_from("abcdef"), min_size=2), min_size=4, max_size=30),
    st.integers(1, 4),
    st.data(),
)
@settings(max_examples=60, deadline=None)
def test_a_prediction_counts_what_its_naive_twin_counts(rows, times, data):
    database = TransactionDatabase.from_transactions([sorted(row) for row in rows * times])
    reference = mine(database).table
    parts = iid(database, 2, seed=0).parts
    gap = discovery_gap(reference, [mine(part).table for part in parts])
    gains = data.draw(st.lists(st.integers(-40, 200), min_size=len(reference), max_size=len(reference)))
    told = predict_gap(reference, gains, gap)
    lost = {frozenset(itemset.labels) for itemset in gap.itemsets}
    local = {
        frozenset(e.labels): gain / 2 - 0.5 * 2 * e.code_length
        for e, gain in zip(reference.itemsets, gains, strict=True)
    }
    said = {labels for labels, gain in local.items() if gain <= 0}
    assert (told.predicted, told.actual, told.both) == (len(said), len(lost), len(said & lost))
    pairs = [(local[x], local[y]) for x in lost for y in local.keys() - lost]
    if pairs:
        wins = sum(1.0 if x < y else 0.5 if x == y else 0.0 for x, y in pairs)
        assert told.auc == pytest.approx(wins / len(pairs))
    else:
        assert told.auc == 0.5


def test_the_equation_tells_the_gap_of_the_built_in_data():
    database = builtin_database("encounters")
    reference = mine(database).table
    parts = iid(database, 10, seed=0).parts
    gap = discovery_gap(reference, [mine(part).table for part in parts])
    told = predict_gap(reference, worth(database, reference), gap)
    assert told.actual == len(gap) > 0
    assert told.auc > 0.7
    assert 0 < told.precision <= 1
    assert 0 < told.recall <= 1
