"""Where what is known about pairs of elements is kept.

Pairs are kept in a square, which is fast, until there are so many slots that it would be too large. Then they are kept
in lists, a list for each element, which take memory only for pairs that are stored.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedslim._jit import inlined, inner, njit
from fedslim.mdl.kernels.ranking import TableFacts

INEXACT = np.int64(-1)
"""A stamp below this one is that of a count from which another one must be subtracted: minus the version, less 1."""

MOST, STAMP, ONE, OTHER = (np.int64(column) for column in range(4))
"""Of a pair in a list: the bound of its co-usage, less the slack of both elements; the version in which it was counted,
INEXACT if it is only a bound; the births of both elements."""

ABSENT = np.int32(np.iinfo(np.int32).min)
"""Instead of a stamp: nothing is stored."""

IN_CHUNK, LENGTH, NEXT, CHUNK = (np.int64(column) for column in (14, 14, 15, 16))
"""A chunk of a list has up to 14 places of pairs, their number, and the next chunk: as much as a line of the cache."""

NONE, FORGOTTEN = np.int32(-1), np.int32(-2)
"""Instead of a place: there is no pair, or there were pairs until the element left the table."""


class PairStore(NamedTuple):
    """What is known about pairs: a square or lists of them, and what is known about each element."""

    side: int  # of the square, in slots; 0 if there are lists
    most: NDArray[np.int32]  # the square, row by row; both (a, b) and (b, a) have …
    stamp: NDArray[np.int32]  # … what lists have in these columns
    cells: NDArray[np.int32]  # the pairs in the lists, with the columns above
    chunks: NDArray[np.int32]  # the lists
    used: NDArray[np.int64]  # how many cells and chunks are in use
    first: NDArray[np.int32]  # for each birth, the first chunk of the list of its pairs
    slot: NDArray[np.int32]  # for each birth, its slot
    at: NDArray[np.int32]  # scratch memory: for two elements, where their pairs with each slot are, and what is …
    seen: NDArray[np.int32]  # … stored there, MOST and STAMP
    bounds: NDArray[np.int64]  # scratch memory: bounds of these pairs, negative if they are not the counts themselves
    slack: NDArray[np.int64]  # for each element, how many covers have won it since its row was complete
    dirty: NDArray[np.int64]  # for each element, the version in which its covers last changed in an unknown way
    complete: NDArray[np.uint8]  # for each element, whether pairs that are not stored are bounded by the slack
    mask: NDArray[np.uint64]  # the items of each element, one bit for each; empty if there are too many items


@inner
def find(x: int, k: int, limit: int, store: PairStore, facts: TableFacts) -> None:
    """Write into at[k] where in the lists the pairs of an element are, by slot, and into seen[k] what is there."""
    if store.side > 0:
        return
    birth = facts.birth[x]
    for y in range(limit):
        store.at[k, y] = NONE
        store.seen[k, 1, y] = ABSENT
    chunk = np.int64(store.first[birth])
    while chunk >= 0:
        for j in range(store.chunks[chunk, LENGTH]):
            place = np.int64(store.chunks[chunk, j])
            # One of the two births is the element's own.
            other = store.cells[place, ONE] + store.cells[place, OTHER] - birth
            y = store.slot[other]
            if facts.birth[y] == other:
                store.at[k, y] = place
                store.seen[k, 0, y], store.seen[k, 1, y] = store.cells[place, MOST], store.cells[place, STAMP]
        chunk = np.int64(store.chunks[chunk, NEXT])


@inlined
def place_of(k: int, a: int, b: int, store: PairStore) -> int:
    """Return where a pair is stored, or NONE, after `find` for `a`."""
    if store.side == 0:
        return np.int64(store.at[k, b])
    place = a * store.side + b
    return np.int64(NONE) if store.stamp[place] == ABSENT else place


@inlined
def read(place: int, store: PairStore) -> tuple[int, int]:
    """Return what is stored of a pair: MOST and STAMP."""
    if store.side == 0:
        return np.int64(store.cells[place, MOST]), np.int64(store.cells[place, STAMP])
    return np.int64(store.most[place]), np.int64(store.stamp[place])


@inlined
def put(a: int, b: int, place: int, count: int, stamp: int, store: PairStore, facts: TableFacts) -> None:
    """Store a pair, at its place if it has one."""
    if store.side > 0:
        place = a * store.side + b
    elif place < 0:
        place = store.used[0]
        store.used[0] += 1
        _link(place, facts.birth[a], facts.birth[b], store)
    write(a, b, place, count - store.slack[a] - store.slack[b], stamp, store)


@inlined
def write(a: int, b: int, place: int, most: int, stamp: int, store: PairStore) -> None:
    """Change what is stored of a pair at its place."""
    if store.side == 0:
        store.cells[place, MOST], store.cells[place, STAMP] = most, stamp
    else:
        twin = b * store.side + a
        store.most[place] = store.most[twin] = most
        store.stamp[place] = store.stamp[twin] = stamp


@inlined
def _link(place: int, one: int, other: int, store: PairStore) -> None:
    """Put a pair into the lists of both elements, given by their births."""
    store.cells[place, ONE] = one
    store.cells[place, OTHER] = other
    for birth in (one, other):
        chunk = np.int64(store.first[birth])
        if chunk < 0 or store.chunks[chunk, LENGTH] == IN_CHUNK:
            chunk = store.used[1]
            store.used[1] += 1
            store.chunks[chunk, LENGTH] = 0
            store.chunks[chunk, NEXT] = store.first[birth]
            store.first[birth] = chunk
        n = np.int64(store.chunks[chunk, LENGTH])
        store.chunks[chunk, n] = place
        store.chunks[chunk, LENGTH] = n + 1


@njit
def clear(x: int, limit: int, store: PairStore) -> None:
    """Forget all pairs of a slot, in a square: another element has it now."""
    for y in range(limit):
        store.stamp[x * store.side + y] = store.stamp[y * store.side + x] = ABSENT


@njit
def move_to_lists(square: PairStore, limit: int, store: PairStore, facts: TableFacts) -> None:
    """Put the pairs of a square into lists."""
    for a in range(limit):
        for b in range(a):
            place = a * square.side + b
            if square.stamp[place] != ABSENT:
                most = square.most[place] + store.slack[a] + store.slack[b]
                put(np.int64(a), np.int64(b), np.int64(NONE), most, square.stamp[place], store, facts)


@njit
def compact(alive: np.ndarray, store: PairStore) -> None:
    """Forget the pairs of elements that are not in the table; `alive` is indexed by birth."""
    for birth in range(len(alive)):
        store.first[birth] = NONE if alive[birth] == 1 else FORGOTTEN
    n = store.used[0]
    store.used[:] = 0
    for k in range(n):
        one, other = store.cells[k, ONE], store.cells[k, OTHER]
        if alive[one] == 0 or alive[other] == 0:
            continue
        place = store.used[0]
        store.used[0] += 1
        store.cells[place, MOST], store.cells[place, STAMP] = store.cells[k, MOST], store.cells[k, STAMP]
        _link(place, np.int64(one), np.int64(other), store)
