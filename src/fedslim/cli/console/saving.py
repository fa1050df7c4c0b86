"""Save a mined table: check the place before mining, and never lose the table after it."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fedslim.errors import FedslimError, InputError, RunError

if TYPE_CHECKING:
    from fedslim.mdl.codetable import CodeTable


@dataclass(frozen=True, slots=True)
class Saved:
    """Where a table was saved, if anywhere, and what went wrong, if anything."""

    path: Path | None = None
    failure: FedslimError | None = None


def check_place(path: Path, *, besides: str | Path | None = None, what: str = "the data") -> None:
    """Check that a file can be written there, and that it would not replace the file it is made from.

    Args:
        path: The value of --out.
        besides: The file, or name of data, that it is made from.
        what: What `besides` is, for the error message.

    Raises:
        InputError: The file cannot be written.
    """
    try:
        problem = _problem(path, besides, what)
    except OSError as error:
        problem = f"cannot be written ({error.strerror or error}); name another file"
    if problem:
        msg = f"--out {path}: {problem}"
        raise InputError(msg)


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


def save(table: CodeTable, path: Path | None) -> Saved:
    """Save the table; if that fails, save it in the system's temporary folder, so that the work is not lost."""
    if path is None:
        return Saved()
    try:
        table.save(path)
    except (FedslimError, OSError) as error:
        return _rescue(table, error)
    return Saved(path)


def _rescue(table: CodeTable, error: Exception) -> Saved:
    try:
        handle, name = tempfile.mkstemp(prefix="fedslim-", suffix=".json")
    except OSError:
        return Saved(None, RunError(f"{error}; there is no room in the folder for temporary files either"))
    os.close(handle)
    try:
        table.save(name)
    except (FedslimError, OSError):
        Path(name).unlink(missing_ok=True)
        return Saved(None, RunError(f"{error}; it cannot be saved as {name} either"))
    return Saved(Path(name), RunError(f"{error}; the code table is saved as {name} instead"))
