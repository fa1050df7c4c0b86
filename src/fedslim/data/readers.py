"""Choose the reader of a source: a file by its extension or the given format, several Parquet files, or a database."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

from fedslim.data.arrow import parquet_tables
from fedslim.data.columns import NO_PAIR
from fedslim.data.delimited import TAB, delimited_tables
from fedslim.data.discretise import DEFAULT_BINS
from fedslim.data.encoding import Choices, check_no_choices
from fedslim.data.fimi import read_fimi, stem
from fedslim.data.frames import database_of
from fedslim.data.records import json_lines_tables, workbook_tables
from fedslim.data.sql import is_url, sql_tables
from fedslim.data.textstream import is_file, is_folder, is_stdin
from fedslim.errors import DataError, ParameterError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from fedslim.data.columns import EncodedTable, Pair
    from fedslim.data.database import TransactionDatabase
    from fedslim.data.encoding import TableSchema

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


class ReadOptions(Choices, total=False):
    """The options of `read`."""

    format: str | None
    bins: int
    transaction_column: str | None
    item_column: str | None
    separator: str | None
    encoding: str | None
    query: str | None
    table: str | None
    name: str | None
    schema: TableSchema | None


def read(path: str | os.PathLike[str], **options: Unpack[ReadOptions]) -> TransactionDatabase:
    r"""Read a file or a database into a transaction database.

    Args:
        path: FIMI (`.dat`, `.txt`), CSV, TSV or JSON Lines (`.jsonl`), each optionally compressed with gzip; Parquet,
            also a folder or a pattern such as `visits-*.parquet`; a workbook (`.xlsx`, `.ods`); `-` for standard input;
            or the URL of a database: `postgresql://…`, `sqlite:///FILE`, `duckdb:///FILE`.
        **options: How to read it:

            - `format`: One of `FORMATS`; defaults to the format of the extension.
            - `bins`: Numeric columns with more distinct values than this are cut into this many intervals of equal
              frequency; 10 by default.
            - `transaction_column` and `item_column`: The table has one row per (transaction, item) pair.
            - `separator`: The character between the fields of a CSV file; a comma by default.
            - `encoding`: The encoding of a text file, such as `latin-1`; UTF-8 by default.
            - `query`: For a database: the query whose rows to read.
            - `table`: For a database: the table to read, instead of a query. For a workbook: the sheet.
            - `name`: Name of the database; defaults to the file's name without extension.
            - `schema`: What the columns are, instead of guesses: a `fedslim.schema.Schema`.
            - What to choose instead of guesses: `columns`, the only columns to use; `exclude`, columns to leave out;
              `categorical`, columns not to cut; `numeric`, columns to cut; `one_hot`, whether columns are items;
              `missing`, more spellings of a missing value; `long`, whether rows have a transaction and one of its
              items, or a transaction, an attribute and its value.

    Raises:
        DataError: The data cannot be read; the message names file, line and field, and what to do.

    Examples:
        >>> from fedslim.data import read
        >>> with open("people.csv", "w") as file:
        ...     _ = file.write("city,smoker\nBonn,yes\nUlm,\n")
        >>> list(read("people.csv"))
        [('city=Bonn', 'smoker=yes'), ('city=Ulm',)]
    """
    given: dict[str, Any] = {**options}
    if unknown := given.keys() - ReadOptions.__annotations__.keys():
        raise TypeError(f"there is no option {min(unknown)}")
    pair = (given.pop("transaction_column", None), given.pop("item_column", None))
    how = {name: given.pop(name, None) for name in ("format", "separator", "encoding", "query", "table", "name")}
    found = read_table(path, pair=pair, **how)
    bins, schema = given.pop("bins", DEFAULT_BINS), given.pop("schema", None)
    if found is not None:
        return database_of(found, pair, bins=bins, schema=schema, **given)
    check_no_choices(f"the FIMI file {path}", schema, cast("Choices", given))
    if pair != NO_PAIR:
        msg = f"{path}: a FIMI file has no columns; leave out the column names, or give --format csv, tsv or parquet"
        raise ParameterError(msg)
    return read_fimi(path, name=how["name"])


def read_table(path: str | os.PathLike[str], **how: Any) -> EncodedTable | None:
    """Return the columns of a table, not yet converted to items; None for a FIMI file. `how` is for `read_tables`."""
    return next(read_tables(path, **how), None)


def read_tables(  # noqa: PLR0913  # as above
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002
    pair: Pair = NO_PAIR,
    separator: str | None = None,
    encoding: str | None = None,
    query: str | None = None,
    table: str | None = None,
    name: str | None = None,
    rows: int | None = None,
    expected: Sequence[str] = (),
) -> Iterator[EncodedTable]:
    """Return the rows of a table, not yet converted to items; nothing for a FIMI file.

    With a `pair`, the transaction and item columns of a long table, only these two; else all columns. With `rows`,
    a new table begins after about so many. Columns that are `expected` may have no values at first.
    """
    if isinstance(path, str) and is_url(path):
        _refuse({"--format": format, "--separator": separator, "--encoding": encoding}, "a database")
        return sql_tables(path, query=query, table=table, name=name, pair=pair, rows=rows)
    path = Path(path)
    files = parquet_files(path)
    kind = "parquet" if files is not None and format is None else format_of(path, format)
    _refuse({"--query": query}, "a file")
    if kind != "excel":
        _refuse({"--table": table}, f"a {kind} file")
    if kind not in {"csv", "tsv"}:
        _refuse({"--separator": separator}, f"a {kind} file")
    if kind not in {"csv", "tsv", "jsonl"}:
        _refuse({"--encoding": encoding}, f"a {kind} file")
    if is_stdin(path) and kind in {"parquet", "excel"}:
        raise ParameterError(f"-: a {kind} file cannot be read from standard input; save it, and give its path")
    how: dict[str, Any] = {"name": name or ("stdin" if is_stdin(path) else stem(path)), "pair": pair, "rows": rows}
    match kind:
        case "csv" | "tsv":
            mark = (TAB if kind == "tsv" else ",") if separator is None else _separator(separator)
            return delimited_tables(path, separator=mark, encoding=encoding, **how)
        case "jsonl":
            return json_lines_tables(path, encoding=encoding, expected=expected, **how)
        case "excel":
            return workbook_tables(path, sheet=table, **how)
        case "parquet":
            return parquet_tables(path if files is None else files, **how)
    return iter(())


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
            raise ParameterError(f"{option} is not for {what}; leave it out")


def _separator(given: str) -> str:
    mark = TAB if given in {"tab", "\\t"} else given
    if len(mark) != 1 or mark in '"\r\n' or not mark.isascii():
        raise ParameterError(f"--separator {given!r} cannot separate fields; give one character such as ';', or tab")
    return mark


def format_of(path: Path, given: str | None) -> str:
    """Return the format of a file: the given one, or that of its extension."""
    if given is not None:
        if given.lower() not in FORMATS:
            raise ParameterError(f"there is no format {given!r}; the formats are {', '.join(FORMATS)}")
        return given.lower()
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix in _EXTENSIONS:
        return _EXTENSIONS[suffix]
    if is_stdin(path):
        raise ParameterError(f"-: give the format of standard input with --format: {', '.join(FORMATS[:3])} or jsonl")
    if not is_file(path):
        return "fimi"  # any reader reports what is wrong with the path
    raise DataError(f"{path}: the extension {suffix!r} is unknown; give the format with --format: {', '.join(FORMATS)}")
