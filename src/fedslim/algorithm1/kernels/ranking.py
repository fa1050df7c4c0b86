"""Finds the union of two elements with the highest gain, where several pairs may have the same union.

The estimated gain of a union depends on its own counts and, slightly, on U and n. Unions whose own counts changed are
estimated at once. All others are in blocks, and for a block only an upper bound is kept, which `drift` raises when U
and n change; a block is scanned again only when its bound is the highest of all.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fedslim._jit import inlined, inner, njit
from fedslim.algorithm1.kernels.pairs import Pairs, add, discard, find
from fedslim.algorithm1.kernels.unions import ServerElements, Unions, compare, find_union, join, leave
from fedslim.mdl.kernels.arrays import Float64s, Int32s, Int64s
from fedslim.mdl.kernels.cover import NONE, NOT
from fedslim.mdl.kernels.gain import pair_gain, total_parts
from fedslim.mdl.kernels.ranking import LOG2_E, NEVER

BLOCK = 64  # unions in a block; scanning it takes a few microseconds

CONTRADICTION = np.int64(-1)  # what `take_in` returns for impossible counts: a co-usage above the usage of an element


class Blocks(NamedTuple):
    """What is known about each block of unions."""

    upper: Float64s  # no union in the block that is not rejected gains more than this
    exact: Int64s  # the version for which `upper` is the gain of `best`
    best: Int32s
    most: Int64s  # no union in it is used more often than this
    pairs: Int64s  # no union in it has more pairs than this


class Logs(NamedTuple):
    """Lookup tables of logarithms."""

    log2: Float64s
    data_part: Float64s  # for each co-usage c: U·log2 U − (U−c)·log2 (U−c) …
    log_left: Float64s  # … and log2 (U−c) …
    version: Int64s  # … of this version


class UnionTotals(NamedTuple):
    """The global counts."""

    version: int
    total: int  # U
    in_use: int  # n
    total_log: float  # U·log2 U
    codes_log: float  # n·log2 U


@inlined
def _note(g: int, unions: Unions, now: UnionTotals) -> None:
    """Note that a union's own counts have changed."""
    unions.rejected[g] = 0
    if unions.noted[g] != now.version:
        unions.noted[g] = now.version
        unions.notes[unions.sizes[1]] = g
        unions.sizes[1] += 1


@inlined
def _is_true(g: int, unions: Unions, pairs: Pairs, elements: ServerElements, logs: Logs) -> bool:
    """Return whether no pair is used more often than its elements, and the union not more often than any item."""
    usage = NONE if unions.element[g] < 0 else elements.usage[unions.element[g]]
    if usage + unions.together[g] >= len(logs.log2):
        return False
    p = np.int64(unions.first[g])
    while p >= 0:
        c = pairs.count[p]
        if elements.usage[pairs.element[2 * p]] < c or elements.usage[pairs.element[2 * p + 1]] < c:
            return False
        p = np.int64(unions.following[p])
    return True


@inner
def _gain(g: int, unions: Unions, pairs: Pairs, elements: ServerElements, logs: Logs, now: UnionTotals) -> float:
    """Return the bits saved if a union replaced all joint uses of its pairs; its twin is in the tests."""
    c = unions.together[g]
    if logs.version[c] != now.version:
        logs.data_part[c], logs.log_left[c] = total_parts(now.total, now.total_log, c)
        logs.version[c] = now.version
    p = np.int64(unions.first[g])
    x = np.int64(pairs.element[2 * p])
    y = np.int64(pairs.element[2 * p + 1])
    usage = NONE if unions.element[g] < 0 else elements.usage[unions.element[g]]
    if unions.pairs[g] == 1 and usage == 0:
        x_usage, y_usage = elements.usage[x], elements.usage[y]
        x_bits, y_bits = elements.standard[x], elements.standard[y]
        at = now.in_use, now.codes_log, logs.data_part[c], logs.log_left[c], logs.log2
        return pair_gain(x_usage, y_usage, c, x_bits, y_bits, 1.0, *at)
    log2 = logs.log2
    in_use_left = now.in_use
    data_then = (usage + c) * log2[usage + c]
    data_now = usage * log2[usage]
    codes_then = log2[usage + c]
    codes_now = log2[usage]
    spelling = 0.0
    if usage == 0:
        in_use_left += 1
        spelling = elements.standard[x] + elements.standard[y]
    while p >= 0:
        for end in range(2 * p, 2 * p + 2):
            e = np.int64(pairs.element[end])
            before = elements.usage[e]
            left = before - pairs.count[p]
            data_then += left * log2[left]
            data_now += before * log2[before]
            codes_then += log2[left]
            codes_now += log2[before]
            if left == 0:
                in_use_left -= 1
                spelling -= elements.standard[e]
        p = np.int64(unions.following[p])
    data = logs.data_part[c] + (data_then - data_now)
    codes = (now.codes_log - in_use_left * logs.log_left[c]) + (codes_then - codes_now)
    return (data + codes) - spelling


