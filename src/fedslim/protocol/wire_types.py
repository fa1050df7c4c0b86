"""The field types of messages: numbers and texts with their bounds, vectors. Decoding checks every bound."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fedslim.errors import ProtocolError

ID_BYTES = 16
MAX_ITEMS = 1 << 20
MAX_SLOTS = 1 << 22
MAX_MEMBERS = 4096
MAX_COUNT = 1 << 53
MAX_PARTS = 4096
MAX_MOVES = 1 << 18
"""At the end of a search with an effort, all itemsets of the best table enter at once."""
MAX_SEED = 2**63 - 1
MAX_VECTOR = 1 << 26
"""Bytes in one vector."""
MAX_SEALED = 1 << 24  # bytes of the labels that one member seals for the others

Number = Annotated[int, Meta(ge=0, lt=MAX_SLOTS)]
Item = Annotated[int, Meta(ge=0, lt=MAX_ITEMS)]
Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
RoundNumber = Annotated[int, Meta(ge=0, lt=1 << 47)]
Attempt = Annotated[int, Meta(ge=0, lt=1 << 16)]
Limit = Annotated[int, Meta(ge=1, le=MAX_COUNT)]
Bits = Annotated[int, Meta(ge=1, le=64)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Text = Annotated[str, Meta(max_length=2000)]
Ids = Annotated[bytes, Meta(max_length=ID_BYTES * MAX_ITEMS)]
Key = Annotated[bytes, Meta(min_length=32, max_length=32)]
Certificate = Annotated[bytes, Meta(max_length=8192)]
Digest = Annotated[bytes, Meta(max_length=64)]
SketchSize = Annotated[int, Meta(ge=1, le=MAX_ITEMS)]
Signature = Annotated[bytes, Meta(max_length=1024)]
Pair = tuple[Number, Number]
Pairs = Annotated[list[Pair], Meta(min_length=1, max_length=MAX_PARTS)]


def split_ids(ids: bytes) -> tuple[bytes, ...]:
    """Return the ids that were sent one after another."""
    return tuple(ids[k : k + ID_BYTES] for k in range(0, len(ids), ID_BYTES))


def refused(what: str) -> ProtocolError:
    """Return the error for a message that says or asks what it must not."""
    return ProtocolError(f"{what}; it is refused")


class Piece(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A part of a message. It cannot be part of a cycle, so the garbage collector need not look at it."""


class Message(Piece, frozen=True, tag=True):
    """Base of all messages; the class name is the tag, unless a shorter one is given."""


class Vector(Piece, frozen=True):
    """Numbers as a raw little-endian buffer: `length` of them, `bits` each (8, 16, 32 or 64)."""

    length: Annotated[int, Meta(ge=0, le=MAX_VECTOR)]
    bits: Bits
    data: Annotated[bytes, Meta(max_length=MAX_VECTOR)]

    WIDTHS: ClassVar = (8, 16, 32, 64)

    @classmethod
    def of(cls, values: NDArray[np.integer]) -> Vector:
        """Make a vector of non-negative numbers, in the narrowest width that holds them."""
        most = int(values.max(initial=0))
        bits = next(width for width in cls.WIDTHS if most >> width == 0)
        return cls(len(values), bits, values.astype(f"<u{bits // 8}").tobytes())

    def values(self, most: int = MAX_COUNT) -> NDArray[np.int64]:
        """Return the numbers; raise `ProtocolError` if one of them is above `most`."""
        if self.bits not in self.WIDTHS or len(self.data) * 8 != self.length * self.bits:
            msg = f"a vector announces {self.length} numbers of {self.bits} bits, but has {len(self.data)} bytes"
            raise ProtocolError(msg)
        numbers = np.frombuffer(self.data, f"<u{self.bits // 8}")
        if len(numbers) and int(numbers.max()) > most:
            raise ProtocolError(f"a vector holds the number {int(numbers.max())}; at most {most} is allowed there")
        return numbers.astype(np.int64)
