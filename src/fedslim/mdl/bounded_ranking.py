"""A ranking that knows bounds of all co-usages, so that only the counts that can matter are asked for.

    ranking.plan((slot,))          # which pairs of the element's row to ask for
    ranking.put_counts(rows)       # their counts
    ranking.learn((slot,), (None,))

In a federation every count costs bytes, and every question a round. In one place counting is cheaper than bookkeeping.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedslim.errors import RunError
from fedslim.mdl.kernels import bounds, foreseeing, pair_store, planning
from fedslim.mdl.kernels.arrays import KeptArrays, lengthen
from fedslim.mdl.kernels.bounds import BoundedRows, Fetched
from fedslim.mdl.kernels.pair_store import PairStore
from fedslim.mdl.kernels.ranking import TableFacts, Totals
from fedslim.mdl.objective import log2
from fedslim.mdl.policy import MAX_WIDTH
from fedslim.mdl.questions import Change, Insert, SlotCounts, flatten
from fedslim.mdl.ranking import Candidate, CandidateRanking, UnknownRows

Pairs = tuple[NDArray[np.int32], NDArray[np.int64]]  # the other elements, and bounds of the counts with them

ALSO = 0.5
"""If rows must be asked for, then also those that may have candidates of half the gain: they would be next."""

MAX_SIDE = 1 << 12
"""Pairs of up to so many slots are kept in a square, of at most 134 MB; those of more in lists."""

FIRST_PLACES = 1 << 4
"""Room in lists for so many pairs at first: so little that it grows, and that is compiled, with any data."""

FEWEST_MORE = 1 << 16
"""Room for so many more pairs at least when it grows, since the pairs of dead elements are searched for first."""

MOST_SLACK = 1 << 30
"""What is stored about a pair is less the slack of two elements, and has 32 bits."""

ROWS_AT_ONCE = 2
"""Room for the pairs of so many rows of any length; most rows are much shorter."""

FIRST_FORESEEN = -3
"""The version of the first table that is foreseen; the next ones are below it."""


def _scratch_for(capacity: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Return the scratch memory of `PairStore` for so many slots."""
    return np.empty((2, capacity), np.int32), np.zeros((2, 2, capacity), np.int32), np.empty((2, capacity), np.int64)


def _square_for(capacity: int) -> tuple[int, NDArray[np.int32], NDArray[np.int32]]:
    """Return the side, the bounds and the stamps of a square for so many slots; none if it would be too large."""
    side = capacity if capacity <= MAX_SIDE else 0
    return side, np.empty(side * side, np.int32), np.full(side * side, pair_store.ABSENT)


def _keep(room: Pairs, ends: NDArray[np.int64], parts: list[Pairs]) -> None:
    """Keep what was collected in scratch memory."""
    n = int(ends[-1]) if len(ends) else 0
    parts.append((room[0][:n].copy(), room[1][:n].copy()))


