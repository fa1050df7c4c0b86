"""The discovery gap: itemsets in the table of all data that no member finds alone (sections 4.3 and 5.5)."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from fedslim.data import TransactionDatabase
from fedslim.data.parsing import check_whole
from fedslim.errors import ParameterError
from fedslim.mdl.codetable import CodeTable
from fedslim.metrics.reference import LabelledTable, Labels, by_usage, ratio, usages


@dataclass(frozen=True, slots=True)
class GapItemset:
    """An itemset of the gap, its usage in the reference, and its support in each local database, if they were given."""

    labels: tuple[str, ...]
    usage: int
    supports: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class DiscoveryGap:
    """The gap G, sorted by descending usage in the reference."""

    itemsets: tuple[GapItemset, ...]
    local_tables: int

    def __len__(self) -> int:
        return len(self.itemsets)

    def recovered_by(self, found: LabelledTable) -> tuple[GapItemset, ...]:
        """Return G ∩ B, the itemsets of the gap that a table has."""
        b = usages(found)
        return tuple(itemset for itemset in self.itemsets if frozenset(itemset.labels) in b)


def discovery_gap(
    reference: LabelledTable, local_tables: Sequence[LabelledTable], databases: Sequence[TransactionDatabase] = ()
) -> DiscoveryGap:
    """Return G, the reference A without the union of all CT_i: its itemsets that are in no member's own table.

    If the members' databases are given, each itemset of the gap also gets its support in each of them.
    """
    if databases and len(databases) != len(local_tables):
        raise ParameterError(
            f"there are {len(local_tables)} local tables and {len(databases)} databases; "
            "give one database per table, in the same order, or none"
        )
    a = usages(reference)
    local = {labels for table in local_tables for labels in usages(table)}
    gap = [labels for labels in by_usage(a) if labels not in local]
    by_database = [supports_in(database, gap) for database in databases]
    found = (GapItemset(tuple(sorted(s)), a[s], tuple(each[i] for each in by_database)) for i, s in enumerate(gap))
    return DiscoveryGap(tuple(found), len(local_tables))


def supports_in(database: TransactionDatabase, itemsets: Sequence[Labels]) -> list[int]:
    """Return the support of each itemset; 0 if the vocabulary lacks one of its labels."""
    from fedslim.mdl.kernels.counting import SupportIndex  # noqa: PLC0415  # only counting needs numba

    index = SupportIndex(database)
    ids = {label: i for i, label in enumerate(database.vocabulary)}
    return [
        index.support(tuple(sorted(ids[label] for label in labels))) if labels <= ids.keys() else 0
        for labels in itemsets
    ]


def local_gain_estimate(gain: float, code_length: float, members: int) -> float:
    """Estimate ΔL_i(X) ≈ ΔL(X) / n − (n − 1) / n · 2·L(c_X), the gain at one of n IID members (from the paper).

    ΔL(X) is the gain, the bits that X saves on all data; L(c_X) is its code length in bits; n is the number of members.
    """
    check_whole("the number of members", members, 1)
    if not math.isfinite(gain):
        raise ParameterError(f"the gain is {gain!r}; give a finite number of bits")
    if not math.isfinite(code_length) or code_length < 0:
        raise ParameterError(f"the code length is {code_length!r}; give a finite number of bits of at least 0")
    return (gain - (members - 1) * 2 * code_length) / members


@dataclass(frozen=True, slots=True)
class GapPrediction:
    """How well `local_gain_estimate` predicts which itemsets of the reference are in the gap.

    An itemset is predicted to be in the gap if its estimated local gain is 0 or less. `auc` needs no threshold: it is
    the probability that an itemset in the gap has a smaller local gain than one outside.
    """

    predicted: int
    actual: int
    both: int
    itemsets: int
    precision: float  # the share of the predicted itemsets that are in the gap
    recall: float  # the share of the gap that was predicted
    auc: float

    def as_dict(self) -> dict[str, float]:
        """Return all figures, with the prefix `prediction_`."""
        names = ("predicted", "precision", "recall", "auc")
        return {f"prediction_{name}": getattr(self, name) for name in names}


def predict_gap(reference: CodeTable, gains: Sequence[float], gap: DiscoveryGap) -> GapPrediction:
    """Compare the gap with the prediction of `local_gain_estimate` for each itemset of the reference.

    Args:
        reference: The table of all data.
        gains: ΔL of each of its itemsets, in its order; see `fedslim.mdl.covering`.
        gap: The gap between it and the tables of the members.
    """
    lost = {frozenset(itemset.labels) for itemset in gap.itemsets}
    estimates: dict[bool, list[float]] = {True: [], False: []}  # by whether the itemset is in the gap
    for element, gain in zip(reference.itemsets, gains, strict=True):
        estimate = local_gain_estimate(gain, element.code_length, gap.local_tables)
        estimates[frozenset(element.labels) in lost].append(estimate)
    inside, outside = estimates[True], estimates[False]
    predicted = sum(estimate <= 0 for estimate in (*inside, *outside))
    both = sum(estimate <= 0 for estimate in inside)
    shares = ratio(both, predicted), ratio(both, len(inside))
    return GapPrediction(predicted, len(inside), both, len(inside) + len(outside), *shares, _auc(inside, outside))


def _auc(low: Sequence[float], high: Sequence[float]) -> float:
    """Return the probability that a value of `low` is below one of `high`; ties count half; 1/2 if either is empty."""
    if not low or not high:
        return 0.5
    ordered = sorted(high)
    below = sum(2 * len(ordered) - bisect_left(ordered, value) - bisect_right(ordered, value) for value in low)
    return below / (2 * len(low) * len(high))
