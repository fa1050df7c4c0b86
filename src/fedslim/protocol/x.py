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
from fedslim.secagg import Ring, Sketch
from fedslim.secagg.ring import MOST_BITS, put_rows, words_of_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from numpy.typing import NDArray

    from fedslim.data import TransactionDatabase
    from fedslim.protocol.variant import Situation
    from fedslim.secagg.ring import Words

FAILED = None
"""The reading of a sketch that held too much: it must be asked for again."""

MORE = 3
"""By how much more a sketch is made for when one was too small."""

CONTRADICTION = "the sums contradict each other: a member does not count as the protocol says"


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
        self._sizes = _Sizes()

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
            supports = yield from self._counted(_SupportsOf(found, self.transactions))
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
                    if isinstance(wants[k], _Insertion):
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
                return [_Supports(self._situation.items, self._situation.settings.most_transactions)]
            case q.Support(itemset):
                return [_SupportsOf([list(itemset)], self.transactions)]
            case q.CoUsages(slots):
                return self._sizes.rows_for(slots, self.search.usages[list(slots)].tolist(), length)
            case q.TryInsert(slot, itemset, entry):
                return [_Insertion((slot, itemset, entry, max(length, slot + 1), False), self._sizes)]
            case q.TryRemovals(slots):
                return [_Removals(slots, length, self._sizes)]
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
        wants: list[Any] = [_Insertion((slot, itemset, entry, length, True), self._sizes)]
        if removals:
            wants.append(_Removals(removals, length, self._sizes))
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

    def _counted(self, want: Any) -> Generator[Round, Replies, Any]:
        return (yield from self._round([want]))[0]

    def _round(self, wants: list[Any]) -> Generator[Round, Replies, list[Any]]:
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


def _kind(wants: list[Any]) -> str:
    return " and ".join(dict.fromkeys(want.kind for want in wants))


# -- what is asked for: the words it takes, the message that asks, and how the sum is read ----------------------------


class _Supports:
    kind = "supports"

    def __init__(self, items: int, most: int) -> None:
        self._length = items + 1
        self._ring = Ring.for_sums_up_to(most)
        self.words = self._ring.words(self._length)

    def message(self, _number: int) -> m.Want:
        return m.WantSupports(self._ring.bits)

    def read(self, words: Words) -> NDArray[np.int64]:
        return self._ring.read(words, length=self._length)


class _SupportsOf:
    kind = "supports"

    def __init__(self, itemsets: list[list[int]], most: int) -> None:
        self._itemsets = itemsets
        self._ring = Ring.for_sums_up_to(most)
        self.words = self._ring.words(len(itemsets))

    def message(self, _number: int) -> m.Want:
        return m.WantSupportOf(self._itemsets, self._ring.bits)

    def read(self, words: Words) -> list[int]:
        counts: list[int] = self._ring.read(words, length=len(self._itemsets)).tolist()
        return counts


class _Rows:
    """Rows of the pair matrix, packed: no co-usage is above the usage of the row's element."""

    kind = "rows"

    def __init__(self, slots: list[int], usages: list[int], length: int, sizes: _Sizes) -> None:
        self._slots, self._length, self._sizes = slots, length, sizes
        self._rings = [Ring.for_sums_up_to(usage) for usage in usages]
        self.words = sum(ring.words(length) for ring in self._rings)

    def message(self, _number: int) -> m.Want:
        return m.WantRows(self._slots, bytes(ring.bits for ring in self._rings), self._length)

    def read(self, words: Words) -> dict[int, q.SlotCounts]:
        rows, begin = {}, 0
        for slot, ring in zip(self._slots, self._rings, strict=True):
            end = begin + ring.words(self._length)
            counts = ring.read(words[begin:end], length=self._length)
            others = np.flatnonzero(counts)
            rows[slot] = q.SlotCounts(others.astype(np.int32), counts[others])
            self._sizes.learn_row(slot, len(others))
            begin = end
        return rows


class _SparseRow:
    """A row of which few entries are expected."""

    kind = "rows"

    def __init__(self, slot: int, usage: int, length: int, entries: int, sizes: _Sizes) -> None:
        self._slot, self._usage, self._length, self._sizes = slot, usage, length, sizes
        self._sketch = Sketch.for_entries(entries, length)
        self.words = self._sketch.words

    def message(self, number: int) -> m.Want:
        self._sketch = Sketch(self._sketch.per_table, self._length, number)
        return m.WantSparseRow(self._slot, self._length, self._sketch.per_table, number)

    def read(self, words: Words) -> dict[int, q.SlotCounts] | None:
        found = self._sketch.read(words)
        if found is None:
            return FAILED
        self._sizes.learn_row(self._slot, len(found[0]))
        return {self._slot: q.SlotCounts(*found)}

    def larger(self) -> _Rows:
        return _Rows([self._slot], [self._usage], self._length, self._sizes)


class _Trial:
    """What would change: for each slot how many covers lose the element (even places) and win it (odd ones)."""

    def __init__(self, universe: int, entries: int) -> None:
        self._entries = entries
        self._sketch = Sketch.for_entries(entries, universe)

    @property
    def words(self) -> int:
        return self._sketch.words

    def sketch_for(self, number: int) -> Sketch:
        """The same size, with the number of the round as its seed."""
        self._sketch = Sketch(self._sketch.per_table, self._sketch.universe, number)
        return self._sketch

    def found(self, words: Words) -> tuple[NDArray[np.int32], NDArray[np.int64]] | None:
        """What the sum holds."""
        return self._sketch.read(words)

    def more_entries(self) -> int:
        """For how many the next sketch is made; one with room for all there are and more does not fail by chance."""
        if self._entries > MORE * self._sketch.universe:
            raise ProtocolError(CONTRADICTION)
        return MORE * self._entries


