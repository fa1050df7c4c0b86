"""Several sources as one: every answer is the sum of theirs. The search cannot tell the difference."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fedslim.mdl.cover_state import CoverState, sparse_rows
from fedslim.mdl.itemsets import Itemset
from fedslim.mdl.questions import Change, Drop, Insert, Mark, Move, Remove, SlotCounts, Tried, add_changes, add_counts

if TYPE_CHECKING:
    from fedslim.data import TransactionDatabase

WORTH_A_THREAD = 1500  # from this many transactions of a shard on, a question is worth passing to other threads

LOOKED_AT = 8  # how many transactions a trial insertion inspects for each one that will use the itemset, by experience


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


def _question(name: str) -> Any:
    """Return a method of `questions.Source` that puts its question to each of the sources."""

    def ask(self: SummedSource, *about: Any) -> Any:
        return self.put(name, *about)

    return ask


class SummedSource(ABC):
    """Implements `questions.Source` with sources that are threads, or processes, or on other machines."""

    @abstractmethod
    def put(self, question: str, *about: Any) -> Any:
        """Call a method of `questions.Source` at each of the sources, and return the sum of their answers."""

    supports = _question("supports")
    support = _question("support")
    co_usages = _question("co_usages")
    try_insert = _question("try_insert")
    try_removals = _question("try_removals")
    drop = _question("drop")
    insert = _question("insert")
    remove = _question("remove")
    mark = _question("mark")
    go_back = _question("go_back")
    restart = _question("restart")


class Sharded(SummedSource):
    """A shard of one database for each thread, so that several cores can count."""

    def __init__(self, database: TransactionDatabase, threads: int, *, keep_pairs: bool = False) -> None:
        parts = np.array_split(np.arange(database.transactions), threads)
        self.shards = tuple(CoverState(database.take(part), keep_pairs=keep_pairs) for part in parts)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="fedslim-cover")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def put(self, question: str, *about: Any) -> Any:
        """See `SummedSource`."""
        return add_up(self._ask(question, *about))

    def _ask(self, question: str, *about: Any) -> list[Any]:
        put = methodcaller(question, *about)
        if self._transactions(question, *about) < WORTH_A_THREAD:
            return [put(shard) for shard in self.shards]
        return list(self._pool.map(put, self.shards))

    def _transactions(self, question: str, *about: Any) -> int:
        """Return about how many transactions a shard looks at."""
        match question, about:
            case "try_insert", (_, _, entry):
                return LOOKED_AT * int(entry) // len(self.shards)
            case "insert", (_, _, entry):
                return int(entry) // len(self.shards)
            case (("co_usages" | "kept_rows" | "try_removals"), (slots,)):
                return int(self.shards[0].usages[list(slots)].sum())
            case "remove", (slot,):
                return int(self.shards[0].usages[slot])
            case (("mark" | "go_back" | "restart"), _):
                return WORTH_A_THREAD
        return 0

    def co_usages(self, slots: tuple[int, ...]) -> tuple[SlotCounts, ...]:
        """See `Source`."""
        kept = [found for found in self._ask("kept_rows", slots) if found is not None]
        if len(kept) == len(self.shards):
            return sparse_rows(np.sum(kept, axis=0, dtype=np.int64))
        rows: tuple[SlotCounts, ...] = super().co_usages(slots)
        return rows


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
