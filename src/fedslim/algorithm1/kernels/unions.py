"""Which pairs of elements have which union.

A *union* is an itemset that is the union of a pair of elements; its list has all pairs with that union, in the order of
their elements' numbers. Unions are looked up by a hash, the sum of their items' hashes; that of a pair is the sum of
its elements' hashes. Itemsets with equal hashes are compared, so a collision costs only time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedslim._jit import inlined, inner, njit
from fedslim.algorithm1.kernels.pairs import NOBODY, Pairs, home, vacate
from fedslim.mdl.kernels.arrays import Float64s, Int32s, Int64s, UInt8s, UInt64s
from fedslim.mdl.kernels.cover import NONE, NOT


class ServerElements(NamedTuple):
    """What is known about each element, by its number."""

    usage: Int64s
    standard: Float64s  # L(X | ST)
    size: Int32s
    start: Int64s  # where its items begin in `items`
    items: Int32s  # the items of all elements, each ascending
    hash: UInt64s  # the sum of the items' hashes
    places: Int32s  # an open hash table of all elements but singletons, NOBODY for an empty place


class Unions(NamedTuple):
    """What is known about each union, and the union of each pair."""

    first: Int32s  # its first pair, NOBODY for an unused number
    pairs: Int64s  # how many pairs it has
    together: Int64s  # the sum of their co-usages
    element: Int32s  # the element with the same items, NOBODY for none
    rejected: UInt8s  # whether it was rejected with its current counts
    noted: Int64s  # the version in which its own counts last changed
    hash: UInt64s
    places: Int32s  # the hash table, NOBODY for an empty place
    free: Int32s  # a stack of unused union numbers
    notes: Int32s  # unions whose own counts changed
    sizes: Int64s  # the lengths of `free` [0] and `notes` [1], and the highest number ever used plus one [2]
    of: Int32s  # for each pair, its union …
    following: Int32s  # … and the next pair of that union


@inlined
def _size(x: int, y: int, size: np.ndarray) -> int:
    return size[x] + (size[y] if y >= 0 else 0)


@inner
def compare(x: int, y: int, p: int, q: int, elements: ServerElements) -> int:
    """Compare x ∪ y and p ∪ q: negative if x ∪ y comes first. Larger ones first, then lexicographic; 0 if equal.

    `y` and `q` may be NOBODY; the two elements of a pair are disjoint.
    """
    start, size, items = elements.start, elements.size, elements.items
    length = _size(x, y, size)
    other = _size(p, q, size)
    if length != other:
        return other - length
    x_at, x_end = start[x], start[x] + size[x]
    p_at, p_end = start[p], start[p] + size[p]
    y_at = y_end = q_at = q_end = NONE
    if y >= 0:
        y_at, y_end = start[y], start[y] + size[y]
    if q >= 0:
        q_at, q_end = start[q], start[q] + size[q]
    for _ in range(length):
        if x_at < x_end and (y_at >= y_end or items[x_at] < items[y_at]):
            a = np.int64(items[x_at])
            x_at += 1
        else:
            a = np.int64(items[y_at])
            y_at += 1
        if p_at < p_end and (q_at >= q_end or items[p_at] < items[q_at]):
            b = np.int64(items[p_at])
            p_at += 1
        else:
            b = np.int64(items[q_at])
            q_at += 1
        if a != b:
            return a - b
    return NONE


@inlined
def _find_element(x: int, y: int, hash_: np.uint64, elements: ServerElements) -> int:
    """Return the place of the element x ∪ y in the hash table of elements, or the empty place where it would be."""
    places = elements.places
    place = home(hash_, places)
    while places[place] >= 0:
        e = np.int64(places[place])
        if elements.hash[e] == hash_ and compare(x, y, e, NOT, elements) == 0:
            break
        place = (place + 1) & (len(places) - 1)
    return place


@njit
def add_element(e: int, elements: ServerElements) -> None:
    """Add a new element to the hash table."""
    elements.places[_find_element(e, NOT, elements.hash[e], elements)] = e


@inlined
def find_union(x: int, y: int, hash_: np.uint64, unions: Unions, pairs: Pairs, elements: ServerElements) -> int:
    """Return the place of the union x ∪ y in the hash table of unions, or the empty place where it would be."""
    places = unions.places
    place = home(hash_, places)
    while places[place] >= 0:
        g = np.int64(places[place])
        if unions.hash[g] == hash_:
            p = np.int64(unions.first[g])
            p_x, p_y = np.int64(pairs.element[2 * p]), np.int64(pairs.element[2 * p + 1])
            if compare(x, y, p_x, p_y, elements) == 0:
                break
        place = (place + 1) & (len(places) - 1)
    return place


@inner
def join(p: int, unions: Unions, pairs: Pairs, elements: ServerElements) -> None:
    """Add a new pair to the list of its union, which may be new, too."""
    x, y = np.int64(pairs.element[2 * p]), np.int64(pairs.element[2 * p + 1])
    hash_ = elements.hash[x] + elements.hash[y]
    place = find_union(x, y, hash_, unions, pairs, elements)
    g = np.int64(unions.places[place])
    if g < 0:
        unions.sizes[0] -= 1
        g = np.int64(unions.free[unions.sizes[0]])
        unions.sizes[2] = max(unions.sizes[2], g + 1)
        unions.places[place] = g
        unions.hash[g] = hash_
        unions.first[g] = NOBODY
        unions.pairs[g] = 0
        unions.together[g] = 0
        unions.element[g] = elements.places[_find_element(x, y, hash_, elements)]
    previous = NOT
    k = np.int64(unions.first[g])
    while k >= 0 and pairs.element[2 * k] < x:  # no element is in two pairs of a union
        previous = k
        k = np.int64(unions.following[k])
    unions.following[p] = k
    if previous < 0:
        unions.first[g] = p
    else:
        unions.following[previous] = p
    unions.pairs[g] += 1
    unions.of[p] = g


@inner
def leave(p: int, unions: Unions, pairs: Pairs, elements: ServerElements) -> None:
    """Remove a pair from the list of its union; with its last pair the union goes, too."""
    g = np.int64(unions.of[p])
    unions.pairs[g] -= 1
    if unions.pairs[g] == 0:
        x, y = np.int64(pairs.element[2 * p]), np.int64(pairs.element[2 * p + 1])
        vacate(find_union(x, y, unions.hash[g], unions, pairs, elements), unions.places, unions.hash)
        unions.first[g] = NOBODY
        unions.free[unions.sizes[0]] = g
        unions.sizes[0] += 1
    elif unions.first[g] == p:
        unions.first[g] = unions.following[p]
    else:
        k = np.int64(unions.first[g])
        while unions.following[k] != p:
            k = np.int64(unions.following[k])
        unions.following[k] = unions.following[p]
