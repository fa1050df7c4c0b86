"""Atomic writes: write to a temporary file, flush it to disk, then move it into place."""

from __future__ import annotations

import gzip
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from fedslim.errors import DataError, WriteError

PRIVATE = 0o600  # permissions of a file that only its owner may read


@contextmanager
def replacing(path: Path, *, private: bool = False) -> Iterator[tuple[IO[bytes], Path]]:
    """Open a temporary file next to `path`; yield its stream and its path.

    If the block succeeds, the temporary file replaces `path`; otherwise it is removed. Readers of `path` see the old
    content or the new, never a part. A symbolic link stays: its target is replaced. The permissions of an existing
    file are kept. With `private`, only the owner may read the new file, from the first byte on, whatever was there.
    """
    target = Path(os.path.realpath(path))
    if not _replaceable(path, target):
        raise DataError(f"{path}: not a regular file, so it is not replaced; name another file")
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
    """Return whether `path` is free or a regular file, rather than a folder, device, pipe or circular link."""
    if os.path.exists(path):  # noqa: PTH110  # pathlib raises for a name that is too long, which is reported later
        return path.is_file()
    return not os.path.lexists(target)


def _create(partial: Path, target: Path) -> IO[bytes]:
    """Create the file with the permissions of the one it replaces from the start: it may hold the same secrets."""
    if not target.exists():
        return partial.open("xb")
    return _open(partial, stat.S_IMODE(target.stat().st_mode) & 0o777)


def _open(partial: Path, mode: int) -> IO[bytes]:
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    stream = os.fdopen(descriptor, "wb")
    partial.chmod(mode)  # restore the bits that the umask cleared
    return stream


@contextmanager
def creating(path: Path, *, private: bool = True) -> Iterator[IO[bytes]]:
    """Open a new file, atomically; an existing one stays, even one that appeared while the block ran."""
    partial = path.parent / _name_of_part()
    try:
        if os.path.lexists(path):
            raise FileExistsError  # noqa: TRY301  # handled below, like the one that the system raises
        with _open(partial, PRIVATE) if private else partial.open("xb") as stream:
            yield stream
            _to_disk(stream)
        _move_to_free_place(partial, path)
        _to_disk(path.parent)
    except FileExistsError:
        raise DataError(f"{path}: already exists and is not overwritten; name another file") from None
    except OSError as error:
        raise _explain_failure(path, error) from None
    finally:
        with suppress(OSError):  # the folder may not be one, which has been reported already
            partial.unlink(missing_ok=True)


def _move_to_free_place(partial: Path, path: Path) -> None:
    """Move the file to `path` unless that exists; a plain rename would overwrite it."""
    try:
        path.hardlink_to(partial)
    except FileExistsError:
        raise
    except OSError:  # some file systems have no hard links
        if os.path.lexists(path):
            raise FileExistsError from None
        partial.rename(path)


def write_whole(path: Path, content: bytes, *, private: bool = False) -> None:
    """Write a file atomically and create its folder; with `private`, only the owner may read it."""
    make_folder_for(path)
    with replacing(path, private=private) as (stream, _):
        stream.write(content)


def _to_disk(what: IO[bytes] | Path) -> None:
    """Flush to disk, to survive a power cut: first the file, and after the move the folder with its name."""
    if not isinstance(what, Path):
        what.flush()
        os.fsync(what.fileno())
        return
    with suppress(OSError):  # some systems cannot sync a folder
        folder = os.open(what, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def make_folder_for(path: Path) -> None:
    """Create the parent folder of a file, and the folders above it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"{path}: cannot create its folder ({error.strerror or error}); choose another folder"
        raise WriteError(msg) from error


def _name_of_part() -> str:
    """Return a unique name for a temporary file, short even if the name of the file is long."""
    return f".fedslim-{secrets.token_hex(8)}.part"


def _explain_failure(path: Path, error: OSError) -> WriteError:
    return WriteError(f"{path}: cannot be written ({error.strerror or error}); check the folder and the disk")


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Open `path` for writing, compressed if its name ends in .gz (without a time stamp: equal data, equal files)."""
    with replacing(path) as (raw, _):
        if path.suffix == ".gz":
            with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0, compresslevel=6) as packed:
                yield packed  # type: ignore[misc]  # a GzipFile writes like any binary stream
        else:
            yield raw
