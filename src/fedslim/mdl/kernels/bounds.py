"""Bounds of co-usages: what is known about each pair of elements, so that only counts that can matter are asked for.

A pair that is not stored is used together at most as often as its elements have won covers since their rows were
complete (`slack`). The value of a stored pair is kept relative to that slack, so a win raises the bounds of all pairs
of an element at once. docs/explanation/decisions/pair-bounds.md has the proofs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedslim._jit import inlined, inner, njit
from fedslim.mdl.kernels.arrays import WORDS
from fedslim.mdl.kernels.ranking import PairRows, TableFacts, Totals, belongs, estimate

if TYPE_CHECKING:
    from numpy.typing import NDArray

INEXACT = np.int64(-1)
"""A stamp below this one is that of a count from which another one must be subtracted: minus the version, less 1."""

KEY, MOST, STAMP = np.int64(0), np.int64(1), np.int64(2)
"""Made of two births, 0 for an empty place; the bound of the co-usage, less the slack of both elements; the version in
which it was counted, INEXACT if it is only a bound."""

ASKED, EXACT = np.uint8(1), np.uint8(2)


class PairStore(NamedTuple):
    """What is known about pairs: an open hash table, and what is known about each element."""

    cells: NDArray[np.int64]
    """A row for each place of the table, in columns KEY, MOST and STAMP; they are used together."""
    slack: NDArray[np.int64]  # for each element, how many covers have won it since its row was complete
    dirty: NDArray[np.int64]  # for each element, the version in which its covers last changed in an unknown way
    complete: NDArray[np.uint8]  # for each element, whether pairs that are not stored are bounded by the slack
    mask: NDArray[np.uint64]  # the items of each element, one bit for each; empty if there are too many items


@inlined
def _key(a: int, b: int, birth: np.ndarray) -> int:
    low, high = min(birth[a], birth[b]), max(birth[a], birth[b])
    return ((low + 1) << 32) | (high + 1)


@inlined
def _place(key: int, store: PairStore) -> int:
    """Return the place of the key in the hash table, or the empty place where it would be."""
    mask = len(store.cells) - 1
    place = np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)) & mask
    while store.cells[place, KEY] != 0 and store.cells[place, KEY] != key:
        place = (place + 1) & mask
    return place


@inlined
def _put(a: int, b: int, count: int, stamp: int, store: PairStore, facts: TableFacts) -> int:
    """Store a pair; return 1 if it is new."""
    key = _key(a, b, facts.birth)
    place = _place(key, store)
    new = np.int64(store.cells[place, KEY] == 0)
    store.cells[place, KEY] = key
    store.cells[place, MOST] = count - store.slack[a] - store.slack[b]
    store.cells[place, STAMP] = stamp
    return new


@inlined
def _overlap(a: int, b: int, store: PairStore) -> bool:
    """Return whether two elements have an item in common: then no cover has both."""
    if len(store.mask) == 0:
        return False
    for w in range(WORDS):
        if store.mask[a, w] & store.mask[b, w] != np.uint64(0):
            return True
    return False


@inner
def bound(a: int, b: int, store: PairStore, facts: TableFacts) -> tuple[int, bool]:
    """Return a bound of a pair's co-usage, and whether it is the count itself."""
    return _bound(a, b, min(facts.usage[a], facts.usage[b]), store, facts)


@inlined
def _bound(a: int, b: int, uses: int, store: PairStore, facts: TableFacts) -> tuple[int, bool]:
    """The same with another bound of the usages."""
    slack = store.slack[a] + store.slack[b]
    place = _place(_key(a, b, facts.birth), store)
    if store.cells[place, KEY] != 0:
        exact = store.cells[place, STAMP] >= max(store.dirty[a], store.dirty[b], np.int64(0))
        count = store.cells[place, MOST] + slack
        if exact:
            return min(max(count, np.int64(0)), uses), True  # as it is, unless a member of a federation lies
        uses = min(uses, count)
    elif store.complete[a] == 1 or store.complete[b] == 1:
        uses = min(uses, slack)
    if uses > 0 and _overlap(a, b, store):
        uses = np.int64(0)
    return uses, uses == 0