@njit
def take_in(
    changed: np.ndarray,
    xs: np.ndarray,
    ys: np.ndarray,
    counts: np.ndarray,
    pairs: Pairs,
    unions: Unions,
    elements: ServerElements,
    blocks: Blocks,
    logs: Logs,
    now: UnionTotals,
) -> int:
    """Set new counts of these pairs (0 removes one), after the usages of the `changed` elements have changed.

    There must be free numbers for as many pairs. Return how many unions are estimated again, or CONTRADICTION.
    """
    unions.sizes[1] = 0
    for k in range(len(xs)):
        x, y, c = np.int64(xs[k]), np.int64(ys[k]), np.int64(counts[k])
        place = find(x, y, pairs)
        p = np.int64(pairs.places[place])
        if p < 0:
            if c == 0:
                continue
            p = add(x, y, NONE, place, pairs)
            join(p, unions, pairs, elements)
        if pairs.count[p] == c:
            continue
        g = np.int64(unions.of[p])
        unions.together[g] += c - pairs.count[p]
        _note(g, unions, now)
        pairs.count[p] = c
        if c == 0:
            leave(p, unions, pairs, elements)
            discard(p, pairs)
    for k in range(len(changed)):
        e = np.int64(changed[k])
        end = np.int64(pairs.first[e])
        while end >= 0:
            _note(np.int64(unions.of[end >> 1]), unions, now)
            end = np.int64(pairs.following[end])
        g = np.int64(unions.places[find_union(e, NOT, elements.hash[e], unions, pairs, elements)])
        if g >= 0:
            _note(g, unions, now)
    for k in range(unions.sizes[1]):
        g = np.int64(unions.notes[k])
        if unions.first[g] < 0:
            continue
        if not _is_true(g, unions, pairs, elements, logs):
            return CONTRADICTION
        b = g // BLOCK
        blocks.upper[b] = max(blocks.upper[b], _gain(g, unions, pairs, elements, logs, now))
        blocks.most[b] = max(blocks.most[b], unions.together[g])
        blocks.pairs[b] = max(blocks.pairs[b], unions.pairs[g])
        blocks.exact[b] = NEVER
    return unions.sizes[1]


@inlined
def _prefer(g: int, h: int, unions: Unions, pairs: Pairs, elements: ServerElements) -> bool:
    """Of two unions with equal gains prefer higher co-usage, then the larger one, then lexicographic order."""
    if unions.together[g] != unions.together[h]:
        return unions.together[g] > unions.together[h]
    e, p, q = pairs.element, 2 * np.int64(unions.first[g]), 2 * np.int64(unions.first[h])
    x, y, z, w = np.int64(e[p]), np.int64(e[p + 1]), np.int64(e[q]), np.int64(e[q + 1])
    return compare(x, y, z, w, elements) < 0


@inner
def _go_through(
    b: int, pairs: Pairs, unions: Unions, elements: ServerElements, blocks: Blocks, logs: Logs, now: UnionTotals
) -> None:
    """Find the best union of a block with the current counts."""
    best = NOT
    upper = -np.inf
    most = NONE
    max_pairs = NONE
    for g in range(b * BLOCK, min((b + 1) * BLOCK, unions.sizes[2])):
        if unions.first[g] < 0 or unions.rejected[g] != 0:
            continue
        most = max(most, unions.together[g])
        max_pairs = max(max_pairs, unions.pairs[g])
        gain = _gain(g, unions, pairs, elements, logs, now)
        if gain > upper or (gain == upper and _prefer(g, best, unions, pairs, elements)):
            upper = gain
            best = g
    blocks.upper[b] = upper
    blocks.best[b] = best
    blocks.most[b] = most
    blocks.pairs[b] = max_pairs
    blocks.exact[b] = now.version


@njit
def best(pairs: Pairs, unions: Unions, elements: ServerElements, blocks: Blocks, logs: Logs, now: UnionTotals) -> int:
    """Return the union with the highest gain, NOBODY if none is above zero; its gain is its block's bound."""
    n_blocks = (unions.sizes[2] + BLOCK - 1) // BLOCK
    while True:
        top = NOT
        upper = 0.0
        for b in range(n_blocks):
            if blocks.upper[b] < upper or blocks.upper[b] <= 0.0:
                continue
            if blocks.upper[b] > upper:
                top = b
                upper = blocks.upper[b]
            # Of equal bounds an inexact one comes first: when the top one is exact, all of them are.
            elif blocks.exact[b] != now.version or (
                blocks.exact[top] == now.version
                and _prefer(np.int64(blocks.best[b]), np.int64(blocks.best[top]), unions, pairs, elements)
            ):
                top = b
        if top < 0:
            return NOT
        if blocks.exact[top] == now.version:
            return np.int64(blocks.best[top])
        _go_through(top, pairs, unions, elements, blocks, logs, now)


@njit
def drift(n_blocks: int, blocks: Blocks, total_before: int, in_use_before: int, total: int, in_use: int) -> None:
    """Raise all bounds by as much as a gain can rise when U and n change while a union's own counts do not.

    As in `mdl/kernels/ranking.py`; but with k pairs up to 2k elements may vanish, so the gain may grow with U by
    2k/(U−c) in addition to log2(U / (U−c)). See docs/explanation/decisions/ranking-bounds.md.
    """
    low = float(min(total, total_before))
    n = max(in_use, in_use_before)
    more = max(0, in_use - in_use_before)
    up = max(0, total - total_before)
    down = max(0, total_before - total)
    # Both estimates are sums of terms as large as U·log2 U; each is rounded to 53 bits a dozen times.
    rounding = 2.0**-48 * (1.0 + low + up + down) * math.log2(2.0 + low + up + down)
    for b in range(n_blocks):
        if blocks.upper[b] == -np.inf:
            continue
        c = blocks.most[b]
        if n + c >= low:
            blocks.upper[b] = np.inf
            continue
        per = c / (low - c)
        vanishing = 2.0 * blocks.pairs[b] / (low - c)
        rise = more * per + up * (per + vanishing) + down * (n + c) / (low * (low - c))
        blocks.upper[b] += LOG2_E * rise + rounding * (1.0 + blocks.pairs[b])


@njit
def reject(g: int, unions: Unions, blocks: Blocks) -> None:
    """Do not propose this union again until one of its own counts changes."""
    unions.rejected[g] = 1
    blocks.exact[g // BLOCK] = NEVER
