"""Read code tables of other programs: a JSON object with itemsets (item ids or labels) and usages.

    load_reference("chess.slim-cpp-2014.json").itemsets[0].labels

    {"dataset": "chess", "system": "slim-cpp-2014", "itemsets": [{"items": [3, 5, 7], "usage": 67}, ...]}

Items are compared by label, so an id stands for the item with this number in the data file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from fedslim.errors import CodeTableError
from fedslim.mdl.codetable import CodeTable
from fedslim.mdl.files import FORMAT, MAX_BYTES


@dataclass(frozen=True, slots=True)
class ReferenceItemset:
    """An itemset of a reference table."""

    labels: tuple[str, ...]
    usage: int


@dataclass(frozen=True, slots=True)
class ReferenceTable:
    """The code table of another program; singletons in use are kept apart from the itemsets."""

    dataset: str
    system: str
    itemsets: tuple[ReferenceItemset, ...]
    singletons: tuple[ReferenceItemset, ...] = ()
    settings: str = ""
    L_percent: float | None = None
    L_data_percent: float | None = None
    candidates: int | None = None

    def __len__(self) -> int:
        return len(self.itemsets)


class _ReferenceItemset(msgspec.Struct, frozen=True):
    items: Annotated[list[int | str], msgspec.Meta(min_length=1)]
    usage: Annotated[int, msgspec.Meta(ge=1, le=2**53)]


class _Kind(msgspec.Struct, frozen=True):
    format: str | None = None


class _ReferenceFile(msgspec.Struct, frozen=True):
    """Unknown fields are ignored: other programs may add their own."""

    dataset: str
    system: str
    itemsets: list[_ReferenceItemset]
    settings: str = ""
    L_percent: float | None = None
    L_data_percent: float | None = None
    candidates: int | None = None


def load_reference(path: str | Path) -> ReferenceTable | CodeTable:
    """Read a reference table: of another program, or a code table file of fedslim."""
    path = Path(path)
    data = _bytes(path)
    try:
        if msgspec.json.decode(data, type=_Kind).format == FORMAT:
            return CodeTable.load(path)
        file = msgspec.json.decode(data, type=_ReferenceFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _bad(path, str(error)) from error
    rows = _rows(path, file.itemsets)
    return ReferenceTable(
        dataset=file.dataset,
        system=file.system,
        itemsets=tuple(row for row in rows if len(row.labels) > 1),
        singletons=tuple(row for row in rows if len(row.labels) == 1),
        settings=file.settings,
        L_percent=file.L_percent,
        L_data_percent=file.L_data_percent,
        candidates=file.candidates,
    )


def _bytes(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise _bad(path, f"it is larger than {MAX_BYTES:,} bytes")
        return path.read_bytes()
    except OSError as error:
        msg = f"{path}: cannot read the reference table ({error.strerror or error}); check the path"
        raise CodeTableError(msg) from error


def _rows(path: Path, itemsets: list[_ReferenceItemset]) -> list[ReferenceItemset]:
    rows: list[ReferenceItemset] = []
    seen: dict[frozenset[str], int] = {}
    for number, itemset in enumerate(itemsets, 1):
        labels = tuple(str(item) for item in itemset.items)
        key = frozenset(labels)
        if len(key) < len(labels):
            raise _bad(path, f"itemset {number} has an item twice")
        if key in seen:
            raise _bad(path, f"itemset {number} is the same as itemset {seen[key]}")
        seen[key] = number
        rows.append(ReferenceItemset(labels, itemset.usage))
    return rows


def _bad(path: Path, why: str) -> CodeTableError:
    return CodeTableError(
        f"{path} is not a reference table: {why}; it must be a JSON object with dataset, system and itemsets, "
        'a list of {"items": [...], "usage": n}, or a code table written by `fedslim mine`'
    )
