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
SPARE_CELLS = 5


@dataclass(frozen=True, slots=True)
class Sketch:
    """Three tables of cells with two words each, and two check words for the whole."""

    per_table: int
    universe: int  # places are 0 … universe - 1
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.universe <= MAX_PLACES:
            msg = f"a sketch covers 1 to {MAX_PLACES} places, not {self.universe}"
            raise RingError(msg)
        if not 1 <= self.per_table <= MAX_PLACES:
            msg = f"a sketch has 1 to {MAX_PLACES} cells per table, not {self.per_table}"
            raise RingError(msg)

    @classmethod
    def for_entries(cls, entries: int, universe: int, *, seed: int = 0) -> Sketch:
        """Return a sketch that can almost always decode this many entries."""
        return cls(-(-entries * 11 // 20) + SPARE_CELLS, universe, seed)

    @property
    def words(self) -> int:
        """The number of words of the sketch."""
        return int(2 * kernels.TABLES * self.per_table + kernels.CHECK_WORDS)

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
        if kernels.put_sketch(words, self.per_table, self.seed, self.universe, stride, offset, places, counts) >= 0:
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
        found = kernels.read_sketch(words.copy(), self.per_table, self.seed, self.universe, places, counts)
        if found < 0:
            return None
        order = np.argsort(places[:found])
        return places[order], counts[order]
