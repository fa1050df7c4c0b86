"""What a server of X asks for: the words that an answer takes, the message that asks, and how the sum is read.

How many entries an answer has is not known before it is there, so it is guessed from those before; where a sketch held
too much, it is asked for again, larger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from fedslim.errors import ProtocolError
from fedslim.mdl import questions as q
from fedslim.protocol import messages as m
from fedslim.secagg import Ring, Sketch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedslim.secagg.ring import Words

FAILED = None
"""The reading of a sketch that held too much: it must be asked for again."""

MORE = 3
"""By how much more a sketch is made for when one was too small."""

SUMS_CONTRADICT = "the sums contradict each other: a member does not count as the protocol says"


class Want(Protocol):
    """One question to all members."""

    kind: str

    @property
    def words(self) -> int:
        """How many words of a member's answer are for it."""

    def message(self, number: int) -> m.Want:
        """How it is put, in the round of this number."""

    def read(self, words: Words) -> Any:
        """What the sum of all answers says, or FAILED."""

    # Those that may fail also have `larger`: the same with more room, to be asked next.


class Supports:
    """The support of every item, and the number of transactions."""

    kind = "supports"

    def __init__(self, items: int, most: int) -> None:
        self._length = items + 1
        self._ring = Ring.for_sums_up_to(most)
        self.words = self._ring.words(self._length)

    def message(self, _number: int) -> m.Want:
        """See `Want`."""
        return m.WantSupports()

    def read(self, words: Words) -> NDArray[np.int64]:
        """See `Want`."""
        return self._ring.read(words, length=self._length)


class UnionSupport:
    """The support of the union of two elements."""

    kind = "supports"

    def __init__(self, parents: tuple[int, int], most: int) -> None:
        self._parents = parents
        self._ring = Ring.for_sums_up_to(most)
        self.words = 1

    def message(self, _number: int) -> m.Want:
        """See `Want`."""
        return m.WantUnionSupport(self._parents, self._ring.bits)

    def read(self, words: Words) -> int:
        """See `Want`."""
        return int(self._ring.read(words, length=1)[0])


class FinalCounts(NamedTuple):
    """Of each itemset of the table, in cover order: its usage, its support, and how many members use it.

    And of each item, how many members have it.
    """

    usages: NDArray[np.int64]
    supports: NDArray[np.int64]
    members: NDArray[np.int64] | None = None  # where nobody needs to know, nobody is asked
    members_with_item: NDArray[np.int64] | None = None


class Final:
    """What is asked for when the table is found."""

    kind = "supports"

    def __init__(self, itemsets: int, items: int, most: int, members: int) -> None:
        self._itemsets, self._both = itemsets, itemsets + items
        self._ring = Ring.for_sums_up_to(most)
        self._members = Ring.for_sums_up_to(members) if members else None
        self._split = self._ring.words(2 * itemsets)
        self.words = self._split + (self._members.words(self._both) if self._members else 0)

    def message(self, _number: int) -> m.Want:
        """See `Want`."""
        return m.WantFinal(self._ring.bits)

    def read(self, words: Words) -> FinalCounts:
        """See `Want`."""
        counts = self._ring.read(words[: self._split], length=2 * self._itemsets)
        usages, supports = counts[: self._itemsets], counts[self._itemsets :]
        if self._members is None:
            return FinalCounts(usages, supports)
        members = self._members.read(words[self._split :], length=self._both)
        return FinalCounts(usages, supports, members[: self._itemsets], members[self._itemsets :])


class Rows:
    """Rows of the pair matrix, packed: no co-usage is above the usage of the row's element."""

    kind = "rows"

    def __init__(self, slots: list[int], usages: list[int], length: int, sizes: Sizes) -> None:
        self._slots, self._length, self._sizes = slots, length, sizes
        self._rings = [Ring.for_sums_up_to(usage) for usage in usages]
        self.words = sum(ring.words(length) for ring in self._rings)

    def message(self, _number: int) -> m.Want:
        """See `Want`."""
        return m.WantRows(self._slots, bytes(ring.bits for ring in self._rings))

    def read(self, words: Words) -> dict[int, q.SlotCounts]:
        """See `Want`."""
        rows, begin = {}, 0
        for slot, ring in zip(self._slots, self._rings, strict=True):
            end = begin + ring.words(self._length)
            counts = ring.read(words[begin:end], length=self._length)
            others = np.flatnonzero(counts)
            rows[slot] = q.SlotCounts(others.astype(np.int32), counts[others])
            self._sizes.learn_row(slot, len(others))
            begin = end
        return rows


class SparseRow:
    """A row of which few entries are expected."""

    kind = "rows"

    def __init__(self, slot: int, usage: int, length: int, entries: int, sizes: Sizes) -> None:
        self._slot, self._usage, self._length, self._sizes = slot, usage, length, sizes
        self._sketch = Sketch.for_entries(entries, length)
        self.words = self._sketch.words

    def message(self, number: int) -> m.Want:
        """See `Want`."""
        self._sketch = Sketch(self._sketch.per_table, self._length, number)
        return m.WantSparseRow(self._slot, self._sketch.per_table, number)

    def read(self, words: Words) -> dict[int, q.SlotCounts] | None:
        """See `Want`."""
        found = self._sketch.read(words)
        if found is None:
            return FAILED
        self._sizes.learn_row(self._slot, len(found[0]))
        return {self._slot: q.SlotCounts(*found)}

    def larger(self) -> Rows:
        """See `Want`."""
        return Rows([self._slot], [self._usage], self._length, self._sizes)


