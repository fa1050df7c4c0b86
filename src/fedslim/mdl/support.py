"""Supports of arbitrary itemsets. The search does not need them; reports and `order="support"` do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedslim.mdl.kernels import vertical
from fedslim.mdl.kernels.arrays import Vertical

if TYPE_CHECKING:
    from fedslim.data import TransactionDatabase
    from fedslim.mdl.itemsets import Itemset

COMMON = 32
"""An item in at least 1/32 of the transactions gets a bitmap, which is then no larger than a list of int32."""


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
        vertical.fill(database.offsets, database.items, start.copy(), self.vertical)

    def support(self, itemset: Itemset) -> int:
        """Return in how many transactions all items of the itemset occur; the empty itemset is in all of them."""
        if not itemset:
            return self._transactions
        return int(vertical.count(np.array(itemset, np.int64), self.vertical))
