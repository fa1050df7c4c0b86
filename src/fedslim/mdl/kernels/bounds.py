"""Bounds of co-usages: what is known about each pair of elements, so that only counts that can matter are asked for.

A pair that is not stored is used together at most as often as its elements have won covers since their rows were
complete (`slack`). The value of a stored pair is kept relative to that slack, so a win raises the bounds of all pairs
of an element at once. docs/explanation/decisions/pair-bounds.md has the proofs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedslim._jit import inlined, inner, njit
from fedslim.mdl.kernels.arrays import WORDS
from fedslim.mdl.kernels.ranking import PairRows, TableFacts, Totals, belongs, estimate

INEXACT = np.int64(-1)
"""A stamp below this one is that of a count from which another one must be subtracted: minus the version, less 1."""

ONE, OTHER, MOST, STAMP = (np.int64(column) for column in range(4))
"""The births of two elements; the bound of their co-usage, less the slack of both; the version in which it was counted,
INEXACT if it is only a bound."""

IN_CHUNK, LENGTH, NEXT, CHUNK = (np.int64(column) for column in (14, 14, 15, 16))
"""A chunk of a list has up to 14 places of pairs, their number, and the next chunk: as much as a line of the cache."""

NONE, FORGOTTEN = np.int32(-1), np.int32(-2)
"""Instead of a place: there is no pair, or there were pairs until the element left the table."""

ASKED, EXACT = np.uint8(1), np.uint8(2)


class PairStore(NamedTuple):
    """What is known about pairs: lists of the pairs of each element, and what is known about each element."""

    cells: NDArray[np.int32]  # a row for each pair, with the columns above
    chunks: NDArray[np.int32]  # the lists
    used: NDArray[np.int64]  # how many cells and chunks are in use
    first: NDArray[np.int32]  # for each birth, the first chunk of the list of its pairs
    slot: NDArray[np.int32]  # for each birth, its slot
    at: NDArray[np.int32]  # scratch memory: for two elements, where their pairs with each slot are
    slack: NDArray[np.int64]  # for each element, how many covers have won it since its row was complete
    dirty: NDArray[np.int64]  # for each element, the version in which its covers last changed in an unknown way
    complete: NDArray[np.uint8]  # for each element, whether pairs that are not stored are bounded by the slack
    mask: NDArray[np.uint64]  # the items of each element, one bit for each; empty if there are too many items


@inner
def find(x: int, k: int, limit: int, store: PairStore, facts: TableFacts) -> None:
    """Write into at[k] where the pairs of an element are, by slot."""
    birth = facts.birth[x]
    for y in range(limit):
        store.at[k, y] = NONE
    chunk = np.int64(store.first[birth])
    while chunk >= 0:
        for j in range(store.chunks[chunk, LENGTH]):
            place = np.int64(store.chunks[chunk, j])
            # One of the two births is the element's own.
            other = store.cells[place, ONE] + store.cells[place, OTHER] - birth
            y = store.slot[other]
            if facts.birth[y] == other:
                store.at[k, y] = place
        chunk = np.int64(store.chunks[chunk, NEXT])


@inlined
def _put(a: int, b: int, place: int, count: int, stamp: int, store: PairStore, facts: TableFacts) -> None:
    """Store a pair, at its place if it has one."""
    if place < 0:
        place = store.used[0]
        store.used[0] += 1
        _link(place, facts.birth[a], facts.birth[b], store)
    store.cells[place, MOST] = count - store.slack[a] - store.slack[b]
    store.cells[place, STAMP] = stamp


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
    return store.cells[place, STAMP] >= max(store.dirty[a], store.dirty[b], np.int64(0))


@inner
def _bound(a: int, b: int, place: int, uses: int, store: PairStore) -> tuple[int, bool]:
    """Return a bound of a pair's co-usage, and whether it is the count itself; `uses` is a bound by the usages."""
    slack = store.slack[a] + store.slack[b]
    if place >= 0:
        count = store.cells[place, MOST] + slack
        if _is_exact(place, a, b, store):
            return min(max(count, np.int64(0)), uses), True  # as it is, unless a member of a federation lies
        uses = min(uses, count)
    elif store.complete[a] == 1 or store.complete[b] == 1:
        uses = min(uses, slack)
    if uses > 0 and _overlap(a, b, store):
        uses = np.int64(0)
    return uses, uses == 0


@inlined
def bound(k: int, a: int, b: int, store: PairStore, facts: TableFacts) -> tuple[int, bool]:
    """The same, if at[k] has the pairs of `a`."""
    return _bound(a, b, np.int64(store.at[k, b]), min(facts.usage[a], facts.usage[b]), store)


@inlined
def best_gain(x: int, y: int, most: int, enough: float, facts: TableFacts, now: Totals) -> float:
    """Return the highest gain that a pair can have whose co-usage is at most `most`, or one that is `enough`.

    Between 2 and the second highest count the gain is convex if U is at least three times the count, so it is highest
    at an end.
    """
    if most < now.least:
        return -np.inf
    if now.total < 3 * most:
        return np.inf
    # Estimates are sums of terms as large as U·log2 U, each rounded a dozen times.
    rounding = 2.0**-44 * (1.0 + now.total_log)
    gain = estimate(x, y, most, facts, now) + rounding
    if gain < enough:
        gain = max(gain, estimate(x, y, np.int64(1), facts, now) + rounding)
        if most > 1:
            more = max(estimate(x, y, np.int64(2), facts, now), estimate(x, y, most - 1, facts, now))
            gain = max(gain, more + rounding)
    return gain


