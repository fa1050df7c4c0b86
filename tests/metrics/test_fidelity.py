from __future__ import annotations

import json
import math
from itertools import combinations

import msgspec
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from fedslim.data import TransactionDatabase
from fedslim.errors import ParameterError
from fedslim.mdl import mine
from fedslim.metrics import fidelity, load_reference, spearman, weighted_recall

PAIRS = ["".join(pair) for pair in combinations("abcdefgh", 2)]
# Some of them are singletons, which must be ignored.
TABLES = st.dictionaries(st.sampled_from([*PAIRS, "abc", "abd", "a", "b"]), st.integers(1, 6))


def without_singletons(usages):
    return {letters: usage for letters, usage in usages.items() if len(letters) > 1}


# -- by hand -----------------------------------------------------------------------------------------------------------


def test_an_example_by_hand(table):
    reference = table({"ab": 10, "cd": 6, "ef": 3, "gh": 1, "a": 50})
    found = table({"ba": 7, "ef": 9, "gh": 1, "ac": 2, "bd": 2, "c": 9})
    result = fidelity(reference, found)
    assert (result.matched, result.missed, result.extra) == (3, 1, 2)
    assert result.recall == 3 / 4
    assert result.precision == 3 / 5
    assert result.f1 == pytest.approx(2 / 3)
    assert result.wr50 == result.wr100 == 14 / 20
    assert result.rho == 0.5  # ranks 3 2 1 against 2 3 1
    assert weighted_recall(reference, found, 1) == 1.0
    assert weighted_recall(reference, found, 2) == 10 / 16
    assert weighted_recall(reference, found, 3) == 13 / 19


def test_ties_at_the_kth_usage_go_to_the_larger_then_to_the_first_by_label(table):
    reference = table({"bd": 5, "ac": 5, "abc": 5, "ab": 5, "ef": 9})
    order = ["ef", "abc", "ab", "ac", "bd"]
    for k in range(1, 6):
        for place, letters in enumerate(order):
            expected = (reference_usage(letters) if place < k else 0) / (9 + 5 * (k - 1))
            assert weighted_recall(reference, table({letters: 1}), k) == expected


def reference_usage(letters):
    return 9 if letters == "ef" else 5


def test_wr50_and_wr100_look_at_so_many_itemsets(table):
    usages = {f"{a}{b}": 1 for a, b in combinations("abcdefghijklmnopq", 2)}  # 136, in the order of their labels
    first = dict(list(usages.items())[:40])
    result = fidelity(table(usages), table(first))
    assert (result.wr50, result.wr100) == (40 / 50, 40 / 100)


def test_the_weights_are_the_usages_of_the_reference(table):
    assert fidelity(table({"ab": 9, "cd": 1}), table({"cd": 900})).wr50 == 1 / 10


@pytest.mark.parametrize(
    ("x", "y", "rho"),
    [
        ([], [], 1.0),
        ([4], [9], 1.0),
        ([3, 3, 3], [5, 5, 5], 1.0),
        ([3, 3, 3], [1, 2, 3], 0.0),
        ([1, 2, 3], [7, 7, 7], 0.0),
        ([1, 2, 3, 4], [10, 20, 30, 400], 1.0),
        ([1, 2, 3, 4], [9, 7, 5, 1], -1.0),
        ([1, 2, 2, 3], [1, 2, 3, 4], 4.5 / math.sqrt(4.5 * 5)),
    ],
)
def test_spearman_is_always_a_number(x, y, rho):
    assert spearman(x, y) == pytest.approx(rho, abs=1e-15)


# -- empty tables ------------------------------------------------------------------------------------------------------


def test_two_tables_without_itemsets_agree(table):
    result = fidelity(table({"a": 3}), table({}))
    assert set(result.as_dict().values()) == {1.0, 0}
    assert (result.recall, result.precision, result.f1, result.wr50, result.rho) == (1, 1, 1, 1, 1)


def test_a_table_that_found_nothing_has_nothing_wrong(table):
    result = fidelity(table({"ab": 3}), table({}))
    assert (result.recall, result.precision, result.f1, result.wr50, result.wr100, result.rho) == (0, 1, 0, 0, 0, 0)


def test_a_reference_without_itemsets_misses_nothing(table):
    result = fidelity(table({}), table({"ab": 3}))
    assert (result.recall, result.precision, result.f1, result.wr50, result.wr100, result.rho) == (1, 0, 0, 1, 1, 0)


