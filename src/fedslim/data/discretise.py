"""Cut a numeric attribute into intervals with about the same number of rows."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

DEFAULT_BINS = 10
_EXACT_DIGITS = 17  # significant digits that represent any 64-bit float exactly


@dataclass(frozen=True, slots=True)
class Intervals:
    """The cuts of a numeric attribute: the inner bounds, ascending, and the labels of the intervals around them."""

    cuts: tuple[int | float, ...]  # msgspec would make floats of whole numbers
    labels: tuple[str, ...]
    mark: str = "."  # the decimal mark of numbers in text

    def label(self, value: float) -> str:
        """Return the interval of a value; values outside the outermost bounds go to the outermost interval."""
        return self.labels[bisect_right(self.cuts, value)]


def equal_frequency(values: NDArray[Any], counts: NDArray[np.int64], bins: int) -> Intervals:
    """Cut distinct ascending `values`, which occur `counts` times, into `bins` intervals.

    A value is never split, so a frequent value may fill an interval by itself; the remaining rows are then divided anew
    among the remaining intervals. Ties make intervals less even, but never fewer. There must be more values than bins.
    """
    starts = _interval_ends(np.cumsum(counts), bins)[:-1]
    cuts = [_shortest_between(values[s - 1], values[s]) for s in starts]
    # Python's own numbers compare exactly; numpy would turn large integers into floats
    cuts = [np.asarray(cut).item() for cut in cuts]
    return Intervals(tuple(cuts), tuple(interval_labels(cuts)))


def _interval_ends(cumulative: NDArray[np.int64], bins: int) -> list[int]:
    """Return the end index (exclusive) of each interval."""
    ends: list[int] = []
    start, taken, total = 0, 0, int(cumulative[-1])
    for left in range(bins, 1, -1):
        target = taken + (total - taken) / left
        end = int(np.searchsorted(cumulative, target))  # the value that reaches the target
        if end > start and target - cumulative[end - 1] <= cumulative[end] - target:
            end -= 1  # stopping before that value is at least as close to the target
        end = min(end + 1, len(cumulative) - left + 1)  # leave at least one value for each remaining interval
        ends.append(end)
        start, taken = end, int(cumulative[end - 1])
    return [*ends, len(cumulative)]


def _shortest_between(low: Any, high: Any) -> Any:
    """Return the number with the fewest digits in (low, high]: 0.3 rather than 0.30000000000000004."""
    if float(high).is_integer():
        return high
    for digits in range(1, _EXACT_DIGITS):
        rounded = float(f"{float(high):.{digits}g}")
        if low < rounded <= high:
            return rounded
    return high


def interval_labels(cuts: Sequence[float]) -> list[str]:
    """Return the labels of the intervals around ascending cuts, which contain no smallest and no largest value.

    Examples:
        >>> interval_labels([35.0, 50.0])
        ['<35', '[35, 50)', '≥50']
    """
    if not cuts:
        return ["any"]
    inner = [
        number_label(low)
        if isinstance(low, float) and high == math.nextafter(low, math.inf)
        else f"[{number_label(low)}, {number_label(high)})"
        for low, high in pairwise(cuts)
    ]
    return [f"<{number_label(cuts[0])}", *inner, f"≥{number_label(cuts[-1])}"]


def number_label(value: Any) -> str:
    """Return the label of a number: whole floats without a fraction, everything else exactly."""
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    number = float(value)
    if math.isfinite(number) and number.is_integer() and abs(number) < 1e16:  # noqa: PLR2004  # from here on with exponent
        return str(int(number))
    return repr(number)
