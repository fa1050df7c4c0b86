"""Sketches of sparse sums: long vectors whose sum has few entries, in few words, without revealing positions.

    sketch = Sketch(cells=24, universe=2_000, seed=7)
    sketch.put(words, places, counts)               # one member's entries
    found = sketch.read(sum_of_all_words)           # (places, counts) of the sum, or None if there were too many

A sketch is a linear function of the vector, so the sum of sketches is the sketch of the sum, and masks hide it like any
other vector. The sum reveals its entries and nothing else. The sketch is an invertible Bloom lookup table modulo 2^64;
the probability of a wrong result, rather than none, is about 2^-80.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedslim.errors import RingError
from fedslim.secagg import kernels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedslim.secagg.ring import Words

MAX_PLACES = 1 << int(kernels.ID_BITS)
NARROW = (1 << (int(kernels.NARROW_BITS) - 1)) - 1
"""The largest sum, or difference of sums, in a cell of one word."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """Three tables of cells, and two check words for the whole."""

    per_table: int
    universe: int  # places are 0 … universe - 1
    seed: int = 0
    wide: bool = False  # whether sums may be above `NARROW`: then a cell has two words instead of one

    def __post_init__(self) -> None:
        if not 1 <= self.universe <= MAX_PLACES:
            msg = f"a sketch covers 1 to {MAX_PLACES} places, not {self.universe}"
            raise RingError(msg)
        if not 1 <= self.per_table <= MAX_PLACES:
            msg = f"a sketch has 1 to {MAX_PLACES} cells per table, not {self.per_table}"
            raise RingError(msg)

    @classmethod
    def for_entries(cls, entries: int, universe: int, *, seed: int = 0, wide: bool = False) -> Sketch:
        """Return a sketch that can almost always decode this many entries."""
        return cls(min(11 * entries // 20 + 6, 9 * entries // 20 + 30), universe, seed, wide)

    @property
    def words(self) -> int:
        """The number of words of the sketch."""
        return int(self._size * kernels.TABLES * self.per_table + kernels.CHECK_WORDS)

    @property
    def _size(self) -> int:
        return 2 if self.wide else 1

    def put(
        self,
        words: Words,
        places: NDArray[np.int32],
        counts: NDArray[np.int64],
        *,
        stride: int = 1,
        offset: int = 0,
    ) -> None:
        """Add a member's entries, each at `offset + stride · place`."""
        form = (self.per_table, self._size, self.seed, self.universe)
        if kernels.put_sketch(words, *form, stride, offset, places, counts) >= 0:
            msg = f"entries must be nonnegative counts at places below {self.universe}"
            raise RingError(msg)

    def read(self, words: Words) -> tuple[NDArray[np.int32], NDArray[np.int64]] | None:
        """Return the entries of a sum in ascending order of places; None if there are too many for this sketch.

        Entries may be negative if a sketch was subtracted: that of the entries that were expected.
        """
        if len(words) != self.words:
            msg = f"a sketch of {self.per_table} cells per table takes {self.words} words, not {len(words)}"
            raise RingError(msg)
        most = int(kernels.TABLES) * self.per_table
        places, counts = np.empty(most, np.int32), np.empty(most, np.int64)
        form = (self.per_table, self._size, self.seed, self.universe)
        found = kernels.read_sketch(words.copy(), *form, places, counts)
        if found < 0:
            return None
        order = np.argsort(places[:found])
        return places[order], counts[order]
