"""Itemsets read as rules: if these items, then those, with support, confidence and lift.

A rule needs three supports: of the itemset and of its two sides. A table knows the supports of its itemsets and of
single items, so its rules are those whose sides are in the table, too. Nothing is counted again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from typing import Any

from fedslim.mdl.codetable import CodeTable, frame_of

COLUMNS = (
    "antecedents",
    "consequents",
    "antecedent support",
    "consequent support",
    "support",
    "confidence",
    "lift",
    "representativity",
    "leverage",
    "conviction",
    "zhangs_metric",
    "jaccard",
    "certainty",
    "kulczynski",
)
"""The columns of mlxtend's `association_rules`."""

MAX_ITEMS = 12
"""Larger itemsets are split at each single item only: they have thousands of other splits, nearly all unknown."""


def rules(table: CodeTable, *, min_confidence: float = 0.5, min_lift: float = 0.0) -> Any:
    """Return the rules of a code table as a DataFrame in the shape of mlxtend's, by descending lift.

    Examples:
        >>> from fedslim import Slim
        >>> from fedslim.uses import rules
        >>> rows = [["bread", "milk", "jam"], ["bread", "milk"], ["jam", "tea"], ["tea"]] * 8
        >>> frame = rules(Slim().fit(rows).table_)
        >>> frame[["antecedents", "consequents", "confidence", "lift"]].head(1).values.tolist()
        [[frozenset({'bread'}), frozenset({'milk'}), 1.0, 2.0]]
    """
    return frame_of(rule_records(table, min_confidence=min_confidence, min_lift=min_lift), COLUMNS)


def rule_records(table: CodeTable, *, min_confidence: float = 0.5, min_lift: float = 0.0) -> list[dict[str, Any]]:
    """Return the rules as dictionaries; see `rules`."""
    found = [r for r in _rules(table) if r["confidence"] >= min_confidence and r["lift"] >= min_lift]
    return sorted(found, key=lambda r: (-r["lift"], -r["support"], sorted(r["antecedents"]), sorted(r["consequents"])))


def _rules(table: CodeTable) -> Iterator[dict[str, Any]]:
    supports: dict[tuple[int, ...], int] = {(item,): support for item, support in enumerate(table.supports)}
    supports |= {items: support for items, _, support, _ in table.found}
    n = table.transactions
    for items, _, support, _ in table.found:
        sizes = range(1, len(items)) if len(items) <= MAX_ITEMS else (1, len(items) - 1)
        for side in (side for size in sizes for side in combinations(items, size)):
            rest = tuple(item for item in items if item not in side)
            if side not in supports or rest not in supports:
                continue
            confidence = support / supports[side]
            given, then, both = supports[side] / n, supports[rest] / n, support / n
            leverage, largest = both - given * then, max(both * (1 - given), given * (then - both))
            yield {
                "antecedents": frozenset(table.vocabulary[i] for i in side),
                "consequents": frozenset(table.vocabulary[i] for i in rest),
                "antecedent support": given,
                "consequent support": then,
                "support": both,
                "confidence": confidence,
                "lift": confidence / then,
                "representativity": 1.0,  # no item is unknown
                "leverage": leverage,
                "conviction": (1 - then) / (1 - confidence) if confidence < 1 else math.inf,
                "zhangs_metric": leverage / largest if largest else 0.0,
                "jaccard": both / (given + then - both),
                "certainty": (confidence - then) / (1 - then) if then < 1 else 0.0,
                "kulczynski": (confidence + both / then) / 2,
            }
