"""Masked vectors in messages: masking one member's, and adding up those of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedslim.errors import ProtocolError
from fedslim.protocol.wire_types import MAX_VECTOR, Vector
from fedslim.secagg import MaskedSum, Masker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fedslim.protocol.messages import Masked
    from fedslim.secagg import MaskLabel, PairSecret
    from fedslim.secagg.ring import Words

SUMS_CONTRADICT = "the sums contradict each other: a member does not count as the protocol says"
WORD_BITS = 64
MAX_WORDS = (MAX_VECTOR - (1 << 16)) * 8 // WORD_BITS  # leaves room for the frame around them


def check_words(words: int) -> None:
    """Check that an answer fits into a message, before any memory is allocated for it."""
    if words > MAX_WORDS:
        msg = f"the server asked for {words} words, but an answer has at most {MAX_WORDS}; it is refused"
        raise ProtocolError(msg)


class VectorMasker:
    """One member's masker for one purpose. Without secrets (one member, a measurement) words stay unmasked."""

    def __init__(self, name: str, secrets: Mapping[str, PairSecret], *, purpose: str) -> None:
        self._masker = Masker(name, secrets, purpose=purpose)

    def vector(self, words: Words, label: MaskLabel, *, about: bytes) -> Vector:
        """Mask the words, and return them as they are sent."""
        return Vector(len(words), WORD_BITS, self._masker.mask(words, label, about=about))


def add_up(replies: Mapping[str, Masked], length: int) -> Words:
    """Return the sum of the replies of exactly these members."""
    total = MaskedSum(replies, length=length)
    for member, reply in replies.items():
        if reply.words.bits != WORD_BITS or reply.words.length != length:
            msg = f"member {member!r} answered with {reply.words.length} words, but {length} were asked for"
            raise ProtocolError(msg)
        total.add(member, reply.words.data)
    return total.words()
