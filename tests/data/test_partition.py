from __future__ import annotations

import decimal
import hashlib
import json
import os
import pickle
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from fedslim.data import (
    TransactionDatabase,
    dirichlet,
    generate,
    iid,
    partition as module,
    sized,
    support_quantity_skew,
    support_skew,
)
from fedslim.data.partition import PAPER_UNEVEN_SIZES
from fedslim.errors import ParameterError

# Disjoint itemsets over twelve items, so that any number of them is diverse.
TRIPLES = [((0, 1, 2), 90), ((3, 4, 5), 80), ((6, 7, 8), 70), ((9, 10, 11), 60)]


def database(rows, n_items=12):
    return TransactionDatabase.from_transactions(rows, vocabulary=[str(i) for i in range(n_items)])


def random_database(transactions, seed=0, n_items=12):
    rng = np.random.Generator(np.random.PCG64(seed))
    row, item = np.nonzero(rng.random((transactions, n_items)) < 0.5)
    return TransactionDatabase.from_pairs(row, item, [str(i) for i in range(n_items)], transactions=transactions)


SCHEMES = {
    "iid": lambda db, members, seed: iid(db, members, seed=seed),
    "dirichlet": lambda db, members, seed: dirichlet(db, members, alpha=0.5, seed=seed),
    "sized": lambda db, members, seed: sized(db, [7 + 30 * c for c in range(members)], seed=seed),
    "support-skew": lambda db, members, seed: support_skew(db, members, TRIPLES, seed=seed),
    "support-quantity-skew": lambda db, members, seed: support_quantity_skew(db, members, TRIPLES, seed=seed),
}
every_scheme = pytest.mark.parametrize("scheme", SCHEMES)


# -- properties of all schemes -----------------------------------------------------------------------------------------


@every_scheme
@settings(max_examples=40)
@given(
    rows=st.lists(st.sets(st.integers(0, 11), max_size=8), min_size=4, max_size=40),
    members=st.integers(1, 4),
    seed=st.integers(0, 2**63 - 1),
)
def test_no_transaction_is_lost_or_duplicated(scheme, rows, members, seed):
    db = database(rows)
    found = SCHEMES[scheme](db, members, seed)
    assert found.scheme == scheme
    assert len(found.parts) == found.parameters["members"] == members
    assert found.sizes == tuple(np.bincount(found.assignment, minlength=members))
    assert min(found.sizes) >= 1
    assert sum(found.sizes) == len(db)
    for member, part in enumerate(found.parts):
        assert part == db.take(np.flatnonzero(found.assignment == member))  # in order, over the same vocabulary
    assert Counter(t for part in found.parts for t in part) == Counter(db)


@every_scheme
def test_equal_seeds_give_equal_partitions_and_others_do_not(scheme):
    db = random_database(300)
    first, again, other = (SCHEMES[scheme](db, 4, seed).assignment for seed in (5, 5, 6))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


PINNED = {
    "iid": "53fabdafbc15016aa83baf1f3bdfd9146c7e7e5acd2bbddb457adaa50163dbee",
    "dirichlet": "0a52dfb1b553027ff9f6a5278a4a858d60c63174dafd037fad194648745df83a",
    "sized": "9a63269eafa3f568c96e6358df9cfa2169a2dfcd1a71d53e981b1bcd6a5c0d24",
    "support-skew": "1b4a63b2789b65f2d9cc2ad945fc89b69b1caf5c7863eb3d6a0334eac67e0d62",
    "support-quantity-skew": "a80e04eeb07978c29cd90110d5fec593b5f40aeb125843b086073b210a14f659",
}


@every_scheme
def test_a_seed_gives_the_same_partition_everywhere(scheme):
    found = SCHEMES[scheme](random_database(500), 4, 3)
    assert hashlib.sha256(found.assignment.astype("<i4").tobytes()).hexdigest() == PINNED[scheme]


