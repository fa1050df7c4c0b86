"""Convert lists, DataFrames, arrays, files and names of data sets to transaction databases."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, chain, pairwise
from typing import Any, Unpack, cast

import numpy as np

from fedslim.data.columns import Column, EncodedTable, number_transactions, pool
from fedslim.data.database import TransactionDatabase
from fedslim.data.discretise import DEFAULT_BINS
from fedslim.data.encoding import (
    ITEMS,
    Choices,
    Encoding,
    TableSchema,
    check_no_choices,
    encode_table,
    find_long,
    tell_long,
)
from fedslim.data.frames import dataframe_table, is_dataframe
from fedslim.data.guessing import long_by_name
from fedslim.data.readers import is_source, load, read_table
from fedslim.errors import DataError

_ACCEPTED = (
    "a TransactionDatabase, a list of lists of items, a pandas or polars DataFrame, an Arrow table or stream, "
    "a 2-D array or sparse matrix of 0 and 1, or the path of a file or the name of a data set"
)
_MATRIX_DIMENSIONS = 2


def as_database(X: Any, *, name: str | None = None) -> TransactionDatabase:  # noqa: N803  # scikit-learn's name
    """Convert `X` to a transaction database, unless it is one already.

    Columns of arrays and sparse matrices have no names: their items are '0', '1', ... by position.

    Raises:
        DataError: `X` cannot be converted; the message lists the accepted types.

    Examples:
        >>> from fedslim.data import as_database
        >>> as_database([["bread", 1], [1.0]]).vocabulary
        ('1', 'bread')
    """
    return encode(X, name=name)[0]


def encode(
    X: Any,  # noqa: N803  # scikit-learn's name
    encoding: Encoding | None = None,
    *,
    name: str | None = None,
    schema: TableSchema | None = None,
    **choices: Unpack[Choices],
) -> tuple[TransactionDatabase, Encoding]:
    """Convert `X` to a transaction database, and return it with the encoding used, which can be applied to other data.

    Without `encoding`, the table itself determines whether it is one-hot and where its numbers are cut. With an
    encoding, equal rows get equal items: numbers outside the outermost bounds go to the outermost interval, and an
    unseen value becomes the item `column=value`. The vocabulary is still that of `X`. Lists of items, databases and
    FIMI files are converted by their labels, whatever the encoding. `schema` and `choices`, as for `read`, are for
    a new encoding of a table.

    Raises:
        DataError: `X` cannot be converted, or does not fit the encoding; the message names the column.

    Examples:
        >>> import pandas as pd
        >>> from fedslim.data import encode
        >>> db, encoding = encode(pd.DataFrame({"age": range(20, 60)}))
        >>> unseen, _ = encode(pd.DataFrame({"age": [21, 99]}), encoding)
        >>> list(unseen)
        [('age=<24',), ('age=≥56',)]
    """
    if (table := table_of(X, name)) is not None:
        return encode_table(table, encoding=encoding, schema=schema, **choices)
    if isinstance(X, (str, os.PathLike)):
        return load(X, name=name, schema=schema, **choices), encoding or ITEMS
    check_no_choices(f"a {type(X).__name__}", schema=schema, **choices)
    if is_matrix(X):
        return _from_matrix(X, encoding, name or "data")
    return _from_items(X, name), encoding or ITEMS


def table_of(X: Any, name: str | None = None) -> EncodedTable | None:  # noqa: N803
    """Return the columns of a table in memory, in a file or in a database; None for anything else."""
    if isinstance(X, EncodedTable):
        return X
    if isinstance(X, (str, os.PathLike)):
        return read_table(X, name=name) if is_source(X) else None
    return dataframe_table(X, name=name) if is_dataframe(X) else None


def encode_numbers(
    X: Any,  # noqa: N803  # as above
    encoding: Encoding | None = None,
    schema: TableSchema | None = None,
    *,
    long: bool | None = None,
) -> tuple[TransactionDatabase, Encoding]:
    """Convert as `encode` does, but an array with numbers other than 0 and 1 is a table with columns '0', '1', ..."""
    # For estimators, which scikit-learn gives such arrays. Elsewhere they are refused: they may be item numbers.
    if isinstance(X, np.ndarray) and X.ndim == _MATRIX_DIMENSIONS and X.dtype.kind in "iuf":
        names = tuple(str(column) for column in range(X.shape[1]))
        values = not np.isin(X, (0, 1)).all() or (encoding is not None and encoding.kind == "categorical")
        if values and (encoding is None or encoding.columns == names):
            columns = [Column.of_numbers(name, X[:, k]) for k, name in enumerate(names)]
            return encode_table(EncodedTable(columns, "data", "the array"), encoding=encoding, schema=schema)
    return encode(X, encoding, schema=schema, long=long)


def _from_items(X: Any, name: str | None) -> TransactionDatabase:  # noqa: N803  # as above
    if isinstance(X, TransactionDatabase):
        return X if name is None or name == X.name else replace(X, name=name)
    if isinstance(X, np.ndarray) and (X.ndim != 1 or X.dtype != object):
        _two_dimensions(X)
        return TransactionDatabase.from_transactions(X.tolist(), name=name or "data")  # a row of strings
    if isinstance(X, Iterable) and not isinstance(X, (bytes, bytearray)):
        return TransactionDatabase.from_transactions(X, name=name or "data")
    raise DataError(f"cannot convert {type(X).__name__} to transactions; give {_ACCEPTED}")


def is_matrix(value: Any) -> bool:
    """Return whether `value` is a sparse matrix or an array of numbers, whose columns are items."""
    sparse = sys.modules.get("scipy.sparse")  # a sparse matrix exists only if it is loaded already
    if sparse is not None and bool(sparse.issparse(value)):
        return True
    return isinstance(value, np.ndarray) and value.dtype.kind not in "OUS"


def _from_matrix(X: Any, encoding: Encoding | None, name: str) -> tuple[TransactionDatabase, Encoding]:  # noqa: N803
    """Treat a matrix as a one-hot table whose columns are named by their positions."""
    _two_dimensions(X)
    own = Encoding("one-hot", tuple(str(column) for column in range(X.shape[1])))
    if encoding is not None and encoding != own:
        fitted = "lists of items" if encoding.kind == "items" else f"a table with {len(encoding.columns)} columns"
        first = f", the first of which is {encoding.columns[0]!r}" if encoding.columns else ""
        raise DataError(
            f"the matrix has {X.shape[1]} unnamed columns, but the model was fitted on {fitted}{first}; "
            "give the same kind of data as in fitting"
        )
    values = X if isinstance(X, np.ndarray) else X.tocoo().data
    if values.dtype != bool and not (values.dtype.kind in "iuf" and bool(((values == 0) | (values == 1)).all())):
        raise DataError(
            "the array has values other than 0 and 1; give a 0/1 matrix with one column per item, a list of lists of "
            "items, or a DataFrame whose columns are attributes"
        )
    rows, columns = X.nonzero()
    database = TransactionDatabase.from_pairs(rows, columns, own.columns, transactions=X.shape[0], name=name)
    return replace(database, encoding=own), own


def _two_dimensions(array: Any) -> None:
    if array.ndim != _MATRIX_DIMENSIONS:
        raise DataError(f"the array has {array.ndim} dimension(s); give a 2-D array with one row per transaction")


# -- several members --------------------------------------------------------------------------------------------------


def encode_together(
    members: Sequence[Any], names: Sequence[str] | None = None, *, bins: int = DEFAULT_BINS, **choices: Unpack[Choices]
) -> tuple[list[TransactionDatabase], Encoding]:
    """Convert each member's data to a database, over the vocabulary that all rows in one place would have.

    Each member's data may be anything that `encode` accepts, of the same kind for all. Tables are encoded as one: all
    rows determine whether they are one-hot and where numbers are cut. Databases, FIMI files and named data are combined
    by their labels: numbers by value, then strings; a vocabulary that all have in common is kept.

    Args:
        members: The data of each member.
        names: Names of the members; default to member 1, member 2 and so on.
        bins: Number of intervals for a numeric column of tables.
        **choices: What to do with the columns of tables, instead of guesses; see `read`.

    Raises:
        DataError: There are no members, their data are of different kinds, or cannot be converted.

    Examples:
        >>> from fedslim.data import encode_together
        >>> databases, _ = encode_together([[["bread"]], [["milk"]]])
        >>> [db.vocabulary for db in databases]
        [('bread', 'milk'), ('bread', 'milk')]
    """
    if not members:
        raise DataError("there are no members; give the data of at least one")
    names = [f"member {number}" for number in range(1, len(members) + 1)] if names is None else names
    tables = [table_of(X) for X in members]
    kinds = list(map(_kind, members, tables))
    first = kinds[0]
    for name, kind in zip(names, kinds, strict=True):
        if kind != first:
            raise DataError(f"{names[0]} has {first} and {name} has {kind}; give the data of all members in one form")
    if first == "a table":
        return _tables([table for table in tables if table is not None], names, bins, choices)
    if first == "a matrix":
        return _matrices(members, names)
    if first == "transactions":
        databases = [encode(X, name=name)[0] for X, name in zip(members, names, strict=True)]
        return _over_one_vocabulary(databases), ITEMS
    rows = [list(X) for X in members]
    whole = TransactionDatabase.from_transactions(chain.from_iterable(rows))
    return _split(whole, [len(own) for own in rows], names), ITEMS


def _kind(X: Any, table: EncodedTable | None) -> str:  # noqa: N803  # scikit-learn's name
    if table is not None:
        return "a table"
    if isinstance(X, (str, os.PathLike, TransactionDatabase)):
        return "transactions"
    return "a matrix" if is_matrix(X) else "a list of transactions"


def _split(whole: TransactionDatabase, sizes: Sequence[int], names: Sequence[str]) -> list[TransactionDatabase]:
    bounds = pairwise(accumulate(sizes, initial=0))
    return [whole.take(np.arange(start, end), name=name) for name, (start, end) in zip(names, bounds, strict=True)]


def _matrices(members: Sequence[Any], names: Sequence[str]) -> tuple[list[TransactionDatabase], Encoding]:
    first, encoding = encode(members[0], name=names[0])
    widths = {name: X.shape[-1] for name, X in zip(names, members, strict=True)}
    for name, width in widths.items():
        if width != widths[names[0]]:
            msg = f"the matrix of {names[0]} has {widths[names[0]]} columns, that of {name} {width}; give equal widths"
            raise DataError(msg)
    others = [encode(X, encoding, name=name)[0] for X, name in zip(members[1:], names[1:], strict=True)]
    return [first, *others], encoding


def _over_one_vocabulary(databases: list[TransactionDatabase]) -> list[TransactionDatabase]:
    if len({database.vocabulary for database in databases}) == 1:
        return databases
    vocabulary = sorted({label for database in databases for label in database.vocabulary}, key=by_value)
    place = {label: number for number, label in enumerate(vocabulary)}
    moved = []
    for database in databases:
        places = np.array([place[label] for label in database.vocabulary], np.int64)
        moved.append(
            TransactionDatabase.from_rows(database.lengths, places[database.items], vocabulary, name=database.name)
        )
    return moved


def by_value(label: str) -> tuple[bool, int, str]:
    """Return the sort key of a label: whole numbers by value, then strings."""
    number = label.isascii() and label.isdigit() and (label == "0" or label[0] != "0")
    return not number, int(label) if number else 0, label


def _tables(
    tables: list[EncodedTable], names: Sequence[str], bins: int, choices: Choices
) -> tuple[list[TransactionDatabase], Encoding]:
    columns = tables[0].names
    for name, table in zip(names, tables, strict=True):
        if odd := next(
            (label for label in (*columns, *table.names) if (label in columns) != (label in table.names)), None
        ):
            lacks, has = (name, names[0]) if odd in columns else (names[0], name)
            msg = f"the table of {has} has a column {odd!r}, but that of {lacks} does not"
            raise DataError(f"{msg}; give tables with the same columns")
    if not any(find_long(table, None, choices) for table in tables):
        wide = cast("Choices", {**choices, "long": False})
        whole, encoding = encode_table(pool(tables, names), bins=bins, **wide)
        return _split(whole, [table.size for table in tables], names), encoding
    sizes: list[int] = []
    for place, table in enumerate(tables):  # the same id is another transaction at another member
        own = list(table.columns)
        transaction = (long_by_name(table.names) or (0,))[0]
        numbers, size = number_transactions(own[transaction], table.source, table.place)
        own[transaction] = Column.of_numbers(own[transaction].name, numbers + sum(sizes))
        tables[place] = replace(table, columns=own)
        sizes.append(size)
    pooled = pool(tables, names)
    if choices.get("long") is None:
        tell_long(pooled)
    whole, encoding = encode_table(pooled, bins=bins, **cast("Choices", {**choices, "long": True}))
    return _split(whole, sizes, names), encoding
