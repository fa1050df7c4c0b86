"""Sketches of sets of ids: the union of the members' ids from a masked sum, and how many members have each.

    sketch = IdSketch.for_entries(500)
    words = sketch.words_of(ids)                    # one member's ids
    found = sketch.read(sum_of_all_words)           # {id: number of members}, or None if there are too many ids

An id has 128 bits, more than a place in a `Sketch`. A cell has four words: how many entries and the sum of their
checks, and the sums of three parts of the ids. A part has at most 43 bits, so no sum over `MAX_MEMBERS` overflows.
Ids are keyed hashes, so their parts serve as the places of their cells.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fedslim.secagg.ring import Words

TABLES, CELL_WORDS, SPARE_CELLS = 3, 4, 5
MAX_MEMBERS = 1 << 12
MAX_PASSES = 32
"""Over the cells of a sketch. A million ids take eight; a lying member can choose ids of which each pass finds two."""
_U = np.uint64
_COUNT_SHIFT, _CHECK_SHIFT = _U(51), _U(26)
_CHECKS = _U((1 << 51) - 1)
_SPLIT = (_U(21), _U(22), _U(42))
_LARGEST = np.array([(1 << 43) - 1, (1 << 43) - 1, (1 << 42) - 1], _U)


@dataclass(frozen=True, slots=True)
class IdSketch:
    """Three tables of cells; each id is in one cell of each table."""

    per_table: int

    @classmethod
    def for_entries(cls, entries: int) -> IdSketch:
        """Return a sketch that can almost always be read if there are this many ids."""
        return cls(-(-entries * 11 // 20) + SPARE_CELLS)

    @property
    def words(self) -> int:
        """The number of words of the sketch."""
        return TABLES * CELL_WORDS * self.per_table

    def words_of(self, ids: Iterable[bytes]) -> Words:
        """Return the sketch of one member's ids, each of which is there once."""
        cells = np.zeros((TABLES * self.per_table, CELL_WORDS), _U)
        parts = _parts(b"".join(ids))
        self._add(cells, parts, np.ones(len(parts), _U))
        return cells.reshape(-1)

    def read(self, words: Words) -> dict[bytes, int] | None:
        """Return the ids of a sum in ascending order, and how many members have each; None if there are too many.

        A cell with a single id reveals it. Removing the id from its other cells may leave single ids there, and so on.
        """
        cells = words.reshape(-1, CELL_WORDS).copy()
        own = np.arange(len(cells), dtype=np.int64)
        found: dict[bytes, int] = {}
        for _ in range(MAX_PASSES):
            if not cells.any():
                return dict(sorted(found.items()))
            counts = cells[:, 0] >> _COUNT_SHIFT
            some = np.maximum(counts, _U(1))
            sums = np.column_stack((cells[:, 1:], cells[:, 0] & _CHECKS))
            parts = sums // some[:, None]
            alone = (counts > 0) & (counts <= MAX_MEMBERS) & (parts * some[:, None] == sums).all(1)
            alone &= (parts[:, :TABLES] <= _LARGEST).all(1) & (_check(parts[:, :TABLES]) == parts[:, TABLES])
            alone &= (self._cells(parts[:, :TABLES]) == own[:, None]).any(1)
            picked, at = np.unique(parts[alone, :TABLES], axis=0, return_index=True)
            ids = _joined(picked)
            if not ids or not found.keys().isdisjoint(ids):
                return None
            times = counts[alone][at]
            found |= zip(ids, times.tolist(), strict=True)
            self._add(cells, picked, _U(0) - times)
        return None

    def _add(self, cells: NDArray[np.uint64], parts: NDArray[np.uint64], times: NDArray[np.uint64]) -> None:
        """Add entries so many times, or remove them with the negative number modulo 2^64."""
        entry = np.column_stack(((_U(1) << _COUNT_SHIFT) | _check(parts), parts)) * times[:, None]
        for table in self._cells(parts).T:
            np.add.at(cells, table, entry)

    def _cells(self, parts: NDArray[np.uint64]) -> NDArray[np.int64]:
        return (parts % _U(self.per_table)).astype(np.int64) + self.per_table * np.arange(TABLES)


def _parts(ids: bytes) -> NDArray[np.uint64]:
    high, low = np.frombuffer(ids, ">u8").astype(_U).reshape(-1, 2).T
    middle = ((high & _U((1 << 21) - 1)) << _SPLIT[1]) | (low >> _SPLIT[2])
    return np.column_stack((high >> _SPLIT[0], middle, low & _U((1 << 42) - 1)))


def _joined(parts: NDArray[np.uint64]) -> list[bytes]:
    first, middle, last = parts.T
    high = (first << _SPLIT[0]) | (middle >> _SPLIT[1])
    low = ((middle & _U((1 << 22) - 1)) << _SPLIT[2]) | last
    data = np.column_stack((high, low)).astype(">u8").tobytes()
    return [data[k : k + 16] for k in range(0, len(data), 16)]


def _check(parts: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash with the finaliser of splitmix64: it is not linear, so a sum of several ids does not pass for one."""
    z = parts[:, 0] * _U(0x9E3779B97F4A7C15) ^ parts[:, 1] * _U(0xD1342543DE82EF95) ^ parts[:, 2]
    z = (z ^ (z >> _U(30))) * _U(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> _U(27))) * _U(0x94D049BB133111EB)
    return (z ^ (z >> _U(31))) >> _CHECK_SHIFT
