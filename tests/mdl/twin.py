"""SLIM, slow and obvious: every step counts everything from scratch. The oracle for the fast engine."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import combinations

from fedslim.mdl.objective import (
    EXACT,
    Charge,
    data_terms,
    estimated_gain,
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


@dataclass
class Twin:
    transactions: list[frozenset[int]]
    n_items: int
    pruning: bool = True
    order: str = "usage"
    max_itemset_size: int | None = None
    min_support: int = 1
    charges: tuple[Charge, ...] = (EXACT,)
    look_ahead: int = 1
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
        self.forced = False

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
            while self.sweep and self.swept():
                rejected.clear()
                while self.step(rejected):
                    pass

    def step(self, rejected: dict[tuple[Itemset, Itemset], tuple[int, int, int]]) -> bool:
        usages = self.usages()
        found: list[tuple[float, int, dict[Itemset, int], dict[Itemset, int]]] = []
        tried = 0
        for _, c, x, y in self.ranked(usages):
            if found and tried >= self.look_ahead:
                break
            pair = (min(x, y), max(x, y))
            counts = (usages[pair[0]], usages[pair[1]], c)
            if rejected.get(pair) == counts:
                continue
            self.candidates += 1
            tried += 1
            itemset = tuple(sorted(x + y))
            support = self.support(itemset)
            trial = self.entries | {itemset: c if self.order == "usage" else support}
            after = self.usages(trial)
            bits = self.bits_changed(usages, after)
            if support < self.min_support or bits >= 0 or after[itemset] < self.min_count:
                rejected[pair] = counts
            else:
                found.append((bits, tried, trial, after, pair, counts))
                rejected.pop(pair, None)  # it was rejected with other counts
        if not found:
            return False
        bits, _, trial, after, pair, counts = min(found, key=lambda trial: trial[:2])
        before = self.state()
        self.entries = trial
        self.bits += bits
        self.prune(self.clean(usages, after))
        if self.undone(before):
            rejected[pair] = counts
            return True
        self.accepted += 1
        # An itemset that comes back after it was dropped is a new one: its pairs are not rejected.
        for old in [p for p in rejected if any(len(e) > 1 and e not in self.entries for e in p)]:
            del rejected[old]
        return True

    def state(self) -> tuple[dict[Itemset, int], int, float]:
        self.forced = False
        return dict(self.entries), self.pruned, self.bits

    def undone(self, before: tuple[dict[Itemset, int], int, float]) -> bool:
        """Undo a step if forced removals made it no better."""
        if not self.forced or self.bits < before[2]:
            return False
        self.entries, self.pruned, self.bits = before
        return True

    def swept(self) -> int:
        before = self.state()
        gone = self.prune(set(self.entries))
        return 0 if self.undone(before) else gone

    def clean(self, before: dict[Itemset, int], after: dict[Itemset, int]) -> set[Itemset]:
        """Drop itemsets without usage; return those that are used less than before."""
        for itemset in [x for x in self.entries if after[x] == 0]:
            del self.entries[itemset]
        return {x for x in self.entries if x in before and after[x] < before[x]}

    def prune(self, pending: set[Itemset]) -> int:
        gone = 0
        while pending := {x for x in pending if x in self.entries}:
            usages, table = self.usages(), self.table()
            if not self.pruning and not (pending := {x for x in pending if usages[x] < self.min_count}):
                break
            worst = min(pending, key=lambda x: (usages[x], table.index(x)))
            pending.remove(worst)
            trial = {x: entry for x, entry in self.entries.items() if x != worst}
            after = self.usages(trial)
            bits = self.bits_changed(usages, after | {worst: 0})
            if bits < 0 or usages[worst] < self.min_count:
                self.forced |= usages[worst] < self.min_count
                self.bits += bits
                self.entries = trial
                self.pruned += 1
                gone += 1
                pending |= self.clean(usages, after)
        return gone

    def result(self) -> list[tuple[Itemset, int, int]]:
        usages = self.usages()
        found = [(x, usages[x], self.entries[x]) for x in self.table()]
        return found + [((i,), usages[(i,)], 0) for i in range(self.n_items) if usages[(i,)]]
