"""Masks that cancel: each pair of members adds and subtracts the same random words, so that only the sum is left.

    masker = Masker("hospital-a", {"hospital-b": secret, …}, purpose="answers")
    data = masker.mask(words, MaskLabel(round=7, attempt=0, part=0))

A mask is the AES-128-CTR key stream of the pair's key for this purpose at the place that the label names. No place is
ever used twice: labels must rise, and each has 2^48 blocks of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from fedslim.errors import KeyAgreementError, MaskReuseError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from fedslim.secagg.keys import PairSecret
    from fedslim.secagg.ring import Words

LABEL = b"fedslim secure aggregation v1: masks for "
ROUND_BYTES, ATTEMPT_BYTES, PART_BYTES, BLOCK_BYTES = 6, 2, 2, 6
WORDS_IN_BLOCK = 2
ROUNDS_AHEAD = 16
"""Key streams are made for so many rounds at once: most answers are short, and a call costs more than its bytes."""

MOST_WORDS_AHEAD = 256
"""Longer answers are masked when they are there: then it is the bytes that cost."""


@dataclass(frozen=True, slots=True, order=True)
class MaskLabel:
    """Names one vector of one run: the round, the attempt if a fault made it repeat, and the part of the answer."""

    round: int
    attempt: int = 0
    part: int = 0

    def __post_init__(self) -> None:
        if 0 <= self.round < 1 << 48 and 0 <= self.attempt < 1 << 16 and 0 <= self.part < 1 << 16:
            return
        for name, value, size in (
            ("round", self.round, ROUND_BYTES),
            ("attempt", self.attempt, ATTEMPT_BYTES),
            ("part", self.part, PART_BYTES),
        ):
            if not 0 <= value < 1 << (8 * size):
                msg = f"the {name} of a mask must be between 0 and {(1 << (8 * size)) - 1}, not {value}"
                raise MaskReuseError(msg)


@lru_cache(maxsize=4)
def counters(label: MaskLabel, rounds: int, blocks: int) -> bytes:
    """The first counter blocks of this label, and of the same label in the rounds after it."""
    counter = np.zeros((rounds, blocks, 16), np.uint8)
    counter[:, :, 0:6] = _big_endian(label.round + np.arange(rounds), ROUND_BYTES)[:, None, :]
    counter[:, :, 6:8] = _big_endian(np.array(label.attempt), ATTEMPT_BYTES)
    counter[:, :, 8:10] = _big_endian(np.array(label.part), PART_BYTES)
    counter[:, :, 10:16] = _big_endian(np.arange(blocks), BLOCK_BYTES)[None, :, :]
    return counter.tobytes()


def _big_endian(values: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
    return values.astype(">u8")[..., None].view(np.uint8)[..., 8 - size :]


class PairMask:
    """The key stream that one pair of members shares for one purpose."""

    def __init__(self, secret: PairSecret, *, purpose: str, adds: bool) -> None:
        key = HKDFExpand(hashes.SHA256(), 16, LABEL + purpose.encode()).derive(secret.key)
        # Counter mode, with the counter blocks made by us: CTR(label) is the encryption of the blocks that the label
        # names, and a call can have those of many labels. No block comes twice, so this is not what ECB is bad for.
        self._blocks = Cipher(algorithms.AES128(key), modes.ECB()).encryptor()  # noqa: S305
        self.adds = adds

    def expand(self, blocks: bytes) -> NDArray[np.uint64]:
        """The key stream at these counter blocks."""
        return np.frombuffer(self._blocks.update(blocks), "<u8")


class Masker:
    """One member's side: hides its vectors so that only the sum over all members can be read."""

    def __init__(self, own: str, secrets: Mapping[str, PairSecret], *, purpose: str) -> None:
        if own in secrets:
            msg = f"member {own!r} has a secret with itself; members must have different names"
            raise KeyAgreementError(msg)
        self.own = own
        self._pairs = tuple(
            PairMask(secret, purpose=purpose, adds=own < peer) for peer, secret in sorted(secrets.items())
        )
        self._last: MaskLabel | None = None
        self._ahead: NDArray[np.uint64] = np.zeros((0, 0), np.uint64)  # masks of the rounds from `_from` on
        self._from = MaskLabel(0)

    def mask(self, words: Words, label: MaskLabel) -> bytes:
        """The words hidden under this label. A label that does not come after the last one is refused."""
        if self._last is not None and label <= self._last:
            msg = f"{label} does not come after {self._last}: a mask must not be used twice"
            raise MaskReuseError(msg)
        self._last = label
        if self._pairs:
            length = len(words)
            if length > MOST_WORDS_AHEAD:
                words = words + self._masks(label, 1, length)[0]
            else:
                words = words + self._made_ahead(label)[:length]
        return words.astype("<u8", copy=False).tobytes()

    def _made_ahead(self, label: MaskLabel) -> NDArray[np.uint64]:
        """The first words of the label's mask."""
        offset = label.round - self._from.round
        same = (label.part, label.attempt) == (self._from.part, self._from.attempt)
        if not same or not 0 <= offset < len(self._ahead):
            self._ahead, self._from, offset = self._masks(label, ROUNDS_AHEAD, MOST_WORDS_AHEAD), label, 0
        row: NDArray[np.uint64] = self._ahead[offset]
        return row

    def _masks(self, label: MaskLabel, rounds: int, length: int) -> NDArray[np.uint64]:
        """The sum of all pairs' masks, for so many rounds from the label's on."""
        blocks = -(-length // WORDS_IN_BLOCK)
        names = counters(label, rounds, blocks)
        total = np.zeros(rounds * blocks * WORDS_IN_BLOCK, np.uint64)
        for pair in self._pairs:
            (np.add if pair.adds else np.subtract)(total, pair.expand(names), out=total)
        return total.reshape(rounds, -1)[:, :length]
