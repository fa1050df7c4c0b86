"""What trials will most likely find, from what they found before: so that a search can ask ahead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedslim.mdl.bounded_ranking import BoundedRanking
from fedslim.mdl.kernels import changes
from fedslim.mdl.policy import MAX_WIDTH, Policy
from fedslim.mdl.questions import Change, Tried, TryInsertions
from fedslim.mdl.ranking import Candidate, CandidateRanking
from fedslim.mdl.search import SlimSearch, Usages

MAX_FOUND = 1 << 12
"""Most candidates of which it is remembered what they changed."""

NOTHING = Change(np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64))


class Expected(NamedTuple):
    """A removal that will be tried, whether it will most likely be carried out, and what it most likely changes."""

    slot: int
    leaves: bool
    change: Change


class Found(NamedTuple):
    """What a candidate changed, with the joint uses of its parents then, its slot, and those of all of its question."""

    together: int
    slot: int
    new: frozenset[int]
    change: Change


class ExpectingSearch(SlimSearch):
    """Remembers what trials have found, and expects that the next ones of the same elements find the like.

    An expectation that is wrong costs time, never the result.
    """

    RANKING: ClassVar[type[CandidateRanking]] = BoundedRanking
    MAX_TRIALS: ClassVar[int] = 2 * MAX_WIDTH
    ranking: BoundedRanking

    def __init__(self, n_items: int, policy: Policy) -> None:
        super().__init__(n_items, policy)
        self._last: dict[int, Change] = {}  # what the last trial removal of each itemset found
        self._found: dict[tuple[int, int], Found] = {}  # what candidates changed that did not stay
        self.fresh: set[int] = set()  # the itemsets whose removal was tried in this step

    def _note_trials(self, trials: dict[int, Change]) -> None:
        self._tried |= trials
        self._last |= trials
        self.fresh.update(trials)

    def _leave(self, slot: int, change: Change | None) -> None:
        self._last.pop(slot, None)
        super()._leave(slot, change)

    def _remember(self, candidates: tuple[Candidate, ...], question: TryInsertions, answer: Tried) -> None:
        """Note what candidates change: they may not stay now, or be undone, and be tried again."""
        if len(self._found) > MAX_FOUND:
            self._found.clear()
        new = frozenset([move.slot for move in question.moves])
        for candidate, move, change in zip(candidates, question.moves, answer.changes, strict=False):
            self._found[candidate.x, candidate.y] = Found(candidate.together, move.slot, new, change)
        trials = dict(zip(question.removals, answer.trials, strict=False))
        self._last |= trials
        self.fresh.update(trials)

    # -- what is expected -------------------------------------------------------------------------------------------

    def _expect_pruning(self, pending: set[int], usage: NDArray[np.int64], known: dict[int, Change]) -> list[Expected]:
        """Return the removals that pruning will most likely try after it has tried all; none if none will leave."""
        if self.ranking.width == 1 or not self.policy.pruning:
            return []
        now = Usages.of(usage)
        expected = [self._expect_removal(s, now, known) for s in pending if s in self._table.itemsets]
        then = self._expect(tuple([one.slot for one in expected if one.leaves]), usage, known, once=True)
        return then if any(one.leaves for one in then) else []

    def _expect(
        self, queue: tuple[int, ...], usage: NDArray[np.int64], known: dict[int, Change], *, once: bool
    ) -> list[Expected]:
        """Return the removals that will be tried, in order, and which of them will most likely be carried out.

        What is known about the first ones need not be asked. What was found about the others before gives a hint.
        """
        if not queue:
            return []
        usage, rank = usage.copy(), self._table.elements.rank
        pending, expected, now = set(queue), list[Expected](), Usages.of(usage)
        order: list[int] = []  # the pending ones, the last comes next
        while pending and len(expected) < self.MAX_TRIALS:
            order = order or sorted(pending, key=lambda s: (-usage[s], -rank[s]))
            slot = order.pop()
            pending.remove(slot)
            expected.append(one := self._expect_removal(slot, now, known))
            if one.leaves:
                order, known, change = [], {}, one.change
                net = change.won - change.lost
                now = now.after(change)
                shrunk = [s for s in change.slots[net < 0].tolist() if s in self._table.itemsets and s != slot]
                if not once:
                    pending |= {s for s in shrunk if usage[s]}
                unused = sorted([s for s in shrunk if not usage[s]])
                expected += [Expected(s, True, NOTHING) for s in unused]
                pending -= set(unused)
        return expected

    def _expect_removal(self, slot: int, now: Usages, known: Mapping[int, Change]) -> Expected:
        """Return whether a removal will most likely be carried out at these usages, and what it changes."""
        usage = now.usage
        change = known.get(slot)
        if change is None:
            change = _scaled(self._last.get(slot, NOTHING), slot, int(usage[slot]))
            # What has left since that was found, or is expected to leave before, wins nothing any more.
            change = change.among((change.slots < self._table.n_items) | (usage[change.slots] > 0))
        then = usage[change.slots] + (change.won - change.lost)
        possible = len(then) == 0 or (then.min() >= 0 and then.max() < len(self._log2))
        leaves = possible and (self._bits_changed(change, now) < 0 or usage[slot] < self.policy.min_count)
        return Expected(slot, bool(leaves), change)

    def expect_insertions(self, question: TryInsertions) -> tuple[Sequence[Change], NDArray[np.int64]]:
        """Return what insertions will most likely change, and the usages after that."""
        changes, usages = question.expected or (NOTHING,) * len(question.moves), self._usage.copy()
        for keep, change in zip(question.keep, changes, strict=True):
            if keep:
                usages[change.slots] += change.won - change.lost
        return changes, usages

    def expect_removals(
        self, slots: tuple[int, ...], usages: NDArray[np.int64], gone: tuple[bool, ...] = ()
    ) -> list[Change]:
        """Return what removals will most likely change at these usages."""
        changes, usages = [], usages.copy()
        for slot, leaves in zip(slots, gone or (False,) * len(slots), strict=True):
            changes.append(change := _scaled(self._last.get(slot, NOTHING), slot, max(0, int(usages[slot]))))
            if leaves:
                usages[change.slots] += change.won - change.lost
        return changes

    def _expect_insertion(self, candidate: Candidate, slot: int, usage: NDArray[np.int64]) -> Change:
        """Return what a candidate most likely changes: what it did before, or only the joint uses of its parents."""
        uses = candidate.together
        found = self._found.get((candidate.x, candidate.y))
        if found is None:
            return Change(
                np.array([candidate.x, candidate.y, slot], np.int32), np.array([uses, uses, 0]), np.array([0, 0, uses])
            )
        before, at, new, change = found
        there = [s == at or (s not in new and usage[s] > 0) for s in change.slots.tolist()]
        slots, lost, won = change.among(np.array(there, np.bool_))
        slots = np.where(slots == at, slot, slots).astype(np.int32)
        lost, won = lost * uses // before, won * uses // before
        return Change(slots, np.minimum(lost, usage[slots]), np.minimum(won, len(self._log2) - 1 - usage[slots]))


def _scaled(change: Change, pivot: int, uses: int) -> Change:
    """Return what a trial would most likely find if the element that enters or leaves were used so often."""
    lost, won = np.empty((2, len(change.slots)), np.int64)
    changes.scale(*change, pivot, uses, lost, won)
    return Change(change.slots, lost, won)
