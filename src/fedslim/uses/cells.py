"""Rows and columns: the columns of items, rows of item numbers, and a column that says what each row is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from fedslim.data import Encoding, TransactionDatabase, as_database
from fedslim.data.coerce import by_value, table_of
from fedslim.data.columns import EncodedTable
from fedslim.data.discretise import DEFAULT_BINS
from fedslim.data.encoding import Choices, encode_table
from fedslim.data.parsing import parse_date
from fedslim.errors import DataError
from fedslim.mdl.codetable import CodeTable
from fedslim.schema import Schema


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


def labelled(
    rows: Any, column: str, *, bins: int = DEFAULT_BINS, **choices: Unpack[Choices]
) -> tuple[TransactionDatabase, list[str]]:
    """Return rows without one of their columns, and the value of each row in it: a class, a month or a site.

    Data without columns have items instead: `column` then has several items separated by commas, and every row must
    have exactly one of them.

    Raises:
        DataError: There is no such column, or a row has no value in it.
    """
    if (table := table_of(rows)) is None:
        return _by_items(as_database(rows), column)
    labels = labels_in(table, column)
    return _encode_without(table, column, bins, choices), labels


def sliced(
    rows: Any, column: str, schema: Schema | None = None, *, bins: int = DEFAULT_BINS, **choices: Unpack[Choices]
) -> tuple[list[TransactionDatabase], list[str]]:
    """Return the slices of rows by a column, in order, and their names: months of dates, intervals of numbers.

    The column makes no items. Data without columns have items instead, as for `labelled`.

    Raises:
        DataError: There is no such column, or a row has no value in it.
    """
    if (table := table_of(rows)) is None:
        database, labels = _by_items(as_database(rows), column)
        names = sorted(set(labels), key=by_value)
    else:
        labels_in(table, column)  # checks it
        chosen = next(one for one in table.columns if one.name == column)
        alone, _ = encode_table(replace(table, columns=[chosen]), bins=bins, one_hot=False, long=False)
        labels = [row[0].removeprefix(f"{column}=") for row in alone]
        names = [label.removeprefix(f"{column}=") for label in alone.vocabulary]
        if chosen.numbers is None:  # numbers are in order, and dates as text may not be
            names.sort(key=lambda name: by_value(name if (day := parse_date(name)) is None else day.isoformat()))
        if schema is None:
            database = _encode_without(table, column, bins, choices)
        else:
            database, _ = encode_table(table, schema=schema)
            own = [i for i, label in enumerate(database.vocabulary) if label.startswith(f"{column}=")]
            database = database.without(own)
    return [database.take([t for t, label in enumerate(labels) if label == name]) for name in names], names


def _encode_without(table: EncodedTable, column: str, bins: int, choices: Choices) -> TransactionDatabase:
    exclude = [*(choices.get("exclude") or ()), column]  # so that it may be in the rows that a table is used on
    return encode_table(table, bins=bins, **cast("Choices", {**choices, "exclude": exclude, "long": False}))[0]


def labels_in(table: EncodedTable, column: str) -> list[str]:
    """Return the value of each row in a column; see `labelled`."""
    chosen = next((one for one in table.columns if one.name == column), None)
    if chosen is None:
        known = ", ".join(map(repr, table.names))
        raise DataError(f"{table.source}: there is no column {column!r}; the columns are {known}")
    if len(table.columns) == 1:
        raise DataError(f"{table.source}: {column!r} is the only column, so the rows have no items; add other columns")
    _check_rows(chosen.codes >= 0, table.source, f"has no value in the column {column!r}")
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
    single = np.bincount(tids[own], minlength=len(database)) == 1
    _check_rows(single, database.name, f"does not have exactly one of the items {', '.join(map(repr, labels))}")
    # The rows keep their order, so the items that were found are those of the rows, one after the other.
    return database.without(items.tolist()), [database.vocabulary[i] for i in database.items[own].tolist()]


def _check_rows(right: NDArray[np.bool_], source: str, what: str) -> None:
    if not bool(right.all()):
        row = int(np.flatnonzero(~right)[0]) + 1
        raise DataError(f"{source}: row {row} {what}; remove such rows, or name something else")
