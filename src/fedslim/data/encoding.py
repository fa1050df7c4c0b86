"""Encode tables as transactions with `column=value` items, and keep the encoding for later data.

To compare new rows with a model, encode them as the model's data were encoded. A new encoding, from five rows instead
of five thousand, would cut other intervals and silently give other items.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Literal, Protocol, TypedDict, Unpack

import msgspec
import numpy as np

from fedslim.data.columns import MISSING, Column, EncodedTable, check_names, number_transactions, recode
from fedslim.data.database import TransactionDatabase, first_repeat
from fedslim.data.discretise import DEFAULT_BINS, Intervals, equal_frequency
from fedslim.data.guessing import PAIR, guess_column, guess_long, long_by_name, looks_long
from fedslim.data.parsing import check_whole, parse_date, parse_number
from fedslim.errors import DataError, ParameterError

logger = logging.getLogger(__name__)

_NAMED = 20  # how many column names a message lists


class Choices(TypedDict, total=False):
    """What people may choose instead of the guesses; the same names as the options of the command line."""

    columns: Sequence[str] | None  # the only ones to use
    exclude: Sequence[str] | None  # columns to leave out
    categorical: Sequence[str] | None  # columns whose numbers are not cut
    numeric: Sequence[str] | None  # columns to cut, even if the numbers start with zeros
    one_hot: bool | None  # whether the columns are items
    missing: Sequence[str] | None  # more spellings of a missing value
    long: bool | None  # whether rows have a transaction and one of its items, or an attribute and its value


class TableSchema(Protocol):
    """A schema, as the functions that read data see it: alone, or with what follows from the data."""

    def encode(self, table: EncodedTable) -> tuple[TransactionDatabase, Encoding]:
        """Convert a table. What is open follows from its own rows."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        ...


