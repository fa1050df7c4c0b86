"""The columns of a table, and which value of them each row has.

CSV, Parquet and DataFrames differ in how their columns come; each brings them into one of the two forms here,
and missing values, intervals and order are decided once. `fedslim.data.encoding` makes items of them.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fedslim.data.database import TransactionDatabase
from fedslim.data.discretise import Intervals, equal_frequency, number_label
from fedslim.data.labels import unwritable
from fedslim.errors import DataError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

MISSING = -1
"""The code of a cell that makes no item."""

MISSING_TEXTS = frozenset(["", "?", "NA", "N/A", "NaN", "nan", "NAN", "null", "NULL", "Null"])
"""What people write where a value is missing; compared after blanks are stripped."""

_FLAG_TEXTS = {"0": False, "1": True, "0.0": False, "1.0": True, "false": False, "true": True}
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Coded:
    """A column as items: a code for each row (`MISSING` for none), and the codes' labels in vocabulary order."""

    codes: NDArray[np.int32]
    labels: list[str]
    intervals: Intervals | None = None  # how the values were cut, if they were


class Column(Protocol):
    """What a reader hands over for each column."""

    @property
    def name(self) -> str:
        """What its items are called after."""
        ...

    def is_flag(self) -> bool:
        """Whether this can be a column of a one-hot table."""
        ...

    def flags(self) -> NDArray[np.bool_] | None:
        """Where the flag is set (a missing flag is not), or None if there are values that are no flags."""
        ...

    def coded(self, bins: int | None) -> Coded:
        """The column's values in order; numbers with more than `bins` values are cut, unless `bins` is None."""
        ...

    def placed(self, intervals: Intervals) -> Coded:
        """The column's values in intervals that were cut before; values that are no numbers stay as they are."""
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

    def flags(self) -> NDArray[np.bool_] | None:
        """Texts may still stand for flags where a table of flags is expected: a file has nothing but texts."""
        coded = self.coded(None)
        known = [_FLAG_TEXTS.get(label.lower()) for label in coded.labels]
        return None if None in known else np.array([*known, False], bool)[coded.codes]

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

    def placed(self, intervals: Intervals) -> Coded:
        """A text that is a number goes to its interval, however the number is written."""
        whole = self.coded(None)
        labels = [intervals.label(float(t)) if _NUMBER.fullmatch(t) else t for t in whole.labels]
        return _relabel(whole.codes, labels)


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

    def flags(self) -> NDArray[np.bool_] | None:
        """Set where it is there and not 0; a column of integers with gaps may have become one of floats."""
        gone = self._gone()
        if not bool(np.isin(self.values[~gone], (0, 1)).all()):
            return None
        return self.values.astype(bool) & ~gone

    def coded(self, bins: int | None) -> Coded:
        """By value, written as people write numbers."""
        distinct, codes = self._distinct()
        if distinct.dtype == bool:
            return Coded(codes, [str(bool(value)) for value in distinct])
        if bins is not None and len(distinct) > bins:
            return _cut(codes, distinct, bins)
        return Coded(codes, [number_label(value) for value in distinct])

    def placed(self, intervals: Intervals) -> Coded:
        """Each number in its interval."""
        distinct, codes = self._distinct()
        return _relabel(codes, [intervals.label(value) for value in distinct.tolist()])

    def _distinct(self) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """The distinct values, ascending, and for each row the place of its value among them."""
        gone = self._gone()
        distinct, codes = np.unique(self.values[~gone], return_inverse=True)
        spread = np.full(len(self.values), MISSING, np.int32)
        spread[~gone] = codes
        return distinct, spread

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
    intervals = equal_frequency(distinct, counts, bins)
    coded = _relabel(codes, [intervals.label(value) for value in values.tolist()])
    return Coded(coded.codes, coded.labels, intervals)


def _relabel(codes: NDArray[np.int32], labels: Sequence[str]) -> Coded:
    """The rows under other labels, one for each code; codes with the same label become one."""
    distinct = list(dict.fromkeys(labels))
    place = {label: code for code, label in enumerate(distinct)}
    recode = np.array([*(place[label] for label in labels), MISSING], np.int32)
    return Coded(recode[codes], distinct)


def long_to_database(
    transaction: Column, item: Column, *, name: str, source: str, place: Callable[[int], str] | None = None
) -> TransactionDatabase:
    """Make a table of (transaction, item) rows a database: transactions as they first appear, items in order.

    A row with a transaction and no item says that the transaction is there; a row without a transaction is an error.
    `place` says where row 0, 1, ... stands in a file that has lines.
    """
    rows, items = transaction.coded(None), item.coded(None)
    gone = np.flatnonzero(rows.codes == MISSING)
    if gone.size:
        row = int(gone[0])
        where = f"{source}: row {row + 1}" if place is None else f"{place(row)}: the row"
        msg = f"{where} has no value in {transaction.name!r}; every row must name its transaction"
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
        if (wrong := unwritable(name)) is not None:
            msg = f"{source}: column {position} is called by {wrong}; rename it"
            raise DataError(msg)
        if name in seen:
            msg = f"{source}: columns {seen[name]} and {position} are both called {name!r}; rename one of them"
            raise DataError(msg)
        seen[name] = position


def long_columns(names: Sequence[str], transaction: str | None, item: str | None, source: str) -> tuple[int, int]:
    """Where the two columns of a long table stand."""
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
