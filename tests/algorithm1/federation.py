"""Members in memory, each with its own table, with plain sums: what SA and SO do over a network."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from hypothesis import strategies as st
from twin import Twin, cover, estimated_gain

from fedslim.algorithm1.local_table import LocalTable
from fedslim.algorithm1.pairs import PairCounts
from fedslim.algorithm1.search import Acceptance, Evaluation, NextCandidates
from fedslim.data import TransactionDatabase
from fedslim.mdl.driver import run_search
from fedslim.mdl.objective import (
    data_terms,
    log2,
    model_terms,
    standard_length,
    standard_lengths,
)
from fedslim.mdl.questions import Change, Supports, add_changes


@dataclass(frozen=True, slots=True)
class Joined:
    """Two elements used together: u(X), u(Y), their co-usage, L(X | ST), L(Y | ST)."""

    x: int
    y: int
    together: int
    standard_x: float
    standard_y: float


def estimated_gain_of_union(pairs: list[Joined], usage: int, total: int, in_use: int) -> float:
    """Return the bits saved if one itemset, the union of each of these pairs, replaced all their joint uses.

    Where members have different tables, several pairs may have the same union, and it may already have a `usage`: then
    it is not spelled out again. No element is in two of the pairs (its partner is the rest of the union), so the
    changes of the pairs add up. `kernels/ranking.py` has the same sum, term by term.
    """
    if len(pairs) == 1 and usage == 0:
        (p,) = pairs
        return estimated_gain(p.x, p.y, p.together, total, in_use, p.standard_x, p.standard_y)
    c = sum(p.together for p in pairs)
    total_left, in_use_left, usage_then = total - c, in_use, usage + c
    data_then, data_now = usage_then * log2(usage_then), usage * log2(usage)
    codes_then, codes_now = log2(usage_then), log2(usage)
    spelling = 0.0
    if usage == 0:
        in_use_left += 1
        spelling = pairs[0].standard_x + pairs[0].standard_y
    for p in pairs:
        for before, standard in ((p.x, p.standard_x), (p.y, p.standard_y)):
            left = before - p.together
            data_then += left * log2(left)
            data_now += before * log2(before)
            codes_then += log2(left)
            codes_now += log2(before)
            if left == 0:
                in_use_left -= 1
                spelling -= standard
    data = (total * log2(total) - total_left * log2(total_left)) + (data_then - data_now)
    codes = (in_use * log2(total) - in_use_left * log2(total_left)) + (codes_then - codes_now)
    return (data + codes) - spelling


def database(rows, n_items):
    lengths = [len(row) for row in rows]
    tids = np.repeat(np.arange(len(rows)), lengths)
    items = np.array([i for row in rows for i in sorted(row)], np.int64)
    return TransactionDatabase.from_pairs(tids, items, [str(i) for i in range(n_items)], transactions=len(rows))


@st.composite
def rows(draw, *, max_items=12, max_transactions=40):
    """Random rows, some of them made of a few shared patterns, so that there are itemsets to find."""
    n_items = draw(st.integers(1, max_items))
    rng = random.Random(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(0, max_transactions))
    patterns = [rng.sample(range(n_items), rng.randint(1, min(n_items, 6))) for _ in range(draw(st.integers(0, 4)))]
    noise = draw(st.sampled_from([0.0, 0.1, 0.3, 0.6]))
    found = []
    for _ in range(n):
        row = {i for i in range(n_items) if rng.random() < noise}
        for pattern in patterns:
            if rng.random() < 0.4:
                row.update(pattern)
        found.append(row)
    return found, n_items


def dense(seed, n_items, transactions):
    """Overlapping patterns in dense rows: insertions break covers, which break others."""
    rng = random.Random(seed)
    patterns = [rng.sample(range(n_items), rng.randint(2, 8)) for _ in range(rng.randint(4, 10))]
    found = []
    for _ in range(transactions):
        row = {i for i in range(n_items) if rng.random() < 0.15}
        for pattern in rng.sample(patterns, rng.randint(1, 3)):
            row.update(i for i in pattern if rng.random() < 0.95)
        found.append(row)
    return found


def skewed(seed, n_items, members, transactions):
    """Patterns spread unevenly among members, so that their tables differ."""
    rng = random.Random(seed)
    patterns = [rng.sample(range(n_items), rng.randint(2, 5)) for _ in range(6)]
    parts = []
    for _ in range(members):
        weights = [rng.choice([0.01, 0.1, 1, 5]) for _ in patterns]
        part = []
        for _ in range(transactions):
            row = {i for i in range(n_items) if rng.random() < 0.1}
            for pattern in rng.choices(patterns, weights, k=rng.randint(1, 2)):
                row.update(i for i in pattern if rng.random() < 0.9)
            part.append(row)
        parts.append(part)
    return parts


class Member:
    """A member's table, and the global numbers of its slots."""

    def __init__(self, database):
        self.local = LocalTable(database)
        self.numbers = np.arange(database.n_items, dtype=np.int32)  # slot -> number
        self.slots = np.arange(database.n_items, dtype=np.int32)  # number -> slot, -1 for none

    def slot_of(self, numbers):
        numbers = np.asarray(numbers, np.int32)
        known = numbers < len(self.slots)
        return np.where(known, self.slots[np.where(known, numbers, 0)], -1)

    def pairs(self, pairs):
        """The pairs by slots, without elements that this member does not have."""
        slots = self.slot_of(np.array(pairs)).tolist()
        return [(x, y) for x, y in slots if x >= 0 and y >= 0]

    def by_number(self, change, new):
        """A change by numbers; the slot on trial, if any, gets the number `new`."""
        numbers = np.append(self.numbers, np.int32(new))[change.slots]
        return Change(numbers, change.lost, change.won)

    def take_in(self, dropped, number):
        slot = len(self.numbers)  # slots are used once, in ascending order
        self.numbers = np.append(self.numbers, np.int32(number))
        if number >= len(self.slots):
            self.slots = np.concatenate((self.slots, np.full(number + 1, -1, np.int32)))
        assert self.slots[number] == -1
        self.slots[number] = slot
        self.slots[self.numbers[list(dropped)]] = -1


