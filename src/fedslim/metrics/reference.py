"""The view that metrics have of a code table: its itemsets by label, with usages, without singletons.

Tables are compared by label because they may come from different vocabularies or other programs. Those of other
programs are JSON objects with itemsets (item ids or labels) and usages:

    {"dataset": "chess", "system": "slim-cpp-2014", "itemsets": [{"items": [3, 5, 7], "usage": 67}, ...]}

An id stands for the item with this number in the data file.
"""

from __future__ import annotations

from collections.abc import Sequence  # msgspec looks at it
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec

from fedslim.errors import CodeTableError
from fedslim.mdl.codetable import CodeTable
from fedslim.mdl.files import FORMAT, MAX_BYTES


class ReferenceItemset(msgspec.Struct, frozen=True):
    """An itemset of a reference table."""

    items: Annotated[Sequence[int | str], msgspec.Meta(min_length=1)]
    usage: Annotated[int, msgspec.Meta(ge=1, le=2**53)]

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of its items."""
        return tuple(map(str, self.items))


class ReferenceTable(msgspec.Struct, frozen=True):
    """The code table of another program. Unknown fields are ignored: other programs may add their own."""

    dataset: str
    system: str
    itemsets: Sequence[ReferenceItemset]

    def __len__(self) -> int:
        """Return the number of itemsets, without singletons."""
        return sum(len(row.items) > 1 for row in self.itemsets)


Labels: TypeAlias = frozenset[str]
LabelledTable: TypeAlias = CodeTable | ReferenceTable


class _Kind(msgspec.Struct, frozen=True):
    format: str | None = None


def load_reference(path: str | Path) -> ReferenceTable | CodeTable:
    """Read a reference table: of another program, or a code table file of fedslim."""
    path = Path(path)
    data = _bytes(path)
    try:
        if msgspec.json.decode(data, type=_Kind).format == FORMAT:
            return CodeTable.load(path)
        table = msgspec.json.decode(data, type=ReferenceTable)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _bad(path, str(error)) from error
    seen: dict[frozenset[str], int] = {}
    for number, row in enumerate(table.itemsets, 1):
        if len(set(row.labels)) < len(row.labels):
            raise _bad(path, f"itemset {number} has an item twice")
        if (first := seen.setdefault(frozenset(row.labels), number)) != number:
            raise _bad(path, f"itemset {number} is the same as itemset {first}")
    return table


def _bytes(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise _bad(path, f"it is larger than {MAX_BYTES:,} bytes")
        return path.read_bytes()
    except OSError as error:
        msg = f"{path}: cannot read the reference table ({error.strerror or error}); check the path"
        raise CodeTableError(msg) from error


def _bad(path: Path, why: str) -> CodeTableError:
    return CodeTableError(
        f"{path} is not a reference table: {why}; it must be a JSON object with dataset, system and itemsets, "
        'a list of {"items": [...], "usage": n}, or a code table written by `fedslim mine`'
    )


def usages(table: LabelledTable) -> dict[Labels, int]:
    """Return the usage of each itemset of two items or more."""
    return {frozenset(row.labels): row.usage for row in table.itemsets if len(row.labels) > 1}


def by_usage(table: dict[Labels, int]) -> list[Labels]:
    """Sort itemsets by descending usage, then descending size, then their sorted labels: a total order."""
    return sorted(table, key=lambda labels: (-table[labels], -len(labels), sorted(labels)))


def ratio(part: int, whole: int) -> float:
    """Return part / whole; 1 if the whole is empty."""
    return part / whole if whole else 1.0
