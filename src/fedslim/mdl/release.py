"""What may be shown of a code table: no count below `min_count`, and none that the others give away.

    supports, usages, other = merge_rare(supports, usages, min_count=5)

The search keeps rare itemsets out of the table. What remains are single items that are spelled out in a few
transactions. Blanking such a usage hides nothing: it equals the item's support minus the usages of the itemsets that
contain the item. So these occurrences are subtracted from both usage and support and merged into *other*. The table
then describes data in which they read "other", and for those data it is lossless: the usages of all elements with an
item add up to its support.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedslim.mdl.codetable import CodeTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fedslim.mdl.itemsets import Itemset
    from fedslim.mdl.policy import Order

    Counts = NDArray[np.int64]
    Found = Sequence[tuple[Itemset, int, int, int]]


class Merged(NamedTuple):
    """Supports and usages of single items without what is rare, and how many occurrences that was."""

    supports: Counts
    usages: Counts
    other: int


def spelled_out(supports: Counts, found: Found) -> Counts:
    """How often each item is spelled out: where it occurs, and no itemset has it covered."""
    usages = supports.copy()
    for items, usage, *_ in found:
        usages[list(items)] -= usage
    return usages


def merge_rare(supports: Counts, usages: Counts, min_count: int) -> Merged:
    """Subtract usages below `min_count` from usages and supports; their sum is withheld if it is below that, too."""
    rare = np.where(usages < min_count, usages, 0)
    other = int(rare.sum())
    return Merged(supports - rare, usages - rare, other if other >= min_count else 0)


def release(
    vocabulary: Sequence[str],
    transactions: int,
    counts: Merged,
    found: Found,
    *,
    order: Order = "usage",
    min_count: int = 1,
) -> CodeTable:
    """The code table; where there is a smallest count, items that nothing is left of are not in its vocabulary."""
    supports, usages, other = counts
    if min_count > 1:
        kept = np.flatnonzero(supports).tolist()
        number = (np.cumsum(supports > 0) - 1).tolist()
        vocabulary = [vocabulary[i] for i in kept]
        supports, usages = supports[kept], usages[kept]
        found = [(tuple(number[i] for i in items), *three) for items, *three in found]  # type: ignore[misc]
    return CodeTable(
        tuple(vocabulary),
        transactions,
        tuple(supports.tolist()),
        tuple(usages.tolist()),
        tuple(found),
        order,
        min_count,
        other,
    )
