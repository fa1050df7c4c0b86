from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from local_twin import LocalTwin, RandomWidthTwin
from test_engine_equals_twin import check_state, database, databases, policies, run_engine, twin_case

from fedslim.data import TransactionDatabase
from fedslim.mdl.cover_state import CoverState
from fedslim.mdl.driver import drive
from fedslim.mdl.effort import Greedy
from fedslim.mdl.local_search import RUINS, Dice, Experience, LocalSearch, Segment, Standing, itemsets_of
from fedslim.mdl.objective import EXACT
from fedslim.mdl.policy import Policy
from fedslim.mdl.questions import GoBack, Mark
from fedslim.mdl.search import SlimSearch
from fedslim.mdl.summed import Sharded

simple = policies.map(lambda policy: replace(policy, charges=(EXACT,), sweep=False))


def found(rows, n_items, policy):
    """A table to start from."""
    return itemsets_of(drive(SlimSearch(n_items, policy), CoverState(database(rows, n_items))))


def compare(rows, n_items, policy, segment, seed, sources=1):
    twin = LocalTwin(
        *twin_case(rows, n_items, policy),
        start=segment.start,
        patches=segment.patches,
        iterations=segment.iterations,
        dice=Dice(seed),
    )
    twin.run()
    search = LocalSearch(n_items, policy, segment, Dice(seed))
    with Sharded(database(rows, n_items), sources) as source:
        result = run_engine(search, source)
    assert [(e.items, e.usage, e.entry) for e in result.entries] == twin.result()
    assert result.bits.total == twin.best[0]
    assert (search.patches, search.experience) == (twin.improvements, twin.experience)
    assert (result.tally.candidates, search.bits_now) == (twin.candidates, twin.bits)
    twin.entries = twin.marked[1]
    for state in source.shards:
        if search.bits_now == search._marked_figures[2]:
            check_state(state, twin)
    return search


@settings(max_examples=120)
@given(databases(max_transactions=25), simple, st.integers(0, 99), st.sampled_from([1, 6, 12]), st.integers(1, 3))
def test_the_local_search_and_its_twin_take_the_same_steps(case, policy, seed, iterations, sources):
    compare(*case, policy, Segment(found(*case, policy), iterations), seed, sources)


@settings(max_examples=40)
@given(databases(max_transactions=25), simple, st.integers(0, 99))
def test_the_local_search_and_its_twin_try_the_improvements_of_another_chain_alike(case, policy, seed):
    start = found(*case, policy)
    other = LocalSearch(case[1], policy, Segment(start, 12), Dice(seed, 1))
    one = LocalSearch(case[1], policy, Segment(start, 12), Dice(seed, 0))
    results = [drive(search, CoverState(database(*case))) for search in (one, other)]
    segment = Segment(itemsets_of(results[0]), 3, tuple(other.patches))
    search = compare(*case, policy, segment, seed)
    assert search.result().bits.total <= results[0].bits.total


@settings(max_examples=120)
@given(databases(), policies, st.integers(0, 99))
def test_steps_of_random_widths_are_those_of_the_twin_whether_or_not_the_search_asks_ahead(case, policy, seed):
    twin = RandomWidthTwin(*twin_case(*case, policy), dice=Dice(seed, 7))
    twin.run()
    task = Greedy(policy, seed=(seed, 7))
    for search in (task.search(case[1]), task.search(case[1], eager=True)):
        result = run_engine(search, CoverState(database(*case)))
        assert [(e.items, e.usage, e.entry) for e in result.entries] == twin.result()
        assert result.tally.candidates == twin.candidates


class Watched(CoverState):
    """Compares the state after going back with the state at the mark."""

    def observed(self):
        table = self.table
        covers = [self.cover(t) for t in range(len(self.databases[0]))]
        users = [sorted(self.covers.tids[a : a + n].tolist()) for a, n in self._lists()]
        lists = self._arrays.lists
        by_item = [lists.slots[lists.start[i] : lists.start[i + 1]].tolist() for i in range(table.n_items)]
        by_key = [lists.key_slots[a:b].tolist() for a, b in zip(lists.key_start, lists.key_start[1:], strict=False)]
        rank = table.elements.rank
        alive = {s: int(rank[s]) for s in range(table.capacity) if rank[s] >= 0}
        free = (table.free_slots(5), table.fresh_slot, table.item_count, *map(dict, (table.itemsets, table.entries)))
        items = {s: table.elements.items[table.elements.start[s] :][: table.elements.size[s]].tolist() for s in alive}
        return covers, users, by_item, by_key, alive, free, items, list(table), set(table.present)

    def _lists(self):
        ends = [s for s in range(self.table.capacity) if self.covers.usage[s]]
        return [(int(self.covers.tid_start[s]), int(self.covers.usage[s])) for s in ends]

    def mark(self):
        super().mark()
        self.then = self.observed()

    def go_back(self):
        super().go_back()
        assert self.observed() == self.then
        super().go_back()  # as often as one likes
        assert self.observed() == self.then


