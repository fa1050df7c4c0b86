"""Read CSV and TSV files with a header: categorical tables, and long tables of (transaction, item) rows."""

from __future__ import annotations

import csv
import threading
from array import array
from collections import defaultdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedslim.data import textstream
from fedslim.data.columns import TextColumn, check_names, long_columns, long_to_database
from fedslim.data.discretise import DEFAULT_BINS, check_bins
from fedslim.data.encoding import EncodedTable, encode_table
from fedslim.data.fimi import stem
from fedslim.errors import DataError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from fedslim.data.database import TransactionDatabase

DELIMITERS = {"csv": ",", "tsv": "\t"}

_ROWS_AT_A_TIME = 4096


class _Lines:
    """Feeds lines to the csv module and limits the size of a record, which quotes may spread over many lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = textstream.text_lines(path)
        self._number = 0
        self.record_start = 1
        self._held = 0

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self._number += 1
        self._held += len(line)
        if self._held > textstream.LINE_LIMIT:
            msg = (
                f"{self._path}:{self.record_start}: the row is longer than {textstream.LINE_LIMIT:,} characters; "
                "check for a quote that is never closed"
            )
            raise DataError(msg)
        return line

    def next_record(self) -> None:
        """Mark the end of a record: the next one starts on the next line."""
        self.record_start = self._number + 1
        self._held = 0


class _LongFields:
    """Raises the csv module's field size limit while files are read; `_Lines` enforces the real limit.

    The csv module has one limit for the whole process. The first reader raises it and the last one restores it, unless
    other code changed it meanwhile.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers = 0
        self._before = self._ours = 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._readers:
                self._before = csv.field_size_limit()
                self._ours = max(self._before, textstream.LINE_LIMIT)
                csv.field_size_limit(self._ours)
            self._readers += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._readers -= 1
            if not self._readers and csv.field_size_limit() == self._ours:
                csv.field_size_limit(self._before)


_LONG_FIELDS = _LongFields()


def _records(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a file with the line on which each starts; blank lines are skipped."""
    with _LONG_FIELDS:
        yield from _parse(path, delimiter)


def _parse(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    lines = _Lines(path)
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:
            msg = (
                f"{path}:{lines.record_start}: cannot be parsed ({error}); "
                'close every quote, and double a quote inside a quoted field, as in "6"" nails"'
            )
            raise DataError(msg) from None
        if row is None:
            return
        if row:
            yield lines.record_start, row
        lines.next_record()


class _Factorised:
    """Builds a column: each string gets the next code when it first appears. The loops run in C, for speed."""

    def __init__(self) -> None:
        self._index: defaultdict[str, int] = defaultdict()
        self._index.default_factory = self._index.__len__
        self._codes = array("i")

    def extend(self, texts: Sequence[str]) -> None:
        self._codes.extend(map(self._index.__getitem__, texts))

    def column(self, name: str) -> TextColumn:
        return TextColumn(name, np.frombuffer(self._codes, np.int32), list(self._index))


def read_delimited(  # noqa: PLR0913  # the options of a table, all by keyword
    path: str | os.PathLike[str],
    *,
    delimiter: str = ",",
    bins: int = DEFAULT_BINS,
    transaction_column: str | None = None,
    item_column: str | None = None,
    name: str | None = None,
) -> TransactionDatabase:
    """Read a table with a header; see `fedslim.data.read` for the options."""
    path = Path(path)
    check_bins(bins)
    if transaction_column is None and item_column is None:
        return encode_table(delimited_table(path, delimiter=delimiter, name=name), bins=bins)[0]
    records = _records(path, delimiter)
    names = _header(path, records)
    chosen = long_columns(names, transaction_column, item_column, str(path))
    lines = array("q")  # the line of each row, for error messages
    transaction, item = _columns(path, names, _note(records, lines), chosen)
    return long_to_database(
        transaction, item, name=name or stem(path), source=str(path), place=lambda row: f"{path}:{lines[row]}"
    )


def delimited_table(path: str | os.PathLike[str], *, delimiter: str = ",", name: str | None = None) -> EncodedTable:
    """Read a table with a header and one transaction per row."""
    path = Path(path)
    records = _records(path, delimiter)
    names = _header(path, records)
    return EncodedTable(_columns(path, names, records, range(len(names))), name or stem(path), str(path))


def _header(path: Path, records: Iterator[tuple[int, list[str]]]) -> list[str]:
    line, header = next(records, (1, []))
    names = [field.strip() for field in header]
    check_names(names, f"{path}:{line}")
    if len(names) == 1 and (other := next((mark for mark in ";\t|" if mark in names[0]), None)):
        msg = (
            f"{path}:{line}: the header has the single column {names[0]!r:.60}, which looks like several separated by "
            f"{other!r}; use --format tsv for tabs, or save the table with commas"
        )
        raise DataError(msg)
    return names


def _columns(
    path: Path, names: list[str], records: Iterator[tuple[int, list[str]]], wanted: Sequence[int]
) -> list[TextColumn]:
    """Read the wanted columns in batches; transposing a batch avoids Python code for each cell."""
    parts = [_Factorised() for _ in wanted]
    checked = _check(path, len(names), records)
    empty = True
    while batch := list(islice(checked, _ROWS_AT_A_TIME)):
        empty = False
        cells = list(zip(*batch, strict=True))
        for part, position in zip(parts, wanted, strict=True):
            part.extend(cells[position])
    if empty:
        msg = f"{path}: the file has a header but no rows; add the data, or check that the file is complete"
        raise DataError(msg)
    return [part.column(names[position]) for part, position in zip(parts, wanted, strict=True)]


def _note(records: Iterator[tuple[int, list[str]]], lines: array[int]) -> Iterator[tuple[int, list[str]]]:
    """Pass records through, and append the line of each to `lines`."""
    for line, row in records:
        lines.append(line)
        yield line, row


def _check(path: Path, width: int, records: Iterator[tuple[int, list[str]]]) -> Iterator[list[str]]:
    for line, row in records:
        if len(row) != width:
            msg = (
                f"{path}:{line}: the row has {len(row)} fields, but the header has {width}; "
                "add or remove fields, and quote fields that contain the separator"
            )
            raise DataError(msg)
        yield row
