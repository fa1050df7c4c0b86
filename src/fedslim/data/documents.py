"""Read and write fedslim's JSON files, which start with a format name and a version."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from fedslim.data.atomic import write_whole
from fedslim.errors import FedslimError

Content = TypeVar("Content")


class _Head(msgspec.Struct, frozen=True):
    """The fields that identify a file."""

    format: str
    version: Annotated[int, msgspec.Meta(ge=0, le=2**31)]


@dataclass(frozen=True, slots=True)
class Format:
    """A file format. `problem` is the message of an error, with the fields `path` and `why`."""

    name: str
    version: int
    error: type[FedslimError]
    problem: str
    oldest: int | None = None  # the oldest supported version, if not only the newest

    def bad(self, path: str | Path, why: str) -> FedslimError:
        """Return the error that names the file, the reason and what to do."""
        return self.error(self.problem.format(path=path, why=why))

    def read(self, path: Path, max_bytes: int) -> bytes:
        """Return the content of a file of at most `max_bytes`; a larger one is not read to the end."""
        with path.open("rb") as stream:
            data = stream.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise self.bad(path, f"it is larger than {max_bytes:,} bytes")
        return data

    @staticmethod
    def write(path: Path, content: msgspec.Struct, *, private: bool = True) -> None:
        """Write a file atomically, for people to read too; only its owner may read it if it is `private`."""
        write_whole(path, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n", private=private)

    def decode(self, data: bytes, path: str | Path, into: type[Content]) -> Content:
        """Decode a file's content; `path` is for messages."""
        try:
            if not data.strip():
                raise self.bad(path, "it is empty")
            head = msgspec.json.decode(data, type=_Head)
            if head.format != self.name:
                raise self.bad(path, f"its format is {head.format!r:.60}, not {self.name!r}")
            oldest = self.version if self.oldest is None else self.oldest
            read = f"versions {oldest} to" if oldest < self.version else "version"
            why = f"it is of version {head.version}, and this fedslim reads {read} {self.version}"
            if head.version < oldest:
                raise self.bad(path, why)
            if head.version > self.version:
                raise self.error(f"{path} is newer than this fedslim: {why}; update fedslim")
            return msgspec.json.decode(data, type=into)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.bad(path, str(error)) from None
        except RecursionError:
            raise self.bad(path, "it is nested too deeply") from None
