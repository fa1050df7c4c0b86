"""Pairwise masks that cancel: one member of each pair adds, the other subtracts, the same random words.

    masker = Masker("hospital-a", {"hospital-b": secret, …}, purpose="answers")
    data = masker.mask(words, MaskLabel(round=7, attempt=0), about=digest)

A mask is the AES-128-CTR key stream of the pair's key for this purpose, at a position derived from the label and from
`about`, a digest of the question. If members are asked different questions, the sum is noise. No position is used
twice: labels must increase, and each has its own 2^32 blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from fedslim.errors import KeyAgreementError, MaskReuseError
from fedslim.secagg.aes import BLOCKS_IN_STEP, WORDS_IN_STEP, KeyStreams

if TYPE_CHECKING:
    from fedslim.secagg.keys import PairSecret
    from fedslim.secagg.ring import Words

LABEL = b"fedslim secure aggregation v1: masks for "
ROUND_BYTES, ATTEMPT_BYTES = 6, 2
PLACE_BYTES, BLOCK_BYTES = 12, 4


@dataclass(frozen=True, slots=True, order=True)
class MaskLabel:
    """Identifies one vector of a run: the round, and the attempt, if the round is repeated."""

    round: int
    attempt: int = 0

    def __post_init__(self) -> None:
        if not (0 <= self.round < 1 << 8 * ROUND_BYTES and 0 <= self.attempt < 1 << 8 * ATTEMPT_BYTES):
            raise MaskReuseError(f"{self} is out of range: its mask would be that of another label")


def place(label: MaskLabel, about: bytes) -> bytes:
    """Return the start of a label's key stream: 96 bits of a hash, different for each label."""
    encoded = label.round.to_bytes(ROUND_BYTES, "big") + label.attempt.to_bytes(ATTEMPT_BYTES, "big")
    return sha256(encoded + about).digest()[:PLACE_BYTES]


@lru_cache(maxsize=2)
def counters(start: bytes, blocks: int) -> bytes:
    """Return consecutive counter blocks, cached because all pairs of a member use the same ones."""
    counter = np.empty((blocks, 16), np.uint8)
    counter[:, :PLACE_BYTES] = np.frombuffer(start, np.uint8)
    counter[:, PLACE_BYTES:] = np.arange(blocks, dtype=">u4").view(np.uint8).reshape(blocks, BLOCK_BYTES)
    return counter.tobytes()


class Masker:
    """A member's side of secure aggregation: masks its vectors so that only the sum over all members can be read."""

    def __init__(self, own: str, secrets: Mapping[str, PairSecret], *, purpose: str) -> None:
        if own in secrets:
            raise KeyAgreementError(f"member {own!r} has a secret with itself; give members different names")
        self.own = own
        keys = {
            peer: HKDFExpand(hashes.SHA256(), 16, LABEL + purpose.encode()).derive(secret.key)
            for peer, secret in secrets.items()
        }
        added, subtracted = ([key for peer, key in keys.items() if (own < peer) is adds] for adds in (True, False))
        self._streams = KeyStreams(added, subtracted)
        self._last: MaskLabel | None = None

    def mask(self, words: Words, label: MaskLabel, *, about: bytes) -> bytes:
        """Return the masked words as bytes. Each label must be greater than the last one."""
        if self._last is not None and label <= self._last:
            raise MaskReuseError(f"{label} does not come after {self._last}; a mask must not be used twice")
        self._last = label
        length = len(words)
        steps = -(-length // WORDS_IN_STEP)
        blocks = counters(place(label, about), steps * BLOCKS_IN_STEP)
        total = np.zeros(steps * WORDS_IN_STEP, np.uint64)
        total[:length] = words
        self._streams.apply(total, blocks)
        return total[:length].astype("<u8", copy=False).tobytes()
