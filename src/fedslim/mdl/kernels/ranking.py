"""Finds the pair of elements with the highest gain: a best-first search over rows of the pair matrix, with safe bounds.

The estimated gain of a pair depends on its own counts and, slightly, on two global ones: U, the sum of all usages,
and n, the number of itemsets in use. After a change the rows of elements whose covers changed are forgotten. They are
asked for again only when the bound by their usage (`row_bound`) is above the best known candidate. The best gain of
every other row is carried over as an upper bound (`drift` raises it by as much as it may have risen) and computed again
only when that bound is the highest of all.

A pair belongs to the row whose element changed last: its count there is up to date.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fedslim._jit import inlined, inner, njit
from fedslim.mdl.kernels.arrays import Float64s, Int32s, Int64s, UInt8s
from fedslim.mdl.kernels.gain import Rejected, is_rejected, log2_count, pair_gain, total_parts

NEVER = np.int64(-1)

LOG2_E = 1.4426950408889634


class PairRows(NamedTuple):
    """What is known about each element's row of the pair matrix."""

    upper: Float64s  # no pair of the row gains more than this
    exact: Int64s  # the version for which `upper` is the gain of `partner`
    partner: Int32s
    together: Int64s  # the co-usage of that pair
    stamp: Int64s  # the version in which the element's covers last changed
    known: UInt8s  # whether the row has been asked for since
    most: Int64s  # the largest co-usage in the row
    dropped: Float64s  # no pair that was left out of the row gains more than this
    start: Int64s
    length: Int64s
    partners: Int32s  # pool
    counts: Int32s  # pool


class TableFacts(NamedTuple):
    """What the estimate needs about each element, and its lookup tables."""

    usage: Int64s
    standard: Float64s  # L(X | ST)
    size: Int32s
    rank: Int32s
    birth: Int64s  # a number that is unique to the element
    log2: Float64s
    data_part: Float64s  # for each co-usage c: U·log2 U − (U−c)·log2 (U−c) …
    log_left: Float64s  # … and log2 (U−c) …
    part_version: Int64s  # … of this version


class Choice(NamedTuple):
    """The candidates that `choose` found, and its scratch memory."""

    row: Int32s
    partner: Int32s
    together: Int64s
    gain: Float64s
    taken: UInt8s  # for each element, whether a chosen candidate has it
    passed: Int32s  # rows that compete with a later pair than their best …
    best_upper: Float64s  # … and their best pairs
    best_partner: Int32s
    best_together: Int64s


class Totals(NamedTuple):
    """The global counts and the settings of the search."""

    version: int
    total: int  # U
    in_use: int  # n
    total_log: float  # U·log2 U
    codes_log: float  # n·log2 U
    charge: float  # how much of L(·|ST) is charged
    largest: int  # the largest itemset allowed
    least: int  # pairs with a lower co-usage are no candidates
    margin: float  # pairs with a gain below -margin are left out of the rows


class Known(NamedTuple):
    """All that is known about candidates."""

    rows: PairRows
    facts: TableFacts
    rejected: Rejected
    now: Totals


@inlined
def estimate(a: int, b: int, c: int, facts: TableFacts, now: Totals) -> float:
    """See `pair_gain`."""
    if facts.part_version[c] != now.version:
        facts.data_part[c], facts.log_left[c] = total_parts(now.total, now.total_log, c)
        facts.part_version[c] = now.version
    x, y, standard_x, standard_y = facts.usage[a], facts.usage[b], facts.standard[a], facts.standard[b]
    part, log_left = facts.data_part[c], facts.log_left[c]
    return pair_gain(x, y, c, standard_x, standard_y, now.charge, now.in_use, now.codes_log, part, log_left, facts.log2)


@inlined
def _owns(a: int, b: int, stamp: np.ndarray) -> bool:
    return stamp[a] > stamp[b] or (stamp[a] == stamp[b] and a > b)


