"""Tables: columns of codes and distinct values, and how to build them batch by batch.

Every reader makes `Column`s, so that missing values, order and flags are handled in one place.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, islice
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fedslim.data.discretise import number_label
from fedslim.data.parsing import decimal_mark, is_code, parse_number, text_of, unwritable
from fedslim.errors import DataError, ParameterError

Pair = tuple[str | None, str | None]  # the transaction and item columns of a long table, or no columns
Batch = tuple[int, Sequence[Any]]  # a number of rows, and the cells of each column
Make = Callable[[str], Any]  # a builder of a column, from its name

MISSING = -1  # code of a missing cell, which yields no item
MISSING_TEXTS = frozenset(["", "?", "NA", "N/A", "NaN", "nan", "NAN", "null", "NULL", "Null"])
"""Common spellings of a missing value; compared after stripping white space."""

FLAG_TEXTS = {"0": False, "1": True, "0.0": False, "1.0": True, "false": False, "true": True}
ROWS_AT_A_TIME = 4096
NO_PAIR: Pair = (None, None)
_INTEGERS = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True)
class Column:
    """A column: for each row the place of its value, or `MISSING`; and the values, distinct and in order.

    Values are stripped texts, or an array of numbers or booleans. `numbers` are their values as numbers, if all have
    one. In a table with one row for each cell, `rows` has the transaction of each.
    """

    name: str
    codes: NDArray[np.int32]
    values: list[str] | NDArray[Any]
    numbers: NDArray[Any] | None
    mark: str = "."  # the decimal mark of numbers in text
    cut: bool = True  # False for a DataFrame's categories, which are not cut even if they look like numbers
    rows: NDArray[np.int32] | None = None

    @classmethod
    def of_texts(
        cls, name: str, codes: NDArray[np.int32], texts: Sequence[str], *, cut: bool = True, zeros: bool = False
    ) -> Self:
        """Make a column of texts, which need not be distinct or occur; with `zeros`, 0123 is a number too."""
        stripped = [text.strip() for text in texts]
        present = np.zeros(len(stripped) + 1, bool)
        present[codes] = True  # MISSING sets the extra last cell
        distinct = {text for text, here in zip(stripped, present, strict=False) if here} - MISSING_TEXTS
        mark = decimal_mark(distinct)
        numbers = None if not zeros and any(map(is_code, distinct)) else _as_numbers(distinct, mark)
        ordered = _in_order(distinct, numbers)
        place = {text: code for code, text in enumerate(ordered)}
        codes = recode(codes, [place.get(text, MISSING) for text in stripped])
        return cls(
            name, codes, ordered, None if numbers is None else np.array([numbers[t] for t in ordered]), mark or ".", cut
        )

    @classmethod
    def of_numbers(
        cls,
        name: str,
        values: NDArray[Any],
        codes: NDArray[np.int32] | None = None,
        missing: NDArray[np.bool_] | None = None,
    ) -> Self:
        """Make a column of numbers or booleans; `codes` has the place of each row's value, if not its own."""
        known = np.ones(len(values), bool) if missing is None else ~missing
        known &= ~np.isnan(values) if values.dtype.kind == "f" else True
        distinct, ranks = ranked(values if known.all() else values[known])
        places = np.full(len(values) + 1, MISSING, np.int32)
        places[:-1][known] = ranks
        return cls(name, places[:-1] if codes is None else places[codes], distinct, distinct)

    @property
    def is_text(self) -> bool:
        """Whether the values are texts."""
        return isinstance(self.values, list)

    @property
    def labels(self) -> list[str]:
        """The values as texts; whole numbers are written without a fraction."""
        return [text_of_value(value) for value in self.values]

    def is_flag(self) -> bool:
        """Return whether this can be a column of a one-hot table: booleans, or 0 and 1, also as text."""
        booleans = isinstance(self.values, np.ndarray) and self.values.dtype == bool
        return booleans or (self.cut and len(self.values) > 0 and self._has_flags())

    def flags(self) -> NDArray[np.bool_] | None:
        """Return where the flag is set (missing counts as unset), or None if some values are not flags."""
        if not self._has_flags():
            return None
        return np.array([*(FLAG_TEXTS[label.lower()] for label in self.labels), False], bool)[self.codes]

    def _has_flags(self) -> bool:
        return all(text_of_value(value).lower() in FLAG_TEXTS for value in self.values)

    def without(self, missing: Collection[str]) -> Self:
        """Return the column with these values missing."""
        gone = [(value if self.is_text else number_label(value)) in missing for value in self.values]
        if not any(gone):
            return self
        return self.with_codes(recode(self.codes, [MISSING if out else code for code, out in enumerate(gone)]))

    def with_codes(self, codes: NDArray[np.int32], *, zeros: bool = False) -> Self:
        """Return a column with other codes of the same values; with `zeros`, 0123 is a number too."""
        here = np.unique(codes[codes != MISSING])
        codes = np.where(codes == MISSING, MISSING, np.searchsorted(here, codes)).astype(np.int32)
        if self.is_text:
            texts = [self.values[code] for code in here.tolist()]
            return replace(self.of_texts(self.name, codes, texts, cut=self.cut or zeros, zeros=zeros), rows=self.rows)
        kept = np.asarray(self.values)[here]
        return replace(self, codes=codes, values=kept, numbers=kept)


