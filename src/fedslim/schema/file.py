"""`schema.toml`: what the columns of all members mean. People write it; it contains no data but what they wrote."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from fedslim.data.atomic import write_whole
from fedslim.data.columns import EncodedTable
from fedslim.data.database import TransactionDatabase
from fedslim.data.encoding import Encoding
from fedslim.data.textstream import real_path, told_as_data_errors
from fedslim.errors import ConfigurationError
from fedslim.schema.agreeing import Agreed, agree
from fedslim.schema.conforming import conform
from fedslim.schema.rules import KINDS, MAX_TEXT, ONLY_FOR, ColumnRule, TableRule
from fedslim.toml import values
from fedslim.toml.keys import MAX_BYTES, section, tables, unknown
from fedslim.toml.values import spell

MAX_COLUMNS = 10_000
DIGEST_BYTES = 32
_DIGEST = b"fedslim schema 1"
_WHAT, _BEGIN = "a schema", "fedslim schema make DATA"


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
        """Read a file; an error names the file, the key and what is allowed."""
        path = real_path(path)
        with told_as_data_errors(path), path.open("rb") as stream:
            return cls.parse(stream.read(MAX_BYTES + 1), path)

    @classmethod
    def parse(cls, data: bytes, path: str | Path) -> Schema:
        """Parse the content of a file; `path` names it in messages."""
        return cls.of(tables(data, Path(path), _WHAT, _BEGIN), Path(path))

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
                raise ConfigurationError(f"{path}: the name of a column: {error}") from None
            columns[name] = section(path, f"columns.{name}", ColumnRule, one)
        schema = cls(section(path, "table", TableRule, plain.get("table", {})), columns, path)
        schema._check(given)
        return schema

    def _check(self, given: Mapping[str, Any]) -> None:
        for name, rule in self.columns.items():
            if wrong := self._wrong(rule, given[name]):
                raise ConfigurationError(f"{self.path}: columns.{name}.{wrong}")
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
            if rule.kind not in ONLY_FOR.get(each, KINDS):
                return (
                    f"{each}: this is for {' and '.join(ONLY_FOR[each])} columns, not for {rule.kind} ones; remove it"
                )
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

    def encode(self, table: EncodedTable) -> tuple[TransactionDatabase, Encoding]:
        """Convert a table whose own rows determine what the schema leaves open."""
        site = conform(self, table)
        rules = SchemaRules(self, agree(self, [site]))
        return site.items(rules.agreed), Encoding("schema", rules=rules)

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
        named += [(f"columns.{name}", rule) for name, rule in plain["columns"].items()]
        return "\n\n".join("\n".join(spell_rule(*each)) for each in named) + "\n"

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the schema, in place of an existing file."""
        write_whole(real_path(path), self.text().encode())


@dataclass(frozen=True, slots=True)
class SchemaRules:
    """A schema and what its members agreed on: how to convert any table that fits the schema."""

    schema: Schema
    agreed: Agreed

    def encode(self, table: EncodedTable) -> tuple[TransactionDatabase, Encoding]:
        """Convert a table."""
        return conform(self.schema, table).items(self.agreed), Encoding("schema", rules=self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"schema": self.schema.to_dict(), "agreed": self.agreed.to_dict()}


def encoding_from_dict(plain: Mapping[str, Any]) -> Encoding:
    """Return the encoding that `Encoding.to_dict` described, with or without a schema."""
    if plain["kind"] != "schema":
        return msgspec.convert(plain, Encoding)
    agreed = msgspec.convert(plain["agreed"], Agreed)
    return Encoding("schema", rules=SchemaRules(Schema.of(plain["schema"]), agreed))


def spell_rule(name: str, rule: Mapping[str, Any]) -> list[str]:
    """Return the lines of a table."""
    first, dot, column = name.partition(".")
    bare = column.isascii() and column.replace("_", "").replace("-", "").isalnum()
    return [
        f"[{first}{dot}{column if bare or not dot else spell(column)}]",
        *(f"{k} = {spell(v)}" for k, v in rule.items()),
    ]


def _plain(rule: Any) -> dict[str, Any]:
    given = msgspec.json.decode(msgspec.json.encode(rule))
    return {name: value for name, value in given.items() if getattr(rule, name) != getattr(type(rule), name, None)}
