"""X, the exact variant: the one search of `mdl/`, answered by masked sums over all members.

Every member covers with the same table in the same order, so all that the search needs is a sum over members. The
search cannot tell these sums from the counts of one database, so its result is that of all transactions together.

A round is one masked vector from each member: the answers to all questions of the round, one after the other. Rows of
the pair matrix are packed into as many bits as their element's usage has, or, where few entries are expected, sketched;
what a trial changes is always sketched, for it changes few elements of many. See docs/decisions/x.md.
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
from fedslim.protocol.variant import Replies, Round
from fedslim.protocol.x_member import XMember
from fedslim.protocol.x_queries import (
    FAILED,
    SUMS_CONTRADICT,
    Final,
    Insertion,
    Removals,
    Sizes,
    Supports,
    UnionSupport,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from numpy.typing import NDArray

    from fedslim.protocol.variant import Situation
    from fedslim.protocol.x_queries import Want

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
        self._most = 0  # no element is used more often
        self._length = situation.items  # all slots below it may hold an element
        self._sizes = Sizes()

    def run(self) -> Generator[Round, Replies, Outcome]:
        """See `ServerSide`."""
        search, situation = self.search, self._situation
        questions = search.run()
        question = next(questions)
        ending = "converged"
        try:
            while True:
                if isinstance(question, q.MOVES):
                    self._make(question)
                    question = questions.send(None)
                elif situation.ending is not None and self.supports:
                    ending = situation.ending
                    break
                else:
                    question = questions.send((yield from self._ask(question)))
        except StopIteration:
            pass
        for move in search.rewind():
            self._make(move)
        table = yield from self._finished()
        return Outcome(table, search.tally, ending)  # type: ignore[arg-type]

    def _make(self, move: q.Move) -> None:
        """Have the members make a move, with the next question."""
        self._moves.append(_move(move))
        if not isinstance(move, q.Drop):
            self._length = max(self._length, move.slot + 1)
            self._sizes.forget_row(move.slot)

    def _finished(self) -> Generator[Round, Replies, m.PackedTable]:
        """The table as it may be published: without itemsets that too few members have, or that are used too rarely.

        They go all at once. That changes the usages of others, so it is repeated until all that is left may stay.
        """
        settings, found = self._situation.settings, self.search.found()
        members = len(self._situation.members) if settings.min_members_with > 1 else 0
        expected: list[int] | None = [entry.usage for _, entry in found]
        counted: list[tuple[tuple[int, ...], int, int, int]] = []
        withheld: NDArray[np.bool_] | None = None
        # Also where nothing is left to count: members check the result against the table, so all moves must be made.
        while found or self._moves or (members and withheld is None):
            want = Final(len(found), self._situation.items, self.transactions, members)
            counts = yield from self._counted(want)
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
            found = [pair for pair, gone in zip(found, weak.tolist(), strict=True) if not gone]
            counted = []
        return pack_table(counted, self.supports, self.transactions, settings.min_count, withheld)

    def member_usages(self) -> None:
        """See `ServerSide`: the server sees sums only."""
        return

    def _ask(self, question: q.Question) -> Generator[Round, Replies, Any]:
        """One question of the search; those that need more than one try are asked again, and only those."""
        asked = question.questions if isinstance(question, q.Together) else (question,)
        wanted = [self._wants(part) for part in asked]
        wants = [want for part in wanted for want in part]
        answers: dict[int, Any] = {}
        open_ = list(range(len(wants)))
        while open_:
            readings = yield from self._round([wants[k] for k in open_])
            for k, reading in zip(open_, readings, strict=True):
                if reading is FAILED:
                    if isinstance(wants[k], Insertion):
                        self._moves += wants[k].withdrawal()
                    wants[k] = wants[k].larger()
                else:
                    answers[k] = reading
            open_ = [k for k in open_ if k not in answers]
        ordered = iter([answers[k] for k in range(len(wants))])
        replies = [self._answer(part, [next(ordered) for _ in own]) for part, own in zip(asked, wanted, strict=True)]
        return tuple(replies) if isinstance(question, q.Together) else replies[0]

    def _wants(self, question: q.Question) -> list[Any]:
        """What to ask the members for, to answer a question."""
        length = self._length
        match question:
            case q.Presume(move, removals, rows):
                return self._presumed(move, removals, rows)
            case q.Supports():
                return [Supports(self._situation.items, self._situation.settings.max_transactions)]
            case q.Support(_, parents):
                return [UnionSupport(parents, self.transactions)]
            case q.CoUsages(slots):
                return self._sizes.rows_for(slots, self.search.usages[list(slots)].tolist(), length)
            case q.TryInsert(slot):
                return [Insertion(question, max(length, slot + 1), self._sizes, keep=False)]
            case q.TryRemovals(slots):
                return [Removals(slots, length, self._sizes)]
        raise AssertionError(question)

    def _presumed(self, move: q.Insert, removals: tuple[int, ...], rows: tuple[int, ...]) -> list[Any]:
        """An insertion that is carried out at once, and what is asked about the table with it.

        The two parents, whose rows are asked for, are used less than before: where the new one is, they are not.
        """
        self._length = length = max(self._length, move.slot + 1)
        most = min(self.search.max_uses(move.itemset, move.entry), self._most)
        usages = [most if s == move.slot else int(self.search.usages[s]) for s in rows]
        wants: list[Any] = [Insertion(move, length, self._sizes, keep=True)]
        if removals:
            wants.append(Removals(removals, length, self._sizes))
        return wants + self._sizes.rows_for(rows, usages, length)

    def _answer(self, question: q.Question, read: list[Any]) -> Any:
        """The answer to a question from the readings of what was asked for it."""
        usages = self.search.usages
        match question:
            case q.Presume(move, removals, slots):
                then = self._after(read[0], usages, new=move.slot)
                trials = read[1] if removals else ()
                for trial in trials:
                    self._after(trial, then, new=move.slot)
                rows = self._rows_of(read[1 + bool(removals) :], then)
                return q.Presumed(read[0], trials, tuple(rows[slot] for slot in slots))
            case q.TryInsert(slot=slot):
                self._after(read[0], usages, new=slot)
            case q.TryRemovals():
                for trial in read[0]:
                    self._after(trial, usages)
            case q.Supports():
                *self.supports, self.transactions = read[0].tolist()
                self._most = max(self.supports, default=0)
                if self._most > self.transactions:
                    raise ProtocolError(SUMS_CONTRADICT)
                return np.array(self.supports, np.int64)
            case q.CoUsages(slots):
                rows = self._rows_of(read, usages)
                return tuple(rows[slot] for slot in slots)
        return read[0]

    # A member that lies can spoil the sums, but must not make the search look where nothing is.

    def _after(self, change: q.Change, usages: NDArray[np.int64], *, new: int = -1) -> NDArray[np.int64]:
        """The usages after a change, which must be those of elements that there are."""
        slots = change.slots
        then: NDArray[np.int64] = usages.copy()
        then[slots] += change.won - change.lost
        dead = (slots >= self._situation.items) & (self.search.usages[slots] == 0) & (slots != new)
        if dead.any() or (len(slots) and not 0 <= then[slots].min() <= then[slots].max() <= self._most):
            raise ProtocolError(SUMS_CONTRADICT)
        return then

    def _rows_of(self, read: list[Any], usages: NDArray[np.int64]) -> dict[int, q.SlotCounts]:
        """Rows by slot; two elements are not used together more often than either of them is used."""
        rows = {slot: row for part in read for slot, row in part.items()}
        for slot, row in rows.items():
            if (row.counts > np.minimum(usages[row.slots], usages[slot])).any():
                raise ProtocolError(SUMS_CONTRADICT)
        return rows

    def _counted(self, want: Want) -> Generator[Round, Replies, Any]:
        return (yield from self._round([want]))[0]

    def _round(self, wants: Sequence[Want]) -> Generator[Round, Replies, list[Any]]:
        """Ask everybody, add up, and read the sums."""
        number = self._situation.number
        ask = m.Ask(number, 0, self._moves, [want.message(number) for want in wants])
        self._moves = []
        lengths = [want.words for want in wants]
        replies = yield Round(ask, m.Masked, _kind(wants), sum(lengths))
        words = add_up(replies, sum(lengths))
        ends = np.cumsum(lengths)
        return [want.read(words[end - length : end]) for want, length, end in zip(wants, lengths, ends, strict=True)]


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


def _kind(wants: Sequence[Want]) -> str:
    return " and ".join(dict.fromkeys(want.kind for want in wants))
