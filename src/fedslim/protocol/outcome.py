"""What a run comes to, and how a code table crosses the line."""

from __future__ import annotations

from dataclasses import dataclass
from operator import lt
from typing import TYPE_CHECKING, Literal

import numpy as np

from fedslim.errors import ProtocolError
from fedslim.mdl.codetable import CodeTable
from fedslim.protocol.messages import Element, Table, Vector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from fedslim.mdl.steps import SearchResult, Tally

Ending = Literal["converged", "out of time", "out of rounds", "interrupted", "member lost"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The table found, in item numbers, and how the search for it went.

    `site_usages` has how often each member uses each of its itemsets, where the variant shows that to the server.
    """

    table: Table
    tally: Tally
    ending: Ending
    site_usages: Mapping[str, Sequence[int]] | None = None

    @property
    def converged(self) -> bool:
        """Whether the search came to its end by itself."""
        return self.ending == "converged"


def packed_table(
    result: SearchResult, item_supports: Sequence[int], supports: Sequence[int], transactions: int
) -> Table:
    """A search's result as it is sent; `supports` are those of its itemsets, singletons apart, in its order."""
    usages = np.zeros(len(item_supports), np.int64)
    itemsets = []
    for entry in result.entries:
        if len(entry.items) == 1:
            usages[entry.items[0]] = entry.usage
        else:
            itemsets.append((entry.items, entry.usage, entry.entry))
    elements = [
        Element(list(items), usage, support, entry)
        for (items, usage, entry), support in zip(itemsets, supports, strict=True)
    ]
    every = np.asarray(item_supports, np.int64)
    _check_counts(elements, usages, every, transactions)
    return Table(elements, Vector.of(usages), Vector.of(every), transactions)


def code_table(table: Table, labels: Sequence[str]) -> CodeTable:
    """The table with the labels that somebody has for the item numbers."""
    usages, supports = table.usages.values(), table.supports.values()
    if not len(usages) == len(supports) == len(labels):
        msg = (
            f"a table with usages of {len(usages)} items and supports of {len(supports)} came where there are "
            f"{len(labels)}; it is refused"
        )
        raise ProtocolError(msg)
    for element in table.itemsets:
        items = element.items
        if len(items) == 1 or items[-1] >= len(labels) or not all(map(lt, items, items[1:])):
            msg = "a table came whose itemsets are not items of the vocabulary in ascending order; it is refused"
            raise ProtocolError(msg)
    _check_counts(table.itemsets, usages, supports, table.transactions)
    return CodeTable(
        tuple(labels),
        table.transactions,
        tuple(supports.tolist()),
        tuple(usages.tolist()),
        tuple((tuple(e.items), e.usage, e.support, e.entry) for e in table.itemsets),
        "usage",
    )


def _check_counts(
    itemsets: Sequence[Element], usages: NDArray[np.int64], supports: NDArray[np.int64], transactions: int
) -> None:
    """Whoever covers every item once comes to such counts; if these do not agree, somebody did not."""
    covered = usages.copy()
    for element in itemsets:
        covered[element.items] += element.usage
    if (
        any(not 0 < element.usage <= element.support <= transactions for element in itemsets)
        or int(supports.max(initial=0)) > transactions
        or not np.array_equal(covered, supports)
    ):
        msg = "usages and supports of the table do not agree: somebody does not count as the protocol says"
        raise ProtocolError(msg)
