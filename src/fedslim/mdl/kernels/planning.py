"""Which pairs of an element's row matter: those to ask for, and rows that are made of what is known."""

from __future__ import annotations

import numpy as np

from fedslim._jit import inlined, inner, njit
from fedslim.mdl.kernels.bounds import bound, find_bounds
from fedslim.mdl.kernels.pair_store import NONE, PairStore
from fedslim.mdl.kernels.ranking import Known, PairRows, TableFacts, Totals, add_row, belongs, estimate

ASK, IF_ENOUGH, AS_IT_IS = (np.int64(purpose) for purpose in range(3))
"""Why a row is planned: to ask for what matters; to store it if nothing has to be asked for; to store it anyway."""


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
    if gain < enough and most > 1:
        gain = max(gain, estimate(x, y, np.int64(1), facts, now) + rounding)
        if most > 2:
            gain = max(gain, estimate(x, y, np.int64(2), facts, now) + rounding)
        if most > 3:
            gain = max(gain, estimate(x, y, most - 1, facts, now) + rounding)
    return gain


@inner
def _plan(
    x: int,
    limit: int,
    threshold: float,
    purpose: int,
    others: np.ndarray,
    counts: np.ndarray,
    begin: int,
    store: PairStore,
    rows: PairRows,
    facts: TableFacts,
    now: Totals,
) -> tuple[int, int, float]:
    """Collect pairs of a row from others[begin] on: those to ASK for, or else those whose counts are known.

    Return where they end, and the largest bound and gain of those left out; NONE for the end if only a row that lacks
    nothing that matters is of use (IF_ENOUGH), and one must be asked for.
    """
    n, most, dropped = begin, np.int64(0), -np.inf
    find_bounds(x, 0, limit, store, facts)
    for y in range(limit):
        if store.bounds[0, y] == 0 or not belongs(x, y, rows, facts, now):
            continue
        count, exact = bound(0, x, y, store)
        if count == 0:
            continue
        if not exact:
            gain = best_gain(x, y, count, threshold, facts, now)
            matters = gain >= threshold
            if matters and purpose == IF_ENOUGH:
                return np.int64(NONE), most, dropped
            if not matters or purpose != ASK:
                most, dropped = max(most, count), max(dropped, gain)
                continue
        elif purpose == ASK:
            continue
        others[n], counts[n] = y, count
        n += 1
    return n, most, dropped


@njit
def plan_rows(
    slots: np.ndarray,
    limit: int,
    others: np.ndarray,
    counts: np.ndarray,
    ends: np.ndarray,
    store: PairStore,
    rows: PairRows,
    facts: TableFacts,
    now: Totals,
) -> int:
    """Collect the pairs of rows that must be asked for, with their bounds; return for how many rows there was room."""
    n = np.int64(0)
    for k in range(len(slots)):
        if n + limit > len(others):
            return k
        n, _, _ = _plan(np.int64(slots[k]), limit, 0.0, ASK, others, counts, n, store, rows, facts, now)
        ends[k] = n
    return len(slots)


@njit
def add_known_rows(
    slots: np.ndarray,
    first: int,
    limit: int,
    threshold: float,
    purpose: int,
    others: np.ndarray,
    counts: np.ndarray,
    longest: int,
    at: int,
    lacking: np.ndarray,
    store: PairStore,
    known: Known,
) -> tuple[int, int, int, int, float]:
    """Store rows that are made of what is known, from slots[first] on and pool position `at`; mark those `lacking`.

    Return the index of the first row that has no room or too many pairs, the position after those that were stored,
    and that row: its number of pairs, and the largest bound and gain of those left out.
    """
    rows, facts, _, now = known
    for k in range(first, len(slots)):
        x = np.int64(slots[k])
        n, most, dropped = np.int64(NONE), np.int64(0), -np.inf
        if purpose != IF_ENOUGH or store.complete[x] == 1:
            n, most, dropped = _plan(x, limit, threshold, purpose, others, counts, np.int64(0), store, rows, facts, now)
        if n < 0:
            lacking[k] = 1
        elif n > longest or at + n > len(rows.partners):
            return k, at, n, most, dropped
        else:
            at = add_row(x, others, counts, np.int64(0), n, at, most, dropped, known)
    return len(slots), at, np.int64(0), np.int64(0), -np.inf
