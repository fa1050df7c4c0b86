"""Where a mined table goes: looked at before mining, and never lost after it."""

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
        path: What was given as --out.
        besides: The file, or name of data, that it is made from.
        what: And what to call that.

    Raises:
        InputError: It cannot; better now than after an hour of mining.
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
        path.stat()  # of a name that cannot be, Python 3.14 says only that it does not exist
    if path.is_dir():
        return "this is a folder; name a file in it"
    if path.exists():
        if not path.is_file():
            return "this is not an ordinary file and will not be replaced; name another"
        if besides is not None and Path(besides).exists() and path.samefile(besides):
            return f"this is {what}, which would be lost; name another file"
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir():
        return f"{folder} is a file, so there can be no folder of that name; name another place"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"the folder {folder} is not yours to write to; name another"
    return None


def save(table: CodeTable, path: Path | None) -> Saved:
    """Save the table; where that fails, in the system's folder for temporary files, so that the work is kept."""
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
