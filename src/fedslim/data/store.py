"""Find, verify and download public data sets: look in the given folders, then the cache, then the network."""

from __future__ import annotations

import os
import time
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedslim.data.atomic import replacing
from fedslim.data.registry import PublicSet, public_set, verify
from fedslim.data.textstream import GZIP_MAGIC, told_as_data_errors
from fedslim.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Generator

DOWNLOAD_LIMIT = 256 * 2**20
"""Maximum bytes of a download; the largest public set has 34 MiB."""

TIMEOUT = 30.0
"""Seconds without data after which a download fails."""

DEADLINE = 900.0
"""Seconds after which a download fails, even if data still arrive."""

_CHUNK = 2**18


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
    """Find the file of a public set in `folder`, in the folders of FEDSLIM_DATA or in the cache, without verifying it.

    Raises:
        DataError: The file is in none of them; the message says how to get it.
    """
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
    if cached is not None and _is_good(record, cached):
        return cached
    found = _find(record, data_folders(folder))
    if found is not None:
        verify(record, found)  # report a wrong file in a given folder instead of skipping it
    if found is None and (not download or record.url is None):
        raise _unavailable(record, "is not available locally")
    chunks = _remote(record) if found is None else _local(found)
    with closing(chunks):
        return _keep(record, chunks, cache)


def _is_good(record: PublicSet, path: Path) -> bool:
    try:
        verify(record, path)
    except DataError:
        return False
    return True


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
    with told_as_data_errors(path):
        stream = path.open("rb")
    with stream:
        while True:
            with told_as_data_errors(path):
                chunk = stream.read(_CHUNK)
            if not chunk:
                return
            yield chunk


def _remote(record: PublicSet) -> Generator[bytes, None, None]:
    """Download the set, with limits on size and time.

    The HTTP libraries are imported only here, because importing them takes longer than importing all of fedslim.
    """
    import http.client  # noqa: PLC0415  # see above
    import urllib.error  # noqa: PLC0415  # see above

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
