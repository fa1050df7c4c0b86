"""Where records are: in a file, in the folder of a run, or anywhere in the folder of an experiment."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from fedslim.errors import InputError
from fedslim.federated.records import FORMAT, RUN, load_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fedslim.federated.records import RunRecord

_OURS = f'"{FORMAT}"'.encode()
_HEAD = 1 << 20
"""Bytes that tell what a file is: ours say so at the start, and JSON that others have sorted in time."""


def find_records(paths: Sequence[str | Path]) -> list[RunRecord]:
    """All records at these places: files, folders of runs, and folders with records anywhere in them.

    Raises:
        InputError: A place has none, or one that cannot be used.
    """
    return [load_run(path) for path in record_files(paths)]


def record_files(paths: Sequence[str | Path]) -> list[Path]:
    """The files of all records at these places, each once, however often it is named.

    Raises:
        InputError: A folder has none.
    """
    found = chain.from_iterable(_files(Path(path)) for path in paths)
    return list({file.resolve(): file for file in found}.values())


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    if (path / RUN).is_file():
        return [path / RUN]
    files = [file for file in _below(path) if is_record(file)]
    if not files:
        msg = (
            f"{path}: there is no record of a run in this folder or below it; "
            "name the folder that `fedslim simulate --out`, `fedslim experiment run` or `fedslim server` has written "
            "(a member has a table, codetable.json, and no record)"
        )
        raise InputError(msg)
    return files


def _below(folder: Path) -> Iterator[Path]:
    """Every file that may be a record; numbers in names count as numbers, so that 2 sites come before 10."""
    return iter(sorted(folder.rglob("*.json"), key=_natural))


def _natural(path: Path) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", str(path)) if part]


def is_record(path: Path) -> bool:
    """Whether a file says of itself that it is the record of a run."""
    try:
        with path.open("rb") as stream:
            return _OURS in stream.read(_HEAD)
    except OSError:
        return False
