"""A search that continues from a table that was found before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedslim.mdl.objective import standard_length
from fedslim.mdl.policy import MAX_WIDTH
from fedslim.mdl.questions import Insert, TryInsertions
from fedslim.mdl.search import SlimSearch

if TYPE_CHECKING:
    from collections.abc import Generator

    from fedslim.mdl.itemsets import Itemset
    from fedslim.mdl.policy import Policy
    from fedslim.mdl.questions import Question
    from fedslim.mdl.steps import SearchResult

Table = tuple[tuple["Itemset", int], ...]
"""Itemsets with the second criterion of their place in the cover order: all that is needed to build a table again."""


def itemsets_of(result: SearchResult) -> Table:
    """Return the itemsets of a result, without single items."""
    return tuple([(e.items, e.entry) for e in result.entries if len(e.items) > 1])


class ContinuedSearch(SlimSearch):
    """A greedy search that starts with these itemsets in addition to single items."""

    def __init__(self, n_items: int, policy: Policy, start: Table) -> None:
        super().__init__(n_items, policy)
        self._start_from = start

    def _begin(self) -> Generator[Question, Any, None]:
        yield from super()._begin()
        yield from self._install(self._start_from)

    def _install(self, table: Table) -> Generator[Question, Any, None]:
        """Insert itemsets that were found before."""
        for first in range(0, len(table), MAX_WIDTH):
            some = table[first : first + MAX_WIDTH]
            moves = [
                Insert.again(slot, *one) for slot, one in zip(self._table.free_slots(len(some)), some, strict=True)
            ]
            for move in moves:
                self._reserve(move.slot)
                self._standard[move.slot] = standard_length(move.itemset, self._item_lengths)
            changes = (yield TryInsertions(tuple(moves), (True,) * len(moves))).changes
            for move, change in zip(moves, changes, strict=True):
                bits = self._bits_changed(change)
                self._table.stage(move.slot, move.itemset, move.entry)
                self._table.place(move.slot)
                self.ranking.welcome(move.slot)
                self._apply(change, bits)
