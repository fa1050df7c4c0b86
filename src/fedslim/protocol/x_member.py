"""X at a member: the covers of its transactions, what may be asked about them, and the answers.

The server's side, and how the two fit together, is in `x.py`.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from fedslim.errors import ProtocolError
from fedslim.mdl.cover_state import CoverState
from fedslim.protocol import messages as m
from fedslim.protocol.sums import check_words
from fedslim.protocol.variant import UnmaskedWords as Answer
from fedslim.secagg import Ring, Sketch
from fedslim.secagg.ring import MAX_BITS, put_rows, words_of_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from fedslim.data import TransactionDatabase
    from fedslim.mdl import questions as q
    from fedslim.secagg.ring import Words


MAX_TRIED = 3
"""Candidates that a search asks about at once."""

MAX_ENTERING = 2
"""Itemsets that enter in one round: one that was tried before, and one that is expected to stay."""


class Phase(Enum):
    """How far a run is: which questions may come."""

    START = "at the start"
    SEARCH = "during the search"
    FINAL = "after the search"


class XMember:
    """Keeps the covers of one member's transactions, and answers with masked words.

    It answers what the search can ask, and nothing else: supports of items to begin with; then rows, trials and moves
    that are about elements of the table and unions of two of them; at the end counts of the table that was found.
    """

    def __init__(self, database: TransactionDatabase, settings: m.Settings, members: int) -> None:
        self._state = CoverState(database)
        self._settings, self._members = settings, members
        self._phase = Phase.START
        self._dropped = False  # whether rare items were
        self._removed: list[tuple[int, tuple[int, ...], int]] = []  # what may come back, the last one first
        self._answers: dict[type[m.Want], Callable[[Any], Words]] = {
            m.WantRows: self._rows,
            m.WantSparseRow: self._sparse_row,
            m.WantInsertion: self._insertion,
            m.WantRemovals: self._removals,
            m.WantSupports: self._supports,
            m.WantUnionSupport: self._union_support,
            m.WantFinal: self._final,
        }

    def own_table(self) -> None:
        """See `MemberSide`: there is one table for all, and the server tells it."""

    def is_final(self, message: m.Ask) -> bool:
        """See `MemberSide`."""
        return any(isinstance(want, m.WantFinal) for want in message.wants)

    def check_end(self, table: m.PackedTable) -> None:
        """See `MemberSide`: its itemsets are those that everybody has covered with."""
        ours = [(list(self._state.table.itemsets[s]), self._state.table.entries[s]) for s in self._state.table]
        if [(element.items, element.entry) for element in table.itemsets] != ours:
            msg = "the server's result is not the table that this member has covered with; it is refused"
            raise ProtocolError(msg)
        if table.min_count != self._settings.min_count:
            msg = f"the server's result says that its smallest count is {table.min_count}; it is refused"
            raise ProtocolError(msg)

    def answer(self, message: m.Ask) -> Answer:
        """Make the moves, count what is asked for."""
        self._phase = self._next_phase(message)
        for move in message.moves:
            self._make(move)
        answers: list[Words] = []
        for want in message.wants:
            answers.append(self._answers[type(want)](want))
            check_words(sum(map(len, answers)))
        return Answer("x answers", answers[0] if len(answers) == 1 else np.concatenate(answers))

    def _next_phase(self, message: m.Ask) -> Phase:
        """Where the run is after this, if it can be asked now.

        A search tries a few candidates in a round: whoever tries many in one wants something else.
        """
        kinds = [type(want) for want in message.wants]
        tried = kinds.count(m.WantInsertion) + kinds.count(m.WantUnionSupport)
        entering = sum([want.keep for want in message.wants if type(want) is m.WantInsertion])
        entering += sum([type(move) is m.InsertUnion for move in message.moves])
        if entering > MAX_ENTERING or tried > MAX_TRIED:
            msg = (
                f"the server tries {tried} itemsets in a round and has {entering} enter; a search does no more than "
                f"{MAX_TRIED} and {MAX_ENTERING}, so it is refused"
            )
            raise ProtocolError(msg)
        match self._phase:
            case Phase.START if kinds == [m.WantSupports] and not message.moves:
                return Phase.SEARCH
            case Phase.SEARCH if kinds == [m.WantFinal]:
                return Phase.FINAL
            case Phase.SEARCH if m.WantSupports not in kinds and m.WantFinal not in kinds:
                return Phase.SEARCH
            case Phase.FINAL if kinds == [m.WantFinal] and {type(move) for move in message.moves} == {m.RemoveElement}:
                return Phase.FINAL
        what = ", ".join(sorted({kind.__name__ for kind in (*kinds, *map(type, message.moves))}))
        msg = f"the server asked for {what} {self._phase.value}; the search never does, so it is refused"
        raise ProtocolError(msg)

    # -- moves --------------------------------------------------------------------------------------------------

    def _make(self, move: m.Move) -> None:
        match move:
            case m.InsertUnion():
                self._state.insert(move.slot, self._union(move), move.entry)
                self._removed.clear()
            case m.RemoveElement(slot):
                table = self._state.table
                self._removed.append((self._alive(slot, itemset=True), table.itemsets[slot], table.entries[slot]))
                self._state.remove(slot)
            case m.RestoreElement(slot):
                if not self._removed or self._removed[-1][0] != slot:
                    msg = f"the server brings back slot {slot}, which is not what was removed last; it is refused"
                    raise ProtocolError(msg)
                self._state.insert(*self._removed.pop())
            case m.DropItems(items):
                self._drop(items)

    def _drop(self, items: m.Vector) -> None:
        numbers = items.values(self._state.database.n_items - 1).tolist()
        if self._settings.min_count == 1 or self._dropped or self._length > self._state.database.n_items:
            msg = "the server drops items, which is done once, at the start, for a smallest count; it is refused"
            raise ProtocolError(msg)
        self._dropped = True
        self._state.drop(tuple(numbers))

    # -- answers ------------------------------------------------------------------------------------------------

    @property
    def _length(self) -> int:
        """All slots that were ever used are below it: what an answer is about does not depend on what is in them."""
        return self._state.table.fresh_slot

    def _rows(self, want: m.WantRows) -> Words:
        for slot in want.slots:
            self._alive(slot)
        if len(want.bits) != len(want.slots) or not all(1 <= bits <= MAX_BITS for bits in want.bits):
            msg = f"the server asked for {len(want.slots)} rows with {len(want.bits)} widths; it is refused"
            raise ProtocolError(msg)
        length = self._length
        words = _zeros(words_of_rows(want.bits, length))
        slots, bits = np.array(want.slots, np.int64), np.frombuffer(want.bits, np.uint8)
        done, begin = 0, 0
        while done < len(slots):
            ends, others, counts = self._state.rows(slots[done:])
            some = bits[done : done + len(ends)]
            put_rows(words[begin:], some, ends, others, counts, length=length)
            done += len(ends)
            if done < len(slots):
                begin += words_of_rows(some.tolist(), length)
        return words

    def _sparse_row(self, want: m.WantSparseRow) -> Words:
        sketch = _sketch(want.cells, self._length, want.seed)
        words = _zeros(sketch.words)
        (row,) = self._state.co_usages((self._alive(want.slot),))
        sketch.put(words, row.slots, row.counts)
        return words

    def _insertion(self, want: m.WantInsertion) -> Words:
        itemset = self._union(want)
        sketch = _sketch(want.cells, 2 * max(self._length, want.slot + 1), want.seed)
        words = _zeros(sketch.words)
        _put(sketch, words, self._state.try_insert(want.slot, itemset, want.entry), 0)
        if want.keep:
            self._state.insert(want.slot, itemset, want.entry)
            self._removed.clear()
        return words

    def _removals(self, want: m.WantRemovals) -> Words:
        span = 2 * self._length
        sketch = _sketch(want.cells, span * len(want.slots), want.seed)
        words = _zeros(sketch.words)
        alive = tuple([self._alive(slot, itemset=True) for slot in want.slots])
        for k, change in enumerate(self._state.try_removals(alive)):
            _put(sketch, words, change, span * k)
        return words

    def _supports(self, _want: m.WantSupports) -> Words:
        counts = np.append(self._state.supports(), self._state.database.transactions)
        return _pack(counts, Ring.for_sums_up_to(self._settings.max_transactions).bits)

    def _union_support(self, want: m.WantUnionSupport) -> Words:
        if self._settings.min_support == 1 and self._settings.order == "usage":
            msg = "the server asked for the support of a candidate, which nothing that was agreed on needs; refused"
            raise ProtocolError(msg)
        return _pack(np.array([self._state.support(self._joined(want.parents))], np.int64), want.bits)

    def _final(self, want: m.WantFinal) -> Words:
        table = self._state.table
        usages = self._state.usages[table.order]
        supports = np.array([self._state.support(table.itemsets[s]) for s in table], np.int64)
        words = _pack(np.concatenate((usages, supports)), want.bits)
        if self._settings.min_members_with == 1:
            return words
        has = np.concatenate((usages, self._state.supports())) > 0
        return np.concatenate((words, _pack(has.astype(np.int64), Ring.for_sums_up_to(self._members).bits)))

    # A server that lies must not be able to make the kernels look where nothing is, nor ask about what it likes.

    def _alive(self, slot: int, *, itemset: bool = False) -> int:
        table = self._state.table
        if slot not in table.itemsets and (itemset or slot >= table.n_items):
            msg = f"the server asked about slot {slot}, in which this member has nothing; it is refused"
            raise ProtocolError(msg)
        return slot

    def _joined(self, parents: tuple[int, int]) -> tuple[int, ...]:
        """The union of two elements of the table, which have no item in common."""
        table, (x, y) = self._state.table, parents
        itemset = tuple(sorted(table.items_of(self._alive(x)) + table.items_of(self._alive(y))))
        if len(set(itemset)) != len(itemset):
            msg = "the server joins two elements that have items in common; it is refused"
            raise ProtocolError(msg)
        longest = self._settings.max_itemset_size
        if longest is not None and len(itemset) > longest:
            msg = f"the server joins elements to an itemset of {len(itemset)} items; {longest} were agreed on. Refused"
            raise ProtocolError(msg)
        return itemset

    def _union(self, new: m.InsertUnion | m.WantInsertion) -> tuple[int, ...]:
        """The itemset that is to enter, if it may."""
        if new.slot != (expected := self._state.table.free_slot):
            msg = f"the server puts an itemset into slot {new.slot}, here slot {expected} is next; it is refused"
            raise ProtocolError(msg)
        itemset = self._joined(new.parents)
        if itemset in self._state.table.present:
            msg = "the server puts an itemset into the table that is in it already; it is refused"
            raise ProtocolError(msg)
        if new.entry < self._settings.min_count:
            msg = f"the server puts in an itemset used {new.entry} times, below the smallest count; it is refused"
            raise ProtocolError(msg)
        return itemset


def _zeros(words: int) -> Words:
    check_words(words)
    return np.zeros(words, np.uint64)


@lru_cache(maxsize=64)
def _ring(bits: int) -> Ring:
    return Ring(bits, (1 << bits) - 1)


@lru_cache(maxsize=64)
def _sketch(cells: int, universe: int, seed: int) -> Sketch:
    return Sketch(cells, universe, seed)


def _pack(counts: NDArray[np.int64], bits: int) -> Words:
    if bits > MAX_BITS:
        msg = f"the server asked for counts of {bits} bits; {MAX_BITS} are the most. It is refused"
        raise ProtocolError(msg)
    ring = _ring(bits)
    words = _zeros(ring.words(len(counts)))
    ring.put(words, np.arange(len(counts), dtype=np.int32), counts, length=len(counts))
    return words


def _put(sketch: Sketch, words: Words, change: q.Change, offset: int) -> None:
    sketch.put(words, change.slots, change.lost, stride=2, offset=offset)
    sketch.put(words, change.slots, change.won, stride=2, offset=offset + 1)
