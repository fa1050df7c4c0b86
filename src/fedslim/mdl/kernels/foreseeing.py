"""What will be worth asking for once insertions have happened, presuming that they change only what is expected."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedslim._jit import inlined, njit
from fedslim.mdl.kernels.bounds import PairStore, best_gain, bound, find
from fedslim.mdl.kernels.ranking import TableFacts, Totals


class Expected(NamedTuple):
    """What each of several changes is expected to do; -1 covers are won of an element that it does not touch."""

    uses: NDArray[np.int64]  # of the element that enters
    won: NDArray[np.int64]  # a row for each change, with each slot
    reach: NDArray[np.int64]  # likewise: how many covers with the slot change at most


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
    expected: Expected,
) -> int:
    """Return how many pairs of the new element new[k] are worth asking for, presuming that only that changes.

    Some are worth it because the counts of its parents follow from them, if these are known now. `then` has the usages
    that are presumed; new[j] is the union of parents[2j] and parents[2j+1].
    """
    n = np.int64(0)
    x, y, z = np.int64(parents[2 * k]), np.int64(parents[2 * k + 1]), np.int64(new[k])
    find(x, 0, limit, store, facts)
    find(y, 1, limit, store, facts)
    more = max(np.int64(0), expected.uses[k] - bound(0, x, y, store, facts)[0])
    for f in range(limit):
        if f in (x, y) or then.usage[f] == 0 or facts.usage[f] == 0:
            continue
        at_x, exact_x = bound(0, x, f, store, facts)
        at_y, exact_y = bound(1, y, f, store, facts)
        most = min(at_x, at_y) + more
        expected.reach[k, f] = most
        if more > 0:
            exact_x = exact_y = False
        if most > 0 and (
            _matters(z, f, most, threshold, then, now)
            or (exact_x and _matters(x, f, at_x, threshold, then, now))
            or (exact_y and _matters(y, f, at_y, threshold, then, now))
        ):
            others[n], counts[n] = f, most
            n += 1
    for j in range(k):
        p, q, f = np.int64(parents[2 * j]), np.int64(parents[2 * j + 1]), np.int64(new[j])
        at_x = min(bound(0, x, p, store, facts)[0], bound(0, x, q, store, facts)[0])
        at_y = min(bound(1, y, p, store, facts)[0], bound(1, y, q, store, facts)[0])
        most = min(at_x, at_y)
        if most > 0 and _matters(z, f, most, threshold, then, now):
            others[n], counts[n] = f, most
            n += 1
    return n


@njit
def foresee_touched(
    a: int,
    turn: np.ndarray,
    limit: int,
    threshold: float,
    others: np.ndarray,
    counts: np.ndarray,
    store: PairStore,
    facts: TableFacts,
    then: TableFacts,
    now: Totals,
    expected: Expected,
) -> int:
    """Return how many pairs of an element are worth asking for that is touched by more than a pure change."""
    n = np.int64(0)
    find(a, 0, limit, store, facts)
    for f in range(limit):
        if f == a or then.usage[f] == 0 or facts.usage[f] == 0 or turn[f] == 2:
            continue
        most, exact = bound(0, a, f, store, facts)
        for k in range(len(expected.uses)):
            at_a, at_f = np.int64(expected.won[k, a]), np.int64(expected.won[k, f])
            if at_a >= 0 and at_f >= 0:
                more = min(at_a + at_f, expected.uses[k])
            elif at_a >= 0 and expected.reach[k, f] > 0:
                more = min(at_a, expected.reach[k, f])
            elif at_f >= 0 and expected.reach[k, a] > 0:
                more = min(at_f, expected.reach[k, a])
            else:
                continue
            most, exact = most + more, False
        if most > 0 and not exact and _matters(a, f, most, threshold, then, now):
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
    find(x, 0, limit, store, facts)
    for f in range(limit):
        if f in (x, y) or then.usage[f] == 0 or facts.usage[f] == 0 or turn[f] == 2:
            continue
        most, exact = bound(0, x, f, store, facts)
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
    return uses > 0 and best_gain(a, f, min(most, uses), threshold, facts, now) >= threshold
