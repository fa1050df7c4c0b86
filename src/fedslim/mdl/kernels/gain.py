"""The bits that a change costs, and the estimated gain of joining two elements, as both rankings need it."""

from __future__ import annotations

import math

import numpy as np

from fedslim._jit import inlined, njit
from fedslim.mdl.objective import SERIES, SQRT_HALF, log2

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
    """The twin of objective.estimated_gain. `codes_log` is n·log2 U; the next two are from `total_parts`."""
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
    before: np.ndarray, net: np.ndarray, standard: np.ndarray, log2_of: np.ndarray, terms: np.ndarray
) -> tuple[int, int, int]:
    """Put what depends on each element into `terms`; return their number, and by how much U and n change."""
    n = more = born = 0
    for k in range(len(before)):
        usage, then = before[k], before[k] + net[k]
        more += net[k]
        terms[n], terms[n + 1] = usage * log2_of[usage], log2_of[usage]
        terms[n + 2], terms[n + 3] = -(then * log2_of[then]), -log2_of[then]
        n += 4
        if (usage == 0) != (then == 0):
            terms[n] = standard[k] if usage == 0 else -standard[k]
            born += 1 if usage == 0 else -1
            n += 1
    return n, more, born


def bits_after(
    before: np.ndarray, net: np.ndarray, standard: np.ndarray, total: int, in_use: int, log2_of: np.ndarray
) -> float:
    """Return the change of L(D, CT) in bits when usages change by `net`, rounded once.

    `before` has the usages of the elements that change and `standard` their lengths L(X | ST); `total` is U and
    `in_use` the number of itemsets with a usage, both before the change.
    """
    terms = np.empty(5 * len(before))
    n, more, born = _put_terms(before, net, standard, log2_of, terms)
    log_total, log_total_then = log2(total), log2(total + more)
    codes = [(in_use + born) * log_total_then, -(in_use * log_total)]
    # Equal terms cancel out exactly: the sum is rounded only once.
    return math.fsum([*terms[:n].tolist(), (total + more) * log_total_then, -(total * log_total), *codes])
