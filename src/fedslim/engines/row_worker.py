"""The rows at one worker of an engine: it reads its part, agrees with the others on items, and answers questions.

This module knows no engine: `ray.py` runs these workers on other machines.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedslim.data import TransactionDatabase, load
from fedslim.data.columns import MISSING, TextColumn
from fedslim.data.encoding import EncodedTable
from fedslim.data.readers import parquet_files, read_table
from fedslim.mdl.cover_state import CoverState
from fedslim.schema import Agreed, Schema, agree, conform

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fedslim.mdl.summed import Call
    from fedslim.schema import Conformed


class Part(NamedTuple):
    """What a worker reads: some of the files, or all of the data, of which it keeps each `of`-th row."""

    source: str
    number: int
    of: int
    options: Mapping[str, Any]  # of `load`
    files: tuple[Path, ...] = ()


def divide(source: str, workers: int, options: Mapping[str, Any]) -> list[Part]:
    """Divide data among workers, at most as many as given.

    Files of Parquet with a schema are divided, the largest first. Anything else every worker reads, and keeps a part:
    without a schema, items follow from all rows.
    """
    found = parquet_files(Path(source)) if options.get("schema") is not None else None
    files = sorted(found.rglob("*.parquet")) if isinstance(found, Path) else found or []
    if len(files) < 2:  # noqa: PLR2004  # one file cannot be divided
        return [Part(source, k, workers, options) for k in range(workers)]
    hands: list[list[Path]] = [[] for _ in range(min(workers, len(files)))]
    sizes = [0] * len(hands)
    for file in sorted(files, key=lambda path: (-path.stat().st_size, path)):
        least = sizes.index(min(sizes))
        hands[least].append(file)
        sizes[least] += file.stat().st_size
    return [Part(source, k, len(hands), options, tuple(sorted(hand))) for k, hand in enumerate(hands)]


class RowWorker:
    """The rows of one part, and their covers."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._site: Conformed | None = None
        self._database: TransactionDatabase | None = None
        self._state: CoverState | None = None

    # -- reading and agreeing -----------------------------------------------------------------------------------

    def read(self) -> tuple[str, ...] | None:
        """Read the part; return the items if every worker has the same, None if they have to agree on them."""
        part = self._part
        if part.files:
            schema: Schema = part.options["schema"]
            files = list(part.files) if len(part.files) > 1 else part.files[0]
            table = read_table(files, name=part.source)  # type: ignore[arg-type]
            assert table is not None  # noqa: S101  # Parquet files have columns
            self._site = conform(schema, table)
            return None
        whole = load(part.source, **part.options)
        self._database = whole.take(np.arange(part.number, whole.transactions, part.of))
        return whole.vocabulary
