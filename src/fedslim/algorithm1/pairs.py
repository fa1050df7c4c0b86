"""Counts of pairs of elements: how they are passed on, and the growing arrays that `kernels/pairs.py` works on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from fedslim.algorithm1.kernels import pairs as pair_kernels
from fedslim.algorithm1.kernels.pairs import NOBODY, Pairs
from fedslim.mdl.kernels.arrays import lengthen

FEW_PAIRS = 256
NO_NUMBERS = np.zeros(0, np.int32)

Arrays = TypeVar("Arrays", bound=NamedTuple)


@dataclass(frozen=True, slots=True)
class PairCounts:
    """Co-usages of pairs of elements x < y, each pair once, in no particular order; 0 for a pair that has vanished."""

    x: NDArray[np.int32]
    y: NDArray[np.int32]
    counts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.counts)


def unused_numbers(capacity: int, stack: NDArray[np.int32] = NO_NUMBERS) -> NDArray[np.int32]:
    """Return a stack of the numbers below `capacity`, the lowest on top; or add those that are new below a stack."""
    return np.concatenate((np.arange(capacity - 1, len(stack) - 1, -1, dtype=np.int32), stack))


def lengthened(arrays: Arrays, factor: int, *, nobody: tuple[str, ...] = (), but: tuple[str, ...] = ()) -> Arrays:
    """Return a tuple of arrays, all of them longer but for some, padded with zeros or NOBODY."""
    named: Any = arrays
    longer = {
        name: lengthen(array, factor * len(array), NOBODY if name in nobody else 0)
        for name, array in named._asdict().items()
        if name not in but
    }
    return cast("Arrays", named._replace(**longer))


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
        self.arrays = Pairs(
            element=np.zeros(2 * FEW_PAIRS, np.int32),
            following=np.zeros(2 * FEW_PAIRS, np.int32),
            preceding=np.zeros(2 * FEW_PAIRS, np.int32),
            first=np.full(n_elements, NOBODY, np.int32),
            count=np.zeros(FEW_PAIRS, np.int64),
            hash=np.zeros(FEW_PAIRS, np.uint64),
            places=np.full(2 * FEW_PAIRS, NOBODY, np.int32),
            free=unused_numbers(FEW_PAIRS),
            n_free=np.array([FEW_PAIRS], np.int64),
        )

    def need_elements(self, n_elements: int) -> None:
        """Make room for `n_elements` elements."""
        if len(self.arrays.first) < n_elements:
            self.arrays = self.arrays._replace(first=lengthen(self.arrays.first, n_elements, NOBODY))

    def need_room(self, extra: int) -> int:
        """Make room for at least `extra` more pairs; return by which factor the arrays of pairs grew."""
        pairs = self.arrays
        old, factor = len(pairs.count), 1
        while (factor - 1) * old + int(pairs.n_free[0]) < extra:
            factor *= 2
        if factor > 1:
            self.arrays = lengthened(pairs, factor, but=("first", "places", "free", "n_free"))._replace(
                places=rehashed(pairs.places, pairs.hash, 2 * factor * old),
                free=unused_numbers(factor * old, pairs.free),
                n_free=pairs.n_free + (factor - 1) * old,
            )
        return factor

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