@dataclass(frozen=True, slots=True)
class Encoding:
    """How rows were converted to items. Immutable and picklable; equal encodings give equal items.

    `items`: the rows were lists of items already. `one-hot`: each column is an item. `categorical`: items are
    `column=value`, and `intervals` has the cuts of each column, or what is kept of its dates, or None. `schema`: as
    `rules` says. Columns in `ignored` may be present, and make no items; `missing` are more missing values.
    """

    kind: Literal["items", "one-hot", "categorical", "schema"]
    columns: tuple[str, ...] = ()
    intervals: tuple[Intervals | Literal["year", "month"] | None, ...] = ()
    ignored: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    rules: TableSchema | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; `fedslim.schema.encoding_from_dict` reads them."""
        if self.rules is not None:
            return {"kind": self.kind, **self.rules.to_dict()}
        plain = msgspec.to_builtins(self)
        return {name: plain[name] for name in ("kind", "intervals", "columns", "ignored", "missing")}


ITEMS = Encoding("items")  # the encoding of lists of items


def encode_table(
    table: EncodedTable,
    *,
    bins: int = DEFAULT_BINS,
    encoding: Encoding | None = None,
    schema: TableSchema | None = None,
    **choices: Unpack[Choices],
) -> tuple[TransactionDatabase, Encoding]:
    """Convert each row to a transaction, with the given encoding or schema, or by guesses and choices.

    If all columns are flags, items are the column names; otherwise they are `column=value`. A long table has a
    transaction for several rows.
    """
    check_whole("bins", bins, 2)  # a single interval carries no information
    check_names(table.names, table.source)
    if table.is_pair:
        check_no_choices("a long table", schema=schema)
        return _items(table, table.columns, choices), ITEMS
    rules = schema if encoding is None else encoding.rules
    if rules is not None:
        check_no_choices("a schema", **choices)
        database, encoding = rules.encode(table)
        return replace(database, encoding=encoding), encoding
    if (found := find_long(table, encoding, choices)) is not None:
        columns = [table.columns[place] for place in found]
        if encoding is None and choices.get("long") is None:
            tell_long(table)
        if len(found) == PAIR:
            return _items(table, columns, choices), ITEMS
        table = by_attribute(table, columns)
    parts, encoding = _decide(table, bins, choices) if encoding is None else (_apply(table, encoding), encoding)
    vocabulary = [label for part in parts for label in part.values]
    if (twin := first_repeat(vocabulary)) is not None:
        raise DataError(f"{table.source}: two columns make the same item {twin!r}; rename one of them")
    return replace(_rows_from_codes(parts, vocabulary, table), encoding=encoding), encoding


# -- long tables -----------------------------------------------------------------------------------------------------


def find_long(table: EncodedTable, encoding: Encoding | None, choices: Choices) -> tuple[int, ...] | None:
    """Return the positions of the columns of a long table: transaction, item or attribute, and value; else None."""
    wanted, names = choices.get("long"), table.names
    if wanted is False:
        return None
    if wanted:
        if len(names) not in {PAIR, PAIR + 1}:
            raise ParameterError(
                f"{table.source}: a long table has two or three columns, not {len(names)}; leave out long"
            )
        return long_by_name(names) or tuple(range(len(names)))
    if encoding is not None:  # fitted on items or on attributes, which are no columns of this table
        found = long_by_name(names)
        fits = (encoding.kind == "items") == (found is not None and len(found) == PAIR)
        return found if fits and set(encoding.columns).isdisjoint(names) else None
    lists: dict[str, Any] = {**choices}
    named = {name for option in _LISTS for name in lists.get(option) or ()}
    if choices.get("one_hot") is not None or not named.isdisjoint(names):
        return None  # who speaks of the columns means them
    return guess_long(table.columns)


def tell_long(table: EncodedTable) -> None:
    """Say that a table is taken as a long one, because of its names."""
    named = [table.names[place] for place in long_by_name(table.names) or ()]
    how = ("transactions in {!r}, items in {!r}" if len(named) == PAIR else "transactions in {!r}, {!r} = {!r}").format(
        *named
    )
    told = "%s: taken as a long table (%s); if it is none, add --no-long; see `fedslim data describe`"
    logger.warning(told, table.source, how)


def _items(table: EncodedTable, columns: Sequence[Column], choices: Choices) -> TransactionDatabase:
    check_no_choices("a long table", **{**choices, "missing": None, "long": None})
    item = columns[1].without(frozenset(choices.get("missing") or ()))
    number, size = number_transactions(columns[0], table.source, table.place)
    known = item.codes != MISSING  # a row without an item declares a transaction, possibly empty
    number, codes = (number, item.codes) if known.all() else (number[known], item.codes[known])
    return TransactionDatabase.from_pairs(number, codes, item.labels, transactions=size, name=table.name)


def by_attribute(table: EncodedTable, columns: Sequence[Column]) -> EncodedTable:
    """Return a table with a column for each attribute, of those transactions that have it."""
    transaction, attribute, value = columns
    numbers, size = number_transactions(transaction, table.source, table.place)
    order = np.argsort(attribute.codes, kind="stable")
    ends = np.searchsorted(attribute.codes[order], np.arange(len(attribute.values) + 1))
    parts = []
    for name, start, end in zip(attribute.labels, ends, ends[1:], strict=False):
        rows = order[start:end]
        parts.append(replace(value.with_codes(value.codes[rows]), name=name, rows=numbers[rows]))
    check_names([column.name for column in parts], table.source)
    return replace(table, columns=parts, transactions=size)


def check_no_choices(what: str, **choices: object) -> None:
    """Check that nothing is said about columns where nothing can be chosen."""
    for option, choice in choices.items():
        if choice is not None and (option, choice) != ("long", False):
            raise ParameterError(f"{option} does not go with {what}; leave it out")


def _decide(table: EncodedTable, bins: int, choices: Choices) -> tuple[list[Column], Encoding]:
    columns, ignored = _chosen(table, choices)
    missing, one_hot = tuple(choices.get("missing") or ()), choices.get("one_hot")
    if one_hot or (one_hot is None and all(column.is_flag() for column in columns)):
        encoding = Encoding("one-hot", tuple(column.name for column in columns), (), ignored, missing)
        return [_flag(column, table.source) for column in columns], encoding
    whole = set(choices.get("categorical") or ())
    asked = {*whole, *(choices.get("numeric") or ()), *(choices.get("columns") or ())}
    guesses = {column.name: guess_column(column, bins) for column in columns if column.name not in asked}
    unlike = [name for name, guess in guesses.items() if guess.kind == "ignore"]
    if len(unlike) < len(columns):
        columns, ignored = [column for column in columns if column.name not in unlike], (*ignored, *unlike)
    odd = [f"{name!r}: {guess.note}, {_TREATED[guess.kind]}" for name, guess in guesses.items() if guess.odd]
    plain = choices.get("long") is None and table.transactions is None
    if plain and (pair := looks_long(table.columns)) is not None:
        how = "--transaction-column {!r} --item-column {!r}".format(*pair)
        odd.append(f"each row may have a transaction and one of its items; if so, add {how}")
    if odd:
        logger.warning("%s: %s; see `fedslim data describe`", table.source, "; ".join(odd))
    parts = {n: guess.kind for n, guess in guesses.items() if guess.kind in {"year", "month"}}
    cuts: dict[str, Any] = {
        column.name: parts.get(column.name) or (None if column.name in whole else _cuts(column, bins))
        for column in columns
    }
    encoding = Encoding("categorical", tuple(cuts), tuple(cuts.values()), ignored, missing)
    return [_coded(column, cuts[column.name]) for column in columns], encoding


_TREATED = {
    "ignore": "left out",
    "month": "by month",
    "year": "by year",
    "categorical": "not taken as numbers",
    "numeric": "taken as a number",
}


_LISTS = ("columns", "exclude", "categorical", "numeric")


def _chosen(table: EncodedTable, choices: Choices) -> tuple[list[Column], tuple[str, ...]]:
    """Return the columns to use, and the names of the others."""
    names = table.names
    lists: dict[str, Any] = {option: choices.get(option) or () for option in _LISTS}
    for option, listed in lists.items():
        if (lost := next((name for name in listed if name not in names), None)) is not None:
            known = ", ".join(map(repr, names[:_NAMED]))
            msg = f"{table.source}: there is no column {lost!r}, which is in {option}; the columns are {known}"
            raise DataError(msg)
    if both := set(lists["categorical"]) & set(lists["numeric"]):
        raise ParameterError(f"{min(both)!r} is both categorical and numeric; name it once")
    used = [name for name in names if name in (lists["columns"] or names) and name not in lists["exclude"]]
    if not used:
        raise ParameterError(f"{table.source}: no column is left; choose at least one")
    gone = frozenset(choices.get("missing") or ())
    kept = [column.without(gone) for column in table.columns if column.name in used]
    kept = [_as_numeric(column, table.source) if column.name in lists["numeric"] else column for column in kept]
    return kept, tuple(name for name in names if name not in used)


def _as_numeric(column: Column, source: str) -> Column:
    if not column.is_text:
        return column
    taken = column.with_codes(column.codes, zeros=True)
    if odd := next((text for text in taken.values if parse_number(text, taken.mark) is None), None):
        raise DataError(
            f"{source}: the column {column.name!r} has the value {odd!r:.40}, which is not a number; add it to "
            "missing, or leave the column out of numeric"
        )
    return taken


def _apply(table: EncodedTable, encoding: Encoding) -> list[Column]:
    columns = _match(table, encoding)
    if encoding.kind == "one-hot":
        return [_flag(column, table.source) for column in columns]
    return [_coded(column, how) for column, how in zip_longest(columns, encoding.intervals)]


def _match(table: EncodedTable, encoding: Encoding) -> list[Column]:
    """Return the table's columns in the order of the encoding; both must have the same columns."""
    if encoding.kind == "items":
        raise DataError(
            f"{table.source}: this is a table with the column {table.columns[0].name!r}, but the model was fitted on "
            "lists of items; give lists of items, or fit on a table (a code table file of version 1 or 2 does not say "
            "how its table was encoded: mine it again)"
        )
    gone = frozenset(encoding.missing)
    columns = {column.name: column.without(gone) for column in table.columns if column.name not in encoding.ignored}
    if table.transactions is not None:  # no transaction may have an attribute, or the first may have a new one
        nowhere = Column.of_texts("", np.empty(0, np.int32), [])
        fitted = {name: replace(nowhere, name=name, rows=nowhere.codes) for name in encoding.columns}
        return list((fitted | columns).values())
    known = ", ".join(map(repr, encoding.columns[:_NAMED])) + (", ..." if len(encoding.columns) > _NAMED else "")
    if (lost := next((name for name in encoding.columns if name not in columns), None)) is not None:
        msg = f"{table.source}: there is no column {lost!r}; the model was fitted on a table with the columns {known}"
        raise DataError(msg)
    if (new := next((name for name in columns if name not in set(encoding.columns)), None)) is not None:
        msg = f"{table.source}: the model was not fitted on the column {new!r}; leave it out: the columns are {known}"
        raise DataError(msg)
    return [columns[name] for name in encoding.columns]


