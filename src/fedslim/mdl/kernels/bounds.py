"""Bounds of co-usages: what is known about each pair of elements, so that only counts that can matter are asked for.

A pair that is not stored is used together at most as often as its elements have won covers since their rows were
complete (`slack`). The value of a stored pair is kept relative to that slack, so a win raises the bounds of all pairs
of an element at once. docs/explanation/decisions/pair-bounds.md has the proofs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedslim._jit import inlined, inner, njit
from fedslim.mdl.kernels.arrays import WORDS
from fedslim.mdl.kernels.pair_store import ABSENT, INEXACT, NONE, PairStore, find, place_of, put, read, write
from fedslim.mdl.kernels.ranking import TableFacts

if TYPE_CHECKING:
    from fedslim.mdl.questions import Change

PURE = 3
"""A pure change touches a new element and its two parents."""


class BoundedRows(NamedTuple):
    """Pairs of some elements with bounds of their counts: those of slots[r] end at ends[r], in ascending order."""

    slots: NDArray[np.int64]
    ends: NDArray[np.int64]
    others: NDArray[np.int32]
    counts: NDArray[np.int64]


class Fetched(NamedTuple):
    """Counts of pairs of some elements, in the same form, asked for in case that new elements stay.

    A count above its `room` spoils the others in the same word.
    """

    slots: NDArray[np.int64]
    ends: NDArray[np.int64]
    others: NDArray[np.int32]
    counts: NDArray[np.int64]
    room: NDArray[np.int64]
    word: NDArray[np.int64]


@inner
def find_bounds(x: int, k: int, limit: int, store: PairStore, facts: TableFacts) -> None:
    """Write bounds of the co-usages of an element into bounds[k], by slot; `bound` reads them.

    This loop has no branches, most of which the processor would predict wrongly.
    """
    find(x, k, limit, store, facts)
    most, stamp, bounds = store.seen[k, 0], store.seen[k, 1], store.bounds[k]
    if store.side > 0:
        begin = x * store.side
        most, stamp = store.most[begin : begin + limit], store.stamp[begin : begin + limit]
    own_slack, own_usage, own_complete = store.slack[x], facts.usage[x], store.complete[x]
    own_dirty = max(store.dirty[x], np.int64(0))
    for i in range(limit):
        y = np.uintp(i)  # an index without a sign need not be checked
        slack, uses = own_slack + store.slack[y], min(own_usage, facts.usage[y])
        stored = stamp[y] != ABSENT
        unseen = slack if own_complete | store.complete[y] else uses
        known = max(min(most[y] + slack if stored else unseen, uses), np.int64(0))
        exact = stored & (np.int64(stamp[y]) >= max(own_dirty, store.dirty[y]))
        bounds[y] = known if exact else -known


@inlined
def _overlap(a: int, b: int, store: PairStore) -> bool:
    """Return whether two elements have an item in common: then no cover has both."""
    if len(store.mask) == 0:
        return False
    for w in range(WORDS):
        if store.mask[a, w] & store.mask[b, w] != np.uint64(0):
            return True
    return False


@inlined
def _is_exact(place: int, a: int, b: int, store: PairStore) -> bool:
    return read(place, store)[1] >= max(store.dirty[a], store.dirty[b], np.int64(0))


@inner
def _bound(a: int, b: int, place: int, uses: int, store: PairStore) -> int:
    """Return a bound of a pair's co-usage; `uses` is a bound by the usages."""
    slack = store.slack[a] + store.slack[b]
    if place >= 0:
        count = read(place, store)[0] + slack
        if _is_exact(place, a, b, store):
            return min(max(count, np.int64(0)), uses)  # as it is, unless a member of a federation lies
        uses = min(uses, count)
    elif store.complete[a] == 1 or store.complete[b] == 1:
        uses = min(uses, slack)
    return np.int64(0) if uses > 0 and _overlap(a, b, store) else uses


@inlined
def bound(k: int, a: int, b: int, store: PairStore) -> tuple[int, bool]:
    """Return a bound of a pair's co-usage, and whether it is the count itself, if bounds[k] has the pairs of `a`."""
    most = store.bounds[k, b]
    if most < 0 and not _overlap(a, b, store):
        return -most, False
    return max(most, np.int64(0)), True


