"""Load data by path or name: a file, a built-in or public data set, or generated data."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

from fedslim.data.builtin import BUILTIN_NAMES, builtin_database
from fedslim.data.columns import NO_PAIR, long_to_database, pool
from fedslim.data.encoding import ITEMS, Choices, check_no_choices, encode_table, find_long
from fedslim.data.fimi import fimi_chunks
from fedslim.data.generators import KINDS, generate
from fedslim.data.readers import ReadOptions, format_of, is_source, read, read_tables
from fedslim.data.registry import did_you_mean, public_set, public_sets, verify
from fedslim.data.sql import is_url
from fedslim.data.store import locate
from fedslim.data.textstream import is_file, is_folder
from fedslim.errors import DataError, ParameterError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from fedslim.data.columns import Pair
    from fedslim.data.database import TransactionDatabase
    from fedslim.data.encoding import Encoding

MAX_SHOWN = 80
ROWS = 100_000
"""Rows in a chunk of a table; a FIMI file comes in blocks of some megabytes."""


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
    of_files = [key for key in ReadOptions.__annotations__ if key not in {"name", "bins", *Choices.__annotations__}]
    given = {key: value for key, value in options.items() if value is not None and key in of_files}
    name, choices = options.get("name"), {key: options.get(key) for key in Choices.__annotations__}
    made = _make(text, seed)
    if made is not None:
        check_no_choices(f"the data set {text}", options.get("schema"), cast("Choices", choices))
        if given:
            msg = f"{text} is generated, not read from a file; leave out the format, the columns and other such options"
            raise ParameterError(msg)
        return made if name is None else replace(made, name=name)
    if text in {record.name for record in public_sets()}:
        if options.get("format") not in {None, "fimi"} or given.keys() - {"format", "schema"}:
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
    """Yield rows in chunks, with items as `coded` says, so that memory is that of one chunk; a long table is one chunk.

    `pair` is for a long table, `how` for `read_tables`.
    """
    if not is_source(source):
        yield load(source, folder=folder)
        return
    path, coded = Path(source), coded or ITEMS
    lines = is_file(path) and format_of(path, how.get("format")) == "jsonl"
    whole = pair != NO_PAIR or coded.kind == "items" or (lines and coded.rules is not None)  # a key may come later
    tables = read_tables(source, pair=pair, rows=None if whole else ROWS, expected=coded.columns, **how)
    first = next(tables, None)
    if first is None:
        yield from fimi_chunks(path)
        return
    if pair != NO_PAIR:
        yield long_to_database(*first.columns, name=first.name, source=first.source, place=first.place)
        return
    if find_long(first, coded, {"long": long}) is not None:
        first = pool([first, *tables])
    for table in chain([first], tables):
        yield encode_table(table, encoding=coded, long=long)[0]


def check_is_data(name: str) -> None:
    """Check that what is no file is the name of a data set."""
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
