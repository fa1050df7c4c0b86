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


WORDS = 8
"""Words in a mask: a bit for each item up to 512 items; in a wider vocabulary items share bits, and masks only rule
out. A constant, so that the compiler lays the loops over them out flat."""

NO_GROUP = -1

NO_ELEMENT = -1

GROUP_PLACES = 4096
"""The size of the hash table of groups: small enough to stay in the cache, emptied when it is half full."""


class Elements(NamedTuple):
    """The working code table: what each slot holds and where it stands in the cover order."""

    rank: NDArray[np.int32]  # place in the cover order, DEAD_RANK for free slots
    size: NDArray[np.int32]  # number of items
    start: NDArray[np.int64]  # where its items begin in `items`
    items: NDArray[np.int32]  # the items of all elements, each ascending
    mask: NDArray[np.uint64]  # a row of words: bit (item mod 64·words) set for each item
    exact: bool  # whether no two items share a bit, so that masks tell the truth and need no second look


class Lists(NamedTuple):
    """The elements (no singletons) by item, in cover order."""

    start: NDArray[np.int64]  # all elements that contain item i: slots[start[i]:start[i + 1]]
    slots: NDArray[np.int32]
    key_start: NDArray[np.int64]  # those of which i is the key: key_slots[key_start[i]:key_start[i + 1]]
    key_slots: NDArray[np.int32]
    keys: NDArray[np.int32]  # scratch: for each element its key
    support: NDArray[np.int64]  # the key of an element is its rarest item: whoever contains it is soon looked through


class Covers(NamedTuple):
    """The cover of every transaction of one database, and the transactions that use each element."""

    start: NDArray[np.int64]  # where the cover of transaction t is kept in `slots`
    slots: NDArray[np.int32]  # the length of the cover, then its slots in no particular order
    tids: NDArray[np.int32]  # pool of transaction lists
    tid_start: NDArray[np.int64]  # for each slot, where its list begins in the pool
    usage: NDArray[np.int64]  # for each slot, how long its list is …
    room: NDArray[np.int64]  # … and how long it may become where it is
    changed: NDArray[np.int32]  # for each transaction, the last commit that changed its cover
    pool_end: NDArray[np.int64]  # one number: where the free part of the pool begins


class Vertical(NamedTuple):
    """Which transactions contain an item: a bitmap for a common item, a list for a rare one."""

    row: NDArray[np.int64]  # item i has the bitmap bitmaps[row[i]] …
    bitmaps: NDArray[np.uint64]
    start: NDArray[np.int64]  # … or, where row[i] < 0, the ascending list tids[start[i]:start[i + 1]]
    tids: NDArray[np.int32]


class Work(NamedTuple):
    """Scratch memory. Between two calls `lost` and `won` are zero but for the slots in `touched`, `marked` is zero."""

    lost: NDArray[np.int64]  # for each slot: covers that lost it
    won: NDArray[np.int64]  # for each slot: covers that won it
    touched: NDArray[np.int32]  # the slots of which either is not zero
    row: NDArray[np.int64]  # the co-usages of the slots in `touched`
    marked: NDArray[np.uint8]  # for each item: whether the itemset on trial contains it
    probes: NDArray[np.int64]  # for each item: the bitmaps that a user of the itemset on trial must be in
    kept: NDArray[np.int32]  # one transaction's length each: elements that stay whatever happens, …
    alive: NDArray[np.int32]  # … that may still break, …
    broken: NDArray[np.int64]  # … where those stand that broke;
    free: NDArray[np.int32]  # items that nothing covers yet
    fitting: NDArray[np.int32]  # for each slot: elements that may be used anew
    hits: NDArray[np.int32]  # for each transaction: those that use the itemset on trial
    group_hash: NDArray[np.uint64]  # an open hash table of groups of transactions, see `_group`
    group_tid: NDArray[np.int32]  # the first transaction of the group, NO_GROUP for an empty place
    group_count: NDArray[np.int64]
    groups: NDArray[np.int32]  # the places in use
    inside: NDArray[np.int32]  # elements within the one on trial for removal, in cover order
    bucket: NDArray[np.int32]  # for each item: the first element of a list, NO_ELEMENT for none …
    chain: NDArray[np.int32]  # … and for each slot the next one
    free_mask: NDArray[np.uint64]  # masks: the free items, …
    available: NDArray[np.uint64]  # … free items and those of elements that may still break
    lost_of: NDArray[np.int64]  # for each of `touched`: what a trial counted
    won_of: NDArray[np.int64]
    n_hits: NDArray[np.int64]  # one number: how many of `hits` there are
