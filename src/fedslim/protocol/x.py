"""X, the exact variant: the search of `mdl/`, answered by masked sums over all members.

Every member covers with the same table in the same order, so everything that the search needs is a sum over members.
The search cannot tell these sums from the counts of one database, so its result is that of mining in one place.

In a round each member sends one masked vector: the answers to all questions of the round, one after the other. Of the
pair matrix only the entries that can matter are asked for, each in as many bits as its bound has; whole rows are
packed, or sketched where few entries are expected. Changes are always sketched, for a trial changes few elements of
many. See docs/explanation/decisions/x.md and pair-bounds.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedslim.errors import ProtocolError
from fedslim.mdl import questions as q
from fedslim.mdl.bounded_ranking import BoundedRanking, Fetched
from fedslim.mdl.eager_search import EagerSearch
from fedslim.protocol import messages as m
from fedslim.protocol.outcome import Outcome, pack_table
from fedslim.protocol.sums import add_up
from fedslim.protocol.variant import Replies, Round, search_in_rounds
from fedslim.protocol.x_member import XMember
from fedslim.protocol.x_queries import KINDS, Shape, bits_for, entries_of, read, want_entries, words_of
from fedslim.protocol.x_sizes import SUMS_CONTRADICT, Asked, Sizes, enlarge

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from fedslim.protocol.variant import Situation
    from fedslim.protocol.x_queries import FinalCounts

    Usages = NDArray[np.int64]

__all__ = ["XMember", "XServer"]

# -- the server ---------------------------------------------------------------------------------------------------


class XServer:
    """Turns the questions of the search into rounds, and sums into answers."""

    members_know = True

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self.search = EagerSearch(situation.items, situation.policy)
        self._moves: list[m.Move] = []
        self.transactions = 0
        self.supports: list[int] = []
        self._most = 0  # upper bound of all usages
        self._shape = Shape.at_start(situation.settings, situation.items, len(situation.members))
        self._sizes = Sizes()

    def run(self) -> Generator[Round, Replies, Outcome]:
        """See `ServerSide`."""
        ending = yield from search_in_rounds(self.search, self._situation, self._ask)
        for move in self.search.rewind():
            self._make(move)
        table = yield from self._finished()
        return Outcome(table, self.search.tally, ending)

    def _make(self, move: q.Move) -> None:
        """Send a move to the members with the next question."""
        self._moves.append(_move(move))
        if isinstance(move, q.Insert | q.Remove | q.Restore):
            self._reach(move.slot)
            self._sizes.forget_row(move.slot)

    def _reach(self, slot: int) -> None:
        """Make answers cover this slot from now on."""
        self._shape = self._shape._replace(slots=max(self._shape.slots, slot + 1))

    def _finished(self) -> Generator[Round, Replies, m.PackedTable]:
        """Return the table as it may be published: without itemsets of too few members or with too low a usage.

        They are removed all at once. That changes the usages of others, so it is repeated until all others may stay.
        """
        settings, found = self._situation.settings, self.search.found()
        expected: list[int] | None = [entry.usage for _, entry in found]
        counted: list[tuple[tuple[int, ...], int, int, int]] = []
        withheld: NDArray[np.bool_] | None = None
        # Ask even if nothing is left to count: members check the result against their table, so they need all moves.
        while found or self._moves or (self._shape.members and withheld is None):
            counts = yield from self._count_final(len(found))
            usages = counts.usages.tolist()
            if expected is not None and usages != expected:
                raise ProtocolError(SUMS_CONTRADICT)
            expected = None
            counted = [
                (entry.items, usage, support, entry.entry)
                for (_, entry), usage, support in zip(found, usages, counts.supports.tolist(), strict=True)
            ]
            weak = counts.usages < settings.min_count
            if counts.members is not None and counts.members_with_item is not None:
                weak |= counts.members < settings.min_members_with
                withheld = counts.members_with_item < settings.min_members_with
            if not weak.any():
                break
            self._moves += [m.RemoveElement(found[k][0]) for k in np.flatnonzero(weak).tolist()]
            found = [pair for pair, removed in zip(found, weak.tolist(), strict=True) if not removed]
            counted = []
        return pack_table(counted, self.supports, self.transactions, settings.min_count, withheld)

    def member_usages(self) -> None:
        """See `ServerSide`: in X the server sees only sums."""
        return

    def _ask(self, question: q.Question) -> Generator[Round, Replies, Any]:
        """Answer a question of the search; wants whose sketch was too small, and only those, are asked again.

        A move takes no round of its own: it is sent with the next question.
        """
        if isinstance(question, q.MOVES):
            self._make(question)
            return None
        asked = self._wants(question)
        if not asked:
            return self._answer(question, iter(()))
        readings: list[Any] = [None] * len(asked)
        while still := [k for k, reading in enumerate(readings) if reading is None]:
            for k, reading in zip(still, (yield from self._round([asked[k] for k in still])), strict=True):
                readings[k] = reading
                if reading is None:
                    asked[k] = enlarge(asked[k], self._shape, self._situation.number)._replace(slots=None)
            self._ask_again(asked, readings)
        return self._answer(question, iter(readings))

    def _ask_again(self, asked: list[Asked], readings: list[Any]) -> None:
        """Undo insertions whose effect, or anything before it, could not be read: they will be asked for again."""
        first = next((k for k, reading in enumerate(readings) if reading is None), len(asked))
        for k, one in enumerate(asked):
            if isinstance(one.want, m.WantInsertions) and first <= k:
                self._moves += [m.RestoreElement(slot) for slot in reversed(one.want.gone)]
                self._moves += [m.RemoveElement(new.slot) for new in reversed(one.want.new) if new.keep]
                readings[k] = None
                # What comes after it is about the table with them, so it need not be asked again.

    def _wants(self, question: q.Question) -> list[Asked]:
        """Return what to ask the members for, to answer a question."""
        sizes, seed = self._sizes, self._situation.number
        match question:
            case q.Together(questions):
                return [asked for part in questions for asked in self._wants(part)]
            case q.TryInsertions(moves, keep, _, removals, uses):
                kept = [move for move, stays in zip(moves, keep, strict=True) if stays]
                slots = self._shape.slots
                for move in kept:
                    self._reach(move.slot)
                trials = [sizes.ask_removals(removals, seed)] if removals else []
                before = [sizes.ask_removals(question.before, seed)._replace(slots=slots)] if question.before else []
                rows = [one._replace(slots=slots) for one in self._ask_rows(question.rows, slots)]
                ahead = self._ahead(kept, uses) if uses else []
                return [*before, *rows, sizes.ask_insertions(question, seed), *trials, *ahead]
            case q.Supports():
                return [Asked(m.WantSupports(), (self._shape.max_transactions,))]
            case q.Support(_, parents):
                return [Asked(m.WantUnionSupport(parents, bits_for(self.transactions)), (self.transactions,))]
            case q.CoUsages(slots):
                return self._ask_rows(slots, self._shape.slots)
            case q.TryRemovals(slots):
                return [sizes.ask_removals(slots, seed)]
        raise AssertionError(question)

    def _answer(self, question: q.Question, readings: Iterator[Any]) -> Any:
        """Return the answer to a question from the next readings, which are those of its wants."""
        usages = self.search.usages
        match question:
            case q.Together(questions):
                return tuple([self._answer(part, readings) for part in questions])
            case q.TryInsertions():
                return self._tried(question, readings)
            case q.CoUsages(slots):
                return self._rows_of(slots, readings, usages)
            case q.TryRemovals():
                trials = next(readings)
                for trial in trials:
                    self._after(trial, usages)
                return trials
            case q.Supports():
                *self.supports, self.transactions = next(readings).tolist()
                self._most = max(self.supports, default=0)
                if self._most > self.transactions:
                    raise ProtocolError(SUMS_CONTRADICT)
                return np.array(self.supports, np.int64)
        return next(readings)

    def _tried(self, question: q.TryInsertions, readings: Iterator[Any]) -> q.Tried:
        """Return what insertions change, from the next readings."""
        usages = self.search.usages
        before = next(readings) if question.before else ()
        for trial in before:
            self._after(trial, usages)
        rows = []
        while isinstance(changes := next(readings), (list, dict)):
            rows.append(changes)
        known = self._rows_of(question.rows, rows, usages)
        then, new = usages, set[int]()
        for move, stays, change in zip(question.moves, question.keep, changes, strict=True):
            after = self._after(change, then, new | {move.slot})
            if stays:
                then = after
                new.add(move.slot)
        trials = next(readings) if question.removals else ()
        if then[list(question.gone)].any():
            return q.Tried(before, known, changes, ())  # they were not gone, so the rest does not hold
        for trial in trials:
            self._after(trial, then, new)
        return q.Tried(before, known, changes, trials, next(readings, ()) if question.uses else ())

    # A lying member can spoil the sums, but must not make the search access slots without an element.

    def _after(self, change: q.Change, usages: NDArray[np.int64], new: AbstractSet[int] = frozenset()) -> Usages:
        """Return the usages after a change; raise `ProtocolError` if they are impossible or a slot has no element."""
        slots = change.slots
        then: NDArray[np.int64] = usages.copy()
        then[slots] += change.won - change.lost
        dead = any(s not in new and not self.search.is_element(s) for s in slots.tolist())
        if dead or (len(slots) and not 0 <= then[slots].min() <= then[slots].max() <= self._most):
            raise ProtocolError(SUMS_CONTRADICT)
        return then

    def _rows_of(
        self, slots: tuple[int, ...], readings: Iterable[Any], usages: NDArray[np.int64]
    ) -> tuple[q.SlotCounts | None, ...]:
        """Return rows in the order of slots, None for those of which only some entries were asked for.

        Check that no co-usage is above its bound: the usage of either element, or what is known about the pair.
        """
        rows: dict[int, q.SlotCounts] = {}
        for reading in readings:
            if isinstance(reading, dict):
                rows |= reading
                continue
            for one in reading:
                if (one.counts > self._ranking.known(one.slot, one.others)[0]).any():
                    raise ProtocolError(SUMS_CONTRADICT)
                self._ranking.put_counts(one.slot, one.others, one.counts)
        for slot, row in rows.items():
            if (row.counts > np.minimum(usages[row.slots], usages[slot])).any():
                raise ProtocolError(SUMS_CONTRADICT)
        return tuple([rows.get(slot) for slot in slots])

    @property
    def _ranking(self) -> BoundedRanking:
        return self.search.ranking

    def _ask_rows(self, slots: tuple[int, ...], length: int) -> list[Asked]:
        """Ask for the entries of these rows that can matter; for whole rows where nothing is known about them."""
        whole = tuple([s for s in slots if not self._ranking.is_complete(s)])
        usages = self.search.usages[list(whole)].tolist()
        asked = self._sizes.ask_rows(whole, usages, length, self._situation.number) if whole else []
        return [*asked, *self._ask_entries({s: self._ranking.plan(s) for s in slots if s not in whole})]

    def _ahead(self, moves: Sequence[q.Insert], uses: Sequence[int]) -> list[Asked]:
        """Ask for the counts of new elements that will matter if they stay."""
        found = self._ranking.foresee(moves, uses)
        return self._ask_entries({move.slot: row for move, row in zip(moves, found, strict=True)})

    @staticmethod
    def _ask_entries(rows: dict[int, q.SlotCounts]) -> list[Asked]:
        some = {slot: row for slot, row in rows.items() if len(row.slots)}
        return [Asked(want_entries(some))] if some else []

    def _count_final(self, itemsets: int) -> Generator[Round, Replies, FinalCounts]:
        self._shape = self._shape._replace(itemsets=itemsets)
        bounds = (self.transactions, self._shape.members) if self._shape.members else (self.transactions,)
        counts: FinalCounts
        (counts,) = yield from self._round([Asked(m.WantFinal(bits_for(self.transactions)), bounds)])
        return counts

    def _round(self, asked: Sequence[Asked]) -> Generator[Round, Replies, list[Any]]:
        """Ask all members, add up their answers, and read the sums."""
        wants = [one.want for one in asked]
        ask = m.Ask(self._situation.number, 0, self._moves, wants)
        self._moves = []
        shapes = [self._shape if one.slots is None else self._shape._replace(slots=one.slots) for one in asked]
        lengths = [words_of(want, shape) for want, shape in zip(wants, shapes, strict=True)]
        kind = " and ".join(dict.fromkeys(KINDS[type(want)] for want in wants))
        replies = yield Round(ask, m.Masked, kind, sum(lengths))
        parts = np.split(add_up(replies, sum(lengths)), np.cumsum(lengths)[:-1])
        readings = []
        for one, shape, words in zip(asked, shapes, parts, strict=True):
            want = one.want
            reading = read(want, shape, words, one.bounds)
            if isinstance(want, m.WantEntries):
                reading = _fetched(want, shape.slots, reading)
            readings.append(reading)
            if readings[-1] is not None:
                self._sizes.learn(want, readings[-1])
        return readings


def _fetched(want: m.WantEntries, slots: int, counts: NDArray[np.int64]) -> list[Fetched]:
    """Return the entries of each row, with the largest count that fits each of them."""
    rows, ends, others, widths = entries_of(want, slots)
    room = (1 << widths.astype(np.int64)) - 1
    parts = zip(*(np.split(values, ends[:-1]) for values in (others.astype(np.int32), counts, room)), strict=True)
    return [Fetched(slot, *part) for slot, part in zip(rows.tolist(), parts, strict=True)]


def _move(move: q.Move) -> m.Move:
    match move:
        case q.Insert():
            return m.InsertUnion(move.slot, move.parents, move.entry)
        case q.Remove(slot):
            return m.RemoveElement(slot)
        case q.Restore(slot):
            return m.RestoreElement(slot)
        case q.Drop(items):
            return m.DropItems(m.Vector.of(np.array(items, np.int64)))
    raise AssertionError(move)  # a local search does not run in a federation yet
