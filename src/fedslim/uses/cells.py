"""Rows and columns: the columns of items, rows of item numbers, and a column that says what each row is."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedslim.data import TransactionDatabase, as_database
from fedslim.data.encoding import encode_table
from fedslim.data.frames import dataframe_table, is_dataframe
from fedslim.data.readers import read_table
from fedslim.data.textstream import is_file
from fedslim.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fedslim.data import Encoding
    from fedslim.data.columns import EncodedTable
    from fedslim.mdl.codetable import CodeTable


def column_names(encoding: Encoding | None) -> tuple[str, ...]:
    """Return the names of the columns whose items are `column=value`."""
    if encoding is None or encoding.kind not in {"categorical", "schema"}:
        return ()
    return encoding.columns or tuple(encoding.to_dict()["schema"]["columns"])


def columns_of(names: Sequence[str], labels: Sequence[str]) -> NDArray[np.int64]:
    """Return the number of each item's column, or -1."""
    numbers = {name: number for number, name in enumerate(names)}
    longest_first = sorted(numbers, key=len, reverse=True)  # a name may begin with another one and "="
    found = (next((numbers[name] for name in longest_first if label.startswith(f"{name}=")), -1) for label in labels)
    return np.fromiter(found, np.int64, len(labels))


def rows_of(table: CodeTable, rows: Sequence[Sequence[int]]) -> TransactionDatabase:
    """Return rows of item numbers as transactions over the table's vocabulary."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    items: NDArray[np.int64] = np.fromiter((i for row in rows for i in row), np.int64, int(lengths.sum()))
    return TransactionDatabase.from_rows(lengths, items, table.vocabulary)


def labelled(X: Any, column: str) -> tuple[TransactionDatabase, list[str]]:  # noqa: N803  # scikit-learn's name
    """Return rows without one of their columns, and the value of each row in it: a class, a month or a site.

    Data without columns have items instead: `column` then has several items separated by commas, and every row must
    have exactly one of them.

    Raises:
        DataError: There is no such column, or a row has no value in it.
    """
    path = X if isinstance(X, (str, os.PathLike)) else None
    table = dataframe_table(X) if is_dataframe(X) else read_table(path) if path and is_file(Path(path)) else None
    if table is None:
        return _by_items(as_database(X), column)
    labels = labels_in(table, column)
    rest = replace(table, columns=[one for one in table.columns if one.name != column])
    return encode_table(rest, long=False)[0], labels


def labels_in(table: EncodedTable, column: str) -> list[str]:
    """Return the value of each row in a column; see `labelled`."""
    chosen = next((one for one in table.columns if one.name == column), None)
    if chosen is None or len(table.columns) < 2:  # noqa: PLR2004  # one must be left
        raise DataError(f"{table.source}: there is no column {column!r} beside others; name a column of the header")
    _check_rows(chosen.codes >= 0, f"has no value in the column {column!r}")
    labels = chosen.labels
    return [labels[code] for code in chosen.codes.tolist()]


def _by_items(database: TransactionDatabase, column: str) -> tuple[TransactionDatabase, list[str]]:
    labels = column.split(",")
    index = {label: i for i, label in enumerate(database.vocabulary)}
    if (lost := next((label for label in labels if label not in index), None)) is not None:
        msg = f"{database.name}: there is no item {lost!r}; for data without columns, give items separated by commas"
        raise DataError(msg)
    items = np.array([index[label] for label in labels])
    tids = np.repeat(np.arange(len(database)), database.lengths)
    own = np.isin(database.items, items)
    _check_rows(np.bincount(tids[own], minlength=len(database)) == 1, f"has not exactly one of the items {column}")
    # The rows keep their order, so the items that were found are those of the rows, one after the other.
    return database.without(items.tolist()), [database.vocabulary[i] for i in database.items[own].tolist()]


def _check_rows(right: NDArray[np.bool_], what: str) -> None:
    if not bool(right.all()):
        raise DataError(f"row {int(np.flatnonzero(~right)[0]) + 1} {what}; remove such rows, or name something else")