@njit
def plan_row(
    x: int,
    limit: int,
    threshold: float,
    known_only: bool,
    others: np.ndarray,
    counts: np.ndarray,
    kinds: np.ndarray,
    store: PairStore,
    rows: PairRows,
    facts: TableFacts,
    now: Totals,
) -> tuple[int, int, float]:
    """Say for each pair that belongs to a row whether its count is known, must be asked for, or cannot matter.

    Return the number of pairs, and the largest bound and gain of those that are left out. With `known_only` return -1
    pairs if one must be asked for.
    """
    n, most, dropped = np.int64(0), np.int64(0), -np.inf
    find(x, 0, limit, store, facts)
    for y in range(limit):
        if not belongs(x, y, rows, facts, now):
            continue
        count, exact = bound(0, x, y, store, facts)
        if count == 0:
            continue
        if exact:
            kind = EXACT
        else:
            gain = best_gain(x, y, count, threshold, facts, now)
            if gain >= threshold:
                if known_only:
                    return np.int64(-1), most, dropped
                kind = ASKED
            else:
                most, dropped = max(most, count), max(dropped, gain)
                continue
        others[n], counts[n], kinds[n] = y, count, kind
        n += 1
    return n, most, dropped


@njit
def put_counts(
    x: int, others: np.ndarray, counts: np.ndarray, limit: int, version: int, store: PairStore, facts: TableFacts
) -> None:
    """Store exact counts of some pairs of an element."""
    find(x, 0, limit, store, facts)
    for k in range(len(others)):
        y = np.int64(others[k])
        _put(x, y, np.int64(store.at[0, y]), counts[k], version, store, facts)


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
        place = np.int64(store.at[0, y])
        if place >= 0 or (facts.usage[y] > 0 and (row[y] != 0 or store.slack[y] != 0)):
            _put(x, y, place, row[y], version, store, facts)


@njit
def enter(
    z: int,
    x: int,
    y: int,
    together: int,
    uses: int,
    pure: bool,
    limit: int,
    version: int,
    store: PairStore,
    facts: TableFacts,
) -> None:
    """Bound the pairs of a new element, the union of two.

    Where x and y were used together, it takes the place of both. `uses` are its uses in all. If nothing else has
    changed, the counts of the parents fall by those of the new element: they can be told as soon as these are known.
    """
    store.slack[z] = uses - together
    store.dirty[z] = 0
    store.complete[z] = store.complete[x] | store.complete[y]
    find(x, 0, limit, store, facts)
    find(y, 1, limit, store, facts)
    for f in range(limit):
        if f in (x, y, z) or facts.usage[f] == 0:
            continue
        most = min(bound(0, x, f, store, facts)[0], bound(1, y, f, store, facts)[0])
        if most == 0 and store.slack[f] == 0:
            continue  # as for any pair that is not stored
        _put(z, f, np.int64(NONE), most + store.slack[z], INEXACT, store, facts)
        if pure and most > 0:
            _await(np.int64(store.at[0, f]), x, f, version, store)
            _await(np.int64(store.at[1, f]), y, f, version, store)
    _put(x, y, np.int64(store.at[0, y]), np.int64(0), version, store, facts)


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
                at_pivot, _ = _bound(pivot, f, np.int64(store.at[0, f]), uses, store)
                if at_pivot == 0:
                    continue
                more = min(won[k], at_pivot)
            place = np.int64(store.at[1, f])
            most, _ = _bound(a, f, place, max(facts.usage[a], facts.usage[f]), store)
            _put(a, f, place, most + more, INEXACT, store, facts)
    for k in range(len(slots)):
        pending[slots[k]] = 0


@inlined
def _await(place: int, x: int, f: int, version: int, store: PairStore) -> None:
    """Note that a count will be exact again when the count that is to be subtracted from it is known."""
    if place >= 0:
        store.cells[place, STAMP] = -1 - version if _is_exact(place, x, f, store) else INEXACT


@njit
def derive(
    z: int,
    x: int,
    others: np.ndarray,
    counts: np.ndarray,
    entered: int,
    limit: int,
    version: int,
    store: PairStore,
    facts: TableFacts,
) -> None:
    """Subtract the counts of a new element from those of its parent, where these were known before.

    That is right only if the covers of none of the three have changed otherwise since version `entered`.
    """
    find(x, 0, limit, store, facts)
    for k in range(len(others)):
        f = np.int64(others[k])
        place = np.int64(store.at[0, f])
        if f in (x, z) or place < 0 or store.cells[place, STAMP] != -1 - entered:
            continue  # it is not this element that it waits for
        if entered >= max(store.dirty[x], store.dirty[f], store.dirty[z]):
            store.cells[place, MOST] -= counts[k]
            store.cells[place, STAMP] = version


@njit
def exact_of(x: int, counts: np.ndarray, limit: int, store: PairStore, facts: TableFacts) -> None:
    """Write the counts of the pairs of an element that are stored and known into `counts`, by slot."""
    find(x, 0, limit, store, facts)
    for y in range(limit):
        place = np.int64(store.at[0, y])
        if place >= 0 and facts.usage[y] > 0 and _is_exact(place, x, y, store):
            counts[y] = store.cells[place, MOST] + store.slack[x] + store.slack[y]


@njit
def bounds_of(
    z: int, others: np.ndarray, counts: np.ndarray, kinds: np.ndarray, limit: int, store: PairStore, facts: TableFacts
) -> None:
    """Write the bounds of some pairs of an element into `counts`, and into `kinds` which of them are EXACT."""
    find(z, 0, limit, store, facts)
    for k in range(len(others)):
        counts[k], exact = bound(0, z, np.int64(others[k]), store, facts)
        kinds[k] = EXACT if exact else ASKED


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
