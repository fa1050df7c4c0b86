"""Columns of a table, with a code for the value in each row.

The readers of CSV, Parquet and DataFrames convert their columns to one of the two classes here, so that missing values,
intervals and order are handled in one place. `fedslim.data.encoding` turns columns into items.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fedslim.data.database import TransactionDatabase
from fedslim.data.discretise import Intervals, equal_frequency, number_label
from fedslim.data.labels import unwritable
from fedslim.data.parsing import decimal_mark, is_code, parse_date, parse_number
from fedslim.errors import DataError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from numpy.typing import NDArray

MISSING = -1
"""Code of a missing cell, which yields no item."""

MISSING_TEXTS = frozenset(["", "?", "NA", "N/A", "NaN", "nan", "NAN", "null", "NULL", "Null"])
"""Common spellings of a missing value; compared after stripping white space."""

FLAG_TEXTS = {"0": False, "1": True, "0.0": False, "1.0": True, "false": False, "true": True}


@dataclass(frozen=True, slots=True)
class Coded:
    """A column as items: a code for each row (or `MISSING`), and the codes' labels in vocabulary order."""

    codes: NDArray[np.int32]
    labels: list[str]
    intervals: Intervals | None = None  # if the values were cut into intervals


class Column(Protocol):
    """The interface of a column."""

    @property
    def name(self) -> str:
        """The column name, which prefixes its items."""
        ...

    def is_flag(self) -> bool:
        """Return whether this can be a column of a one-hot table."""
        ...

    def flags(self) -> NDArray[np.bool_] | None:
        """Return where the flag is set (missing counts as unset), or None if some values are not flags."""
        ...

    def distinct(self) -> tuple[NDArray[np.int32], Sequence[Any]]:
        """Return the code of each row, or `MISSING`, and the value of each code, which need not occur."""
        ...

    def coded(self, bins: int | None) -> Coded:
        """Code the values in order; cut numbers with more than `bins` distinct values, unless `bins` is None."""
        ...

    def placed(self, intervals: Intervals) -> Coded:
        """Code the values by the given intervals; values that are not numbers stay as they are."""
        ...

    def without(self, missing: Collection[str]) -> Column:
        """Return the column with these values missing."""
        ...


