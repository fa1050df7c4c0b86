"""SLIM's search, written once: a generator that asks questions and receives counts.

    search = SlimSearch(n_items, Policy())
    for the driver: question = next(run); question = run.send(answer) … until StopIteration

It does not know where the counts come from. Its state is a valid code table whenever it waits for an answer, so a run
may stop at any question, and `result()` is then the best table so far.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedslim.mdl.arrays import lengthen
from fedslim.mdl.objective import (
    Bits,
    bits_after,
    description_length,
    log2_table,
    standard_length,
    standard_lengths,
)
from fedslim.mdl.questions import (
    MOVES,
    Change,
    CoUsages,
    Drop,
    Insert,
    Presume,
    Remove,
    Restore,
    Support,
    Supports,
    Together,
    TryInsert,
    TryRemovals,
)
from fedslim.mdl.ranking import Aside, Candidate, CandidateRanking, UnknownRows
from fedslim.mdl.steps import Moved, SearchResult, Step, TableEntry, Tally, Trial
from fedslim.mdl.table import WorkingTable

if TYPE_CHECKING:
    from collections.abc import Generator

    from numpy.typing import NDArray

    from fedslim.mdl.itemsets import Itemset
    from fedslim.mdl.policy import Policy
    from fedslim.mdl.questions import Question

FAIR_LUCK = 0.7
"""An eager search inserts candidates at once while at least this fraction of them is accepted."""

MAX_AT_ONCE = 3
"""Candidates that an eager search tries at once while most of them fail."""

MAX_TRIALS = 8
"""Removals tried in one question: after one that succeeds, the others have to be tried again."""


class SlimSearch:
    """One run of the search.

    An *eager* search inserts each candidate at once, and asks at the same time what it will ask next if the candidate
    is accepted, as most are; one that is not accepted is removed again. While most are not accepted, it tries several
    at once. It finds the same result with half as many questions and somewhat more work, which pays where a question
    is a round.
    """

    MUST_ANSWER: ClassVar[tuple[type, ...]] = (Supports, *MOVES)

    def __init__(self, n_items: int, policy: Policy, *, eager: bool = False) -> None:
        self.policy = policy
        self._eager = eager and policy.look_ahead == 1
        self._luck = 1.0  # the fraction of recent candidates that were accepted
        self.tally = Tally()
        self.converged = False
        self.bits_now = 0.0
        self.bits_standard = Bits(0.0, 0.0)
        self.best_gain = math.inf  # the estimated gain of the last candidate tried
        self._table = WorkingTable(n_items)
        self._usage: NDArray[np.int64] = np.zeros(self._table.capacity, np.int64)
        self._standard: NDArray[np.float64] = np.zeros(self._table.capacity)
        self._item_lengths: list[float] = []
        self._log2: NDArray[np.float64] = np.zeros(1)
        self._total = 0
        self._in_use = 0
        self._tried: dict[int, Change] = {}  # trial removals that are still valid
        self._open: Step | None = None  # the current step, if it may have to be undone

    # -- state --------------------------------------------------------------------------------------------------

    @property
    def itemsets(self) -> int:
        """The current number of itemsets in the table, without singletons."""
        return len(self._table)

    @property
    def usages(self) -> NDArray[np.int64]:
        """The current usage of each slot; a view, do not change or keep it."""
        return self._usage

    def found(self) -> list[tuple[int, TableEntry]]:
        """Return the itemsets of the table in cover order, with their slots."""
        table, usage = self._table, self._usage
        return [(s, TableEntry(table.itemsets[s], int(usage[s]), table.entries[s])) for s in table]

    def bits(self) -> Bits:
        """Return the current description length, with both parts."""
        return description_length(self._usage.tolist(), self._standard.tolist())

    def result(self) -> SearchResult:
        """Return the current table, without the changes of an unfinished step."""
        table, usage = self._table, self._usage
        itemsets = [entry for _, entry in self.found()]
        if self._open is not None and self._open.moves:
            itemsets, usage = self._open.undo(table, usage)
        singletons = [TableEntry((i,), int(usage[i]), 0) for i in range(table.n_items) if usage[i]]
        used = [e for e in itemsets if e.usage]
        bits = description_length(usage.tolist(), self._standard.tolist())
        return SearchResult((*used, *singletons), bits, self.bits_standard, self.tally, self.converged)

    # -- the search ---------------------------------------------------------------------------------------------

    def run(self) -> Generator[Question, Any, SearchResult]:
        """Search until no candidate improves the description length."""
        supports = np.array((yield Supports()), np.int64)
        rare = np.flatnonzero((supports > 0) & (supports < self.policy.min_count))
        if len(rare):
            yield Drop(tuple(rare.tolist()))
            supports[rare] = 0
        self._start(supports)
        for number, charge in enumerate(self.policy.charges):
            if number > 0:
                self.ranking.recharge(charge)
            while (yield from self._step()):
                pass
            while self.policy.sweep and (yield from self._sweep()):
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
            least=self.policy.min_count,
        )

    def _step(self) -> Generator[Question, Any, bool]:
        """Accept the first candidate that compresses better (or the best of a few); return False if there is none."""
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
            good = trial is not None and self._pays(trial)
            self._learn_luck(accepted=good)
            if trial is not None and good:
                found.append(trial)
                if self.policy.look_ahead == 1:
                    break
            self.ranking.reject(candidate)
        if not found:
            return False
        if self.policy.look_ahead > 1:
            for trial in found:
                self.ranking.forgive(trial.candidate)  # rejected only to see which candidates come next
        yield from self._accept(min(found, key=lambda trial: trial.bits))
        return True  # even if it did not stay: it is rejected then, and others may be accepted

    def _pays(self, trial: Trial) -> bool:
        """Return whether a candidate compresses better, and is used often enough to be published."""
        return trial.bits < 0 and self._new_usage(trial.move.slot, trial.change) >= self.policy.min_count

    @staticmethod
    def _new_usage(slot: int, change: Change) -> int:
        return int(change.won[change.slots == slot].sum())

    def _first_of_several(self) -> Generator[Question, Any, bool]:
        """Do a step while most candidates fail: try several at once, each in case those before it fail."""
        while True:
            several: list[Aside] = []
            while len(several) < MAX_AT_ONCE and (candidate := (yield from self._next_candidate())) is not None:
                several.append(self.ranking.put_aside(candidate))
            if not several:
                return False
            candidates = [aside.candidate for aside in several]
            moves = [Insert(self._table.next_slot(), self._union(c), c.together, (c.x, c.y)) for c in candidates]
            self._reserve(moves[0].slot)
            answers = yield Together(
                tuple(TryInsert(move.slot, move.itemset, move.entry, move.parents) for move in moves)
            )
            for k, (candidate, move, change) in enumerate(zip(candidates, moves, answers, strict=True)):
                self.tally.candidates += 1
                self.best_gain = candidate.gain
                self._standard[move.slot] = standard_length(move.itemset, self._item_lengths)
                trial = Trial(candidate, move, change, self._bits_changed(change))
                good = self._pays(trial)
                self._learn_luck(accepted=good)
                if good:
                    for aside in reversed(several[k:]):
                        self.ranking.take_back(aside)
                    yield from self._accept(trial)
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
        """Try a candidate; return None if its support is too small."""
        self.tally.candidates += 1
        self.best_gain = candidate.gain
        itemset = self._union(candidate)
        entry = candidate.together
        if not self._entry_is_known:
            support = yield Support(itemset, (candidate.x, candidate.y))
            if support < self.policy.min_support:
                return None
            if self.policy.order == "support":
                entry = support
        slot = self._table.next_slot()
        self._reserve(slot)
        self._standard[slot] = standard_length(itemset, self._item_lengths)
        move = Insert(slot, itemset, entry, (candidate.x, candidate.y))
        if self._eager:
            return (yield from self._presume(candidate, move))
        change = yield TryInsert(slot, itemset, entry, move.parents)
        return Trial(candidate, move, change, self._bits_changed(change))

    def _presume(self, candidate: Candidate, move: Insert) -> Generator[Question, Any, Trial]:
        """Insert a candidate, and ask what comes next if only its two parents lose usage, as estimated."""
        left = {s: int(self._usage[s]) - candidate.together for s in (candidate.x, candidate.y)}
        stay = [s for s, usage in left.items() if usage > 0]
        removals: tuple[int, ...] = ()
        if self.policy.pruning and len(stay) == len(left):
            # If one parent left, the trial removal of the other would not hold.
            rank = self._table.elements.rank
            removals = tuple(sorted((s for s in stay if s in self._table.itemsets), key=lambda s: (left[s], rank[s])))
        rows = (move.slot, *stay)
        answer = yield Presume(move, removals, rows)
        self.tally.rows += len(rows)
        bits = self._bits_changed(answer.change)
        trials = dict(zip(removals, answer.trials, strict=True))
        found = dict(zip(rows, answer.rows, strict=True))
        trial = Trial(candidate, move, answer.change, bits, True, trials, found)
        if not self._pays(trial):
            yield Remove(move.slot)
        return trial

    def _accept(self, trial: Trial) -> Generator[Question, Any, None]:
        """Insert a candidate, and prune. If forced removals cost more than it saves, undo it."""
        move, table = trial.move, self._table
        if not trial.inserted:
            yield move
        self._begin_step()
        table.stage(move.slot, move.itemset, move.entry)
        table.place(move.slot)
        self._standard[move.slot] = standard_length(move.itemset, self._item_lengths)
        self.ranking.welcome(move.slot)
        self.tally.accepted += 1
        self._note(move, move.itemset, move.entry, trial.change)
        shrunk = yield from self._apply(trial.change, trial.bits)
        self._tried |= trial.removals
        rows = tuple(s for s in trial.rows if self._usage[s] > 0)
        self.ranking.learn(rows, tuple(trial.rows[s] for s in rows))
        yield from self._prune(shrunk)
        if not (yield from self._end_step()):
            self.ranking.reject(trial.candidate)

    def _sweep(self) -> Generator[Question, Any, int]:
        """Try to remove every itemset; return how many were removed."""
        self._begin_step()
        removed = yield from self._prune(set(self._table))
        return removed if (yield from self._end_step()) else 0

    # A step is undone if it does not lower L after all. That happens only if an itemset falls below `min_count` and
    # must be removed at any cost. So L falls with every step that stays, and the search terminates.

    def _begin_step(self) -> None:
        if self.policy.min_count > 1:
            self._open = Step(self.bits_now, self.tally.accepted, self.tally.pruned)

    def _note(self, move: Insert | Remove, itemset: Itemset, entry: int, change: Change | None) -> None:
        if self._open is not None:
            birth = self.ranking.birth_of(move.slot)
            self._open.moves.append(Moved(move, itemset, entry, birth, change))

    def _end_step(self) -> Generator[Question, Any, bool]:
        """End a step; return whether it stays, otherwise undo it."""
        step = self._open
        if step is None or not step.forced or self.bits_now < step.bits:
            self._open = None
            return True
        yield from self.rewind()
        return False

    def rewind(self) -> list[Restore | Remove]:
        """Undo the current step, if any; return the moves with which sources do the same."""
        step, self._open = self._open, None
        if step is None:
            return []
        moves: list[Restore | Remove] = []
        for moved in reversed(step.moves):
            slot = moved.move.slot
            if isinstance(moved.move, Insert):
                moves.append(Remove(slot))
                self._table.drop(slot)
            else:
                moves.append(Restore(slot, moved.itemset, moved.entry))
                self._table.stage(slot, moved.itemset, moved.entry)
                self._table.place(slot)
                self.ranking.welcome_back(slot, moved.birth)
            if moved.change is not None:
                self._take_in(Change(moved.change.slots, moved.change.won, moved.change.lost))
        self.bits_now, self.tally.accepted, self.tally.pruned = step.bits, step.accepted, step.pruned
        return moves

    def _prune(self, pending: set[int]) -> Generator[Question, Any, int]:
        """Remove the itemsets that no longer save bits, smallest usage first; return how many were removed.

        Itemsets used less than `min_count` times are removed in any case, and without pruning only those.
        """
        removed, least = 0, self.policy.min_count
        while pending := {
            s for s in pending if s in self._table.itemsets and (self.policy.pruning or self._usage[s] < least)
        }:
            rank = self._table.elements.rank
            queue = sorted(pending, key=lambda s: (self._usage[s], rank[s]))[:MAX_TRIALS]
            trials = yield from self._try_removals(tuple(queue))
            # In order, as if each had been tried when its turn came: until one is removed, the trials are valid.
            for slot, trial in zip(queue, trials, strict=True):
                pending.remove(slot)
                bits = self._bits_changed(trial)
                forced = bool(self._usage[slot] < least)
                if bits < 0 or forced:
                    yield Remove(slot)
                    self._leave(slot, trial)
                    if self._open is not None:
                        self._open.forced |= forced
                    removed += 1
                    self.tally.pruned += 1
                    pending |= yield from self._apply(trial, bits)
                    break
        return removed

    def _try_removals(self, slots: tuple[int, ...]) -> Generator[Question, Any, tuple[Change, ...]]:
        """Ask what removals would change, together with the rows that the next candidate needs.

        Most removals are not carried out; then the rows are valid, and a round is saved.
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
        """Apply a change; return the itemsets (no singletons) that are used less than before."""
        self.bits_now += bits
        net = self._take_in(change)
        shrunk = {s for s in change.slots[net < 0].tolist() if s in self._table.itemsets}
        for slot in sorted(s for s in shrunk if self._usage[s] == 0):
            # An itemset without usage is in no cover: removing it changes nothing else.
            yield Remove(slot)
            self._leave(slot, None)
            shrunk.remove(slot)
        return shrunk

    def _leave(self, slot: int, change: Change | None) -> None:
        self._note(Remove(slot), self._table.itemsets[slot], self._table.entries[slot], change)
        self._table.drop(slot)

    def _take_in(self, change: Change) -> NDArray[np.int64]:
        """Apply a change to the usages; return the net change of each."""
        net: NDArray[np.int64] = change.won - change.lost
        self._tried = {}
        used_before = int(np.count_nonzero(self._usage[change.slots]))
        self._usage[change.slots] += net
        self._total += int(net.sum())
        self._in_use += int(np.count_nonzero(self._usage[change.slots])) - used_before
        self.ranking.changed(change.slots, self._total, self._in_use)
        return net

    def max_uses(self, itemset: Itemset, entry: int) -> int:
        """Return a proven bound of the usage that the itemset would have if it entered.

        Where it would be used, each of its items is now covered by an element that comes after it. So every item gives
        a bound; the rarest ones are likely to give the best.
        """
        slots, usage = self._table.slots_behind(itemset, entry), self._usage
        rarest = sorted(itemset, key=self._item_lengths.__getitem__, reverse=True)[:2]
        return min(int(usage[i]) + int(usage[self._table.having(i, slots)].sum()) for i in rarest)

    def _bits_changed(self, change: Change) -> float:
        """Return the change of L(D, CT) in bits."""
        slots = change.slots
        return bits_after(
            self._usage[slots], change.won - change.lost, self._standard[slots], self._total, self._in_use, self._log2
        )

    def _reserve(self, slot: int) -> None:
        if slot >= len(self._usage):
            self._usage = lengthen(self._usage, 2 * slot)
            self._standard = lengthen(self._standard, 2 * slot)
            self.ranking.adopt(self._usage, self._standard)