def test_tables_that_share_nothing_have_no_fidelity(table):
    result = fidelity(table({"ab": 3, "cd": 2}), table({"ac": 3}))
    assert (result.recall, result.precision, result.f1, result.wr50, result.rho) == (0, 0, 0, 0, 0)


# -- properties --------------------------------------------------------------------------------------------------------


@given(TABLES, TABLES)
def test_metrics_stay_within_their_bounds_and_are_json(table, a, b):
    result = fidelity(table(a), table(b))
    for name in ("recall", "precision", "f1", "wr50", "wr100"):
        assert 0 <= getattr(result, name) <= 1
    assert -1 <= result.rho <= 1
    assert min(result.precision, result.recall) <= result.f1 + 1e-12
    assert json.loads(json.dumps(result.as_dict(), allow_nan=False)) == result.as_dict()


@given(TABLES)
def test_identical_tables_agree_in_everything(table, a):
    result = fidelity(table(a), table(dict(reversed(a.items()))))
    assert result.as_dict() == {
        **dict.fromkeys(("recall", "precision", "f1", "wr50", "wr100", "rho"), 1.0),
        "matched": len(without_singletons(a)),
        "missed": 0,
        "extra": 0,
    }


@given(TABLES, TABLES)
def test_recall_and_precision_change_places_with_the_tables(table, a, b):
    there, back = fidelity(table(a), table(b)), fidelity(table(b), table(a))
    assert (there.recall, there.precision, there.f1, there.rho) == (back.precision, back.recall, back.f1, back.rho)
    assert (there.matched, there.missed, there.extra) == (back.matched, back.extra, back.missed)


@given(TABLES, TABLES, st.integers(1, 40))
def test_fidelity_equals_its_naive_twin(table, a, b, k):
    reference, found = without_singletons(a), without_singletons(b)
    both = [letters for letters in reference if letters in found]
    result = fidelity(table(a), table(b))
    assert result.matched == len(both)
    if reference:
        assert result.recall == len(both) / len(reference)
        ranking = sorted(reference, key=lambda letters: (-reference[letters], -len(letters), letters))[:k]
        recovered = sum(reference[letters] for letters in ranking if letters in found)
        assert weighted_recall(table(a), table(b), k) == recovered / sum(reference[letters] for letters in ranking)
    if found:
        assert result.precision == len(both) / len(found)
    if reference or found:
        assert result.f1 == pytest.approx(2 * len(both) / (len(reference) + len(found)))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=30))
def test_spearman_equals_scipys_where_that_is_defined(pairs):
    x, y = [a for a, _ in pairs], [b for _, b in pairs]
    ours = spearman(x, y)
    assert -1 <= ours <= 1
    assert ours == spearman(y, x)
    if len(set(x)) > 1 and len(set(y)) > 1:
        assert ours == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)


# -- real tables -------------------------------------------------------------------------------------------------------


def test_code_tables_are_compared_by_label_whatever_their_vocabulary():
    rows = [["bread", "milk", "jam"], ["bread", "milk"], ["jam", "tea"], ["tea"], ["bread", "milk", "tea"]] * 6
    one = mine(TransactionDatabase.from_transactions(rows)).table
    other = mine(
        TransactionDatabase.from_transactions(rows, vocabulary=["unheard of", "tea", "milk", "jam", "bread"])
    ).table
    assert one.itemsets
    assert fidelity(one, other).f1 == 1.0


def test_two_programs_agree_on_chess_to_some_degree(reference_folder):
    older = load_reference(reference_folder / "chess.slim-cpp-2012.json")
    newer = load_reference(reference_folder / "chess.slim-cpp-2014.json")
    assert fidelity(newer, msgspec.structs.replace(newer, itemsets=newer.itemsets[::-1])).rho == 1.0
    result = fidelity(older, newer)
    assert 0 < result.f1 < 1
    assert result.matched + result.missed == len(older)
    assert result.matched + result.extra == len(newer)


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, -1, 1.5, True, None])
def test_a_k_that_is_none_is_refused(table, k):
    with pytest.raises(ParameterError, match=r"k is .*; give a whole number"):
        weighted_recall(table({}), table({}), k)


def test_rankings_of_different_length_are_refused():
    with pytest.raises(ParameterError, match="x has 2 values and y has 1"):
        spearman([1, 2], [1])
