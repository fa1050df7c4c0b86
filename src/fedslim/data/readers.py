"""Choose the reader of a source: a file by its extension or the given format, several Parquet files, or a database."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from fedslim.data.arrow import parquet_table
from fedslim.data.delimited import TAB, delimited_table
from fedslim.data.discretise import DEFAULT_BINS
from fedslim.data.encoding import Choices, check_no_choices
from fedslim.data.fimi import read_fimi, stem
from fedslim.data.frames import database_of
from fedslim.data.records import json_lines_table, workbook_table
from fedslim.data.sql import is_url, sql_table
from fedslim.data.textstream import is_file, is_folder, is_stdin
from fedslim.errors import DataError, ParameterError

if TYPE_CHECKING:
    import os

    from fedslim.data.database import TransactionDatabase
    from fedslim.data.encoding import EncodedTable, TableSchema

FORMATS = ("fimi", "csv", "tsv", "parquet", "jsonl", "excel")
"""The names of the supported formats."""

_EXTENSIONS = {
    **dict.fromkeys((".dat", ".txt", ".fimi"), "fimi"),
    ".csv": "csv",
    **dict.fromkeys((".tsv", ".tab"), "tsv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    **dict.fromkeys((".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), "excel"),
}


def read(  # noqa: PLR0913  # the options of all formats, all by keyword
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002  # the option's name
    bins: int = DEFAULT_BINS,
    transaction_column: str | None = None,
    item_column: str | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    query: str | None = None,
    table: str | None = None,
    name: str | None = None,
    schema: TableSchema | None = None,
    **choices: Unpack[Choices],
) -> TransactionDatabase:
    r"""Read a file or a database into a transaction database.

    Args:
        path: FIMI (`.dat`, `.txt`), CSV, TSV or JSON Lines (`.jsonl`), each optionally compressed with gzip; Parquet,
            also a folder or a pattern such as `visits-*.parquet`; a workbook (`.xlsx`, `.ods`); `-` for standard input;
            or the URL of a database: `postgresql://…`, `sqlite:///FILE`, `duckdb:///FILE`.
        format: One of `FORMATS`; defaults to the format of the extension.
        bins: Numeric columns with more distinct values than this are cut into this many intervals of equal frequency.
        transaction_column: With `item_column`: the table has one row per (transaction, item) pair.
        item_column: See `transaction_column`.
        separator: The character between the fields of a CSV file; a comma by default.
        encoding: The encoding of a text file, such as `latin-1`; UTF-8 by default.
        query: For a database: the query whose rows to read.
        table: For a database: the table to read, instead of a query. For a workbook: the sheet.
        name: Name of the database; defaults to the file's name without extension.
        schema: What the columns are, instead of guesses: a `fedslim.schema.Schema`.
        **choices: What to choose instead of guesses: `columns`, the only columns to use; `exclude`, columns to leave
            out; `categorical`, columns not to cut; `numeric`, columns to cut; `one_hot`, whether columns are items;
            `missing`, more spellings of a missing value.

    Raises:
        DataError: The data cannot be read; the message names file, line and field, and what to do.

    Examples:
        >>> from fedslim.data import read
        >>> with open("people.csv", "w") as file:
        ...     _ = file.write("city,smoker\nBonn,yes\nUlm,\n")
        >>> list(read("people.csv"))
        [('city=Bonn', 'smoker=yes'), ('city=Ulm',)]
    """
    pair = (transaction_column, item_column)
    found = read_table(
        path, format=format, pair=pair, separator=separator, encoding=encoding, query=query, table=table, name=name
    )
    if found is not None:
        return database_of(found, pair, bins=bins, schema=schema, **choices)
    check_no_choices(f"the FIMI file {path}", schema, choices)
    if pair != (None, None):
        msg = f"{path}: a FIMI file has no columns; leave out the column names, or give --format csv, tsv or parquet"
        raise ParameterError(msg)
    return read_fimi(path, name=name)


def read_table(  # noqa: PLR0913  # as above
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002
    pair: tuple[str | None, str | None] = (None, None),
    separator: str | None = None,
    encoding: str | None = None,
    query: str | None = None,
    table: str | None = None,
    name: str | None = None,
) -> EncodedTable | None:
    """Return the columns of a table, not yet converted to items; None for a FIMI file.

    With a `pair`, the transaction and item columns of a long table, only these two; else all columns.
    """
    if isinstance(path, str) and is_url(path):
        _refuse({"--format": format, "--separator": separator, "--encoding": encoding}, "a database")
        return sql_table(path, query=query, table=table, name=name, pair=pair)
    path = Path(path)
    files = parquet_files(path)
    kind = "parquet" if files is not None and format is None else _format_of(path, format)
    _refuse({"--query": query}, "a file")
    if kind != "excel":
        _refuse({"--table": table}, f"a {kind} file")
    if kind not in {"csv", "tsv"}:
        _refuse({"--separator": separator}, f"a {kind} file")
    if kind not in {"csv", "tsv", "jsonl"}:
        _refuse({"--encoding": encoding}, f"a {kind} file")
    if is_stdin(path) and kind in {"parquet", "excel"}:
        msg = f"-: a {kind} file cannot be read from standard input; save it, and give its path"
        raise ParameterError(msg)
    name = name or ("stdin" if is_stdin(path) else stem(path))
    match kind:
        case "csv" | "tsv":
            mark = (TAB if kind == "tsv" else ",") if separator is None else _separator(separator)
            return delimited_table(path, separator=mark, encoding=encoding, name=name, pair=pair)
        case "jsonl":
            return json_lines_table(path, name=name, pair=pair, encoding=encoding)
        case "excel":
            return workbook_table(path, name=name, pair=pair, sheet=table)
        case "parquet":
            return parquet_table(path if files is None else files, name=name, pair=pair)
    return None


def is_source(source: str | os.PathLike[str]) -> bool:
    """Return whether `read` finds something under this name: a file, Parquet files, or a database."""
    return is_url(source) or is_file(Path(source)) or parquet_files(Path(source)) is not None


def parquet_files(path: Path) -> Path | list[Path] | None:
    """Return the folder, or the files of a pattern, if these are Parquet files; None for one file."""
    if is_file(path):
        return None
    if is_folder(path):
        return path if next(path.rglob("*.parquet"), None) is not None else None
    try:
        found = sorted(map(Path, glob.glob(str(path)))) if glob.has_magic(str(path)) else []  # noqa: PTH207
    except (OSError, ValueError):  # an impossible path; its reader reports that
        return None
    return found if found and all(file.suffix in {".parquet", ".pq"} for file in found) else None


def _refuse(options: dict[str, str | None], what: str) -> None:
    """Refuse options that a source does not have: they would look as if they applied."""
    for option, value in options.items():
        if value is not None:
            msg = f"{option} is not for {what}; leave it out"
            raise ParameterError(msg)


def _separator(given: str) -> str:
    mark = TAB if given in {"tab", "\\t"} else given
    if len(mark) != 1 or mark in '"\r\n' or not mark.isascii():
        msg = f"--separator {given!r} cannot separate fields; give one character such as ';', or tab"
        raise ParameterError(msg)
    return mark


def _format_of(path: Path, given: str | None) -> str:
    if given is not None:
        if given.lower() not in FORMATS:
            msg = f"there is no format {given!r}; the formats are {', '.join(FORMATS)}"
            raise ParameterError(msg)
        return given.lower()
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix in _EXTENSIONS:
        return _EXTENSIONS[suffix]
    if is_stdin(path):
        msg = f"-: give the format of standard input with --format: {', '.join(FORMATS[:3])} or jsonl"
        raise ParameterError(msg)
    if not is_file(path):
        return "fimi"  # any reader reports what is wrong with the path
    msg = f"{path}: the extension {suffix!r} is unknown; give the format with --format: {', '.join(FORMATS)}"
    raise DataError(msg)
