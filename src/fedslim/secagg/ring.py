"""Pack counts into 64-bit words, each in k bits (the ring Z/2^k), with k just large enough for the bound of the sum.

    ring = Ring.for_sums_up_to(340_183)                 # 19 bits, three counts per word
    words = np.zeros(ring.words(900), np.uint64)
    ring.put(words, places, counts, length=900)         # one member's vector
    totals = ring.read(sum_of_all_words, length=900)

Words are added modulo 2^64. Counts do not overflow into their neighbours because no sum exceeds the bound. A count that
does not fit wraps around, because refusing to answer would reveal that it is large. The sum is then wrong, and most
likely above the bound, which `read` detects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedslim.errors import RingError
from fedslim.secagg import kernels

Words = NDArray[np.uint64]

WORD_BITS = 64
MAX_BITS = 56
"""Entries, their sums and the bounds fit int64 with room to spare."""


@dataclass(frozen=True, slots=True)
class Ring:
    """Z/2^bits, for sums from 0 to `bound`."""

    bits: int
    bound: int

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= MAX_BITS:
            raise RingError(f"a ring has 1 to {MAX_BITS} bits, not {self.bits}")
        if not 0 <= self.bound < 1 << self.bits:
            raise RingError(f"sums up to {self.bound} do not fit a ring of {self.bits} bits; use Ring.for_sums_up_to")

    @classmethod
    def for_sums_up_to(cls, bound: int) -> Ring:
        """Return the smallest ring in which no sum up to this bound wraps around."""
        if bound < 0:
            raise RingError(f"a bound cannot be negative: {bound}")
        return cls(max(1, bound.bit_length()), bound)

    def words(self, length: int) -> int:
        """Return the number of words for a vector of this length."""
        return -(-length // (WORD_BITS // self.bits))

    def put(self, words: Words, places: NDArray[np.int32], counts: NDArray[np.int64], *, length: int) -> None:
        """Add counts, modulo 2^bits, to a vector at their places (each place once)."""
        put_rows(words[None], np.array([self.bits], np.uint8), np.array([len(places)]), places, counts, length=length)

    def read(self, words: Words, *, length: int) -> NDArray[np.int64]:
        """Return the sums in a vector; raise `RingError` if one exceeds the bound."""
        counts = np.empty(length, np.int64)
        if len(words) != self.words(length):
            raise RingError(f"{length} counts of {self.bits} bits take {self.words(length)} words, not {len(words)}")
        if not kernels.read_lanes(words, self.bits, counts) or (length and int(counts.max()) > self.bound):
            msg = (
                f"a sum exceeds its bound of {self.bound}: a member sent a wrong answer, or the masks do not cancel; "
                "the round must not be used"
            )
            raise RingError(msg)
        return counts


def words_of_rows(bits: Sequence[int], length: int) -> int:
    """Return the number of words for vectors of this length, each in its own ring."""
    return sum(-(-length // (WORD_BITS // width)) for width in bits)


def put_rows(  # noqa: PLR0913  # several vectors in flat arrays
    words: Words,
    bits: NDArray[np.uint8],
    ends: NDArray[np.int64],
    places: NDArray[np.int32],
    counts: NDArray[np.int64],
    *,
    length: int,
    begin: int = 0,
) -> None:
    """Add several vectors one after another, vector v in a ring of `bits[v]` bits, from word `begin` on.

    `words` has a row for each of n members; the entries of member p's vector v end before `ends[v * n + p]`.
    """
    bad = kernels.put_rows(words, begin, bits, length, ends, places, counts)
    if bad >= 0:
        raise RingError(f"place {int(places[bad])} is out of range; each vector has {length} places")


class Fields:
    """Counts of different widths, one after the other in as few words as possible, each in its own ring."""

    def __init__(self, widths: NDArray[np.uint8]) -> None:
        if len(widths) and not 1 <= int(widths.min()) <= int(widths.max()) <= MAX_BITS:
            raise RingError(f"fields have 1 to {MAX_BITS} bits")
        self._widths = widths
        self.word_of = np.empty(len(widths), np.int64)
        """The word of each field: a sum that is too large for its field spoils others in the same word."""
        self.words = int(kernels.place_fields(widths, self.word_of))

    def put(self, words: Words, counts: NDArray[np.int64]) -> None:
        """Write the counts of some members, each modulo 2^width, into words that are zero: a row for each member."""
        kernels.put_fields(words, self._widths, counts)

    def read(self, words: Words) -> NDArray[np.int64]:
        """Return the sums; the caller knows whether each is below 2^width."""
        counts = np.empty(len(self._widths), np.int64)
        kernels.read_fields(words, self._widths, counts)
        return counts


# -- sketches of sparse sums ------------------------------------------------------------------------------------------

MAX_PLACES = 1 << int(kernels.ID_BITS)
NARROW = (1 << (int(kernels.NARROW_BITS) - 1)) - 1
"""The largest sum, or difference of sums, in a cell of one word."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """Four tables of cells, and two check words for the whole.

    For long vectors whose sum has few entries: it takes few words, and reveals the entries of the sum and nothing else,
    not even their positions at a member. A sketch is a linear function of the vector, so the sum of sketches is the
    sketch of the sum, and masks hide it like any other vector. It is an invertible Bloom lookup table modulo 2^64; the
    probability of a wrong result, rather than none, is about 2^-80.
    """

    per_table: int
    universe: int  # places are 0 … universe - 1
    seed: int = 0
    wide: bool = False  # whether sums may be above `NARROW`: then a cell has two words instead of one

    def __post_init__(self) -> None:
        if not 1 <= self.universe <= MAX_PLACES:
            raise RingError(f"a sketch covers 1 to {MAX_PLACES} places, not {self.universe}")
        if not 1 <= self.per_table <= MAX_PLACES:
            raise RingError(f"a sketch has 1 to {MAX_PLACES} cells per table, not {self.per_table}")

    @classmethod
    def for_entries(cls, entries: int, universe: int, *, seed: int = 0, wide: bool = False) -> Sketch:
        """Return a sketch that can almost always decode this many entries."""
        return cls(17 * entries // 50 + 5, universe, seed, wide)

    @property
    def words(self) -> int:
        """The number of words of the sketch."""
        return int((1 + self.wide) * kernels.TABLES * self.per_table + kernels.CHECK_WORDS)

    @property
    def _form(self) -> tuple[int, int, int, int]:
        return self.per_table, 1 + self.wide, self.seed, self.universe

    def put(self, words: Words, places: NDArray[np.int32], counts: NDArray[np.int64]) -> None:
        """Add a member's entries."""
        self._check(valid=kernels.put_sketch(words, *self._form, places, counts))

    def put_pairs(
        self,
        words: Words,
        ends: NDArray[np.int64],
        slots: NDArray[np.int32],
        even: NDArray[np.int64],
        odd: NDArray[np.int64],
    ) -> None:
        """Add the entries of some members in several parts: slot s of a part has two places.

        `words` has a sketch for each of n members; the slots of member p in part r end before `ends[r * n + p]`.
        """
        if len(ends):
            self._check(valid=kernels.put_pairs(words, *self._form, ends, slots, even, odd))

    def _check(self, *, valid: bool) -> None:
        if not valid:
            raise RingError(f"entries must be nonnegative counts at places below {self.universe}")

    def read(self, words: Words) -> tuple[NDArray[np.int32], NDArray[np.int64]] | None:
        """Return the entries of a sum in ascending order of places; None if there are too many for this sketch.

        Entries may be negative if a sketch was subtracted: that of the entries that were expected.
        """
        if len(words) != self.words:
            raise RingError(f"a sketch of {self.per_table} cells per table takes {self.words} words, not {len(words)}")
        most = int(kernels.TABLES) * self.per_table
        places, counts = np.empty(most, np.int32), np.empty(most, np.int64)
        found = kernels.read_sketch(words.copy(), *self._form, places, counts)
        if found < 0:
            return None
        order = np.argsort(places[:found])
        return places[order], counts[order]
