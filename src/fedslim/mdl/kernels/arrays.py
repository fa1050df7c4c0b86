"""The typed arrays that the kernels share, grouped by what they describe; arrays that grow, and copies of arrays.

A *slot* is the number of an element of the working code table: singletons have the slots `0 … n_items - 1`
(slot = item), other itemsets the slots above; a freed slot is used again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar, get_type_hints

import numpy as np
from numba import types
from numba.np.numpy_support import as_dtype
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fedslim.data import TransactionDatabase

Scalar = TypeVar("Scalar", bound=np.generic)

LAST_RANK = 1 << 30  # singletons come last in the cover order: the rank of item `i` is LAST_RANK + i

DEAD_RANK = -1  # the rank of a slot that holds no element


WORDS = 8
"""Words in a mask: a bit for each item up to 512 items. In a wider vocabulary items share bits, and masks can only rule
elements out. A constant, so that the compiler unrolls the loops over them."""

NO_GROUP = -1

NO_ELEMENT = -1

GROUP_PLACES = 4096
"""The size of the hash table of groups: small enough to stay in the cache, emptied when it is half full."""

PLAIN = GROUP_PLACES
"""Behind the places of groups: the transactions in which only elements within an itemset replace it."""

# Each annotation has numba's type for the field and, where it is constant, the number of columns: see `array_table.py`.
Flag = Annotated[bool, types.boolean]
UInt8s = Annotated[NDArray[np.uint8], types.uint8[::1]]
Int32s = Annotated[NDArray[np.int32], types.int32[::1]]
Int64s = Annotated[NDArray[np.int64], types.int64[::1]]
Float64s = Annotated[NDArray[np.float64], types.float64[::1]]
UInt64s = Annotated[NDArray[np.uint64], types.uint64[::1]]
Bitmaps = Annotated[NDArray[np.uint64], types.uint64[:, ::1]]
PairCounts = Annotated[NDArray[np.int32], types.int32[:, ::1]]
PartCounts = Annotated[NDArray[np.int64], types.int64[:, ::1]]
Masks = Annotated[NDArray[np.uint64], types.uint64[:, ::1], WORDS]


def zeros(group: Any, length: int, **lengths: int) -> Any:
    """Return a group of arrays of zeros, each as long as `lengths` says or else of this length."""
    return group(*[np.zeros(lengths.get(name, length), dtype) for name, dtype in _dtypes(group)])


@cache
def _dtypes(group: Any) -> list[tuple[str, Any]]:
    hints = get_type_hints(group, include_extras=True)
    return [(name, as_dtype(hint.__metadata__[0].dtype)) for name, hint in hints.items()]


class Elements(NamedTuple):
    """The working code table: what each slot holds and its place in the cover order."""

    rank: Int32s  # place in the cover order, DEAD_RANK for free slots
    size: Int32s  # number of items
    start: Int64s  # where its items begin in `items`
    items: Int32s  # the items of all elements, each ascending
    mask: Masks  # a row of words: bit (item mod 64·words) set for each item
    exact: Flag  # whether no two items share a bit, so that masks are exact


class Lists(NamedTuple):
    """The elements (no singletons) by item, in cover order."""

    start: Int64s  # all elements that contain item i: slots[start[i]:start[i + 1]]
    slots: Int32s
    key_start: Int64s  # those of which i is the key: key_slots[key_start[i]:key_start[i + 1]]
    key_slots: Int32s
    keys: Int32s  # scratch: for each element, or for one, its key
    support: Int64s  # by item; the key of an element is its rarest item, so that lists by key are short


class Covers(NamedTuple):
    """The cover of every transaction, and the transactions that use each element."""

    start: Int64s  # where the cover of transaction t is kept in `slots`
    slots: Int32s  # the length of the cover, then its slots in no particular order
    tids: Int32s  # pool of transaction lists
    tid_start: Int64s  # for each slot, where its list begins in the pool
    usage: Int64s  # for each slot, how long its list is …
    room: Int64s  # … and how long it may become where it is
    changed: Int32s  # for each transaction, the last commit that changed its cover
    part: Int32s  # for each transaction, the number of the database that it comes from; empty if there is only one
    pool_end: Int64s  # one number: where the free part of the pool begins
    pairs: PairCounts  # the co-usage of any two elements, and zeros for an element with itself; empty if not kept
    hits: Int32s  # the transactions that use the itemset on trial
    pair: Int64s  # for each of them: the places of the two elements that it replaces exactly; 0 if it is not so simple
    n_hits: Int64s  # one number: the length of `hits`


class Vertical(NamedTuple):
    """Which transactions contain an item: a bitmap for a common item, a list for a rare one."""

    row: Int64s  # item i has the bitmap bitmaps[row[i]] …
    bitmaps: Bitmaps
    start: Int64s  # … or, where row[i] < 0, the ascending list tids[start[i]:start[i + 1]]
    tids: Int32s


class Work(NamedTuple):
    """Scratch memory. Between calls `marked` is zero, and `lost` and `won` are zero except for the `touched` slots.

    Of several databases, each has `lost` and `won` of its own, one after the other, and so has a group.
    """

    lost: Int64s  # for each slot: covers that lost it
    won: Int64s  # for each slot: covers that won it
    touched: Int32s  # where `lost` or `won` is not zero
    marked: UInt8s  # for each item: whether the itemset on trial contains it
    probes: Int64s  # bitmaps in which a transaction must be to use the itemset on trial
    kept: Int32s  # of one transaction: elements that stay in its cover in any case
    alive: Int32s  # of one transaction: elements that may still break
    broken: Int64s  # of one transaction: positions of the elements that broke
    free: Int32s  # of one transaction: items that nothing covers yet
    before: Int32s  # of one transaction: its cover before the change
    present: UInt8s  # for each slot: whether it is in a cover; zero between calls
    fitting: Int32s  # elements that may be newly used, in cover order
    group_hash: UInt64s  # an open hash table of groups of transactions, see `_group`
    group_tid: Int32s  # the first transaction of the group, NO_GROUP for an empty place
    group_count: PartCounts  # for each place and database, how many of its transactions are in the group
    groups: Int32s  # the places in use
    inside: Int32s  # elements within the one on trial for removal, in cover order
    bucket: Int32s  # for each item: the first element of a list, NO_ELEMENT for none …
    chain: Int32s  # … and for each slot the next one
    free_mask: UInt64s  # mask of the free items
    available: UInt64s  # mask of the free items and those of elements that may still break


class State(NamedTuple):
    """What covers are made of. No more than that: a kernel is slower with arrays that it does not need."""

    elements: Elements
    lists: Lists
    covers: Covers
    work: Work


def empty_lists(n_items: int, supports: NDArray[np.int64]) -> Lists:
    """Return the lists of an empty table."""
    lists: Lists = zeros(Lists, 1024, start=n_items + 1, key_start=n_items + 1)
    return lists._replace(support=supports)


def empty_work(capacity: int, database: TransactionDatabase, parts: int = 1) -> Work:
    """Return scratch memory for a table with `capacity` slots and these transactions, which come in some parts."""
    longest = int(database.lengths.max(initial=0)) + 1
    lengths = {"free_mask": WORDS, "available": WORDS, "group_count": 0}
    lengths |= dict.fromkeys(("marked", "probes", "bucket"), database.n_items)
    lengths |= dict.fromkeys(("kept", "alive", "broken", "free", "before"), longest)
    lengths |= dict.fromkeys(("group_hash", "group_tid", "groups"), GROUP_PLACES)
    work: Work = zeros(Work, capacity, **lengths)
    work.group_tid[:] = NO_GROUP
    work.bucket[:] = NO_ELEMENT
    return enlarge(work._replace(group_count=np.zeros((GROUP_PLACES + 1, parts), np.int64)), capacity)


def enlarge(work: Work, capacity: int) -> Work:
    """Return scratch memory for a table with so many slots."""
    parts = work.group_count.shape[1]
    apart = capacity if parts == 1 else capacity * (parts + 1)  # the counts of a group come behind those of all parts
    lengths = dict.fromkeys(("present", "fitting", "inside", "chain"), capacity)
    lengths |= dict.fromkeys(("lost", "won", "touched"), apart)
    return work._replace(**{name: lengthen(getattr(work, name), length) for name, length in lengths.items()})


def lengthen(array: NDArray[Scalar], length: int, fill: float = 0) -> NDArray[Scalar]:
    """Return a longer copy of an array, padded with `fill`."""
    new = np.full((length, *array.shape[1:]), fill, array.dtype)
    new[: len(array)] = array
    return new


class KeptArrays:
    """Copies of some arrays, to return to a former state; their memory is used again for the next copies."""

    def __init__(self) -> None:
        self._memory: list[NDArray[Any]] = []
        self._copies: list[NDArray[Any]] = []

    def keep(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Copy these arrays, or the parts of them that matter."""
        if not self._memory:
            self._memory = [np.empty(0, a.dtype) for a in arrays]
        self._copies = []
        for k, array in enumerate(arrays):
            if self._memory[k].size < array.size:
                # Touching new memory costs more than copying, so there is room for more.
                self._memory[k] = np.empty(array.size + array.size // 4, array.dtype)
            copy = self._memory[k][: array.size].reshape(array.shape)
            np.copyto(copy, array)
            self._copies.append(copy)

    def put_back(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Copy everything back to where it was; an array may have become longer, and keeps what comes after."""
        for copy, array in zip(self._copies, arrays, strict=True):
            array[: len(copy)] = copy
