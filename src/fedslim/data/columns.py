"""From a table of columns to items: the one place where `column=value` is made.

CSV, Parquet and DataFrames differ in how their columns come; each brings them into one of the two forms here,
and everything after that (missing values, intervals, order, one-hot tables) is decided once.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fedslim.data.database import TransactionDatabase, first_repeat
from fedslim.data.discretise import check_bins, equal_frequency, number_label
from fedslim.errors import DataError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MISSING = -1
"""The code of a cell that makes no item."""

MISSING_TEXTS = frozenset(["", "?", "NA", "N/A", "NaN", "nan", "NAN", "null", "NULL", "Null"])
"""What people write where a value is missing; compared after blanks are stripped."""

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Coded:
    """A column as items: a code for each row (`MISSING` for none), and the codes' labels in vocabulary order."""

    codes: NDArray[np.int32]
    labels: list[str]


class Column(Protocol):
    """What a reader hands over for each column."""

    @property
    def name(self) -> str:
        """What its items are called after."""
        ...

    def is_flag(self) -> bool:
        """Whether this can be a column of a one-hot table."""
        ...

    def flags(self) -> NDArray[np.bool_]:
        """Where the flag is set; a missing flag is not."""
        ...

    def coded(self, bins: int | None) -> Coded:
        """The column's values in order; numbers with more than `bins` values are cut, unless `bins` is None."""
        ...


@dataclass(frozen=True, slots=True)
class TextColumn:
    """Texts, each given by its index in a list of distinct ones; `MISSING` for cells that have none."""

    name: str
    codes: NDArray[np.int32]
    texts: Sequence[str]
    cut: bool = True  # a DataFrame's categories stay whole, even if they look like numbers

    def is_flag(self) -> bool:
        """Never: texts that look like flags are values of an attribute."""
        return False

    def flags(self) -> NDArray[np.bool_]:
        """None is set, for these are no flags."""
        return np.zeros(len(self.codes), bool)

    def coded(self, bins: int | None) -> Coded:
        """By value if every text is a number, else by text; blanks around a value do not count."""
        stripped = [text.strip() for text in self.texts]
        present = np.zeros(len(stripped) + 1, bool)
        present[self.codes] = True  # the cell past the end collects the missing ones
        distinct = {text for text, here in zip(stripped, present, strict=False) if here} - MISSING_TEXTS
        numbers = _as_numbers(distinct)
        ordered = sorted(distinct) if numbers is None else sorted(distinct, key=lambda text: (numbers[text], text))
        place = {text: code for code, text in enumerate(ordered)}
        recode = np.array([*(place.get(text, MISSING) for text in stripped), MISSING], np.int32)
        coded = Coded(recode[self.codes], ordered)
        if bins is None or numbers is None or not self.cut or len(set(numbers.values())) <= bins:
            return coded
        return _cut(coded.codes, np.array([numbers[text] for text in ordered]), bins)


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """Numbers or booleans, and which of them are missing; NaN is missing too."""

    name: str
    values: NDArray[Any]
    missing: NDArray[np.bool_] | None = None

    def is_flag(self) -> bool:
        """Booleans, and integers that are only ever 0 or 1."""
        if self.values.dtype == bool:
            return True
        here = self.values[~self._gone()]
        return self.values.dtype.kind in "iu" and bool(np.isin(here, (0, 1)).all())

    def flags(self) -> NDArray[np.bool_]:
        """Set where it is there and not 0."""
        return self.values.astype(bool) & ~self._gone()

    def coded(self, bins: int | None) -> Coded:
        """By value, written as people write numbers."""
        gone = self._gone()
        distinct, codes = np.unique(self.values[~gone], return_inverse=True)
        spread = np.full(len(self.values), MISSING, np.int32)
        spread[~gone] = codes
        if distinct.dtype == bool:
            return Coded(spread, [str(bool(value)) for value in distinct])
        if bins is not None and len(distinct) > bins:
            return _cut(spread, distinct, bins)
        return Coded(spread, [number_label(value) for value in distinct])

    def _gone(self) -> NDArray[np.bool_]:
        gone = np.zeros(len(self.values), bool) if self.missing is None else self.missing
        return gone | np.isnan(self.values) if self.values.dtype.kind == "f" else gone


def _as_numbers(texts: set[str]) -> dict[str, float] | None:
    """The texts' values if each is a plain decimal number, else None: one word makes a column of words."""
    if not texts or not all(map(_NUMBER.fullmatch, texts)):
        return None
    numbers = {text: float(text) for text in texts}
    return numbers if all(map(math.isfinite, numbers.values())) else None


