"""X, the exact variant: the one search of `mdl/`, answered by masked sums over all members.

Every member covers with the same table in the same order, so all that the search needs is a sum over members. The
search cannot tell these sums from the counts of one database, so its result is that of all transactions together.

A round is one masked vector from each member: the answers to all questions of the round, one after the other. Rows of
the pair matrix are packed into as many bits as their element's usage has, or, where few entries are expected, sketched;
what a trial changes is always sketched, for it changes few elements of many. See docs/decisions/x.md.
"""

from __future__ import annotations

from functools import lru_cache
from operator import lt
from typing import TYPE_CHECKING, Any

import numpy as np

from fedslim.errors import ProtocolError
from fedslim.mdl import questions as q
from fedslim.mdl.cover_state import CoverState
from fedslim.mdl.search import SlimSearch
from fedslim.protocol import messages as m
from fedslim.protocol.outcome import Outcome, packed_table
from fedslim.protocol.sums import check_words, summed
from fedslim.protocol.variant import Replies, Round
from fedslim.protocol.variant import Words as Answer
from fedslim.protocol.wants import (
    CONTRADICTION,
    FAILED,
    Insertion,
    Removals,
    Sizes,
    Supports,
    SupportsOf,
)
from fedslim.secagg import Ring, Sketch
from fedslim.secagg.ring import MOST_BITS, put_rows, words_of_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from numpy.typing import NDArray

    from fedslim.data import TransactionDatabase
    from fedslim.protocol.variant import Situation
    from fedslim.protocol.wants import Want
    from fedslim.secagg.ring import Words

# -- the server ---------------------------------------------------------------------------------------------------


class ServerVariant:
    """Turns the questions of the search into rounds, and sums into answers."""

    clients_know = True

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
                if isinstance(question, (q.Insert, q.Remove)):
                    self._moves.append(_move(question))
                    self._length = max(self._length, question.slot + 1)
                    self._sizes.forget_row(question.slot)
                    question = questions.send(None)
                elif situation.ending is not None and self.supports:
                    ending = situation.ending
                    break
                else:
                    question = questions.send((yield from self._ask(question)))
        except StopIteration:
            pass
        result = search.result()
        found = [list(entry.items) for entry in result.entries if len(entry.items) > 1]
        supports: list[int] = []
        if found:
            supports = yield from self._counted(SupportsOf(found, self.transactions))
        table = packed_table(result, self.supports, supports, self.transactions)
        return Outcome(table, result.tally, ending)  # type: ignore[arg-type]

    def site_usages(self) -> None:
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
            case q.Presume(q.Insert(slot, itemset, entry), removals, rows):
                return self._presumed(slot, itemset, entry, removals, rows)
            case q.Supports():
                return [Supports(self._situation.items, self._situation.settings.most_transactions)]
            case q.Support(itemset):
                return [SupportsOf([list(itemset)], self.transactions)]
            case q.CoUsages(slots):
                return self._sizes.rows_for(slots, self.search.usages[list(slots)].tolist(), length)
            case q.TryInsert(slot, itemset, entry):
                return [Insertion((slot, itemset, entry, max(length, slot + 1), False), self._sizes)]
            case q.TryRemovals(slots):
                return [Removals(slots, length, self._sizes)]
        raise AssertionError(question)

    def _presumed(
        self, slot: int, itemset: tuple[int, ...], entry: int, removals: tuple[int, ...], rows: tuple[int, ...]
    ) -> list[Any]:
        """An insertion that is carried out at once, and what is asked about the table with it.

        The two parents, whose rows are asked for, are used less than before: where the new one is, they are not.
        """
        self._length = length = max(self._length, slot + 1)
        most = min(self.search.most_uses(itemset, entry), self._most)
        usages = [most if s == slot else int(self.search.usages[s]) for s in rows]
        wants: list[Any] = [Insertion((slot, itemset, entry, length, True), self._sizes)]
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
            case q.TryInsert(slot):
                self._after(read[0], usages, new=slot)
            case q.TryRemovals():
                for trial in read[0]:
                    self._after(trial, usages)
            case q.Supports():
                *self.supports, self.transactions = read[0].tolist()
                self._most = max(self.supports, default=0)
                if self._most > self.transactions:
                    raise ProtocolError(CONTRADICTION)
                return np.array(self.supports, np.int64)
            case q.Support():
                return read[0][0]
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
            raise ProtocolError(CONTRADICTION)
        return then

    def _rows_of(self, read: list[Any], usages: NDArray[np.int64]) -> dict[int, q.SlotCounts]:
        """Rows by slot; two elements are not used together more often than either of them is used."""
        rows = {slot: row for part in read for slot, row in part.items()}
        for slot, row in rows.items():
            if (row.counts > np.minimum(usages[row.slots], usages[slot])).any():
                raise ProtocolError(CONTRADICTION)
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
        words = summed(replies, sum(lengths))
        ends = np.cumsum(lengths)
        return [want.read(words[end - length : end]) for want, length, end in zip(wants, lengths, ends, strict=True)]


def _move(question: q.Insert | q.Remove) -> m.Move:
    if isinstance(question, q.Insert):
        return m.Insert(question.slot, list(question.itemset), question.entry)
    return m.Remove(question.slot)


def _kind(wants: Sequence[Want]) -> str:
    return " and ".join(dict.fromkeys(want.kind for want in wants))


# -- a client -----------------------------------------------------------------------------------------------------