def recode(codes: NDArray[np.int32], places: Sequence[int] | NDArray[Any]) -> NDArray[np.int32]:
    """Replace each code by its new place; what is missing stays so."""
    return np.append(np.asarray(places, np.int32), np.int32(MISSING))[codes]


def ranked(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the distinct values, ascending, and the index of each value among them."""
    low, high = (int(values.min()), int(values.max())) if values.dtype.kind in "iu" and values.size else (0, 2**31)
    if high - low >= min(4 * values.size + 2**20, 2**31):  # a lookup table would be larger than the data
        distinct, codes = np.unique(values, return_inverse=True)
        return distinct, codes
    base = values.dtype.type(low)
    places = values - base
    present = np.zeros(high - low + 1, bool)
    present[places] = True
    rank = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(present).astype(values.dtype) + base, rank[places]


def text_of_value(value: Any) -> str:
    """Return the text of a column's value."""
    if isinstance(value, str):
        return value
    return str(bool(value)) if isinstance(value, (bool, np.bool_)) else number_label(value)


def _as_numbers(texts: Collection[str], mark: str | None) -> dict[str, float] | None:
    """Return the values of the strings if all are numbers, else None."""
    numbers: dict[str, float] = {}
    for text in texts if mark is not None else ():
        number = parse_number(text, str(mark))
        if number is None or not math.isfinite(number):
            return None
        numbers[text] = number
    return numbers or None


def in_order(texts: set[str]) -> list[str]:
    """Return strings ordered by value if all are numbers, else as strings."""
    return _in_order(texts, _as_numbers(texts, decimal_mark(texts)))


def _in_order(texts: set[str], numbers: dict[str, float] | None) -> list[str]:
    return sorted(texts) if numbers is None else sorted(texts, key=lambda text: (numbers[text], text))


@dataclass(frozen=True, slots=True)
class EncodedTable:
    """Columns of equal length, not yet converted to items; `source` names the table in messages."""

    columns: Sequence[Column]
    name: str
    source: str
    place: Callable[[int], str] | None = None  # the position of a row (from 0) in the file, for messages
    transactions: int | None = None  # if the columns do not have a row for each
    is_pair: bool = False  # whether the columns are the transactions and the items of a long table

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]

    @property
    def size(self) -> int:
        """The number of transactions."""
        return len(self.columns[0].codes) if self.transactions is None else self.transactions


def check_names(names: Sequence[str], source: str) -> None:
    """Check that every column has a unique name, because items are named after columns."""
    if not names:
        raise DataError(f"{source}: the table has no columns; give one column per attribute")
    seen: dict[str, int] = {}
    for position, name in enumerate(names, 1):
        if not name.strip():
            raise DataError(f"{source}: column {position} has no name; name every column in the header")
        if (wrong := unwritable(name)) is not None:
            raise DataError(f"{source}: the name of column {position} is {wrong}; rename it")
        if name in seen:
            msg = f"{source}: columns {seen[name]} and {position} are both named {name!r}; rename one of them"
            raise DataError(msg)
        seen[name] = position


def positions(names: Sequence[str], pair: Pair, source: str) -> Sequence[int]:
    """Check the names of columns; return the positions of those to read: all, or the two of a long table."""
    check_names(names, source)
    if pair == NO_PAIR:
        return range(len(names))
    transaction, item = pair
    if transaction is None or item is None:
        raise ParameterError("a long table needs two columns; give both transaction_column and item_column, or neither")
    for wanted in (transaction, item):
        if wanted not in names:
            known = ", ".join(map(repr, names[:20]))
            raise DataError(f"{source}: there is no column {wanted!r}; the columns are {known}")
    if transaction == item:
        raise ParameterError(f"transaction_column and item_column are both {item!r}; name two different columns")
    return names.index(transaction), names.index(item)


