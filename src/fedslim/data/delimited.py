"""Read CSV and TSV files with a header: categorical tables, and long tables of (transaction, item) rows."""

from __future__ import annotations

import csv
import threading
from itertools import islice
from typing import TYPE_CHECKING

from fedslim.data import textstream
from fedslim.data.columns import NO_PAIR, batches_of, check_names, positions, tables
from fedslim.data.textstream import is_stdin
from fedslim.errors import DataError
from fedslim.format import count

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fedslim.data.columns import EncodedTable, Pair

TAB = "\t"


class _LongFields:
    """Raises the csv module's field size limit while files are read; `_parse` enforces the real limit.

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
    start, number, held = 1, 0, 0  # where the record starts, the last line read, and the characters since the start

    def lines() -> Iterator[str]:
        """Feed lines to the csv module, and limit the size of a record, which quotes may spread over many lines."""
        nonlocal number, held
        for number, line in enumerate(textstream.text_lines(path, encoding), 1):  # noqa: B007  # read outside
            held += len(line)
            if held > textstream.LINE_LIMIT:
                msg = (
                    f"{path}:{start}: the row is longer than {textstream.LINE_LIMIT:,} characters; "
                    "check for a quote that is never closed"
                )
                raise DataError(msg)
            yield line

    rows = csv.reader(lines(), delimiter=separator, strict=True)
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:
            msg = (
                f"{path}:{start}: cannot be parsed ({error}); "
                'close every quote, and double a quote inside a quoted field, as in "6"" nails"'
            )
            raise DataError(msg) from None
        if row is None:
            return
        if row:
            yield start, row
        start, held = number + 1, 0


def delimited_tables(  # noqa: PLR0913  # all but one by keyword
    path: Path,
    *,
    separator: str = ",",
    encoding: str | None = None,
    name: str,
    pair: Pair = NO_PAIR,
    rows: int | None = None,
) -> Iterator[EncodedTable]:
    """Read a table with a header, of a long table only its two columns; begin a new one after so many rows."""
    found = records(path, separator, encoding)
    names = _header(path, found)
    chosen = positions(names, pair, str(path))

    def place(row: int) -> str:
        again = islice(records(path, separator, encoding), row + 1, None)  # after the header; only for an error
        return f"{path}:{next(again)[0]}"

    batches = batches_of(_check(path, len(names), found), chosen)
    where = None if is_stdin(path) else place
    yield from tables([names[k] for k in chosen], batches, name, str(path), rows, place=where)


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