def test_a_partition_does_not_depend_on_the_hash_seed():
    code = (
        "from fedslim.data import *; db = builtin_database();"
        "pool = [({'c%d' % i: i for i in range(k, k + 4)}.values(), 9) for k in range(0, 20, 3)];"
        "print(*support_quantity_skew(db, 3, pool, seed=1).assignment, support_skew(db, 3, pool).as_dict())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_an_unusual_decimal_context_changes_nothing():
    db = random_database(100)
    with decimal.localcontext(decimal.Context(prec=3, rounding=decimal.ROUND_UP)):
        rough = dirichlet(db, 4, seed=2)
    assert rough.sizes == dirichlet(db, 4, seed=2).sizes


@every_scheme
def test_a_partition_cannot_be_changed_but_pickled_and_reported(scheme):
    found = SCHEMES[scheme](random_database(50), 3, 1)
    with pytest.raises(AttributeError):
        found.seed = 2
    with pytest.raises(ValueError, match="read-only"):
        found.assignment[0] = 1
    assert pickle.loads(pickle.dumps(found)).sizes == found.sizes  # noqa: S301  # our own
    report = json.loads(json.dumps(found.as_dict()))
    assert (report["scheme"], report["seed"], tuple(report["sizes"])) == (scheme, 1, found.sizes)
    assert report["parameters"] == found.parameters
    assert [part.name for part in found.parts] == [f"data, member {k} of 3" for k in (1, 2, 3)]


@every_scheme
def test_as_many_members_as_transactions_get_one_each(scheme):
    assert SCHEMES[scheme](random_database(4), 4, 0).sizes == (1, 1, 1, 1)


# -- random assignment -------------------------------------------------------------------------------------------------


@given(st.integers(1, 200), st.data(), st.integers(0, 99))
def test_iid_sizes_differ_by_at_most_one(transactions, data, seed):
    members = data.draw(st.integers(1, transactions))
    sizes = iid(random_database(transactions), members, seed=seed).sizes
    assert max(sizes) - min(sizes) <= 1


def test_iid_parts_have_the_items_of_the_whole():
    db = random_database(20_000)
    for part in iid(db, 4).parts:
        assert np.allclose(part.supports / len(part), db.supports / len(db), atol=0.03)


def test_sizes_that_add_up_are_met_exactly():
    assert sized(random_database(100), [1, 90, 9]).sizes == (1, 90, 9)
    assert sized(random_database(100), np.array([50, 50])).sizes == (50, 50)


def test_the_papers_sizes_scale_with_the_data():
    assert sized(random_database(1000), PAPER_UNEVEN_SIZES).sizes == (270, 180, 140, 100, 80, 60, 50, 40, 40, 40)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=12).filter(any), st.integers(0, 300))
def test_apportioning_is_proportional_with_one_for_everybody(weights, more):
    total = len(weights) + more
    sizes = module._apportion(total, weights)
    assert sum(sizes) == total
    assert min(sizes) >= 1
    exact = [Fraction(total * weight, sum(weights)) for weight in weights]
    if min(exact) >= 1:
        assert all(abs(size - share) < 1 for size, share in zip(sizes, exact, strict=True))
    pairs = sorted(zip(weights, sizes, strict=True))
    assert all(small <= large + 1 for (_, small), (_, large) in pairwise(pairs))


def test_apportioning_by_hand():
    assert module._apportion(10, [1, 1, 1]) == [4, 3, 3]
    assert module._apportion(10, [1000, 1, 1]) == [8, 1, 1]
    assert module._apportion(7, [5, 3, 2]) == [4, 2, 1]  # 3.5, 2.1, 1.4: the largest remainder gets the rest
    assert module._apportion(3, [0, 0, 5]) == [1, 1, 1]


@pytest.mark.parametrize("shape", [0.1, 0.5, 1.0, 2.5, 40.0])
def test_gamma_variables_are_distributed_as_they_should(shape):
    stream = np.random.Generator(np.random.PCG64(11))
    logs = [float(module._log_gamma_variate(stream, decimal.Decimal(shape))) for _ in range(2000)]
    assert stats.kstest(logs, stats.loggamma(shape).cdf).pvalue > 0.01


def test_a_small_alpha_is_uneven_and_a_large_one_nearly_even():
    db = random_database(1000)
    spread = {alpha: np.std(dirichlet(db, 10, alpha=alpha).sizes) for alpha in (0.1, 0.5, 5, 1e4)}
    assert list(spread.values()) == sorted(spread.values(), reverse=True)
    assert dirichlet(db, 10, alpha=0.5).parameters == {"members": 10, "alpha": 0.5}


@pytest.mark.parametrize(("alpha", "smallest", "largest"), [(5e-324, 1, 97), (1e308, 25, 25)])
def test_extreme_alphas_work(alpha, smallest, largest):
    sizes = dirichlet(random_database(100), 4, alpha=alpha).sizes
    assert (min(sizes), max(sizes)) == (smallest, largest)


# -- support skew ------------------------------------------------------------------------------------------------------


def test_a_transaction_goes_where_it_contains_most():
    rows = [
        {0, 1, 2},  # member 0's
        {3, 4, 5, 0, 1},  # member 1's whole, member 0's in part
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},  # 0's, 1's and 2's first, and 1 of 3 of 3's; member 0 has (9, 12, 13) in part
        {6, 7},  # the largest part
        {9, 10, 11, 12, 13, 0, 1, 2},  # six items of member 0's against three of member 3's
        {10, 11},
    ]
    pool = [*TRIPLES, ((9, 12, 13), 50)]
    found = support_skew(database(rows, 14), 4, pool)
    assert found.assignment.tolist() == [0, 1, 0, 2, 0, 3]
    assert found.dominant == (((0, 1, 2), (9, 12, 13)), ((3, 4, 5),), ((6, 7, 8),), ((9, 10, 11),))
    assert found.as_dict()["dominant"][0] == [[0, 1, 2], [9, 12, 13]]
    assert found.parameters == {"members": 4, "min_size": 3, "most_alike": 0.5}


