"""The typed arrays that the kernels share, grouped by what they describe.

A *slot* is the number by which one element of the working code table is known: singletons have the slots
`0 … n_items - 1` (slot = item), other itemsets the slots above; a freed slot is used again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LAST_RANK = 1 << 30
"""Singletons come last in the cover order: the rank of item `i` is LAST_RANK + i."""

DEAD_RANK = -1
"""The rank of a slot that holds no element."""


class Elements(NamedTuple):
    """The working code table: what each slot holds and where it stands in the cover order."""

    rank: NDArray[np.int32]  # place in the cover order, DEAD_RANK for free slots
    size: NDArray[np.int32]  # number of items
    start: NDArray[np.int64]  # where its items begin in `items`
    items: NDArray[np.int32]  # the items of all elements, each ascending
    signature: NDArray[np.uint64]  # bit (item mod 64) set for each item: a quick test for containment


class Lists(NamedTuple):
    """For each item the elements (no singletons) that contain it, in cover order."""

    start: NDArray[np.int64]
    slots: NDArray[np.int32]


class Covers(NamedTuple):
    """The cover of every transaction of one database, and the transactions that use each element."""

    offsets: NDArray[np.int64]  # transaction t owns the entries offsets[t] : offsets[t + 1] of `slots`
    slots: NDArray[np.int32]  # the cover of t: the first length[t] of its entries, in no particular order
    length: NDArray[np.int32]
    tids: NDArray[np.int32]  # pool of transaction lists
    tid_start: NDArray[np.int64]  # for each slot, where its list begins in the pool
    usage: NDArray[np.int64]  # for each slot, how long its list is
    changed: NDArray[np.int32]  # for each transaction, the last commit that changed its cover


class Work(NamedTuple):
    """Scratch memory. Between two calls `lost`, `won` are zero beyond `touched`, the others as said here."""

    lost: NDArray[np.int64]  # for each slot: covers that lost it
    won: NDArray[np.int64]  # for each slot: covers that won it
    touched: NDArray[np.int32]  # the slots of which either is not zero
    owner: NDArray[np.int32]  # for each item: NOBODY
    marked: NDArray[np.uint8]  # for each item: 0
    kept: NDArray[np.int32]  # one transaction's length each, from here on
    alive: NDArray[np.int32]
    free: NDArray[np.int32]
    broken: NDArray[np.int32]


NOBODY = -1
"""In Work.owner: the item is covered by something earlier in the order, or not in the transaction."""

FREE = -2
"""In Work.owner: nothing covers the item yet."""
