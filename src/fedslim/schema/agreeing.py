"""What follows from the rows of all members: the cuts of numeric columns, and the categories that are kept.

The rules work on order statistics and on counts only, which are all that members of a federation can compute together.
So a federation and a run in one place cut alike.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fedslim.schema.conforming import Conformed
from fedslim.schema.rules import ColumnRule

if TYPE_CHECKING:
    from fedslim.schema.file import Schema

_Key = TypeVar("_Key")
_DIGITS = 400  # enough for any multiple of a resolution that is a 64-bit float


@dataclass(frozen=True, slots=True)
class Agreed:
    """Cuts of the open columns and kept categories of the capped columns, from the rows of all members."""

    cuts: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    kept: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "cuts": {name: list(cuts) for name, cuts in self.cuts.items()},
            "kept": {name: sorted(kept) for name, kept in self.kept.items()},
        }


def agree(schema: Schema, sites: Sequence[Conformed]) -> Agreed:
    """Compute from the rows of all sites, in one place, what the schema leaves to the data.

    Examples:
        >>> import pandas as pd
        >>> from fedslim.data.frames import dataframe_table
        >>> from fedslim.schema import Schema, agree, conform
        >>> schema = Schema.of({"columns": {"age": {"kind": "numeric", "bins": 2, "resolution": 5}}})
        >>> site = conform(schema, dataframe_table(pd.DataFrame({"age": range(20, 60)})))
        >>> agree(schema, [site]).cuts
        {'age': (40.0,)}
    """
    cuts, kept = {}, {}
    for name in schema.open_columns:
        rule = schema.columns[name]
        values = np.sort(np.concatenate([site.values(name) for site in sites]))
        ranks = np.array(cut_ranks(len(values), rule.bins), np.int64)
        cuts[name] = round_cuts(values[ranks - 1].tolist(), rule)
    for name in schema.capped_columns:
        counts: Counter[str] = Counter()
        for site in sites:
            counts.update(site.categories(name))
        kept[name] = frozenset(keep_categories(counts, schema.columns[name].cap))
    return Agreed(cuts, kept)


def cut_ranks(n: int, bins: int) -> tuple[int, ...]:
    """Return the ranks, counted from 1, of the order statistics of `n` values that become cuts, ascending.

    Without ties, the intervals between them have as equal numbers of values as possible. Rank 1 is left out: nothing
    is below the smallest value.

    Examples:
        >>> cut_ranks(100, 4)
        (26, 51, 76)
    """
    return tuple(sorted({n * k // bins + 1 for k in range(1, bins)} - {1}))


def round_cuts(statistics: Sequence[float], rule: ColumnRule) -> tuple[float, ...]:
    """Return the cuts that follow from order statistics: rounded to the resolution, ascending, distinct and finite.

    It depends on the rounded statistics only, which are all that members of a federation find out. If several are
    equal, that value fills an interval by itself: it ends at the next multiple of the resolution or, without a
    resolution, at the next number.

    Examples:
        >>> from fedslim.schema import Schema
        >>> rule = Schema.of({"columns": {"age": {"kind": "numeric", "resolution": 10}}}).columns["age"]
        >>> round_cuts([0.0, 0.0, 34.0, 36.0, 57.0], rule)
        (0.0, 10.0, 30.0, 40.0, 60.0)
    """
    step = rule.resolution
    found = [rounded(value, step) for value in statistics]
    cuts = set(found)
    for value, after in pairwise(found):
        if value == after:
            cuts.add(math.nextafter(value, math.inf) if step is None else rounded(value + step, step))
    return tuple(sorted(cut + 0.0 for cut in cuts if math.isfinite(cut)))  # -0.0 + 0.0 is 0.0


def rounded(value: float, step: float | None) -> float:
    """Round to a multiple of `step`, exactly: multiples of 0.1 are 0.3, not 0.30000000000000004."""
    if step is None or not math.isfinite(value):
        return value
    with localcontext(prec=_DIGITS):
        unit = Decimal(repr(step))
        return float((Decimal(repr(value)) / unit).to_integral_value() * unit)


def keep_categories(counts: Mapping[_Key, int], cap: int | None) -> Iterable[_Key]:
    """Return the categories with a larger count than the one after the first `cap`: never more than `cap`.

    Ties are left out together, so the result depends on the counts only, not on names or order.

    Examples:
        >>> sorted(keep_categories({"a": 5, "b": 2, "c": 2, "d": 1}, 2))
        ['a']
    """
    if cap is None or len(counts) <= cap:
        return set(counts)
    bound = sorted(counts.values(), reverse=True)[cap]
    return {name for name, count in counts.items() if count > bound}
