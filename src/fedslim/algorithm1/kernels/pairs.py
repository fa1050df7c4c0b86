"""Pairs of elements that are used together: found by their two elements, and walked through element by element.

A pair is a number with two *ends*: end 2p is its element with the lower number, end 2p + 1 the other one. All ends at
one element are a doubly linked list, so the pairs of an element are there to walk through, and a pair goes in constant
time. An open hash table says which pair two elements have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedslim._jit import inlined, njit
from fedslim.mdl.kernels.arrays import Covers, Work
from fedslim.mdl.kernels.counting import co_usage
from fedslim.mdl.kernels.cover import NONE, NOT

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOBODY = -1
"""No pair, no end, no element, an empty place."""

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
HIGH_HALF = np.uint64(32)


class Pairs(NamedTuple):
    """Pairs with their counts."""

    element: NDArray[np.int32]  # for each end, its element
    following: NDArray[np.int32]  # for each end, the next one at the same element …
    preceding: NDArray[np.int32]  # … and the one before
    first: NDArray[np.int32]  # for each element, the first end at it
    count: NDArray[np.int64]  # for each pair, how often its elements are used together
    hash: NDArray[np.uint64]  # for each pair
    places: NDArray[np.int32]  # the hash table: pairs, NOBODY for an empty place
    free: NDArray[np.int32]  # a stack of numbers that no pair has …
    n_free: NDArray[np.int64]  # … and, in its only entry, how many there are


class Reports(NamedTuple):
    """What somebody was told of the pairs."""

    told: NDArray[np.int64]  # for each pair, the count that was told last
    waiting: NDArray[np.uint8]  # whether it is on the list of those that changed since
    queue: NDArray[np.int32]  # that list …
    n_queue: NDArray[np.int64]  # … and, in its only entry, how long it is


@inlined
def _hash(x: int, y: int) -> np.uint64:
    return ((np.uint64(x) << HIGH_HALF) | np.uint64(y)) * GOLDEN


@inlined
def home(hash_: np.uint64, places: np.ndarray) -> int:
    """Where in a hash table of a power of two places to begin to look: the upper bits depend on all lower ones."""
    return np.int64(hash_ >> HIGH_HALF) & (len(places) - 1)


@inlined
def vacate(place: int, places: np.ndarray, hashes: np.ndarray) -> None:
    """Empty a place of a hash table and move up whoever was only further on because it was taken."""
    mask = len(places) - 1
    gap = place
    k = (place + 1) & mask
    while places[k] >= 0:
        # From its home to k is at least as far as from the gap to k: then its way leads over the gap.
        if ((k - home(hashes[places[k]], places)) & mask) >= ((k - gap) & mask):
            places[gap] = places[k]
            gap = k
        k = (k + 1) & mask
    places[gap] = NOBODY


@njit
def rehash(old: np.ndarray, hashes: np.ndarray, new: np.ndarray) -> None:
    """Put everybody from one hash table into another, which is empty and larger."""
    for k in range(len(old)):
        if old[k] >= 0:
            place = home(hashes[old[k]], new)
            while new[place] >= 0:
                place = (place + 1) & (len(new) - 1)
            new[place] = old[k]


@inlined
def find(x: int, y: int, pairs: Pairs) -> int:
    """The place of the pair x < y in the hash table, or the empty place where it would be."""
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
    """A new pair x < y, whose empty place `find` has found."""
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
    """Take a pair out."""
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
    """Count all pairs of the slots from the `begin`-th on anew; returns how far it came before there was no room.

    Which is all of them (`len(slots)`), or as many as there were free numbers for.
    """
    for k in range(begin, len(slots)):
        x = np.int64(slots[k])
        n = co_usage(x, covers, work)
        if n > pairs.n_free[0]:
            return k
        for j in range(n):
            work.won[work.touched[j]] = work.row[j]
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
    """Write down the pairs whose count is another than was told last; returns how many. Those that are gone, go."""
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
def look_up(xs: np.ndarray, ys: np.ndarray, pairs: Pairs, counts: np.ndarray) -> None:
    """The counts of these pairs, in either order; 0 for those that are none, also where an element is NOBODY."""
    for k in range(len(xs)):
        x, y = min(np.int64(xs[k]), np.int64(ys[k])), max(np.int64(xs[k]), np.int64(ys[k]))
        p = NOT if x < 0 else np.int64(pairs.places[find(x, y, pairs)])
        counts[k] = pairs.count[p] if p >= 0 else NONE


@njit
def locate(xs: np.ndarray, ys: np.ndarray, pairs: Pairs, places: np.ndarray) -> None:
    """The numbers of pairs x < y, NOBODY for those that are none."""
    for k in range(len(xs)):
        places[k] = pairs.places[find(np.int64(xs[k]), np.int64(ys[k]), pairs)]


@njit
def replace(xs: np.ndarray, ys: np.ndarray, counts: np.ndarray, begin: int, pairs: Pairs, old: np.ndarray) -> int:
    """Give pairs x < y new counts, from the `begin`-th on, and say what they had; a pair with the count 0 goes.

    Returns how far it came before there was no room.
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
    """The numbers of all pairs with one of these elements, each once. Returns how many there are.

    `done` says of each element whether it was walked through: of none, to begin with.
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


@njit
def discard_all(numbers: np.ndarray, pairs: Pairs) -> None:
    """Take pairs out, one after the other."""
    for k in range(len(numbers)):
        discard(np.int64(numbers[k]), pairs)
