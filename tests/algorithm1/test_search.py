from __future__ import annotations

import math
import random

import numpy as np
import pytest
from federation import Algorithm1Twin, Federation, Joined, database, dense, estimated_gain_of_union, rows, skewed
from hypothesis import given, settings, strategies as st
from twin import estimated_gain

from fedslim.algorithm1.kernels.ranking import BLOCK, Blocks, drift
from fedslim.algorithm1.pairs import PairCounts
from fedslim.algorithm1.ranking import NumberedElements, UnionRanking
from fedslim.algorithm1.search import Acceptance, Algorithm1Search, Evaluation, NextCandidates
from fedslim.data import TransactionDatabase, load
from fedslim.data.partition import iid
from fedslim.errors import RunError
from fedslim.mdl.cover_state import CoverState
from fedslim.mdl.driver import Stop, drive
from fedslim.mdl.objective import (
    description_length,
    log2,
    log2_table,
    standard_length,
    standard_lengths,
)
from fedslim.mdl.policy import Policy
from fedslim.mdl.questions import Change
from fedslim.mdl.search import SlimSearch


def pair_counts(*triples):
    x, y, c = zip(*triples, strict=True)
    return PairCounts(np.array(x, np.int32), np.array(y, np.int32), np.array(c, np.int64))


def dealt(data, members, seed):
    rng = random.Random(seed)
    parts = [[] for _ in range(members)]
    for row in data:
        parts[rng.randrange(members)].append(row)
    return parts


def compare(parts, n_items, entry="own"):
    twin = Algorithm1Twin(parts, n_items, entry)
    twin.run()
    search, federation = Algorithm1Search(n_items), Federation([database(part, n_items) for part in parts], entry)
    run = search.run()
    evaluated = []
    question = next(run)
    try:
        while True:
            if isinstance(question, Evaluation):
                pairs = list(question.pairs)
                evaluated.append((question.itemset, pairs, question.entry, search.best_gain))
            if isinstance(question, Acceptance):
                assert question.trial.number == twin.numbers[question.trial.itemset]
            question = run.send(federation.answer(question))
    except StopIteration as end:
        result = end.value
    assert search.converged
    # Exactly equal: both add the same terms in the same order.
    assert evaluated == twin.evaluated
    assert [(e.items, e.usage, e.entry) for e in result.entries] == twin.result()
    assert (result.tally.accepted, result.tally.candidates) == (twin.accepted, len(twin.evaluated))
    assert search.itemsets == len(twin.entries)
    assert search.bits_now == pytest.approx(result.bits.total, abs=1e-6)
    for member, other in zip(federation.members, twin.members, strict=True):
        assert [member.local.state.table.items_of(s) for s in member.local.slots] == other.table()
    return twin


@given(rows(), st.integers(1, 4), st.integers(0, 99), st.sampled_from(["own", "sum", "support"]))
def test_search_and_twin_find_the_same_table_step_for_step(case, members, seed, entry):
    data, n_items = case
    compare(dealt(data, members, seed), n_items, entry)


@settings(max_examples=40)
@given(rows(), st.integers(1, 3), st.sampled_from([1, 2, 8]), st.sampled_from([1, 3]))
def test_the_result_does_not_depend_on_how_much_room_there_was_at_first(case, members, few, spare):
    data, n_items = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedslim.algorithm1.pairs.FEW_PAIRS", few)
        patch.setattr("fedslim.algorithm1.ranking.SPARE_NUMBERS", spare)
        compare(dealt(data, members, 0), n_items)


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 10))])
def test_search_and_twin_agree_where_covers_cascade(seed):
    n_items = 12 + seed
    compare(dealt(dense(seed, n_items, 60), 1 + seed % 4, seed), n_items)


def test_search_and_twin_agree_where_members_differ():
    """Then several pairs have the same union, and a member gets an itemset later than others."""
    twins = [compare(skewed(seed, 9, 4, 50), 9) for seed in range(16)]
    assert sum(twin.several for twin in twins) >= 5
    assert any(twin.again for twin in twins)