def number_transactions(
    transaction: Column, source: str, place: Callable[[int], str] | None = None
) -> tuple[NDArray[np.int32], int]:
    """Return the number of each row's transaction, in order of first appearance, and how many there are."""
    codes = transaction.codes
    nameless = np.flatnonzero(codes == MISSING)
    if nameless.size:
        row = int(nameless[0])
        where = f"{source}: row {row + 1}" if place is None else f"{place(row)}: the row"
        raise DataError(f"{where} has no value in {transaction.name!r}; every row must name its transaction")
    first = np.empty(len(transaction.values), np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # the last to be written is the first to appear
    appearance = np.empty(len(first), np.int32)
    appearance[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return appearance[codes], len(first)


def pool(tables: Sequence[EncodedTable], names: Sequence[str] | None = None) -> EncodedTable:
    """Return the rows of tables with the same columns; `names` are of members, who must have values of one type."""
    own = [dict(zip(table.names, table.columns, strict=True)) for table in tables]
    columns = [_pool([these[label] for these in own], names) for label in tables[0].names]
    return EncodedTable(columns, "data", "the tables" if names else tables[0].source)


def _pool(columns: Sequence[Column], names: Sequence[str] | None) -> Column:
    """Concatenate the columns of all members."""
    kinds = ["texts" if c.is_text else "booleans" if np.asarray(c.values).dtype == bool else "numbers" for c in columns]
    other = next((place for place, kind in enumerate(kinds) if kind != kinds[0]), None)
    numbers = [column.numbers for column in columns if column.cut and column.numbers is not None]
    like_numbers = len(numbers) == len(columns) and "booleans" not in kinds  # a CSV file beside a database, say
    if other and names and not like_numbers:
        raise DataError(
            f"column {columns[0].name!r} has {kinds[0]} at {names[0]} and {kinds[other]} at {names[other]}; "
            "convert it to the same type at all members"
        )
    starts = accumulate((len(column.values) for column in columns), initial=0)
    codes = [np.where(c.codes == MISSING, MISSING, c.codes + start) for c, start in zip(columns, starts, strict=False)]
    joined = np.concatenate(codes).astype(np.int32)
    if (kinds[0] != "texts" and not other) or (other and names):
        return Column.of_numbers(columns[0].name, np.concatenate(numbers), joined)
    texts = [text for column in columns for text in column.labels]
    return Column.of_texts(columns[0].name, joined, texts, cut=all(column.cut for column in columns))


class ColumnBuilder:
    """Builds a column of Python values; None is missing. Booleans and numbers keep their type, if all have the same."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._index: defaultdict[Any, int] = defaultdict(None, {None: 0})  # so that a code is 1 + place
        self._index.default_factory = self._index.__len__
        self._codes = array("i")

    def add(self, values: Sequence[Any], before: int) -> None:
        """Append cells, after `before` rows; raise TypeError if one of them is a list or another collection."""
        self._codes.extend([0] * (before - len(self._codes)))  # the column is new: it was missing until now
        if bool in set(map(type, values)):  # True and 1 are equal, but not the same value
            values = [(value,) if isinstance(value, bool) else value for value in values]
        self._codes.extend(map(self._index.__getitem__, values))

    def column(self) -> Column:
        """Return the finished column."""
        codes = np.frombuffer(self._codes, np.int32) - np.int32(1)
        values = [value[0] if isinstance(value, tuple) else value for value in self._index][1:]
        kinds = set(map(type, values))
        whole = kinds == {int} and all(_INTEGERS.min <= value <= _INTEGERS.max for value in values)
        if whole or kinds == {bool} or (kinds and kinds <= {int, float} and float in kinds):
            dtype = bool if kinds == {bool} else np.int64 if whole else np.float64
            return Column.of_numbers(self._name, np.array(values, dtype), codes)
        return Column.of_texts(self._name, codes, [text_of(self._name, value) for value in values])


def batches_of(rows: Iterable[Sequence[Any]]) -> Iterator[Batch]:
    """Return batches of cells from rows of equal length; transposing avoids Python code for each cell."""
    stream = iter(rows)
    while batch := list(islice(stream, ROWS_AT_A_TIME)):
        yield len(batch), list(zip(*batch, strict=True))


def build(
    names: Sequence[str], batches: Iterable[Batch], rows: int | None = None, make: Make = ColumnBuilder
) -> Iterator[list[Column]]:
    """Build columns from batches; yield them after so many rows, and in the end. Names may be appended in between."""
    builders: list[Any] = []
    held = 0
    for size, batch in batches:
        builders += map(make, names[len(builders) :])
        for builder, cells in zip(builders, batch, strict=True):
            builder.add(cells, held)
        held += size
        if rows is not None and held >= rows:
            yield [builder.column() for builder in builders]
            builders, held = [], 0
    if held:
        yield [builder.column() for builder in builders]


class Wanted(NamedTuple):
    """What to read: the name of the table, the columns of a long one, and after how many rows to begin a new table."""

    name: str = "data"
    pair: Pair = NO_PAIR
    rows: int | None = None


def tables(  # noqa: PLR0913, PLR0917  # what a reader knows
    names: Sequence[str],
    batches: Iterable[Batch],
    source: str,
    wanted: Wanted,
    make: Make = ColumnBuilder,
    place: Callable[[int], str] | None = None,
    *,
    empty: bool = False,
) -> Iterator[EncodedTable]:
    """Return tables of the wanted cells; without rows there is one only if it may be `empty`."""
    chosen = positions(names, wanted.pair, source)
    kept = [names[k] for k in chosen]
    built = build(kept, ((size, [cells[k] for k in chosen]) for size, cells in batches), wanted.rows, make)
    first = next(built, [make(name).column() for name in kept] if empty else None)
    if first is None:
        raise DataError(f"{source}: the table has no rows; check the data, or the query")
    is_pair = wanted.pair != NO_PAIR
    yield from (EncodedTable(columns, wanted.name, source, place, None, is_pair) for columns in chain([first], built))
