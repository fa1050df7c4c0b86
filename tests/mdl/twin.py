"""SLIM, slow and obvious: every step counts everything from scratch. The oracle for the fast engine."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import combinations

from fedslim.mdl.objective import (
    EXACT,
    data_terms,
    log2,
    model_terms,
    standard_length,
    standard_lengths,
)

Itemset = tuple[int, ...]


def cover(transaction: frozenset[int], table: list[Itemset]) -> list[Itemset]:
    """Return the greedy cover: first itemsets in cover order, then single items."""
    left = set(transaction)
    used = []
    for itemset in table:
        if left.issuperset(itemset):
            used.append(itemset)
            left.difference_update(itemset)
    return used + [(i,) for i in sorted(left)]


def estimated_gain(
    x: int, y: int, c: int, total: int, in_use: int, standard_x: float, standard_y: float, charge: float = EXACT
) -> float:
    """Return the bits saved if X ∪ Y replaced all `c` joint uses of X and Y and nothing else changed.

    `total` is U and `in_use` the number of itemsets with a usage. A parent that vanishes saves its own share of
    L(XY | ST), so only a parent that stays is charged. `kernels/gain.py` has the same sum, term by term.
    """
    x_left, y_left, total_left = x - c, y - c, total - c
    in_use_left = in_use + 1 - (x_left == 0) - (y_left == 0)
    data = (total * log2(total) - total_left * log2(total_left)) + (
        ((x_left * log2(x_left) + y_left * log2(y_left)) + c * log2(c)) - (x * log2(x) + y * log2(y))
    )
    codes = (in_use * log2(total) - in_use_left * log2(total_left)) + (
        ((log2(x_left) + log2(y_left)) + log2(c)) - (log2(x) + log2(y))
    )
    spelled_x = standard_x if x_left else 0.0
    spelled_y = standard_y if y_left else 0.0
    return (data + codes) - charge * (spelled_x + spelled_y)


@dataclass
class Twin:
    transactions: list[frozenset[int]]
    n_items: int
    pruning: bool = True
    order: str = "usage"
    max_itemset_size: int | None = None
    min_support: int = 1
    charges: tuple[float, ...] = (EXACT,)
    width: int = 1
    sweep: bool = False
    min_count: int = 1
    entries: dict[Itemset, int] = field(default_factory=dict)
    candidates: int = 0
    accepted: int = 0
    pruned: int = 0

    def table(self, entries: dict[Itemset, int] | None = None) -> list[Itemset]:
        entries = self.entries if entries is None else entries
        return sorted(entries, key=lambda x: (-len(x), -entries[x], x))

    def usages(self, entries: dict[Itemset, int] | None = None) -> dict[Itemset, int]:
        usages = {(i,): 0 for i in range(self.n_items)} | dict.fromkeys(self.table(entries), 0)
        for transaction in self.transactions:
            for itemset in cover(transaction, self.table(entries)):
                usages[itemset] += 1
        return usages

    def support(self, itemset: Itemset) -> int:
        return sum(t.issuperset(itemset) for t in self.transactions)

    def __post_init__(self) -> None:
        self.charge = self.charges[0]
        rare = {i for i in range(self.n_items) if self.support((i,)) < self.min_count}
        self.transactions = [t - rare for t in self.transactions]
        self.lengths = standard_lengths([self.support((i,)) for i in range(self.n_items)])
        usages = self.usages()
        standard = [standard_length(x, self.lengths) for x in usages]
        self.bits = math.fsum(data_terms(usages.values())) + math.fsum(model_terms(usages.values(), standard))
        items = sum(u > 0 for u in usages.values())
        self.width = max(1, min(self.width, items // 8))
        self.forced = False
        self.touched: set[Itemset] = set()
        self.shrunk: set[Itemset] = set()
        self.later: set[Itemset] = set()

    def terms(self, usages: dict[Itemset, int]) -> list[float]:
        standard = [standard_length(x, self.lengths) for x in usages]
        return data_terms(usages.values()) + model_terms(usages.values(), standard)

    def bits_changed(self, before: dict[Itemset, int], after: dict[Itemset, int]) -> float:
        return math.fsum(self.terms(after) + [-term for term in self.terms(before)])

    def ranked(self, usages: dict[Itemset, int]) -> list[tuple[float, int, Itemset, Itemset]]:
        """Return all pairs with a positive gain, best first: gain, then co-usage, then cover order."""
        together: dict[tuple[Itemset, Itemset], int] = {}
        place = {x: k for k, x in enumerate(self.table() + [(i,) for i in range(self.n_items)])}
        for transaction in self.transactions:
            used = sorted(cover(transaction, self.table()), key=place.__getitem__)
            for pair in combinations(used, 2):
                together[pair] = together.get(pair, 0) + 1
        total, in_use = sum(usages.values()), sum(u > 0 for u in usages.values())
        found = []
        for (x, y), c in together.items():
            if c < self.min_count:
                continue
            if self.max_itemset_size is not None and len(x) + len(y) > self.max_itemset_size:
                continue
            st_x, st_y = standard_length(x, self.lengths), standard_length(y, self.lengths)
            gain = estimated_gain(usages[x], usages[y], c, total, in_use, st_x, st_y, self.charge)
            if gain > 0:
                found.append(((-gain, -c, place[x], place[y]), (gain, c, x, y)))
        return [candidate for _, candidate in sorted(found)]

    def run(self, steps: int | None = None) -> None:
        rejected: dict[tuple[Itemset, Itemset], tuple[int, int, int]] = {}
        for charge in self.charges:
            self.charge = charge
            while self.accepted != steps and self.step(rejected):
                pass
            while self.sweep and self.swept(set(self.entries)):
                rejected.clear()
                while self.step(rejected):
                    pass

    def next_width(self) -> int:
        return self.width

    def step(self, rejected: dict[tuple[Itemset, Itemset], tuple[int, int, int]]) -> bool:
        before = self.usages()
        chosen: list[tuple[int, Itemset, Itemset]] = []
        fresh = [
            (c, x, y)
            for _, c, x, y in self.ranked(before)
            if rejected.get((min(x, y), max(x, y))) != (before[min(x, y)], before[max(x, y)], c)
        ]
        for c, x, y in fresh[: 6 * self.width]:
            if len(chosen) < self.width and not any({x, y} & {p, q} for _, p, q in chosen):
                chosen.append((c, x, y))
        self.width = self.next_width()
        if not chosen:
            self.shrunk, self.touched = set(), set()
            return self.swept_after_step() > 0
        # Covers before any candidate of the step, to see whose covers have changed.
        users = self.users()
        self.shrunk, self.touched = set(), set()
        for c, x, y in chosen:
            if {x, y} & self.touched:
                continue
            assert all(users[z] == self.users()[z] for z in (x, y))
            self.candidates += 1
            usages = self.usages()
            pair = (min(x, y), max(x, y))
            counts = (usages[pair[0]], usages[pair[1]], c)
            itemset = tuple(sorted(x + y))
            support = self.support(itemset)
            trial = self.entries | {itemset: c if self.order == "usage" else support}
            after = self.usages(trial)
            bits = self.bits_changed(usages, after)
            if support < self.min_support or bits >= 0 or after[itemset] < self.min_count:
                rejected[pair] = counts
                continue
            state = self.state()
            self.change(trial, bits)
            rare = {x for x in self.shrunk if x in self.entries and 0 < after[x] < self.min_count}
            self.prune(rare, forced_only=True)
            if self.undone(state):
                rejected[pair] = counts
            else:
                self.accepted += 1
        self.clean()
        self.swept_after_step()
        # An itemset that comes back after it was dropped is a new one: its pairs are not rejected.
        for old in [p for p in rejected if any(len(e) > 1 and e not in self.entries for e in p)]:
            del rejected[old]
        return True

    def users(self) -> dict[Itemset, set[int]]:
        """Return which transactions use each element."""
        users: dict[Itemset, set[int]] = {(i,): set() for i in range(self.n_items)} | {x: set() for x in self.entries}
        for t, transaction in enumerate(self.transactions):
            for itemset in cover(transaction, self.table()):
                users[itemset].add(t)
        return users

    def change(self, entries: dict[Itemset, int], bits: float) -> set[Itemset]:
        """Change the table; return the itemsets that are used less than before."""
        before, self.entries, self.bits = self.users(), entries, self.bits + bits
        after = self.users()
        every = before.keys() | after.keys()
        self.touched |= {x for x in every if before.get(x, set()) != after.get(x, set())}
        shrunk = {x for x in entries if len(after[x]) < len(before.get(x, ()))}
        self.shrunk |= shrunk
        self.later &= entries.keys()
        return shrunk

    def state(self) -> tuple[dict[Itemset, int], int, float, set[Itemset], set[Itemset], set[Itemset]]:
        self.forced = False
        return dict(self.entries), self.pruned, self.bits, set(self.touched), set(self.shrunk), set(self.later)

    def undone(self, before: tuple[dict[Itemset, int], int, float, set[Itemset], set[Itemset], set[Itemset]]) -> bool:
        """Undo changes if forced removals made them no better."""
        if not self.forced or self.bits < before[2]:
            return False
        self.entries, self.pruned, self.bits, self.touched, self.shrunk, self.later = before
        return True

    def swept_after_step(self) -> int:
        pending, self.later = self.later | self.shrunk, set()
        return self.swept(pending, once=self.width > 1)

    def swept(self, pending: set[Itemset], *, once: bool = False) -> int:
        before = self.state()
        gone = self.prune(pending, forced_only=not self.pruning, once=once)
        return 0 if self.undone(before) else gone

    def clean(self) -> None:
        """Drop itemsets that have lost all their uses."""
        usages = self.usages()
        self.entries = {x: entry for x, entry in self.entries.items() if usages[x] or x not in self.shrunk}
        self.later &= self.entries.keys()

    def without(self, itemset: Itemset) -> tuple[dict[Itemset, int], float]:
        """Return the table without an itemset, and how many bits L would change."""
        trial = {x: entry for x, entry in self.entries.items() if x != itemset}
        return trial, self.bits_changed(self.usages(), self.usages(trial) | {itemset: 0})

    def prune(self, pending: set[Itemset], *, forced_only: bool, once: bool = False) -> int:
        gone = 0
        if once and not forced_only:
            usages = self.usages()
            pending = {x for x in pending if x in self.entries}
            pending = {x for x in pending if usages[x] < self.min_count or self.without(x)[1] < 0}
        while pending := {x for x in pending if x in self.entries}:
            usages, table = self.usages(), self.table()
            if forced_only and not (pending := {x for x in pending if usages[x] < self.min_count}):
                break
            worst = min(pending, key=lambda x: (usages[x], table.index(x)))
            pending.remove(worst)
            trial, bits = self.without(worst)
            after = self.usages(trial)
            if bits < 0 or usages[worst] < self.min_count:
                self.forced |= usages[worst] < self.min_count
                shrunk = self.change(trial, bits)
                pending |= set() if once else shrunk
                self.later |= shrunk if once else set()
                pending |= {x for x in self.shrunk if x in trial and 0 < after[x] < self.min_count}
                self.pruned += 1
                gone += 1
                self.clean()
        return gone

    def result(self) -> list[tuple[Itemset, int, int]]:
        usages = self.usages()
        found = [(x, usages[x], self.entries[x]) for x in self.table()]
        return found + [((i,), usages[(i,)], 0) for i in range(self.n_items) if usages[(i,)]]
