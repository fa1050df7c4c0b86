"""`schema.toml`: what the columns of all members mean. People write it; it contains no data but what they wrote."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from fedslim.data.atomic import make_folder_for, replacing
from fedslim.data.discretise import DEFAULT_BINS
from fedslim.data.textstream import real_path, told_as_data_errors
from fedslim.errors import ConfigurationError
from fedslim.toml import values
from fedslim.toml.keys import MAX_BYTES, key, section, tables, unknown
from fedslim.toml.values import spell

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

KINDS = ("categorical", "numeric", "boolean", "date", "ignore")
MAX_COLUMNS = 10_000
MAX_BINS = 1000
MAX_CAP = 1_000_000
MAX_TEXT = 1000
DIGEST_BYTES = 32
_DIGEST = b"fedslim schema 1"
_WHAT, _BEGIN = "a schema", "fedslim schema make DATA"


@dataclass(frozen=True)
class TableRule:
    """The table `[table]`."""

    HEADING: ClassVar[str] = "What holds for the whole table."

    missing: tuple[str, ...] = key(
        values.texts(MAX_TEXT),
        "Spellings of a missing value in any column, besides the usual ones: an empty cell, ?, NA, N/A, NaN, null.",
        default=(),
    )
    new: str = key(
        values.one_of("other", "error"),
        'What a category becomes that an earlier preparation did not know: "other" or an "error".',
        default="other",
    )
    transaction: str | None = key(
        values.title(MAX_TEXT),
        "For a long table, with one row for each pair of a transaction and an item: the column of transactions.",
        default=None,
        example="visit",
    )
    item: str | None = key(
        values.title(MAX_TEXT),
        "For a long table: the column of items. Items are named by its values alone.",
        default=None,
        example="code",
    )


@dataclass(frozen=True)
class ColumnRule:
    """A table `[columns.NAME]`."""

    HEADING: ClassVar[str] = "A column, by the name that its items have; one such table for each column."

    kind: str = key(
        values.one_of(*KINDS),
        "categorical: each category is an item. numeric: intervals are items. boolean: the column is an item of the "
        "rows where it is true. date: years, months or weekdays are items. ignore: no items.",
    )
    aliases: tuple[str, ...] = key(
        values.texts(MAX_TEXT), "Other names that the column may have at a member. Case does not matter.", default=()
    )
    optional: bool = key(values.switch, "Whether a member's table may lack the column.", default=False)
    missing: tuple[str, ...] = key(
        values.texts(MAX_TEXT), "Spellings of a missing value in this column, such as -99.", default=()
    )
    categories: tuple[str, ...] = key(
        values.texts(MAX_CAP), "The categories. Any other value becomes what `unknown` says.", default=()
    )
    unknown: str = key(
        values.one_of("other", "error"),
        'What a value outside `categories` becomes: "other" or an "error".',
        default="error",
    )
    synonyms: Mapping[str, tuple[str, ...]] | None = key(
        values.table_of(values.texts(MAX_TEXT)),
        "Other spellings of a category, or of true and false in a boolean column.",
        default=None,
        example={"female": ["f", "w"]},
    )
    fold_case: bool = key(
        values.switch,
        "Whether to ignore the case of categories. They become lower case, unless `categories` or `synonyms` spells "
        "them.",
        default=True,
    )
    cap: int | None = key(
        values.whole(1, MAX_CAP),
        'The most categories to keep, by the rows of all members; the rest becomes "other".',
        default=None,
        example=20,
    )
    unit: str | None = key(values.title(MAX_TEXT), "The unit of a numeric column.", default=None, example="g/dL")
    units: Mapping[str, float] | None = key(
        values.table_of(values.finite(above=0)),
        "Other units that a member may have, with the factor to the unit of the schema. A member names its unit in "
        'the header, as in "hb (g/L)", or by `alias_units`.',
        default=None,
        example={"g/L": 0.1},
    )
    alias_units: Mapping[str, str] | None = key(
        values.table_of(values.title(MAX_TEXT)),
        "Aliases that tell the unit of their column.",
        default=None,
        example={"hb_g_per_l": "g/L"},
    )
    bins: int = key(
        values.whole(2, MAX_BINS),
        "The number of intervals of a numeric column, cut where the rows of all members are divided evenly.",
        default=DEFAULT_BINS,
    )
    cuts: tuple[float, ...] = key(
        values.ascending(MAX_BINS), "Fixed cuts, instead of `bins`. A value at a cut is above it.", default=()
    )
    resolution: float | None = key(
        values.finite(above=0),
        "Cuts are rounded to multiples of this number. Without it, a cut is the exact value of some row.",
        default=None,
        example=0.1,
    )
    range: tuple[float, float] | None = key(
        values.bounds,
        "Plausible values. Values outside are reported; if the median is outside, the table does not fit.",
        default=None,
        example=[3, 25],
    )
    decimal: str | None = key(
        values.one_of(".", ","),
        "The decimal mark of numbers in text; by default the one that fits all values.",
        default=None,
        example=",",
    )
    date_format: str | None = key(
        values.title(MAX_TEXT),
        "How dates are written, if not as 2026-03-31, 31.03.2026 or 2026/03/31; with the codes of strftime.",
        default=None,
        example="%m/%d/%Y",
    )
    part: str = key(
        values.one_of("year", "month", "weekday"),
        'What to keep of a date: "year", "month" (of a year) or "weekday".',
        default="year",
    )

    def spellings(self, name: str) -> tuple[str, ...]:
        """Return the names that the column may have at a member."""
        return (name, *self.aliases, *(self.alias_units or ()))


_ONLY = {
    **dict.fromkeys(("categories", "unknown", "cap", "fold_case"), ("categorical",)),
    "synonyms": ("categorical", "boolean"),
    **dict.fromkeys(("unit", "units", "alias_units", "bins", "cuts", "resolution", "range", "decimal"), ("numeric",)),
    **dict.fromkeys(("date_format", "part"), ("date",)),
}
SECTIONS = {"table": TableRule, "columns.NAME": ColumnRule}


@dataclass(frozen=True, eq=False)
class Schema:
    """What the columns of all members mean; equal if the digests are equal. See the reference of `schema.toml`.

    Examples:
        >>> from fedslim.schema import Schema
        >>> schema = Schema.of({"columns": {"sex": {"kind": "categorical"}, "age": {"kind": "numeric", "bins": 4}}})
        >>> schema.open_columns
        ('age',)
    """

    table: TableRule
    columns: Mapping[str, ColumnRule]
    path: Path

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Schema:
        """Read a file.

        Raises:
            DataError: The file does not exist or cannot be read.
            ConfigurationError: A value is not allowed; the message names the file, the key and what is allowed.
        """
        path = real_path(path)
        with told_as_data_errors(path), path.open("rb") as stream:
            return cls.parse(stream.read(MAX_BYTES + 1), path)

    @classmethod
    def parse(cls, data: bytes, path: Path) -> Schema:
        """Parse the content of a file; `path` names it in messages."""
        return cls.of(tables(data, path, _WHAT, _BEGIN), path)

    @classmethod
    def of(cls, plain: Mapping[str, Any], path: Path = Path("the schema")) -> Schema:
        """Return the schema with these tables, as in the file."""
        for name in plain:
            if name not in {"table", "columns"}:
                raise unknown(path, f"{name:.60}: this is not a table of {_WHAT}", name, ["table", "columns"])
        given = plain.get("columns", {})
        if not isinstance(given, dict) or not 1 <= len(given) <= MAX_COLUMNS:
            msg = f"{path}: columns: write a table [columns.NAME] for each column, at most {MAX_COLUMNS:,}"
            raise ConfigurationError(msg)
        columns = {}
        for name, one in given.items():
            try:
                values.title(MAX_TEXT)(name)
            except values.Wrong as error:
                msg = f"{path}: the name of a column: {error}"
                raise ConfigurationError(msg) from None
            columns[name] = section(path, f"columns.{name}", ColumnRule, one)
        schema = cls(section(path, "table", TableRule, plain.get("table", {})), MappingProxyType(columns), path)
        schema._check(given)
        return schema

    def _check(self, given: Mapping[str, Any]) -> None:
        for name, rule in self.columns.items():
            if wrong := self._wrong(rule, given[name]):
                msg = f"{self.path}: columns.{name}.{wrong}"
                raise ConfigurationError(msg)
        seen: dict[str, str] = {}
        for name, rule in self.columns.items():
            for spelling in {each.casefold() for each in rule.spellings(name)}:
                if spelling in seen:
                    twins = f"{seen[spelling]!r} and {name!r}"
                    msg = f"{self.path}: the columns {twins} are both called {spelling!r}; remove one of the names"
                    raise ConfigurationError(msg)
                seen[spelling] = name
        long = (self.table.transaction, self.table.item)
        if (None in long) != (long == (None, None)) or (None not in long and long[0] == long[1]):
            msg = f"{self.path}: table: a long table needs two columns; write both transaction and item, or neither"
            raise ConfigurationError(msg)
        if self.is_long and not set(self.columns) <= {self.table.item}:
            msg = f"{self.path}: a long table has items in the column {self.table.item!r} only; remove other columns"
            raise ConfigurationError(msg)

    @staticmethod
    def _wrong(rule: ColumnRule, given: Mapping[str, Any]) -> str | None:
        for each in given:
            if rule.kind not in _ONLY.get(each, KINDS):
                return f"{each}: this is for {' and '.join(_ONLY[each])} columns, not for {rule.kind} ones; remove it"
        if "cuts" in given and "bins" in given:
            return "bins: the column has fixed cuts; remove bins or cuts"
        for alias, unit in (rule.alias_units or {}).items():
            if unit not in {*(rule.units or ()), rule.unit}:
                return (
                    f"alias_units: {alias!r} is in {unit!r}, which is neither the unit nor one of units; add it there"
                )
        known = {"true", "false"} if rule.kind == "boolean" else set(rule.categories or rule.synonyms or ())
        if odd := next((name for name in rule.synonyms or () if name not in known), None):
            return f"synonyms: {odd!r} is not one of {', '.join(sorted(known))}; correct it"
        return None

    @property
    def is_long(self) -> bool:
        """Return whether rows are pairs of a transaction and an item."""
        return self.table.transaction is not None

    @cached_property
    def open_columns(self) -> tuple[str, ...]:
        """The numeric columns whose cuts follow from the rows of all members, in the order of the schema."""
        return tuple(name for name, rule in self.columns.items() if rule.kind == "numeric" and not rule.cuts)

    @cached_property
    def capped_columns(self) -> tuple[str, ...]:
        """The categorical columns whose kept categories follow from the rows of all members."""
        return tuple(name for name, rule in self.columns.items() if rule.cap is not None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, without what is as by default; `of` reads them."""
        table = _plain(self.table)
        columns = {name: _plain(rule) for name, rule in self.columns.items()}
        return ({"table": table} if table else {}) | {"columns": columns}

    def digest(self) -> bytes:
        """Return a hash of what the schema means: not of comments, of the order of keys, or of defaults."""
        plain = self.to_dict()
        ordered = [plain.get("table", {}), list(plain["columns"].items())]
        text = json.dumps(ordered, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return blake2b(text.encode(), digest_size=DIGEST_BYTES, person=_DIGEST).digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.digest() == other.digest()

    def __hash__(self) -> int:
        return hash(self.digest())

    def text(self) -> str:
        """Return the schema as TOML, without comments."""
        plain = self.to_dict()
        named = [("table", plain["table"])] if "table" in plain else []
        named += [(f"columns.{spell_key(name)}", rule) for name, rule in plain["columns"].items()]
        parts = [[f"[{name}]", *(f"{each} = {spell(value)}" for each, value in rule.items())] for name, rule in named]
        return "\n\n".join(map("\n".join, parts)) + "\n"

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the schema, in place of an existing file."""
        path = real_path(path)
        make_folder_for(path)
        with replacing(path) as (stream, _):
            stream.write(self.text().encode())


def spell_key(name: str) -> str:
    """Return a key as TOML writes it."""
    return name if name.isascii() and name.replace("_", "").replace("-", "").isalnum() else spell(name)


def _plain(rule: Any) -> dict[str, Any]:
    given = {each.name: getattr(rule, each.name) for each in fields(rule)}
    return {name: _bare(value) for name, value in given.items() if value != type(rule).__dict__.get(name)}


def _bare(value: Any) -> Any:
    if isinstance(value, (dict, MappingProxyType)):
        return {name: _bare(one) for name, one in value.items()}
    return list(value) if isinstance(value, tuple) else value
