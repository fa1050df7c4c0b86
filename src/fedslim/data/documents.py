"""Our own JSON files, each with the name of its format and a version: read within bounds, refused with the reason.

FILES = Format("fedslim-vocabulary", 1, bad=lambda path, why: DataError(...))
FILES.decode(data, path, _File)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fedslim.errors import FedslimError

Content = TypeVar("Content")


class _Head(msgspec.Struct, frozen=True):
    """Enough of a file to tell what it is, whatever else it holds."""

    format: str
    version: Annotated[int, msgspec.Meta(ge=0, le=2**31)]


@dataclass(frozen=True, slots=True)
class Format:
    """A format of ours. `bad` makes the error that names the file, says why it is refused and what to do."""

    name: str
    version: int
    bad: Callable[[str | Path, str], FedslimError]
    oldest: int | None = None  # the oldest version that is still read, if not only the newest

    def read(self, path: Path, max_bytes: int) -> bytes:
        """The content of a file.

        Raises:
            OSError: It cannot be read.
            FedslimError: It is larger than any of ours, and was not read to its end.
        """
        with path.open("rb") as stream:
            data = stream.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise self.bad(path, f"it is larger than {max_bytes:,} bytes")
        return data

    def decode(self, data: bytes, path: str | Path, into: type[Content]) -> Content:
        """What a file says; `path` is where it is from.

        Raises:
            FedslimError: It is of another format or version, or damaged; the message names the field.
        """
        try:
            head = msgspec.json.decode(data, type=_Head)
            if head.format != self.name:
                raise self.bad(path, f"its format is {head.format!r:.60}, not {self.name!r}")
            oldest = self.version if self.oldest is None else self.oldest
            if not oldest <= head.version <= self.version:
                read = f"versions {oldest} to" if oldest < self.version else "version"
                why = f"it is of version {head.version}, and this fedslim reads {read} {self.version}"
                raise self.bad(path, why)
            return msgspec.json.decode(data, type=into)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.bad(path, str(error)) from None
        except RecursionError:
            raise self.bad(path, "there are too many brackets in brackets in it") from None
