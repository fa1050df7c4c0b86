"""Public data sets: their records from `public_sets.toml`, and how to find, verify and download their files.

No data are shipped, and no file is trusted: its uncompressed content must match the checksum of its record. Files are
looked for in the given folders, then in the cache, then on the network.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import time
from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import msgspec

from fedslim.data.atomic import replacing
from fedslim.data.textstream import GZIP_MAGIC, open_bytes, told_as_data_errors
from fedslim.errors import DataError

UNPACKED_LIMIT = 2**30  # maximum uncompressed bytes; every public set is smaller
_CLOSE = 0.75  # similarity of names that counts as a typo, for `difflib`
DOWNLOAD_LIMIT = 256 * 2**20  # maximum bytes of a download; the largest public set has 34 MiB
TIMEOUT = 30.0  # seconds without data after which a download fails
DEADLINE = 900.0  # seconds after which a download fails, even if data still arrive
_CHUNK = 2**18


@dataclass(frozen=True, slots=True)
class PublicSet:
    """The record of a public data set. At least one of the two checksums is given."""

    name: str
    title: str
    transactions: int
    items: int
    length: str
    source: str
    licence: str
    citation: str
    sha256: str | None = None  # of the uncompressed file
    git_blob: str | None = None  # `git hash-object` of the uncompressed file
    url: str | None = None
    by_hand: str = ""  # how to get it if there is no URL
    partial: bool = False

    @property
    def file_names(self) -> tuple[str, ...]:
        """The possible file names, in search order."""
        return (f"{self.name}.dat", f"{self.name}.dat.gz", f"{self.name}.txt", f"{self.name}.txt.gz")

    @property
    def how_to_get(self) -> str:
        """How to get the file by hand: the last part of error messages."""
        origin = f"download it by hand from {self.url}" if self.url else self.by_hand
        return f"{origin}, and pass --from FOLDER or set FEDSLIM_DATA to its folder"


_REGISTRY = Path(__file__).with_name("public_sets.toml").read_bytes()
_SETS = msgspec.toml.decode(_REGISTRY, type=dict[Literal["set"], tuple[PublicSet, ...]])["set"]


def public_sets() -> tuple[PublicSet, ...]:
    """Return every public data set in the registry."""
    return _SETS


def public_set(name: str) -> PublicSet:
    """Return the record of a public data set; an error about an unknown name suggests similar ones."""
    records = {record.name: record for record in public_sets()}
    if name in records:
        return records[name]
    from fedslim.data.generators import BUILTIN_NAMES, KINDS  # noqa: PLC0415  # they import did_you_mean

    if name in BUILTIN_NAMES or name.partition(":")[0] in KINDS:
        made = "built in" if name in BUILTIN_NAMES else "generated"
        raise DataError(f"{name} is {made} and needs no download; use it by name, as in: fedslim mine {name}")
    raise DataError(f"there is no public data set {name!r}{did_you_mean(name, list(records))}")


def did_you_mean(name: str, known: list[str]) -> str:
    """Return the end of a message about an unknown name: similar names, or all names."""
    close = difflib.get_close_matches(name, known, n=3, cutoff=_CLOSE)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; the names are {', '.join(known)}"


def verify(record: PublicSet, path: Path) -> None:
    """Check the uncompressed content of `path` against the checksum of the set."""
    if record.sha256 is not None:  # one checksum is enough
        kind, wanted, digest = "sha256", record.sha256, hashlib.sha256()
    else:
        kind, wanted = "git blob id", record.git_blob or ""
        # Git hashes the size first, so the content is read twice.
        digest = hashlib.sha1(b"blob %d\0" % sum(map(len, _unpack(path))), usedforsecurity=False)
    for chunk in _unpack(path):
        digest.update(chunk)
    if (found := digest.hexdigest()) != wanted:
        raise DataError(
            f"{path}: this is not the public set {record.name} (its {kind} is {found}, expected {wanted}); "
            f"remove it, then {record.how_to_get}"
        )


def _unpack(path: Path) -> Iterator[bytes]:
    size = 0
    with open_bytes(path) as stream, told_as_data_errors(path):
        while chunk := stream.read(_CHUNK):
            size += len(chunk)
            if size > UNPACKED_LIMIT:
                raise DataError(f"{path}: larger than {UNPACKED_LIMIT:,} bytes, unlike any public set; check the file")
            yield chunk


# -- files ------------------------------------------------------------------------------------------------------------


def cache_folder() -> Path:
    """Return the folder for downloads: FEDSLIM_CACHE, or the user's cache folder. It may not exist yet."""
    if own := os.environ.get("FEDSLIM_CACHE"):
        return Path(own).expanduser()
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg) / "fedslim"
    try:
        return Path.home() / ".cache" / "fedslim"
    except RuntimeError:
        raise DataError("there is no home folder for the cache; set FEDSLIM_CACHE to a folder") from None


