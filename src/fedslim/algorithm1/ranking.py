"""The server's elements, and their unions ranked by estimated gain: thin layers over `kernels/ranking.py`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedslim.algorithm1.kernels import ranking
from fedslim.algorithm1.kernels.pairs import NOBODY, Pairs
from fedslim.algorithm1.kernels.ranking import BLOCK, Blocks, Logs, UnionTotals
from fedslim.algorithm1.kernels.unions import ServerElements, Unions, add_element
from fedslim.algorithm1.pairs import PairCounts, PairLedger, lengthened, rehashed, unused_numbers
from fedslim.errors import RunError
from fedslim.mdl.itemsets import Itemset
from fedslim.mdl.kernels.arrays import lengthen, zeros
from fedslim.mdl.kernels.ranking import NEVER
from fedslim.mdl.objective import log2

SPARE_NUMBERS = 64

COUNTS_CONTRADICT = "the counts contradict each other: a member does not count as the protocol says"


def item_hashes(n_items: int) -> NDArray[np.uint64]:
    """Return a 64-bit number for each item such that different sums are hardly ever equal (splitmix64)."""
    z = np.arange(1, n_items + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    hashes: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return hashes


class NumberedElements:
    """Elements by number: 0 … n_items - 1 are the items; an itemset gets the next number when it is first added."""

    def __init__(self, n_items: int) -> None:
        self.n_items = n_items
        self._itemsets: list[Itemset] = []
        self._numbers: dict[Itemset, int] = {}
        self._item_hashes = item_hashes(n_items)
        capacity = n_items + SPARE_NUMBERS
        self._end = n_items
        room = {"items": max(2 * n_items, 1024), "places": 4 * SPARE_NUMBERS}
        self.arrays: ServerElements = zeros(ServerElements, capacity, **room)
        self.arrays.size[:n_items] = 1
        self.arrays.start[:n_items] = self.arrays.items[:n_items] = np.arange(n_items)
        self.arrays.hash[:n_items] = self._item_hashes
        self.arrays.places[:] = NOBODY

    def __len__(self) -> int:
        return self.n_items + len(self._itemsets)

    @property
    def capacity(self) -> int:
        """How many elements the arrays have room for."""
        return len(self.arrays.usage)

    @property
    def usage(self) -> NDArray[np.int64]:
        """The usage of each element, writable, with room for the next one."""
        return self.arrays.usage

    @property
    def standard(self) -> NDArray[np.float64]:
        """L(X | ST) of each element, writable, with room for the next one."""
        return self.arrays.standard

    def items_of(self, number: int) -> Itemset:
        """Return the items of an element, singletons included."""
        return (number,) if number < self.n_items else self._itemsets[number - self.n_items]

    def number_of(self, itemset: Itemset) -> int:
        """Return the number that an itemset (no singleton) has or would get."""
        return self._numbers.get(itemset, len(self))

    def add(self, itemset: Itemset) -> None:
        """Give an itemset the next number, unless it has one."""
        number = len(self)
        if self._numbers.setdefault(itemset, number) != number:
            return
        self._itemsets.append(itemset)
        arrays, end = self.arrays, self._end + len(itemset)
        if end > len(arrays.items):
            self.arrays = arrays = arrays._replace(items=lengthen(arrays.items, 2 * end))
        arrays.items[self._end : end] = itemset
        arrays.start[number] = self._end
        arrays.size[number] = len(itemset)
        arrays.hash[number] = self._item_hashes[list(itemset)].sum(dtype=np.uint64)
        self._end = end
        add_element(number, arrays)
        if number + 1 == self.capacity:  # keep room for the next one, which may be on trial
            self._grow()

    def _grow(self) -> None:
        arrays = self.arrays
        enough = 1 << (4 * self.capacity - 1).bit_length()  # a power of two, at least twice the new capacity
        places = rehashed(arrays.places, arrays.hash, enough)
        longer = lengthened(arrays, 2 * self.capacity, ("usage", "standard", "size", "start", "hash"))
        self.arrays = longer._replace(places=places)


@dataclass(frozen=True, slots=True)
class Union:
    """A union of pairs of elements, the sum of their co-usages, and the estimated gain in bits."""

    pairs: tuple[tuple[int, int], ...]
    together: int
    gain: float
    number: int  # its number in the ranking, valid as long as no count changes


class UnionRanking:
    """Keeps the co-usages of pairs, and finds the best of all unions."""

    def __init__(self, elements: NumberedElements, log2_table: NDArray[np.float64]) -> None:
        self._elements = elements
        self._pairs = PairLedger(elements.capacity)
        self._unions: Unions = zeros(Unions, 0, sizes=3)
        self._blocks: Blocks = zeros(Blocks, 0)
        self._make_room(0)
        most = len(log2_table)
        self._logs = Logs(log2_table, np.zeros(most), np.zeros(most), np.full(most, NEVER, np.int64))
        self._now = UnionTotals(0, 0, 0, 0.0, 0.0)

    @property
    def _known(self) -> tuple[Pairs, Unions, ServerElements, Blocks, Logs, UnionTotals]:
        """What the kernels need to know."""
        return self._pairs.arrays, self._unions, self._elements.arrays, self._blocks, self._logs, self._now

    def take_in(self, changed: NDArray[np.int32], news: PairCounts, total: int, in_use: int) -> None:
        """Update U, n and the co-usages in `news`; the usages of the `changed` elements are already set.

        Pairs that are not in `news` keep their co-usages.
        """
        self._check(news)
        self._make_room(len(news))
        before, log_total = self._now, log2(total)
        self._now = UnionTotals(before.version + 1, total, in_use, total * log_total, in_use * log_total)
        n_blocks = len(self._blocks.upper)
        ranking.drift(n_blocks, self._blocks, before.total, before.in_use, total, in_use)
        if ranking.take_in(changed, news.x, news.y, news.counts, *self._known) < 0:
            raise RunError(COUNTS_CONTRADICT)

    def best(self) -> Union | None:
        """Return the union with the highest estimated gain above zero; None if there is none."""
        ledger, unions = self._pairs.arrays, self._unions
        number = ranking.best(*self._known)
        if number < 0:
            return None
        pairs = []
        p = int(unions.first[number])
        while p >= 0:
            pairs.append((int(ledger.element[2 * p]), int(ledger.element[2 * p + 1])))
            p = int(unions.following[p])
        return Union(tuple(pairs), int(unions.together[number]), float(self._blocks.upper[number // BLOCK]), number)

    def reject(self, union: Union) -> None:
        """Do not propose this union again until one of its own counts changes."""
        ranking.reject(union.number, self._unions, self._blocks)

    def _check(self, news: PairCounts) -> None:
        """Check that no index points outside of the arrays, which kernels do not check."""
        if not len(news) == len(news.x) == len(news.y):
            raise RunError(COUNTS_CONTRADICT)
        if len(news) and not (
            news.x.min() >= 0
            and news.y.max() < len(self._elements)
            and (news.x < news.y).all()
            and news.counts.min() >= 0
            and news.counts.max() < len(self._logs.log2)
        ):
            raise RunError(COUNTS_CONTRADICT)

    def _make_room(self, extra: int) -> None:
        self._pairs.need_elements(self._elements.capacity)
        size, unions, blocks = self._pairs.need_room(extra), self._unions, self._blocks
        if size == len(unions.first):
            return
        unions.sizes[0] += size - len(unions.first)
        places, free = rehashed(unions.places, unions.hash, 2 * size), unused_numbers(size, unions.free)
        unions = lengthened(unions, size, ("pairs", "together", "rejected", "hash", "notes", "of", "following"))
        unions = lengthened(unions, size, ("noted",), int(NEVER))
        self._unions = lengthened(unions, size, ("first", "element"), NOBODY)._replace(places=places, free=free)
        n = -(-size // BLOCK)
        blocks = lengthened(blocks, n, ("most", "pairs"))._replace(upper=lengthen(blocks.upper, n, -np.inf))
        self._blocks = lengthened(lengthened(blocks, n, ("exact",), int(NEVER)), n, ("best",), NOBODY)
