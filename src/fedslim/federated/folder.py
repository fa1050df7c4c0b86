"""The run folder: only one process at a time uses it, and a finished run stays finished.

The lock belongs to the operating system, so it ends with the process, however that ends. `set_aside` keeps the results
of an earlier run apart from those of the next one. A preparation is kept here, and found again.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec

from fedslim.data.atomic import write_whole
from fedslim.errors import ConfigurationError, DataError, ParameterError, WriteError
from fedslim.network.journal import check_folder, check_owner
from fedslim.protocol.preparation import Outline, Preparation

if TYPE_CHECKING:
    from fedslim.settings.federation_file import FederationFile

LOCK, FINISHED = ".lock", "finished.json"
EARLIER = "earlier"
RESULTS = ("codetable.json", "run.json", "report.html")
"""The results of a run, and the report that is written beside them by default."""
MAX_BYTES = 1 << 16

PREPARATION, PREPARATION_JOURNAL = "preparation.json", "preparation.journal"
"""In the run folders of the server and of members; the journal is there until the preparation is complete."""


class Finished(msgspec.Struct, frozen=True):
    """The run that ended in a folder."""

    who: str  # `server`, or the name of the member
    federation: str  # the digest of the federation file
    run: str
    ending: str
    itemsets: int
    at: str


class RunFolder:
    """A run folder that this process has locked."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    @contextlib.contextmanager
    def held(cls, path: Path, program: str) -> Iterator[Self]:
        """Lock a folder inside the `with` block; `ParameterError` if another process uses it."""
        check_folder(path / LOCK)
        try:
            descriptor = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        except OSError as error:
            msg = f"{path}: the folder cannot be written ({error.strerror}); choose another one with --out"
            raise WriteError(msg) from error
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            try:
                _lock(file.fileno())
            except BlockingIOError as error:
                holder = file.read(MAX_BYTES).decode("utf-8", "replace").strip() or "another process"
                raise ParameterError(
                    f"{path}: {holder} is working in this folder; wait for it, stop it, or choose another folder "
                    "with --out"
                ) from error
            except OSError as error:
                msg = f"{path}: the folder cannot be locked ({error.strerror}); choose one on a local disk with --out"
                raise WriteError(msg) from error
            with contextlib.suppress(OSError):  # the disk may be full; only the lock matters
                file.truncate(0)
                file.write(f"{program} (process {os.getpid()} on {socket.gethostname()})\n".encode())
            yield cls(path)

    def finished(self, *, who: str, federation: str) -> Finished | None:
        """Return the run that ended here, if there is one; `ParameterError` if it is of another party or federation."""
        path = self.path / FINISHED
        try:
            with path.open("rb") as file:
                check_owner(path, file)
                found = msgspec.json.decode(file.read(MAX_BYTES), type=Finished)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            msg = f"{path}: this file cannot be read ({error}); if the results beside it are not needed, move it away"
            raise DataError(msg) from error
        if (found.who, found.federation) != (who, federation):
            raise ParameterError(
                f"{self.path}: this folder has the result of another run (of {found.who}, {found.at}), or the "
                "federation file has changed since; choose another folder with --out"
            )
        return found

    def finish(self, finished: Finished) -> None:
        """Record that the run is over and its results are saved."""
        write_whole(self.path / FINISHED, msgspec.json.encode(finished) + b"\n", private=True)


def set_aside(folder: Path) -> Path | None:
    """Move results to a new folder below theirs, so that a report is never beside a later record; return it, if any."""
    results = [folder / name for name in RESULTS if (folder / name).is_file()]
    if not results:
        return None
    places = (folder / EARLIER / str(number) for number in itertools.count(1))
    place = next(place for place in places if not place.exists())
    try:
        place.parent.mkdir(mode=0o700, exist_ok=True)  # as `parents` would ignore the mode
        place.mkdir(mode=0o700)
        for path in results:
            path.rename(place / path.name)
    except OSError as error:
        moved = f"the results of an earlier run cannot be moved to {place} ({error.strerror})"
        raise WriteError(f"{folder}: {moved}; choose another folder with --out") from error
    return place


def keep_preparation(made: Preparation, file: FederationFile, out: Path) -> None:
    """Keep a preparation in the run folder; only then its journal may go."""
    msgspec.structs.replace(made, federation=file.digest()).write(out / PREPARATION)
    (out / PREPARATION_JOURNAL).unlink(missing_ok=True)


def find_preparation(given: Path | None, file: FederationFile, out: Path) -> Preparation | None:
    """Return the preparation that was given or that is in the run folder, from an interrupted run; None if none is."""
    path = given or out / PREPARATION
    if given is None and not path.exists():
        return None
    kept = Preparation.read(path, Outline.parse(file.schema.outline or ""))
    if kept.federation != file.digest():
        raise ConfigurationError(
            f"{path}: this preparation belongs to another federation file or schema than {file.path}; start without "
            "--preparation, in a new run folder"
        )
    return kept


def _lock(descriptor: int) -> None:
    """Lock a file for this process, or raise `BlockingIOError`."""
    try:
        import fcntl  # noqa: PLC0415  # not on Windows
    except ImportError:
        import msvcrt  # noqa: PLC0415

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        except PermissionError as error:
            raise BlockingIOError from error
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