def test_dominant_itemsets_are_large_used_diverse_and_taken_by_usage():
    pool = [
        ((0, 1), 99),  # small
        ((0, 1, 2, 3), 98),
        ((0, 1, 2), 97),  # 3 of 4 items in common with the one before
        ((9, 10, 11), 50),
        ((2, 3, 4, 5), 96),  # 2 of 6
        ((6, 7, 8), 0),  # never used
        ((2, 3, 8, 9), 95),  # 2 of 6 twice
        ((5, 4, 3, 2), 94),  # a duplicate
        ((8, 9, 10, 11), 50),  # larger than the one above with the same usage, so first; that one then shares 3 of 4
    ]
    chosen = support_skew(random_database(60), 2, pool).dominant
    assert chosen == (((0, 1, 2, 3), (2, 3, 8, 9)), ((2, 3, 4, 5), (8, 9, 10, 11)))
    assert support_skew(random_database(60), 1, pool, min_size=2).dominant == (((0, 1), (0, 1, 2, 3), (2, 3, 4, 5)),)


@pytest.mark.parametrize(
    ("members", "alike", "dominant"),
    [
        (1, 0.5, (((0, 1, 2, 3), (8, 9, 10)),)),
        (2, 0.5, (((0, 1, 2, 3),), ((8, 9, 10),))),
        (3, 0.75, (((0, 1, 2, 3),), ((8, 9, 10),), ((0, 1, 2, 4),))),  # one that shares 3 of 5
        (4, 1.0, (((0, 1, 2, 3),), ((8, 9, 10),), ((0, 1, 2, 4),), ((0, 1, 2, 3, 4),))),  # 4 of 5
    ],
)
def test_more_alike_itemsets_are_taken_only_where_members_would_have_none(members, alike, dominant):
    pool = [((0, 1, 2, 3), 9), ((0, 1, 2, 3, 4), 8), ((0, 1, 2, 4), 7), ((8, 9, 10), 6), ((10, 9, 8), 6)]
    found = support_skew(random_database(60), members, pool)
    assert found.dominant == dominant
    assert found.parameters["most_alike"] == alike


def test_equally_strong_members_share_by_lot():
    db = database([{0, 1, 2, 3, 4, 5}] * 2000 + [set()] * 2000)
    found = support_skew(db, 2, TRIPLES[:2])
    for half in (found.assignment[:2000], found.assignment[2000:]):
        assert 900 < half.sum() < 1100


def test_a_member_that_nobody_contains_gets_the_nearest_transaction():
    found = support_skew(database([{0, 1, 2}, {0, 1, 2, 3}, {0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}]), 3, TRIPLES)
    assert found.assignment.tolist() == [2, 0, 1, 0]


def strength(transaction, itemsets):
    """Compute a score naively, as a pair."""
    contained = sum(len(x) for x in itemsets if set(x) <= transaction)
    return contained, max(
        (len(set(x) & transaction) / len(x) for x in itemsets if not set(x) <= transaction), default=0
    )


@st.composite
def skewed(draw):
    rows = draw(st.lists(st.sets(st.integers(0, 11)), min_size=6, max_size=30))
    pool = draw(st.lists(st.tuples(st.sets(st.integers(0, 11), min_size=3, max_size=5), st.integers(1, 9)), max_size=9))
    return database(rows), [*TRIPLES, *((tuple(items), usage) for items, usage in pool)]


@given(skewed(), st.integers(1, 3), st.integers(0, 99))
def test_every_transaction_is_with_a_strongest_member_or_filled_an_empty_one(case, members, seed):
    db, pool = case
    found = support_skew(db, members, pool, seed=seed)
    for t in range(len(db)):
        items = set(db.item_ids(t).tolist())
        scores = [strength(items, itemsets) for itemsets in found.dominant]
        if found.sizes[found.assignment[t]] > 1:
            assert scores[found.assignment[t]] == max(scores)