def test_search_and_twin_agree_on_many_pairs():
    """Enough for many blocks of the ranking, most of which are never scanned again."""
    compare(dealt(dense(1, 60, 60), 3, 1), 60)


@pytest.mark.parametrize(
    ("parts", "n_items"),
    [
        ([[]], 0),
        ([[], []], 3),
        ([[set()] * 5, []], 2),
        ([[{0}] * 9], 1),
        ([[{0, 1, 2}] * 20, [{0, 1, 2}] * 20], 3),
        ([[{0, 1, 2}] * 20, []], 5),
        ([[{0, 1}] * 10, [{2, 3}] * 10], 4),
    ],
)
def test_search_and_twin_agree_on_degenerate_data(parts, n_items):
    compare(parts, n_items)


def test_with_one_member_and_nothing_to_choose_from_it_is_slim_without_pruning():
    """The two differ in how they break ties, and where several pairs have the same union."""
    alike = 0
    for seed in range(60):
        rng = random.Random(seed)
        n_items = rng.randint(4, 8)
        data = [{i for i in range(n_items) if rng.random() < (i + 2) / (n_items + 4)} for _ in range(57)]
        twin = compare([data], n_items)
        if twin.several or twin.tied:
            continue
        slim = drive(SlimSearch(n_items, Policy(pruning=False)), CoverState(database(data, n_items)))
        assert [(e.items, e.usage, e.entry) for e in slim.entries] == twin.result()
        alike += twin.accepted > 1
    assert alike >= 5


# -- the paper's example -------------------------------------------------------------------------------------------

GAINS = {"ab": 13.82, "bd": 7.43, "ad": 6.14, "bc": -6.21, "ac": -7.00, "ae": -9.14, "ce": -11.18}


@pytest.fixture
def toy():
    letters = "abcde"
    members = (["abc"] * 3 + ["ae"] * 2, ["abd"] * 4 + ["ce"])
    return Federation([database([{letters.index(i) for i in row} for row in part], 5) for part in members])


def test_the_papers_example_estimates(toy):
    usages = toy.supports().tolist()
    assert usages == [9, 7, 4, 4, 3]
    lengths = standard_lengths(usages)
    news = toy.candidates()
    gains, together = {}, {}
    for x, y, c in zip(news.x.tolist(), news.y.tolist(), news.counts.tolist(), strict=True):
        pair = "abcde"[x] + "abcde"[y]
        together[pair] = c
        gains[pair] = estimated_gain_of_union([Joined(usages[x], usages[y], c, lengths[x], lengths[y])], 0, 27, 5)
    assert together == {"ab": 7, "bd": 4, "ad": 4, "bc": 3, "ac": 3, "ae": 2, "ce": 1}
    assert gains == pytest.approx(GAINS, abs=0.01)


def test_the_papers_example_first_step(toy):
    search = Algorithm1Search(5)
    run = search.run()
    question = next(run)
    asked, before = [], []
    while search.tally.accepted == 0:
        asked.append(question)
        question = run.send(toy.answer(question))
        if isinstance(question, NextCandidates) and not search.tally.accepted:
            before.append(search.bits_now)
    assert before == pytest.approx([83.87], abs=0.01)
    trial, move = asked[-2:]
    assert trial == Evaluation(5, (0, 1), ((0, 1),), 7)
    assert move == Acceptance(trial)
    assert search.best_gain == pytest.approx(13.82, abs=0.01)
    result = search.result()
    assert {e.items: e.usage for e in result.entries} == {(0, 1): 7, (0,): 2, (2,): 4, (3,): 4, (4,): 3}
    assert result.bits_standard.total == pytest.approx(83.87, abs=0.01)
    assert result.bits.data == pytest.approx(44.03, abs=0.01)
    assert result.bits.model == pytest.approx(26.01, abs=0.01)
    assert result.bits.total == pytest.approx(70.05, abs=0.01)
    assert question == NextCandidates()


# -- the ranking by itself -----------------------------------------------------------------------------------------

ITEMS = 6
ITEMSETS = [(0, 1), (1, 2), (0, 1, 2), (3, 4), (2, 3), (0, 1, 2, 3), (0, 1, 3), (0, 4), (1, 4), (2, 4), (0, 2)]
MOST = 60


