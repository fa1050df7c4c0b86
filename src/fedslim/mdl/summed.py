"""Several sources as one: every answer is the sum of theirs.

class Threads(SummedSource):
    def put(self, question, *about):
        return add_up([getattr(source, question)(*about) for source in self._sources])
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from fedslim.mdl.questions import Change, Drop, Insert, Mark, Remove, SlotCounts, Tried, add_changes, add_counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fedslim.mdl.itemsets import Itemset
    from fedslim.mdl.questions import Move


def add_up(answers: Sequence[Any]) -> Any:
    """Add up the answers of several sources to one question."""
    first = answers[0]
    if first is None:
        return None
    if isinstance(first, SlotCounts):
        return add_counts(answers)
    if isinstance(first, Change):
        return add_changes(answers)
    if isinstance(first, tuple):
        parts = [add_up(parts) for parts in zip(*answers, strict=True)]
        return Tried(*parts) if isinstance(first, Tried) else tuple(parts)
    return np.sum(answers, axis=0, dtype=np.int64) if isinstance(first, np.ndarray) else sum(answers)


class SummedSource(ABC):
    """Implements `questions.Source` with sources that are threads, or processes, or on other machines."""

    @abstractmethod
    def put(self, question: str, *about: Any) -> Any:
        """Call a method of `questions.Source` at each of the sources, and return the sum of their answers."""

    def supports(self) -> NDArray[np.int64]:
        """See `Source`."""
        found: NDArray[np.int64] = self.put("supports")
        return found

    def support(self, itemset: Itemset) -> int:
        """See `Source`."""
        return int(self.put("support", itemset))

    def co_usages(self, slots: tuple[int, ...]) -> tuple[SlotCounts, ...]:
        """See `Source`."""
        rows: tuple[SlotCounts, ...] = self.put("co_usages", slots)
        return rows

    def try_insert(self, slot: int, itemset: Itemset, entry: int) -> Change:
        """See `Source`."""
        change: Change = self.put("try_insert", slot, itemset, entry)
        return change

    def try_removals(self, slots: tuple[int, ...]) -> tuple[Change, ...]:
        """See `Source`."""
        changes: tuple[Change, ...] = self.put("try_removals", slots)
        return changes

    def drop(self, items: tuple[int, ...]) -> None:
        """See `Source`."""
        self.put("drop", items)

    def insert(self, slot: int, itemset: Itemset, entry: int) -> None:
        """See `Source`."""
        self.put("insert", slot, itemset, entry)

    def remove(self, slot: int) -> None:
        """See `Source`."""
        self.put("remove", slot)

    def mark(self) -> None:
        """See `Source`."""
        self.put("mark")

    def go_back(self) -> None:
        """See `Source`."""
        self.put("go_back")

    def restart(self) -> None:
        """See `Source`."""
        self.put("restart")


class TableLog(SummedSource):
    """The table that sources have after the moves so far, for sources that come later: `question.put_to(log)`.

    Covers depend on the table alone, so a source that is given the same table gives the same answers. It must not reuse
    slots by itself (`CoverState(…, reuse_slots=False)`).
    """

    def __init__(self) -> None:
        self._dropped: tuple[int, ...] = ()
        self._table: dict[int, tuple[Itemset, int]] = {}
        self._marked: dict[int, tuple[Itemset, int]] | None = None

    def put(self, question: str, *about: Any) -> Any:
        """Note a move; other questions change nothing, and have no answer here."""
        match question, about:
            case "drop", (items,):
                self._dropped = items
            case "insert", (slot, itemset, entry):
                self._table[slot] = (itemset, entry)
            case "remove", (slot,):
                del self._table[slot]
            case "mark", _:
                self._marked = self._table.copy()
            case "go_back", _:
                assert self._marked is not None  # noqa: S101  # a mark comes first
                self._table = self._marked.copy()
            case "restart", _:
                self._table, self._marked = {}, None
        return 0 if question == "support" else ()

    def moves(self) -> list[Move]:
        """Return the moves that bring a new source to this table."""
        moves: list[Move] = [Drop(self._dropped)] if self._dropped else []
        before = self._marked or {}
        if self._marked is not None:
            moves += [*_insertions(before), Mark()]
        moves += [Remove(slot) for slot, one in before.items() if self._table.get(slot) != one]
        return moves + _insertions({s: one for s, one in self._table.items() if before.get(s) != one})


def _insertions(table: dict[int, tuple[Itemset, int]]) -> list[Move]:
    return [Insert.again(slot, *one) for slot, one in table.items()]