@inlined
def _prefer(a: int, b: int, c: int, p: int, q: int, d: int, rank: np.ndarray) -> bool:
    """Of two pairs with equal gains prefer higher co-usage, then the one whose elements come first in cover order."""
    if c != d:
        return c > d
    first, second = min(rank[a], rank[b]), min(rank[p], rank[q])
    if first != second:
        return first < second
    return max(rank[a], rank[b]) < max(rank[p], rank[q])


@inlined
def belongs(x: int, y: int, rows: PairRows, facts: TableFacts, now: Totals) -> bool:
    """Return whether (x, y) can be a candidate, and belongs to row `x`."""
    return y != x and _owns(x, y, rows.stamp) and facts.size[x] + facts.size[y] <= now.largest


@njit
def row_gains(x: int, slots: np.ndarray, together: np.ndarray, gains: np.ndarray, known: Known) -> None:
    """Estimate the gain of each pair of a row: minus infinity if it does not belong there, infinity if rejected."""
    rows, facts, rejected, now = known
    for k in range(len(slots)):
        y = np.int64(slots[k])
        c = np.int64(together[k])
        if c < now.least or not belongs(x, y, rows, facts, now):
            gains[k] = -np.inf
        elif is_rejected(x, y, c, facts, rejected):
            gains[k] = np.inf
        else:
            gains[k] = estimate(x, y, c, facts, now)


@njit
def add_rows(
    xs: np.ndarray,
    ends: np.ndarray,
    slots: np.ndarray,
    together: np.ndarray,
    at: int,
    most: int,
    dropped: float,
    known: Known,
) -> int:
    """Store rows from pool position `at` on; return the position after them. The entries of row xs[r] end at ends[r].

    `most` and `dropped` are the largest co-usage and gain of pairs that the caller has already left out.
    """
    begin, end = np.int64(0), at
    for r in range(len(xs)):
        end = add_row(np.int64(xs[r]), slots, together, begin, np.int64(ends[r]), end, most, dropped, known)
        begin = np.int64(ends[r])
    return end


@inner
def add_row(
    x: int,
    slots: np.ndarray,
    together: np.ndarray,
    begin: int,
    stop: int,
    at: int,
    most: int,
    dropped: float,
    known: Known,
) -> int:
    """Store the entries from `begin` to `stop` as a row at pool position `at`; return the position after it."""
    rows, facts, _, now = known
    rows.known[x] = 1
    rows.start[x] = at
    rows.most[x] = most
    rows.dropped[x] = dropped
    for k in range(begin, stop):
        y = np.int64(slots[k])
        c = np.int64(together[k])
        if c < now.least or not belongs(x, y, rows, facts, now):
            continue
        rows.most[x] = max(rows.most[x], c)
        gain = estimate(x, y, c, facts, now)
        if gain < -now.margin:
            rows.dropped[x] = max(rows.dropped[x], gain)
            continue
        rows.partners[at], rows.counts[at] = y, c
        at += 1
    rows.length[x] = at - rows.start[x]
    _scan(x, np.inf, NEVER, NEVER, known)
    return at


@inner
def _scan(x: int, behind: float, behind_partner: int, behind_together: int, known: Known) -> None:
    """Find the best pair of row `x` with the current counts, and drop pairs that now belong to another row.

    Only pairs that come after the one with gain `behind` count: infinity for all pairs.
    """
    rows, facts, rejected, now = known
    begin = rows.start[x]
    kept = begin
    best, partner, together = -np.inf, NEVER, np.int64(0)
    for k in range(begin, begin + rows.length[x]):
        y = np.int64(rows.partners[k])
        if not _owns(x, y, rows.stamp):
            continue
        c = np.int64(rows.counts[k])
        rows.partners[kept], rows.counts[kept] = y, c
        kept += 1
        gain = estimate(x, y, c, facts, now)
        if gain < best or (gain == best and not _prefer(x, y, c, x, partner, together, facts.rank)):
            continue
        if gain > behind or (gain == behind and not _prefer(x, behind_partner, behind_together, x, y, c, facts.rank)):
            continue
        if not is_rejected(x, y, c, facts, rejected):
            best, partner, together = gain, y, c
    rows.length[x] = kept - begin
    if rows.dropped[x] > max(best, 0.0):
        # A pair that was left out may be the best now: the row must be asked for again before its turn comes.
        if behind == np.inf:
            rows.known[x] = 0
        best, partner = rows.dropped[x], NEVER
    rows.upper[x] = max(best, rows.dropped[x])  # it may become the better one as the bounds drift
    rows.partner[x] = partner
    rows.together[x] = together
    rows.exact[x] = now.version


