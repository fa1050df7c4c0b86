"""Supports: how many transactions contain an itemset, from bitmaps of common items and lists of rare ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedslim._jit import inlined, njit
from fedslim.mdl.kernels.arrays import Vertical

if TYPE_CHECKING:
    from fedslim.data import TransactionDatabase
    from fedslim.mdl.itemsets import Itemset

COMMON = 32
"""An item in at least 1/32 of the transactions gets a bitmap, which is then no larger than a list of int32."""


@njit
def fill(offsets: np.ndarray, items: np.ndarray, position: np.ndarray, vertical: Vertical) -> None:
    """Fill bitmaps and lists; `position` is a copy of vertical.start, which is overwritten."""
    for t in range(len(offsets) - 1):
        word = t >> 6
        bit = np.uint64(1) << np.uint64(t & 63)
        for j in range(offsets[t], offsets[t + 1]):
            item = items[j]
            if vertical.row[item] >= 0:
                vertical.bitmaps[vertical.row[item], word] |= bit
            else:
                vertical.tids[position[item]] = t
                position[item] += 1


@inlined
def _population(x: np.uint64) -> int:
    """Return the number of bits set in a word."""
    x -= (x >> np.uint64(1)) & np.uint64(0x5555555555555555)
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inlined
def _in_list(t: int, low: int, high: int, tids: np.ndarray) -> bool:
    end = high
    while low < high:
        middle = (low + high) >> 1
        if tids[middle] < t:
            low = middle + 1
        else:
            high = middle
    return low < end and tids[low] == t


@njit
def count(itemset: np.ndarray, vertical: Vertical) -> int:
    """Count the transactions that contain all items of a non-empty itemset."""
    row, bitmaps, start, tids = vertical.row, vertical.bitmaps, vertical.start, vertical.tids
    rarest = -1
    for item in itemset:
        if row[item] < 0 and (rarest < 0 or start[item + 1] - start[item] < start[rarest + 1] - start[rarest]):
            rarest = item
    total = 0
    if rarest < 0:
        for word in range(bitmaps.shape[1]):
            bits = bitmaps[row[itemset[0]], word]
            for item in itemset[1:]:
                bits &= bitmaps[row[item], word]
            total += _population(bits)
        return total
    for k in range(start[rarest], start[rarest + 1]):
        t = tids[k]
        inside = True
        for item in itemset:
            if item == rarest:
                continue
            if row[item] >= 0:
                inside = (bitmaps[row[item], t >> 6] >> np.uint64(t & 63)) & np.uint64(1) != np.uint64(0)
            else:
                inside = _in_list(t, start[item], start[item + 1], tids)
            if not inside:
                break
        total += inside
    return total


class SupportIndex:
    """An inverted index of a database, linear in its size."""

    def __init__(self, database: TransactionDatabase) -> None:
        supports = database.supports
        common = supports * COMMON >= max(database.transactions, 1)
        start = np.zeros(database.n_items + 1, np.int64)
        np.cumsum(np.where(common, 0, supports), out=start[1:])
        self.vertical = Vertical(
            np.where(common, np.cumsum(common) - 1, -1).astype(np.int64),
            np.zeros((int(common.sum()), (database.transactions + 63) // 64), np.uint64),
            start,
            np.zeros(int(start[-1]), np.int32),
        )
        self._transactions = database.transactions
        fill(database.offsets, database.items, start.copy(), self.vertical)

    def support(self, itemset: Itemset) -> int:
        """Return in how many transactions all items of the itemset occur; the empty itemset is in all of them."""
        if not itemset:
            return self._transactions
        return int(count(np.array(itemset, np.int64), self.vertical))
