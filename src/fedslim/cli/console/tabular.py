"""Write results as CSV, Parquet or JSON, by the extension of the file."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

from fedslim.errors import MissingExtraError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

AT_A_TIME = 100_000
"""Rows that are formatted at once."""


def check_kind(path: Path) -> None:
    """Raise `ParameterError` unless the extension names a kind of file that can be written."""
    if path.suffix not in {".csv", ".parquet", ".json"}:
        msg = f"--out {path}: the extension says how to write it; name a file that ends in .csv, .parquet or .json"
        raise ParameterError(msg)


def write_columns(columns: dict[str, Sequence[Any]], path: Path) -> None:
    """Write columns of equal length; arrays of numpy are converted piece by piece.

    Raises:
        WriteError: The file cannot be written.
    """
    from fedslim.data.atomic import make_folder_for, writing  # numpy comes with it

    make_folder_for(path)
    with writing(path) as stream:
        if path.suffix == ".parquet":
            try:
                import pyarrow as pa  # optional
                import pyarrow.parquet
            except ImportError:
                msg = "writing Parquet needs pyarrow; install it with: pip install 'fedslim[tables]', or name a .csv"
                raise MissingExtraError(msg) from None
            pyarrow.parquet.write_table(pa.table(columns), stream)
            return
        first = next(iter(columns.values()))
        if path.suffix == ".csv":
            stream.write(_csv([tuple(columns)]))
        for start in range(0, len(first), AT_A_TIME):
            parts = [_plain(column[start : start + AT_A_TIME]) for column in columns.values()]
            rows = list(zip(*parts, strict=True))
            if path.suffix == ".csv":
                stream.write(_csv(rows))
            else:
                lines = (json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) for row in rows)
                stream.write((("," if start else "[") + "\n" + ",\n".join(lines)).encode())
        if path.suffix == ".json":
            stream.write(b"\n]\n" if len(first) else b"[]\n")


def _plain(column: Any) -> list[Any]:
    return column.tolist() if hasattr(column, "tolist") else list(column)


def _csv(rows: Sequence[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
