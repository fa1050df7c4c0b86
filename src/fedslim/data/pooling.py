"""Encode the data of several members over one vocabulary, as if all rows were in one place.

    databases, encoding = encode_together([rows_a, rows_b])      # item 7 is the same item in both
    whole = TransactionDatabase.joined(databases)                # all rows in one place

For experiments in one process, which sees all rows anyway. In a federation, members agree on a vocabulary instead
(`fedslim.data.vocabulary`), and cut their numeric columns in the same way beforehand.
"""

from __future__ import annotations

import os
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fedslim.data.coerce import encode, is_matrix
from fedslim.data.columns import MISSING, NumberColumn, TextColumn
from fedslim.data.database import TransactionDatabase
from fedslim.data.encoding import ITEMS, EncodedTable, Encoding, encode_table
from fedslim.data.frames import dataframe_table, is_dataframe
from fedslim.data.readers import is_source, read_table
from fedslim.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedslim.data.columns import Column

    Kind = Literal["a table", "a matrix", "a database", "a list of transactions"]


def encode_together(
    members: Sequence[Any], names: Sequence[str] | None = None
) -> tuple[list[TransactionDatabase], Encoding]:
    """Convert each member's data to a database, over the vocabulary that all rows in one place would have.

    Each member's data may be anything that `encode` accepts, of the same kind for all. Tables are encoded as one: all
    rows determine whether they are one-hot and where numbers are cut. Databases, FIMI files and named data are combined
    by their labels: numbers by value, then strings; a vocabulary that all have in common is kept.

    Args:
        members: The data of each member.
        names: Names of the members; default to member 1, member 2 and so on.

    Raises:
        DataError: There are no members, their data are of different kinds, or cannot be converted.

    Examples:
        >>> from fedslim.data import encode_together
        >>> databases, _ = encode_together([[["bread"]], [["milk"]]])
        >>> [db.vocabulary for db in databases]
        [('bread', 'milk'), ('bread', 'milk')]
    """
    if not members:
        msg = "there are no members; give the data of at least one"
        raise DataError(msg)
    names = [f"member {number}" for number in range(1, len(members) + 1)] if names is None else names
    sources = [_Source(X) for X in members]
    first = sources[0].kind
    for name, source in zip(names, sources, strict=True):
        if source.kind != first:
            msg = f"{names[0]} has {first} and {name} has {source.kind}; give the data of all members in one form"
            raise DataError(msg)
    if first == "a table":
        return _tables(sources, names)
    if first == "a matrix":
        return _matrices(members, names)
    if first == "a database":
        databases = [encode(X, name=name)[0] for X, name in zip(members, names, strict=True)]
        return _over_one_vocabulary(databases), ITEMS
    rows = [list(X) for X in members]
    whole = TransactionDatabase.from_transactions(chain.from_iterable(rows))
    return _split(whole, [len(own) for own in rows], names), ITEMS


class _Source:
    """A member's data: their kind, and the table if they are one."""

    def __init__(self, X: Any) -> None:  # noqa: N803  # scikit-learn's name
        self.table: EncodedTable | None = None
        if isinstance(X, (str, os.PathLike)):
            self.table = read_table(X) if is_source(X) else None
        elif is_dataframe(X):
            self.table = dataframe_table(X)
        self.kind: Kind = self._kind(X)

    def _kind(self, X: Any) -> Kind:  # noqa: N803
        if self.table is not None:
            return "a table"
        if isinstance(X, (str, os.PathLike, TransactionDatabase)):
            return "a database"
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


# -- databases -------------------------------------------------------------------------------------------------------


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


# -- tables ----------------------------------------------------------------------------------------------------------


def _tables(sources: Sequence[_Source], names: Sequence[str]) -> tuple[list[TransactionDatabase], Encoding]:
    tables = [source.table for source in sources if source.table is not None]
    columns = [column.name for column in tables[0].columns]
    own = [{column.name: column for column in table.columns} for table in tables]
    for name, these in zip(names, own, strict=True):
        if odd := next((label for label in (*columns, *these) if (label in columns) != (label in these)), None):
            lacks, has = (name, names[0]) if odd in columns else (names[0], name)
            msg = f"the table of {has} has a column {odd!r}, that of {lacks} has not; give tables with the same columns"
            raise DataError(msg)
    pooled = EncodedTable([_pool([these[label] for these in own], names) for label in columns], "data", "the tables")
    whole, encoding = encode_table(pooled)
    return _split(whole, [_rows(table.columns[0]) for table in tables], names), encoding


def _rows(column: Column) -> int:
    return len(column.values if isinstance(column, NumberColumn) else column.codes)  # type: ignore[attr-defined]


def _pool(columns: Sequence[Any], names: Sequence[str]) -> Column:
    """Concatenate the columns of all members."""
    kinds = [_what(column) for column in columns]
    if other := next((place for place, kind in enumerate(kinds) if kind != kinds[0]), None):
        msg = (
            f"column {columns[0].name!r} has {kinds[0]} at {names[0]} and {kinds[other]} at {names[other]}; "
            "convert it to the same type at all members"
        )
        raise DataError(msg)
    if isinstance(columns[0], TextColumn):
        return _pooled_texts(columns)
    values = [column.values for column in columns]
    missing = [np.zeros(len(c.values), bool) if c.missing is None else c.missing for c in columns]
    return NumberColumn(columns[0].name, np.concatenate(values), np.concatenate(missing))


def _what(column: Any) -> str:
    if isinstance(column, TextColumn):
        return "texts"
    return "booleans" if column.values.dtype == bool else "numbers"


def _pooled_texts(columns: Sequence[TextColumn]) -> TextColumn:
    index: dict[str, int] = {}
    codes = []
    for column in columns:
        places = [index.setdefault(text, len(index)) for text in column.texts]
        codes.append(np.array([*places, MISSING], np.int32)[column.codes])  # MISSING selects the last element
    return TextColumn(columns[0].name, np.concatenate(codes), list(index), all(column.cut for column in columns))
