"""Read JSON Lines and workbooks: rows of Python values, whose columns may mix types."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from fedslim.data.arrow import needed, reason_of
from fedslim.data.building import ROWS_AT_A_TIME, ColumnBuilder, columns_of_rows, text_of
from fedslim.data.columns import check_names, long_columns
from fedslim.data.encoding import EncodedTable
from fedslim.data.textstream import open_bytes, text_lines
from fedslim.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fedslim.data.columns import Column

_OBJECT = msgspec.json.Decoder(dict[str, Any])


def json_lines_table(
    path: Path, *, name: str, pair: tuple[str | None, str | None] = (None, None), encoding: str | None = None
) -> EncodedTable:
    """Read a file with a JSON object on each line; a key is a column, and a key that an object lacks is missing."""
    builders: dict[str, ColumnBuilder] = {}
    objects, rows = _objects(path, encoding), 0
    while batch := list(islice(objects, ROWS_AT_A_TIME)):
        for key in dict.fromkeys(key for _, each in batch for key in each):
            if key not in builders and pair in {(None, None), (key, pair[1]), (pair[0], key)}:
                builders[key] = ColumnBuilder(missing=rows)
        for key, builder in builders.items():
            try:
                builder.extend([each.get(key) for _, each in batch])
            except TypeError:  # a list or an object, which cannot be a key of a dictionary
                raise _not_single(path, key, batch) from None
        rows += len(batch)
    names = list(builders)
    check_names(names, str(path))
    chosen = range(len(names)) if pair == (None, None) else long_columns(names, *pair, str(path))
    return EncodedTable([builders[names[k]].column(names[k]) for k in chosen], name, str(path))


def _objects(path: Path, encoding: str | None) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text_lines(path, encoding), 1):
        if line.isspace():
            continue
        try:
            yield number, _OBJECT.decode(line)
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            msg = f"{path}:{number}: the line is not a JSON object ({error}); write one object on each line"
            raise DataError(msg) from None


def _not_single(path: Path, key: str, batch: list[tuple[int, dict[str, Any]]]) -> DataError:
    number, value = next((n, each[key]) for n, each in batch if isinstance(each.get(key), (list, dict)))
    try:
        text_of(key, value)
    except DataError as error:
        return DataError(f"{path}:{number}: {error}")
    raise AssertionError  # a list has no text


def workbook_table(
    path: Path, *, name: str, pair: tuple[str | None, str | None] = (None, None), sheet: str | None = None
) -> EncodedTable:
    """Read a sheet of an Excel or OpenDocument workbook; its first row names the columns."""
    library = needed("python_calamine", str(path), "tables")
    with open_bytes(path):  # reports a missing or an empty file with the same messages as for text
        pass
    try:
        with library.CalamineWorkbook.from_path(str(path)) as book:
            if sheet is None and len(book.sheet_names) > 1:
                msg = f"{path}: the workbook has the sheets {_listed(book.sheet_names)}; name one of them with --table"
                raise DataError(msg)
            if sheet is not None and sheet not in book.sheet_names:
                msg = f"{path}: there is no sheet {sheet!r}; the sheets are {_listed(book.sheet_names)}"
                raise DataError(msg)
            rows = book.get_sheet_by_name(book.sheet_names[0] if sheet is None else sheet).iter_rows()
            filled = ([None if cell == "" else cell for cell in row] for row in rows)
            present = (row for row in filled if any(cell is not None for cell in row))
            names = ["" if cell is None else text_of("header", cell).strip() for cell in next(present, [])]
            check_names(names, str(path))
            chosen = None if pair == (None, None) else long_columns(names, *pair, str(path))
            columns = columns_of_rows(names, present, chosen)
    except (library.CalamineError, OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        msg = f"{path}: cannot be read as a workbook ({reason_of(error)}); save it again, or give --format"
        raise DataError(msg) from None
    return EncodedTable(with_rows(columns, str(path)), name, str(path))


def with_rows(columns: list[Column], source: str) -> list[Column]:
    """Return the columns, after checking that there are rows."""
    if not columns:
        msg = f"{source}: the table has a header but no rows; add the data, or check that it is complete"
        raise DataError(msg)
    return columns


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names[:20]))
