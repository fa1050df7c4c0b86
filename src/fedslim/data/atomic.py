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
    if os.path.lexists(target) and not path.is_file():  # a folder, a device, a pipe or a circular link
        raise DataError(f"{path}: not a regular file, so it is not replaced; name another file")
    with _written(path, target, private=private, new=False) as written:
        yield written


def _open(partial: Path, target: Path, *, private: bool) -> IO[bytes]:
    """Create the file with its permissions from the start; one that replaces another may hold the same secrets."""
    if not private and not target.exists():
        return partial.open("xb")
    mode = PRIVATE if private else stat.S_IMODE(target.stat().st_mode) & 0o777
    stream = open(partial, "xb", opener=lambda name, flags: os.open(name, flags, mode))  # noqa: SIM115
    partial.chmod(mode)  # restore the bits that the umask cleared
    return stream


@contextmanager
def creating(path: Path, *, private: bool = True) -> Iterator[IO[bytes]]:
    """Open a new file, atomically; an existing one stays, even one that appeared while the block ran."""
    with _written(path, path, private=private, new=True) as (stream, _):
        yield stream


@contextmanager
def _written(path: Path, target: Path, *, private: bool, new: bool) -> Iterator[tuple[IO[bytes], Path]]:
    """Write to a temporary file, and move it to `target` at the end; errors name `path`."""
    partial = target.parent / f".fedslim-{secrets.token_hex(8)}.part"  # short even if the name of the file is long
    try:
        if new and os.path.lexists(target):
            raise FileExistsError  # handled below, like the one that the system raises
        with _open(partial, target, private=private) as stream:
            yield stream, partial
            _to_disk(stream)
        if new:
            _move_to_free_place(partial, target)
        else:
            partial.replace(target)
        _to_disk(target.parent)
    except OSError as error:
        if new and isinstance(error, FileExistsError):
            raise DataError(f"{path}: already exists and is not overwritten; name another file") from None
        why = f"cannot be written ({error.strerror or error}); check the folder and the disk"
        raise WriteError(f"{path}: {why}") from None
    finally:
        with suppress(OSError):  # the folder may not be one, which has been reported already
            partial.unlink(missing_ok=True)


def _move_to_free_place(partial: Path, path: Path) -> None:
    """Move the file to `path` unless that exists; a plain rename would overwrite it."""
    try:
        path.hardlink_to(partial)
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


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Open `path` for writing, compressed if its name ends in .gz (without a time stamp: equal data, equal files)."""
    with replacing(path) as (raw, _):
        if path.suffix == ".gz":
            with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0, compresslevel=6) as packed:
                yield packed  # type: ignore[misc]  # a GzipFile writes like any binary stream
        else:
            yield raw