@njit
def put_checked(rows: BoundedRows, limit: int, version: int, store: PairStore, facts: TableFacts) -> bool:
    """Store exact counts of pairs row by row; stop at one above its bound, and return False then."""
    slots, ends, others, counts = rows
    k = np.int64(0)
    for r in range(len(slots)):
        x, begin = np.int64(slots[r]), np.int64(k)
        find_bounds(x, 0, limit, store, facts)
        while k < ends[r]:
            if counts[k] > bound(0, x, np.int64(others[k]), store)[0]:
                return False
            k += 1
        for j in range(begin, k):
            other = np.int64(others[j])
            put(x, other, place_of(0, x, other, store), counts[j], version, store, facts)
    return True


@njit
def put_sound(
    fetched: Fetched,
    spoilt: np.ndarray,
    kept: np.ndarray,
    limit: int,
    version: int,
    store: PairStore,
    facts: TableFacts,
) -> bool:
    """The same for counts that may not have fit: those that did, and whose element is still used, are `kept`.

    A count above its room spoils the others in the same word. Return whether all counts that fit are possible; if not,
    nothing is stored. `kept` has zeros at first, `spoilt` has one for each word.
    """
    slots, ends, others, counts, room, word = fetched
    k = np.int64(0)
    for r in range(len(slots)):
        find_bounds(np.int64(slots[r]), 0, limit, store, facts)
        while k < ends[r]:
            kept[k] = bound(0, np.int64(slots[r]), np.int64(others[k]), store)[0]
            if kept[k] > room[k]:
                spoilt[word[k]] = 1
            k += 1
    for j in range(len(others)):
        if spoilt[word[j]] == 0 and counts[j] > kept[j]:
            return False
        kept[j] = spoilt[word[j]] == 0 and facts.usage[others[j]] > 0
    k = np.int64(0)
    for r in range(len(slots)):
        x = np.int64(slots[r])
        find(x, 0, limit, store, facts)
        while k < ends[r]:
            if kept[k] == 1:
                other = np.int64(others[k])
                put(x, other, place_of(0, x, other, store), counts[k], version, store, facts)
            k += 1
    return True


@njit
def put_row(x: int, row: np.ndarray, limit: int, version: int, store: PairStore, facts: TableFacts) -> None:
    """Store all pairs of an element; `row` has a count for each slot."""
    store.slack[x] = 0
    store.complete[x] = 1
    find(x, 0, limit, store, facts)
    for y in range(limit):
        if y == x:
            continue
        # What is stored about an unused element refers to the slack that is forgotten here, so it is replaced, too.
        place = place_of(0, x, np.int64(y), store)
        if place >= 0 or (facts.usage[y] > 0 and (row[y] != 0 or store.slack[y] != 0)):
            put(x, y, place, row[y], version, store, facts)


@njit
def enter(
    z: int,
    x: int,
    y: int,
    together: int,
    change: Change,
    limit: int,
    version: int,
    store: PairStore,
    facts: TableFacts,
) -> bool:
    """Bound the pairs of a new element, the union of two; return whether the change is pure.

    Where x and y were used together, it takes the place of both. In a pure change nothing else changes. Then the counts
    of the parents fall by those of the new element: they can be told as soon as these are known.
    """
    slots, lost, won = change
    pure, uses = len(slots) == PURE, np.int64(0)
    for k in range(len(slots)):
        pure &= slots[k] in (x, y, z) and max(won[k], lost[k]) == together
        if slots[k] == z:
            uses += won[k]
    store.slack[z] = uses - together
    store.dirty[z] = 0
    store.complete[z] = store.complete[x] | store.complete[y]
    find_bounds(x, 0, limit, store, facts)
    find_bounds(y, 1, limit, store, facts)
    for f in range(limit):
        if f in (x, y, z) or facts.usage[f] == 0:
            continue
        most = min(bound(0, x, f, store)[0], bound(1, y, f, store)[0])
        if most == 0 and store.slack[f] == 0:
            continue  # as for any pair that is not stored
        put(z, f, np.int64(NONE), most + store.slack[z], INEXACT, store, facts)
        if pure and most > 0:
            _await(place_of(0, x, f, store), x, f, version, store)
            _await(place_of(1, y, f, store), y, f, version, store)
    put(x, y, place_of(0, x, y, store), np.int64(0), version, store, facts)
    return pure


