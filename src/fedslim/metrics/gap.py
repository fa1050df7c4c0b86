"""The local-global discovery gap: what all the data show and no member finds alone (sections 4.3 and 5.5).

gap = discovery_gap(reference, [mine(db).table for db in parts], parts)
len(gap), gap.itemsets[0].spread, gap_recovery(gap, found).grr
predict_gap(reference, worth(db, reference), gap).f1
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from fedslim.errors import ParameterError
from fedslim.metrics.labelled import by_usage, ratio, usages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedslim.data import TransactionDatabase
    from fedslim.mdl.codetable import CodeTable
    from fedslim.metrics.labelled import LabelledTable, Labels


@dataclass(frozen=True, slots=True)
class Spread:
    """How an itemset's support is spread over members: how many have any, and the local supports of all of them."""

    members_with_support: int
    support_min: int
    support_median: float
    support_max: int

    @classmethod
    def of(cls, supports: Sequence[int]) -> Spread:
        """The spread of these local supports, one for each member."""
        if not supports:
            return cls(0, 0, 0.0, 0)
        return cls(sum(s > 0 for s in supports), min(supports), float(median(supports)), max(supports))


@dataclass(frozen=True, slots=True)
class GapItemset:
    """An itemset of the gap and its usage in the reference.

    Where the local databases were handed in, also its spread over them, and its support in each.
    """

    labels: tuple[str, ...]
    usage: int
    spread: Spread | None = None
    supports: tuple[int, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Labels, usage, spread and supports, flat."""
        spread = {} if self.spread is None else {**asdict(self.spread), "supports": list(self.supports)}
        return {"items": list(self.labels), "usage": self.usage, **spread}


@dataclass(frozen=True, slots=True)
class DiscoveryGap:
    """G, by falling usage in the reference."""

    itemsets: tuple[GapItemset, ...]
    local_tables: int

    def __len__(self) -> int:
        return len(self.itemsets)

    def as_dict(self) -> dict[str, Any]:
        """The size of the gap and its itemsets."""
        return {
            "gap": len(self),
            "local_tables": self.local_tables,
            "itemsets": [itemset.as_dict() for itemset in self.itemsets],
        }


def discovery_gap(
    reference: LabelledTable, local_tables: Sequence[LabelledTable], databases: Sequence[TransactionDatabase] = ()
) -> DiscoveryGap:
    """G = A minus the union of all CT_i: the reference's itemsets that are in no standalone local table.

    With the members' databases each itemset of the gap also gets its spread over them. Whoever may not see these can
    make a `Spread.of` supports that were sent.
    """
    if databases and len(databases) != len(local_tables):
        msg = (
            f"there are {len(local_tables)} local tables and {len(databases)} databases; "
            "hand in one database for each table, in the same order, or none"
        )
        raise ParameterError(msg)
    a = usages(reference)
    local = {labels for table in local_tables for labels in usages(table)}
    gap = [labels for labels in by_usage(a) if labels not in local]
    if not databases:
        return DiscoveryGap(tuple(GapItemset(tuple(sorted(labels)), a[labels]) for labels in gap), len(local_tables))
    supports = zip(*(_supports(database, gap) for database in databases), strict=True)
    return DiscoveryGap(
        tuple(
            GapItemset(tuple(sorted(labels)), a[labels], Spread.of(counts), counts)
            for labels, counts in zip(gap, supports, strict=True)
        ),
        len(local_tables),
    )


def _supports(database: TransactionDatabase, itemsets: Sequence[Labels]) -> list[int]:
    """In how many transactions each itemset occurs; a label that the vocabulary lacks occurs in none."""
    from fedslim.mdl.support import SupportIndex  # noqa: PLC0415  # numba is needed for counting only

    index = SupportIndex(database)
    ids = {label: i for i, label in enumerate(database.vocabulary)}
    return [
        index.support(tuple(sorted(ids[label] for label in labels))) if labels <= ids.keys() else 0
        for labels in itemsets
    ]


@dataclass(frozen=True, slots=True)
class GapRecovery:
    """|G|, |G ∩ B| and GRR."""

    gap: int
    gap_recovered: int

    @property
    def grr(self) -> float:
        """GRR = |G ∩ B| / |G|, and 1 where there is no gap: nothing is left to recover."""
        return ratio(self.gap_recovered, self.gap)

    def as_dict(self) -> dict[str, float]:
        """The three figures by the names that the reports use."""
        return {"gap": self.gap, "gap_recovered": self.gap_recovered, "grr": self.grr}


def gap_recovery(gap: DiscoveryGap, found: LabelledTable) -> GapRecovery:
    """How much of the gap a table has closed."""
    b = usages(found)
    return GapRecovery(len(gap), sum(frozenset(itemset.labels) in b for itemset in gap.itemsets))


def local_gain_estimate(gain: float, code_length: float, members: int) -> float:
    """ΔL_i(X) ≈ ΔL(X) / n − (n − 1) / n · 2·L(c_X), the paper's equation for the gain at one of n IID members.

    Args:
        gain: ΔL(X), the bits that X saves on all the data.
        code_length: L(c_X), its code length in bits.
        members: n.
    """
    if isinstance(members, bool) or not isinstance(members, int) or members < 1:
        msg = f"the number of members is {members!r}; give a whole number from 1 up"
        raise ParameterError(msg)
    if not math.isfinite(gain):
        msg = f"the gain is {gain!r}; give a finite number of bits"
        raise ParameterError(msg)
    if not math.isfinite(code_length) or code_length < 0:
        msg = f"the code length is {code_length!r}; give a finite number of bits from 0 up"
        raise ParameterError(msg)
    return (gain - (members - 1) * 2 * code_length) / members


@dataclass(frozen=True, slots=True)
class GapPrediction:
    """How well the paper's equation for the local gain tells which itemsets of the reference fall into the gap.

    It says that an itemset is in the gap where its gain at a member comes out as 0 or less. `auc` needs no such
    border: the chance that of two itemsets, one in the gap and one not, the first has the smaller local gain.
    """

    predicted: int
    actual: int
    both: int
    itemsets: int
    auc: float

    @property
    def precision(self) -> float:
        """Of those said to be in the gap, the part that is."""
        return ratio(self.both, self.predicted)

    @property
    def recall(self) -> float:
        """Of those in the gap, the part said to be."""
        return ratio(self.both, self.actual)

    @property
    def accuracy(self) -> float:
        """Of all itemsets, the part of which it is said rightly."""
        return ratio(self.itemsets - self.predicted - self.actual + 2 * self.both, self.itemsets)

    def as_dict(self) -> dict[str, float]:
        """All figures, by names that say what they are about."""
        names = ("predicted", "precision", "recall", "accuracy", "auc")
        return {f"prediction_{name}": getattr(self, name) for name in names}


def predict_gap(reference: CodeTable, gains: Sequence[float], gap: DiscoveryGap) -> GapPrediction:
    """Compare the gap with what `local_gain_estimate` says of each itemset of the reference.

    Args:
        reference: The table of all the data.
        gains: ΔL of each of its itemsets, in its order; `fedslim.mdl.worth` has them.
        gap: The gap between it and the tables of the members.
    """
    lost = {frozenset(itemset.labels) for itemset in gap.itemsets}
    inside: list[float] = []
    outside: list[float] = []
    for element, gain in zip(reference.itemsets, gains, strict=True):
        estimate = local_gain_estimate(gain, element.code_length, gap.local_tables)
        (inside if frozenset(element.labels) in lost else outside).append(estimate)
    said = sum(estimate <= 0 for estimate in (*inside, *outside))
    return GapPrediction(
        said, len(inside), sum(e <= 0 for e in inside), len(inside) + len(outside), _auc(inside, outside)
    )


def _auc(low: Sequence[float], high: Sequence[float]) -> float:
    """The chance that a value of `low` is below one of `high`; ties count half, and 1/2 where there is nothing."""
    if not low or not high:
        return 0.5
    ordered = sorted(high)
    below = sum(2 * len(ordered) - bisect_left(ordered, value) - bisect_right(ordered, value) for value in low)
    return below / (2 * len(low) * len(high))