class Federation:
    """All members together: answers the questions of `Algorithm1Search` with sums, by global numbers."""

    def __init__(self, databases, entry="own"):
        self.members = [Member(database) for database in databases]
        self.entry = entry

    def answer(self, question):
        match question:
            case Supports():
                return self.supports()
            case NextCandidates():
                return self.candidates()
            case Evaluation(number, itemset, pairs, entry):
                return self.evaluate(number, itemset, pairs, entry)
            case Acceptance(trial):
                return self.accept(trial.number, trial.itemset, trial.pairs, trial.entry)

    def searched(self, search, should_stop=lambda: False):
        def answer(question):
            yield from ()  # members in memory answer at once
            return self.answer(question)

        assert list(run_search(search, answer, should_stop)) == []
        return search.result()

    def supports(self):
        return np.sum([m.local.state.supports() for m in self.members], axis=0, dtype=np.int64)

    def candidates(self):
        keys = []
        for m in self.members:
            news = m.local.news()
            x, y = m.numbers[news.x].astype(np.int64), m.numbers[news.y].astype(np.int64)
            keys.append(np.minimum(x, y) << 32 | np.maximum(x, y))
        key = np.unique(np.concatenate(keys))
        x, y = (key >> 32).astype(np.int32), (key & 0xFFFFFFFF).astype(np.int32)
        sums = np.sum([m.local.together(m.slot_of(x), m.slot_of(y)) for m in self.members], axis=0, dtype=np.int64)
        return PairCounts(x, y, sums)

    def _entry(self, member, itemset, entry):
        if self.entry == "support":
            return member.local.state.support(itemset)
        return entry if self.entry == "sum" else None

    def evaluate(self, number, itemset, pairs, entry):
        changes = []
        for m in self.members:
            change = m.local.try_pairs(m.pairs(pairs), self._entry(m, itemset, entry))
            changes.append(m.by_number(change, number))
        return add_changes(changes)

    def accept(self, number, itemset, pairs, entry):
        for m in self.members:
            dropped = m.local.accept(m.pairs(pairs), self._entry(m, itemset, entry))
            if dropped is not None:
                m.take_in(dropped, number)


