"""Find run records and code tables: in a file, a run folder, or anywhere below the folder of an experiment."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedslim.errors import InputError
from fedslim.federated.folder import EARLIER
from fedslim.federated.records import FAILED, FORMAT, RUN, RunRecord, load_run
from fedslim.format import count
from fedslim.mdl.files import FORMAT as TABLE_FORMAT
from fedslim.report.captions import Fact

NAMED = 10  # how many failed cells a remark names
_HEAD = 1 << 20  # bytes to search for the format: our files start with it; other programs may have sorted the keys


@dataclass(frozen=True, slots=True)
class Found:
    """The records found, their files, and a remark on each run that was left out."""

    records: list[RunRecord]
    files: list[Path]
    remarks: list[str]
    failed: list[Fact]  # cells of experiments, with the reason


def find_records(paths: Sequence[str | Path], searched: Sequence[Path] = (), failed: Sequence[Path] = ()) -> Found:
    """Load all records from the given files, run folders and folders with records anywhere below them.

    A named file must be a record or a code table. Of the files that the caller has `searched`, as in a folder, unusable
    ones are left out; `failed` are files about cells that failed.
    """
    lenient = dict.fromkeys(searched, True)
    failures = list(failed)
    for path in map(Path, paths):
        single = not path.is_dir() or (path / RUN).is_file()
        lenient |= dict.fromkeys(_files(path), not single)
        failures += [] if single else sorted(path.rglob(f"*{FAILED}"))
    found: dict[Path, tuple[Path, RunRecord]] = {}  # by resolved path, so that each record is loaded once
    remarks: list[str] = []
    for file, may_be_left_out in lenient.items():
        if file.resolve() in found:
            continue
        try:
            found[file.resolve()] = file, _load(file)
        except InputError as error:
            if not may_be_left_out:
                raise
            remarks.append(f"left out: {str(error).replace(str(file), file.name)}")  # pages are shared: name no folder
    if not found:
        raise InputError(remarks[0])
    reasons = [Fact(file.name.removesuffix(FAILED), _reason(file)) for file in failures]
    if reasons:
        names = ", ".join(cell.name for cell in reasons[:NAMED]) + (", …" if len(reasons) > NAMED else "")
        remarks.append(f"left out: {count(len(reasons), 'failed cell')}: {names}")
    return Found([record for _, record in found.values()], [file for file, _ in found.values()], remarks, reasons)


def _load(file: Path) -> RunRecord:
    if is_record(file) or not _names(file, TABLE_FORMAT):
        return load_run(file)
    from fedslim.federated.own_record import mined_record  # noqa: PLC0415  # loads numpy
    from fedslim.mdl.codetable import CodeTable  # noqa: PLC0415

    return mined_record(CodeTable.load(file), file.name)


def _reason(file: Path) -> str:
    """Return the last line of a failure: the message of the error."""
    with file.open("rb") as stream:
        lines = stream.read(_HEAD).decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "unknown"


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    if (path / RUN).is_file():
        return [path / RUN]
    below = (file for file in path.rglob("*.json") if EARLIER not in file.relative_to(path).parts)
    files = [file for file in sorted(below, key=_natural) if is_record(file)]
    if not files and (path / "classifier.json").is_file():
        raise InputError(f"{path}: this folder has a classifier and no run; use SlimClassifier.load on classifier.json")
    if not files:
        msg = (
            f"{path}: no run record in this folder or below it; name a folder written by `fedslim simulate --out`, "
            "`fedslim experiment run`, `fedslim server` or `fedslim member`, or a code table such as codetable.json"
        )
        raise InputError(msg)
    return files


def _natural(path: Path) -> list[tuple[int, str]]:
    """Return what sorts 2 members before 10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", str(path)) if part]


def is_record(path: Path) -> bool:
    """Return whether a file names the format of run records."""
    return _names(path, FORMAT)


def _names(path: Path, name: str) -> bool:
    try:
        with path.open("rb") as stream:
            return f'"{name}"'.encode() in stream.read(_HEAD)
    except OSError:
        return False
