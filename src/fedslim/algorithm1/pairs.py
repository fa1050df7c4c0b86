"""Counts of pairs of elements: how they are passed on, and the growing arrays that `kernels/pairs.py` works on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np

from fedslim.algorithm1.kernels import pairs as pair_kernels
from fedslim.algorithm1.kernels.pairs import NOBODY, Pairs
from fedslim.mdl.arrays import lengthen

if TYPE_CHECKING:
    from numpy.typing import NDArray

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


def no_pairs(n_elements: int) -> Pairs:
    """Return empty arrays with room for a few pairs of `n_elements` elements."""
    return Pairs(
        np.zeros(2 * FEW_PAIRS, np.int32),
        np.zeros(2 * FEW_PAIRS, np.int32),
        np.zeros(2 * FEW_PAIRS, np.int32),
        np.full(n_elements, NOBODY, np.int32),
        np.zeros(FEW_PAIRS, np.int64),
        np.zeros(FEW_PAIRS, np.uint64),
        np.full(2 * FEW_PAIRS, NOBODY, np.int32),
        unused_numbers(FEW_PAIRS),
        np.array([FEW_PAIRS], np.int64),
    )


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


def with_elements(pairs: Pairs, n_elements: int) -> Pairs:
    """Return the same pairs, with room for `n_elements` elements."""
    return pairs._replace(first=lengthen(pairs.first, n_elements, NOBODY))


def with_room(pairs: Pairs, extra: int) -> Pairs:
    """Return the same pairs, with free numbers for at least `extra` more."""
    old, factor = len(pairs.count), 1
    while (factor - 1) * old + int(pairs.n_free[0]) < extra:
        factor *= 2
    if factor == 1:
        return pairs
    return lengthened(pairs, factor, but=("first", "places", "free", "n_free"))._replace(
        places=rehashed(pairs.places, pairs.hash, 2 * factor * old),
        free=unused_numbers(factor * old, pairs.free),
        n_free=pairs.n_free + (factor - 1) * old,
    )


def locate(x: NDArray[np.int32], y: NDArray[np.int32], pairs: Pairs) -> NDArray[np.int64]:
    """Return the numbers of pairs, in either order; NOBODY for unknown ones."""
    places = np.empty(len(x), np.int64)
    pair_kernels.locate(x, y, pairs, places)
    return places


def look_up(x: NDArray[np.int32], y: NDArray[np.int32], pairs: Pairs) -> NDArray[np.int64]:
    """Return the counts of pairs, in either order; 0 for unknown ones."""
    places = locate(x, y, pairs)
    return np.where(places >= 0, pairs.count[places], 0)


class PairLedger:
    """The counts of many pairs of numbered elements, updated by their changes.

    A pair has a place while its count is not 0. Ledgers with the same changes in the same order have the same places,
    and traverse them in the same order, so messages can refer to places.
    """

    def __init__(self) -> None:
        self._pairs = no_pairs(64)

    def replace(self, news: PairCounts) -> NDArray[np.int64]:
        """Set new counts of pairs x < y; return the old ones."""
        highest = int(news.y.max(initial=0))
        if highest >= len(self._pairs.first):
            self._pairs = with_elements(self._pairs, 2 * highest + 1)
        old = np.empty(len(news), np.int64)
        done = 0
        while (done := pair_kernels.replace(news.x, news.y, news.counts, done, self._pairs, old)) < len(news):
            self._pairs = with_room(self._pairs, len(news) - done)
        return old

    def look_up(self, x: NDArray[np.int32], y: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the counts of pairs, in either order; 0 for unknown ones."""
        return look_up(x, y, self._pairs)

    def around(self, elements: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the places of all pairs with one of these elements, each once, in the same order in equal ledgers."""
        known = elements[elements < len(self._pairs.first)]
        numbers = np.empty(len(self._pairs.count), np.int64)
        n = pair_kernels.around(known, self._pairs, numbers, np.zeros(len(self._pairs.first), np.uint8))
        return numbers[:n]

    def at(self, places: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the elements x < y of the pairs at these places."""
        return self._pairs.element[2 * places], self._pairs.element[2 * places + 1]

    def places_of(self, x: NDArray[np.int32], y: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the places of pairs, in either order; -1 for unknown ones."""
        return locate(x, y, self._pairs)

    def is_place(self, places: NDArray[np.int64]) -> bool:
        """Return whether there is a pair at each of these places, and no place is named twice."""
        inside = bool(((places >= 0) & (places < len(self._pairs.count))).all())
        return inside and bool(self._pairs.count[places].all()) and len(np.unique(places)) == len(places)

    def discard(self, places: NDArray[np.int64]) -> None:
        """Remove the pairs at these places."""
        x, y = self.at(places)
        self.replace(PairCounts(x, y, np.zeros(len(places), np.int64)))
