"""One database as several sources, so that several cores can count. The search cannot tell the difference.

with Sharded(database, threads=2) as source:
    drive(search, source)
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fedslim.mdl.cover_state import CoverState, sparse_rows
from fedslim.mdl.summed import SummedSource, add_up

if TYPE_CHECKING:
    from fedslim.data import TransactionDatabase
    from fedslim.mdl.questions import SlotCounts

WORTH_A_THREAD = 1500
"""From this many transactions of a shard on, a question is worth passing to other threads."""

LOOKED_AT = 8
"""How many transactions a trial insertion inspects for each one that will use the itemset, by experience."""


class Sharded(SummedSource):
    """Implements `questions.Source` with a shard of the database for each thread."""

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
        return super().co_usages(slots)
