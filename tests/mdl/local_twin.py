"""The local search, slow and obvious: a table is a dictionary, and going back is taking the old one again."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from twin import Itemset, Twin

from fedslim.mdl import local_search
from fedslim.mdl.local_search import RUINS, Dice, Experience, Standing
from fedslim.mdl.objective import data_terms, model_terms, standard_length


@dataclass
class RandomWidthTwin(Twin):
    dice: Dice = field(default_factory=Dice)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.width = self.next_width()

    def next_width(self) -> int:
        return self.dice.between(1, 8)


@dataclass
class LocalTwin(Twin):
    start: tuple[tuple[Itemset, int], ...] = ()
    patches: tuple[local_search.Patch, ...] = ()
    iterations: int = 0
    dice: Dice = field(default_factory=Dice)
    experience: Experience = field(default_factory=Experience)

    def run(self, steps: int | None = None) -> None:
        del steps
        self.rejected: dict[tuple[Itemset, Itemset], tuple[int, int, int]] = {}
        self.improvements = []
        self.entries = dict(self.start)
        self.bits = self.exact_bits()
        self.best = self.marked = (self.bits, dict(self.entries), {})
        self.slack = self.allowed()
        for patch in self.patches:
            self.apply_patch(patch)
        self.swept(set(self.entries))
        while self.step(self.rejected):
            pass
        self.mark()
        for _ in range(self.iterations):
            if self.entries:
                self.iterate()
        _, self.entries, _ = self.best

    def exact_bits(self) -> float:
        usages = self.usages()
        standard = [standard_length(x, self.lengths) for x in usages]
        return math.fsum(data_terms(usages.values())) + math.fsum(model_terms(usages.values(), standard))

    def allowed(self) -> float:
        usages = self.usages()
        standard = [standard_length(x, self.lengths) for x in usages]
        in_use = sum(u > 0 for u in usages.values())
        return local_search.SLACK * math.fsum(model_terms(usages.values(), standard)) / max(in_use, 1)

    def mark(self) -> None:
        self.bits = self.exact_bits()
        self.marked = (self.bits, dict(self.entries), dict(self.rejected))
        if self.bits < self.best[0]:
            then, now = set(self.best[1].items()), set(self.entries.items())
            self.improvements.append(local_search.Patch(tuple(sorted(then - now)), tuple(sorted(now - then))))
            self.best = self.marked
            self.slack = self.allowed()

    def settle(self) -> None:
        self.bits = self.exact_bits()
        good_enough = self.bits < self.best[0] + self.slack
        if self.bits < self.marked[0] or (self.bits != self.marked[0] and good_enough):
            self.mark()
        else:
            self.bits, self.entries, self.rejected = self.marked[0], dict(self.marked[1]), dict(self.marked[2])

    def iterate(self) -> None:
        before, record, tried = self.bits, self.best[0], self.candidates
        kind = self.experience.choose(self.dice)
        usages = self.usages()
        table = [Standing(k, x, usages[x]) for k, x in enumerate(self.table())]
        out = [one.items for one in RUINS[kind](table, self.dice)]
        self.width = self.dice.one_of(local_search.WIDTHS)
        self.take_out(out)
        deficits = [self.bits - before]
        while self.step(self.rejected):
            deficits.append(self.bits - before)
            steps = len(deficits) - 1
            lately = min(steps, max(4, steps // 4))
            rate = (deficits[-1 - lately] - deficits[-1]) / lately
            expected = len(out) / self.width
            hope = rate * max(expected - steps, expected / 4 + 4) + self.slack
            if deficits[-1] > hope:
                break
        self.settle()
        self.experience.learn(kind, record - self.best[0], 5 + len(out) + self.candidates - tried)

    def take_out(self, out: list[Itemset]) -> None:
        self.touched, self.shrunk, self.later = set(), set(), set()
        before = self.usages()
        left = {x: entry for x, entry in self.entries.items() if x not in out}
        self.change(left, self.bits_changed(before, self.usages(left) | dict.fromkeys(out, 0)))
        self.clean()
        self.prune(set(self.shrunk), forced_only=not self.pruning)
        # An itemset that comes back is a new one.
        for old in [p for p in self.rejected if any(len(e) > 1 and e not in self.entries for e in p)]:
            del self.rejected[old]

    def apply_patch(self, patch: local_search.Patch) -> None:
        gone = [x for x, _ in patch.removed if x in self.entries]
        added = [(x, entry) for x, entry in patch.added if x in gone or x not in self.entries]
        if not gone and not added:
            return
        self.take_out(gone)
        for x, entry in added:
            before = self.usages()
            trial = self.entries | {x: entry}
            self.change(trial, self.bits_changed(before, self.usages(trial)))
        self.prune(self.shrunk | {x for x, _ in added}, forced_only=not self.pruning)
        self.settle()
