"""Encode tables as transactions with `column=value` items, and keep the encoding for later data.

    database, encoding = encode_table(table)                  # chooses one-hot or categorical, and where to cut
    unseen, _ = encode_table(other, encoding=encoding)        # applies these choices: the same values, the same items

To compare new rows with a model, encode them as the model's data were encoded. A new encoding, from five rows instead
of five thousand, would cut other intervals and silently give other items.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, Unpack

import numpy as np

from fedslim.data.columns import MISSING, Coded, TextColumn, check_names
from fedslim.data.database import TransactionDatabase, first_repeat
from fedslim.data.discretise import DEFAULT_BINS, Intervals, check_bins
from fedslim.data.guessing import guess_column, looks_long
from fedslim.data.parsing import decimal_mark, parse_number
from fedslim.errors import DataError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fedslim.data.columns import Column

logger = logging.getLogger(__name__)

_NAMED = 20
"""How many column names a message lists."""


@dataclass(frozen=True, slots=True)
class EncodedTable:
    """Columns of equal length, not yet converted to items; `source` names the table in messages."""

    columns: Sequence[Column]
    name: str
    source: str
    place: Callable[[int], str] | None = None  # the position of a row (from 0) in the file, for messages


class Choices(TypedDict, total=False):
    """What people may choose instead of the guesses; the same names as the options of the command line."""

    columns: Sequence[str] | None  # the only ones to use
    exclude: Sequence[str] | None  # columns to leave out
    categorical: Sequence[str] | None  # columns whose numbers are not cut
    numeric: Sequence[str] | None  # columns to cut, even if the numbers start with zeros
    one_hot: bool | None  # whether the columns are items
    missing: Sequence[str] | None  # more spellings of a missing value


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
        cuts = [
            {"cuts": list(each.cuts), "labels": list(each.labels), "mark": each.mark}
            if isinstance(each, Intervals)
            else each
            for each in self.intervals
        ]
        listed = {name: list(getattr(self, name)) for name in ("columns", "ignored", "missing")}
        return {"kind": self.kind, "intervals": cuts, **listed}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Encoding:
        """Return an encoding without a schema that `to_dict` described."""
        cuts = tuple(
            Intervals(tuple(each["cuts"]), tuple(each["labels"]), each["mark"]) if isinstance(each, dict) else each
            for each in plain["intervals"]
        )
        return cls(plain["kind"], tuple(plain["columns"]), cuts, tuple(plain["ignored"]), tuple(plain["missing"]))


ITEMS = Encoding("items")
"""The encoding of lists of items."""


def encode_table(
    table: EncodedTable,
    *,
    bins: int = DEFAULT_BINS,
    encoding: Encoding | None = None,
    schema: TableSchema | None = None,
    **choices: Unpack[Choices],
) -> tuple[TransactionDatabase, Encoding]:
    """Convert each row to a transaction, with the given encoding or schema, or by guesses and choices.

    If all columns are flags, items are the column names; otherwise they are `column=value`.

    Raises:
        DataError: The columns do not match the encoding; the message names the first that differs.
    """
    check_bins(bins)
    check_names([column.name for column in table.columns], table.source)
    rules = schema if encoding is None else encoding.rules
    if rules is not None:
        check_no_choices("a schema", None, choices)
        database, encoding = rules.encode(table)
        return replace(database, encoding=encoding), encoding
    parts, encoding = _decide(table, bins, choices) if encoding is None else (_apply(table, encoding), encoding)
    vocabulary = [label for part in parts for label in part.labels]
    if (twin := first_repeat(vocabulary)) is not None:
        msg = f"{table.source}: two columns make the same item {twin!r}; rename one of them"
        raise DataError(msg)
    return replace(_rows_from_codes(parts, vocabulary, table.name), encoding=encoding), encoding


def check_no_choices(what: str, schema: TableSchema | None, choices: Choices) -> None:
    """Check that nothing is said about columns where nothing can be chosen.

    Raises:
        ParameterError: There is a schema or a choice.
    """
    for option, choice in {"schema": schema, **choices}.items():
        if choice is not None:
            msg = f"{option} does not go with {what}; leave it out"
            raise ParameterError(msg)


def _decide(table: EncodedTable, bins: int, choices: Choices) -> tuple[list[Coded], Encoding]:
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
    if (pair := looks_long(table.columns)) is not None:
        how = "--transaction-column {!r} --item-column {!r}".format(*pair)
        odd.append(f"each row may have a transaction and one of its items; if so, add {how}")
    if odd:
        logger.warning("%s: %s; see `fedslim data describe`", table.source, "; ".join(odd))
    coded: dict[str, Coded] = {}
    intervals: list[Any] = []
    for column in columns:
        name, guess = column.name, guesses.get(column.name)
        part = guess.kind if guess is not None and guess.kind in {"year", "month"} else None
        coded[name] = _placed(column, part) if part else column.coded(None if name in whole else bins)
        intervals.append(part or coded[name].intervals)
    encoding = Encoding("categorical", tuple(coded), tuple(intervals), ignored, missing)
    return [_prefix(name, each) for name, each in coded.items()], encoding


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
    names = [column.name for column in table.columns]
    lists: dict[str, Any] = {option: choices.get(option) or () for option in _LISTS}
    for option, listed in lists.items():
        if (lost := next((name for name in listed if name not in names), None)) is not None:
            known = ", ".join(map(repr, names[:_NAMED]))
            msg = f"{table.source}: there is no column {lost!r}, which is in {option}; the columns are {known}"
            raise DataError(msg)
    if both := set(lists["categorical"]) & set(lists["numeric"]):
        msg = f"{min(both)!r} is both categorical and numeric; name it once"
        raise ParameterError(msg)
    used = [name for name in names if name in (lists["columns"] or names) and name not in lists["exclude"]]
    if not used:
        msg = f"{table.source}: no column is left; choose at least one"
        raise ParameterError(msg)
    gone = frozenset(choices.get("missing") or ())
    kept = [column.without(gone) if gone else column for column in table.columns if column.name in used]
    kept = [_as_numeric(column, table.source) if column.name in lists["numeric"] else column for column in kept]
    return kept, tuple(name for name in names if name not in used)


def _as_numeric(column: Column, source: str) -> Column:
    if not isinstance(column, TextColumn):
        return column
    taken = replace(column, cut=True, codes_too=True)
    whole = taken.coded(None)
    mark = decimal_mark(whole.labels) or "."
    if odd := next((text for text in whole.labels if parse_number(text, mark) is None), None):
        msg = (
            f"{source}: the column {column.name!r} has the value {odd!r:.40}, which is not a number; add it to "
            "missing, or leave the column out of numeric"
        )
        raise DataError(msg)
    return taken


def _apply(table: EncodedTable, encoding: Encoding) -> list[Coded]:
    columns = _match(table, encoding)
    if encoding.kind == "one-hot":
        return [_flag(column, table.source) for column in columns]
    return [_prefix(column.name, _placed(column, how)) for column, how in zip(columns, encoding.intervals, strict=True)]


def _placed(column: Column, how: Intervals | str | None) -> Coded:
    if isinstance(how, Intervals):
        return column.placed(how)
    return column.coded(None) if how is None or not isinstance(column, TextColumn) else column.dated(how)


def _match(table: EncodedTable, encoding: Encoding) -> list[Column]:
    """Return the table's columns in the order of the encoding; both must have the same columns."""
    if encoding.kind == "items":
        msg = (
            f"{table.source}: this is a table with the column {table.columns[0].name!r}, but the model was fitted on "
            "lists of items; give lists of items, or fit on a table (a code table file of version 1 or 2 does not say "
            "how its table was encoded: mine it again)"
        )
        raise DataError(msg)
    gone = frozenset(encoding.missing)
    columns = {c.name: c.without(gone) if gone else c for c in table.columns if c.name not in encoding.ignored}
    known = ", ".join(map(repr, encoding.columns[:_NAMED])) + (", ..." if len(encoding.columns) > _NAMED else "")
    if (lost := next((name for name in encoding.columns if name not in columns), None)) is not None:
        msg = f"{table.source}: there is no column {lost!r}; the model was fitted on a table with the columns {known}"
        raise DataError(msg)
    if (new := next((name for name in columns if name not in set(encoding.columns)), None)) is not None:
        msg = f"{table.source}: the model was not fitted on the column {new!r}; drop it, the columns are {known}"
        raise DataError(msg)
    return [columns[name] for name in encoding.columns]


def _flag(column: Column, source: str = "the table") -> Coded:
    flags = column.flags()
    if flags is None:
        msg = (
            f"{source}: the column {column.name!r} has values other than 0, 1, true and false, so it does not fit "
            "one_hot, or a model that was fitted on a one-hot table; leave the column or the option out, or fit again"
        )
        raise DataError(msg)
    return Coded(np.where(flags, 0, MISSING).astype(np.int32), [column.name])


def _prefix(name: str, coded: Coded) -> Coded:
    return Coded(coded.codes, [f"{name}={label}" for label in coded.labels])


def _rows_from_codes(coded: Sequence[Coded], vocabulary: list[str], name: str) -> TransactionDatabase:
    """Collect (row, item) pairs column by column; memory is linear in the number of items present."""
    tids, ids, first = [], [], 0
    for part in coded:
        rows = np.flatnonzero(part.codes != MISSING)
        tids.append(rows)
        ids.append(part.codes[rows].astype(np.int64) + first)
        first += len(part.labels)
    return TransactionDatabase.from_pairs(
        np.concatenate(tids), np.concatenate(ids), vocabulary, transactions=len(coded[0].codes), name=name
    )
