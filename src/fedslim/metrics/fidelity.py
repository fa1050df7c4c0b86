"""How true a code table is to a reference: recall, precision, F1, WR@k and Spearman's ρ (section 4.3).

fidelity(reference, found).f1
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from fedslim.errors import ParameterError
from fedslim.metrics.labelled import by_usage, ratio, usages

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fedslim.metrics.labelled import LabelledTable, Labels


@dataclass(frozen=True, slots=True)
class Fidelity:
    """Agreement with a reference, and the counts it is made of: itemsets in both, only there, only here."""

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
        """Every field by its name."""
        return asdict(self)


def fidelity(reference: LabelledTable, found: LabelledTable) -> Fidelity:
    """Compare the itemsets of two tables (A the reference, B found) by their labels; singletons do not count.

    ρ is over the usages of the matched itemsets (see `spearman`), and 0 where tables with itemsets share none. With
    few matched itemsets it says little, so look at `matched` beside it.
    """
    a, b = usages(reference), usages(found)
    matched = a.keys() & b.keys()
    recall, precision = ratio(len(matched), len(a)), ratio(len(matched), len(b))
    pairs = [(a[labels], b[labels]) for labels in matched]
    return Fidelity(
        recall=recall,
        precision=precision,
        f1=f1_score(precision, recall),
        wr50=_weighted_recall(a, b, 50),
        wr100=_weighted_recall(a, b, 100),
        rho=spearman([x for x, _ in pairs], [y for _, y in pairs]) if pairs or not (a or b) else 0.0,
        matched=len(matched),
        missed=len(a) - len(matched),
        extra=len(b) - len(matched),
    )


def f1_score(precision: float, recall: float) -> float:
    """The paper's equation for F1; 0 where both are 0."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def weighted_recall(reference: LabelledTable, found: LabelledTable, k: int) -> float:
    """WR@k: of the usage of the reference's top k itemsets, the part that belongs to itemsets also found.

    The top k are by usage; between equals the larger itemset comes first, then the one whose sorted labels come
    first as text. So exactly k count (all, where there are fewer), and which does not depend on either table's order.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        msg = f"k is {k!r}; give a whole number from 1 up"
        raise ParameterError(msg)
    return _weighted_recall(usages(reference), usages(found), k)


def _weighted_recall(a: dict[Labels, int], b: Iterable[Labels], k: int) -> float:
    top, recovered = by_usage(a)[:k], set(b)
    return ratio(sum(a[labels] for labels in top if labels in recovered), sum(a[labels] for labels in top))


def spearman(x: Sequence[int], y: Sequence[int]) -> float:
    """Spearman's ρ: the correlation of ranks, where equal values share the mean of their ranks.

    It is always a number: equal rankings give 1, also where they have fewer than two values or all are tied; if only
    one side is all tied, it says nothing about the other, and ρ is 0.
    """
    if len(x) != len(y):
        msg = f"ranks are compared pair by pair, but there are {len(x)} values on one side and {len(y)} on the other"
        raise ParameterError(msg)
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
    """Twice the mean rank of each value: an integer, so that everything up to the last division is exact."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for place in order[start:end]:
            ranks[place] = start + 1 + end
        start = end
    return ranks
