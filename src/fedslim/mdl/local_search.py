"""Searches that continue from a table that was found before.

An iterated local search takes some itemsets out, continues greedily, keeps the result if it is better, or goes back.
Which itemsets are taken out, a *ruin*, is chosen among several kinds. One that takes out much may lead to a much better
table, and costs much more. What pays changes during a run and from data set to data set, so each kind is tried in
proportion to what it has gained for its cost.

It asks questions like the greedy search that it continues, and knows nothing of its source either. Going back covers
nothing anew: the search and its source both return to the state that they have marked.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np

from fedslim.mdl import questions as q
from fedslim.mdl.eager_search import EagerSearch
from fedslim.mdl.itemsets import Itemset
from fedslim.mdl.kernels.arrays import KeptArrays
from fedslim.mdl.objective import log2, standard_length
from fedslim.mdl.policy import MAX_WIDTH, Policy
from fedslim.mdl.ranking import Candidate
from fedslim.mdl.search import SlimSearch
from fedslim.mdl.steps import SearchResult, Snapshot

Table = tuple[tuple["Itemset", int], ...]
"""Itemsets with the second criterion of their place in the cover order: all that is needed to build a table again."""

WIDTHS = (1, 2, 4, 6, 8, 12)  # the widths with which an iteration may continue: as many ways to another table

RANDOM_WIDTHS = (1, 8)  # the least and the largest width of a step where each has a random one

OVERHEAD = 5  # the cost of an iteration that takes nothing out and tries nothing, in candidates

SLACK = 5
"""A table may be worse than the best by what as many of its elements cost in the model: a detour to a better one."""

LATELY = 4  # the rate of an iteration is that of its last quarter, and of at least as many steps as this

MEMORY = 0.95  # how much of what a kind gained and cost is remembered each time it is tried again

LEAST = 0.5  # each kind is tried at least this often, compared with the one that pays best

One = TypeVar("One")


# -- which itemsets to take out -------------------------------------------------------------------------------------


class Dice:
    """Random numbers that are the same with every version of Python, as only `random()` of a seeded generator is."""

    def __init__(self, *seed: int) -> None:
        digest = hashlib.sha256("/".join(map(str, seed)).encode()).digest()
        self._random = random.Random(int.from_bytes(digest, "big"))  # noqa: S311  # not for secrets

    def fraction(self) -> float:
        """Return a number from 0 to below 1."""
        return self._random.random()

    def below(self, n: int) -> int:
        """Return a whole number from 0 to n - 1."""
        return int(self._random.random() * n)

    def between(self, least: int, most: int) -> int:
        """Return a whole number from `least` to `most`."""
        return least + self.below(most - least + 1)

    def one_of(self, several: Sequence[One]) -> One:
        """Return one of several."""
        return several[self.below(len(several))]


@dataclass(frozen=True, slots=True)
class Standing:
    """An itemset of the table: its slot, items and usage."""

    slot: int
    items: Itemset
    usage: int


Ruin = Callable[[Sequence[Standing], Dice], list[Standing]]


def few(least: int, most: int, table: Sequence[Standing], dice: Dice) -> list[Standing]:
    """Take out a few itemsets, any."""
    places = {dice.below(len(table)) for _ in range(dice.between(least, most))}
    return [table[k] for k in sorted(places)]


def similar(least: int, most: int, table: Sequence[Standing], dice: Dice) -> list[Standing]:
    """Take out one itemset and those that have most in common with it."""
    n, items = dice.between(least, most), set(dice.one_of(table).items)

    def common(one: Standing) -> float:
        both = len(items.intersection(one.items))
        return both / (len(items) + len(one.items) - both)

    return sorted(table, key=common, reverse=True)[:n]


def related(table: Sequence[Standing], dice: Dice) -> list[Standing]:
    """Take out one itemset, its subsets and its supersets."""
    items = set(dice.one_of(table).items)
    return [one for one in table if items.issuperset(one.items) or items.issubset(one.items)]


def having(share: float, table: Sequence[Standing], dice: Dice) -> list[Standing]:
    """Take out this share of the itemsets with one item."""
    item = dice.one_of(dice.one_of(table).items)
    return [one for one in table if item in one.items and dice.fraction() < share]


def rarest(least: int, most: int, table: Sequence[Standing], dice: Dice) -> list[Standing]:
    """Take out itemsets that are used least, with some chance for others."""
    n = dice.between(least, most)
    luck = {one.slot: one.usage * (0.5 + dice.fraction()) for one in table}
    return sorted(table, key=lambda one: luck[one.slot])[:n]


def scattered(share: float, table: Sequence[Standing], dice: Dice) -> list[Standing]:
    """Take out this share of the table, anywhere."""
    return [one for one in table if dice.fraction() < share]


RUINS: tuple[Ruin, ...] = (
    *[partial(few, *limits) for limits in ((1, 2), (3, 5))],
    *[partial(similar, *limits) for limits in ((2, 5), (6, 15), (16, 60))],
    related,
    *[partial(having, share) for share in (0.3, 0.8)],
    partial(rarest, 2, 20),
    *[partial(scattered, share) for share in (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)],
)


@dataclass(slots=True)
class Experience:
    """What each kind of ruin has gained, in bits, and cost, in itemsets taken out and candidates tried."""

    gained: list[float] = field(default_factory=lambda: [0.0] * len(RUINS))
    cost: list[float] = field(default_factory=lambda: [0.0] * len(RUINS))

    def choose(self, dice: Dice) -> int:
        """Choose a kind, in proportion to what it gains for its cost; one that was not tried yet counts as the best."""
        rates = [g / c if c > 0 else None for g, c in zip(self.gained, self.cost, strict=True)]
        top = max([r for r in rates if r is not None], default=0.0)
        if top == 0.0:
            return dice.below(len(RUINS))
        weights = [top if r is None else max(r, LEAST * top) for r in rates]
        left = dice.fraction() * sum(weights)
        for kind, weight in enumerate(weights):
            left -= weight
            if left < 0:
                return kind
        return len(RUINS) - 1

    def learn(self, kind: int, gained: float, cost: float) -> None:
        """Take in how one ruin went."""
        self.gained[kind] = MEMORY * self.gained[kind] + gained
        self.cost[kind] = MEMORY * self.cost[kind] + cost

    @staticmethod
    def mean(several: Sequence[Experience]) -> Experience:
        """Return the mean of what several chains have learned."""
        gained = zip(*[one.gained for one in several], strict=True)
        cost = zip(*[one.cost for one in several], strict=True)
        return Experience([sum(g) / len(several) for g in gained], [sum(c) / len(several) for c in cost])


# -- the searches ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Patch:
    """What an iteration that lowered L has changed in the table."""

    removed: Table
    added: Table


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a local search: it depends on nothing else."""

    start: Table
    iterations: int
    patches: tuple[Patch, ...] = ()  # improvements of another chain, to try first
    experience: Experience = field(default_factory=Experience)