class _Insertion(_Trial):
    kind = "insertion"

    def __init__(self, asked: tuple[int, tuple[int, ...], int, int, bool], sizes: _Sizes, entries: int = 0) -> None:
        super().__init__(2 * asked[3], entries or sizes.insertion.guess())
        self._asked, self._sizes = asked, sizes

    def message(self, number: int) -> m.Want:
        slot, itemset, entry, length, keep = self._asked
        return m.WantInsertion(slot, list(itemset), entry, length, self.sketch_for(number).per_table, number, keep)

    def withdrawal(self) -> list[m.Move]:
        """The moves that make it possible to ask again."""
        return [m.Remove(self._asked[0])] if self._asked[4] else []

    def read(self, words: Words) -> q.Change | None:
        found = self.found(words)
        if found is None:
            return FAILED
        self._sizes.insertion.learn(len(found[0]))
        return _change(*found)

    def larger(self) -> _Insertion:
        return _Insertion(self._asked, self._sizes, self.more_entries())


class _Removals(_Trial):
    kind = "removals"

    def __init__(self, slots: tuple[int, ...], length: int, sizes: _Sizes, entries: int | None = None) -> None:
        super().__init__(2 * length * len(slots), entries or sizes.removal.guess(len(slots)))
        self._slots, self._length, self._sizes = slots, length, sizes

    def message(self, number: int) -> m.Want:
        return m.WantRemovals(list(self._slots), self._length, self.sketch_for(number).per_table, number)

    def read(self, words: Words) -> tuple[q.Change, ...] | None:
        found = self.found(words)
        if found is None:
            return FAILED
        places, counts = found
        self._sizes.removal.learn(len(places), len(self._slots))
        span = 2 * self._length
        cuts = np.searchsorted(places, np.arange(1, len(self._slots)) * span)
        parts = zip(np.split(places, cuts), np.split(counts, cuts), strict=True)
        return tuple(_change(own - k * span, its) for k, (own, its) in enumerate(parts))

    def larger(self) -> _Removals:
        return _Removals(self._slots, self._length, self._sizes, self.more_entries())


def _change(places: NDArray[Any], counts: NDArray[np.int64]) -> q.Change:
    """Lost and won, by slot, from entries in ascending order of places."""
    slots, where = np.unique(places >> 1, return_inverse=True)
    both = np.zeros((2, len(slots)), np.int64)
    both[places & 1, where] = counts
    return q.Change(slots.astype(np.int32), both[0], both[1])


class _Guess:
    """How many entries the next trial will have, going by the last ones: too few cost a round, too many bytes."""

    def __init__(self, first: float) -> None:
        self._mean, self._spread = first, first / 2

    def guess(self, trials: int = 1) -> int:
        """For so many trials."""
        return int(trials * self._mean + 3.0 * trials**0.5 * self._spread) + 1

    def learn(self, entries: int, trials: int = 1) -> None:
        """So many it were."""
        each = entries / trials
        self._spread += (abs(each - self._mean) - self._spread) / 16
        self._mean += (each - self._mean) / 16


class _Sizes:
    """What is known of how full answers are: it decides how they are asked for, never what they say."""

    def __init__(self) -> None:
        self.insertion = _Guess(4.0)
        self.removal = _Guess(6.0)
        self._rows: dict[int, int] = {}  # how many entries the row of a slot had when it was last seen
        self._first: dict[int, _Guess] = {}  # and how many new ones have, by the number of bits of their usage
        self._new: dict[int, int] = {}  # the bits of those that are being asked for the first time

    def rows_for(self, slots: tuple[int, ...], usages: list[int], length: int) -> list[_Rows | _SparseRow]:
        """Each row in the way that takes fewer words: packed, or sketched for somewhat more entries than last time."""
        packed: list[tuple[int, int]] = []
        wants: list[_Rows | _SparseRow] = []
        for slot, usage in zip(slots, usages, strict=True):
            words = -(-length // (64 // max(1, usage.bit_length())))
            entries = self._entries(slot, usage)
            if 4 * entries < words:
                sparse = _SparseRow(slot, usage, length, entries + entries // 8 + 4, self)
                if sparse.words < words:
                    wants.append(sparse)
                    continue
            packed.append((slot, usage))
        if packed:
            wants.append(_Rows([slot for slot, _ in packed], [usage for _, usage in packed], length, self))
        return wants

    def _entries(self, slot: int, usage: int) -> int:
        """How many entries to be prepared for."""
        if (seen := self._rows.get(slot)) is not None:
            return min(seen, usage * 8)
        self._new[slot] = bits = usage.bit_length()
        return self._first.setdefault(bits, _Guess(4.0 * usage)).guess()

    def learn_row(self, slot: int, entries: int) -> None:
        """So many it were."""
        if (bits := self._new.pop(slot, None)) is not None:
            self._first[bits].learn(entries)
        self._rows[slot] = entries

    def forget_row(self, slot: int) -> None:
        """Another element is going to be in this slot."""
        self._rows.pop(slot, None)


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
