"""What the metrics see of a code table: its itemsets by their labels, with usages, without singletons.

Labels, because the tables that are compared may come from different vocabularies or from other programs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    Labels = frozenset[str]


class LabelledRow(Protocol):
    """One itemset of a table."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of its items."""

    @property
    def usage(self) -> int:
        """In how many covers it is."""


class LabelledTable(Protocol):
    """Anything with itemsets: a `CodeTable`, or a `ReferenceTable` of another program."""

    @property
    def itemsets(self) -> Sequence[LabelledRow]:
        """The rows, in any order; singletons among them are passed over."""


def usages(table: LabelledTable) -> dict[Labels, int]:
    """The usage of each itemset of two items or more."""
    return {frozenset(row.labels): row.usage for row in table.itemsets if len(row.labels) > 1}


def by_usage(table: dict[Labels, int]) -> list[Labels]:
    """The itemsets by falling usage, then the larger, then by their sorted labels as text: a total order."""
    return sorted(table, key=lambda labels: (-table[labels], -len(labels), sorted(labels)))


def ratio(part: int, whole: int) -> float:
    """The part of the whole; 1 where the whole is empty."""
    return part / whole if whole else 1.0
