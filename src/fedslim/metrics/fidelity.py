"""Compare a code table with a reference: recall, precision, F1, WR@k and Spearman's ρ (section 4.3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from fedslim.data.parsing import check_whole
from fedslim.errors import ParameterError
from fedslim.metrics.reference import LabelledTable, by_usage, ratio, usages


@dataclass(frozen=True, slots=True)
class Fidelity:
    """Agreement with a reference. The counts are of itemsets in both, only in the reference, and only in the table."""

    recall: float
    precision: float
    f1: float
    wr50: float
    wr100: float
    rho: float
    matched: int
    missed: int
    extra: int

    def as_dict(self) -> dict[str, float]:
        """Return every field by its name."""
        return asdict(self)


def fidelity(reference: LabelledTable, found: LabelledTable) -> Fidelity:
    """Compare the itemsets of two tables (A the reference, B found) by their labels; singletons are ignored.

    ρ is computed over the usages of the matched itemsets (see `spearman`). It is 0 if nonempty tables share none. With
    few matched itemsets ρ means little, so check `matched` too.

    Examples:
        >>> from fedslim import Slim
        >>> from fedslim.metrics import fidelity
        >>> reference = Slim().fit([["bread", "milk"], ["jam", "tea"]] * 8).table_
        >>> found = Slim().fit([["bread", "milk"], ["jam"], ["tea"]] * 8).table_
        >>> agreement = fidelity(reference, found)
        >>> agreement.precision, agreement.recall
        (1.0, 0.5)
    """
    a, b = usages(reference), usages(found)
    matched = a.keys() & b.keys()
    recall, precision = ratio(len(matched), len(a)), ratio(len(matched), len(b))
    pairs = [(a[labels], b[labels]) for labels in matched]
    return Fidelity(
        recall=recall,
        precision=precision,
        f1=2 * precision * recall / (precision + recall) if precision + recall else 0.0,
        wr50=weighted_recall(reference, found, 50),
        wr100=weighted_recall(reference, found, 100),
        rho=spearman([x for x, _ in pairs], [y for _, y in pairs]) if pairs or not (a or b) else 0.0,
        matched=len(matched),
        missed=len(a) - len(matched),
        extra=len(b) - len(matched),
    )


def weighted_recall(reference: LabelledTable, found: LabelledTable, k: int) -> float:
    """Return WR@k: the found share of the total usage of the reference's k most used itemsets.

    Ties in usage go to the larger itemset, then to the sorted labels in lexicographic order. So exactly k itemsets
    count (or all, if there are fewer), and the choice does not depend on the order of either table.
    """
    a = usages(reference)
    top, recovered = by_usage(a)[: check_whole("k", k, 1)], usages(found)
    return ratio(sum(a[labels] for labels in top if labels in recovered), sum(a[labels] for labels in top))


def spearman(x: Sequence[int], y: Sequence[int]) -> float:
    """Return Spearman's ρ, the correlation of ranks; equal values share the mean of their ranks.

    The result is always a number: equal rankings give 1, even with fewer than two values or if all are tied; if only
    one side is all tied, ρ is 0.

    Examples:
        >>> from fedslim.metrics import spearman
        >>> spearman([1, 2, 3], [10, 30, 20])
        0.5
    """
    if len(x) != len(y):
        raise ParameterError(f"x has {len(x)} values and y has {len(y)}; give the same number of values")
    p, q = _double_ranks(x), _double_ranks(y)
    if p == q:
        return 1.0
    n, sum_p, sum_q = len(p), sum(p), sum(q)
    spread_p = n * sum(i * i for i in p) - sum_p * sum_p
    spread_q = n * sum(i * i for i in q) - sum_q * sum_q
    if not spread_p or not spread_q:
        return 0.0
    together = n * sum(i * j for i, j in zip(p, q, strict=True)) - sum_p * sum_q
    return max(-1.0, min(1.0, together / math.sqrt(spread_p * spread_q)))


def _double_ranks(values: Sequence[int]) -> list[int]:
    """Return twice the mean rank of each value: an integer, so that all steps before the last division are exact."""
    _, place, ties = np.unique(np.array(values, np.int64), return_inverse=True, return_counts=True)
    ranks: list[int] = (2 * np.cumsum(ties) - ties + 1)[place].tolist()
    return ranks