@inlined
def _ahead(x: int, y: int, rows: PairRows, facts: TableFacts, now: Totals) -> bool:
    """Return whether row `x` comes before row `y`: by bound, then rows without a known pair first, then by the pair.

    So when the best pair of the first row is known, those of all rows with the same bound are.
    """
    if rows.upper[x] != rows.upper[y]:
        return rows.upper[x] > rows.upper[y]
    if rows.exact[x] != now.version or rows.partner[x] == NEVER:
        return True
    if rows.exact[y] != now.version or rows.partner[y] == NEVER:
        return False
    a, b = np.int64(rows.partner[x]), np.int64(rows.partner[y])
    return _prefer(x, a, rows.together[x], y, b, rows.together[y], facts.rank)


@inlined
def _play(node: int, tree: np.ndarray, rows: PairRows, facts: TableFacts, now: Totals) -> None:
    """Set the winner of a tournament node to the better one of its two children's winners."""
    left, right = np.int64(tree[2 * node]), np.int64(tree[2 * node + 1])
    if right < 0 or (left >= 0 and _ahead(left, right, rows, facts, now)):
        tree[node] = left
    else:
        tree[node] = right


@njit
def choose(limit: int, width: int, look: int, tree: np.ndarray, choice: Choice, known: Known) -> tuple[int, float]:
    """Choose candidates from the best `look` ones of all known rows; return their number, and the last gain seen.

    Best first, each one is chosen that has no element in common with those chosen before it, until there are `width`.
    The last gain seen is 0 if there are no more candidates.

    The rows play a tournament (`tree` has twice as many places as there are rows, a power of two): when a row turns
    out to be worse than its bound, only its own path is played again. A row whose best pair has been seen competes with
    its next one; at the end its best pair is restored.
    """
    rows, facts, _, now = known
    half = len(tree) // 2
    for x in range(half):
        tree[half + x] = x if x < limit and rows.known[x] == 1 and rows.upper[x] > 0.0 else NEVER
    for node in range(half - 1, 0, -1):
        _play(node, tree, rows, facts, now)
    n, seen, n_passed = np.int64(0), np.int64(0), np.int64(0)
    above = np.inf
    while True:
        row = np.int64(tree[1])
        if row < 0 or rows.upper[row] <= 0.0:
            above = 0.0
            break
        if rows.exact[row] != now.version:
            _scan(row, np.inf, NEVER, NEVER, known)
        elif rows.partner[row] == NEVER:
            rows.known[row] = 0  # pairs that were left out of it are the next ones
        else:
            partner, together = np.int64(rows.partner[row]), rows.together[row]
            above = rows.upper[row]
            seen += 1
            if choice.taken[row] == 0 and choice.taken[partner] == 0:
                choice.row[n], choice.partner[n], choice.together[n], choice.gain[n] = row, partner, together, above
                choice.taken[row] = choice.taken[partner] = 1
                n += 1
            if choice.best_partner[row] == NEVER:
                choice.passed[n_passed] = row
                n_passed += 1
                choice.best_upper[row] = above
                choice.best_partner[row] = partner
                choice.best_together[row] = together
            if n == width or seen == look:
                break
            _scan(row, above, partner, together, known)
        node = half + row
        if rows.known[row] == 0:
            tree[node] = NEVER
        node //= 2
        while node > 0:
            _play(node, tree, rows, facts, now)
            node //= 2
    for k in range(n_passed):
        row = np.int64(choice.passed[k])
        rows.upper[row] = choice.best_upper[row]
        rows.partner[row] = choice.best_partner[row]
        rows.together[row] = choice.best_together[row]
        choice.best_partner[row] = NEVER
    for k in range(n):
        choice.taken[choice.row[k]] = choice.taken[choice.partner[k]] = 0
    return n, above


