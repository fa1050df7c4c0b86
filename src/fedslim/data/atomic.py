"""Files that are either complete or not there: written beside their place, then moved into it once on the disk."""

from __future__ import annotations

import gzip
import os
import secrets
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from fedslim.errors import DataError, WriteError

if TYPE_CHECKING:
    from collections.abc import Iterator

PRIVATE = 0o600
"""The permissions of a file that is nobody else's business."""


@contextmanager
def replacing(path: Path, *, private: bool = False) -> Iterator[tuple[IO[bytes], Path]]:
    """A stream into a new file beside `path`, and that file's path.

    The new file takes the place of `path` if the block succeeds, and is removed otherwise: whoever looks
    at `path` sees the old content or the new, never a part. A link stays a link: what it points to is replaced,
    and a file that was there keeps its permissions. If `private`, the new file is its owner's only, from its first
    byte on and whatever was there.
    """
    target = Path(os.path.realpath(path))
    if not _replaceable(path, target):
        msg = f"{path}: this is not an ordinary file and will not be replaced; name another"
        raise DataError(msg)
    partial = target.with_name(_name_of_part())
    try:
        with _open(partial, PRIVATE) if private else _create(partial, target) as stream:
            yield stream, partial
            _to_disk(stream)
        partial.replace(target)
        _to_disk(target.parent)
    except OSError as error:
        raise _explain_failure(path, error) from None
    finally:
        partial.unlink(missing_ok=True)


def _replaceable(path: Path, target: Path) -> bool:
    """Whether there is nothing at all or an ordinary file; no folder, device or pipe, and no link in a circle."""
    if os.path.exists(path):  # noqa: PTH110  # pathlib raises for a name that is too long, which is told later
        return path.is_file()
    return not os.path.lexists(target)


def _create(partial: Path, target: Path) -> IO[bytes]:
    """A new file with the permissions of the one it replaces, from its first byte on: it may hold the same secrets."""
    if not target.exists():
        return partial.open("xb")
    return _open(partial, stat.S_IMODE(target.stat().st_mode) & 0o777)


def _open(partial: Path, mode: int) -> IO[bytes]:
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    stream = os.fdopen(descriptor, "wb")
    partial.chmod(mode)  # what the umask took away
    return stream


@contextmanager
def creating(path: Path, *, private: bool = True) -> Iterator[IO[bytes]]:
    """A stream into a new file for what cannot be made again, such as a key; only its owner may read it if `private`.

    As with `replacing` the file is there whole or not at all; but whatever is there already stays, also if it came
    while the block ran.
    """
    partial = path.parent / _name_of_part()
    try:
        if os.path.lexists(path):
            raise FileExistsError  # noqa: TRY301  # told below, as where the system says so
        with _open(partial, PRIVATE) if private else partial.open("xb") as stream:
            yield stream
            _to_disk(stream)
        _move_to_free_place(partial, path)
        _to_disk(path.parent)
    except FileExistsError:
        msg = f"{path}: there is something of that name already, and it is kept; name another file"
        raise DataError(msg) from None
    except OSError as error:
        raise _explain_failure(path, error) from None
    finally:
        with suppress(OSError):  # of a folder that is none, which is told already
            partial.unlink(missing_ok=True)


def _move_to_free_place(partial: Path, path: Path) -> None:
    """Give the file its name unless somebody has it; a rename would take it away from them."""
    try:
        path.hardlink_to(partial)
    except FileExistsError:
        raise
    except OSError:  # some file systems have no links
        if os.path.lexists(path):
            raise FileExistsError from None
        partial.rename(path)


def write_whole(path: Path, content: bytes, *, private: bool = False) -> None:
    """Write a file, its folder included, that appears whole or not at all; for its owner only if `private`.

    Raises:
        WriteError: It cannot be written.
    """
    make_folder_for(path)
    with replacing(path, private=private) as (stream, _):
        stream.write(content)


def _to_disk(what: IO[bytes] | Path) -> None:
    """Have it survive a power cut: a file before it gets its name, and then the folder that has the name."""
    if not isinstance(what, Path):
        what.flush()
        os.fsync(what.fileno())
        return
    with suppress(OSError):  # some systems have no way to do this for a folder
        folder = os.open(what, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def make_folder_for(path: Path) -> None:
    """Make the folder that a file will be in, with those above it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"{path}: its folder cannot be made ({error.strerror or error}); choose another place"
        raise WriteError(msg) from error


def _name_of_part() -> str:
    """Short, however long the name of the file is, and nobody else's."""
    return f".fedslim-{secrets.token_hex(8)}.part"


def _explain_failure(path: Path, error: OSError) -> WriteError:
    return WriteError(f"{path}: cannot be written ({error.strerror or error}); check the folder and the disk")


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """A stream into `path`, packed if the name ends in .gz; no time stamp, so that equal data make equal files."""
    with replacing(path) as (raw, _):
        if path.suffix == ".gz":
            with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0, compresslevel=6) as packed:
                yield packed  # type: ignore[misc]  # a GzipFile writes like any binary stream
        else:
            yield raw
