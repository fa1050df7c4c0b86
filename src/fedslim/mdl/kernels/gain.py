"""The bits that a change costs, the estimated gain of joining two elements, and the candidates that were rejected."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedslim._jit import inlined, njit
from fedslim.mdl.objective import SERIES, SQRT_HALF, log2

if TYPE_CHECKING:
    from fedslim.mdl.kernels.ranking import TableFacts
    from fedslim.mdl.questions import Change

COEFFICIENTS = np.array(SERIES)


@inlined
def log2_count(count: int) -> float:
    """The twin of objective.log2, operation by operation."""
    if count == 0:
        return 0.0
    mantissa, exponent = math.frexp(float(count))
    if mantissa < SQRT_HALF:
        mantissa *= 2.0
        exponent -= 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square = s * s
    total = COEFFICIENTS[-1]
    for k in range(len(COEFFICIENTS) - 2, -1, -1):
        total = total * square + COEFFICIENTS[k]
    return exponent + total * s


@inlined
def total_parts(total: int, total_log: float, c: int) -> tuple[float, float]:
    """Return the terms that depend only on U and c: U·log2 U − (U−c)·log2 (U−c), and log2 (U−c)."""
    left = total - c
    log_left = log2_count(left)
    return total_log - left * log_left, log_left


@inlined
def pair_gain(  # plain numbers, so that both rankings can call it
    x: int,
    y: int,
    c: int,
    standard_x: float,
    standard_y: float,
    charge: float,
    in_use: int,
    codes_log: float,
    data_part: float,
    log_left: float,
    log2: np.ndarray,
) -> float:
    """Return the bits saved if X ∪ Y replaced all `c` joint uses of X and Y and nothing else changed.

    `codes_log` is n·log2 U; the next two are from `total_parts`. A parent that vanishes saves its own share of
    L(XY | ST), so only a parent that stays is charged. The twin of the tests has the same sum, term by term.
    """
    x_left = x - c
    y_left = y - c
    in_use_left = in_use + 1
    spelled_x = standard_x
    spelled_y = standard_y
    if x_left == 0:
        in_use_left -= 1
        spelled_x = 0.0
    if y_left == 0:
        in_use_left -= 1
        spelled_y = 0.0
    log_x = log2[x]
    log_y = log2[y]
    log_x_left = log2[x_left]
    log_y_left = log2[y_left]
    log_c = log2[c]
    data = data_part + (((x_left * log_x_left + y_left * log_y_left) + c * log_c) - (x * log_x + y * log_y))
    codes = (codes_log - in_use_left * log_left) + (((log_x_left + log_y_left) + log_c) - (log_x + log_y))
    return (data + codes) - charge * (spelled_x + spelled_y)


@njit
def _put_terms(
    slots: np.ndarray,
    lost: np.ndarray,
    won: np.ndarray,
    usages: np.ndarray,
    standard: np.ndarray,
    log2_of: np.ndarray,
    terms: np.ndarray,
) -> tuple[int, int, int]:
    """Put what depends on each element into `terms`; return their number, and by how much U and n change."""
    n = more = born = 0
    for k in range(len(slots)):
        s = np.int64(slots[k])
        usage, then = usages[s], usages[s] + won[k] - lost[k]
        more += then - usage
        terms[n], terms[n + 1] = usage * log2_of[usage], log2_of[usage]
        terms[n + 2], terms[n + 3] = -(then * log2_of[then]), -log2_of[then]
        n += 4
        if (usage == 0) != (then == 0):
            terms[n] = standard[s] if usage == 0 else -standard[s]
            born += 1 if usage == 0 else -1
            n += 1
    return n, more, born


def bits_after(
    change: Change, usages: np.ndarray, standard: np.ndarray, total: int, in_use: int, log2_of: np.ndarray
) -> float:
    """Return the change of L(D, CT) in bits, rounded once.

    `usages` has the usage of each slot, `standard` the length L(X | ST) of its element; `total` is U and `in_use` the
    number of itemsets with a usage, all before the change.
    """
    terms = np.empty(5 * len(change.slots))
    n, more, born = _put_terms(*change, usages, standard, log2_of, terms)
    log_total, log_total_then = log2(total), log2(total + more)
    codes = [(in_use + born) * log_total_then, -(in_use * log_total)]
    # Equal terms cancel out exactly: the sum is rounded only once.
    return math.fsum([*terms[:n].tolist(), (total + more) * log_total_then, -(total * log_total), *codes])


class Rejected(NamedTuple):
    """Candidates that are not proposed again until one of their three counts changes: an open hash table."""

    key: NDArray[np.int64]  # made of two births, 0 for an empty place
    x: NDArray[np.int64]
    y: NDArray[np.int64]
    c: NDArray[np.int64]


@inlined
def _place(key: int, rejected: Rejected) -> int:
    """Return the place of the key in the hash table, or the empty place where it would be."""
    mask = len(rejected.key) - 1
    h = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    place = np.int64(h >> np.uint64(20)) & mask
    while rejected.key[place] != 0 and rejected.key[place] != key:
        place = (place + 1) & mask
    return place


@inlined
def _key(a: int, b: int, facts: TableFacts) -> tuple[int, int, int]:
    """Return the key of a pair, and the pair in the order of that key."""
    if facts.birth[a] > facts.birth[b]:
        a, b = b, a
    return ((facts.birth[a] + 1) << 32) | (facts.birth[b] + 1), a, b


@inlined
def is_rejected(a: int, b: int, c: int, facts: TableFacts, rejected: Rejected) -> bool:
    """Return whether the pair was rejected with exactly these counts."""
    key, p, q = _key(a, b, facts)
    place = _place(key, rejected)
    return (
        rejected.key[place] == key
        and rejected.c[place] == c
        and rejected.x[place] == facts.usage[p]
        and rejected.y[place] == facts.usage[q]
    )


@njit
def reject(a: int, b: int, c: int, facts: TableFacts, rejected: Rejected) -> bool:
    """Remember the pair with its counts; return whether its key is new."""
    key, p, q = _key(a, b, facts)
    place = _place(key, rejected)
    new = rejected.key[place] == 0
    rejected.key[place] = key
    rejected.c[place] = c
    rejected.x[place] = facts.usage[p]
    rejected.y[place] = facts.usage[q]
    return new


@njit
def was_rejected(a: int, b: int, facts: TableFacts, rejected: Rejected) -> bool:
    """Return whether the pair was rejected, with whatever counts."""
    key, _, _ = _key(a, b, facts)
    return rejected.key[_place(key, rejected)] == key


@njit
def rehash(old: Rejected, new: Rejected) -> None:
    """Copy all keys into a larger table."""
    for k in range(len(old.key)):
        if old.key[k] != 0:
            place = _place(old.key[k], new)
            new.key[place] = old.key[k]
            new.x[place] = old.x[k]
            new.y[place] = old.y[k]
            new.c[place] = old.c[k]