def itemsets_of(result: SearchResult) -> Table:
    """Return the itemsets of a result, without single items."""
    return tuple([(e.items, e.entry) for e in result.entries if len(e.items) > 1])


class ContinuedSearch(SlimSearch):
    """A greedy search that starts with these itemsets in addition to single items.

    With `widths`, each step has a random width: another way to another table.
    """

    def __init__(self, n_items: int, policy: Policy, start: Table, widths: Dice | None = None) -> None:
        super().__init__(n_items, policy)
        self._start_from = start
        self._widths = widths

    def _begin(self) -> Generator[q.Question, Any, None]:
        yield from super()._begin()
        self._draw_width()
        yield from self._install(self._start_from)

    def _next_candidates(self) -> Generator[q.Question, Any, tuple[Candidate, ...]]:
        found = yield from super()._next_candidates()
        self._draw_width()  # already now, since pruning may look ahead to the next step
        return found

    def _draw_width(self) -> None:
        if self._widths is not None:
            self.ranking.width = self._widths.between(*RANDOM_WIDTHS)

    def _install(self, table: Table) -> Generator[q.Question, Any, None]:
        """Insert itemsets that were found before."""
        yield from self._come_back()
        for first in range(0, len(table), MAX_WIDTH):
            some = table[first : first + MAX_WIDTH]
            moves = [
                q.Insert.again(slot, *one) for slot, one in zip(self._table.free_slots(len(some)), some, strict=True)
            ]
            for move in moves:
                self._reserve(move.slot)
                self._standard[move.slot] = standard_length(move.itemset, self._item_lengths)
            changes = (yield q.TryInsertions(tuple(moves), (True,) * len(moves))).changes
            for move, change in zip(moves, changes, strict=True):
                bits = self._bits_changed(change)
                self._table.stage(move.slot, move.itemset, move.entry)
                self._table.place(move.slot)
                self.ranking.welcome(move.slot)
                self._apply(change, bits)


