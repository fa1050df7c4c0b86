"""Load data by path or name: files of any format, databases, built-in and public data sets, generated data."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Unpack, cast

from fedslim.data.columns import NO_PAIR, EncodedTable, Pair, Wanted, pool
from fedslim.data.database import TransactionDatabase
from fedslim.data.encoding import ITEMS, Choices, Encoding, TableSchema, check_no_choices, encode_table, find_long
from fedslim.data.fimi import fimi_chunks, read_fimi, stem
from fedslim.data.frames import parquet_tables
from fedslim.data.generators import BUILTIN_NAMES, KINDS, builtin_database, generate
from fedslim.data.records import TAB, delimited_tables, json_lines_tables, workbook_tables
from fedslim.data.sql import is_url, sql_tables
from fedslim.data.store import did_you_mean, locate, public_set, public_sets, verify
from fedslim.data.textstream import is_file, is_folder, is_stdin
from fedslim.errors import DataError, ParameterError

FORMATS = ("fimi", "csv", "tsv", "parquet", "jsonl", "excel")  # the names of the supported formats
MAX_SHOWN = 80
ROWS = 100_000  # rows in a chunk of a table; a FIMI file comes in blocks of some megabytes
_EXTENSIONS = {
    **dict.fromkeys((".dat", ".txt", ".fimi"), "fimi"),
    ".csv": "csv",
    **dict.fromkeys((".tsv", ".tab"), "tsv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    **dict.fromkeys((".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), "excel"),
}
_FORMATS_OF = {"--table": ("excel",), "--separator": ("csv", "tsv"), "--encoding": ("csv", "tsv", "jsonl")}


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
    if found is not None:
        return encode_table(found, **given)[0]
    check_no_choices(f"the FIMI file {path}", **{**given, "bins": None})
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
        return sql_tables(path, Wanted(name or "", pair, rows), query=query, table=table)
    path = Path(path)
    files = parquet_files(path)
    kind = "parquet" if files is not None and format is None else format_of(path, format)
    _refuse({"--query": query}, "a file")
    options = {"--table": table, "--separator": separator, "--encoding": encoding}
    _refuse({name: value for name, value in options.items() if kind not in _FORMATS_OF[name]}, f"a {kind} file")
    if is_stdin(path) and kind in {"parquet", "excel"}:
        raise ParameterError(f"-: a {kind} file cannot be read from standard input; save it, and give its path")
    wanted = Wanted(name or ("stdin" if is_stdin(path) else stem(path)), pair, rows)
    match kind:
        case "csv" | "tsv":
            mark = (TAB if kind == "tsv" else ",") if separator is None else _separator(separator)
            return delimited_tables(path, wanted, separator=mark, encoding=encoding)
        case "jsonl":
            return json_lines_tables(path, wanted, encoding=encoding, expected=expected)
        case "excel":
            return workbook_tables(path, wanted, table)
        case "parquet":
            return parquet_tables(path if files is None else files, wanted)
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


# -- by path or name --------------------------------------------------------------------------------------------------


def data_names() -> list[str]:
    """Return every name that `load` accepts besides paths."""
    return [*BUILTIN_NAMES, *(record.name for record in public_sets()), *KINDS]


def load(
    source: str | os.PathLike[str],
    *,
    folder: str | os.PathLike[str] | None = None,
    seed: int | None = None,
    **options: Unpack[ReadOptions],
) -> TransactionDatabase:
    r"""Load data by path or by name; an existing file takes precedence over a name.

    Args:
        source: The path of a file or the URL of a database (see `read`), or a name: `encounters`, a public set such as
            `mushroom` (from `folder`, FEDSLIM_DATA or the cache; this function never downloads), or a kind of generated
            data such as `accidents-like`, optionally with a number of transactions: `accidents-like:20000`.
        folder: Folder to search first for a public set.
        seed: Random seed for built-in and generated data.
        **options: How to read a file or a database; see `read`.

    Raises:
        DataError: The path or name does not exist, or the data cannot be read.

    Examples:
        >>> from fedslim.data import load
        >>> db = load("encounters")
        >>> len(db), db.n_items
        (5000, 76)
        >>> with open("sales.csv", "w") as file:
        ...     _ = file.write("order,product\n1,bread\n1,milk\n2,milk\n")
        >>> list(load("sales.csv", transaction_column="order", item_column="product"))
        [('bread', 'milk'), ('milk',)]
    """
    path, text = Path(source), str(source)
    if is_url(source) or is_file(path):  # a folder with the name of a data set does not count
        return read(source, **options)
    name, given = options.get("name"), {key for key, value in options.items() if value is not None} - {"name", "bins"}
    choices = {key: options.get(key) for key in ("schema", *Choices.__annotations__)}
    of_files = given - choices.keys()
    if (made := make_data(text, seed)) is not None:
        check_no_choices(f"the data set {text}", **choices)
        if of_files:
            msg = f"{text} is generated, not read from a file; leave out the format, the columns and other such options"
            raise ParameterError(msg)
        return made if name is None else replace(made, name=name)
    if text in {record.name for record in public_sets()}:
        if options.get("format") not in {None, "fimi"} or of_files - {"format"}:
            raise DataError(f"{text} is a public set, which is a FIMI file; leave out the format and the columns")
        found = locate(text, folder=folder)
        verify(public_set(text), found)
        return read(found, **cast("ReadOptions", {**options, "format": "fimi", "name": name or text}))
    if is_source(source):
        return read(source, **options)
    raise _nothing(path, text)


def chunks(
    source: str | os.PathLike[str],
    coded: Encoding | None,
    *,
    pair: Pair = NO_PAIR,
    folder: str | os.PathLike[str] | None = None,
    long: bool | None = None,
    **how: Any,
) -> Iterator[TransactionDatabase]:
    """Yield rows in chunks, with items as `coded` says; a long table is one chunk. `how` is for `read_tables`."""
    if not is_source(source):
        yield load(source, folder=folder, **how)
        return
    path, coded = Path(source), coded or ITEMS
    lines = is_file(path) and format_of(path, how.get("format")) == "jsonl"
    whole = pair != NO_PAIR or coded.kind == "items" or (lines and coded.rules is not None)  # a key may come later
    tables = read_tables(source, pair=pair, rows=None if whole else ROWS, expected=coded.columns, **how)
    first = next(tables, None)
    if first is None:
        yield from fimi_chunks(path)
        return
    if not first.is_pair and find_long(first, coded, {"long": long}) is not None:
        first = pool([first, *tables])
    for table in chain([first], tables):
        yield encode_table(table, encoding=coded, long=long)[0]


def check_is_data(name: str) -> None:
    """Check that what is no file is the name of a data set."""
    if name.partition(":")[0] not in data_names():
        raise _nothing(Path(name), name)


def make_data(text: str, seed: int | None) -> TransactionDatabase | None:
    """Return built-in or generated data, or None if the name is neither."""
    chosen = {} if seed is None else {"seed": seed}
    if text in BUILTIN_NAMES:
        return builtin_database(text, **chosen)
    kind, colon, size = text.partition(":")
    if kind not in KINDS:
        return None
    if colon and not (size.isascii() and size.isdigit() and len(size) < 12):  # noqa: PLR2004  # far above the limit
        raise ParameterError(f"{text}: give a number of transactions after the colon, as in {kind}:20000")
    return generate(kind, transactions=int(size) if colon else None, **chosen)


def _nothing(path: Path, text: str) -> DataError:
    if is_folder(path):
        return DataError(f"{path}: this is a folder without Parquet files; name one file in it")
    shown = text if len(text) <= MAX_SHOWN else "…" + text[1 - MAX_SHOWN :]  # the end of a path says most
    return DataError(
        f"{shown!r} is neither an existing file nor the name of a data set{did_you_mean(text, data_names())}"
    )
