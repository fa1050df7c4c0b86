"""A table in terms of a schema: its columns found, its values read, its units converted."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedslim.data.columns import MISSING, Column, EncodedTable, check_names, number_transactions
from fedslim.data.database import TransactionDatabase, first_repeat
from fedslim.data.discretise import interval_labels
from fedslim.data.readers import read_table
from fedslim.errors import DataError
from fedslim.format import count
from fedslim.schema.reading import OTHER, ColumnValues, read_column
from fedslim.schema.rules import ColumnRule

if TYPE_CHECKING:
    from fedslim.schema.agreeing import Agreed
    from fedslim.schema.file import Schema

_NAMED = 20
_LISTED = 4
logger = logging.getLogger(__name__)
IN_HEADER = re.compile(r"(.+?)\s*[\[(]([^\[\]()]+)[\])]")  # a header with a unit, such as `hb (g/L)`


@dataclass(frozen=True, slots=True)
class ColumnReport:
    """What a column became. `name` is None for a column that the schema does not know; errors say what does not fit."""

    name: str | None
    found: str | None
    kind: str
    becomes: str
    missing: int = 0
    notes: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


class Conformed:
    """The table of one site in terms of a schema; `report` says column by column what it became."""

    def __init__(self, schema: Schema, table: EncodedTable) -> None:
        check_names(table.names, table.source)
        self.schema = schema
        self.source = table.source
        self.name = table.name
        self.report: list[ColumnReport] = []
        self._parts: dict[str, ColumnValues] = {}
        self._transactions: NDArray[np.int32] | None = None  # of each row, if the table is long
        self._headers = table.names
        found = self._find(table.columns)
        if schema.is_long:
            self._read_long(found)
        else:
            self.rows = table.size
            for name, rule in schema.columns.items():
                self._read(name, rule, found.get(name))
        taken = {column.name for column, _ in found.values()}
        for column in table.columns:
            if column.name not in taken:
                self.report.append(ColumnReport(None, column.name, "ignore", "nothing: not in the schema"))

    rows: int  # the number of transactions

    def values(self, column: str) -> NDArray[np.float64]:
        """Return the numbers of an open column, in the schema's unit, without missing ones."""
        part = self._parts.get(column)
        return np.empty(0) if part is None else part.numbers[part.codes[part.codes != MISSING]]

    def categories(self, column: str) -> dict[str, int]:
        """Return the categories of a capped column, with the number of rows of each."""
        part = self._parts.get(column)
        if part is None:
            return {}
        counts = np.bincount(part.codes[part.codes != MISSING], minlength=len(part.labels)).tolist()
        return {label: count for label, count in zip(part.labels, counts, strict=True) if label != OTHER}

    def items(
        self, agreed: Agreed, known: Callable[[str], bool] | None = None, *, strict: bool = True
    ) -> TransactionDatabase:
        """Return the transactions. Items are in the order of the schema, and only those that occur.

        An item that is not `known` from an earlier preparation becomes `column=other`, or no item if that is not known
        either, or an error, as the schema says; if not `strict`, it is never an error, and not logged.
        """
        tids, ids = [np.empty(0, np.int32)], [np.empty(0, np.int32)]  # of 32 bits: they are the largest arrays here
        vocabulary: list[str] = []
        new: list[str] = []
        for column, part in self._parts.items():
            codes, named = self._labelled(column, part, agreed)
            numbers = np.full(len(named) + 1, MISSING, np.int32)  # of the item of each code, and of what is missing
            place: dict[str, int] = {}
            for code in np.unique(codes[codes != MISSING]).tolist():  # empty intervals need not be known
                label = named[code] if known is None else self._replace(named[code], column, known, strict)
                new += [named[code]] if label != named[code] else []
                if label:
                    numbers[code] = place.setdefault(label, len(vocabulary) + len(place))
            items = numbers[codes]
            rows = np.flatnonzero(items != MISSING).astype(np.int32)
            tids.append(rows if self._transactions is None else self._transactions[rows])
            ids.append(items[rows])
            vocabulary += place
        if strict and new:  # with a kept preparation only: over NVFlare the server reads the log
            shown = ", ".join(new[:_NAMED]) + (", …" if len(new) > _NAMED else "")
            told = "%s: new since the preparation, so taken as other, or as no item: %s"
            logger.warning(told, self.source, shown)
        if (twin := first_repeat(vocabulary)) is not None:
            raise DataError(f"{self.source}: two columns make the same item {twin!r}; rename one of them in the schema")
        return TransactionDatabase.from_pairs(
            np.concatenate(tids), np.concatenate(ids), vocabulary, transactions=self.rows, name=self.name
        )

    def take(self, rows: Sequence[int]) -> Conformed:
        """Return the given rows of a table with a row for each transaction."""
        taken = copy(self)
        taken.rows = len(rows)
        taken._parts = {  # noqa: SLF001  # a copy of this one
            name: replace(part, codes=part.codes[list(rows)]) for name, part in self._parts.items()
        }
        return taken

    @property
    def occurrences(self) -> int:
        """How many items its transactions have."""
        return sum(int(np.count_nonzero(part.codes != MISSING)) for part in self._parts.values())

    def first_rows(self, agreed: Agreed) -> dict[str, NDArray[np.intp]]:
        """Return, for each column of the site's table, rows that have all its categories or intervals."""
        parts = {str(one.found): one.name for one in self.report if one.name in self._parts}
        codes = {found: self._labelled(str(name), self._parts[str(name)], agreed)[0] for found, name in parts.items()}
        return {found: np.unique(column, return_index=True)[1] for found, column in codes.items()}

    def hashes(self) -> NDArray[np.uint64]:
        """Return a hash of the values of each transaction; those of equal transactions are equal."""
        total = np.zeros(self.rows, np.uint64)
        for column, part in self._parts.items():
            known = part.numbers.tolist() if self._rule(column).kind == "numeric" else part.labels
            texts = (f"{len(column)} {column}={value!r}".encode("utf-8", "surrogatepass") for value in known)
            hashed = np.frombuffer(b"".join(blake2b(text, digest_size=8).digest() for text in texts), "<u8")
            rows = np.flatnonzero(part.codes != MISSING)
            at = rows if self._transactions is None else self._transactions[rows]
            np.add.at(total, at, hashed[part.codes[rows]])
        return total

    def _replace(self, label: str, column: str, known: Callable[[str], bool], strict: bool) -> str | None:
        if known(label):
            return label
        if strict and self.schema.table.new == "error":
            msg = f'{self.source}: the item {label!r} is new since the preparation; prepare again, or let new = "other"'
            raise DataError(msg)
        other = OTHER if self.schema.is_long else f"{column}={OTHER}"
        return other if known(other) else None

    def _labelled(self, column: str, part: ColumnValues, agreed: Agreed) -> tuple[NDArray[np.int32], list[str]]:
        """Return the codes of a column, and the item of each code."""
        rule = self._rule(column)
        if rule.kind == "numeric":
            cuts = rule.cuts or agreed.cuts[column]
            places = np.searchsorted(np.array(cuts, np.float64), part.numbers, side="right")
            codes = np.append(places, MISSING).astype(np.int32)[part.codes]
            return codes, [f"{column}={label}" for label in interval_labels(cuts)]
        if rule.kind == "boolean":
            return part.codes, [column for _ in part.labels]
        labels = part.labels
        if rule.cap is not None:
            labels = [label if label in agreed.kept[column] else OTHER for label in labels]
        return part.codes, labels if self.schema.is_long else [f"{column}={label}" for label in labels]

    def _rule(self, column: str) -> ColumnRule:
        return self.schema.columns.get(column) or ColumnRule("categorical")

    def _find(self, columns: Sequence[Column]) -> dict[str, tuple[Column, str | None]]:
        """Return the site's column for each column of the schema, with the unit that it names."""
        spelled: dict[str, tuple[str, str | None]] = {}
        for name in filter(None, (self.schema.table.transaction, self.schema.table.item)):
            spelled[name.casefold()] = (name, None)
        for name, rule in self.schema.columns.items():
            aliases = {alias.casefold(): unit for alias, unit in (rule.alias_units or {}).items()}
            for spelling in map(str.casefold, rule.spellings(name)):
                spelled[spelling] = (name, aliases.get(spelling))
                for unit in filter(None, (rule.unit, *(rule.units or ()))):
                    spelled.setdefault(f"{spelling} ({unit.casefold()})", (name, unit))
        found: dict[str, tuple[Column, str | None]] = {}
        for column in columns:
            header = column.name.strip().casefold()
            parts = IN_HEADER.fullmatch(header)  # the name itself may have brackets, too
            known = spelled.get(header) or (spelled.get(f"{parts[1]} ({parts[2]})") if parts else None)
            if known is None:
                continue
            name, named = known
            if name in found:
                twins = f"{found[name][0].name!r} and {column.name!r}"
                msg = f"{self.source}: the columns {twins} are both {name!r} of the schema; remove one of them"
                raise DataError(msg)
            found[name] = (column, named)
        return found

    def _missing(self, name: str, rule: ColumnRule) -> str:
        """Return what to do about a column that is not there; its header may name a unit that the schema lacks."""
        spellings = set(map(str.casefold, rule.spellings(name)))
        for match in filter(None, map(IN_HEADER.fullmatch, self._headers)):
            if match[1].casefold() in spellings:
                return f"the schema does not know the unit of {match[0]!r}; add {match[2]!r} as unit, or to units"
        return "there is no such column; rename a column of the data, or add its name to aliases"

    def _read(self, name: str, rule: ColumnRule, found: tuple[Column, str | None] | None) -> None:
        if found is None:
            errors = () if rule.optional or rule.kind == "ignore" else (self._missing(name, rule),)
            self.report.append(ColumnReport(name, None, rule.kind, "nothing: no such column", 0, (), errors))
            return
        part = read_column(found[0], rule, self.schema.table.missing, found[1])
        if rule.kind != "ignore":
            self._parts[name] = part
        gone = int(np.count_nonzero(part.codes == MISSING)) if rule.kind not in {"ignore", "boolean"} else 0
        if rule.kind != "ignore" and gone == len(part.codes):
            part.notes.append("every value is missing")
        self.report.append(
            ColumnReport(
                name, found[0].name, rule.kind, _becomes(rule, part), gone, tuple(part.notes), tuple(part.errors)
            )
        )

    def _read_long(self, found: dict[str, tuple[Column, str | None]]) -> None:
        transaction, item = str(self.schema.table.transaction), str(self.schema.table.item)
        for name in (transaction, item):
            if name not in found:
                raise DataError(f"{self.source}: there is no column {name!r}, which the schema names; correct the name")
        self._transactions, self.rows = number_transactions(found[transaction][0], self.source)
        self._read(item, self._rule(item), found[item])


