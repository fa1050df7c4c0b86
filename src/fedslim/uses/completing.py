"""Missing cells: the value with the shortest code, and the bits that each other value would cost more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedslim.data import TransactionDatabase
from fedslim.errors import DataError
from fedslim.mdl.codetable import CodeTable
from fedslim.uses.cells import column_names, columns_of, rows_of


@dataclass(frozen=True, slots=True)
class Cell:
    """A missing cell; `values` has each value of its column with the bits of the row, the shortest first."""

    row: int
    column: str
    values: tuple[tuple[str, float], ...]


def complete(table: CodeTable, X: Any) -> list[Cell]:  # noqa: N803  # scikit-learn's name
    """Return the missing cells of the rows, counted from 1, with the bits for each value.

    Each cell is completed on its own, with the other missing cells of its row still missing.

    Raises:
        DataError: The code table was not mined from a table with columns.

    Examples:
        >>> import pandas as pd
        >>> from fedslim import Slim
        >>> from fedslim.uses import complete
        >>> table = pd.DataFrame({"drink": ["tea", "coffee"] * 9, "milk": ["no", "yes"] * 9})
        >>> unknown = pd.DataFrame({"drink": ["coffee"], "milk": [None]})
        >>> complete(Slim().fit(table).table_, unknown)[0].values[0][0]
        'yes'
    """
    return list(cells(table, table.items_of(X)))


def cells(table: CodeTable, database: TransactionDatabase, first: int = 1) -> Iterator[Cell]:
    """See `complete`; for transactions, the first of which is row number `first`."""
    names = column_names(table.encoding)
    if not names:
        msg = (
            "this code table was not mined from a table with columns and values, or its file does not say so, so "
            "it has no cells to complete; mine it again from a CSV file, a Parquet file or a DataFrame"
        )
        raise DataError(msg)
    own, theirs = columns_of(names, table.vocabulary), columns_of(names, database.vocabulary)
    given = np.zeros((len(database), len(names) + 1), bool)  # the last is for items of no column
    given[np.repeat(np.arange(len(database)), database.lengths), theirs[database.items]] = True
    given[:, [number not in own for number in range(len(names))] + [True]] = True
    known, _ = table.covering.known(database)
    for t, number in np.argwhere(~given).tolist():
        items, row = np.flatnonzero(own == number).tolist(), known.item_ids(t).tolist()
        bits = table.covering.bits(rows_of(table, [sorted([*row, item]) for item in items])).tolist()
        values = zip((table.vocabulary[i][len(names[number]) + 1 :] for i in items), bits, strict=True)
        yield Cell(first + t, names[number], tuple(sorted(values, key=lambda value: value[::-1])))
