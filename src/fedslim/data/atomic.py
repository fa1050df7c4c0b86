"""Files that are either complete or not there: written beside their place, then moved into it."""

from __future__ import annotations

import gzip
import os
import secrets
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from fedslim.errors import DataError, WriteError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[tuple[IO[bytes], Path]]:
    """A stream into a new file beside `path`, and that file's path.

    The new file takes the place of `path` if the block succeeds, and is removed otherwise: whoever looks
    at `path` sees the old content or the new, never a part.
    """
    if path.exists() and not path.is_file():
        msg = f"{path}: this is not an ordinary file and will not be replaced; name another"
        raise DataError(msg)
    partial = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        with partial.open("xb") as stream:
            yield stream, partial
        partial.replace(path)
    except OSError as error:
        msg = f"{path}: cannot be written ({error.strerror or error}); check the folder and the disk"
        raise WriteError(msg) from None
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """A stream into `path`, packed if the name ends in .gz; no time stamp, so that equal data make equal files."""
    with replacing(path) as (raw, _):
        if path.suffix == ".gz":
            with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0, compresslevel=6) as packed:
                yield packed  # type: ignore[misc]  # a GzipFile writes like any binary stream
        else:
            yield raw
