"""One database as several sources, so that several cores can count. The search cannot tell the difference.

with Sharded(database, threads=2) as source:
    drive(search, source)
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np

from fedslim.mdl.cover_state import CoverState, sparse_rows
from fedslim.mdl.questions import add_changes, add_counts

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from fedslim.data import TransactionDatabase
    from fedslim.mdl.itemsets import Itemset
    from fedslim.mdl.questions import Change, SlotCounts

Answer = TypeVar("Answer")

WORTH_A_THREAD = 1500
"""From this many transactions of a shard on, a question is worth passing to other threads."""

LOOKED_AT = 8
"""How many transactions a trial insertion inspects for each one that will use the itemset, by experience."""


class Sharded:
    """Implements `questions.Source`: every answer is the sum of the shards' answers."""

    def __init__(self, database: TransactionDatabase, threads: int, *, keep_pairs: bool = False) -> None:
        parts = np.array_split(np.arange(database.transactions), threads)
        self.shards = tuple(CoverState(database.take(part), keep_pairs=keep_pairs) for part in parts)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="fedslim-cover")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def _ask(self, transactions: int, question: Callable[[CoverState], Answer]) -> list[Answer]:
        if transactions < WORTH_A_THREAD:
            return [question(shard) for shard in self.shards]
        return list(self._pool.map(question, self.shards))

    def _usage(self, slots: tuple[int, ...]) -> int:
        return int(self.shards[0].usages[list(slots)].sum())

    def supports(self) -> NDArray[np.int64]:
        """See `Source`."""
        total: NDArray[np.int64] = np.sum([shard.supports() for shard in self.shards], axis=0, dtype=np.int64)
        return total

    def support(self, itemset: Itemset) -> int:
        """See `Source`."""
        return sum(shard.support(itemset) for shard in self.shards)

    def co_usages(self, slots: tuple[int, ...]) -> tuple[SlotCounts, ...]:
        """See `Source`."""
        pairs = self._ask(self._usage(slots), lambda shard: shard.kept_rows(slots))
        kept = [found for found in pairs if found is not None]
        if len(kept) == len(self.shards):
            return sparse_rows(np.sum(kept, axis=0, dtype=np.int64))
        rows = self._ask(self._usage(slots), lambda shard: shard.co_usages(slots))
        return tuple(add_counts(row) for row in zip(*rows, strict=True))

    def try_insert(self, slot: int, itemset: Itemset, entry: int) -> Change:
        """See `Source`."""
        expected = LOOKED_AT * entry // len(self.shards)
        return add_changes(self._ask(expected, lambda shard: shard.try_insert(slot, itemset, entry)))

    def try_removals(self, slots: tuple[int, ...]) -> tuple[Change, ...]:
        """See `Source`."""
        trials = self._ask(self._usage(slots), lambda shard: shard.try_removals(slots))
        return tuple(add_changes(trial) for trial in zip(*trials, strict=True))

    def drop(self, items: tuple[int, ...]) -> None:
        """See `Source`."""
        for shard in self.shards:
            shard.drop(items)

    def insert(self, slot: int, itemset: Itemset, entry: int) -> None:
        """See `Source`."""
        self._ask(entry // len(self.shards), lambda shard: shard.insert(slot, itemset, entry))

    def remove(self, slot: int) -> None:
        """See `Source`."""
        self._ask(self._usage((slot,)), lambda shard: shard.remove(slot))

    def mark(self) -> None:
        """See `Source`."""
        self._ask(WORTH_A_THREAD, lambda shard: shard.mark())

    def go_back(self) -> None:
        """See `Source`."""
        self._ask(WORTH_A_THREAD, lambda shard: shard.go_back())

    def restart(self) -> None:
        """See `Source`."""
        self._ask(WORTH_A_THREAD, lambda shard: shard.restart())