class Algorithm1Twin:
    """Algorithm 1, slow and obvious: every step computes all members' covers from scratch."""

    def __init__(self, parts, n_items, entry="own"):
        self.members = [Twin([frozenset(row) for row in part], n_items) for part in parts]
        self.n_items = n_items
        self.entry = entry
        self.numbers = {(i,): i for i in range(n_items)}
        supports = [sum(twin.support((i,)) for twin in self.members) for i in range(n_items)]
        self.lengths = standard_lengths(supports)
        self.entries = {}
        self.accepted = 0
        self.evaluated = []  # (itemset, pairs, entry, gain)
        self.several = False  # whether several pairs ever had the same union
        self.again = False  # whether a candidate was ever in the table already
        self.tied = False  # whether two candidates ever had the same gain

    def usages(self, tables=None):
        total = Counter()
        for k, twin in enumerate(self.members):
            total.update(twin.usages(None if tables is None else tables[k]))
        return {x: u for x, u in total.items() if u}

    def together(self, twin):
        counts = Counter()
        for transaction in twin.transactions:
            used = sorted(cover(transaction, twin.table()), key=self.numbers.__getitem__)
            counts.update(combinations(used, 2))
        return counts

    def standard(self, itemset):
        return standard_length(itemset, self.lengths)

    def unions(self):
        """Every union of elements that a member uses together, with its pairs in the order of numbers."""
        unions = {}
        for (x, y), c in sum((self.together(twin) for twin in self.members), Counter()).items():
            unions.setdefault(tuple(sorted(x + y)), []).append((self.numbers[x], x, y, c))
        return [(union, [p[1:] for p in sorted(pairs)]) for union, pairs in unions.items()]

    def ranked(self, usages):
        """All unions with a positive gain, best first: gain, co-usage, size, lexicographic."""
        total, in_use = sum(usages.values()), len(usages)
        found = []
        for union, pairs in self.unions():
            joined = [Joined(usages[x], usages[y], c, self.standard(x), self.standard(y)) for x, y, c in pairs]
            gain = estimated_gain_of_union(joined, usages.get(union, 0), total, in_use)
            if gain > 0:
                self.several |= len(pairs) > 1
                self.again |= union in usages
                found.append((-gain, -sum(c for *_, c in pairs), -len(union), union, pairs))
        found.sort()
        self.tied |= len({candidate[:2] for candidate in found}) < len(found)
        return [(union, pairs, -c, -gain) for gain, c, _, union, pairs in found]

    def trial(self, union, pairs, entry):
        """The members' tables if those that use one of the pairs had the union."""
        tables = []
        for twin in self.members:
            counts = self.together(twin)
            own = sum(counts[x, y] for x, y, _ in pairs)
            kinds = {"own": own, "sum": entry, "support": twin.support(union)}
            tables.append(twin.entries | {union: kinds[self.entry]} if own else twin.entries)
        return tables

    def bits_changed(self, before, after):
        def terms(usages):
            standard = [self.standard(x) for x in usages]
            return data_terms(usages.values()) + model_terms(usages.values(), standard)

        return math.fsum(terms(after) + [-term for term in terms(before)])

    def run(self):
        rejected = {}
        while self.step(rejected):
            pass

    def step(self, rejected):
        usages = self.usages()
        ranked = self.ranked(usages)

        def counts_of(union, pairs):
            return usages.get(union, 0), [(x, y, c, usages[x], usages[y]) for x, y, c in pairs]

        # A candidate stays rejected only while all its counts stay the same. One without a gain is not on the list,
        # so its counts are taken from all unions.
        now = {union: counts_of(union, pairs) for union, pairs in self.unions()}
        for union in [union for union, counts in rejected.items() if now.get(union) != counts]:
            del rejected[union]
        for union, pairs, c, gain in ranked:
            if union in rejected:
                continue
            entry = usages.get(union, 0) + c
            self.evaluated.append((union, [(self.numbers[x], self.numbers[y]) for x, y, _ in pairs], entry, gain))
            tables = self.trial(union, pairs, entry)
            after = self.usages(tables)
            if self.bits_changed(usages, after) < 0:
                self.numbers.setdefault(union, len(self.numbers))
                self.accepted += 1
                self.entries[union] = entry
                self.entries = {x: e for x, e in self.entries.items() if x in after}
                for twin, table in zip(self.members, tables, strict=True):
                    twin.entries = dict(table)
                    used = twin.usages()
                    twin.entries = {x: e for x, e in table.items() if used[x]}
                return True
            rejected[union] = counts_of(union, pairs)
        return False

    def result(self):
        usages = self.usages()
        order = sorted(self.entries, key=lambda x: (-len(x), -self.entries[x], x))
        found = [(x, usages[x], self.entries[x]) for x in order]
        return found + [((i,), usages[i,], 0) for i in range(self.n_items) if (i,) in usages]