@inlined
def best_gain(x: int, y: int, most: int, facts: TableFacts, now: Totals) -> float:
    """Return the highest gain that a pair can have whose co-usage is at most `most`.

    Between 2 and the second highest count the gain is convex if U is at least three times the count, so it is highest
    at an end.
    """
    if most < now.least:
        return -np.inf
    if now.total < 3 * most:
        return np.inf
    gain = max(estimate(x, y, most, facts, now), estimate(x, y, np.int64(1), facts, now))
    if most > 1:
        gain = max(gain, estimate(x, y, np.int64(2), facts, now), estimate(x, y, most - 1, facts, now))
    # Estimates are sums of terms as large as U·log2 U, each rounded a dozen times.
    return gain + 2.0**-44 * (1.0 + now.total_log)


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
    for y in range(limit):
        if facts.usage[y] == 0 or not belongs(x, y, rows, facts, now):
            continue
        count, exact = bound(x, y, store, facts)
        if count == 0:
            continue
        if exact:
            kind = EXACT
        else:
            gain = best_gain(x, y, count, facts, now)
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
    x: int, others: np.ndarray, counts: np.ndarray, version: int, store: PairStore, facts: TableFacts
) -> int:
    """Store exact counts of some pairs of an element; return how many pairs are new."""
    new = np.int64(0)
    for k in range(len(others)):
        new += _put(x, np.int64(others[k]), counts[k], version, store, facts)
    return new


@njit
def put_row(x: int, limit: int, row: np.ndarray, version: int, store: PairStore, facts: TableFacts) -> int:
    """Store all pairs of an element; `row` has a count for each slot. Return how many pairs are new."""
    new = np.int64(0)
    store.slack[x] = 0
    store.complete[x] = 1
    for y in range(limit):
        if y == x:
            continue
        # What is stored about an unused element refers to the slack that is forgotten here, so it is replaced, too.
        known = store.cells[_place(_key(x, y, facts.birth), store), KEY] != 0
        if known or (facts.usage[y] > 0 and (row[y] != 0 or store.slack[y] != 0)):
            new += _put(x, y, row[y], version, store, facts)
    return new


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
) -> int:
    """Bound the pairs of a new element, the union of two; return how many pairs are new.

    Where x and y were used together, it takes the place of both. `uses` are its uses in all. If nothing else has
    changed, the counts of the parents fall by those of the new element: they can be told as soon as these are known.
    """
    new = np.int64(0)
    store.slack[z] = uses - together
    store.dirty[z] = 0
    store.complete[z] = store.complete[x] | store.complete[y]
    for f in range(limit):
        if f in (x, y, z) or facts.usage[f] == 0:
            continue
        most = min(bound(x, f, store, facts)[0], bound(y, f, store, facts)[0])
        if most == 0 and store.slack[f] == 0:
            continue  # as for any pair that is not stored
        new += _put(z, f, most + store.slack[z], INEXACT, store, facts)
        if pure and most > 0:
            _await(x, f, version, store, facts)
            _await(y, f, version, store, facts)
    return new + _put(x, y, np.int64(0), version, store, facts)


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
) -> int:
    """Note that covers have changed which all have, or had, the pivot, and only those; return how many pairs are new.

    A pair of a touched element and another one changes only where the other one is used together with the pivot. A
    pair of two touched elements wins at most what both win. `pending` is scratch memory: zero for each slot.
    """
    new = np.int64(0)
    for k in range(len(slots)):
        pending[slots[k]] = won[k] + 1
    for k in range(len(slots)):
        a = np.int64(slots[k])
        if a == pivot:
            continue
        for f in range(limit):
            if f in (a, pivot) or (facts.usage[f] == 0 and pending[f] == 0):
                continue
            if pending[f] > 0:
                more = min(won[k] + pending[f] - 1, uses)
                if f > a:
                    continue  # once for both
            else:
                at_pivot, _ = _bound(pivot, f, uses, store, facts)
                if at_pivot == 0:
                    continue
                more = min(won[k], at_pivot)
            most, _ = _bound(a, f, max(facts.usage[a], facts.usage[f]), store, facts)
            new += _put(a, f, most + more, INEXACT, store, facts)
    for k in range(len(slots)):
        pending[slots[k]] = 0
    return new


@inlined
def _await(x: int, f: int, version: int, store: PairStore, facts: TableFacts) -> None:
    """Note that a count will be exact again when the count that is to be subtracted from it is known."""
    place = _place(_key(x, f, facts.birth), store)
    if store.cells[place, KEY] == 0:
        return
    exact = store.cells[place, STAMP] >= max(store.dirty[x], store.dirty[f], np.int64(0))
    store.cells[place, STAMP] = -1 - version if exact else INEXACT


@njit
def derive(
    z: int,
    x: int,
    others: np.ndarray,
    counts: np.ndarray,
    entered: int,
    version: int,
    store: PairStore,
    facts: TableFacts,
) -> None:
    """Subtract the counts of a new element from those of its parent, where these were known before.

    That is right only if the covers of none of the three have changed otherwise since version `entered`.
    """
    for k in range(len(others)):
        f = np.int64(others[k])
        if f in (x, z):
            continue
        place = _place(_key(x, f, facts.birth), store)
        if store.cells[place, KEY] == 0 or store.cells[place, STAMP] != -1 - entered:
            continue  # it is not this element that it waits for
        if entered >= max(store.dirty[x], store.dirty[f], store.dirty[z]):
            store.cells[place, MOST] -= counts[k]
            store.cells[place, STAMP] = version


