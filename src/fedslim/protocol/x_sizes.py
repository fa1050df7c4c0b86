"""How large the server of X makes the answers that it asks for.

How many entries an answer has is not known before it is there, so the server guesses from those before. If a sketch
held too much, the server asks again for a larger one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from fedslim.errors import ProtocolError
from fedslim.protocol import messages as m
from fedslim.protocol.x_queries import bits_for, sketch_of
from fedslim.secagg import Sketch
from fedslim.secagg.ring import words_of_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedslim.mdl import questions as q
    from fedslim.protocol.x_queries import Shape

MORE = 3
"""By how much more a sketch is made for when one was too small."""

SUMS_CONTRADICT = "the sums contradict each other: a member does not count as the protocol says"


class Asked(NamedTuple):
    """A want, and what the server alone knows of it."""

    want: m.Want
    bounds: Sequence[int] = ()  # proven, of the sums in each packed vector
    entries: int = 0  # for how many a sketch was made


def ask_rows(slots: list[int], usages: Sequence[int]) -> Asked:
    """Packed rows of the pair matrix: no co-usage is above the usage of the row's element."""
    return Asked(m.WantRows(slots, bytes(map(bits_for, usages))), usages)


def enlarge(asked: Asked, shape: Shape, seed: int) -> Asked:
    """The same with more room; a sketch with room for all places there are and more does not fail by chance."""
    match asked.want:
        case m.WantSparseRow(slot):
            return ask_rows([slot], asked.bounds)
        case m.WantInsertion() | m.WantRemovals() as want:
            if asked.entries > MORE * sketch_of(want, shape).universe:
                raise ProtocolError(SUMS_CONTRADICT)
            entries = MORE * asked.entries
            return Asked(replace(want, cells=_cells_for(entries), seed=seed), entries=entries)
    raise AssertionError(asked)


def _cells_for(entries: int) -> int:
    return Sketch.for_entries(entries, universe=1).per_table


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
        self._insertion = Guess(4.0)
        self._removal = Guess(6.0)
        self._rows: dict[int, int] = {}  # how many entries the row of a slot had when it was last seen
        self._first: dict[int, Guess] = {}  # and how many new ones have, by the number of bits of their usage
        self._new: dict[int, int] = {}  # the bits of those that are being asked for the first time

    def ask_insertion(self, new: q.Insert | q.TryInsert, seed: int, *, keep: bool) -> Asked:
        """What an itemset would change, or has changed, by entering the table."""
        entries = self._insertion.guess()
        want = m.WantInsertion(new.slot, new.parents, new.entry, _cells_for(entries), seed, keep)
        return Asked(want, entries=entries)

    def ask_removals(self, slots: tuple[int, ...], seed: int) -> Asked:
        """What each of several removals would change."""
        entries = self._removal.guess(len(slots))
        return Asked(m.WantRemovals(list(slots), _cells_for(entries), seed), entries=entries)

    def ask_rows(self, slots: tuple[int, ...], usages: list[int], length: int, seed: int) -> list[Asked]:
        """Each row in the way that takes fewer words: packed, or sketched for somewhat more entries than last time."""
        packed: list[tuple[int, int]] = []
        sparse: list[Asked] = []
        for slot, usage in zip(slots, usages, strict=True):
            words = words_of_rows((bits_for(usage),), length)
            entries = self._entries(slot, usage)
            if 4 * entries < words:
                sketch = Sketch.for_entries(entries + entries // 8 + 4, length)
                if sketch.words < words:
                    sparse.append(Asked(m.WantSparseRow(slot, sketch.per_table, seed), (usage,)))
                    continue
            packed.append((slot, usage))
        return [*sparse, ask_rows(*map(list, zip(*packed, strict=True)))] if packed else sparse

    def _entries(self, slot: int, usage: int) -> int:
        """How many entries to be prepared for."""
        if (seen := self._rows.get(slot)) is not None:
            return min(seen, usage * 8)
        self._new[slot] = bits = usage.bit_length()
        return self._first.setdefault(bits, Guess(4.0 * usage)).guess()

    def learn(self, want: m.Want, reading: Any) -> None:
        """How many entries there were."""
        match want:
            case m.WantInsertion():
                self._insertion.learn(_entries_of(reading))
            case m.WantRemovals(slots):
                self._removal.learn(sum(map(_entries_of, reading)), len(slots))
            case m.WantRows() | m.WantSparseRow():
                for slot, row in reading.items():
                    if (bits := self._new.pop(slot, None)) is not None:
                        self._first[bits].learn(len(row.slots))
                    self._rows[slot] = len(row.slots)

    def forget_row(self, slot: int) -> None:
        """Another element is going to be in this slot."""
        self._rows.pop(slot, None)


def _entries_of(change: q.Change) -> int:
    return int(np.count_nonzero(change.lost) + np.count_nonzero(change.won))
