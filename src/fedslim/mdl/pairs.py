"""Counts of pairs of elements: how they are handed around, and the growing memory that `kernels/pairs.py` works on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedslim.mdl.kernels import pairs as kernel
from fedslim.mdl.kernels.pairs import NOBODY, Pairs
from fedslim.mdl.table import lengthened

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEW_PAIRS = 256


@dataclass(frozen=True, slots=True)
class PairCounts:
    """How often two elements x < y are used together, each pair once, in no particular order; 0 where it is gone."""

    x: NDArray[np.int32]
    y: NDArray[np.int32]
    counts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.counts)


def no_pairs(n_elements: int) -> Pairs:
    """Memory for a few pairs of so many elements."""
    return Pairs(
        np.zeros(2 * FEW_PAIRS, np.int32),
        np.zeros(2 * FEW_PAIRS, np.int32),
        np.zeros(2 * FEW_PAIRS, np.int32),
        np.full(n_elements, NOBODY, np.int32),
        np.zeros(FEW_PAIRS, np.int64),
        np.zeros(FEW_PAIRS, np.uint64),
        np.full(2 * FEW_PAIRS, NOBODY, np.int32),
        unused_numbers(0, FEW_PAIRS),
        np.array([FEW_PAIRS], np.int64),
    )


def unused_numbers(used: int, capacity: int) -> NDArray[np.int32]:
    """A stack of the numbers from `used` on, the lowest on top."""
    stack = np.zeros(capacity, np.int32)
    stack[: capacity - used] = np.arange(capacity - 1, used - 1, -1)
    return stack


def with_elements(pairs: Pairs, n_elements: int) -> Pairs:
    """The same pairs, with room for so many elements."""
    return pairs._replace(first=lengthened(pairs.first, n_elements, NOBODY))


def with_room(pairs: Pairs, extra: int) -> Pairs:
    """The same pairs, with free numbers for at least `extra` more."""
    old = len(pairs.count)
    capacity = old
    while capacity - old + int(pairs.n_free[0]) < extra:
        capacity *= 2
    if capacity == old:
        return pairs
    n_free = int(pairs.n_free[0])
    added = capacity - old
    free = np.zeros(capacity, np.int32)
    free[:added] = unused_numbers(old, capacity)[:added]
    free[added : added + n_free] = pairs.free[:n_free]
    places = np.full(2 * capacity, NOBODY, np.int32)
    kernel.rehash(pairs.places, pairs.hash, places)
    return pairs._replace(
        element=lengthened(pairs.element, 2 * capacity),
        following=lengthened(pairs.following, 2 * capacity),
        preceding=lengthened(pairs.preceding, 2 * capacity),
        count=lengthened(pairs.count, capacity),
        hash=lengthened(pairs.hash, capacity),
        places=places,
        free=free,
        n_free=np.array([n_free + added], np.int64),
    )
