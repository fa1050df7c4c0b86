"""The estimated gain of joining two elements: the arithmetic that both rankings share, term by term."""

from __future__ import annotations

import math

import numpy as np

from fedslim._jit import inlined
from fedslim.mdl.objective import SERIES, SQRT_HALF

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
    cheaper: float,
    dearer: float,
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
    if spelled_x <= spelled_y:
        spelling = cheaper * spelled_x + dearer * spelled_y
    else:
        spelling = cheaper * spelled_y + dearer * spelled_x
    return (data + codes) - spelling