@given(skewed(), st.integers(1, 3), st.integers(0, 99))
def test_a_member_that_refused_a_transaction_is_full_of_stronger_ones(case, members, seed):
    db, pool = case
    found = support_quantity_skew(db, members, pool, alpha=2.0, seed=seed)
    assert found.sizes == dirichlet(db, members, alpha=2.0, seed=seed).sizes
    scores = [[strength(set(db.item_ids(t).tolist()), itemsets) for itemsets in found.dominant] for t in range(len(db))]
    for t, own in enumerate(found.assignment):
        for member in range(members):
            if scores[t][member] > scores[t][own]:  # that member was full
                taken = [scores[u][member] for u in np.flatnonzero(found.assignment == member)]
                assert min(taken) >= scores[t][member]


def test_skewed_parts_have_what_they_are_skewed_to():
    db = random_database(5000)
    found = support_quantity_skew(db, 4, TRIPLES, alpha=5.0)
    for member, part in enumerate(found.parts):
        items = list(found.dominant[member][0])
        assert part.supports[items].sum() / len(part) > 1.15 * db.supports[items].sum() / len(db)


def test_scores_do_not_depend_on_the_size_of_a_chunk(monkeypatch):
    db = random_database(100)
    hands, _ = module._deal_itemsets(db, 3, TRIPLES, 3)
    whole = module._scores(db, hands)
    monkeypatch.setattr(module, "_ROWS", 7)
    assert np.array_equal(module._scores(db, hands), whole)


@pytest.mark.slow
def test_the_size_of_accidents_takes_seconds():
    db = generate("accidents-like")
    pool = [((3 * k, 3 * k + 1, 3 * k + 2), 500 - k) for k in range(150)]
    assert sum(support_quantity_skew(db, 128, pool).sizes) == len(db)


# -- invalid parameters ------------------------------------------------------------------------------------------------


@every_scheme
def test_more_members_than_transactions_are_refused(scheme):
    with pytest.raises(ParameterError, match=r"too few transactions for 3 members.*at most 2"):
        SCHEMES[scheme](random_database(2), 3, 0)


@every_scheme
def test_a_database_without_transactions_is_refused(scheme):
    with pytest.raises(ParameterError, match="no transactions to partition"):
        SCHEMES[scheme](database([]), 1, 0)


@pytest.mark.parametrize("scheme", sorted(SCHEMES.keys() - {"sized"}))
@pytest.mark.parametrize("members", [0, -1, 2.0, True, "3", None])
def test_a_number_of_members_that_is_none_is_refused(scheme, members):
    with pytest.raises(ParameterError, match=r"the number of members is .*; give a whole number of at least 1"):
        SCHEMES[scheme](random_database(9), members, 0)


@every_scheme
@pytest.mark.parametrize("seed", [-1, 0.5, None, 2**63])
def test_a_seed_that_is_none_is_refused(scheme, seed):
    with pytest.raises(ParameterError, match=r"seed is .*; give a whole number"):
        SCHEMES[scheme](random_database(9), 2, seed)


@pytest.mark.parametrize("alpha", [0, -1.0, float("nan"), float("inf"), "0.5", None, True])
def test_an_alpha_that_is_none_is_refused(alpha):
    with pytest.raises(ParameterError, match=r"alpha is .*; give a finite number above 0"):
        dirichlet(random_database(9), 2, alpha=alpha)
    with pytest.raises(ParameterError, match=r"alpha is .*; give a finite number above 0"):
        support_quantity_skew(random_database(9), 2, TRIPLES, alpha=alpha)


@pytest.mark.parametrize(
    ("sizes", "message"), [([], "no member sizes"), ([3, 0], "size of member 2 is 0"), ([1.5], "1.5")]
)
def test_sizes_that_are_none_are_refused(sizes, message):
    with pytest.raises(ParameterError, match=message):
        sized(random_database(9), sizes)


@pytest.mark.parametrize("skew", [support_skew, support_quantity_skew])
@pytest.mark.parametrize(
    ("pool", "message"),
    [
        (TRIPLES[:1], "2 members .* of the 1 given only 1 .* lower min_size"),
        ([], "of the 0 given only 0"),
        ([((0, 1, 2), 5), ((2, 1, 0), 4), ((3, 4), 9), ((3, 4, 5), 0)], "of the 4 given only 1"),
        ([((0, 1, 12), 5)], "item 12, but the last item of the vocabulary is 11"),
        ([((0, -1, 2), 5)], "item of a dominant itemset is -1"),
        ([((0, 1, 1), 5)], "has an item twice"),
        ([((0, 1, 2), -5)], "usage of a dominant itemset is -5"),
    ],
)
def test_dominant_itemsets_that_do_not_do_are_refused(skew, pool, message):
    with pytest.raises(ParameterError, match=message):
        skew(random_database(9), 2, pool)


@pytest.mark.parametrize("skew", [support_skew, support_quantity_skew])
def test_a_min_size_that_is_none_is_refused(skew):
    with pytest.raises(ParameterError, match="min_size is 0"):
        skew(random_database(9), 2, TRIPLES, min_size=0)
