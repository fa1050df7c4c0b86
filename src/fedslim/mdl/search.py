"""SLIM's search, written once: a generator that asks questions and receives counts.

    search = SlimSearch(n_items, Policy())
    for the driver: question = next(run); question = run.send(answer) … until StopIteration

It cannot tell where the counts come from. Its own state is a valid code table whenever it waits for an answer, so a
run may be stopped at any question, and `result()` is then the best table so far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fedslim.mdl.growing import lengthened
from fedslim.mdl.objective import (
    EXACT,
    Bits,
    Charge,
    bits_changed,
    description_length,
    log2_table,
    standard_length,
    standard_lengths,
)
from fedslim.mdl.questions import (
    Change,
    CoUsages,
    Insert,
    Presume,
    Remove,
    Support,
    Supports,
    Together,
    TryInsert,
    TryRemovals,
)
from fedslim.mdl.ranking import Aside, Candidate, CandidateRanking, UnknownRows
from fedslim.mdl.table import WorkingTable

if TYPE_CHECKING:
    from collections.abc import Generator

    from numpy.typing import NDArray

    from fedslim.mdl.itemsets import Itemset
    from fedslim.mdl.questions import Question, SlotCounts

Order = Literal["usage", "support"]

FAIR_LUCK = 0.7
"""An eager search is eager as long as at least so many candidates are accepted."""

MOST_AT_ONCE = 3
"""Candidates that an eager search asks about at once while most of them fail."""

MOST_TRIALS = 8
"""Removals tried in one question: after one that succeeds the others have to be asked about again."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How the search goes about it. The default is SLIM's plain greedy."""

    pruning: bool = True
    order: Order = "usage"
    max_itemset_size: int | None = None
    min_support: int = 1
    charges: tuple[Charge, ...] = (EXACT,)
    """One after the other, each until nothing is accepted any more."""
    look_ahead: int = 1
    """How many of the best candidates are tried for each step; the best true gain wins."""
    sweep: bool = False
    """Whether to try to remove every element after convergence, and to go on if that helped."""


@dataclass(slots=True)
class Tally:
    """What the search has done so far."""

    candidates: int = 0
    accepted: int = 0
    pruned: int = 0
    rows: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.candidates + other.candidates,
            self.accepted + other.accepted,
            self.pruned + other.pruned,
            self.rows + other.rows,
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """An element of the table found: items, usage, and the usage (or support) with which it entered."""

    items: Itemset
    usage: int
    entry: int


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A code table in cover order (itemsets, then singletons in use), and how well it compresses."""

    entries: tuple[Entry, ...]
    bits: Bits
    bits_standard: Bits
    tally: Tally = field(compare=False)
    converged: bool = False


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate, the move that would insert it, what the sources say it changes, and by how many bits.

    If the sources have inserted it already, what they said about the table with it.
    """

    candidate: Candidate
    move: Insert
    change: Change
    bits: float
    inserted: bool = False
    removals: dict[int, Change] = field(default_factory=dict)
    rows: dict[int, SlotCounts] = field(default_factory=dict)