def _becomes(rule: ColumnRule, part: ColumnValues) -> str:
    match rule.kind:
        case "numeric":
            return f"{len(rule.cuts) + 1} fixed intervals" if rule.cuts else f"at most {rule.bins} intervals"
        case "boolean":
            return "one item, where true"
        case "ignore":
            return "nothing: ignored"
        case "date":
            return f"{len(part.labels)} items, by {rule.part}"
        case _:
            capped = "" if rule.cap is None else f", at most {rule.cap} kept"
            few = ", ".join(f"{label:.40}" for label in part.labels[:_LISTED]) + (
                ", …" if len(part.labels) > _LISTED else ""
            )
            return f"{count(len(part.labels), 'item')}{capped}" + (f": {few}" if few and not capped else "")


def conform(schema: Schema, table: EncodedTable) -> Conformed:
    """Return a table in terms of the schema; an error names the first column that is missing or does not fit."""
    site = Conformed(schema, table)
    if not any(column.name and column.found for column in site.report):
        known = ", ".join(column.name for column in table.columns[:_NAMED])
        msg = f"{table.source}: none of the schema's columns is here, only {known}; check that these are the right data"
        raise DataError(msg)
    for column in site.report:
        if column.errors:
            where = column.found or column.name
            raise DataError(f"{table.source}: column {where!r}: {column.errors[0]}")
    return site


def conform_file(schema: Schema, path: str | os.PathLike[str], *, format: str | None = None) -> Conformed:  # noqa: A002
    """Return the table in a file in terms of the schema."""
    table = read_table(path, format=format)
    if table is None:
        raise DataError(f"{path}: a schema is for tables with columns; name a file such as CSV or Parquet")
    return conform(schema, table)
