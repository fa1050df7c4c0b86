"""The view that metrics have of a code table: its itemsets by label, with usages, without singletons.

Tables are compared by label because they may come from different vocabularies or other programs.
"""

from __future__ import annotations

from typing import TypeAlias

from fedslim.mdl.codetable import CodeTable
from fedslim.metrics.reference import ReferenceTable

Labels: TypeAlias = frozenset[str]
LabelledTable: TypeAlias = "CodeTable | ReferenceTable"


def usages(table: LabelledTable) -> dict[Labels, int]:
    """Return the usage of each itemset of two items or more."""
    return {frozenset(row.labels): row.usage for row in table.itemsets if len(row.labels) > 1}


def by_usage(table: dict[Labels, int]) -> list[Labels]:
    """Sort itemsets by descending usage, then descending size, then their sorted labels: a total order."""
    return sorted(table, key=lambda labels: (-table[labels], -len(labels), sorted(labels)))


def ratio(part: int, whole: int) -> float:
    """Return part / whole; 1 if the whole is empty."""
    return part / whole if whole else 1.0