@njit
def bounds_of(
    z: int, others: np.ndarray, counts: np.ndarray, kinds: np.ndarray, store: PairStore, facts: TableFacts
) -> None:
    """Write the bounds of some pairs of an element into `counts`, and into `kinds` which of them are EXACT."""
    for k in range(len(others)):
        counts[k], exact = bound(z, np.int64(others[k]), store, facts)
        kinds[k] = EXACT if exact else ASKED


@njit
def foresee(
    new: np.ndarray,
    parents: np.ndarray,
    k: int,
    limit: int,
    threshold: float,
    others: np.ndarray,
    counts: np.ndarray,
    store: PairStore,
    facts: TableFacts,
    then: TableFacts,
    now: Totals,
) -> int:
    """Return how many pairs of the new element new[k] are worth asking for, presuming that nothing else changes.

    Some are worth it because the counts of its parents follow from them, if these are known now. `then` has the usages
    that are presumed; new[j] is the union of parents[2j] and parents[2j+1].
    """
    n = np.int64(0)
    x, y, z = np.int64(parents[2 * k]), np.int64(parents[2 * k + 1]), np.int64(new[k])
    for f in range(limit):
        if f in (x, y) or then.usage[f] == 0 or facts.usage[f] == 0:
            continue
        at_x, exact_x = bound(x, f, store, facts)
        at_y, exact_y = bound(y, f, store, facts)
        most = min(at_x, at_y)
        if most > 0 and (
            _matters(z, f, most, threshold, then, now)
            or (exact_x and _matters(x, f, at_x, threshold, then, now))
            or (exact_y and _matters(y, f, at_y, threshold, then, now))
        ):
            others[n], counts[n] = f, most
            n += 1
    for j in range(k):
        p, q, f = np.int64(parents[2 * j]), np.int64(parents[2 * j + 1]), np.int64(new[j])
        at_x = min(bound(x, p, store, facts)[0], bound(x, q, store, facts)[0])
        at_y = min(bound(y, p, store, facts)[0], bound(y, q, store, facts)[0])
        most = min(at_x, at_y)
        if most > 0 and _matters(z, f, most, threshold, then, now):
            others[n], counts[n] = f, most
            n += 1
    return n


@njit
def foresee_parent(
    x: int,
    y: int,
    turn: np.ndarray,
    limit: int,
    threshold: float,
    others: np.ndarray,
    counts: np.ndarray,
    store: PairStore,
    facts: TableFacts,
    then: TableFacts,
    now: Totals,
) -> int:
    """Return how many pairs of x are worth asking for that do not follow from the counts of the union of x and y.

    These are pairs whose counts are not known now, and pairs with parents of other new elements. `turn` is 1 for such a
    parent that has had its turn, 2 for one whose turn is to come (the pair is left to it), and 0 for other slots.
    """
    n = np.int64(0)
    if then.usage[x] == 0:
        return n
    for f in range(limit):
        if f in (x, y) or then.usage[f] == 0 or facts.usage[f] == 0 or turn[f] == 2:
            continue
        most, exact = bound(x, f, store, facts)
        if most == 0 or (exact and turn[f] == 0):
            continue
        if _matters(x, f, most, threshold, then, now):
            others[n], counts[n] = f, most
            n += 1
    return n


@inlined
def _matters(a: int, f: int, most: int, threshold: float, facts: TableFacts, now: Totals) -> bool:
    """Return whether a count of which a bound is known can matter at these usages."""
    uses = min(facts.usage[a], facts.usage[f])
    return uses > 0 and best_gain(a, f, min(most, uses), facts, now) >= threshold


@njit
def rehash(old: PairStore, new: PairStore, alive: np.ndarray) -> int:
    """Copy the pairs whose elements are in the table; `alive` is indexed by birth. Return how many there are."""
    n = np.int64(0)
    low = (np.int64(1) << 32) - 1
    for k in range(len(old.cells)):
        key = old.cells[k, KEY]
        if key == 0 or alive[(key >> 32) - 1] == 0 or alive[(key & low) - 1] == 0:
            continue
        place = _place(key, new)
        new.cells[place, KEY] = key
        new.cells[place, MOST] = old.cells[k, MOST]
        new.cells[place, STAMP] = old.cells[k, STAMP]
        n += 1
    return n