class Trial:
    """What would change: for each slot how many covers lose the element (even places) and win it (odd ones)."""

    def __init__(self, universe: int, entries: int) -> None:
        self._entries = entries
        self._sketch = Sketch.for_entries(entries, universe)

    @property
    def words(self) -> int:
        """See `Want`."""
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
            raise ProtocolError(SUMS_CONTRADICT)
        return MORE * self._entries


class Insertion(Trial):
    """What an itemset would change, or has changed, by entering the table."""

    kind = "insertion"

    def __init__(
        self, move: q.Insert | q.TryInsert, length: int, sizes: Sizes, *, keep: bool, entries: int = 0
    ) -> None:
        super().__init__(2 * length, entries or sizes.insertion.guess())
        self._move, self._length, self._sizes, self._keep = move, length, sizes, keep

    def message(self, number: int) -> m.Want:
        """See `Want`."""
        move, cells = self._move, self.sketch_for(number).per_table
        return m.WantInsertion(move.slot, move.parents, move.entry, cells, number, self._keep)

    def withdrawal(self) -> list[m.Move]:
        """The moves that make it possible to ask again."""
        return [m.RemoveElement(self._move.slot)] if self._keep else []

    def read(self, words: Words) -> q.Change | None:
        """See `Want`."""
        found = self.found(words)
        if found is None:
            return FAILED
        self._sizes.insertion.learn(len(found[0]))
        return _change(*found)

    def larger(self) -> Insertion:
        """See `Want`."""
        return Insertion(self._move, self._length, self._sizes, keep=self._keep, entries=self.more_entries())


class Removals(Trial):
    """What each of several removals would change."""

    kind = "removals"

    def __init__(self, slots: tuple[int, ...], length: int, sizes: Sizes, entries: int | None = None) -> None:
        super().__init__(2 * length * len(slots), entries or sizes.removal.guess(len(slots)))
        self._slots, self._length, self._sizes = slots, length, sizes

    def message(self, number: int) -> m.Want:
        """See `Want`."""
        return m.WantRemovals(list(self._slots), self.sketch_for(number).per_table, number)

    def read(self, words: Words) -> tuple[q.Change, ...] | None:
        """See `Want`."""
        found = self.found(words)
        if found is None:
            return FAILED
        places, counts = found
        self._sizes.removal.learn(len(places), len(self._slots))
        span = 2 * self._length
        cuts = np.searchsorted(places, np.arange(1, len(self._slots)) * span)
        parts = zip(np.split(places, cuts), np.split(counts, cuts), strict=True)
        return tuple(_change(own - k * span, its) for k, (own, its) in enumerate(parts))

    def larger(self) -> Removals:
        """See `Want`."""
        return Removals(self._slots, self._length, self._sizes, self.more_entries())


def _change(places: NDArray[Any], counts: NDArray[np.int64]) -> q.Change:
    """Lost and won, by slot, from entries in ascending order of places."""
    slots, where = np.unique(places >> 1, return_inverse=True)
    both = np.zeros((2, len(slots)), np.int64)
    both[places & 1, where] = counts
    return q.Change(slots.astype(np.int32), both[0], both[1])


class Guess:
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


class Sizes:
    """What is known of how full answers are: it decides how they are asked for, never what they say."""

    def __init__(self) -> None:
        self.insertion = Guess(4.0)
        self.removal = Guess(6.0)
        self._rows: dict[int, int] = {}  # how many entries the row of a slot had when it was last seen
        self._first: dict[int, Guess] = {}  # and how many new ones have, by the number of bits of their usage
        self._new: dict[int, int] = {}  # the bits of those that are being asked for the first time

    def rows_for(self, slots: tuple[int, ...], usages: list[int], length: int) -> list[Rows | SparseRow]:
        """Each row in the way that takes fewer words: packed, or sketched for somewhat more entries than last time."""
        packed: list[tuple[int, int]] = []
        wants: list[Rows | SparseRow] = []
        for slot, usage in zip(slots, usages, strict=True):
            words = -(-length // (64 // max(1, usage.bit_length())))
            entries = self._entries(slot, usage)
            if 4 * entries < words:
                sparse = SparseRow(slot, usage, length, entries + entries // 8 + 4, self)
                if sparse.words < words:
                    wants.append(sparse)
                    continue
            packed.append((slot, usage))
        if packed:
            wants.append(Rows([slot for slot, _ in packed], [usage for _, usage in packed], length, self))
        return wants

    def _entries(self, slot: int, usage: int) -> int:
        """How many entries to be prepared for."""
        if (seen := self._rows.get(slot)) is not None:
            return min(seen, usage * 8)
        self._new[slot] = bits = usage.bit_length()
        return self._first.setdefault(bits, Guess(4.0 * usage)).guess()

    def learn_row(self, slot: int, entries: int) -> None:
        """So many it were."""
        if (bits := self._new.pop(slot, None)) is not None:
            self._first[bits].learn(entries)
        self._rows[slot] = entries

    def forget_row(self, slot: int) -> None:
        """Another element is going to be in this slot."""
        self._rows.pop(slot, None)
