"""What may be published of a code table: no count below `min_count`, neither directly nor as a difference of others.

The search keeps rare itemsets out of the table. There remain single items that are spelled out in only a few
transactions. Omitting their usages hides nothing: a usage equals the item's support minus the usages of the itemsets
that contain the item. So these occurrences are subtracted from both usage and support and merged into *other*. The
table then describes data in which they read "other", and for those data it is lossless: the usages of all elements
with an item add up to its support.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedslim.mdl.codetable import CodeTable

if TYPE_CHECKING:
    from fedslim.mdl.itemsets import Itemset
    from fedslim.mdl.policy import Order

    Found = Sequence[tuple[Itemset, int, int, int]]

Counts = NDArray[np.int64]


class Merged(NamedTuple):
    """Supports and usages of single items without rare occurrences, and the number of these."""

    supports: Counts
    usages: Counts
    other: int


def spelled_out(supports: Counts, found: Found) -> Counts:
    """Return how often each item is spelled out: where it occurs and no itemset covers it."""
    lengths = [len(items) for items, *_ in found]
    items = np.fromiter(chain.from_iterable(items for items, *_ in found), np.int64, sum(lengths))
    usages = supports.copy()
    np.subtract.at(usages, items, np.repeat([usage for _, usage, *_ in found], lengths).astype(np.int64))
    return usages


def merge_rare(supports: Counts, usages: Counts, min_count: int, withheld: NDArray[np.bool_] | None = None) -> Merged:
    """Subtract usages below `min_count`, and those of withheld items, from usages and supports.

    Their sum is rounded down to a multiple of `min_count`: two counts below 5 with the sum 8 can only be 4 and 4.
    """
    hidden = usages < min_count if withheld is None else (usages < min_count) | withheld
    rare = np.where(hidden, usages, 0)
    return Merged(supports - rare, usages - rare, int(rare.sum()) // min_count * min_count)


def shown_support(usage: int, support: int, min_count: int) -> int:
    """Return the support of an itemset as published: its excess over the usage is a multiple of `min_count`.

    Otherwise the difference to the usage, or to the support of a larger itemset, could be a small count.
    """
    return usage + (support - usage) // min_count * min_count


def release(
    vocabulary: Sequence[str],
    transactions: int,
    counts: Merged,
    found: Found,
    *,
    order: Order = "usage",
    min_count: int = 1,
) -> CodeTable:
    """Return the code table; if counts were withheld, its vocabulary lacks the items without occurrences."""
    supports, usages, other = counts
    if min_count > 1 or other:
        kept = np.flatnonzero(supports).tolist()
        number = (np.cumsum(supports > 0) - 1).tolist()
        vocabulary = [vocabulary[i] for i in kept]
        supports, usages = supports[kept], usages[kept]
        found = [(tuple(number[i] for i in items), *three) for items, *three in found]  # type: ignore[misc]
    counted = (tuple(supports.tolist()), tuple(usages.tolist()), tuple(found))
    return CodeTable(tuple(vocabulary), transactions, *counted, order, min_count, other)
