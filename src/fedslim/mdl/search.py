"""SLIM's search, written once: a generator that asks questions and receives counts.

It does not know where the counts come from. Its state is a valid code table whenever it waits for an answer, so a run
may stop at any question, and `result()` is then the best table so far.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedslim.mdl import questions as q
from fedslim.mdl.itemsets import Itemset
from fedslim.mdl.kernels import changes
from fedslim.mdl.kernels.arrays import lengthen
from fedslim.mdl.kernels.gain import bits_after
from fedslim.mdl.objective import Bits, description_length, log2_table, standard_length, standard_lengths
from fedslim.mdl.questions import Change, Insert, Question, Remove, Restore
from fedslim.mdl.ranking import Candidate, CandidateRanking, UnknownRows
from fedslim.mdl.steps import LATEST, Moved, SearchResult, Snapshot, TableEntry, Tally, Trial, Undoable
from fedslim.mdl.table import WorkingTable

if TYPE_CHECKING:
    from fedslim.mdl.policy import Policy

ITEMS_FOR_EACH = 8
"""A step has at most one candidate for so many items: with fewer, poor ones are soon among the best disjoint ones."""


class Usages(NamedTuple):
    """The usage of each slot, their sum, and how many of them are not 0."""

    usage: NDArray[np.int64]
    total: int
    in_use: int

    @classmethod
    def of(cls, usage: NDArray[np.int64]) -> Usages:
        """Return these usages with their sum."""
        return cls(usage, int(usage.sum()), int(np.count_nonzero(usage)))

    def after(self, change: Change) -> Usages:
        """Let a change happen to these usages, in place, and return them with their new sum."""
        more, born = changes.apply(*change, self.usage)
        return Usages(self.usage, self.total + more, self.in_use + born)


class SlimSearch:
    """One run of the search.

    A step takes the best candidates without common elements (`Policy.width`), tries one after the other, and then
    prunes. A candidate is skipped if an earlier one of the step changed the covers with its parents. The first is never
    skipped: it is accepted, and L falls, or rejected with its counts. So the search terminates.
    """

    RANKING: ClassVar[type[CandidateRanking]] = CandidateRanking

    MAX_TRIALS: ClassVar[int] = 8
    """Removals tried in one question: after one that succeeds, the others have to be tried again."""

    MUST_ANSWER: ClassVar[tuple[type, ...]] = (q.Supports, *q.MOVES)

    def __init__(self, n_items: int, policy: Policy) -> None:
        self.policy = policy
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
        self._touched: set[int] = set()  # slots whose covers changed in this step
        self._shrunk: set[int] = set()  # itemsets that are used less since the step began
        self._later: set[int] = set()  # those that are used less since it was pruned
        self._open: Undoable | None = None  # moves that may have to be undone

    # -- state --------------------------------------------------------------------------------------------------

    @property
    def itemsets(self) -> int:
        """The current number of itemsets in the table, without singletons."""
        return len(self._table)

    def latest(self) -> tuple[tuple[Itemset, int], ...]:
        """Return the itemsets found last, with their usages, the newest first."""
        newest = islice(reversed(self._table.itemsets.items()), LATEST)
        return tuple([(items, int(self._usage[slot])) for slot, items in newest])

    @property
    def usages(self) -> NDArray[np.int64]:
        """The current usage of each slot; a view, do not change or keep it."""
        return self._usage

    def which_are_elements(self, slots: int) -> NDArray[np.bool_]:
        """Return for each of so many slots whether it has an element."""
        alive = np.zeros(slots, np.bool_)
        alive[: self._table.n_items] = alive[self._table.order] = True
        return alive

    def found(self) -> list[tuple[int, TableEntry]]:
        """Return the itemsets of the table in cover order, with their slots."""
        table, usage = self._table, self._usage
        return [(s, TableEntry(table.itemsets[s], int(usage[s]), table.entries[s])) for s in table]

    def bits(self) -> Bits:
        """Return the current description length, with both parts."""
        return description_length(self._usage.tolist(), self._standard.tolist())

    def result(self) -> SearchResult:
        """Return the current table, without the changes of an unfinished step."""
        best = self._best_table()
        bits = description_length(best.usage.tolist(), best.standard.tolist())
        elements = best.elements(self._table.n_items)
        return SearchResult(elements, bits, self.bits_standard, self.tally, self.converged)

    def _best_table(self) -> Snapshot:
        return self._snapshot() if self._open is None else self._open.before

    def _snapshot(self) -> Snapshot:
        table = self._table
        return Snapshot(table.itemsets.copy(), table.entries.copy(), self._usage.copy(), self._standard.copy())

    # -- the search ---------------------------------------------------------------------------------------------

    def run(self) -> Generator[Question, Any, SearchResult]:
        """Search until no candidate improves the description length."""
        yield from self._begin()
        for number, charge in enumerate(self.policy.charges):
            if number > 0:
                self.ranking.recharge(charge)
            while (yield from self._step()):
                pass
            while self.policy.sweep and (yield from self._sweep(set(self._table))):
                self.ranking.forget_rejected()
                while (yield from self._step()):
                    pass
        self.converged = True
        return self.result()

    def _begin(self) -> Generator[Question, Any, None]:
        """Ask for the supports, and start with the single items that are frequent enough."""
        supports = np.array((yield q.Supports()), np.int64)
        rare = np.flatnonzero((supports > 0) & (supports < self.policy.min_count))
        if len(rare):
            yield q.Drop(tuple(rare.tolist()))
            supports[rare] = 0
        self._start(supports)

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
        self.ranking = self.RANKING(
            self._table,
            self._usage,
            self._standard,
            self._log2,
            charge=self.policy.charges[0],
            width=max(1, min(self.policy.width, self._in_use // ITEMS_FOR_EACH)),
            largest=self.policy.max_itemset_size,
            least=self.policy.min_count,
        )

    def _step(self) -> Generator[Question, Any, bool]:
        """Try the best candidates one after the other, then prune; return False if there is no candidate."""
        todo = yield from self._next_candidates()
        self._touched, self._shrunk = set(), set()
        if not todo:
            return (yield from self._sweep_step()) > 0
        while todo := tuple([c for c in todo if not {c.x, c.y} & self._touched]):
            done = yield from self._try(todo)
            todo = todo[done:]
        for slot in self._unused():
            yield q.Remove(slot)
            self._leave(slot, None)
        yield from self._sweep_step()
        return True

    def _sweep_step(self) -> Generator[Question, Any, int]:
        """Try to remove what is used less since the last step; return how many itemsets were removed.

        In a wide step each is tried at most once more after another one was removed, and what is used less since then
        is left for the next step: otherwise each removal would be a question, which is a round in a federation.
        """
        pending, self._later = self._later | self._shrunk, set()
        return (yield from self._sweep(pending, once=self.ranking.width > 1))

    def _next_candidates(self) -> Generator[Question, Any, tuple[Candidate, ...]]:
        while isinstance(best := self.ranking.best(), UnknownRows):
            self.tally.rows += len(best.slots)
            self.ranking.learn(best.slots, (yield q.CoUsages(best.slots)))
        return best

    def _try(self, candidates: tuple[Candidate, ...]) -> Generator[Question, Any, int]:
        """Try the first candidate, or some of the first ones; return how many are done with."""
        candidate = candidates[0]
        entries = yield from self._ask_entries(candidates[:1])
        if not entries:
            self._fail(candidate)
            return 1
        (slot,) = self._table.free_slots(1)
        move = self._move(slot, candidate, entries[0])
        (change,) = (yield q.TryInsertions((move,), (False,))).changes
        trial = Trial(candidate, move, change, self._bits_changed(change))
        if self._pays(trial):
            yield move
            self._enter(trial)
            if rare := self._rare():
                yield from self._remove_rare(rare, candidate)
            self._open = None
        else:
            self._fail(candidate)
        return 1

    def _move(self, slot: int, candidate: Candidate, entry: int) -> Insert:
        """Return the move that inserts a candidate."""
        move = q.Insert(slot, self._union(candidate), entry, (candidate.x, candidate.y))
        self._reserve(slot)
        self._standard[slot] = standard_length(move.itemset, self._item_lengths)
        return move

    def _remove_rare(self, rare: set[int], candidate: Candidate) -> Generator[Question, Any, None]:
        """Remove the itemsets that are used too seldom since a candidate entered; if that costs too much, undo both."""
        yield from self._prune(rare, forced_only=True)
        if not (yield from self._end_step()):
            self.ranking.reject(candidate)

    def _fail(self, candidate: Candidate) -> None:
        self.tally.candidates += 1
        self.best_gain = candidate.gain
        self.ranking.reject(candidate)

    def _pays(self, trial: Trial) -> bool:
        """Return whether a candidate compresses better, and is used often enough to be published."""
        uses = int(trial.change.won[trial.change.slots == trial.move.slot].sum())
        return trial.bits < 0 and uses >= self.policy.min_count

    def _union(self, candidate: Candidate) -> Itemset:
        return tuple(sorted(self._table.items_of(candidate.x) + self._table.items_of(candidate.y)))

    @property
    def _entry_is_known(self) -> bool:
        """Whether a candidate can be tried without asking for its support first."""
        return self.policy.order == "usage" and self.policy.min_support == 1

    def _ask_entries(self, candidates: tuple[Candidate, ...]) -> Generator[Question, Any, tuple[int, ...]]:
        """Return the second criterion of the cover order for each candidate, up to the first that is too rare."""
        if self._entry_is_known:
            return tuple([c.together for c in candidates])
        supports = yield q.Together(tuple([q.Support(self._union(c), (c.x, c.y)) for c in candidates]))
        enough = tuple(takewhile(lambda support: support >= self.policy.min_support, supports))
        return enough if self.policy.order == "support" else tuple([c.together for c in candidates[: len(enough)]])

    def _enter(self, trial: Trial) -> None:
        """Take an itemset into the table, as the sources have done."""
        move, table = trial.move, self._table
        self._begin_step()
        table.stage(move.slot, move.itemset, move.entry)
        table.place(move.slot)
        self.ranking.welcome(move.slot, trial.candidate)
        self.tally.candidates += 1
        self.tally.accepted += 1
        self.best_gain = trial.candidate.gain
        self._note(q.Remove(move.slot), trial.change)
        self._apply(trial.change, trial.bits, move.slot)

    def _unused(self) -> tuple[int, ...]:
        """Return the itemsets that have lost all their uses: they are in no cover, so nothing changes without them."""
        return tuple(sorted([s for s in self._shrunk if s in self._table.itemsets and self._usage[s] == 0]))

    def _rare(self) -> set[int]:
        """Return the itemsets that are used too seldom to stay."""
        return {s for s in self._shrunk if s in self._table.itemsets and 0 < self._usage[s] < self.policy.min_count}

    def _sweep(self, pending: set[int], *, once: bool = False) -> Generator[Question, Any, int]:
        """Try to remove these itemsets; return how many were removed."""
        self._begin_step()
        removed = yield from self._prune(pending, forced_only=not self.policy.pruning, once=once)
        return removed if (yield from self._end_step()) else 0

    # Moves are undone if they do not lower L after all. That happens only if an itemset falls below `min_count` and
    # must be removed at any cost. So L falls with every candidate that stays, and with every sweep.

    def _begin_step(self) -> None:
        if self.policy.min_count > 1:
            figures = (self.bits_now, self.tally.accepted, self.tally.pruned)
            self._open = Undoable(self._snapshot(), *figures, set(self._touched), set(self._shrunk), set(self._later))

    def _note(self, undo: Remove | Restore, change: Change | None) -> None:
        if self._open is not None:
            self._open.moves.append(Moved(undo, self.ranking.birth_of(undo.slot), change))

    def _end_step(self) -> Generator[Question, Any, bool]:
        """End a series of moves; return whether it stays, otherwise undo it."""
        step = self._open
        if step is None or not step.forced or self.bits_now < step.bits:
            self._open = None
            return True
        yield from self.rewind()
        return False

    def rewind(self) -> list[Restore | Remove]:
        """Undo unfinished moves, if any; return the moves with which sources do the same."""
        step, self._open = self._open, None
        if step is None:
            return []
        for moved in reversed(step.moves):
            undo = moved.undo
            if isinstance(undo, q.Remove):
                self._table.drop(undo.slot)
            else:
                self._table.stage(undo.slot, undo.itemset, undo.entry)
                self._table.place(undo.slot)
                self.ranking.welcome_back(undo.slot, moved.birth)
            if moved.change is not None:
                self._take_in(q.Change(moved.change.slots, moved.change.won, moved.change.lost))
        self.bits_now, self.tally.accepted, self.tally.pruned = step.bits, step.accepted, step.pruned
        self._touched, self._shrunk, self._later = step.touched, step.shrunk, step.later
        return [moved.undo for moved in reversed(step.moves)]

    def _prune(self, pending: set[int], *, forced_only: bool, once: bool = False) -> Generator[Question, Any, int]:
        """Remove the itemsets that no longer save bits, smallest usage first; return how many were removed.

        Itemsets used less than `min_count` times are removed in any case; with `forced_only` only those. With `once`
        only those are tried that save no bits at first, and none that is used less since another one was removed.
        """
        removed, least = 0, self.policy.min_count
        if once and not forced_only:
            pending = {s for s in pending if s in self._table.itemsets}
            yield from self._try_all(pending)
            pending = {s for s in pending if self._usage[s] < least or self._bits_changed(self._tried[s]) < 0}
        while pending := {
            s for s in pending if s in self._table.itemsets and (not forced_only or self._usage[s] < least)
        }:
            rank = self._table.elements.rank
            queue = tuple(sorted(pending, key=lambda s: (self._usage[s], rank[s])))
            trials = yield from self._try_removals(queue, once=once)
            # In order, as if each had been tried when its turn came: until one is removed, the trials are valid.
            for slot, trial in zip(queue, trials, strict=False):
                pending.remove(slot)
                bits = self._bits_changed(trial)
                forced = bool(self._usage[slot] < least)
                leaves = bits < 0 or forced
                yield from self._decide(slot, leaves=leaves)
                if leaves:
                    self._leave(slot, trial)
                    if self._open is not None:
                        self._open.forced |= forced
                    removed += 1
                    self.tally.pruned += 1
                    shrunk = self._apply(trial, bits, slot)
                    if once:
                        self._later |= shrunk
                    else:
                        pending |= shrunk
                    # One that had lost all its uses in this step may have won a few back.
                    pending |= self._rare()
                    for unused in self._unused():
                        yield from self._decide(unused, leaves=True)
                        self._leave(unused, None)
                    break
        return removed

    def _come_back(self) -> Generator[Question, Any, None]:
        """Undo what the sources have done ahead: here nothing."""
        yield from ()

    def _try_all(self, slots: set[int]) -> Generator[Question, Any, None]:
        """Ask what each of these removals would change, as far as that is not known."""
        if unknown := tuple(sorted([s for s in slots if s not in self._tried])):
            self._tried |= dict(zip(unknown, (yield q.TryRemovals(unknown)), strict=True))

    def _try_removals(self, queue: tuple[int, ...], *, once: bool) -> Generator[Question, Any, tuple[Change, ...]]:  # noqa: ARG002  # for searches that look ahead
        """Return what the first removals of a queue would change, asking if that is not known."""
        slots = queue[: self.MAX_TRIALS]
        yield from self._try_all(set(slots))
        return tuple([self._tried[s] for s in slots])

    def _decide(self, slot: int, *, leaves: bool) -> Generator[Question, Any, None]:
        """Remove an element, or not."""
        if leaves:
            yield q.Remove(slot)

    def _apply(self, change: Change, bits: float, pivot: int | None = None) -> set[int]:
        """Apply a change; return the itemsets (no singletons) that are used less than before."""
        self.bits_now += bits
        net = self._take_in(change, pivot)
        shrunk = {s for s in change.slots[net < 0].tolist() if s in self._table.itemsets}
        self._touched.update(change.slots.tolist())
        self._shrunk |= shrunk
        return shrunk

    def _leave(self, slot: int, change: Change | None) -> None:
        self._note(q.Restore(slot, self._table.itemsets[slot], self._table.entries[slot]), change)
        self._table.drop(slot)
        self._later.discard(slot)

    def _take_in(self, change: Change, pivot: int | None = None) -> NDArray[np.int64]:
        """Apply a change to the usages; return the net change of each."""
        net: NDArray[np.int64] = change.won - change.lost
        self._tried = self._still_valid(change, pivot)
        self.ranking.change(change, pivot)
        _, self._total, self._in_use = Usages(self._usage, self._total, self._in_use).after(change)
        self.ranking.changed(change.slots, self._total, self._in_use)
        return net

    def _still_valid(self, change: Change, pivot: int | None) -> dict[int, Change]:
        """Return the trials that hold after a change: those about covers that do not change, without the element.

        A removal changes only covers with the element, as would the one that was tried: they must never be together.
        """
        if pivot is None or pivot not in self._tried:
            return {}
        touched = set(change.slots.tolist())
        others = [s for s, trial in self._tried.items() if s not in touched and pivot not in trial.slots]
        return {s: self._tried[s] for s in self.ranking.never_with(pivot, others)}

    def _bits_changed(self, change: Change, at: Usages | None = None) -> float:
        """Return the change of L(D, CT) in bits, from the current usages or from others."""
        usage, total, in_use = at or (self._usage, self._total, self._in_use)
        return bits_after(change, usage, self._standard, total, in_use, self._log2)

    def _reserve(self, slot: int) -> None:
        if slot >= len(self._usage):
            self._usage = lengthen(self._usage, 2 * slot)
            self._standard = lengthen(self._standard, 2 * slot)
            self.ranking.adopt(self._usage, self._standard)