class RankingModel:
    """Random counts of a few elements, and their unions ranked by gain, computed from scratch every time.

    No covers have these counts; the ranking needs only that they do not contradict each other.
    """

    def __init__(self, rng):
        self.rng = rng
        self.every = [(i,) for i in range(ITEMS)] + ITEMSETS
        lengths = standard_lengths([rng.randint(20, MOST) for _ in range(ITEMS)])
        self.standard = [standard_length(x, lengths) for x in self.every]
        self.elements = NumberedElements(ITEMS)
        for itemset in ITEMSETS:
            self.elements.add(itemset)
        self.elements.standard[: len(self.every)] = self.standard
        self.usage = [rng.randint(15, 30) if len(x) == 1 else rng.choice([0, 20, 30]) for x in self.every]
        self.elements.usage[: len(self.every)] = self.usage
        self.possible = [
            (x, y) for y in range(len(self.every)) for x in range(y) if not set(self.every[x]) & set(self.every[y])
        ]
        self.counts = {}
        self.others = 150  # the total usage of elements that are in no pair
        self.rejected = set()

    @property
    def totals(self):
        return sum(self.usage) + self.others, sum(u > 0 for u in self.usage)

    def change(self):
        """Change usages and counts; return the elements whose usages changed, and the changed pairs."""
        rng, before = self.rng, self.signatures()
        changed = set()
        for k in rng.sample(range(len(self.every)), 2):
            usage = rng.randint(max([c for p, c in self.counts.items() if k in p], default=0), 30)
            if usage != self.usage[k]:
                changed.add(k)
            self.usage[k] = usage
        self.elements.usage[: len(self.every)] = self.usage
        news = [
            (x, y, rng.choice([0, rng.randint(0, min(8, self.usage[x], self.usage[y]))]))
            for x, y in rng.sample(self.possible, rng.choice([3, len(self.possible)]))
        ]
        self.counts = {p: c for p, c in (self.counts | {(x, y): c for x, y, c in news}).items() if c}
        self.others += rng.randint(-20, 20)
        after = self.signatures()
        self.rejected = {union for union in self.rejected if before[union] == after.get(union)}
        return np.array(sorted(changed), np.int32), pair_counts(*news)

    def unions(self):
        unions = {}
        for (x, y), c in sorted(self.counts.items()):
            unions.setdefault(tuple(sorted(self.every[x] + self.every[y])), []).append((x, y, c))
        return unions

    def own(self, union):
        return self.usage[self.every.index(union)] if union in self.every else 0

    def signatures(self):
        return {
            union: (self.own(union), [(x, y, c, self.usage[x], self.usage[y]) for x, y, c in pairs])
            for union, pairs in self.unions().items()
        }

    def gain(self, union, pairs):
        joined = [Joined(self.usage[x], self.usage[y], c, self.standard[x], self.standard[y]) for x, y, c in pairs]
        return estimated_gain_of_union(joined, self.own(union), *self.totals)

    def check_bounds(self, ranking):
        """No union gains more than its block's bound, on which the ranking relies."""
        ends, numbers, counts = (
            ranking._pairs.arrays.element.reshape(-1, 2),
            ranking._unions.of,
            ranking._pairs.arrays.count,
        )
        pairs = {tuple(ends[p].tolist()): int(numbers[p]) for p in np.flatnonzero(counts)}
        for union, made_of in self.unions().items():
            if union not in self.rejected:
                block = pairs[made_of[0][:2]] // BLOCK
                assert self.gain(union, made_of) <= ranking._blocks.upper[block]

    def order(self):
        found = []
        for union, pairs in self.unions().items():
            gain = self.gain(union, pairs)
            together = sum(c for *_, c in pairs)
            if gain > 0 and union not in self.rejected:
                key = (-gain, -together, -len(union), union)
                found.append((key, (tuple((x, y) for x, y, _ in pairs), together, gain)))
        return sorted(found)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 4, 256]))