class SlimSearch:
    """One run of the search.

    An *eager* search has each candidate inserted at once and asks in the same breath what it will ask next if the
    candidate is accepted, as most are; one that is not accepted is removed again. While most are not accepted, it asks
    about several at once. It comes to the same result with half as many questions and somewhat more work, which pays
    where a question is a round.
    """

    def __init__(self, n_items: int, policy: Policy, *, eager: bool = False) -> None:
        self.policy = policy
        self._eager = eager and policy.look_ahead == 1
        self._luck = 1.0  # how many of the last candidates were accepted
        self.tally = Tally()
        self.converged = False
        self.bits_now = 0.0
        self.bits_standard = Bits(0.0, 0.0)
        self.best_gain = math.inf  # the estimate of the last candidate tried: what there still is to win
        self._table = WorkingTable(n_items)
        self._usage: NDArray[np.int64] = np.zeros(self._table.capacity, np.int64)
        self._standard: NDArray[np.float64] = np.zeros(self._table.capacity)
        self._item_lengths: list[float] = []
        self._log2: NDArray[np.float64] = np.zeros(1)
        self._total = 0
        self._in_use = 0
        self._tried: dict[int, Change] = {}  # removals that were asked about and still hold

    # -- what is known at any time ------------------------------------------------------------------------------

    @property
    def itemsets(self) -> int:
        """How many itemsets, singletons apart, are in the table now."""
        return len(self._table)

    @property
    def usages(self) -> NDArray[np.int64]:
        """The usage of each slot now; a view, not to be changed or kept."""
        return self._usage

    def bits(self) -> Bits:
        """The description length now, with both parts."""
        return description_length(self._usage.tolist(), self._standard.tolist())

    def result(self) -> SearchResult:
        """The table as it stands."""
        table, usage = self._table, self._usage
        itemsets = [Entry(table.itemsets[s], int(usage[s]), table.entries[s]) for s in table]
        singletons = [Entry((i,), int(usage[i]), 0) for i in range(table.n_items) if usage[i]]
        used = [e for e in itemsets if e.usage]
        return SearchResult((*used, *singletons), self.bits(), self.bits_standard, self.tally, self.converged)

    # -- the search ---------------------------------------------------------------------------------------------

    def run(self) -> Generator[Question, Any, SearchResult]:
        """Search until no candidate improves the description length."""
        supports = yield Supports()
        self._start(np.asarray(supports, np.int64))
        for number, charge in enumerate(self.policy.charges):
            if number > 0:
                self.ranking.recharge(charge)
            while (yield from self._step()):
                pass
            while self.policy.sweep and (yield from self._prune(set(self._table))):
                self.ranking.forget_rejected()
                while (yield from self._step()):
                    pass
        self.converged = True
        return self.result()

    def _start(self, supports: NDArray[np.int64]) -> None:
        n_items = self._table.n_items
        self._item_lengths = standard_lengths(supports.tolist())
        self._usage[:n_items] = supports
        self._standard[:n_items] = self._item_lengths
        self._total = int(supports.sum())
        self._in_use = int(np.count_nonzero(supports))
        self._log2 = log2_table(int(supports.max(initial=0)))
        self.bits_standard = self.bits()
        self.bits_now = self.bits_standard.total
        self.ranking = CandidateRanking(
            self._table,
            self._usage,
            self._standard,
            self._log2,
            charge=self.policy.charges[0],
            largest=self.policy.max_itemset_size,
        )

    def _step(self) -> Generator[Question, Any, bool]:
        """Accept the first candidate that compresses better (or the best of a few); False if there is none."""
        if self._eager and self._luck < FAIR_LUCK and self._entry_is_known:
            return (yield from self._first_of_several())
        found: list[Trial] = []
        tried = 0
        while tried < self.policy.look_ahead or not found:
            candidate = yield from self._next_candidate()
            if candidate is None:
                break
            tried += 1
            trial = yield from self._try(candidate)
            self._learn_luck(accepted=trial is not None and trial.bits < 0)
            if trial is not None and trial.bits < 0:
                found.append(trial)
                if self.policy.look_ahead == 1:
                    break
            self.ranking.reject(candidate)
        if not found:
            return False
        if self.policy.look_ahead > 1:
            for trial in found:
                self.ranking.forgive(trial.candidate)  # they were put aside only to see what comes after them
        yield from self._accept(min(found, key=lambda trial: trial.bits))
        return True

    def _first_of_several(self) -> Generator[Question, Any, bool]:
        """The same where most candidates fail: ask about several at once, those that come next if the others fail."""
        while True:
            several: list[Aside] = []
            while len(several) < MOST_AT_ONCE and (candidate := (yield from self._next_candidate())) is not None:
                several.append(self.ranking.put_aside(candidate))
            if not several:
                return False
            candidates = [aside.candidate for aside in several]
            moves = [Insert(self._table.next_slot(), self._union(c), c.together) for c in candidates]
            self._reserve(moves[0].slot)
            answers = yield Together(tuple(TryInsert(move.slot, move.itemset, move.entry) for move in moves))
            for k, (candidate, move, change) in enumerate(zip(candidates, moves, answers, strict=True)):
                self.tally.candidates += 1
                self.best_gain = candidate.gain
                self._standard[move.slot] = standard_length(move.itemset, self._item_lengths)
                bits = self._bits_changed(change)
                self._learn_luck(accepted=bits < 0)
                if bits < 0:
                    for aside in reversed(several[k:]):
                        self.ranking.take_back(aside)
                    yield from self._accept(Trial(candidate, move, change, bits))
                    return True

    def _learn_luck(self, *, accepted: bool) -> None:
        self._luck += (accepted - self._luck) / 16

    @property
    def _entry_is_known(self) -> bool:
        """Whether a candidate can be tried without asking for its support first."""
        return self.policy.order == "usage" and self.policy.min_support == 1

    def _union(self, candidate: Candidate) -> Itemset:
        return tuple(sorted(self._table.items_of(candidate.x) + self._table.items_of(candidate.y)))

    def _next_candidate(self) -> Generator[Question, Any, Candidate | None]:
        while isinstance(best := self.ranking.best(), UnknownRows):
            self.tally.rows += len(best.slots)
            self.ranking.learn(best.slots, (yield CoUsages(best.slots)))
        return best

    def _try(self, candidate: Candidate) -> Generator[Question, Any, Trial | None]:
        """The change in bits if the candidate entered; None if its support is too small."""
        self.tally.candidates += 1
        self.best_gain = candidate.gain
        itemset = self._union(candidate)
        entry = candidate.together
        if not self._entry_is_known:
            support = yield Support(itemset)
            if support < self.policy.min_support:
                return None
            if self.policy.order == "support":
                entry = support
        slot = self._table.next_slot()
        self._reserve(slot)
        self._standard[slot] = standard_length(itemset, self._item_lengths)
        move = Insert(slot, itemset, entry)
        if self._eager:
            return (yield from self._presume(candidate, move))
        change = yield TryInsert(slot, itemset, entry)
        return Trial(candidate, move, change, self._bits_changed(change))

    def _presume(self, candidate: Candidate, move: Insert) -> Generator[Question, Any, Trial]:
        """Have it inserted, and ask what comes next if all goes as estimated: only the two parents are used less."""
        left = {s: int(self._usage[s]) - candidate.together for s in (candidate.x, candidate.y)}
        stay = [s for s, usage in left.items() if usage > 0]
        removals: tuple[int, ...] = ()
        if self.policy.pruning and len(stay) == len(left):
            # A parent that goes would change what the other one's removal does.
            rank = self._table.elements.rank
            removals = tuple(sorted((s for s in stay if s in self._table.itemsets), key=lambda s: (left[s], rank[s])))
        rows = (move.slot, *stay)
        answer = yield Presume(move, removals, rows)
        self.tally.rows += len(rows)
        bits = self._bits_changed(answer.change)
        if bits >= 0:
            yield Remove(move.slot)
        trials = dict(zip(removals, answer.trials, strict=True))
        return Trial(candidate, move, answer.change, bits, True, trials, dict(zip(rows, answer.rows, strict=True)))

    def _accept(self, trial: Trial) -> Generator[Question, Any, None]:
        move, table = trial.move, self._table
        if not trial.inserted:
            yield move
        table.stage(move.slot, move.itemset, move.entry)
        table.place(move.slot)
        self._standard[move.slot] = standard_length(move.itemset, self._item_lengths)
        self.ranking.welcome(move.slot)
        self.tally.accepted += 1
        shrunk = yield from self._apply(trial.change, trial.bits)
        self._tried |= trial.removals
        rows = tuple(s for s in trial.rows if self._usage[s] > 0)
        self.ranking.learn(rows, tuple(trial.rows[s] for s in rows))
        if self.policy.pruning:
            yield from self._prune(shrunk)

    def _prune(self, pending: set[int]) -> Generator[Question, Any, int]:
        """Remove the elements that no longer pay, smallest usage first; returns how many went."""
        gone = 0
        while pending := {s for s in pending if s in self._table.itemsets}:
            rank = self._table.elements.rank
            queue = sorted(pending, key=lambda s: (self._usage[s], rank[s]))[:MOST_TRIALS]
            trials = yield from self._try_removals(tuple(queue))
            # One after the other, as if each had been asked for when its turn came: until one goes, nothing changes.
            for slot, trial in zip(queue, trials, strict=True):
                pending.remove(slot)
                bits = self._bits_changed(trial)
                if bits < 0:
                    yield Remove(slot)
                    self._table.drop(slot)
                    gone += 1
                    self.tally.pruned += 1
                    pending |= yield from self._apply(trial, bits)
                    break
        return gone

    def _try_removals(self, slots: tuple[int, ...]) -> Generator[Question, Any, tuple[Change, ...]]:
        """Ask what removals would change, and with them for the rows that the next candidate needs.

        Most removals are not carried out, and then the rows hold: a round is spared.
        """
        if unknown := tuple(s for s in slots if s not in self._tried):
            trials = TryRemovals(unknown)
            if rows := self.ranking.missing():
                self.tally.rows += len(rows)
                answer, counts = yield Together((trials, CoUsages(rows)))
                self.ranking.learn(rows, counts)
            else:
                answer = yield trials
            self._tried |= dict(zip(unknown, answer, strict=True))
        return tuple(self._tried[s] for s in slots)

    def _apply(self, change: Change, bits: float) -> Generator[Question, Any, set[int]]:
        """Take in what changed; returns the itemsets, no singletons, that are used less than before."""
        net = change.won - change.lost
        self._tried = {}
        self.bits_now += bits
        used_before = int(np.count_nonzero(self._usage[change.slots]))
        self._usage[change.slots] += net
        self._total += int(net.sum())
        self._in_use += int(np.count_nonzero(self._usage[change.slots])) - used_before
        self.ranking.changed(change.slots, self._total, self._in_use)
        shrunk = {s for s in change.slots[net < 0].tolist() if s in self._table.itemsets}
        for slot in sorted(s for s in shrunk if self._usage[s] == 0):
            # An itemset without usage is in no cover: it can go, and nothing else changes.
            yield Remove(slot)
            self._table.drop(slot)
            shrunk.remove(slot)
        return shrunk

    def most_uses(self, itemset: Itemset, entry: int) -> int:
        """The itemset cannot be used more often than this if it enters: a bound that is proven, not estimated.

        Where it is used, each of its items is covered by an element that comes after it, in the table without it. Any
        item gives such a bound; the rarest ones are likely to give the best.
        """
        slots, usage = self._table.slots_behind(itemset, entry), self._usage
        rarest = sorted(itemset, key=self._item_lengths.__getitem__, reverse=True)[:2]
        return min(int(usage[i]) + int(usage[self._table.having(i, slots)].sum()) for i in rarest)

    def _bits_changed(self, change: Change) -> float:
        """The change of L(D, CT) in bits."""
        slots = change.slots
        return bits_changed(
            self._usage[slots], change.won - change.lost, self._standard[slots], self._total, self._in_use, self._log2
        )

    def _reserve(self, slot: int) -> None:
        if slot >= len(self._usage):
            self._usage = lengthened(self._usage, 2 * slot)
            self._standard = lengthened(self._standard, 2 * slot)
            self.ranking.adopt(self._usage, self._standard)
