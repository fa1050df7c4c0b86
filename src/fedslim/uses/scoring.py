"""How unusual rows are: their bits, and the bits beyond what their items and their length lead one to expect.

Raw bits mislead: long rows take many. The table says what each item takes on average (`Covering.shares`). What is left
may still depend on the length of a row; this trend is taken from the scored rows themselves and removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedslim.data import TransactionDatabase
from fedslim.errors import DataError
from fedslim.mdl.codetable import CodeTable


class LengthTrend(NamedTuple):
    """By how many bits the excess of a row grows with each item, around rows of mean length."""

    slope: float
    mean: float

    @classmethod
    def of(cls, excess: NDArray[np.float64], lengths: NDArray[np.int64]) -> LengthTrend:
        """Return the trend by least squares; flat if all rows have the same length."""
        if not len(lengths):
            return cls(0.0, 0.0)
        mean = float(lengths.mean())
        centred = lengths - mean
        spread = float(centred @ centred)
        return cls(float(centred @ (excess - excess.mean())) / spread if spread else 0.0, mean)

    def at(self, lengths: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the bits to expect for these lengths, beyond those for the items."""
        return np.asarray(self.slope * (lengths - self.mean), np.float64)


@dataclass(frozen=True)
class Scores:
    """The scores of rows, in the order of the rows: `bits`, and `items_bits` that their items take on average."""

    bits: NDArray[np.float64]
    items_bits: NDArray[np.float64]
    lengths: NDArray[np.int64]

    @cached_property
    def trend(self) -> LengthTrend:
        """How the excess depends on the length of rows."""
        return LengthTrend.of(self.bits - self.items_bits, self.lengths)

    @cached_property
    def expected(self) -> NDArray[np.float64]:
        """The bits to expect for the items and the length of each row."""
        return self.items_bits + self.trend.at(self.lengths)

    @cached_property
    def beyond(self) -> NDArray[np.float64]:
        """The bits beyond expectation, not correlated with length; the more, the more unusual is the row."""
        return self.bits - self.expected

    @cached_property
    def ranking(self) -> NDArray[np.int64]:
        """The rows, counted from 0, the most unusual first."""
        return np.argsort(-self.beyond, kind="stable")


def score(table: CodeTable, X: Any) -> Scores:  # noqa: N803  # scikit-learn's name
    """Score rows with a code table, each with its bits and the bits beyond expectation.

    `X` is anything that `Slim.fit` accepts, encoded as the table's data were.

    Examples:
        >>> from fedslim import Slim
        >>> from fedslim.uses import score
        >>> rows = [["bread", "milk", "jam"], ["bread", "milk"], ["jam", "tea"]] * 8
        >>> scores = score(Slim().fit(rows).table_, [*rows, ["bread", "tea"]])
        >>> int(scores.ranking[0]), scores.beyond.round(1)[-1].item()
        (24, 8.0)
    """
    return score_chunks(table, [table.items_of(X)])


def score_chunks(table: CodeTable, chunks: Iterable[TransactionDatabase]) -> Scores:
    """Score rows that come in chunks; only three numbers for each row are kept, whatever the size of the chunks."""
    covering = table.covering
    parts = [(covering.bits(one), covering.expected(one), one.lengths) for one in chunks]
    if not parts:
        raise DataError("there are no rows to score; give at least one")
    return Scores(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