class EagerContinuedSearch(ContinuedSearch, EagerSearch):
    """The same for sources where a question is dear."""


class LocalSearch(ContinuedSearch):
    """One segment of an iterated local search."""

    def __init__(self, n_items: int, policy: Policy, segment: Segment, dice: Dice) -> None:
        super().__init__(n_items, policy, segment.start)
        self._segment = segment
        self._dice = dice
        self.experience = Experience(list(segment.experience.gained), list(segment.experience.cost))
        self.patches: list[Patch] = []
        self.iterations = 0
        self._marked_counts = KeptArrays()
        self._marked_figures = (0, 0, 0.0)
        self._model_bits = 0.0
        self._slack = 0.0
        self._best: Snapshot | None = None
        self.best_bits = math.inf  # L of the best table so far
        self._standing: list[Standing] | None = None  # the marked table, for ruins

    def run(self) -> Generator[q.Question, Any, SearchResult]:
        """Run the segment."""
        yield from self._begin()
        yield from self._mark()
        for patch in self._segment.patches:
            yield from self._apply_patch(patch)
        # Then every candidate that does not pay is known, which would otherwise be tried in each iteration.
        yield from self._sweep(set(self._table))
        while (yield from self._step()):
            pass
        yield from self._mark()
        while self.iterations < self._segment.iterations and len(self._table):
            yield from self._iterate()
            self.iterations += 1
        self.converged = True
        return self.result()

    def _best_table(self) -> Snapshot:
        return super()._best_table() if self._best is None else self._best

    # -- the state to return to ---------------------------------------------------------------------------------

    def _mark(self) -> Generator[q.Question, Any, None]:
        yield from self._come_back()
        yield q.Mark()
        self.bits_now = self._exact_bits()
        self._standing = None
        self._table.mark()
        self.ranking.mark()
        self._marked_counts.keep((self._usage, self._standard))
        self._marked_figures = (self._total, self._in_use, self.bits_now)
        if self._best is None or self.bits_now < self.best_bits:
            before, self._best, self.best_bits = self._best, self._snapshot(), self.bits_now
            if before is not None:
                then, now = ({(x, one.entries[s]) for s, x in one.itemsets.items()} for one in (before, self._best))
                self.patches.append(Patch(tuple(sorted(then - now)), tuple(sorted(now - then))))
            self._slack = SLACK * self._model_bits / max(self._in_use, 1)

    def _go_back(self) -> Generator[q.Question, Any, None]:
        yield from self._come_back()
        yield q.GoBack()
        self._table.go_back()
        self._usage[:] = 0  # also of the slots that were added since
        self._marked_counts.put_back((self._usage, self._standard))
        self._total, self._in_use, self.bits_now = self._marked_figures
        self._tried = {}
        self.ranking.go_back()

    def _exact_bits(self) -> float:
        """Return L without the rounding errors of many small changes: exactly `bits().total`, but faster."""
        used = np.flatnonzero(self._usage)
        usage, standard = self._usage[used], self._standard[used]
        logs, log_total = self._log2[usage], log2(self._total)
        data = math.fsum([self._total * log_total, *(-(usage * logs)).tolist()])
        self._model_bits = math.fsum([len(used) * log_total, *(-logs).tolist(), *standard.tolist()])
        return data + self._model_bits

    def _settle(self) -> Generator[q.Question, Any, None]:
        """Continue from the current table if it is good enough, and from the marked one otherwise."""
        marked, self.bits_now = self._marked_figures[2], self._exact_bits()
        if self.bits_now < marked or marked < self.bits_now < self.best_bits + self._slack:
            yield from self._mark()
        else:
            yield from self._go_back()

    # -- iterations ---------------------------------------------------------------------------------------------

    def _iterate(self) -> Generator[q.Question, Any, None]:
        """Take some itemsets out, prune, continue greedily, and keep what is good enough."""
        before, record, tried = self.bits_now, self.best_bits, self.tally.candidates
        kind = self.experience.choose(self._dice)
        if self._standing is None:
            usage = self._usage.tolist()
            self._standing = [Standing(s, self._table.itemsets[s], usage[s]) for s in self._table]
        slots = tuple([one.slot for one in RUINS[kind](self._standing, self._dice)])
        self.ranking.width = self._dice.one_of(WIDTHS)
        yield from self._take_out(slots)
        deficits = [self.bits_now - before]
        while (yield from self._step()):
            deficits.append(self.bits_now - before)
            if self._is_hopeless(deficits, len(slots)):
                break
        yield from self._settle()
        cost = OVERHEAD + len(slots) + self.tally.candidates - tried
        self.experience.learn(kind, record - self.best_bits, cost)

    def _is_hopeless(self, deficits: list[float], taken_out: int) -> bool:
        """Return whether an iteration would have to gain more than it seems to.

        It takes about as many itemsets in as it has taken out; towards the end, and after it, some steps more.
        """
        steps = len(deficits) - 1
        lately = min(steps, max(LATELY, steps // 4))
        rate = (deficits[-1 - lately] - deficits[-1]) / lately
        expected = taken_out / self.ranking.width
        return deficits[-1] > rate * max(expected - steps, expected / 4 + LATELY) + self._slack

    def _take_out(self, slots: tuple[int, ...]) -> Generator[q.Question, Any, None]:
        """Remove itemsets, then those that are worth nothing without them."""
        yield from self._come_back()
        self._touched, self._shrunk, self._later = set(), set(), set()
        if slots:
            change = q.add_changes((yield q.TryRemovals(slots, (True,) * len(slots))))
            bits = self._bits_changed(change)
            for slot in slots:
                self._leave(slot, None)
            self._apply(change, bits)
        for slot in self._unused():
            yield q.Remove(slot)
            self._leave(slot, None)
        # Not `_sweep`, which would keep an itemset that is used too seldom if its removal costs bits.
        yield from self._prune(set(self._shrunk), forced_only=not self.policy.pruning)

    def _apply_patch(self, patch: Patch) -> Generator[q.Question, Any, None]:
        """Change the table as another chain has changed its own, and keep what is better."""
        slot_of = {x: s for s, x in self._table.itemsets.items()}
        gone = [slot_of.pop(x) for x, _ in patch.removed if x in slot_of]
        added = tuple([(x, entry) for x, entry in patch.added if x not in slot_of])
        if not gone and not added:
            return
        yield from self._take_out(tuple(gone))
        yield from self._install(added)
        new = {s for s, x in self._table.itemsets.items() if (x, self._table.entries[s]) in added}
        yield from self._prune(self._shrunk | new, forced_only=not self.policy.pruning)
        yield from self._settle()


class EagerLocalSearch(LocalSearch, EagerSearch):
    """The same for sources where a question is dear."""

    _marked_last: dict[int, q.Change]  # the marked state of `_last`: a slot may hold another element by now

    def _mark(self) -> Generator[q.Question, Any, None]:
        yield from super()._mark()
        self._marked_last = self._last.copy()

    def _go_back(self) -> Generator[q.Question, Any, None]:
        yield from super()._go_back()
        self._last = self._marked_last.copy()
