"""Pairs of elements that are used together: looked up by their two elements, or traversed element by element.

A pair is a number p with two *ends*: end 2p is its element with the lower number, end 2p + 1 the other one. All ends at
one element form a doubly linked list, so that the pairs of an element can be traversed and a pair can be removed in
constant time. An open hash table maps two elements to their pair.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedslim._jit import inlined, njit
from fedslim.mdl.kernels.arrays import Covers, Int32s, Int64s, UInt8s, UInt64s, Work
from fedslim.mdl.kernels.counting import co_usage
from fedslim.mdl.kernels.cover import NONE, NOT

NOBODY = -1  # stands for no pair, no end, no element, or an empty place

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
HIGH_HALF = np.uint64(32)


class Pairs(NamedTuple):
    """Pairs with their counts."""

    element: Int32s  # for each end, its element
    following: Int32s  # for each end, the next one at the same element …
    preceding: Int32s  # … and the one before
    first: Int32s  # for each element, the first end at it
    count: Int64s  # for each pair, how often its elements are used together
    hash: UInt64s  # for each pair
    places: Int32s  # the hash table: pairs, NOBODY for an empty place
    free: Int32s  # a stack of unused pair numbers …
    n_free: Int64s  # … and, in its only entry, its height


class Reports(NamedTuple):
    """Which counts of pairs were reported, and which have changed since."""

    told: Int64s  # for each pair, the count reported last
    waiting: UInt8s  # for each pair, whether it is in the queue
    queue: Int32s  # the pairs that may have changed since …
    n_queue: Int64s  # … and, in its only entry, their number


@inlined
def _hash(x: int, y: int) -> np.uint64:
    return ((np.uint64(x) << HIGH_HALF) | np.uint64(y)) * GOLDEN


@inlined
def home(hash_: np.uint64, places: np.ndarray) -> int:
    """Return where a search in the hash table begins; the upper bits of the hash depend on all lower ones."""
    return np.int64(hash_ >> HIGH_HALF) & (len(places) - 1)


@inlined
def vacate(place: int, places: np.ndarray, hashes: np.ndarray) -> None:
    """Empty a place of a hash table, and move up the entries that were displaced by it."""
    mask = len(places) - 1
    gap = place
    k = (place + 1) & mask
    while places[k] >= 0:
        # An entry at least as far from its home as from the gap was displaced by the gap's entry.
        if ((k - home(hashes[places[k]], places)) & mask) >= ((k - gap) & mask):
            places[gap] = places[k]
            gap = k
        k = (k + 1) & mask
    places[gap] = NOBODY


@njit
def rehash(old: np.ndarray, hashes: np.ndarray, new: np.ndarray) -> None:
    """Copy all entries of a hash table into another one, which is empty and larger."""
    for k in range(len(old)):
        if old[k] >= 0:
            place = home(hashes[old[k]], new)
            while new[place] >= 0:
                place = (place + 1) & (len(new) - 1)
            new[place] = old[k]


@inlined
def find(x: int, y: int, pairs: Pairs) -> int:
    """Return the place of the pair x < y in the hash table, or the empty place where it would be."""
    places = pairs.places
    place = home(_hash(x, y), places)
    while places[place] >= 0:
        p = np.int64(places[place])
        if pairs.element[2 * p] == x and pairs.element[2 * p + 1] == y:
            break
        place = (place + 1) & (len(places) - 1)
    return place


@inlined
def _link(end: int, pairs: Pairs) -> None:
    e = pairs.element[end]
    following = pairs.first[e]
    pairs.following[end] = following
    pairs.preceding[end] = NOBODY
    if following >= 0:
        pairs.preceding[following] = end
    pairs.first[e] = end


@inlined
def _unlink(end: int, pairs: Pairs) -> None:
    following, preceding = pairs.following[end], pairs.preceding[end]
    if following >= 0:
        pairs.preceding[following] = preceding
    if preceding >= 0:
        pairs.following[preceding] = following
    else:
        pairs.first[pairs.element[end]] = following


@inlined
def add(x: int, y: int, count: int, place: int, pairs: Pairs) -> int:
    """Add a new pair x < y at the empty place that `find` returned; return its number."""
    pairs.n_free[0] -= 1
    p = np.int64(pairs.free[pairs.n_free[0]])
    pairs.element[2 * p] = x
    pairs.element[2 * p + 1] = y
    pairs.count[p] = count
    pairs.hash[p] = _hash(x, y)
    pairs.places[place] = p
    _link(2 * p, pairs)
    _link(2 * p + 1, pairs)
    return p


@inlined
def discard(p: int, pairs: Pairs) -> None:
    """Remove a pair."""
    vacate(find(np.int64(pairs.element[2 * p]), np.int64(pairs.element[2 * p + 1]), pairs), pairs.places, pairs.hash)
    _unlink(2 * p, pairs)
    _unlink(2 * p + 1, pairs)
    pairs.count[p] = 0
    pairs.free[pairs.n_free[0]] = p
    pairs.n_free[0] += 1


@inlined
def _enqueue(p: int, reports: Reports) -> None:
    if reports.waiting[p] == 0:
        reports.waiting[p] = 1
        reports.queue[reports.n_queue[0]] = p
        reports.n_queue[0] += 1


@njit
def recount(slots: np.ndarray, begin: int, covers: Covers, work: Work, pairs: Pairs, reports: Reports) -> int:
    """Recount all pairs of slots[begin:]; return the index of the first slot that was not counted for lack of room.

    If there was room for all, return `len(slots)`.
    """
    for k in range(begin, len(slots)):
        x = np.int64(slots[k])
        n = co_usage(x, covers, work)
        if n > pairs.n_free[0]:
            for j in range(n):
                work.won[work.touched[j]] = 0
            return k
        work.won[x] = 0
        end = np.int64(pairs.first[x])
        while end >= 0:
            p = end >> 1
            y = np.int64(pairs.element[end ^ 1])
            if pairs.count[p] != work.won[y]:
                pairs.count[p] = work.won[y]
                _enqueue(p, reports)
            work.won[y] = 0
            end = np.int64(pairs.following[end])
        for j in range(n):
            y = np.int64(work.touched[j])
            if work.won[y] > 0:
                low, high = min(x, y), max(x, y)
                p = add(low, high, work.won[y], find(low, high, pairs), pairs)
                reports.told[p] = 0
                _enqueue(p, reports)
                work.won[y] = 0
    return len(slots)


@njit
def tell(pairs: Pairs, reports: Reports, xs: np.ndarray, ys: np.ndarray, counts: np.ndarray) -> int:
    """Report the pairs whose count has changed since the last report; return how many. Drop pairs with count 0."""
    n = NONE
    for k in range(reports.n_queue[0]):
        p = np.int64(reports.queue[k])
        reports.waiting[p] = 0
        if pairs.count[p] != reports.told[p]:
            xs[n] = pairs.element[2 * p]
            ys[n] = pairs.element[2 * p + 1]
            counts[n] = pairs.count[p]
            reports.told[p] = pairs.count[p]
            n += 1
        if pairs.count[p] == 0:
            discard(p, pairs)
    reports.n_queue[0] = 0
    return n


@njit
def locate(xs: np.ndarray, ys: np.ndarray, pairs: Pairs, places: np.ndarray) -> None:
    """Look up the numbers of pairs, in either order; NOBODY for unknown pairs, or where an element is NOBODY."""
    for k in range(len(xs)):
        x, y = min(np.int64(xs[k]), np.int64(ys[k])), max(np.int64(xs[k]), np.int64(ys[k]))
        places[k] = NOT if x < 0 else np.int64(pairs.places[find(x, y, pairs)])


@njit
def replace(xs: np.ndarray, ys: np.ndarray, counts: np.ndarray, begin: int, pairs: Pairs, old: np.ndarray) -> int:
    """Set the counts of pairs x < y from index `begin` on, and put the old ones into `old`; count 0 removes a pair.

    Return the index of the first pair that was not set for lack of room, or `len(xs)`.
    """
    for k in range(begin, len(xs)):
        x, y = np.int64(xs[k]), np.int64(ys[k])
        place = find(x, y, pairs)
        p = np.int64(pairs.places[place])
        old[k] = pairs.count[p] if p >= 0 else NONE
        if p >= 0:
            if counts[k] == 0:
                discard(p, pairs)
            else:
                pairs.count[p] = counts[k]
        elif counts[k] > 0:
            if pairs.n_free[0] == 0:
                return k
            add(x, y, counts[k], place, pairs)
    return len(xs)


@njit
def around(elements: np.ndarray, pairs: Pairs, numbers: np.ndarray, done: np.ndarray) -> int:
    """Collect the numbers of all pairs with one of these elements, each once; return how many there are.

    `done` marks the elements that were traversed; it is zero at the start.
    """
    n = NONE
    for k in range(len(elements)):
        element = elements[k]
        end = NOT if done[element] else np.int64(pairs.first[element])
        while end >= 0:
            if not done[pairs.element[end ^ 1]]:
                numbers[n] = end >> 1
                n += 1
            end = np.int64(pairs.following[end])
        done[element] = 1
    return n
