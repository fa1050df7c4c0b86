"""Save results: check the place before the work, and never lose a mined table after it."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedslim.errors import FedslimError, InputError, MissingExtraError, ParameterError, RunError

if TYPE_CHECKING:
    from fedslim.mdl.codetable import CodeTable

AT_A_TIME = 100_000  # rows that are formatted at once


def check_place(
    path: Path, *, besides: str | Path | None = None, what: str = "the data", option: str = "--out"
) -> None:
    """Check that a file can be written there, and that it would not replace `besides`, which it is made from."""
    try:
        problem = _problem(path, besides, what)
    except OSError as error:
        problem = f"cannot be written ({error.strerror or error}); name another file"
    if problem:
        raise InputError(f"{option} {path}: {problem}")


def _problem(path: Path, besides: str | Path | None, what: str) -> str | None:
    with suppress(FileNotFoundError, NotADirectoryError):
        path.stat()  # for an impossible name, Python 3.14's `exists` is just False
    if path.is_dir():
        return "this is a folder; name a file in it"
    if path.exists():
        if not path.is_file():
            return "this is not a regular file and will not be replaced; name another"
        if besides is not None and Path(besides).exists() and path.samefile(besides):
            return f"this is {what} and would be overwritten; name another file"
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir():
        return f"{folder} is a file, not a folder; name another place"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"you may not write to the folder {folder}; name another"
    return None


def save(table: CodeTable, path: Path | None) -> tuple[Path | None, FedslimError | None]:
    """Save the table, if there is a path; return where it was saved, and what went wrong.

    If it cannot be saved there, it goes to the system's temporary folder, so that the work is not lost.
    """
    if path is None:
        return None, None
    try:
        table.save(path)
    except (FedslimError, OSError) as error:
        failure = error
    else:
        return path, None
    try:
        handle, name = tempfile.mkstemp(prefix="fedslim-", suffix=".json")
    except OSError:
        return None, RunError(f"{failure}; there is no room in the folder for temporary files either")
    os.close(handle)
    try:
        table.save(name)
    except (FedslimError, OSError):
        Path(name).unlink(missing_ok=True)
        return None, RunError(f"{failure}; it cannot be saved as {name} either")
    return Path(name), RunError(f"{failure}; the code table is saved as {name} instead")


# -- columns, as CSV, Parquet or JSON by the extension of the file -----------------------------------------------------


def check_kind(path: Path) -> None:
    """Raise `ParameterError` unless the extension names a kind of file that can be written."""
    if path.suffix not in {".csv", ".parquet", ".json"}:
        msg = f"--out {path}: the extension says how to write it; name a file that ends in .csv, .parquet or .json"
        raise ParameterError(msg)


def write_columns(columns: dict[str, Sequence[Any]], path: Path) -> None:
    """Write columns of equal length; arrays of numpy are converted piece by piece."""
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
            parts = [column[start : start + AT_A_TIME] for column in columns.values()]
            rows = list(zip(*(part.tolist() if hasattr(part, "tolist") else part for part in parts), strict=True))
            if path.suffix == ".csv":
                stream.write(_csv(rows))
            else:
                lines = (json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) for row in rows)
                stream.write((("," if start else "[") + "\n" + ",\n".join(lines)).encode())
        if path.suffix == ".json":
            stream.write(b"\n]\n" if len(first) else b"[]\n")


def _csv(rows: Sequence[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
