"""`SlimOutlierDetector`: the rows that take more bits than their items and their length lead one to expect."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OutlierMixin

from fedslim.data.encoding import ITEMS
from fedslim.errors import ParameterError
from fedslim.mdl.estimator import CodeTableEstimator, convert, mine_for
from fedslim.mdl.policy import WIDTH
from fedslim.uses.scoring import LengthTrend

MOST = 0.5  # the largest contamination: what more than half of the rows are is not unusual


class SlimOutlierDetector(OutlierMixin, CodeTableEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Find unusual rows by the bits beyond expectation: for their items, and for their length.

    Args:
        contamination: the share of the fitted rows that `predict` calls outliers, above 0 and at most 0.5.
        width: see `Slim`.
        effort: see `Slim`.
        max_time: see `Slim`.
        seed: see `Slim`.

    Attributes:
        table_: the `CodeTable`.
        trend_: how the excess of the fitted rows depends on their length.
        offset_: the score below which a row is an outlier.

    Examples:
        >>> from fedslim import SlimOutlierDetector
        >>> rows = [["bread", "milk", "jam"], ["bread", "milk"], ["jam", "tea"]] * 8
        >>> SlimOutlierDetector().fit(rows).predict([["bread", "milk"], ["bread", "tea"]])
        array([ 1, -1])
    """

    trend_: LengthTrend
    offset_: float

    def __init__(  # scikit-learn's flat parameters
        self,
        contamination: float = 0.05,
        width: int = WIDTH,
        effort: int | None = None,
        max_time: float | None = None,
        seed: int = 0,
    ) -> None:
        self.contamination, self.width, self.effort = contamination, width, effort
        self.max_time, self.seed = max_time, seed

    def fit(self, X: Any, y: Any = None) -> SlimOutlierDetector:  # noqa: ARG002, N803  # scikit-learn's names
        """Mine the rows, and learn which scores are unusual among them."""
        given: object = self.contamination
        if isinstance(given, bool) or not isinstance(given, Real) or not 0 < float(given) <= MOST:
            raise ParameterError(f"contamination must be a number above 0 and at most {MOST}, not {given!r}")
        database = convert(self, X, long=False)
        (mined,) = mine_for(self, database, besides={"contamination"})
        self._fitted(mined.table, database.encoding or ITEMS)
        covering = self.table_.covering
        excess = covering.bits(database) - covering.expected(database)
        self.trend_ = LengthTrend.of(excess, database.lengths)
        scores = self.trend_.at(database.lengths) - excess
        self.offset_ = _threshold(scores, float(given))
        return self

    def score_samples(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return minus the bits beyond expectation of each row: as always in scikit-learn, higher is more normal."""
        database = self._items(X)
        covering = self.table_.covering
        excess = covering.bits(database) - covering.expected(database)
        return np.asarray(self.trend_.at(database.lengths) - excess, np.float64)

    def decision_function(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the scores above `offset_`: negative for outliers."""
        return np.asarray(self.score_samples(X) - self.offset_, np.float64)

    def predict(self, X: Any) -> NDArray[np.int64]:  # noqa: N803
        """Return -1 for outliers and 1 for all other rows."""
        return np.where(self.decision_function(X) < 0, -1, 1)


def _threshold(scores: NDArray[np.float64], share: float) -> float:
    """Return the score below which the share of rows closest to `share` lies; equal scores stay together."""
    if not len(scores):
        return 0.0
    wanted = int(np.ceil(share * len(scores)))
    last = float(np.partition(scores, wanted - 1)[wanted - 1])
    below, upto = int((scores < last).sum()), int((scores <= last).sum())
    with_ties = upto < len(scores) and upto - wanted < wanted - below
    return float(np.nextafter(last, np.inf)) if with_ties else last
