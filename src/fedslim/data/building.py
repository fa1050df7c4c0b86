"""Build columns batch by batch: a code for each cell and a list of distinct values, never a table of Python objects."""

from __future__ import annotations

from array import array
from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from fedslim.data.columns import MISSING, NumberColumn, TextColumn
from fedslim.data.labels import value_text
from fedslim.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fedslim.data.columns import Column

ROWS_AT_A_TIME = 4096
_INTEGERS = np.iinfo(np.int64)


class ColumnBuilder:
    """Builds a column of Python values; None is missing. The loops run in C, for speed.

    Values of one type keep it: booleans and numbers become a `NumberColumn`. Anything else becomes strings.
    """

    def __init__(self, missing: int = 0) -> None:
        self._index: defaultdict[Any, int] = defaultdict(None, {None: 0})  # so that a code is 1 + place
        self._index.default_factory = self._index.__len__
        self._codes = array("i", [0]) * missing

    def extend(self, values: Sequence[Any]) -> None:
        """Append cells; raise TypeError if one of them is a list or another collection."""
        if bool in set(map(type, values)):  # True and 1 are equal, but not the same value
            values = [(value,) if isinstance(value, bool) else value for value in values]
        self._codes.extend(map(self._index.__getitem__, values))

    def column(self, name: str) -> Column:
        """Return the finished column."""
        codes = np.frombuffer(self._codes, np.int32) - np.int32(1)
        values = [value[0] if isinstance(value, tuple) else value for value in self._index][1:]
        kinds = set(map(type, values))
        whole = kinds == {int} and all(_INTEGERS.min <= value <= _INTEGERS.max for value in values)
        if whole or kinds == {bool} or (kinds and kinds <= {int, float} and float in kinds):
            known = np.array([*values, 0], bool if kinds == {bool} else np.int64 if whole else np.float64)
            return NumberColumn(name, known[codes], codes == MISSING)
        place: dict[str, int] = {}
        recode = [place.setdefault(text_of(name, value), len(place)) for value in values]
        return TextColumn(name, np.array([*recode, MISSING], np.int32)[codes], list(place))


def text_of(name: str, value: Any, where: str = "") -> str:
    """Return the string of a cell's value; raise `DataError` if it is not a single value."""
    try:
        return value_text(value)
    except ValueError as error:
        msg = (
            f"column {name!r} has {error}{where}; convert it to text or numbers, split it into columns, "
            "or give a table of (transaction, item) rows"
        )
        raise DataError(msg) from None


def columns_of_rows(
    names: Sequence[str], rows: Iterable[Sequence[Any]], wanted: Sequence[int] | None = None
) -> list[Column]:
    """Build columns from rows of equal length; transposing a batch avoids Python code for each cell.

    Returns no column if there are no rows.
    """
    chosen = range(len(names)) if wanted is None else wanted
    builders = [ColumnBuilder() for _ in chosen]
    stream, empty = iter(rows), True
    while batch := list(islice(stream, ROWS_AT_A_TIME)):
        empty = False
        cells = list(zip(*batch, strict=True))
        for builder, position in zip(builders, chosen, strict=True):
            builder.extend(cells[position])
    if empty:
        return []
    return [builder.column(names[position]) for builder, position in zip(builders, chosen, strict=True)]
