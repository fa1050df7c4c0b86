"""CSV and TSV files with a header: categorical tables, and long tables of (transaction, item) rows."""

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
    """Feeds lines to the csv module and bounds a record, which quotes may spread over any number of lines."""

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
                "a quote that is never closed may be the reason"
            )
            raise DataError(msg)
        return line

    def next_record(self) -> None:
        """Say that a record is complete: the next one starts on the next line."""
        self.record_start = self._number + 1
        self._held = 0


class _LongFields:
    """Lets fields be as long as lines while a file is read; `_Lines` has the bound that counts.

    The csv module has one limit for the whole process. It is raised when the first reader begins, and lowered
    again by the last, unless somebody else has set it meanwhile.
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
    """The rows of a file with the line on which each begins; blank lines are no rows."""
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
                f"{path}:{lines.record_start}: cannot be taken apart ({error}); "
                'close every quote, and write a quote inside a quoted field twice, as in "6"" nails"'
            )
            raise DataError(msg) from None
        if row is None:
            return
        if row:
            yield lines.record_start, row
        lines.next_record()


class _Factorised:
    """A column as it grows: each text gets the next number when it is first seen. All in C but for the dictionary."""

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
    """Read a table with a header; see `fedslim.data.read` for what the options mean."""
    path = Path(path)
    check_bins(bins)
    if transaction_column is None and item_column is None:
        return encode_table(delimited_table(path, delimiter=delimiter, name=name), bins=bins)[0]
    records = _records(path, delimiter)
    names = _header(path, records)
    chosen = long_columns(names, transaction_column, item_column, str(path))
    lines = array("q")  # eight bytes for each row, to name the line of one that is wrong
    transaction, item = _columns(path, names, _note(records, lines), chosen)
    return long_to_database(
        transaction, item, name=name or stem(path), source=str(path), place=lambda row: f"{path}:{lines[row]}"
    )


def delimited_table(path: str | os.PathLike[str], *, delimiter: str = ",", name: str | None = None) -> EncodedTable:
    """Read a table with a header that has a transaction in each row."""
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
            f"{path}:{line}: the header is a single column {names[0]!r:.60}, which looks like several separated by "
            f"{other!r}; use --format tsv for tabs, or save the table with commas"
        )
        raise DataError(msg)
    return names


def _columns(
    path: Path, names: list[str], records: Iterator[tuple[int, list[str]]], wanted: Sequence[int]
) -> list[TextColumn]:
    """The wanted columns, read in batches: transposing a batch keeps the work for each cell out of Python."""
    growing = [_Factorised() for _ in wanted]
    checked = _check(path, len(names), records)
    empty = True
    while batch := list(islice(checked, _ROWS_AT_A_TIME)):
        empty = False
        cells = list(zip(*batch, strict=True))
        for part, position in zip(growing, wanted, strict=True):
            part.extend(cells[position])
    if empty:
        msg = f"{path}: there is a header but no row below it; add the data, or check that the file is complete"
        raise DataError(msg)
    return [part.column(names[position]) for part, position in zip(growing, wanted, strict=True)]


def _note(records: Iterator[tuple[int, list[str]]], lines: array[int]) -> Iterator[tuple[int, list[str]]]:
    """The same records; the line of each is noted as it passes."""
    for line, row in records:
        lines.append(line)
        yield line, row


def _check(path: Path, width: int, records: Iterator[tuple[int, list[str]]]) -> Iterator[list[str]]:
    for line, row in records:
        if len(row) != width:
            msg = (
                f"{path}:{line}: the row has {len(row)} fields where the header has {width}; "
                "fill in or remove fields, and quote those that hold the separator"
            )
            raise DataError(msg)
        yield row