@njit
def spread(
    pivot: int,
    uses: int,
    slots: np.ndarray,
    won: np.ndarray,
    pending: np.ndarray,
    limit: int,
    store: PairStore,
    facts: TableFacts,
) -> None:
    """Note that covers have changed which all have, or had, the pivot, and only those.

    A pair of a touched element and another one changes only where the other one is used together with the pivot. A
    pair of two touched elements wins at most what both win. `pending` is scratch memory: zero for each slot.
    """
    for k in range(len(slots)):
        pending[slots[k]] = won[k] + 1
    find(pivot, 0, limit, store, facts)
    for k in range(len(slots)):
        a = np.int64(slots[k])
        if a == pivot:
            continue
        find(a, 1, limit, store, facts)
        for f in range(limit):
            if f in (a, pivot) or (facts.usage[f] == 0 and pending[f] == 0):
                continue
            if pending[f] > 0:
                more = min(won[k] + pending[f] - 1, uses)
                if f > a:
                    continue  # once for both
            else:
                at_pivot = _bound(pivot, f, place_of(0, pivot, f, store), uses, store)
                if at_pivot == 0:
                    continue
                more = min(won[k], at_pivot)
            place = place_of(1, a, f, store)
            most = _bound(a, f, place, max(facts.usage[a], facts.usage[f]), store)
            put(a, f, place, most + more, INEXACT, store, facts)
    for k in range(len(slots)):
        pending[slots[k]] = 0


@inlined
def _await(place: int, x: int, f: int, version: int, store: PairStore) -> None:
    """Note that a count will be exact again when the count that is to be subtracted from it is known."""
    if place >= 0:
        stamp = -1 - version if _is_exact(place, x, f, store) else INEXACT
        write(x, f, place, read(place, store)[0], stamp, store)


@njit
def derive(
    z: int,
    x: int,
    others: np.ndarray,
    counts: np.ndarray,
    kept: np.ndarray,
    entered: int,
    touched: np.ndarray,
    limit: int,
    version: int,
    store: PairStore,
    facts: TableFacts,
) -> None:
    """Subtract the counts of a new element that are `kept` from those of its parent, where these were known before.

    That is right only if the covers of none of the three have changed otherwise since version `entered`; `touched` has
    the version in which those of each element last changed.
    """
    find(x, 0, limit, store, facts)
    for k in range(len(others)):
        f = np.int64(others[k])
        place = place_of(0, x, f, store)
        if kept[k] == 0 or touched[f] > entered or f in (x, z) or place < 0:
            continue
        most, stamp = read(place, store)
        if stamp != -1 - entered:
            continue  # it is not this element that it waits for
        if entered >= max(store.dirty[x], store.dirty[f], store.dirty[z]):
            write(x, f, place, most - counts[k], version, store)


@njit
def exact_of(x: int, counts: np.ndarray, limit: int, store: PairStore, facts: TableFacts) -> None:
    """Write the counts of the pairs of an element that are stored and known into `counts`, by slot."""
    find(x, 0, limit, store, facts)
    for y in range(limit):
        place = place_of(0, x, np.int64(y), store)
        if place >= 0 and facts.usage[y] > 0 and _is_exact(place, x, y, store):
            counts[y] = read(place, store)[0] + store.slack[x] + store.slack[y]


@njit
def bounds_of(
    z: int, others: np.ndarray, counts: np.ndarray, known: np.ndarray, limit: int, store: PairStore, facts: TableFacts
) -> None:
    """Write the bounds of some pairs of an element into `counts`, and into `known` which of them are exact."""
    find_bounds(z, 0, limit, store, facts)
    for k in range(len(others)):
        counts[k], known[k] = bound(0, z, np.int64(others[k]), store)
