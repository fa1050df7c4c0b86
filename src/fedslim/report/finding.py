"""Where records are: in a file, in the folder of a run, or anywhere in the folder of an experiment."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fedslim.errors import InputError
from fedslim.federated.records import FAILED, FORMAT, RUN, load_run
from fedslim.format import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fedslim.federated.records import RunRecord

_OURS = f'"{FORMAT}"'.encode()
NAMED = 10
"""Cells that are named where several failed."""

_HEAD = 1 << 20
"""Bytes that tell what a file is: ours say so at the start, and JSON that others have sorted in time."""


@dataclass(frozen=True, slots=True)
class Found:
    """The records at some places, the files they are in, and a sentence about each thing that a reader will miss."""

    records: list[RunRecord]
    files: list[Path]
    remarks: list[str]


def find_records(paths: Sequence[str | Path], searched: Sequence[Path] = (), failed: Sequence[str] = ()) -> Found:
    """All records at these places: files, folders of runs, and folders with records anywhere in them.

    Args:
        paths: What somebody has named. A file that is named must be a record.
        searched: Files that somebody else has found. As in a folder, those that cannot be used are left out.
        failed: Cells that somebody else knows to have failed.

    Raises:
        InputError: A place has none, or none that can be used.
    """
    lenient = dict.fromkeys(searched, True)
    failures = list(failed)
    for place in map(Path, paths):
        alone = not place.is_dir() or (place / RUN).is_file()
        lenient |= dict.fromkeys(_files(place), not alone)
        failures += [] if alone else [path.name.removesuffix(FAILED) for path in sorted(place.rglob(f"*{FAILED}"))]
    found: dict[Path, tuple[Path, RunRecord]] = {}  # by where it really is, so that each comes once
    remarks: list[str] = []
    for file, may_be_left_out in lenient.items():
        if file.resolve() in found:
            continue
        try:
            found[file.resolve()] = file, load_run(file)
        except InputError as error:
            if not may_be_left_out:
                raise
            remarks.append(f"left out: {str(error).replace(str(file), file.name)}")  # a page may travel; paths need not
    if not found:
        raise InputError(remarks[0])
    if failures:
        names = ", ".join(failures[:NAMED]) + (", …" if len(failures) > NAMED else "")
        remarks.append(f"left out: {count(len(failures), 'cell')} that failed: {names}")
    return Found([record for _, record in found.values()], [file for file, _ in found.values()], remarks)


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
    """Every file that may be a record; numbers in names count as numbers, so that 2 members come before 10."""
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
