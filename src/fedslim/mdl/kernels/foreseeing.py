"""What will be worth asking for once insertions have happened, presuming that they change only what is expected."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedslim._jit import inlined, inner, njit
from fedslim.mdl.kernels.bounds import bound, find_bounds
from fedslim.mdl.kernels.pair_store import PairStore
from fedslim.mdl.kernels.planning import best_gain
from fedslim.mdl.kernels.ranking import TableFacts, Totals

if TYPE_CHECKING:
    from fedslim.mdl.questions import Changes

NEW, UNASKED, PARENT, TOUCHED = (np.int64(kind) for kind in range(4))
"""Rows of new elements; those that only tell what they reach; of their parents; of what is touched otherwise."""


class Expected(NamedTuple):
    """What each of several changes is expected to do; -1 covers are won of an element that it does not touch."""

    uses: NDArray[np.int64]  # of the element that enters
    won: NDArray[np.int64]  # a row for each change, with each slot
    reach: NDArray[np.int64]  # likewise: how many covers with the slot change at most


class Presumed(NamedTuple):
    """What is known, what is presumed, and where pairs are collected that are worth asking for."""

    limit: int  # of the slots of the table
    others: NDArray[np.int32]
    counts: NDArray[np.int64]
    store: PairStore
    facts: TableFacts
    then: TableFacts  # with the usages that are presumed
    now: Totals
    expected: Expected


@njit
def expect(
    pivots: np.ndarray,
    parents: np.ndarray,
    changes: Changes,
    limit: int,
    usage: np.ndarray,
    together: np.ndarray,
    store: PairStore,
    facts: TableFacts,
    expected: Expected,
) -> None:
    """Note what elements change by entering and leaving, and the usages then.

    Those that enter come first, and `together` gets what is known of the joint uses of their parents.
    """
    n = np.int64(0)
    for k in range(len(pivots)):
        while n < changes.ends[k]:
            s, lost, won = np.int64(changes.slots[n]), changes.lost[n], changes.won[n]
            usage[s] += won - lost
            if s == pivots[k]:
                expected.uses[k] += lost + won
            if s < limit:
                expected.won[k, s] = won
            n += 1
        if k < len(together):
            find_bounds(np.int64(parents[2 * k]), 0, limit, store, facts)
            together[k] = bound(0, np.int64(parents[2 * k]), np.int64(parents[2 * k + 1]), store)[0]
        else:
            # How far those reach that enter is not known yet.
            find_bounds(np.int64(pivots[k]), 0, limit, store, facts)
            for f in range(limit):
                expected.reach[k, f] = bound(0, np.int64(pivots[k]), np.int64(f), store)[0]


@njit
def foresee(
    steps: np.ndarray,
    first: int,
    before: int,
    new: np.ndarray,
    parents: np.ndarray,
    turn: np.ndarray,
    ends: np.ndarray,
    presumed: Presumed,
) -> int:
    """Collect the pairs of some rows that are worth asking for, from a first step on; return for how many was room.

    A step is a kind, a slot, and the number of the new element, or the other parent. The pairs of step r, in ascending
    order, end at ends[r], of which there are some `before` those of the first step. new[j] is the union of parents[2j]
    and parents[2j+1]. `turn` is 1 for what has had its turn, and 2 for what has yet to come, to which pairs with it are
    left.
    """
    n = np.int64(0)
    for r in range(first, len(steps)):
        if n + presumed.limit + len(new) > len(presumed.others):
            return r
        kind, slot, other = steps[r, 0], steps[r, 1], steps[r, 2]
        if kind == PARENT:
            n = _foresee_parent(slot, other, turn, n, presumed)
            turn[slot] = 1
        elif kind == TOUCHED:
            if min(presumed.then.usage[slot], presumed.facts.usage[slot]) > 0:  # it may have left since that was found
                n = _foresee_touched(slot, turn, n, presumed)
            turn[slot] = 1
        else:
            end = _foresee_new(new, parents, other, n, presumed)
            n = end if kind == NEW else n
        ends[r] = before + n
    return len(steps)


@inner
def _foresee_new(new: np.ndarray, parents: np.ndarray, k: int, begin: int, presumed: Presumed) -> int:
    """Collect the pairs of the new element new[k] that are worth asking for, presuming that only that changes.

    Some are worth it because the counts of its parents follow from them, if these are known now.
    """
    limit, others, counts, store, facts, then, now, expected = presumed
    n = begin
    x, y, z = np.int64(parents[2 * k]), np.int64(parents[2 * k + 1]), np.int64(new[k])
    find_bounds(x, 0, limit, store, facts)
    find_bounds(y, 1, limit, store, facts)
    more = max(np.int64(0), expected.uses[k] - bound(0, x, y, store)[0])
    for f in range(limit):
        if f in (x, y) or then.usage[f] == 0 or facts.usage[f] == 0:
            continue
        at_x, exact_x = bound(0, x, f, store)
        at_y, exact_y = bound(1, y, f, store)
        most = min(at_x, at_y) + more
        expected.reach[k, f] = most
        if more > 0:
            exact_x = exact_y = False
        if most > 0 and (
            _matters(z, f, most, then, now)
            or (exact_x and _matters(x, f, at_x, then, now))
            or (exact_y and _matters(y, f, at_y, then, now))
        ):
            others[n], counts[n] = f, most
            n += 1
    for j in range(k):
        p, q, f = np.int64(parents[2 * j]), np.int64(parents[2 * j + 1]), np.int64(new[j])
        at_x = min(bound(0, x, p, store)[0], bound(0, x, q, store)[0])
        at_y = min(bound(1, y, p, store)[0], bound(1, y, q, store)[0])
        most = min(at_x, at_y)
        if most > 0 and _matters(z, f, most, then, now):
            place = n
            while place > begin and others[place - 1] > f:
                others[place], counts[place] = others[place - 1], counts[place - 1]
                place -= 1
            others[place], counts[place] = f, most
            n += 1
    return n


@inner
def _foresee_touched(a: int, turn: np.ndarray, begin: int, presumed: Presumed) -> int:
    """Collect the pairs of an element that are worth asking for that is touched by more than a pure change."""
    limit, others, counts, store, facts, then, now, expected = presumed
    n = begin
    find_bounds(a, 0, limit, store, facts)
    for f in range(limit):
        if f == a or then.usage[f] == 0 or facts.usage[f] == 0 or turn[f] == 2:
            continue
        most, exact = bound(0, a, f, store)
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
        if most > 0 and not exact and _matters(a, f, most, then, now):
            others[n], counts[n] = f, most
            n += 1
    return n


@inner
def _foresee_parent(x: int, y: int, turn: np.ndarray, begin: int, presumed: Presumed) -> int:
    """Collect the pairs of x that are worth asking for, and do not follow from the counts of the union of x and y.

    These are pairs whose counts are not known now, and pairs with parents of other new elements.
    """
    limit, others, counts, store, facts, then, now, _ = presumed
    n = begin
    if then.usage[x] == 0:
        return n
    find_bounds(x, 0, limit, store, facts)
    for f in range(limit):
        if f in (x, y) or then.usage[f] == 0 or facts.usage[f] == 0 or turn[f] == 2:
            continue
        most, exact = bound(0, x, f, store)
        if most == 0 or (exact and turn[f] == 0):
            continue
        if _matters(x, f, most, then, now):
            others[n], counts[n] = f, most
            n += 1
    return n


@inlined
def _matters(a: int, f: int, most: int, facts: TableFacts, now: Totals) -> bool:
    """Return whether a count of which a bound is known can matter at these usages."""
    uses = min(facts.usage[a], facts.usage[f])
    return uses > 0 and best_gain(a, f, min(most, uses), 0.0, facts, now) >= 0.0
