"""Vectors over Z/2^k, and how they travel: k is a whole number of bytes, little-endian, just above a proven bound.

    ring = Ring.for_sums_up_to(340_183)      # 3 bytes an entry
    packed = ring.pack(ring.of(counts))

A ring that is too small wraps around silently; so the bound is part of the ring, and what leaves it raises.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedslim.errors import RingError

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORD_BYTES = 4
MOST_BYTES = 7
"""Up to 56 bits: entries, their sums and the bounds are exact in int64."""


@dataclass(frozen=True, slots=True)
class Ring:
    """Z/2^(8·width) for sums between `-bound` (0 unless `signed`) and `bound`."""

    width: int
    bound: int
    signed: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.width <= MOST_BYTES:
            msg = f"a ring has entries of 1 to {MOST_BYTES} bytes, not {self.width}"
            raise RingError(msg)
        if not 0 <= self.bound < self.modulus >> self.signed:
            msg = f"sums up to {self.bound} do not fit a ring of {8 * self.width} bits; use Ring.for_sums_up_to"
            raise RingError(msg)

    @classmethod
    def for_sums_up_to(cls, bound: int, *, signed: bool = False) -> Ring:
        """The smallest ring in which no sum with this bound wraps around."""
        if bound < 0:
            msg = f"a bound cannot be negative: {bound}"
            raise RingError(msg)
        width = max(1, -(-(bound.bit_length() + signed) // 8))
        return cls(width, bound, signed)

    @property
    def modulus(self) -> int:
        """2^k."""
        return 1 << (8 * self.width)

    @property
    def word(self) -> np.dtype[Any]:
        """The machine words to compute in: they wrap around at a multiple of the modulus."""
        return np.dtype("<u4" if self.width <= WORD_BYTES else "<u8")

    def of(self, values: NDArray[np.int64]) -> NDArray[Any]:
        """One party's values as ring elements; each must be within the bound, as their sum must."""
        low = -self.bound if self.signed else 0
        if len(values) and (int(values.min()) < low or int(values.max()) > self.bound):
            msg = f"a value is not between {low} and {self.bound}, the bound of the ring"
            raise RingError(msg)
        return values.astype(self.word)

    def to_counts(self, total: NDArray[Any]) -> NDArray[np.int64]:
        """The integers that a sum stands for; one that leaves the bound raises: the sum is not what it should be."""
        counts = total.astype(np.int64) & (self.modulus - 1)
        if self.signed:
            counts[counts >= self.modulus >> 1] -= self.modulus
        low = -self.bound if self.signed else 0
        if len(counts) and (int(counts.min()) < low or int(counts.max()) > self.bound):
            msg = (
                f"a sum left its bound of {self.bound}: a member sent something else than what was asked, "
                "or masks do not cancel; the round must not be used"
            )
            raise RingError(msg)
        return counts

    def pack(self, elements: NDArray[Any]) -> bytes:
        """Ring elements as bytes, `width` for each."""
        wide = elements.view(np.uint8).reshape(-1, self.word.itemsize)
        return wide[:, : self.width].tobytes()

    def unpack(self, data: bytes, length: int) -> NDArray[Any]:
        """The `length` elements in `data`; any other number of bytes is refused."""
        if len(data) != length * self.width:
            msg = f"{length} entries of {self.width} bytes are {length * self.width} bytes, not {len(data)}"
            raise RingError(msg)
        wide = np.zeros((length, self.word.itemsize), np.uint8)
        wide[:, : self.width] = np.frombuffer(data, np.uint8).reshape(length, self.width)
        return wide.view(self.word).reshape(length)
