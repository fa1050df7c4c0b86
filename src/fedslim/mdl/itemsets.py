"""Itemsets and the standard cover order, without any dependencies."""

from __future__ import annotations

Itemset = tuple[int, ...]  # item ids, ascending

OrderKey = tuple[int, int, Itemset]


def order_key(itemset: Itemset, entry: int) -> OrderKey:
    """Return the sort key for the cover order; `entry` is the usage (or support) with which the itemset entered."""
    return (-len(itemset), -entry, itemset)