def data_folders(folder: str | os.PathLike[str] | None = None) -> list[Path]:
    """Return the folders with downloaded files: the given one, then those listed in FEDSLIM_DATA."""
    given = [] if folder is None else [Path(folder)]
    if given and not given[0].is_dir():
        raise DataError(f"{given[0]}: this is not a folder; give --from the folder with the data files")
    listed = os.environ.get("FEDSLIM_DATA", "").split(os.pathsep)
    return given + [Path(entry).expanduser() for entry in listed if entry]


def locate(name: str, *, folder: str | os.PathLike[str] | None = None) -> Path:
    """Find the file of a public set in `folder`, in the folders of FEDSLIM_DATA or in the cache; do not verify it."""
    record = public_set(name)
    places = [*data_folders(folder), cache_folder()]
    if (found := _find(record, places)) is not None:
        return found
    looked = ", ".join(map(str, places))
    fetch = f"fetch it with: fedslim data get {name}, or " if record.url else ""
    raise DataError(f"the data set {name} was not found (looked in {looked}); {fetch}{record.how_to_get}")


def get(name: str, *, folder: str | os.PathLike[str] | None = None, download: bool = True) -> Path:
    """Return the verified file of a public set in the cache; copy or download it first if necessary.

    A damaged file in the cache is fetched again; a file enters the cache only after it was verified.
    """
    record = public_set(name)
    cache = cache_folder()
    cached = _find(record, [cache])
    if cached is not None:
        with suppress(DataError):
            verify(record, cached)
            return cached
    found = _find(record, data_folders(folder))
    if found is not None:
        verify(record, found)  # report a wrong file in a given folder instead of skipping it
    if found is None and (not download or record.url is None):
        raise _unavailable(record, "is not available locally")
    chunks = _remote(record) if found is None else _local(found)
    with closing(chunks):
        return _keep(record, chunks, cache)


def _find(record: PublicSet, folders: list[Path]) -> Path | None:
    files = (place / name for place in folders for name in record.file_names)
    return next((file for file in files if file.is_file()), None)


def _keep(record: PublicSet, chunks: Generator[bytes, None, None], cache: Path) -> Path:
    """Write to a temporary file in the cache, verify it, and only then move it into place."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"{cache}: cannot create the cache folder ({error.strerror}); set FEDSLIM_CACHE to another folder"
        raise DataError(msg) from None
    first = next(chunks, b"")
    target = cache / f"{record.name}.dat{'.gz' if first.startswith(GZIP_MAGIC) else ''}"
    with replacing(target) as (out, partial):
        for chunk in chain((first,), chunks):
            out.write(chunk)
        out.flush()
        verify(record, partial)
    for other in record.file_names:
        if cache / other != target:
            (cache / other).unlink(missing_ok=True)  # a damaged copy must not be found first
    return target


def _local(path: Path) -> Generator[bytes, None, None]:
    with told_as_data_errors(path), path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk


def _remote(record: PublicSet) -> Generator[bytes, None, None]:
    """Download the set, with limits on size and time."""
    import http.client  # noqa: PLC0415  # takes longer than importing all of fedslim
    import urllib.error  # noqa: PLC0415

    size, end = 0, time.monotonic() + DEADLINE
    try:
        with _opener().open(record.url, timeout=TIMEOUT) as answer:
            while chunk := answer.read(_CHUNK):
                size += len(chunk)
                if size > DOWNLOAD_LIMIT or time.monotonic() > end:
                    what = f"did not end within {DOWNLOAD_LIMIT:,} bytes and {DEADLINE:.0f} seconds"
                    raise _unavailable(record, what)
                yield chunk
    except DataError:
        raise
    except urllib.error.HTTPError as error:
        error.close()
        raise _unavailable(record, f"could not be downloaded (HTTP status {error.code})") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error or type(error).__name__
        raise _unavailable(record, f"could not be downloaded ({reason})") from None


def _opener() -> Any:
    """Return an opener for HTTP and HTTPS only, so that no redirect leads to a file or an FTP server."""
    import urllib.request as web  # noqa: PLC0415  # see _remote

    opener = web.OpenerDirector()
    for handler in (
        web.ProxyHandler(),
        web.HTTPHandler(),
        web.HTTPSHandler(),
        web.HTTPRedirectHandler(),
        web.HTTPDefaultErrorHandler(),
        web.HTTPErrorProcessor(),
        web.UnknownHandler(),
    ):
        opener.add_handler(handler)
    opener.addheaders = [("User-Agent", "fedslim")]
    return opener


def _unavailable(record: PublicSet, what: str) -> DataError:
    return DataError(f"the data set {record.name} {what}; {record.how_to_get}")
