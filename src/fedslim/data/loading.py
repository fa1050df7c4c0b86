"""Load data by path or name: a file, a built-in or public data set, or generated data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from fedslim.data.builtin import BUILTIN_NAMES, builtin_database
from fedslim.data.discretise import DEFAULT_BINS
from fedslim.data.encoding import Choices, check_no_choices
from fedslim.data.generators import KINDS, generate
from fedslim.data.readers import is_source, read
from fedslim.data.registry import did_you_mean, public_set, public_sets, verify
from fedslim.data.sql import is_url
from fedslim.data.store import locate
from fedslim.data.textstream import is_file, is_folder
from fedslim.errors import DataError, ParameterError

if TYPE_CHECKING:
    import os

    from fedslim.data.database import TransactionDatabase
    from fedslim.data.encoding import TableSchema

MAX_SHOWN = 80


def data_names() -> list[str]:
    """Return every name that `load` accepts besides paths."""
    return [*BUILTIN_NAMES, *(record.name for record in public_sets()), *KINDS]


def load(  # noqa: PLR0913  # the options of all kinds of data, all by keyword
    source: str | os.PathLike[str],
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
    folder: str | os.PathLike[str] | None = None,
    seed: int | None = None,
    schema: TableSchema | None = None,
    **choices: Unpack[Choices],
) -> TransactionDatabase:
    r"""Load data by path or by name; an existing file takes precedence over a name.

    Args:
        source: The path of a file or the URL of a database (see `read`), or a name: `encounters`, a public set such as
            `mushroom` (from `folder`, FEDSLIM_DATA or the cache; this function never downloads), or a kind of generated
            data such as `accidents-like`, optionally with a number of transactions: `accidents-like:20000`.
        format: Format of a file; see `read`, also for the next seven.
        bins: See `read`.
        transaction_column: See `read`.
        item_column: See `read`.
        separator: See `read`.
        encoding: See `read`.
        query: See `read`.
        table: See `read`.
        name: Name of the database.
        folder: Folder to search first for a public set.
        seed: Random seed for built-in and generated data.
        schema: See `read`.
        **choices: See `read`.

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
    options = {
        "format": format,
        "transaction_column": transaction_column,
        "item_column": item_column,
        "separator": separator,
        "encoding": encoding,
        "query": query,
        "table": table,
    }
    if is_url(source) or is_file(path):  # a folder with the name of a data set does not count
        return read(source, bins=bins, name=name, schema=schema, **options, **choices)
    made = _make(text, seed)
    if made is not None:
        check_no_choices(f"the data set {text}", schema, choices)
        if any(option is not None for option in options.values()):
            msg = f"{text} is generated, not read from a file; leave out the format, the columns and other such options"
            raise ParameterError(msg)
        return made if name is None else replace(made, name=name)
    if text in {record.name for record in public_sets()}:
        if format not in {None, "fimi"} or any(options[key] is not None for key in options if key != "format"):
            msg = f"{text} is a public set, which is a FIMI file; leave out the format and the columns"
            raise DataError(msg)
        found = locate(text, folder=folder)
        verify(public_set(text), found)
        return read(found, format="fimi", name=name or text, schema=schema, **choices)
    if is_source(source):
        return read(source, bins=bins, name=name, schema=schema, **options, **choices)
    raise _nothing(path, text)


def check_is_data(name: str) -> None:
    """Check that what is no file is the name of a data set.

    Raises:
        DataError: It is not.
    """
    if name.partition(":")[0] not in data_names():
        raise _nothing(Path(name), name)


def _make(text: str, seed: int | None) -> TransactionDatabase | None:
    """Return built-in or generated data, or None if the name is neither."""
    chosen = {} if seed is None else {"seed": seed}
    if text in BUILTIN_NAMES:
        return builtin_database(text, **chosen)
    kind, colon, size = text.partition(":")
    if kind not in KINDS:
        return None
    return generate(kind, transactions=_size(text, size) if colon else None, **chosen)


def _size(text: str, size: str) -> int:
    if not (size.isascii() and size.isdigit() and len(size) < 12):  # noqa: PLR2004  # far above the limit
        msg = f"{text}: give a number of transactions after the colon, as in {text.partition(':')[0]}:20000"
        raise ParameterError(msg)
    return int(size)


def _nothing(path: Path, text: str) -> DataError:
    if is_folder(path):
        return DataError(f"{path}: this is a folder without Parquet files; name one file in it")
    shown = text if len(text) <= MAX_SHOWN else "…" + text[1 - MAX_SHOWN :]  # the end of a path says most
    return DataError(
        f"{shown!r} is neither an existing file nor the name of a data set{did_you_mean(text, data_names())}"
    )