@dataclass(frozen=True, slots=True)
class TextColumn:
    """Strings, as indices into a list of distinct strings; `MISSING` for missing cells."""

    name: str
    codes: NDArray[np.int32]
    texts: Sequence[str]
    cut: bool = True  # False for a DataFrame's categories, which are not cut even if they look like numbers
    codes_too: bool = False  # whether 0123 is a number too

    def is_flag(self) -> bool:
        """Return whether the strings are those of flags, as a DataFrame of flags is written to a file."""
        known = {text.strip().lower() for text in self.texts if text.strip() not in MISSING_TEXTS}
        return self.cut and bool(known) and known <= set(FLAG_TEXTS)

    def flags(self) -> NDArray[np.bool_] | None:
        """Parse strings as flags, for a file that should fit a one-hot encoding: files contain only strings."""
        coded = self.coded(None)
        known = [FLAG_TEXTS.get(label.lower()) for label in coded.labels]
        return None if None in known else np.array([*known, False], bool)[coded.codes]

    def distinct(self) -> tuple[NDArray[np.int32], Sequence[Any]]:
        """Return the strings without surrounding white space."""
        return self.codes, [text.strip() for text in self.texts]

    def coded(self, bins: int | None) -> Coded:
        """Order by value if every string is a number, else as strings; surrounding white space is ignored."""
        stripped = [text.strip() for text in self.texts]
        present = np.zeros(len(stripped) + 1, bool)
        present[self.codes] = True  # MISSING sets the extra last cell
        distinct = {text for text, here in zip(stripped, present, strict=False) if here} - MISSING_TEXTS
        mark = decimal_mark(distinct)
        numbers = None if not self.codes_too and any(map(is_code, distinct)) else _as_numbers(distinct, mark)
        ordered = _in_order(distinct, numbers)
        place = {text: code for code, text in enumerate(ordered)}
        recode = np.array([*(place.get(text, MISSING) for text in stripped), MISSING], np.int32)
        coded = Coded(recode[self.codes], ordered)
        if bins is None or numbers is None or not self.cut or len(set(numbers.values())) <= bins:
            return coded
        return _cut(coded.codes, np.array([numbers[text] for text in ordered]), bins, str(mark))

    def placed(self, intervals: Intervals) -> Coded:
        """Put each string that is a number into its interval, however the number is written."""
        whole = self.coded(None)
        numbers = [parse_number(text, intervals.mark) for text in whole.labels]
        labels = [t if n is None else intervals.label(n) for t, n in zip(whole.labels, numbers, strict=True)]
        return _relabel(whole.codes, labels)

    def dated(self, part: str) -> Coded:
        """Code dates by `year` or `month`; other strings stay as they are."""
        whole, length = self.coded(None), len("2026") if part == "year" else len("2026-03")
        days = [parse_date(text) for text in whole.labels]
        labels = [t if day is None else day.isoformat()[:length] for t, day in zip(whole.labels, days, strict=True)]
        return _relabel(whole.codes, labels)

    def without(self, missing: Collection[str]) -> TextColumn:
        """Compare the strings without surrounding white space."""
        gone = np.array([*(text.strip() in missing for text in self.texts), True], bool)
        return replace(self, codes=np.where(gone[self.codes], MISSING, self.codes).astype(np.int32))


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """Numbers or booleans with a mask of missing ones; NaN counts as missing."""

    name: str
    values: NDArray[Any]
    missing: NDArray[np.bool_] | None = None

    def is_flag(self) -> bool:
        """Return True for booleans and for numbers that are all 0 or 1."""
        if self.values.dtype == bool:
            return True
        known = self.values[~self._missing()]
        return bool(len(known)) and bool(np.isin(known, (0, 1)).all())

    def flags(self) -> NDArray[np.bool_] | None:
        """Accept floats too: integers with missing values may have been converted to floats."""
        missing = self._missing()
        if not bool(np.isin(self.values[~missing], (0, 1)).all()):
            return None
        return self.values.astype(bool) & ~missing

    def coded(self, bins: int | None) -> Coded:
        """Order by value; whole numbers are written without a fraction."""
        distinct, codes = self._distinct()
        if distinct.dtype == bool:
            return Coded(codes, [str(bool(value)) for value in distinct])
        if bins is not None and len(distinct) > bins:
            return _cut(codes, distinct, bins)
        return Coded(codes, [number_label(value) for value in distinct])

    def placed(self, intervals: Intervals) -> Coded:
        """Put each number into its interval."""
        distinct, codes = self._distinct()
        return _relabel(codes, [intervals.label(value) for value in distinct.tolist()])

    def without(self, missing: Collection[str]) -> NumberColumn:
        """Compare the labels of the numbers."""
        codes, values = self.distinct()
        gone = np.array([*(number_label(value) in missing for value in values), True], bool)
        return replace(self, missing=gone[codes])

    def distinct(self) -> tuple[NDArray[np.int32], Sequence[Any]]:
        """Return Python's own numbers or booleans."""
        distinct, codes = self._distinct()
        return codes, distinct.tolist()

    def _distinct(self) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """Return the distinct values, ascending, and for each row the index of its value."""
        missing = self._missing()
        distinct, codes = _ranked(self.values[~missing] if missing.any() else self.values)
        spread = np.full(len(self.values), MISSING, np.int32)
        spread[~missing] = codes
        return distinct, spread

    def _missing(self) -> NDArray[np.bool_]:
        missing = np.zeros(len(self.values), bool) if self.missing is None else self.missing
        return missing | np.isnan(self.values) if self.values.dtype.kind == "f" else missing