class ClientVariant:
    """Keeps the covers of one member's transactions, and answers with masked words."""

    def __init__(self, database: TransactionDatabase) -> None:
        self._state = CoverState(database)
        self._answers: dict[type[m.Want], Callable[[Any], Words]] = {
            m.WantRows: self._rows,
            m.WantSparseRow: self._sparse_row,
            m.WantInsertion: self._insertion,
            m.WantRemovals: self._removals,
            m.WantSupports: self._supports,
            m.WantSupportOf: self._supports_of,
        }

    def own_table(self) -> None:
        """See `ClientSide`: there is one table for all, and the server tells it."""

    def answer(self, message: m.Ask) -> Answer:
        """Make the moves, count what is asked for."""
        for move in message.moves:
            self._make(move)
        answers: list[Words] = []
        for want in message.wants:
            answers.append(self._answers[type(want)](want))
            check_words(sum(map(len, answers)))
        return Answer("x answers", answers[0] if len(answers) == 1 else np.concatenate(answers))

    def _make(self, move: m.Move) -> None:
        if isinstance(move, m.Insert):
            self._state.insert(move.slot, self._checked(move.slot, move.items), move.entry)
        else:
            self._state.remove(self._alive(move.slot, itemset=True))

    def _rows(self, want: m.WantRows) -> Words:
        for slot in want.slots:
            self._alive(slot)
        if len(want.bits) != len(want.slots) or not all(1 <= bits <= MOST_BITS for bits in want.bits):
            msg = f"the server asked for {len(want.slots)} rows with {len(want.bits)} widths; it is refused"
            raise ProtocolError(msg)
        words = _zeros(words_of_rows(want.bits, want.length))
        slots, bits = np.array(want.slots, np.int64), np.frombuffer(want.bits, np.uint8)
        done, begin = 0, 0
        while done < len(slots):
            ends, others, counts = self._state.rows(slots[done:])
            some = bits[done : done + len(ends)]
            put_rows(words[begin:], some, ends, others, counts, length=want.length)
            done += len(ends)
            if done < len(slots):
                begin += words_of_rows(some.tolist(), want.length)
        return words

    def _sparse_row(self, want: m.WantSparseRow) -> Words:
        sketch = _sketch(want.cells, want.length, want.seed)
        words = _zeros(sketch.words)
        (row,) = self._state.co_usages((self._alive(want.slot),))
        sketch.put(words, row.slots, row.counts)
        return words

    def _insertion(self, want: m.WantInsertion) -> Words:
        sketch = _sketch(want.cells, 2 * want.length, want.seed)
        words = _zeros(sketch.words)
        itemset = self._checked(want.slot, want.items)
        _put(sketch, words, self._state.try_insert(want.slot, itemset, want.entry), 0)
        if want.keep:
            self._state.insert(want.slot, itemset, want.entry)
        return words

    def _removals(self, want: m.WantRemovals) -> Words:
        span = 2 * want.length
        sketch = _sketch(want.cells, span * len(want.slots), want.seed)
        words = _zeros(sketch.words)
        alive = tuple([self._alive(slot, itemset=True) for slot in want.slots])
        for k, change in enumerate(self._state.try_removals(alive)):
            _put(sketch, words, change, span * k)
        return words

    def _supports(self, want: m.WantSupports) -> Words:
        counts = np.append(self._state.supports(), self._state.database.transactions)
        return _packed(counts, want.bits)

    def _supports_of(self, want: m.WantSupportOf) -> Words:
        counts = np.array([self._state.support(self._items(items)) for items in want.itemsets], np.int64)
        return _packed(counts, want.bits)

    # A server that lies must not be able to make the kernels look where nothing is.

    def _alive(self, slot: int, *, itemset: bool = False) -> int:
        table = self._state.table
        if slot not in table.itemsets and (itemset or slot >= table.n_items):
            msg = f"the server asked about slot {slot}, in which this client has nothing; it is refused"
            raise ProtocolError(msg)
        return slot

    def _checked(self, slot: int, items: list[int]) -> tuple[int, ...]:
        if slot != (expected := self._state.table.free_slot):
            msg = f"the server puts an itemset into slot {slot}, here slot {expected} is next; it is refused"
            raise ProtocolError(msg)
        itemset = self._items(items)
        if itemset in self._state.table.present:
            msg = "the server puts an itemset into the table that is in it already; it is refused"
            raise ProtocolError(msg)
        return itemset

    def _items(self, items: list[int]) -> tuple[int, ...]:
        if items[-1] >= self._state.database.n_items or not all(map(lt, items, items[1:])):
            msg = "the server named an itemset that is not one of this vocabulary in ascending order; it is refused"
            raise ProtocolError(msg)
        return tuple(items)


def _zeros(words: int) -> Words:
    check_words(words)
    return np.zeros(words, np.uint64)


@lru_cache(maxsize=64)
def _ring(bits: int) -> Ring:
    return Ring(bits, (1 << bits) - 1)


@lru_cache(maxsize=64)
def _sketch(cells: int, universe: int, seed: int) -> Sketch:
    return Sketch(cells, universe, seed)


def _packed(counts: NDArray[np.int64], bits: int) -> Words:
    ring = _ring(bits)
    words = _zeros(ring.words(len(counts)))
    ring.put(words, np.arange(len(counts), dtype=np.int32), counts, length=len(counts))
    return words


def _put(sketch: Sketch, words: Words, change: q.Change, offset: int) -> None:
    sketch.put(words, change.slots, change.lost, stride=2, offset=offset)
    sketch.put(words, change.slots, change.won, stride=2, offset=offset + 1)