def _joined(parts: list[Pairs]) -> Pairs:
    if len(parts) == 1:
        return parts[0]
    none = (np.empty(0, np.int32), np.empty(0, np.int64))
    others, counts = (np.concatenate(column) for column in zip(none, *parts, strict=True))
    return others, counts


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
            *_square_for(capacity),
            np.empty((FIRST_PLACES, 4), np.int32),
            np.empty((FIRST_PLACES, int(pair_store.CHUNK)), np.int32),
            np.zeros(2, np.int64),
            np.full(capacity + 1, pair_store.NONE),
            np.arange(capacity + 1, dtype=np.int32),
            *_scratch_for(capacity),
            np.zeros(capacity, np.int64),
            np.zeros(capacity, np.int64),
            np.zeros(capacity, np.uint8),
            self._masks(),
        )
        self._scratch = (np.empty(0, np.int32), np.empty(0, np.int64))
        self._marked_store, self._marked_side = KeptArrays(), False
        self._newborn: tuple[int, Candidate] | None = None
        self._pure: dict[int, int] = {}  # what entered in a pure change, and when
        self._touched = np.zeros(capacity, np.int64)  # by slot: the version in which its covers last changed

    # -- what changes -------------------------------------------------------------------------------------------

    def welcome(self, slot: int, candidate: Candidate | None = None) -> None:
        """See `CandidateRanking`."""
        before = self.birth_of(slot) if slot < self._limit else 0
        super().welcome(slot, candidate)
        if self._births >= len(self._store.first):
            first, slots = (lengthen(some, 2 * self._births) for some in (self._store.first, self._store.slot))
            self._store = self._store._replace(first=first, slot=slots)
        if self._store.side:
            self._store.first[before] = pair_store.FORGOTTEN  # if it returns
            pair_store.clear(slot, self._limit, self._store)
        self._store.first[self._births], self._store.slot[self._births] = pair_store.NONE, slot
        self._store.slack[slot] = self._store.dirty[slot] = self._store.complete[slot] = 0
        self._newborn = None if candidate is None else (slot, candidate)

    def welcome_back(self, slot: int, birth: int) -> None:
        """See `CandidateRanking`."""
        super().welcome_back(slot, birth)
        # If its pairs have been forgotten, nothing follows from a pair that is not stored, whatever the other element.
        self._store.complete[slice(None) if self._store.first[birth] == pair_store.FORGOTTEN else slot] = 0

    def change(self, change: Change, pivot: int | None) -> None:
        """See `CandidateRanking`."""
        version = self._version + 1
        born, self._newborn = self._newborn, None
        self._touched[change.slots] = version
        if self._pure:
            for slot in change.slots.tolist():
                self._pure.pop(slot, None)
        if born is not None:
            z, candidate = born
            self._make_room(self._limit + 1)
            entered = (z, candidate.x, candidate.y, candidate.together, change)
            if bounds.enter(*entered, self._limit, version, self._store, self._facts):
                self._pure[z] = version
                return
        if pivot is None:
            self._store.slack[change.slots] += change.won
            self._store.dirty[change.slots] = version
            if self._store.slack.max() > MOST_SLACK:
                self._take_in_slack()
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
            if lacking := self._add_known(found.slots, found.above, planning.IF_ENOUGH):
                unknown = self._unknown(low := found.above * ALSO)
                lacking |= self._add_known([s for s in unknown if s not in lacking], low, planning.IF_ENOUGH)
                return UnknownRows(tuple([s for s in unknown if s in lacking]), low, self._best_known()[0])
        return found

    def _add_known(self, slots: Sequence[int], above: float, purpose: np.int64) -> set[int]:
        """Store rows made of what is known about their pairs; return those that lack one that matters."""
        some, lacking = np.array(slots, np.int32), np.zeros(len(slots), np.uint8)
        others, counts = room = self._room()
        k = 0
        while k < len(slots):
            planned = (k, self._limit, above, purpose, *room, self._longest_row, self._pool_end, lacking)
            k, self._pool_end, n, most, dropped = planning.add_known_rows(some, *planned, self._store, self._known)
            if k < len(slots):
                self._learn((slots[k],), (SlotCounts(others[:n], counts[:n]),), most, dropped)
                k += 1
        return set(some[lacking == 1].tolist())

    def is_complete(self, slot: int) -> bool:
        """Return whether the bounds of an element's pairs are of any use."""
        return bool(self._store.complete[slot])

    def plan(self, slots: Sequence[int]) -> BoundedRows:
        """Return the pairs of elements' rows that may be candidates."""
        room, rows = self._room(), np.array(slots, np.int64)
        ends, parts, done, before = np.zeros(len(slots), np.int64), list[Pairs](), 0, 0
        known = (self._store, self._rows, self._facts, self._now)
        while done < len(slots):
            n = done + planning.plan_rows(rows[done:], self._limit, *room, ends[done:], *known)
            _keep(room, ends[done:n], parts)
            ends[done:n] += before
            done, before = n, ends[n - 1]
        return BoundedRows(rows, ends, *_joined(parts))

    def _room(self) -> Pairs:
        """Return scratch memory for the pairs of some rows, which is used again by the next call."""
        if len(self._scratch[0]) < self._table.capacity + MAX_WIDTH:
            size = ROWS_AT_ONCE * (self._table.capacity + MAX_WIDTH)
            self._scratch = (np.empty(size, np.int32), np.empty(size, np.int64))
        return self._scratch

    def foresee(
        self,
        moves: Sequence[Insert],
        changes: Sequence[Change],
        also: Iterable[int] = (),
        leaving: Sequence[tuple[int, Change]] = (),
    ) -> BoundedRows:
        """Return the pairs of new elements and of their parents that are worth asking for.

        It is presumed that what enters changes what is expected, and nothing else; so are pairs of other elements that
        it touches, and of some `also`. If elements are `leaving` then, only pairs that change by that are returned.
        """
        limit, entering = self._limit, [(move.slot, change) for move, change in zip(moves, changes, strict=True)]
        pivots, flat = (
            np.array([slot for slot, _ in (*entering, *leaving)], np.int64),
            flatten([*changes, *(c for _, c in leaving)]),
        )
        parents = np.array([parent for move in moves for parent in move.parents], np.int64)
        shape, usage, together = (len(pivots), limit), self._facts.usage.copy(), np.zeros(len(moves), np.int64)
        expected = foreseeing.Expected(np.zeros(shape[0], np.int64), np.full(shape, -1), np.zeros(shape, np.int64))
        foreseeing.expect(pivots, parents, flat, limit, usage, together, self._store, self._facts, expected)
        then, now = self._at(usage)
        usage[pivots[len(moves) :]] = 0  # whatever is expected of those that leave later
        if leaving:
            touched = _touched_by(leaving, limit)
        else:
            pure = expected.uses == together
            impure = [one for k, one in enumerate(entering) if len(one[1].slots) > bounds.PURE or not pure[k]]
            touched = {*also, *_touched_by(impure, limit)}
        kind = foreseeing.UNASKED if leaving else foreseeing.NEW
        steps = [(kind, move.slot, k) for k, move in enumerate(moves)]
        turn = np.zeros(limit, np.uint8)
        turn[list(touched)] = 2
        for move in moves:
            untouched = [pair for pair in (move.parents, move.parents[::-1]) if pair[0] not in touched]
            turn[[slot for slot, _ in untouched]] = 1 if leaving else 2
            steps += [(foreseeing.PARENT, *pair) for pair in untouched if not leaving]
        steps += [(foreseeing.TOUCHED, slot, 0) for slot in sorted(touched)]
        todo, new = np.array(steps, np.int64).reshape(-1, 3), pivots[: len(moves)]
        ends, parts, done, before = np.zeros(len(todo), np.int64), list[Pairs](), 0, 0
        presumed = foreseeing.Presumed(limit, *self._room(), self._store, self._facts, then, now, expected)
        while done < len(todo):
            n = foreseeing.foresee(todo, done, before, new, parents, turn, ends, presumed)
            _keep(self._room(), ends[done:n] - before, parts)
            done, before = n, ends[n - 1]
        return BoundedRows(todo[:, 1].copy(), ends, *_joined(parts))

    def _at(self, usage: NDArray[np.int64]) -> tuple[TableFacts, Totals]:
        """Return the table with these usages."""
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

    # -- what is known ------------------------------------------------------------------------------------------

    def put_counts(self, rows: BoundedRows) -> bool:
        """Store the counts of some pairs; return False if one is above its bound."""
        self._make_room(len(rows.others))
        return bool(bounds.put_checked(rows, self._limit, self._version, self._store, self._facts))

    def known(self, slot: int, others: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return bounds of the co-usages of an element with others, and which of them are the counts themselves."""
        counts, exact = np.empty(len(others), np.int64), np.empty(len(others), np.bool_)
        bounds.bounds_of(slot, others, counts, exact, self._limit, self._store, self._facts)
        return counts, exact

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

    def settle(self, moves: Sequence[Insert], fetched: Any) -> None:
        """Store the counts that were asked for in case that new elements stay, which they have.

        Those that may not have fit are dropped. Raise `RunError` if one that did fit is impossible.
        """
        entered, self._pure = self._pure, {}
        if not isinstance(fetched, Fetched):
            return
        self._make_room(len(fetched.others))
        known = (self._limit, self._version, self._store, self._facts)
        spoilt, kept = np.zeros(fetched.word[-1] + 1, np.uint8), np.zeros(len(fetched.others), np.int64)
        if not bounds.put_sound(fetched, spoilt, kept, *known):
            raise RunError("a count is above its proven bound: a member does not count as the protocol says")
        parents = {move.slot: move.parents for move in moves if move.slot in entered}
        # Of a parent, or an element whose own covers have changed, it is not known what its parents lost.
        for slot, begin, end in zip(
            fetched.slots.tolist(), [0, *fetched.ends.tolist()], fetched.ends.tolist(), strict=False
        ):
            part = slice(begin, end)
            for parent in parents.get(slot, ()):
                told = (fetched.others[part], fetched.counts[part], kept[part], entered[slot], self._touched)
                bounds.derive(slot, parent, *told, *known)

    def warm_up(self) -> None:
        """See `CandidateRanking`."""
        super().warm_up()
        self.known(0, np.zeros(1, np.int32))
        self._enlarge_square(MAX_SIDE + 1)

    def learn(self, slots: tuple[int, ...], answers: tuple[SlotCounts | None, ...]) -> None:
        """See `CandidateRanking`; None stands for a row whose counts have been stored."""
        for slot, row in zip(slots, answers, strict=True):
            if row is not None:
                self.put_row(slot, row)
        self._add_known(slots, np.inf, planning.AS_IT_IS)

    def put_row(self, slot: int, row: SlotCounts) -> None:
        """Store the counts of all pairs of an element."""
        counts = np.zeros(self._limit, np.int64)
        counts[row.slots] = row.counts
        self._make_room(self._limit)
        bounds.put_row(slot, counts, self._limit, self._version, self._store, self._facts)

    # -- memory -------------------------------------------------------------------------------------------------

    def _make_room(self, pairs: int) -> None:
        """Make room for this many more pairs, and drop those of dead elements."""
        store, chunks = self._store, pairs + pairs // int(pair_store.IN_CHUNK) + 2
        if store.side:
            return
        cells_used, chunks_used = store.used.tolist()
        if cells_used + pairs <= len(store.cells) and chunks_used + chunks <= len(store.chunks):
            return
        self._drop_dead()
        for some, needed in ((store.cells, int(store.used[0]) + pairs), (store.chunks, int(store.used[1]) + chunks)):
            if 8 * needed > 7 * len(some):
                size = needed + max(needed // 4, FEWEST_MORE)
                some.resize((size, some.shape[1]), refcheck=False)  # in place: there may be many

    def _drop_dead(self) -> None:
        alive = np.zeros(self._births + 1, np.uint8)
        rank = self._table.elements.rank[: self._limit]
        alive[self._facts.birth[: self._limit][(self._facts.usage[: self._limit] > 0) | (rank >= 0)]] = 1
        pair_store.compact(alive, self._store)

    def _take_in_slack(self) -> None:
        """Store bounds as they are, and begin with no slack; pairs that are not stored then have no bound."""
        store, slack = self._store, self._store.slack
        if store.side:
            most, both = store.most, np.add.outer(slack[: store.side], slack[: store.side]).reshape(-1)
        else:
            self._drop_dead()
            cells = store.cells[: store.used[0]]
            one, other = (store.slot[cells[:, column]] for column in (pair_store.ONE, pair_store.OTHER))
            most, both = cells[:, pair_store.MOST], slack[one] + slack[other]
        most[:] = np.minimum(most + both, np.iinfo(np.int32).max)
        store.slack[:] = store.complete[:] = 0

    def mark(self) -> None:
        """See `CandidateRanking`."""
        super().mark()
        self._marked_side = self._store.side > 0
        self._marked_store.keep(self._known_pairs(*self._store.used.tolist()))

    def go_back(self) -> None:
        """See `CandidateRanking`."""
        super().go_back()
        store = self._store
        if (store.side > 0) == self._marked_side:
            self._marked_store.put_back(self._known_pairs(len(store.cells), len(store.chunks)))
        else:  # The square has become too large since.
            store.first[:] = pair_store.FORGOTTEN
            store.used[:] = store.slack[:] = store.complete[:] = 0
        self._newborn, self._pure = None, {}

    def _known_pairs(self, cells: int, chunks: int) -> list[NDArray[Any]]:
        s, limit = self._store, self._limit
        square = [some.reshape(s.side, s.side)[:limit, :limit] for some in (s.most, s.stamp)]
        return [*square, s.cells[:cells], s.chunks[:chunks], s.used, s.first, s.slot, s.slack, s.dirty, s.complete]

    def _grow(self) -> None:
        super()._grow()
        capacity = self._table.capacity
        if capacity > len(self._store.slack):
            self._touched = lengthen(self._touched, capacity)
            at, seen, found = _scratch_for(capacity)
            self._store = self._store._replace(
                at=at,
                seen=seen,
                bounds=found,
                slack=lengthen(self._store.slack, capacity),
                dirty=lengthen(self._store.dirty, capacity),
                complete=lengthen(self._store.complete, capacity),
            )
            if self._store.side:
                self._enlarge_square(capacity)
        self._store = self._store._replace(mask=self._masks())

    def _enlarge_square(self, capacity: int) -> None:
        """Make room for the pairs of more slots: a larger square, or lists."""
        before, (side, most, stamp) = self._store, _square_for(capacity)
        self._store = before._replace(side=side, most=most, stamp=stamp)
        if side:
            for old, new in ((before.most, most), (before.stamp, stamp)):
                new.reshape(side, side)[: before.side, : before.side] = old.reshape(before.side, before.side)
        else:
            self._make_room(int(np.count_nonzero(before.stamp != pair_store.ABSENT)))
            pair_store.move_to_lists(before, self._limit, self._store, self._facts)

    def _masks(self) -> NDArray[np.uint64]:
        """Return the items of each element as bits; nothing if several items share a bit."""
        elements = self._table.elements
        return elements.mask if elements.exact else elements.mask[:0]
