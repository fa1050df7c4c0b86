"""The columns of a code table's items, for data that were a table: at most one item of each column is in a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedslim.data import TransactionDatabase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fedslim.data import Encoding
    from fedslim.mdl.codetable import CodeTable


def columns_of(encoding: Encoding | None, labels: Sequence[str]) -> NDArray[np.int64]:
    """Return the number of each item's column; -1 for all unless the encoding has columns with values."""
    if encoding is None or encoding.kind != "categorical":
        return np.full(len(labels), -1, np.int64)
    numbers = {name: number for number, name in enumerate(encoding.columns)}
    longest_first = sorted(numbers, key=len, reverse=True)  # a name may begin with another one and "="
    found = (next((numbers[name] for name in longest_first if label.startswith(f"{name}=")), -1) for label in labels)
    return np.fromiter(found, np.int64, len(labels))


def rows_of(table: CodeTable, rows: Sequence[Sequence[int]]) -> TransactionDatabase:
    """Return rows of item numbers as transactions over the table's vocabulary."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    items: NDArray[np.int64] = np.fromiter((i for row in rows for i in row), np.int64, int(lengths.sum()))
    return TransactionDatabase.from_rows(lengths, items, table.vocabulary)
