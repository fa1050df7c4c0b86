"""Masked vectors in messages: packing one member's counts, and adding up those of all."""

from __future__ import annotations

from collections.abc import Generator, Mapping

import numpy as np
from numpy.typing import NDArray

from fedslim.errors import ProtocolError
from fedslim.protocol.messages import FromServer, Masked, refused
from fedslim.protocol.variant import Replies, Round, UnmaskedWords
from fedslim.protocol.wire_types import MAX_VECTOR
from fedslim.secagg.ring import MAX_BITS, Ring, Words

SUMS_CONTRADICT = "the sums contradict each other: a member does not count as the protocol says"
WORD_BITS = 64
MAX_WORDS = (MAX_VECTOR - (1 << 16)) * 8 // WORD_BITS  # leaves room for the frame around them


def check_words(words: int) -> None:
    """Check that an answer fits into a message, before any memory is allocated for it."""
    if words > MAX_WORDS:
        raise ProtocolError(f"the server asked for {words} words, but an answer has at most {MAX_WORDS}; it is refused")


def add_up(replies: Mapping[str, Masked], length: int) -> Words:
    """Return the sum of the replies of all members; it is noise if one is missing."""
    total = np.zeros(length, np.uint64)
    for member, reply in replies.items():
        words = reply.words
        if (words.bits, words.length, 8 * len(words.data)) != (WORD_BITS, length, WORD_BITS * length):
            msg = f"member {member!r} answered with {len(words.data)} bytes, but {length} words were asked for"
            raise ProtocolError(msg)
        total += np.frombuffer(words.data, "<u8")
    return total


def pack_counts(purpose: str, counts: NDArray[np.int64], bits: int) -> UnmaskedWords:
    """Return counts as words, `bits` for each; the server has chosen these."""
    if bits > MAX_BITS:
        raise refused(f"the server asked for counts of {bits} bits, but at most {MAX_BITS} are possible")
    ring, length = Ring(bits, (1 << bits) - 1), len(counts)
    check_words(ring.words(length))
    words = np.zeros(ring.words(length), np.uint64)
    ring.put(words, np.arange(length, dtype=np.int32), counts, length=length)
    return UnmaskedWords(purpose, words)


def ask_counts(ask: FromServer, ring: Ring, length: int, kind: str) -> Generator[Round, Replies, NDArray[np.int64]]:
    """Ask all members for so many masked counts; return their sums."""
    replies = yield Round(ask, Masked, kind, ring.words(length))
    return ring.read(add_up(replies, ring.words(length)), length=length)
