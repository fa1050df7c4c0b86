"""Read and write FIMI files: one transaction per line, items as whole numbers separated by blanks.

Parsing works on blocks of bytes with numpy: line by line in Python, a database as large as Accidents takes most of a
minute. Only a block with an error is read line by line, to locate the error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedslim.data.atomic import writing
from fedslim.data.columns import ranked
from fedslim.data.database import TransactionDatabase
from fedslim.data.textstream import Block, blocks, explain_decoding
from fedslim.errors import DataError

LARGEST_ITEM = 2**63 - 1  # the largest item number: they are read as signed 64-bit integers
_SAFE_DIGITS = 18  # numbers with this many digits always fit 64 bits; longer ones are checked one by one

_ALLOWED = b"0123456789 \t\n\v\f"
_ROWS_PER_WRITE = 20_000


def read_fimi(path: str | os.PathLike[str], *, name: str | None = None) -> TransactionDatabase:
    """Read a FIMI file; the vocabulary has the items that occur, in ascending order.

    A blank line is an empty transaction. Item 0 is accepted, because some files of the FIMI repository use it.
    """
    path = Path(path)
    values, lengths = map(np.concatenate, zip(*(_parse(path, block) for block in blocks(path)), strict=True))
    return _database(values, lengths, name or stem(path))


def fimi_chunks(path: Path) -> Iterator[TransactionDatabase]:
    """Read a FIMI file in blocks of some megabytes, each with the items that occur in it."""
    return (_database(*_parse(path, block), stem(path)) for block in blocks(path))


def _database(values: NDArray[np.signedinteger], lengths: NDArray[np.int64], name: str) -> TransactionDatabase:
    numbers, ids = ranked(values)
    return TransactionDatabase.from_rows(lengths, ids, [str(n) for n in numbers.tolist()], name=name)


def stem(path: Path) -> str:
    """Return the file's name without extensions: `chess` for `data/chess.dat.gz`."""
    bare = path.name.removesuffix(".gz")
    return Path(bare).stem or bare


def _parse(path: Path, block: Block) -> tuple[NDArray[np.signedinteger], NDArray[np.int64]]:
    """Return the item numbers of a block in file order, and the number of items on each line."""
    raw = np.frombuffer(block.data, np.uint8)
    if block.data.translate(None, _ALLOWED):
        raise _first_bad_field(path, block)
    edges = np.flatnonzero(
        np.diff(raw >= ord("0"), prepend=False)
    )  # a block ends with a newline, so every number has an end
    starts, ends = edges[0::2], edges[1::2]
    if not all(_fits(block.data[starts[k] : ends[k]]) for k in np.flatnonzero(ends - starts > _SAFE_DIGITS).tolist()):
        raise _first_bad_field(path, block)
    values = np.fromstring(block.data if starts.size else b"", np.int64, sep=" ")
    before = np.searchsorted(starts, np.flatnonzero(raw == ord("\n")))
    narrow = values.astype(np.int32) if values.size and values.max() < 2**31 else values
    return narrow, np.diff(before, prepend=0).astype(np.int64)


def _first_bad_field(path: Path, block: Block) -> DataError:
    """Find the first field of the block that is not an item number, and return the error."""
    for line, text in enumerate(block.data.split(b"\n"), block.first_line):
        for field, token in enumerate(text.split(), 1):
            if token.isdigit() and _fits(token):
                continue
            shown = explain_decoding(path, token, line)
            shown = shown if len(shown) <= 40 else shown[:37] + "..."  # noqa: PLR2004  # fits into a sentence
            reason = "is too large for an item number" if token.isdigit() else "is not a positive integer"
            return DataError(
                f"{path}:{line}: field {field} {shown!r} {reason}; FIMI items are whole numbers up to "
                f"{LARGEST_ITEM} separated by blanks, and a table with a header needs --format csv or tsv"
            )
    return DataError(f"{path}:{block.first_line}: contains bytes that are not item numbers; check the file")


def _fits(digits: bytes) -> bool:
    bare = digits.lstrip(b"0")
    return len(bare) <= _SAFE_DIGITS or (len(bare) <= len(str(LARGEST_ITEM)) and int(bare) <= LARGEST_ITEM)


def write_fimi(db: TransactionDatabase, path: str | os.PathLike[str]) -> Path:
    """Write a FIMI file atomically, compressed if the name ends in .gz, and return its path.

    If all labels are whole numbers, they are written as they are; otherwise items are numbered from 1 in vocabulary
    order, because FIMI has no other labels.
    """
    if not len(db):
        msg = f"{db.name!r} has no transactions, so its FIMI file would be empty; give a database with transactions"
        raise DataError(msg)
    path = Path(path)
    with writing(path) as stream:
        stream.writelines(_lines(db))
    return path


def _lines(db: TransactionDatabase) -> Iterator[bytes]:
    own = all(label.isascii() and label.isdigit() and str(int(label[:20])) == label for label in db.vocabulary)
    fits = own and all(int(label) <= LARGEST_ITEM for label in db.vocabulary)
    labels = list(db.vocabulary) if fits else [str(number) for number in range(1, len(db.vocabulary) + 1)]
    for start in range(0, len(db), _ROWS_PER_WRITE):
        offsets = db.offsets[start : start + _ROWS_PER_WRITE + 1].tolist()
        texts = [labels[i] for i in db.items[offsets[0] : offsets[-1]].tolist()]
        bounds = [offset - offsets[0] for offset in offsets]
        rows = (" ".join(texts[a:b]) for a, b in pairwise(bounds))
        yield ("\n".join(rows) + "\n").encode("ascii")
