"""A ranking that knows bounds of all co-usages, so that only the counts that can matter are asked for.

    ranking.plan(slot)             # which pairs of the element's row to ask for
    ranking.put_counts(slot, …)    # their counts
    ranking.learn((slot,), (None,))

In a federation every count costs bytes, and every question a round. In one place counting is cheaper than bookkeeping.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedslim.errors import RunError
from fedslim.mdl.kernels import bounds, foreseeing
from fedslim.mdl.kernels.arrays import KeptArrays, lengthen
from fedslim.mdl.kernels.bounds import PairStore
from fedslim.mdl.kernels.ranking import TableFacts, Totals
from fedslim.mdl.objective import log2
from fedslim.mdl.questions import Change, Insert, SlotCounts
from fedslim.mdl.ranking import Candidate, CandidateRanking, UnknownRows

ALSO = 0.5
"""If rows must be asked for, then also those that may have candidates of half the gain: they would be next."""

FIRST_PLACES = 1 << 4
"""Room for so many pairs at first: so little that it grows, and that is compiled, with any data."""


FIRST_FORESEEN = -3
"""The version of the first table that is foreseen; the next ones are below it."""

PURE = 3
"""A pure change touches a new element and its two parents."""


class Fetched(NamedTuple):
    """Counts of pairs of an element, asked for in case that new elements stay.

    A count above its `room` spoils the others in the same word.
    """

    slot: int
    others: NDArray[np.int32]
    counts: NDArray[np.int64]
    room: NDArray[np.int64]
    word: NDArray[np.int64]


class RowPlan(NamedTuple):
    """Pairs of a row, their counts or the bounds of these, and the largest bound and gain of pairs left out."""

    others: NDArray[np.int32]
    counts: NDArray[np.int64]
    kinds: NDArray[np.uint8]
    most: int
    dropped: float


def _touched_by(changes: Iterable[tuple[int, Change]], limit: int) -> set[int]:
    """Return the elements of the table that are touched, without those that enter or leave."""
    return {slot for pivot, change in changes for slot in change.slots.tolist() if slot < limit and slot != pivot}


class BoundedRanking(CandidateRanking):
    """See `CandidateRanking`; rows are put together from what is known about pairs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        capacity = self._table.capacity
        self._foreseen = FIRST_FORESEEN + 1
        self._store = PairStore(
            np.empty((FIRST_PLACES, 4), np.int32),
            np.empty((FIRST_PLACES, int(bounds.CHUNK)), np.int32),
            np.zeros(2, np.int64),
            np.full(capacity + 1, bounds.NONE),
            np.arange(capacity + 1, dtype=np.int32),
            np.empty((2, capacity), np.int32),
            np.zeros(capacity, np.int64),
            np.zeros(capacity, np.int64),
            np.zeros(capacity, np.uint8),
            self._masks(),
        )
        self._scratch = (np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.uint8))
        self._marked_store = KeptArrays()
        self._newborn: tuple[int, Candidate] | None = None
        self._pure: dict[int, tuple[int, set[int]]] = {}  # what entered in a pure change: when, what was touched since

    # -- what changes -------------------------------------------------------------------------------------------

    def welcome(self, slot: int, candidate: Candidate | None = None) -> None:
        """See `CandidateRanking`."""
        super().welcome(slot, candidate)
        if self._births >= len(self._store.first):
            first, slots = (lengthen(some, 2 * self._births) for some in (self._store.first, self._store.slot))
            self._store = self._store._replace(first=first, slot=slots)
        self._store.first[self._births], self._store.slot[self._births] = bounds.NONE, slot
        self._store.slack[slot] = self._store.dirty[slot] = self._store.complete[slot] = 0
        self._newborn = None if candidate is None else (slot, candidate)

    def welcome_back(self, slot: int, birth: int) -> None:
        """See `CandidateRanking`."""
        super().welcome_back(slot, birth)
        # If its pairs have been forgotten, nothing follows from a pair that is not stored, whatever the other element.
        self._store.complete[slice(None) if self._store.first[birth] == bounds.FORGOTTEN else slot] = 0

    def change(self, change: Change, pivot: int | None) -> None:
        """See `CandidateRanking`."""
        version = self._version + 1
        born, self._newborn = self._newborn, None
        touched = set(change.slots.tolist())
        self._pure = {z: (entered, since | touched) for z, (entered, since) in self._pure.items() if z not in touched}
        if born is not None:
            z, (x, y, together) = born[0], (born[1].x, born[1].y, born[1].together)
            pure = sorted(change.slots.tolist()) == sorted((x, y, z)) and bool(
                (np.maximum(change.won, change.lost) == together).all()
            )
            self._make_room(self._limit + 1)
            uses = int(change.won[change.slots == z].sum())
            bounds.enter(z, x, y, together, uses, pure, self._limit, version, self._store, self._facts)
            if pure:
                self._pure[z] = (version, set())
                return
        if pivot is None:
            self._store.slack[change.slots] += change.won
            self._store.dirty[change.slots] = version
            return
        at = change.slots == pivot
        self._make_room(len(change.slots) * self._limit)
        pending = np.zeros(self._limit, np.int64)
        uses = int((change.won + change.lost)[at].sum())
        bounds.spread(pivot, uses, change.slots, change.won, pending, self._limit, self._store, self._facts)

    # -- what to ask for ----------------------------------------------------------------------------------------

    def best(self) -> tuple[Candidate, ...] | UnknownRows:
        """See `CandidateRanking`; rows are unknown only if something must be asked for that matters."""
        while isinstance(found := super().best(), UnknownRows):
            if lacking := {s for s in found.slots if not self._put_together(s, found.above)}:
                low = found.above * ALSO
                unknown = [s for s in self._unknown(low) if s in lacking or not self._put_together(s, low)]
                return UnknownRows(tuple(unknown), low, self._best_known()[0])
        return found

    def _put_together(self, slot: int, above: float) -> bool:
        """Store a row made of what is known about its pairs; return False if it lacks one that matters."""
        if not self.is_complete(slot):
            return False
        plan = self._plan(slot, above, known_only=True)
        if plan is not None:
            self._learn((slot,), (SlotCounts(plan.others, plan.counts),), plan.most, plan.dropped)
        return plan is not None

    def is_complete(self, slot: int) -> bool:
        """Return whether the bounds of an element's pairs are of any use."""
        return bool(self._store.complete[slot])

    def plan(self, slot: int) -> SlotCounts:
        """Return the pairs of an element's row that may be candidates, with the bounds of their counts."""
        plan = self._plan(slot, 0.0)
        assert plan is not None  # noqa: S101  # that is so only with `known_only`
        asked = plan.kinds == bounds.ASKED
        return SlotCounts(plan.others[asked], plan.counts[asked])

    def _plan(self, slot: int, above: float, *, known_only: bool = False) -> RowPlan | None:
        """Return what is known about the pairs of a row; with `known_only` None if something must be asked for.

        The arrays are valid until the next call.
        """
        if len(self._scratch[0]) < self._table.capacity:
            size = 2 * self._table.capacity
            self._scratch = (np.empty(size, np.int32), np.empty(size, np.int64), np.empty(size, np.uint8))
        others, counts, kinds = room = self._scratch
        n, most, dropped = bounds.plan_row(
            slot, self._limit, above, known_only, *room, self._store, self._rows, self._facts, self._now
        )
        return None if n < 0 else RowPlan(others[:n], counts[:n], kinds[:n], most, dropped)

    def foresee(
        self,
        moves: Sequence[Insert],
        changes: Sequence[Change],
        also: Iterable[int] = (),
        leaving: Sequence[tuple[int, Change]] = (),
    ) -> dict[int, SlotCounts]:
        """Return the pairs of new elements and of their parents that are worth asking for, and their bounds.

        It is presumed that what enters changes what is expected, and nothing else; so are pairs of other elements that
        it touches, and of some `also`. If elements are `leaving` then, only pairs that change by that are returned.
        """
        limit, entering = self._limit, [(move.slot, change) for move, change in zip(moves, changes, strict=True)]
        then, now = self._after([change for _, change in (*entering, *leaving)])
        then.usage[[slot for slot, _ in leaving]] = 0  # whatever is expected of those that leave later
        expected = self._expected(entering, leaving)
        new = np.array([move.slot for move in moves], np.int64)
        parents = np.array([parent for move in moves for parent in move.parents], np.int64)
        size = self._table.capacity + len(moves)
        others, counts = np.empty(size, np.int32), np.empty(size, np.int64)
        known = (others, counts, self._store, self._facts, then, now)
        found: dict[int, SlotCounts] = {}

        def note(slot: int, n: int) -> None:
            order = np.argsort(others[:n], kind="stable")
            found[slot] = SlotCounts(others[:n][order], counts[:n][order])

        if self._foreseen == FIRST_FORESEEN:  # so that it is compiled with any data
            foreseeing.foresee_touched(0, np.zeros(limit, np.uint8), limit, 0.0, *known, expected)
        for k, slot in enumerate(new.tolist()):
            note(slot, foreseeing.foresee(new, parents, k, limit, 0.0, *known, expected))
        if leaving:
            found.clear()
            touched = _touched_by(leaving, limit)
        else:
            together = [self.known(x, np.array([y], np.int32))[0][0] for x, y in (move.parents for move in moves)]
            pure = expected.uses == together
            impure = [one for k, one in enumerate(entering) if len(one[1].slots) > PURE or not pure[k]]
            touched = {*also, *_touched_by(impure, limit)}
        turn = np.zeros(limit, np.uint8)
        turn[list(touched)] = turn[parents] = 2
        for x, y in [] if leaving else [pair for one in moves for pair in (one.parents, one.parents[::-1])]:
            if x not in touched:
                note(x, foreseeing.foresee_parent(x, y, turn, limit, 0.0, *known))
                turn[x] = 1
        turn[[slot for slot in parents.tolist() if slot not in touched]] = 1
        for slot in sorted(touched):
            if min(then.usage[slot], self._facts.usage[slot]) > 0:  # it may have left since that was found
                note(slot, foreseeing.foresee_touched(slot, turn, limit, 0.0, *known, expected))
            turn[slot] = 1
        return found

    def _after(self, changes: Sequence[Change]) -> tuple[TableFacts, Totals]:
        """Return the table after these changes."""
        usage = self._facts.usage.copy()
        for change in changes:
            usage[change.slots] += change.won - change.lost
        total, in_use = int(usage.sum()), int(np.count_nonzero(usage))
        log_total = log2(total)
        self._foreseen -= 1  # not the version of any table: the logarithms that are kept are of other totals
        now = self._now._replace(
            version=self._foreseen,
            total=total,
            in_use=in_use,
            total_log=total * log_total,
            codes_log=in_use * log_total,
        )
        return self._facts._replace(usage=usage), now

    def _expected(
        self, entering: Sequence[tuple[int, Change]], leaving: Sequence[tuple[int, Change]]
    ) -> foreseeing.Expected:
        """Return what elements change by entering and leaving; how far those reach that enter is not known yet."""
        limit, shape = self._limit, (len(entering) + len(leaving), self._limit)
        expected = foreseeing.Expected(np.zeros(shape[0], np.int64), np.full(shape, -1), np.zeros(shape, np.int64))
        for k, (pivot, (slots, lost, won)) in enumerate((*entering, *leaving)):
            expected.uses[k] = (lost + won)[slots == pivot].sum()
            expected.won[k, slots[slots < limit]] = won[slots < limit]
            if k >= len(entering):
                expected.reach[k] = self.known(pivot, np.arange(limit, dtype=np.int32))[0]
        return expected

    # -- what is known ------------------------------------------------------------------------------------------

    def put_counts(self, slot: int, others: NDArray[np.int32], counts: NDArray[np.int64]) -> None:
        """Store the counts of some pairs of an element."""
        self._make_room(len(others))
        bounds.put_counts(slot, others, counts, self._limit, self._version, self._store, self._facts)

    def known(self, slot: int, others: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return bounds of the co-usages of an element with others, and which of them are the counts themselves."""
        counts, kinds = np.empty(len(others), np.int64), np.empty(len(others), np.uint8)
        bounds.bounds_of(slot, others, counts, kinds, self._limit, self._store, self._facts)
        return counts, kinds == bounds.EXACT

    def counts_of(self, slot: int, slots: int) -> NDArray[np.int64]:
        """Return the co-usages of an element with each slot that are known, and 0 for the others."""
        counts = np.zeros(slots, np.int64)
        bounds.exact_of(slot, counts, self._limit, self._store, self._facts)
        counts[slot] = self._facts.usage[slot]
        return counts

    def never_with(self, slot: int, others: list[int]) -> list[int]:
        """See `CandidateRanking`."""
        most, _ = self.known(slot, np.array(others, np.int32))
        return [other for other, bound in zip(others, most.tolist(), strict=True) if bound == 0]

    def settle(self, moves: Sequence[Insert], fetched: Sequence[Fetched]) -> None:
        """Store the counts that were asked for in case that new elements stay, which they have.

        Those that may not have fit are dropped. Raise `RunError` if one that did fit is impossible.
        """
        parents = {move.slot: move.parents for move in moves}
        bounded = [(one, self.known(one.slot, one.others)[0]) for one in fetched]
        spoilt = [word for one, most in bounded for word in one.word[most > one.room].tolist()]
        good = []
        for one, most in bounded:
            sound = ~np.isin(one.word, spoilt)
            if (one.counts > most)[sound].any():
                raise RunError("a count is above its proven bound: a member does not count as the protocol says")
            keep = sound & (self._facts.usage[one.others] > 0)
            good.append((one.slot, one.others[keep], one.counts[keep]))
            self.put_counts(*good[-1])
        for slot, others, counts in good:
            if slot not in self._pure or slot not in parents:
                continue  # it is a parent, or its own covers have changed: what its parents lost is not known
            entered, since = self._pure[slot]
            same = ~np.isin(others, list(since))
            for parent in parents[slot]:
                derived = (slot, parent, others[same], counts[same], entered, self._limit, self._version)
                bounds.derive(*derived, self._store, self._facts)
        self._pure = {}

    def learn(self, slots: tuple[int, ...], answers: tuple[SlotCounts | None, ...]) -> None:
        """See `CandidateRanking`; None stands for a row whose counts have been stored."""
        for slot, row in zip(slots, answers, strict=True):
            if row is not None:
                self.put_row(slot, row)
        for slot in slots:
            plan = self._plan(slot, np.inf)
            assert plan is not None  # noqa: S101
            exact, most, dropped = plan.kinds == bounds.EXACT, plan.most, plan.dropped
            if not exact.all():
                most, dropped = max(most, int(plan.counts[~exact].max())), np.inf
            self._learn((slot,), (SlotCounts(plan.others[exact], plan.counts[exact]),), most, dropped)

    def put_row(self, slot: int, row: SlotCounts) -> None:
        """Store the counts of all pairs of an element."""
        counts = np.zeros(self._limit, np.int64)
        counts[row.slots] = row.counts
        self._make_room(self._limit)
        bounds.put_row(slot, counts, self._limit, self._version, self._store, self._facts)

    # -- memory -------------------------------------------------------------------------------------------------

    def _make_room(self, pairs: int) -> None:
        """Make room for this many more pairs, and drop those of dead elements."""
        store, chunks = self._store, pairs + pairs // int(bounds.IN_CHUNK) + 2
        if store.used[0] + pairs <= len(store.cells) and store.used[1] + chunks <= len(store.chunks):
            return
        alive = np.zeros(self._births + 1, np.uint8)
        rank = self._table.elements.rank[: self._limit]
        alive[self._facts.birth[: self._limit][(self._facts.usage[: self._limit] > 0) | (rank >= 0)]] = 1
        bounds.compact(alive, store)
        for some, needed in ((store.cells, int(store.used[0]) + pairs), (store.chunks, int(store.used[1]) + chunks)):
            if 8 * needed > 7 * len(some):
                some.resize((needed + needed // 4, some.shape[1]), refcheck=False)  # in place: there may be many

    def mark(self) -> None:
        """See `CandidateRanking`."""
        super().mark()
        self._marked_store.keep(self._known_pairs(*self._store.used.tolist()))

    def go_back(self) -> None:
        """See `CandidateRanking`."""
        super().go_back()
        self._marked_store.put_back(self._known_pairs(len(self._store.cells), len(self._store.chunks)))
        self._newborn, self._pure = None, {}

    def _known_pairs(self, cells: int, chunks: int) -> list[NDArray[Any]]:
        s = self._store
        return [s.cells[:cells], s.chunks[:chunks], s.used, s.first, s.slot, s.slack, s.dirty, s.complete]

    def _grow(self) -> None:
        super()._grow()
        capacity = self._table.capacity
        if capacity > len(self._store.slack):
            self._store = self._store._replace(
                at=np.empty((2, capacity), np.int32),
                slack=lengthen(self._store.slack, capacity),
                dirty=lengthen(self._store.dirty, capacity),
                complete=lengthen(self._store.complete, capacity),
            )
        self._store = self._store._replace(mask=self._masks())

    def _masks(self) -> NDArray[np.uint64]:
        """Return the items of each element as bits; nothing if several items share a bit."""
        elements = self._table.elements
        return elements.mask if elements.exact else elements.mask[:0]
