"""Read CSV and TSV files with a header: categorical tables, and long tables of (transaction, item) rows."""

from __future__ import annotations

import csv
import threading
from itertools import islice
from typing import TYPE_CHECKING

from fedslim.data import textstream
from fedslim.data.building import columns_of_rows
from fedslim.data.columns import check_names, long_columns
from fedslim.data.encoding import EncodedTable
from fedslim.data.records import with_rows
from fedslim.data.textstream import is_stdin
from fedslim.errors import DataError
from fedslim.format import count

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TAB = "\t"


class _Lines:
    """Feeds lines to the csv module and limits the size of a record, which quotes may spread over many lines."""

    def __init__(self, path: Path, encoding: str | None) -> None:
        self._path = path
        self._lines = textstream.text_lines(path, encoding)
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


def records(path: Path, separator: str, encoding: str | None = None) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a file with the line on which each starts; blank lines are skipped."""
    with _LONG_FIELDS:
        yield from _parse(path, separator, encoding)


def _parse(path: Path, separator: str, encoding: str | None) -> Iterator[tuple[int, list[str]]]:
    lines = _Lines(path, encoding)
    rows = csv.reader(lines, delimiter=separator, strict=True)
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


def delimited_table(
    path: Path,
    *,
    separator: str = ",",
    encoding: str | None = None,
    name: str,
    pair: tuple[str | None, str | None] = (None, None),
) -> EncodedTable:
    """Read a table with a header; of a long table only its two columns."""
    rows = records(path, separator, encoding)
    names = _header(path, rows)
    chosen = None if pair == (None, None) else long_columns(names, *pair, str(path))
    columns = columns_of_rows(names, _check(path, len(names), rows), chosen)

    def place(row: int) -> str:
        again = islice(records(path, separator, encoding), row + 1, None)  # after the header; only for an error
        return f"{path}:{next(again)[0]}"

    return EncodedTable(with_rows(columns, str(path)), name, str(path), None if is_stdin(path) else place)


def _header(path: Path, records: Iterator[tuple[int, list[str]]]) -> list[str]:
    line, header = next(records, (1, []))
    names = [field.strip() for field in header]
    check_names(names, f"{path}:{line}")
    if len(names) == 1 and (other := next((mark for mark in ";\t|" if mark in names[0]), None)):
        msg = (
            f"{path}:{line}: the header has the single column {names[0]!r:.60}, which looks like several separated by "
            f"{other!r}; add --separator {'tab' if other == TAB else repr(other)}"
        )
        raise DataError(msg)
    return names


def _check(path: Path, width: int, records: Iterator[tuple[int, list[str]]]) -> Iterator[list[str]]:
    for line, row in records:
        if len(row) != width:
            msg = (
                f"{path}:{line}: the row has {count(len(row), 'field')}, but the header has {width}; "
                "add or remove fields, and quote fields that contain the separator"
            )
            raise DataError(msg)
        yield row
