"""Find order statistics of everybody's values by counting: intervals that shrink to a 64th in each round.

Server and members keep the same intervals, of the ordered 64-bit representations of floats. Only `choose` changes them,
so nobody can ask about any other threshold. Members count values that are rounded to the column's resolution, and an
interval is closed once all of it is rounded to the same value. So the exact value of an order statistic is never found.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedslim.errors import ProtocolError
from fedslim.protocol.wire_types import refused
from fedslim.schema.agreeing import rounded

PARTS = 64
_SIGN = 1 << 63
_ALL = (1 << 64) - 1
_EXACT_QUOTIENT = 1 << 40


class OpenColumn(NamedTuple):
    """A numeric column: how many bins it has, and to which multiples its cuts are rounded."""

    bins: int
    step: float | None


class Interval(NamedTuple):
    """Ordered representations of floats of a column, both ends included."""

    column: int
    low: int
    high: int

    def edges(self) -> NDArray[np.uint64]:
        """Return where the parts start, and where the last one ends; parts at the end may be empty."""
        width = -(-(self.high - self.low + 1) // PARTS)
        return np.array([min(self.low + k * width, self.high + 1) for k in range(PARTS + 1)], np.uint64)

    def part(self, number: int) -> Interval:
        """Return one of the parts; raise `ProtocolError` if it is empty."""
        start, end = self.edges()[number : number + 2].tolist()
        if start == end:
            raise refused(f"the server chose part {number} of an interval, which is empty")
        return Interval(self.column, start, end - 1)


def ordered(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return whole numbers that compare as the values do; -0.0 equals 0.0."""
    bits = (values + 0.0).view(np.uint64)
    return np.where(bits >> np.uint64(63), ~bits, bits | np.uint64(_SIGN))


def value_of(number: int) -> float:
    """Return the float that `ordered` represents by this number."""
    found: float = struct.unpack("<d", struct.pack("<Q", number ^ _SIGN if number & _SIGN else number ^ _ALL))[0]
    return found


LOWEST, HIGHEST = ordered(np.array([-math.inf, math.inf])).tolist()


def round_all(values: NDArray[np.float64], step: float | None) -> NDArray[np.float64]:
    """Return all values rounded, in ascending order; equal to `rounded` for each, in a fraction of the time."""
    if step is None:
        return np.sort(values)
    distinct, times = np.unique(values, return_counts=True)
    with np.errstate(over="ignore", invalid="ignore"):
        quotients = distinct / step
        halves = np.abs(quotients - np.floor(quotients) - 0.5)
        nearest = np.rint(quotients)
        # Otherwise it is too close to the middle of two multiples, or too large, to trust the division.
        sure = (np.abs(quotients) < _EXACT_QUOTIENT) & (halves > np.abs(quotients) * 2.0**-48 + 2.0**-48)
    found = np.empty(len(distinct))
    found[~sure] = [rounded(value, step) for value in distinct[~sure].tolist()]
    multiples, at = np.unique(nearest[sure], return_inverse=True)
    found[sure] = np.array([rounded(multiple * step, step) for multiple in multiples.tolist()])[at]
    return np.repeat(found, times)


class Bisection:
    """For each order statistic the interval that has it; those of a column are in ascending order."""

    def __init__(self, columns: Sequence[OpenColumn]) -> None:
        self._columns = columns
        self.intervals: list[Interval] = []

    def begin(self, ranks: Sequence[int]) -> None:
        """Start with so many order statistics of each column, each anywhere."""
        most = [column.bins - 1 for column in self._columns]
        if len(ranks) != len(most) or any(n > limit for n, limit in zip(ranks, most, strict=True)):
            msg = f"the server asks for {list(ranks)!s:.60} order statistics, but the schema has {most!s:.60}"
            raise ProtocolError(msg)
        self.intervals = [Interval(c, LOWEST, HIGHEST) for c, n in enumerate(ranks) for _ in range(n)]

    @property
    def open(self) -> list[Interval]:
        """The intervals in which values are rounded to different multiples, each once."""
        return [interval for interval in dict.fromkeys(self.intervals) if self._is_open(interval)]

    def _is_open(self, interval: Interval) -> bool:
        step = self._columns[interval.column].step
        return rounded(value_of(interval.low), step) != rounded(value_of(interval.high), step)

    def choose(self, chosen: Sequence[int]) -> None:
        """Go on to one part of the interval of each open order statistic."""
        is_open = {interval: self._is_open(interval) for interval in dict.fromkeys(self.intervals)}
        if len(chosen) != sum(is_open[interval] for interval in self.intervals) or max(chosen, default=0) >= PARTS:
            raise refused(f"the server chose {len(chosen)} parts of intervals, and not one for each")
        parts = iter(chosen)
        after = [one.part(next(parts)) if is_open[one] else one for one in self.intervals]
        if any(one > other for one, other in pairwise(after)):
            raise refused("the server chose parts of intervals that are not in ascending order")
        self.intervals = after

    def statistics(self) -> list[list[str]]:
        """Return the rounded order statistics of each column as texts, once no interval is open."""
        found: list[list[str]] = [[] for _ in self._columns]
        for column, low, _ in self.intervals:
            found[column].append(repr(rounded(value_of(low), self._columns[column].step)))
        return found
