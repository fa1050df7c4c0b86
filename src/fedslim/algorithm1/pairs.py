"""Counts of pairs of elements: how they are passed on, and the growing arrays that `kernels/pairs.py` works on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from fedslim.algorithm1.kernels import pairs as pair_kernels
from fedslim.algorithm1.kernels.pairs import NOBODY, Pairs
from fedslim.mdl.kernels.arrays import lengthen, zeros

FEW_PAIRS = 256

Arrays = TypeVar("Arrays", bound=NamedTuple)


@dataclass(frozen=True, slots=True)
class PairCounts:
    """Co-usages of pairs of elements x < y, each pair once, in no particular order; 0 for a pair that has vanished."""

    x: NDArray[np.int32]
    y: NDArray[np.int32]
    counts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.counts)


def unused_numbers(capacity: int, stack: NDArray[np.int32]) -> NDArray[np.int32]:
    """Add the numbers from the length of a stack to `capacity` below it, the lowest on top."""
    return np.concatenate((np.arange(capacity - 1, len(stack) - 1, -1, dtype=np.int32), stack))


def lengthened(arrays: Arrays, length: int, names: Iterable[str], fill: int = 0) -> Arrays:
    """Return a tuple of arrays, some of them longer, padded with `fill`."""
    named: Any = arrays
    return cast("Arrays", named._replace(**{name: lengthen(getattr(arrays, name), length, fill) for name in names}))


def rehashed(places: NDArray[np.int32], hashes: NDArray[np.uint64], length: int) -> NDArray[np.int32]:
    """Return a longer hash table with the same entries."""
    new = np.full(length, NOBODY, np.int32)
    pair_kernels.rehash(places, hashes, new)
    return new


class PairLedger:
    """The counts of many pairs of numbered elements, updated by their changes.

    A pair has a place while its count is not 0. Ledgers with the same changes in the same order have the same places,
    and traverse them in the same order, so messages can refer to places.
    """

    def __init__(self, n_elements: int = 64) -> None:
        self.arrays: Pairs = zeros(Pairs, 0, n_free=1)
        self.need_elements(n_elements)
        self.need_room(FEW_PAIRS)

    def need_elements(self, n_elements: int) -> None:
        """Make room for `n_elements` elements."""
        if len(self.arrays.first) < n_elements:
            self.arrays = self.arrays._replace(first=lengthen(self.arrays.first, n_elements, NOBODY))

    def need_room(self, extra: int) -> int:
        """Make room for at least `extra` more pairs; return for how many pairs there is room in all."""
        pairs = self.arrays
        old = size = len(pairs.count)
        while size - old + int(pairs.n_free[0]) < extra:
            size = max(FEW_PAIRS, 2 * size)
        if size > old:
            longer = lengthened(pairs, 2 * size, ("element", "following", "preceding"))
            self.arrays = lengthened(longer, size, ("count", "hash"))._replace(
                places=rehashed(pairs.places, pairs.hash, 2 * size),
                free=unused_numbers(size, pairs.free),
                n_free=pairs.n_free + (size - old),
            )
        return size

    def replace(self, news: PairCounts) -> NDArray[np.int64]:
        """Set new counts of pairs x < y; return the old ones."""
        highest = int(news.y.max(initial=0))
        if highest >= len(self.arrays.first):
            self.need_elements(2 * highest + 1)
        old = np.empty(len(news), np.int64)
        done = 0
        while (done := pair_kernels.replace(news.x, news.y, news.counts, done, self.arrays, old)) < len(news):
            self.need_room(len(news) - done)
        return old

    def look_up(self, x: NDArray[np.int32], y: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the counts of pairs, in either order; 0 for unknown ones."""
        places = self.places_of(x, y)
        return np.where(places >= 0, self.arrays.count[places], 0)

    def around(self, elements: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the places of all pairs with one of these elements, each once, in the same order in equal ledgers."""
        known = elements[elements < len(self.arrays.first)]
        numbers = np.empty(len(self.arrays.count), np.int64)
        n = pair_kernels.around(known, self.arrays, numbers, np.zeros(len(self.arrays.first), np.uint8))
        return numbers[:n]

    def at(self, places: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the elements x < y of the pairs at these places."""
        return self.arrays.element[2 * places], self.arrays.element[2 * places + 1]

    def places_of(self, x: NDArray[np.int32], y: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the places of pairs, in either order; -1 for unknown ones."""
        places = np.empty(len(x), np.int64)
        pair_kernels.locate(x, y, self.arrays, places)
        return places

    def is_place(self, places: NDArray[np.int64]) -> bool:
        """Return whether there is a pair at each of these places, and no place is named twice."""
        inside = bool(((places >= 0) & (places < len(self.arrays.count))).all())
        return inside and bool(self.arrays.count[places].all()) and len(np.unique(places)) == len(places)

    def discard(self, places: NDArray[np.int64]) -> None:
        """Remove the pairs at these places."""
        x, y = self.at(places)
        self.replace(PairCounts(x, y, np.zeros(len(places), np.int64)))
