"""Read large files in chunks of rows, encoded as the data of a model were.

    for database in chunks("visits.csv", table.encoding): ...

Memory is that of one chunk. Data without rows to stream (a long table, generated data) are one chunk.
"""

from __future__ import annotations

from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedslim.data.database import TransactionDatabase
from fedslim.data.delimited import DELIMITERS, _check, _Factorised, _header, _records
from fedslim.data.encoding import ITEMS, EncodedTable, Encoding, encode_table
from fedslim.data.fimi import _parse, _rank
from fedslim.data.frames import _find, _from_arrow, _index_columns, parquet_table
from fedslim.data.loading import load
from fedslim.data.readers import _format_of
from fedslim.data.textstream import blocks, is_file
from fedslim.errors import DataError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

ROWS = 100_000
"""Rows in a chunk of a table; a FIMI file comes in blocks of some megabytes."""


def chunks(
    source: str | os.PathLike[str],
    encoding: Encoding | None,
    *,
    format: str | None = None,  # noqa: A002  # the option's name
    **how: Any,
) -> Iterator[TransactionDatabase]:
    """Yield the rows of a file, or of named data, in chunks; `how` is for `load`, if it is not a file with rows.

    Raises:
        DataError: The file cannot be read, or does not fit the encoding.
    """
    path = Path(source)
    kind = (format or _format_of(path)) if is_file(path) else "named"
    long = any(how.get(name) is not None for name in ("transaction_column", "item_column"))
    if kind == "fimi" and not long:
        for block in blocks(path):
            parsed = _parse(path, block)
            numbers, ids = _rank(parsed.values)
            yield TransactionDatabase.from_rows(parsed.lengths, ids, [str(n) for n in numbers.tolist()])
    elif kind in {*DELIMITERS, "parquet"} and not long:
        tables = _parquet(path) if kind == "parquet" else _delimited(path, DELIMITERS[kind])
        for table in tables:
            yield encode_table(table, encoding=encoding or ITEMS)[0]
    else:
        yield load(source, format=format, **how)


def _delimited(path: Path, delimiter: str) -> Iterator[EncodedTable]:
    records = _records(path, delimiter)
    names = _header(path, records)
    checked = _check(path, len(names), records)
    while batch := list(islice(checked, ROWS)):
        columns = []
        for name, cells in zip(names, zip(*batch, strict=True), strict=True):
            part = _Factorised()
            part.extend(cells)
            columns.append(part.column(name))
        yield EncodedTable(columns, path.stem, str(path))


def _parquet(path: Path) -> Iterator[EncodedTable]:
    if not _find("pyarrow"):
        yield parquet_table(path)
        return
    arrow = import_module("pyarrow")
    try:
        file = import_module("pyarrow.parquet").ParquetFile(path)
        index = _index_columns((file.schema_arrow.metadata or {}).get(b"pandas"))
        for batch in file.iter_batches(batch_size=ROWS):
            table = arrow.Table.from_batches([batch])
            named = zip(table.column_names, table.columns, strict=True)
            columns = [_from_arrow(name, column) for name, column in named if name not in index]
            yield EncodedTable(columns, path.stem, str(path))
    except (OSError, arrow.ArrowException) as error:
        msg = f"{path}: cannot be read as Parquet ({str(error).splitlines()[0]:.200}); check that the file is complete"
        raise DataError(msg) from None
