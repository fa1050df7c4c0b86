"""Code tables as files: JSON with one itemset on a line, a format name and a version.

A file holds what determines the table and nothing else, so equal tables are equal files.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from fedslim.data.atomic import write_whole
from fedslim.data.database import first_repeat
from fedslim.data.discretise import Intervals
from fedslim.data.documents import Format
from fedslim.data.encoding import Encoding
from fedslim.errors import CodeTableError
from fedslim.mdl.codetable import CodeTable
from fedslim.mdl.itemsets import Itemset, order_key
from fedslim.schema import encoding_from_dict

FORMAT = "fedslim-code-table"
VERSION = 3
"""2 adds `min_count` and `other`, 3 the encoding of a table with columns; a file has the oldest version that fits."""
MAX_BYTES = 1 << 28  # a hundred times the largest known table

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**53)]


class _Compression(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    bits_data_before: float
    bits_model_before: float
    bits_data: float
    bits_model: float
    L_percent: float
    L_data_percent: float


class _Item(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    item: str
    support: Count
    usage: Count


class _StoredItemset(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    items: Annotated[list[str], msgspec.Meta(min_length=2)]
    usage: Positive
    support: Positive
    entry: Positive
    code_length: float
    bits_saved: float


class _CodeTableFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    format: str
    version: int
    order: Literal["usage", "support"]
    transactions: Count
    compression: _Compression
    items: list[_Item]
    itemsets: list[_StoredItemset]
    min_count: Positive = 1
    other: Count = 0
    encoding: dict[str, Any] | None = None


def save_code_table(table: CodeTable, path: str | Path, *, private: bool = False) -> None:
    """See `CodeTable.save`."""
    document = code_table_document(table)
    items, itemsets = document.pop("items"), document.pop("itemsets")
    lines = ["{"]
    lines += [f"  {_json(key)}: {_json(value)}," for key, value in document.items()]
    lines += ['  "items": [', *_rows(items), "  ],", '  "itemsets": [', *_rows(itemsets), "  ]", "}", ""]
    write_whole(Path(path), "\n".join(lines).encode(), private=private)


def code_table_document(table: CodeTable) -> dict[str, Any]:
    """Return the content of a code table file, also for records that contain a table."""
    c = table.compression
    merged, coded = table.min_count > 1 or table.other, table.encoding
    return {
        "format": FORMAT,
        "version": VERSION if coded else 2 if merged else 1,
        "order": table.order,
        "transactions": table.transactions,
        **({"min_count": table.min_count, "other": table.other} if merged else {}),
        "compression": {
            "bits_data_before": c.before.data,
            "bits_model_before": c.before.model,
            "bits_data": c.after.data,
            "bits_model": c.after.model,
            "L_percent": c.L_percent,
            "L_data_percent": c.L_data_percent,
        },
        **({"encoding": coded.to_dict()} if coded else {}),
        "items": [
            {"item": label, "support": support, "usage": usage}
            for label, support, usage in zip(table.vocabulary, table.supports, table.singleton_usages, strict=True)
        ],
        "itemsets": [
            {"items": list(e.labels)} | {name: getattr(e, name) for name in _StoredItemset.__struct_fields__[1:]}
            for e in table.itemsets
        ],
    }


def _rows(records: list[dict[str, object]]) -> list[str]:
    last = len(records) - 1
    return [f"    {_json(record)}{'' if k == last else ','}" for k, record in enumerate(records)]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def load_code_table(path: str | Path) -> CodeTable:
    """See `CodeTable.load`."""
    path = Path(path)
    try:
        data = FILES.read(path, MAX_BYTES)
    except OSError as error:
        msg = f"{path}: the code table cannot be read: {error.strerror or error}; check the path"
        raise CodeTableError(msg) from error
    return code_table_of(data, path)


def code_table_of(data: bytes, path: str | Path) -> CodeTable:
    """Decode a code table; `path` names its source in errors."""
    file = FILES.decode(data, path, _CodeTableFile)
    labels = tuple(item.item for item in file.items)
    index = {label: i for i, label in enumerate(labels)}
    if (twice := first_repeat(labels)) is not None:
        raise _bad(path, f"item {twice!r} is listed twice")
    found = [_itemset(path, number, row, index, file.transactions) for number, row in enumerate(file.itemsets, 1)]
    keys = [order_key(ids, entry) for ids, _, _, entry in found]
    if any(a >= b for a, b in pairwise(keys)):
        raise _bad(path, "its itemsets are not in cover order, or one of them is listed twice")
    supports = tuple(item.support for item in file.items)
    if max(supports, default=0) > file.transactions:
        raise _bad(path, f"it has {file.transactions} transactions, and an item with a higher support")
    usages = tuple(item.usage for item in file.items)
    covered = list(usages)
    for ids, usage, _, _ in found:
        for i in ids:
            covered[i] += usage
    for label, total, support in zip(labels, covered, supports, strict=True):
        if total != support:
            sums = f"the usages of all itemsets with item {label!r} add up to {total}"
            raise _bad(path, f"{sums}, but its support is {support}")
    counts = [*supports, *usages, file.other, *(count for _, *three in found for count in three)]
    small = next((count for count in counts if 0 < count < file.min_count), None)
    if small is not None:
        raise _bad(path, f"its min_count is {file.min_count}, but it has the count {small}")
    counted = (labels, file.transactions, supports, usages, tuple(found))
    encoding = None if file.encoding is None else _encoding(path, file.encoding)
    return CodeTable(*counted, file.order, file.min_count, file.other, encoding)


def _encoding(path: str | Path, plain: dict[str, Any]) -> Encoding:
    """Return the encoding in a file; it must be exactly what `to_dict` writes."""
    try:
        encoding = encoding_from_dict(plain)
        cut = [one for one in encoding.intervals if isinstance(one, Intervals)]
        right = encoding.kind != "items" and json.loads(json.dumps(encoding.to_dict())) == plain
        right &= encoding.kind != "categorical" or len(encoding.intervals) == len(encoding.columns)
        right &= all(a < b for one in cut for a, b in pairwise(one.cuts))
        right &= all(len(one.labels) == len(one.cuts) + 1 for one in cut)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise _bad(path, f"its encoding is not one ({error})") from None
    if not right:
        raise _bad(path, "its encoding contradicts itself")
    return encoding


def _itemset(
    path: str | Path, number: int, row: _StoredItemset, index: dict[str, int], transactions: int
) -> tuple[Itemset, int, int, int]:
    unknown = next((label for label in row.items if label not in index), None)
    if unknown is not None:
        raise _bad(path, f"itemset {number} has the item {unknown!r}, which is not in its list of items")
    ids = tuple(sorted(index[label] for label in row.items))
    if len(set(ids)) != len(ids):
        raise _bad(path, f"itemset {number} has an item twice")
    if not row.usage <= row.support <= transactions:
        counts = f"used {row.usage} times and supported by {row.support} of {transactions} transactions"
        raise _bad(path, f"itemset {number} is {counts}")
    return ids, row.usage, row.support, row.entry


_PROBLEM = "{path} is not a code table that fedslim can use: {why}; write it again with `fedslim mine`"
FILES = Format(FORMAT, VERSION, CodeTableError, _PROBLEM, oldest=1)
_bad = FILES.bad
