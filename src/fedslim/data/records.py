"""Read tables row by row: CSV and TSV files with a header, JSON Lines, and workbooks."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from fedslim.data import textstream
from fedslim.data.columns import (
    NO_PAIR,
    ROWS_AT_A_TIME,
    Batch,
    EncodedTable,
    Wanted,
    batches_of,
    build,
    check_names,
    positions,
    tables,
)
from fedslim.data.frames import needed, reason_of
from fedslim.data.parsing import text_of
from fedslim.data.textstream import is_stdin, open_bytes, text_lines
from fedslim.errors import DataError
from fedslim.format import count

TAB = "\t"
_OBJECT = msgspec.json.Decoder(dict[str, Any])


def records(path: Path, separator: str, encoding: str | None = None) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a file with the line on which each starts; blank lines are skipped."""
    csv.field_size_limit(max(csv.field_size_limit(), textstream.LINE_LIMIT))  # one for the whole process
    start, held = 1, 0  # where the record starts, and the characters read since then

    def lines() -> Iterator[str]:
        """Feed lines to the csv module, and limit the size of a record, which quotes may spread over many lines."""
        nonlocal held
        for line in textstream.text_lines(path, encoding):
            held += len(line)
            if held > textstream.LINE_LIMIT:
                raise DataError(
                    f"{path}:{start}: the row is longer than {textstream.LINE_LIMIT:,} characters; "
                    "check for a quote that is never closed"
                )
            yield line

    rows = csv.reader(lines(), delimiter=separator, strict=True)
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:
            raise DataError(
                f"{path}:{start}: cannot be parsed ({error}); "
                'close every quote, and double a quote inside a quoted field, as in "6"" nails"'
            ) from None
        if row is None:
            return
        if row:
            yield start, row
        start, held = rows.line_num + 1, 0


def delimited_tables(
    path: Path, wanted: Wanted, *, separator: str = ",", encoding: str | None = None
) -> Iterator[EncodedTable]:
    """Read a table with a header."""
    found = records(path, separator, encoding)
    names = _header(path, found)

    def place(row: int) -> str:
        again = islice(records(path, separator, encoding), row + 1, None)  # after the header; only for an error
        return f"{path}:{next(again)[0]}"

    batches = batches_of(_check(path, len(names), found))
    yield from tables(names, batches, str(path), wanted, place=None if is_stdin(path) else place)


def _header(path: Path, records: Iterator[tuple[int, list[str]]]) -> list[str]:
    line, header = next(records, (1, []))
    names = [field.strip() for field in header]
    check_names(names, f"{path}:{line}")
    if len(names) == 1 and (other := next((mark for mark in ";\t|" if mark in names[0]), None)):
        raise DataError(
            f"{path}:{line}: the header has the single column {names[0]!r:.60}, which looks like several separated by "
            f"{other!r}; add --separator {'tab' if other == TAB else repr(other)}"
        )
    return names


def _check(path: Path, width: int, records: Iterator[tuple[int, list[str]]]) -> Iterator[list[str]]:
    for line, row in records:
        if len(row) != width:
            raise DataError(
                f"{path}:{line}: the row has {count(len(row), 'field')}, but the header has {width}; "
                "add or remove fields, and quote fields that contain the separator"
            )
        yield row


# -- JSON Lines and workbooks, whose columns may mix types ------------------------------------------------------------


def json_lines_tables(
    path: Path, wanted: Wanted, *, encoding: str | None = None, expected: Sequence[str] = ()
) -> Iterator[EncodedTable]:
    """Read a file with a JSON object on each line; a key is a column, and a key that an object lacks is missing.

    If the first objects have a key that is `expected`, the others are columns too, even where no object has them.
    """
    names, seen = list[str](), set[str]()
    objects, batch = _objects(path, encoding), list[tuple[int, dict[str, Any]]]()

    def batches() -> Iterator[Batch]:
        while found := list(islice(objects, ROWS_AT_A_TIME)):
            batch[:] = found
            keys = dict.fromkeys(key for _, each in batch for key in each)
            if not seen and not keys.keys().isdisjoint(expected):
                names.extend(expected)
            seen.update(keys)
            names.extend(key for key in keys if key not in names and (wanted.pair == NO_PAIR or key in wanted.pair))
            yield len(batch), [[each.get(key) for _, each in batch] for key in names]

    try:
        for columns in build(names, batches(), wanted.rows):
            kept = [columns[k] for k in positions(names, wanted.pair, str(path))]
            yield EncodedTable(kept, wanted.name, str(path), is_pair=wanted.pair != NO_PAIR)
    except TypeError:  # a list or an object, which cannot be a key of a dictionary
        raise _not_single(path, names, batch) from None
    check_names(names, str(path))  # nothing may have been read
    if lost := next((key for key in names if key not in seen), None):
        raise DataError(
            f"{path}: no object has the key {lost!r}, which was expected; add such a key, or give other data"
        )


def _objects(path: Path, encoding: str | None) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text_lines(path, encoding), 1):
        if line.isspace():
            continue
        try:
            yield number, _OBJECT.decode(line)
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            msg = f"{path}:{number}: the line is not a JSON object ({error}); write one object on each line"
            raise DataError(msg) from None


def _not_single(path: Path, names: Sequence[str], batch: list[tuple[int, dict[str, Any]]]) -> DataError:
    found = ((n, key, each[key]) for key in names for n, each in batch if isinstance(each.get(key), (list, dict)))
    number, key, value = next(found)
    try:
        text_of(key, value)
    except DataError as error:
        return DataError(f"{path}:{number}: {error}")
    raise AssertionError  # a list has no text


def workbook_tables(path: Path, wanted: Wanted, sheet: str | None = None) -> Iterator[EncodedTable]:
    """Read a sheet of an Excel or OpenDocument workbook; its first row names the columns."""
    library = needed("python_calamine", str(path), "tables")
    with open_bytes(path):  # reports a missing or an empty file with the same messages as for text
        pass
    try:
        with library.CalamineWorkbook.from_path(str(path)) as book:
            listed = ", ".join(map(repr, book.sheet_names[:20]))
            if sheet is None and len(book.sheet_names) > 1:
                raise DataError(f"{path}: the workbook has the sheets {listed}; name one of them with --table")
            if sheet is not None and sheet not in book.sheet_names:
                raise DataError(f"{path}: there is no sheet {sheet!r}; the sheets are {listed}")
            lines = book.get_sheet_by_name(book.sheet_names[0] if sheet is None else sheet).iter_rows()
            filled = ([None if cell == "" else cell for cell in row] for row in lines)
            present = (row for row in filled if any(cell is not None for cell in row))
            names = ["" if cell is None else text_of("header", cell).strip() for cell in next(present, [])]
            yield from tables(names, batches_of(present), str(path), wanted)
    except (library.CalamineError, OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        msg = f"{path}: cannot be read as a workbook ({reason_of(error)}); save it again, or give --format"
        raise DataError(msg) from None
