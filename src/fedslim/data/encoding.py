"""Encode tables as transactions with `column=value` items, and keep the encoding for later data.

    database, encoding = encode_table(table)                  # chooses one-hot or categorical, and where to cut
    unseen, _ = encode_table(other, encoding=encoding)        # applies these choices: the same values, the same items

To compare new rows with a model, encode them as the model's data were encoded. A new encoding, from five rows instead
of five thousand, would cut other intervals and silently give other items.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from fedslim.data.columns import MISSING, Coded, check_names
from fedslim.data.database import TransactionDatabase, first_repeat
from fedslim.data.discretise import DEFAULT_BINS, Intervals, check_bins
from fedslim.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedslim.data.columns import Column

_NAMED = 20
"""How many column names a message lists."""


@dataclass(frozen=True, slots=True)
class EncodedTable:
    """Columns of equal length, not yet converted to items; `source` names the table in messages."""

    columns: Sequence[Column]
    name: str
    source: str


@dataclass(frozen=True, slots=True)
class Encoding:
    """How rows were converted to items. Immutable and picklable; equal encodings give equal items.

    `items`: the rows were lists of items already. `one-hot`: each column is an item. `categorical`: items are
    `column=value`, and `intervals` has the cuts of each column (None if its values were not cut).
    """

    kind: Literal["items", "one-hot", "categorical"]
    columns: tuple[str, ...] = ()
    intervals: tuple[Intervals | None, ...] = ()


ITEMS = Encoding("items")
"""The encoding of lists of items."""


def encode_table(
    table: EncodedTable, *, bins: int = DEFAULT_BINS, encoding: Encoding | None = None
) -> tuple[TransactionDatabase, Encoding]:
    """Convert each row to a transaction, with the given encoding or one derived from the table.

    If all columns are flags, items are the column names; otherwise they are `column=value`.

    Raises:
        DataError: The columns do not match the encoding; the message names the first that differs.
    """
    check_bins(bins)
    check_names([column.name for column in table.columns], table.source)
    if encoding is None:
        parts, encoding = _decide(table.columns, bins)
    else:
        parts = _apply(table, encoding)
    vocabulary = [label for part in parts for label in part.labels]
    if (twin := first_repeat(vocabulary)) is not None:
        msg = f"{table.source}: two columns make the same item {twin!r}; rename one of them"
        raise DataError(msg)
    return replace(_rows_from_codes(parts, vocabulary, table.name), encoding=encoding), encoding


def _decide(columns: Sequence[Column], bins: int) -> tuple[list[Coded], Encoding]:
    names = tuple(column.name for column in columns)
    if all(column.is_flag() for column in columns):
        return [_flag(column) for column in columns], Encoding("one-hot", names)
    coded = [column.coded(bins) for column in columns]
    encoding = Encoding("categorical", names, tuple(part.intervals for part in coded))
    return [_prefix(name, part) for name, part in zip(names, coded, strict=True)], encoding


def _apply(table: EncodedTable, encoding: Encoding) -> list[Coded]:
    columns = _match(table, encoding)
    if encoding.kind == "one-hot":
        return [_flag(column, table.source) for column in columns]
    return [
        _prefix(column.name, column.coded(None) if intervals is None else column.placed(intervals))
        for column, intervals in zip(columns, encoding.intervals, strict=True)
    ]


def _match(table: EncodedTable, encoding: Encoding) -> list[Column]:
    """Return the table's columns in the order of the encoding; both must have the same columns."""
    if encoding.kind == "items":
        msg = (
            f"{table.source}: this is a table with the column {table.columns[0].name!r}, but the model was fitted on "
            "lists of items; give lists of items, or fit on a table"
        )
        raise DataError(msg)
    columns = {column.name: column for column in table.columns}
    known = ", ".join(map(repr, encoding.columns[:_NAMED])) + (", ..." if len(encoding.columns) > _NAMED else "")
    if (lost := next((name for name in encoding.columns if name not in columns), None)) is not None:
        msg = f"{table.source}: there is no column {lost!r}; the model was fitted on a table with the columns {known}"
        raise DataError(msg)
    if (new := next((name for name in columns if name not in set(encoding.columns)), None)) is not None:
        msg = f"{table.source}: the model was not fitted on the column {new!r}; drop it, the columns are {known}"
        raise DataError(msg)
    return [columns[name] for name in encoding.columns]


def _flag(column: Column, source: str = "the table") -> Coded:
    flags = column.flags()
    if flags is None:
        msg = (
            f"{source}: the column {column.name!r} has values other than 0, 1, true and false, but the model was "
            "fitted on a one-hot table; give a one-hot table, or fit again"
        )
        raise DataError(msg)
    return Coded(np.where(flags, 0, MISSING).astype(np.int32), [column.name])


def _prefix(name: str, coded: Coded) -> Coded:
    return Coded(coded.codes, [f"{name}={label}" for label in coded.labels])


def _rows_from_codes(coded: Sequence[Coded], vocabulary: list[str], name: str) -> TransactionDatabase:
    """Collect (row, item) pairs column by column; memory is linear in the number of items present."""
    tids, ids, first = [], [], 0
    for part in coded:
        rows = np.flatnonzero(part.codes != MISSING)
        tids.append(rows)
        ids.append(part.codes[rows].astype(np.int64) + first)
        first += len(part.labels)
    return TransactionDatabase.from_pairs(
        np.concatenate(tids), np.concatenate(ids), vocabulary, transactions=len(coded[0].codes), name=name
    )
