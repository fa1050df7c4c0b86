"""What a run comes to, and how a code table crosses the line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from fedslim.errors import ProtocolError
from fedslim.mdl.codetable import CodeTable
from fedslim.protocol.messages import Element, Table, Vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedslim.mdl.search import SearchResult, Tally

Ending = Literal["converged", "out of time", "out of rounds", "interrupted", "member lost"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The table found, in item numbers, and how the search for it went."""

    table: Table
    tally: Tally
    ending: Ending

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
    return Table(
        [
            Element(list(items), usage, support, entry)
            for (items, usage, entry), support in zip(itemsets, supports, strict=True)
        ],
        Vector.of(usages),
        Vector.of(np.asarray(item_supports, np.int64)),
        transactions,
    )


def code_table(table: Table, labels: Sequence[str]) -> CodeTable:
    """The table with the labels that somebody has for the item numbers."""
    usages, supports = table.usages.values(), table.supports.values()
    if not len(usages) == len(supports) == len(labels):
        msg = f"a table over {len(usages)} items came where there are {len(labels)}; it is refused"
        raise ProtocolError(msg)
    if any(item >= len(labels) for element in table.itemsets for item in element.items):
        msg = "a table came that names items which are not in the vocabulary; it is refused"
        raise ProtocolError(msg)
    return CodeTable(
        tuple(labels),
        table.transactions,
        tuple(supports.tolist()),
        tuple(usages.tolist()),
        tuple((tuple(e.items), e.usage, e.support, e.entry) for e in table.itemsets),
        "usage",
    )