@njit
def unknown(limit: int, above: float, rows: PairRows, found: np.ndarray) -> int:
    """Collect in `found` the unknown rows that may have a pair at least as good as `above`; return their number."""
    n = np.int64(0)
    for x in range(limit):
        if rows.known[x] == 0 and rows.upper[x] >= above and rows.upper[x] > 0.0:
            found[n] = x
            n += 1
    return n


@inlined
def row_bound(x: int, now: Totals) -> float:
    """Bound the gain of any pair with an element of usage `x`, whatever the partner.

    The data part falls with the partner's usage and, where the partner is used nowhere else, grows with the co-usage:
    it is largest if two elements are always used together. Codes save at most n·log2(U / (U−x)) + log2 U, and spelling
    saves nothing. See docs/explanation/decisions/ranking-bounds.md.
    """
    left = now.total - x
    if left <= 0:
        return np.inf
    log_total = now.total_log / now.total
    log_left = log2_count(left)
    data = now.total_log - left * log_left - x * log2_count(x)
    slack = 2.0**-40 * (1.0 + now.total_log)
    return data + now.in_use * (log_total - log_left) + log_total + slack


@njit
def forget_rows(slots: np.ndarray, rows: PairRows, facts: TableFacts, now: Totals) -> None:
    """Forget these rows; only the bounds by their usages remain."""
    for k in range(len(slots)):
        x = np.int64(slots[k])
        rows.known[x] = 0
        rows.most[x] = facts.usage[x]
        rows.dropped[x] = -np.inf
        rows.upper[x] = row_bound(facts.usage[x], now) if facts.usage[x] >= now.least else -np.inf


@njit
def drift(limit: int, rows: PairRows, total_before: int, in_use_before: int, total: int, in_use: int) -> None:
    """Raise all bounds by as much as a gain can rise when U and n change while a pair's own counts do not.

    The part P(U, n, c) of the gain that depends on U and n grows with n by at most log2(U / (U−c)), and with U by at
    most that plus 1/(U−c) (in nats). When U shrinks it can grow, for c = 1 and a parent that stays, by
    (n + c) / (U·(U−c)) for each unit. See docs/explanation/decisions/ranking-bounds.md.
    """
    low = float(min(total, total_before))
    n = max(in_use, in_use_before)
    more = max(0, in_use - in_use_before)
    up = max(0, total - total_before)
    down = max(0, total_before - total)
    # Both estimates are sums of terms as large as U·log2 U; each is rounded to 53 bits a dozen times.
    rounding = 2.0**-48 * (1.0 + low + up + down) * math.log2(2.0 + low + up + down)
    for x in range(limit):
        c = rows.most[x]
        if n + c >= low:
            rise = np.inf
        else:
            per = c / (low - c)
            rise = LOG2_E * (more * per + up * (per + 1.0 / (low - c)) + down * (n + c) / (low * (low - c))) + rounding
        if rows.dropped[x] > -np.inf:
            rows.dropped[x] += rise
        if rows.upper[x] > -np.inf:
            rows.upper[x] += rise


@njit
def compact(rows: PairRows, limit: int, partners: np.ndarray, counts: np.ndarray) -> int:
    """Copy the known rows into another pool without gaps; return where it ends."""
    end = 0
    for x in range(limit):
        if rows.known[x] == 0:
            continue
        begin = rows.start[x]
        rows.start[x] = end
        for k in range(begin, begin + rows.length[x]):
            partners[end], counts[end] = rows.partners[k], rows.counts[k]
            end += 1
    return end
