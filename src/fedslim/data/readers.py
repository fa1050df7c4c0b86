"""Read a data file with the reader for its extension or for the given format."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from fedslim.data.delimited import DELIMITERS, delimited_table, read_delimited
from fedslim.data.discretise import DEFAULT_BINS
from fedslim.data.encoding import Choices, check_no_choices, encode_table
from fedslim.data.fimi import read_fimi
from fedslim.data.frames import parquet_table, read_parquet
from fedslim.data.textstream import is_file
from fedslim.errors import DataError, ParameterError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from fedslim.data.database import TransactionDatabase
    from fedslim.data.encoding import EncodedTable, TableSchema

_TABLES: dict[str, Callable[..., TransactionDatabase]] = {
    **{name: partial(read_delimited, delimiter=mark) for name, mark in DELIMITERS.items()},
    "parquet": read_parquet,
}
_COLUMNS: dict[str, Callable[..., EncodedTable]] = {
    **{name: partial(delimited_table, delimiter=mark) for name, mark in DELIMITERS.items()},
    "parquet": parquet_table,
}
FORMATS = ("fimi", *_TABLES)
"""The names of the supported formats."""

_EXTENSIONS = {
    ".dat": "fimi",
    ".txt": "fimi",
    ".fimi": "fimi",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
}


def read(  # noqa: PLR0913  # the options of all formats, all by keyword
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002  # the option's name
    bins: int = DEFAULT_BINS,
    transaction_column: str | None = None,
    item_column: str | None = None,
    name: str | None = None,
    schema: TableSchema | None = None,
    **choices: Unpack[Choices],
) -> TransactionDatabase:
    r"""Read a file into a transaction database.

    Args:
        path: FIMI (`.dat`, `.txt`), CSV or TSV, each optionally compressed with gzip, or Parquet.
        format: One of `FORMATS`; defaults to the format of the extension.
        bins: Numeric columns with more distinct values than this are cut into this many intervals of equal frequency.
        transaction_column: With `item_column`: the table has one row per (transaction, item) pair.
        item_column: See `transaction_column`.
        name: Name of the database; defaults to the file's name without extension.
        schema: What the columns are, instead of guesses: a `fedslim.schema.Schema`.
        **choices: What to choose instead of guesses: `columns`, the only columns to use; `exclude`, columns to leave
            out; `categorical`, columns not to cut; `numeric`, columns to cut; `one_hot`, whether columns are items;
            `missing`, more spellings of a missing value.

    Raises:
        DataError: The file cannot be read; the message names file, line and field, and what to do.

    Examples:
        >>> from fedslim.data import read
        >>> with open("people.csv", "w") as file:
        ...     _ = file.write("city,smoker\nBonn,yes\nUlm,\n")
        >>> list(read("people.csv"))
        [('city=Bonn', 'smoker=yes'), ('city=Ulm',)]
    """
    path = Path(path)
    kind = _format_of(path) if format is None else format.lower()
    if kind not in FORMATS:
        msg = f"there is no format {format!r}; the formats are {', '.join(FORMATS)}"
        raise ParameterError(msg)
    wide = transaction_column is None and item_column is None
    if kind != "fimi" and wide:
        return encode_table(_COLUMNS[kind](path, name=name), bins=bins, schema=schema, **choices)[0]
    check_no_choices(f"{path}: {'a FIMI file' if wide else 'a long table'}", schema, choices)
    if kind != "fimi":
        return _TABLES[kind](path, bins=bins, transaction_column=transaction_column, item_column=item_column, name=name)
    if transaction_column is not None or item_column is not None:
        msg = f"{path}: a FIMI file has no columns; leave out the column names, or give --format csv, tsv or parquet"
        raise ParameterError(msg)
    return read_fimi(path, name=name)


def read_table(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002  # the option's name
    name: str | None = None,
) -> EncodedTable | None:
    """Return the columns of a file with a table, not yet converted to items; None for a FIMI file."""
    kind = _format_of(Path(path)) if format is None else format.lower()
    return _COLUMNS[kind](path, name=name) if kind in _COLUMNS else None


def _format_of(path: Path) -> str:
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix in _EXTENSIONS:
        return _EXTENSIONS[suffix]
    if not is_file(path):
        return "fimi"  # any reader reports what is wrong with the path
    msg = f"{path}: the extension {suffix!r} is unknown; give the format with --format: {', '.join(FORMATS)}"
    raise DataError(msg)
