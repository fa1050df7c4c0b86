"""Messages as bytes: a 4-byte length, then the message, packed by msgspec and compressed by zlib.

    frame = to_bytes(message)                  # Frame(data, plain): what goes on the line, and its size before zlib
    message = from_server(data[4:])

Nothing is allocated that a peer only claims: the length is checked before reading, the size after decompression while
decompressing, and every count by the types in `messages.py`.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from fedslim.errors import FrameError
from fedslim.protocol.messages import FromMember, FromServer, Masked

if TYPE_CHECKING:
    from fedslim.protocol.messages import Message

PREFIX_BYTES = 4
MAX_FRAME = 1 << 26
"""Bytes of one frame, compressed."""

MAX_PLAIN = 1 << 27
"""Bytes of one message, decompressed."""

SMALL = 1 << 16
"""Bytes of a message that has no vector and no ids in it, and then some."""

STORED, FAST = 0, 1
"""Levels of zlib. Masked words are noise: compressing them takes time and saves nothing."""

_encoder = msgspec.msgpack.Encoder()
_from_member = msgspec.msgpack.Decoder(FromMember)
_from_server = msgspec.msgpack.Decoder(FromServer)


@dataclass(frozen=True, slots=True)
class Frame:
    """A message ready to be sent: its bytes, and how many it had before compression, the prefix included in both."""

    data: bytes
    plain: int


def to_bytes(message: Message) -> Frame:
    """The frame of a message."""
    plain = _encoder.encode(message)
    packed = zlib.compress(plain, STORED if isinstance(message, Masked) else FAST)
    if len(packed) > MAX_FRAME or len(plain) > MAX_PLAIN:
        msg = (
            f"a {type(message).__name__} message has {len(plain)} bytes, {len(packed)} compressed; at most "
            f"{MAX_PLAIN} and {MAX_FRAME} may be sent. The data are too wide for one message"
        )
        raise FrameError(msg)
    return Frame(len(packed).to_bytes(PREFIX_BYTES, "big") + packed, PREFIX_BYTES + len(plain))


def packed_at_most(plain: int) -> int:
    """Bytes of the frame of a message of so many: zlib adds five to each block that it cannot make smaller."""
    return min(MAX_FRAME, plain + plain // 1000 + 64)


def length_of(prefix: bytes) -> int:
    """How many bytes follow the prefix; a length that is not allowed is refused before anything is read."""
    if len(prefix) != PREFIX_BYTES:
        msg = f"a frame begins with {PREFIX_BYTES} bytes of length; there are only {len(prefix)}"
        raise FrameError(msg)
    length = int.from_bytes(prefix, "big")
    if not 0 < length <= MAX_FRAME:
        msg = f"a frame says it has {length} bytes; 1 to {MAX_FRAME} are allowed"
        raise FrameError(msg)
    return length


def from_member(data: bytes | memoryview, most: int = MAX_PLAIN) -> FromMember:
    """The message of a member, of at most so many bytes decompressed, from what followed the prefix."""
    message: FromMember = _decode(data, _from_member, most)
    return message


def from_server(data: bytes | memoryview) -> FromServer:
    """The message of the server, from what followed the prefix."""
    message: FromServer = _decode(data, _from_server, MAX_PLAIN)
    return message


def _decode(data: bytes | memoryview, decoder: Any, most: int) -> Any:
    unpacker = zlib.decompressobj()
    try:
        plain = unpacker.decompress(data, min(most, MAX_PLAIN))
    except zlib.error as error:
        msg = f"a frame of {len(data)} bytes is not compressed as it should be: {error}"
        raise FrameError(msg) from error
    if not unpacker.eof or unpacker.unused_data:
        what = "is larger than allowed" if unpacker.unconsumed_tail else "is cut short or has something behind its end"
        msg = f"a frame of {len(data)} bytes {what}"
        raise FrameError(msg)
    try:
        return decoder.decode(plain)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        msg = f"a frame of {len(data)} bytes holds no message we know: {error}"
        raise FrameError(msg) from error
