"""The objective, one function for each equation of the paper, in 64-bit floats.

All logarithms are of integer counts and come from `log2` and `log2_table`. Both do the same operations, only IEEE
addition, multiplication and division, so results are identical on every machine, whatever its C library. Sums that
decide what enters the table use `math.fsum`, which rounds once and does not depend on the order of its terms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

SQRT_HALF = 0.7071067811865476
LN2 = 0.6931471805599453
SERIES = tuple(2.0 / ((2 * k + 1) * LN2) for k in range(12))
"""log2((1 + s) / (1 - s)) = Σ SERIES[k] · s^(2k+1); with |s| < 0.1716 twelve terms are below the last bit."""


@lru_cache(maxsize=1024)  # U is asked for again and again
def log2(count: int) -> float:
    """Return the binary logarithm of a count, exactly as in `log2_table`; 0 for 0 by convention."""
    if count == 0:
        return 0.0
    mantissa, exponent = math.frexp(count)
    if mantissa < SQRT_HALF:
        mantissa *= 2.0
        exponent -= 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square = s * s
    total = SERIES[-1]
    for coefficient in SERIES[-2::-1]:
        total = total * square + coefficient
    return exponent + total * s


def log2_table(largest: int) -> NDArray[np.float64]:
    """Return log2[0..largest], with log2[0] = 0 by convention; that entry is never used for a code length."""
    mantissa, exponent = np.frexp(np.arange(largest + 1, dtype=np.float64))
    low = mantissa < SQRT_HALF
    mantissa[low] *= 2.0
    exponent[low] -= 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square = s * s
    total = np.full(largest + 1, SERIES[-1])
    for coefficient in SERIES[-2::-1]:
        total = total * square + coefficient
    table: NDArray[np.float64] = exponent + total * s
    table[0] = 0.0
    return table


def code_length(usage: int, total: int) -> float:
    """Return L(X | CT) = log2 U − log2 u(X), the paper's L(c_X)."""
    return log2(total) - log2(usage)


def standard_lengths(supports: Sequence[int] | NDArray[np.int64]) -> list[float]:
    """Return the code length of each item in the standard code table; 0 for items that never occur."""
    total = int(sum(int(s) for s in supports))
    return [code_length(int(s), total) if s else 0.0 for s in supports]


def standard_length(itemset: Iterable[int], lengths: Sequence[float]) -> float:
    """Return L(X | ST): the bits for spelling out an itemset in the standard code table."""
    return math.fsum(lengths[item] for item in itemset)


@dataclass(frozen=True, slots=True)
class Bits:
    """A description length and its two parts."""

    data: float
    model: float

    @property
    def total(self) -> float:
        """L(D, CT) = L(D | CT) + L(CT | D)."""
        return self.data + self.model


def data_terms(usages: Iterable[int]) -> list[float]:
    """Return the terms of L(D | CT) = Σ u(X)·L(X | CT) = U·log2 U − Σ u(X)·log2 u(X)."""
    used = [int(u) for u in usages if u]
    total = sum(used)
    return [total * log2(total), *(-(u * log2(u)) for u in used)]


def model_terms(usages: Iterable[int], standard: Iterable[float]) -> list[float]:
    """Return the terms of L(CT | D) = Σ [L(X | CT) + L(X | ST)] over the itemsets in use."""
    used = [(int(u), st) for u, st in zip(usages, standard, strict=True) if u]
    total = sum(u for u, _ in used)
    return [len(used) * log2(total), *(-log2(u) for u, _ in used), *(st for _, st in used)]


def description_length(usages: Sequence[int], standard: Sequence[float]) -> Bits:
    """Return L(D | CT) and L(CT | D) of a table with these usages and these lengths in the standard code table."""
    return Bits(math.fsum(data_terms(usages)), math.fsum(model_terms(usages, standard)))


def percent_of_standard(bits: float, standard: float) -> float:
    """Return L%: the bits in percent of those with the standard code table; 100 for data without items."""
    return 100.0 * bits / standard if standard else 100.0


EXACT = 1.0
FREE = 0.0
"""What an estimate charges of L(XY | ST): all, or nothing, which is optimistic, so that more candidates are tried. The
trial decides what enters the table."""
