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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

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
    """Yield blocks of complete lines in UTF-8; normalise line ends, drop a byte order mark, and reject NUL bytes."""
    path = Path(path)
    first_line = 1
    for data in _whole_lines(path, LINE_LIMIT, encoding):
        text = data.removeprefix(_BOM) if first_line == 1 else data
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if (nul := text.find(b"\0")) >= 0:
            line = first_line + text.count(b"\n", 0, nul)
            msg = f"{path}:{line}: contains a NUL byte, so it is not UTF-8 text; give its --encoding or --format"
            raise DataError(msg)
        if text:
            yield Block(text, first_line)
        first_line += text.count(b"\n")
    if first_line == 1:
        raise DataError(f"{path}: the file is empty; a data file has one transaction or row per line")


def _whole_lines(path: Path, limit: int, encoding: str | None) -> Iterator[bytes]:
    """Yield pieces that end with a newline; hold at most one line and one chunk in memory."""
    pending: list[bytes] = []
    held = 0
    lines = 0
    to_utf8 = _recoder(path, encoding)
    with open_bytes(path) as stream:
        while True:
            with told_as_data_errors(path):
                read = stream.read(min(CHUNK, limit))
            chunk = to_utf8(read)
            if not read and not chunk:
                break
            cut = chunk.rfind(b"\n") + 1
            if held + (chunk.find(b"\n") if cut else len(chunk)) > limit:
                raise DataError(
                    f"{path}:{lines + 1}: the line is longer than {limit:,} bytes; "
                    "put each transaction, or row, on its own line"
                )
            if cut:
                whole = b"".join([*pending, chunk[:cut]])
                lines += whole.count(b"\n")
                yield whole
                pending, held = [], 0
            if cut < len(chunk):
                pending.append(chunk[cut:])
                held += len(chunk) - cut
    rest = b"".join(pending)
    if rest and (lines or rest != _BOM):  # a file with only a byte order mark is empty
        yield rest + b"\n"


def _recoder(path: Path, encoding: str | None) -> Callable[[bytes], bytes]:
    """Return a function that converts pieces of a file to UTF-8; the last piece is empty."""
    if encoding is None:
        return lambda data: data
    try:
        decoder = codecs.getincrementaldecoder(encoding)()
        decoder.decode(b"").encode()  # not with a codec such as zlib, which makes bytes
    except (LookupError, AttributeError, ValueError):
        msg = f"there is no encoding {encoding!r}; give one such as utf-8, latin-1, cp1252 or utf-16"
        raise ParameterError(msg) from None

    def recode(data: bytes) -> bytes:
        try:
            return decoder.decode(data, final=not data).encode()
        except UnicodeError as error:
            msg = f"{path}: cannot be decoded as {encoding} ({getattr(error, 'reason', error)}); give its --encoding"
            raise DataError(msg) from None

    return recode


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