def test_the_ranking_is_in_order_after_whatever_changed(seed, few):
    rng = random.Random(seed)
    model = RankingModel(rng)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedslim.algorithm1.pairs.FEW_PAIRS", few)
        ranking = UnionRanking(model.elements, log2_table(MOST + 30))
    for _ in range(8):
        ranking.take_in(*model.change(), *model.totals)
        assert np.count_nonzero(ranking._pairs.arrays.count) == len(model.counts)
        model.check_bounds(ranking)
        order = model.order()[: rng.choice([3, 1000])]
        for (*_, union), candidate in order:
            best = ranking.best()
            assert (best.pairs, best.together, best.gain) == candidate
            ranking.reject(best)
            model.rejected.add(union)
        if len(order) != 3:
            assert ranking.best() is None


def in_order(elements, counts, total=2000):
    """The pairs that a ranking proposes, in order, each with its co-usage."""
    ranking = UnionRanking(elements, log2_table(100))
    in_use = int(np.count_nonzero(elements.usage))
    ranking.take_in(np.zeros(0, np.int32), pair_counts(*counts), total, in_use)
    found = []
    while (best := ranking.best()) is not None:
        found.append((best.pairs[0], best.together, best.gain))
        ranking.reject(best)
    return found


def test_of_equal_gains_the_union_used_more_comes_first():
    """Spelling costs each pair all of its gain except exactly half a bit."""
    elements, total, in_use = NumberedElements(4), 2000, 4
    elements.usage[:4] = 20
    for x, c in ((0, 3), (2, 5)):
        elements.standard[x] = estimated_gain(20, 20, c, total, in_use, 0.0, 0.0) - 0.5
    assert in_order(elements, [(0, 1, 3), (2, 3, 5)], total) == [((2, 3), 5, 0.5), ((0, 1), 3, 0.5)]


def test_then_the_larger_one_and_then_the_first_in_whichever_block_they_are():
    items, itemset = 16, (14, 15)
    elements = NumberedElements(items)
    elements.add(itemset)
    elements.usage[: items + 1] = 20
    pairs = [(x, y) for y in range(items) for x in range(y) if (x, y) != itemset]  # which is an element already
    pairs += [(x, items) for x in range(items) if x not in itemset]
    assert len(pairs) > 2 * BLOCK
    shuffled = random.Random(1).sample(pairs, len(pairs))
    found = in_order(elements, [(x, y, 7) for x, y in shuffled])
    assert len({gain for *_, gain in found}) == 1
    large = [(x, items) for x in range(items) if x not in itemset]
    assert [pair for pair, *_ in found] == [*large, *sorted(pair for pair in pairs if pair[1] < items)]


@settings(max_examples=500)
@given(st.data())
def test_no_gain_rises_more_than_the_bounds(data):
    """Check the part of the gain that depends on U and n, as in docs/explanation/decisions/ranking-bounds.md."""
    pairs, c = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 40))
    growth = data.draw(st.integers(-2 * pairs, 1))  # of n, if the union entered
    (before, in_use_before), (after, in_use) = (
        (data.draw(st.integers(60, 400)), data.draw(st.integers(2, 60))) for _ in range(2)
    )

    def part(total, n):
        left = total - c
        return total * log2(total) - left * log2(left) + n * log2(total) - (n + growth) * log2(left)

    blocks = Blocks(
        np.array([part(before, in_use_before)]),
        np.zeros(1, np.int64),
        np.zeros(1, np.int32),
        np.array([c]),
        np.array([pairs]),
    )
    drift(1, blocks, before, in_use_before, after, in_use)
    assert part(after, in_use) <= blocks.upper[0]


