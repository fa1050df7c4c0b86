"""Messages as bytes: a 4-byte length, then the message, packed by msgspec and compressed by zlib.

No memory is allocated on a peer's word: the length is checked before reading, the decompressed size during
decompression, and every count by the types in `messages.py`.
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import msgspec

from fedslim.errors import FrameError
from fedslim.protocol.messages import FromMember, FromServer, Labels, Masked, Message

PREFIX_BYTES = 4
MAX_FRAME = 1 << 26
"""Largest frame in bytes, compressed."""

MAX_PLAIN = 1 << 27  # largest message in bytes, decompressed

SMALL = 1 << 16  # generous bound in bytes for a message without vectors and ids

STORED = (0, zlib.DEFLATED, 9, 1)
COMPRESSED = (6, zlib.DEFLATED, zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, zlib.Z_FILTERED)
"""How zlib packs. What is masked or sealed looks random: compressing it takes time and saves nothing, so zlib gets the
least level and memory. The rest is mostly small numbers, for which it has the strategy that is called filtered."""

_encoder = msgspec.msgpack.Encoder()
_from_member = msgspec.msgpack.Decoder(FromMember)
_from_server = msgspec.msgpack.Decoder(FromServer)


class Frame(NamedTuple):
    """A message ready to be sent: its bytes, and its size before compression, both including the prefix."""

    data: bytes
    plain: int


def to_bytes(message: Message) -> Frame:
    """Encode a message as a frame."""
    plain = _encoder.encode(message)
    packer = zlib.compressobj(*(STORED if isinstance(message, (Masked, Labels)) else COMPRESSED))
    packed = packer.compress(plain) + packer.flush()
    if len(packed) > MAX_FRAME or len(plain) > MAX_PLAIN:
        raise FrameError(
            f"a {type(message).__name__} message has {len(plain)} bytes, {len(packed)} compressed, but at most "
            f"{MAX_PLAIN} and {MAX_FRAME} are allowed. The data are too wide for one message"
        )
    return Frame(len(packed).to_bytes(PREFIX_BYTES, "big") + packed, PREFIX_BYTES + len(plain))


def packed_at_most(plain: int) -> int:
    """Bound the size of the frame of a message of `plain` bytes: zlib adds five bytes to each incompressible block."""
    return min(MAX_FRAME, plain + plain // 1000 + 64)


def length_of(prefix: bytes) -> int:
    """Return how many bytes follow the prefix; raise `FrameError` for a length that is not allowed."""
    if len(prefix) != PREFIX_BYTES:
        raise FrameError(f"a frame begins with a length of {PREFIX_BYTES} bytes, but only {len(prefix)} arrived")
    length = int.from_bytes(prefix, "big")
    if not 0 < length <= MAX_FRAME:
        raise FrameError(f"a frame claims to have {length} bytes; 1 to {MAX_FRAME} are allowed")
    return length


def from_member(data: bytes | memoryview, most: int = MAX_PLAIN) -> FromMember:
    """Decode a member's message, without the prefix; `most` bounds its size after decompression."""
    message: FromMember = _decode(data, _from_member, most)
    return message


def from_server(data: bytes | memoryview) -> FromServer:
    """Decode a message from the server, without the prefix."""
    message: FromServer = _decode(data, _from_server, MAX_PLAIN)
    return message


def _decode(data: bytes | memoryview, decoder: Any, most: int) -> Any:
    unpacker = zlib.decompressobj()
    try:
        plain = unpacker.decompress(data, min(most, MAX_PLAIN))
    except zlib.error as error:
        raise FrameError(f"a frame of {len(data)} bytes cannot be decompressed: {error}") from error
    if not unpacker.eof or unpacker.unused_data:
        what = "is larger than allowed" if unpacker.unconsumed_tail else "is cut short or has extra bytes after its end"
        raise FrameError(f"a frame of {len(data)} bytes {what}")
    try:
        return decoder.decode(plain)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise FrameError(f"a frame of {len(data)} bytes holds no message we know: {error}") from error