def _ranked(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the distinct values, ascending, and the index of each value among them."""
    low, high = (int(values.min()), int(values.max())) if values.dtype.kind in "iu" and values.size else (0, 2**31)
    if high - low >= min(4 * values.size + 2**20, 2**31):  # a lookup table would be larger than the data
        distinct, codes = np.unique(values, return_inverse=True)
        return distinct, codes
    base = values.dtype.type(low)
    present = np.zeros(high - low + 1, bool)
    present[values - base] = True
    rank = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(present).astype(values.dtype) + base, rank[values - base]


def _as_numbers(texts: set[str], mark: str | None) -> dict[str, float] | None:
    """Return the values of the strings if all are numbers, else None."""
    numbers = {} if mark is None else {text: parse_number(text, mark) for text in texts}
    known = {text: number for text, number in numbers.items() if number is not None and math.isfinite(number)}
    return known if known and len(known) == len(texts) else None


def in_order(texts: set[str]) -> list[str]:
    """Return strings ordered by value if all are numbers, else as strings."""
    return _in_order(texts, _as_numbers(texts, decimal_mark(texts)))


def _in_order(texts: set[str], numbers: dict[str, float] | None) -> list[str]:
    return sorted(texts) if numbers is None else sorted(texts, key=lambda text: (numbers[text], text))


def _cut(codes: NDArray[np.int32], values: NDArray[Any], bins: int, mark: str = ".") -> Coded:
    """Replace the codes of ascending values with those of intervals; equal values (1 and 1.0) stay together."""
    distinct, same = np.unique(values, return_inverse=True)
    counts = np.bincount(same[codes[codes != MISSING]], minlength=len(distinct))
    intervals = replace(equal_frequency(distinct, counts, bins), mark=mark)
    coded = _relabel(codes, [intervals.label(value) for value in values.tolist()])
    return Coded(coded.codes, coded.labels, intervals)


def _relabel(codes: NDArray[np.int32], labels: Sequence[str]) -> Coded:
    """Give each code a new label; codes with the same label are merged."""
    distinct = list(dict.fromkeys(labels))
    place = {label: code for code, label in enumerate(distinct)}
    recode = np.array([*(place[label] for label in labels), MISSING], np.int32)
    return Coded(recode[codes], distinct)


def long_to_database(
    transaction: Column, item: Column, *, name: str, source: str, place: Callable[[int], str] | None = None
) -> TransactionDatabase:
    """Convert a table of (transaction, item) rows; transactions are in order of first appearance.

    A row with a transaction but no item declares a transaction, possibly empty; a row without a transaction is an
    error. `place` returns the position of a row (counted from 0) in a file, for messages.
    """
    number, transactions = number_transactions(transaction, source, place)
    items = item.coded(None)
    known = items.codes != MISSING
    number, present = (number, items.codes) if known.all() else (number[known], items.codes[known])
    return TransactionDatabase.from_pairs(number, present, items.labels, transactions=transactions, name=name)


def number_transactions(
    transaction: Column, source: str, place: Callable[[int], str] | None = None
) -> tuple[NDArray[np.int32], int]:
    """Return the number of each row's transaction, in order of first appearance, and how many there are.

    Raises:
        DataError: A row names no transaction.
    """
    codes = transaction.coded(None).codes
    nameless = np.flatnonzero(codes == MISSING)
    if nameless.size:
        row = int(nameless[0])
        where = f"{source}: row {row + 1}" if place is None else f"{place(row)}: the row"
        msg = f"{where} has no value in {transaction.name!r}; every row must name its transaction"
        raise DataError(msg)
    first = np.full(int(codes.max(initial=-1)) + 1, -1, np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # the last to be written is the first to appear
    order = np.argsort(first)[np.count_nonzero(first < 0) :]
    appearance = np.empty(len(first), np.int32)
    appearance[order] = np.arange(len(order), dtype=np.int32)
    return appearance[codes], len(order)


def check_names(names: Sequence[str], source: str) -> None:
    """Check that every column has a unique name, because items are named after columns."""
    if not names:
        msg = f"{source}: the table has no columns; give one column per attribute"
        raise DataError(msg)
    seen: dict[str, int] = {}
    for position, name in enumerate(names, 1):
        if not name.strip():
            msg = f"{source}: column {position} has no name; name every column in the header"
            raise DataError(msg)
        if (wrong := unwritable(name)) is not None:
            msg = f"{source}: the name of column {position} is {wrong}; rename it"
            raise DataError(msg)
        if name in seen:
            msg = f"{source}: columns {seen[name]} and {position} are both named {name!r}; rename one of them"
            raise DataError(msg)
        seen[name] = position


def long_columns(names: Sequence[str], transaction: str | None, item: str | None, source: str) -> tuple[int, int]:
    """Return the positions of the two columns of a long table."""
    if transaction is None or item is None:
        msg = "a long table needs two columns; give both transaction_column and item_column, or neither"
        raise ParameterError(msg)
    for wanted in (transaction, item):
        if wanted not in names:
            known = ", ".join(map(repr, names[:20]))
            msg = f"{source}: there is no column {wanted!r}; the columns are {known}"
            raise DataError(msg)
    if transaction == item:
        msg = f"transaction_column and item_column are both {item!r}; name two different columns"
        raise ParameterError(msg)
    return names.index(transaction), names.index(item)