def _flag(column: Column, source: str = "the table") -> Column:
    flags = column.flags()
    if flags is None:
        raise DataError(
            f"{source}: the column {column.name!r} has values other than 0, 1, true and false, so it does not fit "
            "one_hot, or a model that was fitted on a one-hot table; leave the column or the option out, or fit again"
        )
    return replace(column, codes=np.where(flags, 0, MISSING).astype(np.int32), values=[column.name])


def _cuts(column: Column, bins: int) -> Intervals | None:
    """Return how to cut numbers with more than `bins` distinct values; equal values (1 and 1.0) stay together."""
    if column.numbers is None or not column.cut or column.numbers.dtype == bool:
        return None
    distinct, same = np.unique(column.numbers, return_inverse=True)
    if len(distinct) <= bins:
        return None
    counts = np.bincount(same[column.codes[column.codes != MISSING]], minlength=len(distinct))
    return replace(equal_frequency(distinct, counts, bins), mark=column.mark)


def _coded(column: Column, how: Intervals | str | None) -> Column:
    """Make items of values, by intervals, or by `year` or `month`; texts that are no numbers or dates stay."""
    if isinstance(how, Intervals):
        numbers = (
            [parse_number(v, how.mark) for v in column.values] if column.is_text else np.array(column.values).tolist()
        )
        labels = [v if n is None else how.label(n) for v, n in zip(column.values, numbers, strict=True)]
    elif how is not None and column.is_text:
        length = len("2026") if how == "year" else len("2026-03")
        days = map(parse_date, column.values)
        labels = [v if day is None else day.isoformat()[:length] for v, day in zip(column.values, days, strict=True)]
    else:
        labels = column.labels
    items = [f"{column.name}={label}" for label in labels]
    place = {item: code for code, item in enumerate(dict.fromkeys(items))}
    return replace(column, codes=recode(column.codes, [place[item] for item in items]), values=list(place))


def _rows_from_codes(parts: Sequence[Column], vocabulary: list[str], table: EncodedTable) -> TransactionDatabase:
    """Collect (row, item) pairs column by column; memory is linear in the number of items present."""
    tids, ids, first = [], [], 0
    for part in parts:
        here = np.flatnonzero(part.codes != MISSING)
        tids.append(here if part.rows is None else part.rows[here])
        ids.append(part.codes[here].astype(np.int64) + first)
        first += len(part.values)
    return TransactionDatabase.from_pairs(
        np.concatenate(tids), np.concatenate(ids), vocabulary, transactions=table.size, name=table.name
    )
