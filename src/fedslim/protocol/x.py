"""X, the exact variant: the search of `mdl/`, answered by masked sums over all members.

Every member covers with the same table in the same order, so everything that the search needs is a sum over members.
The search cannot tell these sums from the counts of one database, so its result is that of mining in one place.

In a round each member sends one masked vector: the answers to all questions of the round, one after the other. Rows of
the pair matrix are packed into as many bits as their element's usage has, or sketched where few entries are expected.
Changes are always sketched, for a trial changes few elements of many. See docs/explanation/decisions/x.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedslim.errors import ProtocolError
from fedslim.mdl import questions as q
from fedslim.mdl.search import SlimSearch
from fedslim.protocol import messages as m
from fedslim.protocol.outcome import Outcome, pack_table
from fedslim.protocol.sums import add_up
from fedslim.protocol.variant import Replies, Round, search_in_rounds
from fedslim.protocol.x_member import XMember
from fedslim.protocol.x_queries import KINDS, Shape, bits_for, read, words_of
from fedslim.protocol.x_sizes import SUMS_CONTRADICT, Asked, Sizes, enlarge

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from numpy.typing import NDArray

    from fedslim.protocol.variant import Situation
    from fedslim.protocol.x_queries import FinalCounts

__all__ = ["XMember", "XServer"]

# -- the server ---------------------------------------------------------------------------------------------------


class XServer:
    """Turns the questions of the search into rounds, and sums into answers."""

    members_know = True

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self.search = SlimSearch(situation.items, situation.policy, eager=True)
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
        if not isinstance(move, q.Drop):
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
        readings: list[Any] = [None] * len(asked)
        while still := [k for k, reading in enumerate(readings) if reading is None]:
            for k, reading in zip(still, (yield from self._round([asked[k] for k in still])), strict=True):
                want, readings[k] = asked[k].want, reading
                if reading is None:
                    if isinstance(want, m.WantInsertion) and want.keep:
                        self._moves.append(m.RemoveElement(want.slot))  # it has entered, and will enter again
                    asked[k] = enlarge(asked[k], self._shape, self._situation.number)
        return self._answer(question, iter(readings))

    def _wants(self, question: q.Question) -> list[Asked]:  # noqa: PLR0911  # one for each kind of question
        """Return what to ask the members for, to answer a question."""
        sizes, usages, seed = self._sizes, self.search.usages, self._situation.number
        match question:
            case q.Together(questions):
                return [asked for part in questions for asked in self._wants(part)]
            case q.Presume(move, removals, slots):
                # An insertion that takes effect at once, and questions about the table with it. The usages of the two
                # parents, whose rows are asked for, can only fall: where the new element is used, they are not.
                self._reach(move.slot)
                most = min(self.search.max_uses(move.itemset, move.entry), self._most)
                bounds = [most if s == move.slot else int(usages[s]) for s in slots]
                trials = [sizes.ask_removals(removals, seed)] if removals else []
                rows = sizes.ask_rows(slots, bounds, self._shape.slots, seed)
                return [sizes.ask_insertion(move, seed, keep=True), *trials, *rows]
            case q.Supports():
                return [Asked(m.WantSupports(), (self._shape.max_transactions,))]
            case q.Support(_, parents):
                return [Asked(m.WantUnionSupport(parents, bits_for(self.transactions)), (self.transactions,))]
            case q.CoUsages(slots):
                return sizes.ask_rows(slots, usages[list(slots)].tolist(), self._shape.slots, seed)
            case q.TryInsert():
                return [sizes.ask_insertion(question, seed, keep=False)]
            case q.TryRemovals(slots):
                return [sizes.ask_removals(slots, seed)]
        raise AssertionError(question)

    def _answer(self, question: q.Question, readings: Iterator[Any]) -> Any:  # noqa: PLR0911  # one for each kind
        """Return the answer to a question from the next readings, which are those of its wants."""
        usages = self.search.usages
        match question:
            case q.Together(questions):
                return tuple([self._answer(part, readings) for part in questions])
            case q.Presume(move, removals, slots):
                change = next(readings)
                then = self._after(change, usages, new=move.slot)
                trials = next(readings) if removals else ()
                for trial in trials:
                    self._after(trial, then, new=move.slot)
                return q.Presumed(change, trials, self._rows_of(slots, readings, then))
            case q.CoUsages(slots):
                return self._rows_of(slots, readings, usages)
            case q.TryInsert(slot=slot):
                change = next(readings)
                self._after(change, usages, new=slot)
                return change
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

    # A lying member can spoil the sums, but must not make the search access slots without an element.

    def _after(self, change: q.Change, usages: NDArray[np.int64], *, new: int = -1) -> NDArray[np.int64]:
        """Return the usages after a change; raise `ProtocolError` if they are impossible or a slot has no element."""
        slots = change.slots
        then: NDArray[np.int64] = usages.copy()
        then[slots] += change.won - change.lost
        dead = (slots >= self._situation.items) & (self.search.usages[slots] == 0) & (slots != new)
        if dead.any() or (len(slots) and not 0 <= then[slots].min() <= then[slots].max() <= self._most):
            raise ProtocolError(SUMS_CONTRADICT)
        return then

    def _rows_of(
        self, slots: tuple[int, ...], readings: Iterator[Any], usages: NDArray[np.int64]
    ) -> tuple[q.SlotCounts, ...]:
        """Return rows in the order of slots; check that no co-usage is above the usage of either element."""
        rows: dict[int, q.SlotCounts] = {}
        while len(rows) < len(slots):
            rows |= next(readings)
        for slot, row in rows.items():
            if (row.counts > np.minimum(usages[row.slots], usages[slot])).any():
                raise ProtocolError(SUMS_CONTRADICT)
        return tuple([rows[slot] for slot in slots])

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
        lengths = [words_of(want, self._shape) for want in wants]
        kind = " and ".join(dict.fromkeys(KINDS[type(want)] for want in wants))
        replies = yield Round(ask, m.Masked, kind, sum(lengths))
        parts = np.split(add_up(replies, sum(lengths)), np.cumsum(lengths)[:-1])
        readings = []
        for (want, bounds, _), words in zip(asked, parts, strict=True):
            readings.append(read(want, self._shape, words, bounds))
            if readings[-1] is not None:
                self._sizes.learn(want, readings[-1])
        return readings


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
