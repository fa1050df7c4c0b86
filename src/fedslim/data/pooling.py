"""Encode the data of several members over one vocabulary, as if all rows were in one place.

    databases, encoding = encode_together([rows_a, rows_b])      # item 7 is the same item in both
    whole = TransactionDatabase.joined(databases)                # all rows in one place

For experiments in one process, which sees all rows anyway. In a federation, members agree on a vocabulary instead
(`fedslim.data.vocabulary`), and cut their numeric columns in the same way beforehand.
"""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np

from fedslim.data.coerce import encode, is_matrix, table_of
from fedslim.data.columns import Column, EncodedTable, number_transactions, pool
from fedslim.data.database import TransactionDatabase
from fedslim.data.discretise import DEFAULT_BINS
from fedslim.data.encoding import ITEMS, Choices, Encoding, encode_table, find_long, tell_long
from fedslim.data.guessing import long_by_name
from fedslim.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence


def encode_together(
    members: Sequence[Any],
    names: Sequence[str] | None = None,
    *,
    bins: int = DEFAULT_BINS,
    **choices: Unpack[Choices],
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
    if first == "a database":
        databases = [encode(X, name=name)[0] for X, name in zip(members, names, strict=True)]
        return _over_one_vocabulary(databases), ITEMS
    rows = [list(X) for X in members]
    whole = TransactionDatabase.from_transactions(chain.from_iterable(rows))
    return _split(whole, [len(own) for own in rows], names), ITEMS


def _kind(X: Any, table: EncodedTable | None) -> str:  # noqa: N803  # scikit-learn's name
    if table is not None:
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


def _tables(
    tables: list[EncodedTable], names: Sequence[str], bins: int, choices: Choices
) -> tuple[list[TransactionDatabase], Encoding]:
    columns = tables[0].names
    for name, table in zip(names, tables, strict=True):
        if odd := next(
            (label for label in (*columns, *table.names) if (label in columns) != (label in table.names)), None
        ):
            lacks, has = (name, names[0]) if odd in columns else (names[0], name)
            msg = f"the table of {has} has a column {odd!r}, that of {lacks} has not; give tables with the same columns"
            raise DataError(msg)
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