def _cut(codes: NDArray[np.int32], values: NDArray[Any], bins: int) -> Coded:
    """Replace codes of ascending values by codes of intervals; equal values (1 and 1.0) stay together."""
    distinct, same = np.unique(values, return_inverse=True)
    counts = np.bincount(same[codes[codes != MISSING]], minlength=len(distinct))
    interval, labels = equal_frequency(distinct, counts, bins)
    return Coded(np.append(interval[same], np.int32(MISSING))[codes], labels)


def table_to_database(
    columns: Sequence[Column], *, bins: int, name: str, source: str, one_hot: bool = True
) -> TransactionDatabase:
    """Make each row a transaction; `source` is what messages call the table.

    With `one_hot`, a table of flags only has its column names as items; any other has `column=value`.
    """
    check_bins(bins)
    check_names([column.name for column in columns], source)
    if one_hot and all(column.is_flag() for column in columns):
        coded = [Coded(np.where(column.flags(), 0, MISSING).astype(np.int32), [column.name]) for column in columns]
    else:
        coded = [_prefixed(column.name, column.coded(bins)) for column in columns]
    vocabulary = [label for part in coded for label in part.labels]
    if (twin := first_repeat(vocabulary)) is not None:
        msg = f"{source}: two columns make the same item {twin!r}; rename one of them"
        raise DataError(msg)
    return _rows_from_codes(coded, vocabulary, name)


def _prefixed(name: str, coded: Coded) -> Coded:
    return Coded(coded.codes, [f"{name}={label}" for label in coded.labels])


def _rows_from_codes(coded: Sequence[Coded], vocabulary: list[str], name: str) -> TransactionDatabase:
    """Collect (row, item) pairs column by column: memory grows with the items that are there."""
    tids, ids, first = [], [], 0
    for part in coded:
        rows = np.flatnonzero(part.codes != MISSING)
        tids.append(rows)
        ids.append(part.codes[rows].astype(np.int64) + first)
        first += len(part.labels)
    return TransactionDatabase.from_pairs(
        np.concatenate(tids), np.concatenate(ids), vocabulary, transactions=len(coded[0].codes), name=name
    )


def long_to_database(transaction: Column, item: Column, *, name: str, source: str) -> TransactionDatabase:
    """Make a table of (transaction, item) rows a database: transactions as they first appear, items in order.

    A row with a transaction and no item says that the transaction is there; a row without a transaction is an error.
    """
    rows, items = transaction.coded(None), item.coded(None)
    gone = np.flatnonzero(rows.codes == MISSING)
    if gone.size:
        msg = f"{source}: row {gone[0] + 1} has no value in {transaction.name!r}; every row must name its transaction"
        raise DataError(msg)
    _, first, number = np.unique(rows.codes, return_index=True, return_inverse=True)
    appearance = np.argsort(np.argsort(first))  # the n-th transaction to appear has number n
    here = items.codes != MISSING
    return TransactionDatabase.from_pairs(
        appearance[number[here]], items.codes[here], items.labels, transactions=len(first), name=name
    )


def check_names(names: Sequence[str], source: str) -> None:
    """Every column needs a name of its own, for the items are called after it."""
    if not names:
        msg = f"{source}: the table has no columns; give one column for each attribute"
        raise DataError(msg)
    seen: dict[str, int] = {}
    for position, name in enumerate(names, 1):
        if not name.strip():
            msg = f"{source}: column {position} has no name; name every column in the header"
            raise DataError(msg)
        if name in seen:
            msg = f"{source}: columns {seen[name]} and {position} are both called {name!r}; rename one of them"
            raise DataError(msg)
        seen[name] = position


def long_columns(
    names: Sequence[str], transaction: str | None, item: str | None, source: str
) -> tuple[int, int] | None:
    """Where the two columns of a long table stand, or None if the table is not asked to be long."""
    if transaction is None and item is None:
        return None
    if transaction is None or item is None:
        msg = "a long table needs both columns; give transaction_column and item_column, or neither"
        raise ParameterError(msg)
    for wanted in (transaction, item):
        if wanted not in names:
            shown = ", ".join(map(repr, names[:20]))
            msg = f"{source}: there is no column {wanted!r}; the columns are {shown}"
            raise DataError(msg)
    if transaction == item:
        msg = f"transaction_column and item_column are both {item!r}; a long table has two different ones"
        raise ParameterError(msg)
    return names.index(transaction), names.index(item)
