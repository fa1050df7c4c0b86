"""Read large files in chunks of rows, encoded as the data of a model were.

    for database in chunks("visits.csv", table.encoding): ...

FIMI and CSV files come in chunks, so memory is that of one chunk. Anything else is one chunk.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedslim.data.building import columns_of_rows
from fedslim.data.columns import long_to_database
from fedslim.data.database import TransactionDatabase
from fedslim.data.delimited import TAB, _check, _header, records
from fedslim.data.encoding import ITEMS, EncodedTable, Encoding, encode_table
from fedslim.data.fimi import _parse, _rank
from fedslim.data.loading import load
from fedslim.data.readers import _format_of, _separator, is_source, read_table
from fedslim.data.textstream import blocks, is_file

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

ROWS = 100_000
"""Rows in a chunk of a CSV file; a FIMI file comes in blocks of some megabytes."""


def chunks(
    source: str | os.PathLike[str],
    coded: Encoding | None,
    *,
    pair: tuple[str | None, str | None] = (None, None),
    folder: str | os.PathLike[str] | None = None,
    **how: Any,
) -> Iterator[TransactionDatabase]:
    """Yield rows in chunks, with items as `coded` says; `pair` is for a long table, `how` for `read_table`.

    Raises:
        DataError: The data cannot be read, or do not fit the encoding.
    """
    if not is_source(source):
        yield load(source, folder=folder)
        return
    path, wide = Path(source), pair == (None, None)
    kind = _format_of(path, how.get("format")) if is_file(path) else None
    if kind == "fimi" and wide:
        for block in blocks(path):
            parsed = _parse(path, block)
            numbers, ids = _rank(parsed.values)
            yield TransactionDatabase.from_rows(parsed.lengths, ids, [str(n) for n in numbers.tolist()])
    elif kind in {"csv", "tsv"} and wide:
        mark = (TAB if kind == "tsv" else ",") if how.get("separator") is None else _separator(how["separator"])
        rows = records(path, mark, how.get("encoding"))
        names = _header(path, rows)
        checked = _check(path, len(names), rows)
        while columns := columns_of_rows(names, islice(checked, ROWS)):
            yield encode_table(EncodedTable(columns, path.stem, str(path)), encoding=coded or ITEMS)[0]
    elif (table := read_table(source, pair=pair, **how)) is None:
        yield load(source, **how)
    elif wide:
        yield encode_table(table, encoding=coded or ITEMS)[0]
    else:
        yield long_to_database(*table.columns, name=table.name, source=table.source)