class WatchedSearch(LocalSearch):
    """Does the same for the search."""

    def observed(self):
        n = self.ranking._limit
        rows = self.ranking._rows
        per_slot = [f for f in rows._fields if f not in {"partners", "counts", "exact"}]
        pool = (
            [rows.partners[rows.start[s] :][: rows.length[s]].tolist() for s in range(n) if rows.known[s]],
            [rows.counts[rows.start[s] :][: rows.length[s]].tolist() for s in range(n) if rows.known[s]],
        )
        exact = (rows.exact[:n] == self.ranking._version).tolist()
        rejected = sorted(zip(*(column.tolist() for column in self.ranking._rejected), strict=True))
        table = self._table
        figures = (self._total, self._in_use, self.bits_now, dict(table.itemsets), dict(table.entries), list(table))
        numbers = (self.ranking._births, n, self.ranking._pool_end, self.ranking._rejected_count)
        columns = [getattr(rows, f)[:n].tolist() for f in per_slot]
        totals = self.ranking._now._replace(version=0)
        births, usage = self.ranking._facts.birth[:n].tolist(), {k: u for k, u in enumerate(self._usage.tolist()) if u}
        return figures, numbers, columns, pool, exact, rejected, totals, births, usage

    def _mark(self):
        yield from super()._mark()
        self.then = self.observed()

    def _go_back(self):
        yield from super()._go_back()
        assert self.observed() == self.then


@settings(max_examples=60)
@given(databases(), simple, st.integers(0, 99), st.sampled_from([1, 7, 64]))
def test_going_back_restores_everything(case, policy, seed, spare):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedslim.mdl.table.SPARE_SLOTS", spare)  # arrays that grow between the mark and going back
        segment = Segment(found(*case, policy), 12)
        search = WatchedSearch(case[1], policy, segment, Dice(seed))
        drive(search, Watched(database(*case)))
        assert search.converged


def test_a_sharded_source_goes_back_in_each_shard():
    rows = [{0, 1, 2}, {0, 1}, {1, 2}, {0, 2}] * 4
    with Sharded(database(rows, 3), 3) as source:
        source.try_insert(3, (0, 1), 8)
        source.insert(3, (0, 1), 8)
        Mark().put_to(source)
        before = [[shard.cover(t) for t in range(len(shard.databases[0]))] for shard in source.shards]
        source.try_insert(4, (0, 1, 2), 4)
        source.insert(4, (0, 1, 2), 4)
        assert [[shard.cover(t) for t in range(len(shard.databases[0]))] for shard in source.shards] != before
        GoBack().put_to(source)
        assert [[shard.cover(t) for t in range(len(shard.databases[0]))] for shard in source.shards] == before
        assert source.co_usages((3,)) is not None


def test_a_trial_is_not_valid_any_more_after_going_back():
    """Otherwise the same insertion, which has been tried on other covers, would be carried out without a trial."""
    state = CoverState(database([{0, 1, 2}] * 4 + [{0, 1}] * 4, 3))
    state.mark()
    state.insert(3, (0, 1, 2), 4)
    state.try_insert(4, (0, 1), 4)
    state.go_back()
    state.insert(4, (0, 1), 4)
    assert state.usages[4] == 8


def test_a_ruin_takes_out_itemsets_of_the_table_each_at_most_once():
    table = [Standing(10 + k, tuple(range(k % 4, k % 4 + 2 + k % 3)), 50 - k) for k in range(40)]
    for seed in range(20):
        for ruin in RUINS:
            out = ruin(table, Dice(seed))
            assert len({one.slot for one in out}) == len(out)
            assert set(out) <= set(table)


def test_random_choices_are_the_same_everywhere():
    dice = Dice(0, 3, 1)
    assert [dice.below(1000) for _ in range(6)] == [170, 902, 520, 769, 405, 283]
    assert Dice(1).fraction() != Dice(2).fraction()


def test_kinds_that_pay_are_chosen_more_often_and_none_is_given_up():
    experience, dice = Experience(), Dice(5)
    for kind in range(len(RUINS)):
        experience.learn(kind, 100.0 if kind == 2 else 0.0, 10.0)
    chosen = np.bincount([experience.choose(dice) for _ in range(5000)], minlength=len(RUINS))
    assert chosen.argmax() == 2
    assert chosen.min() > 200


def test_a_table_without_itemsets_has_nothing_to_ruin():
    db = TransactionDatabase.from_transactions([[1], [2], [3]])
    search = LocalSearch(3, Policy(), Segment((), 50), Dice(0))
    assert drive(search, CoverState(db)).converged
    assert search.iterations == 0


def test_a_pair_stays_rejected_with_the_counts_it_had_even_if_it_was_accepted_with_others():
    """An itemset that is taken out may bring the former counts back."""
    rows = [set(), {0, 1, 2, 3}, {1}, {0, 1, 2}, {0, 1}, {0, 2, 3}, set(), {0, 1}]
    policy = Policy(pruning=False, order="support", width=1)
    compare(rows, 4, policy, Segment(found(rows, 4, policy), 6), seed=0)
