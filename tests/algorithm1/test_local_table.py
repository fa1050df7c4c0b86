from __future__ import annotations

import random
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from federation import database, dense, rows
from hypothesis import given, strategies as st
from twin import Twin, cover

from fedslim.algorithm1.local_table import LocalTable
from fedslim.errors import ProtocolError


class Mirror:
    """A local table, and the same recomputed from scratch."""

    def __init__(self, data, n_items):
        self.local = LocalTable(database(data, n_items))
        self.twin = Twin([frozenset(row) for row in data], n_items)
        self.slot = {(i,): i for i in range(n_items)}
        self.told = {}

    def covers(self, entries=None):
        table = self.twin.table(entries)
        return [{self.slot.get(x, self.local.next_slot) for x in cover(t, table)} for t in self.twin.transactions]

    def pairs(self):
        return Counter(pair for used in self.covers() for pair in combinations(sorted(used), 2))

    def check_news(self):
        news, pairs = self.local.news(), dict(self.pairs())
        found = list(zip(news.x.tolist(), news.y.tolist(), strict=True))
        assert len(set(found)) == len(found)
        changed = {p: pairs.get(p, 0) for p in pairs.keys() | self.told.keys() if pairs.get(p) != self.told.get(p)}
        assert dict(zip(found, news.counts.tolist(), strict=True)) == changed
        self.told = pairs

    def check(self):
        pairs = self.pairs()
        every = list(combinations(range(-1, self.local.next_slot + 2), 2))
        assert self.local.together([y for _, y in every], [x for x, _ in every]).tolist() == [pairs[p] for p in every]
        used = self.covers()
        assert [set(self.local.state.cover(t)) for t in range(len(used))] == used
        usages = Counter(slot for slots in used for slot in slots)
        assert (
            dict(enumerate(self.local.state.usages)) == dict.fromkeys(range(len(self.local.state.usages)), 0) | usages
        )
        assert [self.local.state.table.items_of(s) for s in self.local.slots] == self.twin.table()

    def unite(self, rng, entry):
        """Join a random pair of elements that are used together; return False if there is none."""
        pairs = self.pairs()
        if not pairs:
            return False
        union_of = {
            p: tuple(sorted(self.local.state.table.items_of(p[0]) + self.local.state.table.items_of(p[1])))
            for p in sorted(pairs.keys())
        }
        union = union_of[rng.choice(list(union_of))]
        mine = [p for p in union_of if union_of[p] == union]
        own = sum(pairs[p] for p in mine)
        rng.shuffle(mine)
        mine.append((0, self.local.next_slot + 5))  # an element that this member does not have
        slot, before = self.local.next_slot, self.covers()
        after_entries = self.twin.entries | {union: own if entry is None else entry}
        after = self.covers(after_entries)
        lost, won = Counter(), Counter()
        for old, new in zip(before, after, strict=True):
            lost.update(old - new)
            won.update(new - old)
        change = self.local.try_pairs(mine, entry)
        expected = {s: (lost[s], won[s]) for s in lost | won}
        assert {
            s: (a, b) for s, a, b in zip(*(v.tolist() for v in (change.slots, change.lost, change.won)), strict=True)
        } == expected
        assert won[slot] >= own
        assert self.covers() == before
        if rng.random() < 0.3:  # another trial in between must not matter
            self.local.try_pairs([next(iter(pairs))])
        gone = self.local.accept(mine, entry)
        self.slot[union] = slot
        self.twin.entries = after_entries
        usages = self.twin.usages()
        dropped = [x for x in self.twin.entries if usages[x] == 0]
        assert gone == tuple(sorted(self.slot[x] for x in dropped))
        for itemset in dropped:
            del self.twin.entries[itemset], self.slot[itemset]
        return True


@given(rows(), st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([1, 4, 256]))
def test_a_local_table_is_what_it_would_be_if_made_from_nothing(case, seed, own_entry, few):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedslim.algorithm1.pairs.FEW_PAIRS", few)
        patch.setattr("fedslim.mdl.table.SPARE_SLOTS", few)
        mirror = Mirror(*case)
        rng = random.Random(seed)
        for _ in range(8):
            mirror.check()
            if rng.random() < 0.7:  # otherwise the next report has more changes
                mirror.check_news()
            if not mirror.unite(rng, None if own_entry else rng.randint(1, 9)):
                break
        mirror.check()
        mirror.check_news()
        assert len(mirror.local.news()) == 0


@pytest.mark.parametrize("seed", range(6))
def test_it_stays_so_where_covers_cascade(seed):
    mirror, rng = Mirror(dense(seed, 18, 60), 18), random.Random(seed)
    slots = []
    for _ in range(30):
        mirror.check_news()
        slots.append(mirror.local.next_slot)
        assert mirror.unite(rng, None)
    mirror.check()
    mirror.check_news()
    assert slots == list(range(18, 48))  # each used once, although itemsets were dropped
    assert len(mirror.local.slots) < 30


def test_whoever_uses_none_of_the_pairs_inserts_nothing():
    local = LocalTable(database([{0, 1}, {2}], 3))
    local.news()
    assert len(local.try_pairs([(0, 2), (1, 2)]).slots) == 0
    assert local.accept([(0, 2)]) is None
    assert len(local.try_pairs([]).slots) == 0
    assert local.next_slot == 3
    assert len(local.news()) == 0


def test_pairs_must_have_one_union():
    local = LocalTable(database([{0, 1, 2}], 3))
    with pytest.raises(ProtocolError, match="do not have one union"):
        local.try_pairs([(0, 1), (0, 2)])


def test_a_member_without_transactions_has_nothing_to_say():
    local = LocalTable(database([], 3))
    assert len(local.news()) == 0
    assert local.state.supports().tolist() == [0, 0, 0]
    assert local.together(np.array([0]), np.array([1])).tolist() == [0]
