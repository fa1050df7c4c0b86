"""The outcome of a preparation: order statistics, kept categories and the vocabulary, from everybody's rows.

A member derives it from the questions that it was asked. All members sign its digest, as part of the search's settings.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from fedslim.data import TransactionDatabase
from fedslim.data.atomic import write_whole
from fedslim.data.documents import Format
from fedslim.data.encoding import Encoding
from fedslim.data.textstream import told_as_data_errors
from fedslim.data.vocabulary import ID_BYTES, ItemSecret, Vocabulary
from fedslim.errors import DataError
from fedslim.protocol.bisection import OpenColumn
from fedslim.protocol.wire_types import MAX_ITEMS, MAX_MEMBERS, Digest, Name
from fedslim.schema import Conformed, Schema, SchemaRules
from fedslim.schema.agreeing import Agreed, round_cuts, rounded

FORMAT, VERSION = "fedslim-preparation", 1
MAX_BYTES = 1 << 27
MAX_ROUNDS = 64
"""More rounds than any preparation takes; the search has its own limit."""
DEPARTURE = b"fedslim departure v1"
_CAP = "<="

Number = Annotated[str, Meta(max_length=30, pattern=r"^-?(inf|[0-9]+(\.[0-9]+)?(e[+-][0-9]+)?)\Z")]
Id = Annotated[bytes, Meta(min_length=ID_BYTES, max_length=ID_BYTES)]


@dataclass(frozen=True, slots=True)
class Outline:
    """What the server has to know of a schema: no names, only bins, resolutions and caps."""

    columns: tuple[OpenColumn, ...]
    caps: tuple[int, ...]

    @classmethod
    def of(cls, schema: Schema) -> Outline:
        """Return the outline of a schema."""
        rules = [schema.columns[name] for name in schema.open_columns]
        caps = [schema.columns[name].cap for name in schema.capped_columns]
        return cls(tuple(OpenColumn(rule.bins, rule.resolution) for rule in rules), tuple(cap or 1 for cap in caps))

    @classmethod
    def parse(cls, text: str) -> Outline:
        """Read what `str` wrote; raise ValueError for anything else."""
        columns, caps = [], []
        for word in text.split():
            if word.startswith(_CAP):
                caps.append(int(word.removeprefix(_CAP)))
            else:
                bins, _, step = word.partition("/")
                columns.append(OpenColumn(int(bins), float(step) if step else None))
        made = cls(tuple(columns), tuple(caps))
        if str(made) != text:
            raise ValueError(f"{text!r:.60} is not an outline")
        return made

    def __str__(self) -> str:
        columns = [f"{bins}" if step is None else f"{bins}/{float(step)!r}" for bins, step in self.columns]
        return " ".join([*columns, *(f"{_CAP}{cap}" for cap in self.caps)])


class Preparation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the members have agreed on before a search; also the content of `preparation.json`."""

    format: str = FORMAT
    version: int = VERSION
    run: Annotated[bytes, Meta(max_length=16)]
    schema: Digest
    federation: Digest = b""  # the digest of the federation file, in a file
    statistics: list[list[Number]]
    """Of each open column, in the order of the schema, as the resolution rounds them; as texts, as JSON has no inf."""
    kept: list[list[Id]]  # of each capped column, the ids of the categories that are kept
    ids: Annotated[list[Id], Meta(max_length=MAX_ITEMS)]
    left: Annotated[dict[Name, bytes], Meta(max_length=MAX_MEMBERS)] = {}
    """Members that left after it, and their signatures."""

    def digest(self) -> bytes:
        """Hash all that decides which items there are."""
        content = (self.schema, self.statistics, self.kept, self.ids)
        return sha256(FORMAT.encode() + msgspec.msgpack.encode(content)).digest()

    def departure(self, roster: bytes, shared: bytes) -> bytes:
        """Return what a member signs that leaves: under this roster, because it was told that these items are shared.

        A server chooses the id of a run, and could use it again. A roster has new keys each time.
        """
        return sha256(DEPARTURE + roster + self.digest() + shared).digest()

    def vocabulary(self, fingerprint: str) -> Vocabulary:
        """Return the vocabulary of the search; the fingerprint is that of the members' secret."""
        return Vocabulary(tuple(self.ids), fingerprint)

    def agreed(self, schema: Schema, site: Conformed, secret: ItemSecret) -> Agreed:
        """Return the cuts, and which of a site's own categories are kept."""
        names = zip(schema.open_columns, self.statistics, strict=True)
        cuts = {name: round_cuts(list(map(float, found)), schema.columns[name]) for name, found in names}
        kept = {}
        for name, ids in zip(schema.capped_columns, self.kept, strict=True):
            known = set(ids)
            kept[name] = frozenset(c for c in site.categories(name) if category_id(secret, name, c) in known)
        return Agreed(cuts, kept)

    def database(
        self, schema: Schema, site: Conformed, secret: ItemSecret, *, strict: bool = False
    ) -> TransactionDatabase:
        """Return the items of a site's rows; items that are new since the preparation become `other`, or no items.

        Only if `strict` is true are they an error, where the schema says so. In the run of the preparation itself it
        must not be: a server that leaves an item out would see who has that item and stops.
        """
        known, agreed = set(self.ids), self.agreed(schema, site, secret)
        database = site.items(agreed, lambda label: secret.id_of(label) in known, strict=strict)
        return replace(database, encoding=Encoding("schema", rules=SchemaRules(schema, agreed)))

    # -- files --------------------------------------------------------------------------------------------------

    def write(self, path: Path) -> None:
        """Write it to a file that only its owner may read; it is on the disk when this returns."""
        write_whole(path, msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n", private=True)

    @classmethod
    def read(cls, path: Path, outline: Outline | None = None) -> Preparation:
        """Read what `write` wrote; with an outline, it must be one of a preparation with this outline."""
        with told_as_data_errors(path):
            data = FILES.read(path, MAX_BYTES)
        found = FILES.decode(data, path, cls)
        if outline is not None and not found.fits(outline):
            raise FILES.bad(path, "it has other cuts or categories than a preparation with this schema finds")
        return found

    def fits(self, outline: Outline) -> bool:
        """Return whether a preparation with this outline can find this: a file must not choose other cuts."""
        if len(self.statistics) != len(outline.columns) or len(self.kept) != len(outline.caps):
            return False
        for column, texts in zip(outline.columns, self.statistics, strict=True):
            values = list(map(float, texts))
            if len(values) >= column.bins or values != sorted(rounded(value, column.step) for value in values):
                return False
        return all(len(ids) <= cap for ids, cap in zip(self.kept, outline.caps, strict=True)) and all(
            one < other for ids in (*self.kept, self.ids) for one, other in pairwise(ids)
        )


def category_id(secret: ItemSecret, column: str, category: str) -> bytes:
    """Return the id of a category: that of the item which it is if it is kept."""
    return secret.id_of(f"{column}={category}")


_BAD = "{path} is not a usable preparation: {why}; start without it, or get it from the run folder of an earlier run"
FILES = Format(FORMAT, VERSION, DataError, _BAD)
