"""X, the exact variant: the search of `mdl/`, answered by masked sums over all members.

Every member covers with the same table in the same order, so everything that the search needs is a sum over members.
The search cannot tell these sums from the counts of one database, so its result is that of mining in one place.

In a round each member sends one masked vector: the answers to all questions of the round, one after the other. Of the
pair matrix only the entries that can matter are asked for, each in as many bits as its bound has; whole rows are
packed, or sketched where few entries are expected. Changes are always sketched, for a trial changes few elements of
many. See docs/explanation/decisions/x.md and pair-bounds.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedslim.errors import ProtocolError
from fedslim.mdl import questions as q
from fedslim.mdl.bounded_ranking import BoundedRanking
from fedslim.mdl.effort import EffortSearch, plan
from fedslim.mdl.kernels import changes
from fedslim.mdl.kernels.bounds import BoundedRows, Fetched
from fedslim.protocol import messages as m
from fedslim.protocol.outcome import Outcome, pack_table
from fedslim.protocol.sums import SUMS_CONTRADICT, add_up
from fedslim.protocol.variant import Replies, Round, Situation, search_in_rounds
from fedslim.protocol.x_member import XMember
from fedslim.protocol.x_queries import (
    KINDS,
    FinalCounts,
    Shape,
    bits_for,
    entries_of,
    read,
    read_changes,
    want_entries,
    words_of,
)
from fedslim.protocol.x_sizes import Asked, Sizes, enlarge
from fedslim.secagg.ring import NARROW

Usages = NDArray[np.int64]

__all__ = ["XMember", "XServer"]


@dataclass(slots=True)
class Then:
    """The table at some point of a question: its usages, which slots have an element, whether that is known."""

    usages: Usages
    alive: NDArray[np.bool_]
    holds: bool = True


# -- the server ---------------------------------------------------------------------------------------------------


class XServer:
    """Turns the questions of the search into rounds, and sums into answers."""

    members_know = True

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        settings = situation.settings
        todo = plan(settings.effort, limited=False)
        self.search = EffortSearch(situation.items, situation.policy, todo, settings.seed)
        self._entered: dict[tuple[int, ...], int] = {}  # the number of each itemset that has been in the table
        self._moves: list[m.Move] = []
        self.transactions = 0
        self.supports: list[int] = []
        self._most = 0  # upper bound of all usages
        self._shape = Shape.at_start(settings, situation.items, len(situation.members))
        self._marked_slots = 0
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
        match move:
            case q.Insert():
                self._moves.append(m.InsertUnion(move.slot, self._parents(move), move.entry))
                self._enter(move)
            case q.Remove(slot):
                self._moves.append(m.RemoveElement(slot))
            case q.Restore(slot):
                self._moves.append(m.RestoreElement(slot))
            case q.Drop(items):
                self._moves.append(m.DropItems(m.Vector.of(np.array(items, np.int64))))
            case q.Mark():
                self._moves.append(m.MarkTable())
                self._marked_slots = self._shape.slots
            case q.GoBack():
                self._moves.append(m.GoBackToMark())
                self._shape = self._shape._replace(slots=self._marked_slots)  # with other elements than before
            case q.Restart():
                self._moves.append(m.EmptyTable())
                self._shape = self._shape._replace(slots=self._situation.items)
        if isinstance(move, q.Insert | q.Remove | q.Restore):
            self._reach(move.slot)

    def _parents(self, move: q.Insert) -> tuple[int, int]:
        """Return how an itemset is named: by two elements of the table, or by the number it has from before."""
        return (self._entered[move.itemset],) * 2 if move.is_again else move.parents

    def _enter(self, move: q.Insert) -> None:
        """Number an itemset, as members do."""
        self._entered.setdefault(move.itemset, len(self._entered))

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
            return self._answer(question, deque(), self._then())
        readings: list[Any] = [None] * len(asked)
        while still := [k for k, reading in enumerate(readings) if reading is None]:
            for k, reading in zip(still, (yield from self._round([asked[k] for k in still])), strict=True):
                readings[k] = reading
                if reading is None:
                    asked[k] = enlarge(asked[k], self._shape, self._situation.number)._replace(slots=None)
            self._ask_again(asked, readings)
        return self._answer(question, deque(readings), self._then())

    def _ask_again(self, asked: list[Asked], readings: list[Any]) -> None:
        """Undo moves whose effect, or anything before it, could not be read: they will be asked for again."""
        first = next((k for k, reading in enumerate(readings) if reading is None), len(asked))
        for k in reversed(range(first, len(asked))):
            one = asked[k]
            # What comes after it is about the table with these moves, so it need not be asked again.
            match one.want:
                case m.WantInsertions(new, gone):
                    self._moves += [m.RestoreElement(slot) for slot in reversed(gone)]
                    self._moves += [m.RemoveElement(one.slot) for one in reversed(new) if one.keep]
                    readings[k] = None
                case m.WantRemovals(slots, gone=gone) if any(gone):
                    pairs = zip(reversed(slots), reversed(gone), strict=True)
                    self._moves += [m.RestoreElement(slot) for slot, leaves in pairs if leaves]
                    readings[k] = None

    def _wants(self, question: q.Question) -> list[Asked]:  # noqa: PLR0911  # one for each kind of question
        """Return what to ask the members for, to answer a question."""
        sizes, seed = self._sizes, self._situation.number
        match question:
            case q.Together(questions):
                return [asked for part in questions for asked in self._wants(part)]
            case q.TryInsertions(moves, keep, _, removals):
                kept = [move for move, stays in zip(moves, keep, strict=True) if stays]
                slots = self._shape.slots
                parents = [self._parents(move) for move in moves]
                for move in kept:
                    self._reach(move.slot)
                    self._enter(move)
                usages = self.search.usages
                before = [self._ask_removals(question.before, usages)._replace(slots=slots)] if question.before else []
                expected, usages = self.search.now.expect_insertions(question)
                trials = [self._ask_removals(removals, usages)] if removals else []
                ahead = self._ahead(question) if question.whole else []
                insertions = sizes.ask_insertions(question, parents, expected, seed)._replace(slots=slots)
                return [*before, insertions, *trials, *ahead]
            case q.Supports():
                return [Asked(m.WantSupports(), (self._shape.max_transactions,))]
            case q.Support(_, parents):
                return [Asked(m.WantUnionSupport(parents, bits_for(self.transactions)), (self.transactions,))]
            case q.CoUsages(slots):
                return self._ask_rows(slots, self._shape.slots)
            case q.TryRemovals(slots, gone, expected):
                expected = expected or tuple(self.search.now.expect_removals(slots, self.search.usages, gone))
                parts = [slice(k, k + m.MAX_REMOVALS) for k in range(0, len(slots), m.MAX_REMOVALS)]
                fresh = self.search.now.fresh
                return [sizes.ask_removals(slots[part], expected[part], seed, gone[part], fresh) for part in parts]
            case q.Fetch(leaving, insertions):
                entering, changes = insertions.kept() if insertions else ([], [])
                return self._ask_entries(self._ranking.foresee(entering, changes, leaving=leaving))
        raise AssertionError(question)

    def _ask_removals(self, slots: tuple[int, ...], usages: Usages, gone: tuple[bool, ...] = ()) -> Asked:
        """Ask what removals would change, at these usages."""
        expected = self.search.now.expect_removals(slots, usages, gone)
        return self._sizes.ask_removals(slots, expected, self._situation.number, gone, self.search.now.fresh)

    def _answer(self, question: q.Question, readings: deque[Any], then: Then) -> Any:  # noqa: PLR0911  # likewise
        """Return the answer to a question from the next readings, which are those of its wants."""
        match question:
            case q.Together(questions):
                return tuple([self._answer(part, readings, then) for part in questions])
            case q.TryInsertions():
                return self._tried(question, readings, then)
            case q.CoUsages(slots):
                return self._rows_of(slots, readings)
            case q.TryRemovals(slots, gone):
                trials = tuple([trial for _ in range(0, len(slots), m.MAX_REMOVALS) for trial in readings.popleft()])
                for trial, leaves in zip(trials, gone or (False,) * len(slots), strict=True):
                    self._follow(trial, then, stays=leaves)
                return trials
            case q.Fetch():
                return _counts_in(readings)
            case q.Supports():
                *self.supports, self.transactions = readings.popleft().tolist()
                self._most = max(self.supports, default=0)
                self._sizes.wide = self._most > NARROW
                if self._most > self.transactions:
                    raise ProtocolError(SUMS_CONTRADICT)
                return np.array(self.supports, np.int64)
        return readings.popleft()

    def _tried(self, question: q.TryInsertions, readings: deque[Any], then: Then) -> q.Tried:
        """Return what insertions change, from the next readings."""
        before = readings.popleft() if question.before else ()
        for trial in before:
            self._follow(trial, then)
        changes = readings.popleft()
        for move, stays, change in zip(question.moves, question.keep, changes, strict=True):
            then.alive[move.slot] = True
            self._follow(change, then, stays=stays)
            then.alive[move.slot] = stays
        trials = readings.popleft() if question.removals else ()
        fetched = _counts_in(readings) if question.whole else ()
        if then.usages[list(question.gone)].any():
            then.holds = False  # they were not gone, so the rest does not hold
            return q.Tried(before, changes, ())
        for trial in trials:
            self._follow(trial, then)
        return q.Tried(before, changes, trials, fetched)

    # A lying member can spoil the sums, but must not make the search access slots without an element.

    def _then(self) -> Then:
        """Return the table as it is."""
        usages = self.search.usages.copy()
        return Then(usages, self.search.now.which_are_elements(len(usages)))

    def _follow(self, change: q.Change, then: Then, *, stays: bool = False) -> None:
        """Check a change, and let it happen if it stays; nothing is checked, or used, once the table is not known.

        Raise `ProtocolError` if usages are impossible or a slot has no element.
        """
        if then.holds and not changes.follow(*change, then.usages, then.alive, self._most, stays):
            raise ProtocolError(SUMS_CONTRADICT)

    def _rows_of(self, slots: tuple[int, ...], readings: deque[Any]) -> tuple[None, ...]:
        """Give the entries of rows to the ranking, which has the whole rows already.

        Check that no co-usage is above what is known about the pair.
        """
        while readings and isinstance(readings[0], (Fetched, dict)):
            reading = readings.popleft()
            if isinstance(reading, Fetched) and not self._ranking.put_counts(BoundedRows(*reading[:4])):
                raise ProtocolError(SUMS_CONTRADICT)
        return (None,) * len(slots)

    def _put_rows(self, rows: dict[int, q.SlotCounts]) -> None:
        """Give whole rows to the ranking; check that no co-usage is above the usage of either element."""
        usages = self.search.usages
        for slot, row in rows.items():
            if (row.counts > np.minimum(usages[row.slots], usages[slot])).any():
                raise ProtocolError(SUMS_CONTRADICT)
            known = self._ranking.counts_of(slot, self._shape.slots)
            self._sizes.learn_row(int(usages[slot]), int(np.count_nonzero(known[row.slots] == 0)))
            self._ranking.put_row(slot, row)

    @property
    def _ranking(self) -> BoundedRanking:
        return self.search.now.ranking

    def _ask_rows(self, slots: tuple[int, ...], length: int) -> list[Asked]:
        """Ask for the entries of these rows that can matter; for whole rows where nothing is known about them."""
        whole = tuple([s for s in slots if not self._ranking.is_complete(s)])
        usages = self.search.usages[list(whole)].tolist()
        asked = self._sizes.ask_rows(whole, usages, length, self._situation.number) if whole else []
        asked += self._ask_entries(self._ranking.plan([s for s in slots if s not in whole]))
        return [one._replace(slots=length) for one in asked]

    def _ahead(self, question: q.TryInsertions) -> list[Asked]:
        """Ask for the counts of new elements that will matter if they stay."""
        return self._ask_entries(self._ranking.foresee(*question.kept(), self.search.now.touched))

    @staticmethod
    def _ask_entries(rows: BoundedRows) -> list[Asked]:
        return [Asked(want_entries(rows))] if len(rows.others) else []

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
        total, end = add_up(replies, sum(lengths)), 0
        readings = []
        for one, shape, length in zip(asked, shapes, lengths, strict=True):
            want, words = one.want, total[end : end + length]
            end += length
            reading: Any
            if isinstance(want, m.WantInsertions | m.WantRemovals):
                reading, entries = read_changes(want, shape, words, one.expected)
                self._sizes.learn_changes(one, entries)
            else:
                known = self._ranking.counts_of(want.slot, shape.slots) if isinstance(want, m.WantSparseRow) else ()
                reading = read(want, shape, words, one.bounds, known)
            if isinstance(want, m.WantEntries):
                reading = _fetched(want, shape.slots, reading)
            elif isinstance(want, m.WantRows | m.WantSparseRow) and reading is not None:
                self._put_rows(reading)  # at once: what they have in common with the next ones is known then
            readings.append(reading)
        return readings


def _counts_in(readings: deque[Any]) -> Fetched | tuple[()]:
    """Return the next reading if it has entries of rows; none if there were none worth asking for."""
    return readings.popleft() if readings and isinstance(readings[0], Fetched) else ()


def _fetched(want: m.WantEntries, slots: int, counts: NDArray[np.int64]) -> Fetched:
    """Return the entries of rows, with the largest count that fits each of them, and its word."""
    rows, ends, others, widths, fields = entries_of(want, slots)
    return Fetched(rows, ends, others.astype(np.int32), counts, (1 << widths.astype(np.int64)) - 1, fields.word_of)
