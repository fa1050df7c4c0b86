"""Open data files with bounded memory, gzip support and uniform error messages.

Every text reader gets its bytes from `blocks`. A folder, a truncated archive or an endless line is therefore reported
in the same way for every format, and no reader holds more of a file than it needs.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fedslim.errors import DataError, ParameterError

LINE_LIMIT = 16 * 2**20
"""Maximum bytes of a line: enough for millions of items, and an endless line fails before it fills the memory."""

CHUNK = 4 * 2**20  # bytes to read at a time: large enough for vectorised parsing, small compared with large data sets
GZIP_MAGIC = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"


def is_folder(path: Path) -> bool:
    """Return whether `path` is a folder; unlike pathlib, False for impossible paths."""
    return os.path.isdir(path)  # noqa: PTH112  # Path.is_dir raises for a path that is too long


def is_stdin(path: str | os.PathLike[str]) -> bool:
    """Return whether `path` is `-`, which stands for standard input."""
    return os.fspath(path) == "-"


def is_file(path: Path) -> bool:
    """Return whether `path` exists and is not a folder: a file, a pipe or standard input."""
    return is_stdin(path) or (os.path.exists(path) and not is_folder(path))  # noqa: PTH110  # as above


def real_path(path: str | os.PathLike[str]) -> Path:
    """Return a path, after checking that it has no NUL character."""
    if "\0" in str(path):  # the only bad path for which the system raises no OSError
        msg = f"{str(path)!r} is not a valid path because it contains a NUL character; give the path of a file"
        raise DataError(msg)
    return Path(path)


@dataclass(frozen=True, slots=True)
class Block:
    """Complete lines of a file: bytes that end with a newline, and the number of the first line (from 1)."""

    data: bytes
    first_line: int


@contextmanager
def told_as_data_errors(path: Path) -> Iterator[None]:
    """Turn errors of the system and the decompressor into a `DataError` that names the file."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file; check the spelling and the folder") from None
    except IsADirectoryError:
        raise DataError(f"{path}: this is a folder; name one file in it") from None
    except PermissionError:
        msg = f"{path}: you have no permission to read this file; change its permissions, or copy it elsewhere"
        raise DataError(msg) from None
    except EOFError:
        raise DataError(f"{path}: the gzip file is truncated; download or compress it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: the gzip file is damaged ({error}); download or compress it again") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}); check the file and the disk") from None


@contextmanager
def open_bytes(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for reading, and decompress it if its content (not its name) is gzip; callers guard their reads."""
    path = real_path(path)
    with told_as_data_errors(path):
        raw = open(sys.stdin.fileno(), "rb", closefd=False) if is_stdin(path) else path.open("rb")  # noqa: SIM115
    with raw:
        with told_as_data_errors(path):
            packed = raw.peek(len(GZIP_MAGIC))[: len(GZIP_MAGIC)] == GZIP_MAGIC
            empty = not raw.peek(1)
        if empty:
            raise DataError(f"{path}: the file is empty; a data file has one transaction or row per line")
        if packed:
            with gzip.GzipFile(fileobj=raw) as unpacked:
                yield io.BufferedReader(unpacked)
        elif path.suffix == ".gz":
            msg = f"{path}: the name ends in .gz but the content is not gzip; rename it, or compress it with gzip"
            raise DataError(msg)
        else:
            yield raw


def blocks(path: str | os.PathLike[str], encoding: str | None = None) -> Iterator[Block]:
    """Yield blocks of complete lines in UTF-8; hold at most one line and one chunk in memory.

    Line ends are normalised, a byte order mark is dropped, and NUL bytes are rejected.
    """
    path, line = Path(path), 1
    with open_bytes(path) as raw:
        stream = raw if encoding is None else _decoded(raw, encoding)
        while read := _lines(path, stream, line):
            text = read.removeprefix(_BOM) if line == 1 else read
            if not text:
                break
            if b"\r" in text:
                text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            if (nul := text.find(b"\0")) >= 0:
                place = line + text.count(b"\n", 0, nul)
                msg = f"{path}:{place}: contains a NUL byte, so it is not UTF-8 text; give its --encoding or --format"
                raise DataError(msg)
            yield (block := Block(text if text.endswith(b"\n") else text + b"\n", line))
            line += block.data.count(b"\n")
    if line == 1:
        raise DataError(f"{path}: the file is empty; a data file has one transaction or row per line")


def _decoded(raw: IO[bytes], encoding: str) -> IO[str]:
    try:
        codecs.lookup(encoding)  # does not know "locale", which differs between machines
        return io.TextIOWrapper(raw, encoding, newline="\n")
    except (LookupError, ValueError):
        msg = f"there is no encoding {encoding!r}; give one such as utf-8, latin-1, cp1252 or utf-16"
        raise ParameterError(msg) from None


def _lines(path: Path, stream: Any, line: int) -> bytes:
    """Read a chunk and the rest of its last line; `line` is the number of the first."""
    try:
        with told_as_data_errors(path):
            read = stream.read(min(CHUNK, LINE_LIMIT)) + stream.readline(LINE_LIMIT + 1)
        data: bytes = read.encode() if isinstance(read, str) else read
    except UnicodeError as error:
        reason = getattr(error, "reason", error)
        msg = f"{path}: cannot be decoded as {stream.encoding} ({reason}); give its --encoding"
        raise DataError(msg) from None
    last = data.rfind(b"\n", 0, -1) + 1
    if len(data.removesuffix(b"\n")) - last > LINE_LIMIT:
        place = line + data.count(b"\n", 0, last)
        raise DataError(
            f"{path}:{place}: the line is longer than {LINE_LIMIT:,} bytes; put each transaction, or row, on its own "
            "line"
        )
    return data


def explain_decoding(path: str | os.PathLike[str], data: bytes, first_line: int) -> str:
    """Decode UTF-8; an error names the line and says how to convert the file."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first_line + data.count(b"\n", 0, error.start)
        raise DataError(
            f"{path}:{line}: byte 0x{data[error.start]:02x} is not UTF-8; give the encoding, "
            "for instance --encoding latin-1"
        ) from None


def text_lines(path: str | os.PathLike[str], encoding: str | None = None) -> Iterator[str]:
    """Yield the lines of a text file, in UTF-8 if no encoding is given, each with its newline."""
    for block in blocks(path, encoding):
        # Not splitlines(), which also splits at form feeds and other characters that are content here.
        yield from (line + "\n" for line in explain_decoding(path, block.data, block.first_line)[:-1].split("\n"))