def test_one_pair_is_the_plain_estimate():
    assert estimated_gain_of_union([Joined(9, 7, 7, 1.5, 1.9)], 0, 27, 5) == estimated_gain(9, 7, 7, 27, 5, 1.5, 1.9)


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=3),
    st.integers(0, 50),
    st.integers(0, 200),
)
def test_the_estimate_is_the_change_of_the_description_length(pairs, own, others):
    """Up to rounding: the estimate leaves out terms that cancel."""
    standards = [(3.0 + k, 10.0 - k) for k in range(len(pairs))]  # every pair spells the union with the same 13 bits
    before = [own, others, *(u for c, x, y in pairs for u in (c + x, c + y))]
    after = [own + sum(c for c, _, _ in pairs), others, *(u for _, x, y in pairs for u in (x, y))]
    standard = [13.0, 5.0, *(s for two in standards for s in two)]
    gain = description_length(before, standard).total - description_length(after, standard).total
    joined = [Joined(c + x, c + y, c, *two) for (c, x, y), two in zip(pairs, standards, strict=True)]
    in_use = sum(u > 0 for u in before)
    assert estimated_gain_of_union(joined, own, sum(before), in_use) == pytest.approx(gain, abs=1e-8)


# -- members that do not follow the protocol -----------------------------------------------------------------------


def started(n_items=4):
    search = Algorithm1Search(n_items)
    run = search.run()
    next(run)
    run.send(np.array([9, 9, 9, 9][:n_items]))
    return search, run


@pytest.mark.parametrize(
    "news",
    [
        pair_counts((0, 4, 3)),
        pair_counts((-1, 2, 3)),
        pair_counts((2, 1, 3)),
        pair_counts((1, 1, 3)),
        pair_counts((0, 1, -3)),
        pair_counts((0, 1, 10)),
        PairCounts(np.zeros(1, np.int32), np.ones(2, np.int32), np.ones(2, np.int64)),
    ],
)
def test_pairs_that_cannot_be_are_refused(news):
    _, run = started()
    with pytest.raises(RunError, match="does not count as the protocol says"):
        run.send(news)


@pytest.mark.parametrize(
    "change",
    [
        Change(np.array([0], np.int32), np.array([10]), np.array([0])),
        Change(np.array([0], np.int32), np.array([0]), np.array([10])),
        Change(np.array([6], np.int32), np.array([0]), np.array([1])),
        Change(np.array([-1], np.int32), np.array([0]), np.array([1])),
    ],
)
def test_changes_that_cannot_be_are_refused(change):
    _, run = started()
    assert isinstance(run.send(pair_counts((0, 1, 9))), Evaluation)
    with pytest.raises(RunError, match="does not count as the protocol says"):
        run.send(change)


def test_it_may_be_stopped_and_has_the_best_table_so_far():
    stop = Stop()
    search = Algorithm1Search(6)
    parts = dealt([{0, 1, 2}] * 9 + [{3, 4}] * 9 + [{5}], 2, 0)
    federation = Federation([database(part, 6) for part in parts])
    plain_accept = federation.accept

    def accept(*args):
        plain_accept(*args)
        stop.ask()

    federation.accept = accept
    result = federation.searched(search, stop.now)
    assert not result.converged
    assert result.tally.accepted == 1
    assert search.bits_now < search.bits_standard.total
    assert math.isfinite(search.best_gain)


def test_an_itemset_that_comes_back_has_its_number_back():
    elements = NumberedElements(3)
    elements.add((0, 1))
    assert elements.number_of((0, 1)) == 3
    assert elements.number_of((1, 2)) == 4
    elements.add((1, 2))
    elements.add((0, 1))
    assert (len(elements), elements.number_of((0, 1)), elements.items_of(4)) == (5, 3, (1, 2))


def test_a_database_over_labels_will_do():
    data = TransactionDatabase.from_transactions([["x", "y"]] * 8 + [["z"]])
    result = Federation([data, data]).searched(Algorithm1Search(data.n_items))
    assert result.entries[0].usage == 16


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "percent"), [("ionosphere", 50.35), ("chess", 15.15), ("mushroom", 18.66), ("adult", 23.80)]
)
def test_it_compresses_as_well_as_published(public_data, name, percent):
    """The better of the paper's SA and SO with ten members. Greedy ends differ by a few tenths of a point."""
    parts = iid(load(name, folder=public_data), 10, seed=0).parts
    result = Federation(parts, "sum").searched(Algorithm1Search(parts[0].n_items))
    assert 100 * result.bits.total / result.bits_standard.total < percent + 0.2
