"""Read JSON Lines and workbooks: rows of Python values, whose columns may mix types."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from fedslim.data.arrow import needed, reason_of
from fedslim.data.columns import (
    NO_PAIR,
    ROWS_AT_A_TIME,
    EncodedTable,
    batches_of,
    build,
    check_names,
    positions,
    tables,
    text_of,
)
from fedslim.data.textstream import open_bytes, text_lines
from fedslim.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from fedslim.data.columns import Batch, Pair

_OBJECT = msgspec.json.Decoder(dict[str, Any])


def json_lines_tables(  # noqa: PLR0913  # all but one by keyword
    path: Path,
    *,
    name: str,
    pair: Pair = NO_PAIR,
    encoding: str | None = None,
    rows: int | None = None,
    expected: Sequence[str] = (),
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
            names.extend(key for key in keys if key not in names and (pair == NO_PAIR or key in pair))
            yield len(batch), [[each.get(key) for _, each in batch] for key in names]

    try:
        for columns in build(names, batches(), rows):
            kept = [columns[k] for k in positions(names, pair, str(path))]
            yield EncodedTable(kept, name, str(path))
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


def workbook_tables(
    path: Path, *, name: str, pair: Pair = NO_PAIR, sheet: str | None = None, rows: int | None = None
) -> Iterator[EncodedTable]:
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
            chosen = positions(names, pair, str(path))
            yield from tables([names[k] for k in chosen], batches_of(present, chosen), name, str(path), rows)
    except (library.CalamineError, OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        msg = f"{path}: cannot be read as a workbook ({reason_of(error)}); save it again, or give --format"
        raise DataError(msg) from None
