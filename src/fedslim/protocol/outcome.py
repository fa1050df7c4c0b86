"""The outcome of a run, and how a code table is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import lt
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from fedslim.errors import ProtocolError
from fedslim.mdl.codetable import CodeTable
from fedslim.mdl.release import Merged, merge_rare, release, shown_support, spelled_out
from fedslim.protocol.messages import PackedElement, PackedTable, Vector, refused

if TYPE_CHECKING:
    from fedslim.data import Encoding
    from fedslim.mdl.steps import SearchResult, Tally
    from fedslim.protocol.preparation import Preparation

NO_TABLE = PackedTable([], Vector.of(np.empty(0, np.int64)), Vector.of(np.empty(0, np.int64)), 0, 1, 0)
DISAGREE = "usages and supports of the table do not agree: a member does not count as the protocol says"

Ending = Literal["converged", "out of time", "out of rounds", "interrupted", "member lost"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The table found, in item numbers, and how the search went.

    `member_usages` has each member's usage of each itemset, where the variant shows that to the server.
    """

    table: PackedTable
    tally: Tally
    ending: Ending
    member_usages: Mapping[str, Sequence[int]] | None = None
    labels: tuple[bytes, ...] = ()  # sealed by the members, in their order
    preparation: Preparation | None = None  # then there is no table yet


Found = Sequence[tuple[tuple[int, ...], int, int, int]]
"""Itemsets in cover order: items, usage, support, usage at entry."""


def found_by(result: SearchResult, supports: Sequence[int]) -> Found:
    """Return the itemsets of a search result, without singletons; `supports` has their supports in the same order."""
    itemsets = [entry for entry in result.entries if len(entry.items) > 1]
    return [(e.items, e.usage, support, e.entry) for e, support in zip(itemsets, supports, strict=True)]


def check_singletons(result: SearchResult, found: Found, item_supports: Sequence[int]) -> None:
    """Check that the summed usages of single items are what the itemsets leave over."""
    supports = np.asarray(item_supports, np.int64)
    usages = np.zeros_like(supports)
    for entry in result.entries:
        if len(entry.items) == 1:
            usages[entry.items[0]] = entry.usage
    if not np.array_equal(usages, spelled_out(supports, found)):
        raise ProtocolError(DISAGREE)


def pack_table(
    found: Found,
    item_supports: Sequence[int],
    transactions: int,
    min_count: int = 1,
    withheld: NDArray[np.bool_] | None = None,
) -> PackedTable:
    """Return the table as it is sent, without counts and `withheld` items that must not be published."""
    supports = np.asarray(item_supports, np.int64)
    shown = merge_rare(supports, _check(found, supports, transactions), min_count, withheld)
    elements = [
        PackedElement(list(items), usage, shown_support(usage, support, min_count), entry)
        for items, usage, support, entry in found
    ]
    return PackedTable(
        elements, Vector.of(shown.usages), Vector.of(shown.supports), transactions, min_count, shown.other
    )


def code_table(table: PackedTable, labels: Sequence[str], encoding: Encoding | None = None) -> CodeTable:
    """Check a table that was received; return it with labels for the item numbers, and with the reader's encoding."""
    usages, supports = table.usages.values(), table.supports.values()
    if not len(usages) == len(supports) == len(labels):
        sizes = f"usages of {len(usages)} items and supports of {len(supports)}"
        raise refused(f"a table has {sizes}, but the vocabulary has {len(labels)}")
    found = [(tuple(e.items), e.usage, e.support, e.entry) for e in table.itemsets]
    for items, *_ in found:
        if len(items) == 1 or items[-1] >= len(labels) or not all(map(lt, items, items[1:])):
            raise refused("a table has itemsets that are not items of the vocabulary in ascending order")
    if not np.array_equal(usages, _check(found, supports, table.transactions)):
        raise ProtocolError(DISAGREE)
    shown = np.concatenate((usages, supports, [table.other], [min(three) for _, *three in found]))
    if ((shown > 0) & (shown < table.min_count)).any():
        raise refused(f"a table has a count below its own min_count {table.min_count}")
    counts = Merged(supports, usages, table.other)
    return replace(release(labels, table.transactions, counts, found, min_count=table.min_count), encoding=encoding)


def _check(found: Found, supports: NDArray[np.int64], transactions: int) -> NDArray[np.int64]:
    """Return the usages of single items; raise `ProtocolError` if no covers could have these counts."""
    spelled = spelled_out(supports, found)
    if (
        any(not 0 < usage <= support <= transactions for _, usage, support, _ in found)
        or int(supports.max(initial=0)) > transactions
        or int(spelled.min(initial=0)) < 0
    ):
        raise ProtocolError(DISAGREE)
    return spelled
