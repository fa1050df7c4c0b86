"""Masks that cancel: each pair of members adds and subtracts the same random vector, so that only the sum is left.

    masker = Masker("hospital-a", {"hospital-b": secret, …})
    data = masker.mask(counts, ring, MaskLabel(round=7, part=0, attempt=0))

A mask is the AES-128-CTR key stream of the pair's key at a place that the label names. No place is ever used twice:
labels must rise, and each has 2^48 blocks of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    from fedslim.secagg.ring import Ring

LABEL = b"fedslim secure aggregation v1: masks"
ROUND_BYTES, PART_BYTES, ATTEMPT_BYTES, BLOCK_BYTES = 6, 2, 2, 6


@dataclass(frozen=True, slots=True, order=True)
class MaskLabel:
    """Names one vector of one run: the round, the part of its answer, and the attempt if a fault made it repeat."""

    round: int
    part: int = 0
    attempt: int = 0

    def __post_init__(self) -> None:
        for name, value, size in (
            ("round", self.round, ROUND_BYTES),
            ("part", self.part, PART_BYTES),
            ("attempt", self.attempt, ATTEMPT_BYTES),
        ):
            if not 0 <= value < 1 << (8 * size):
                msg = f"the {name} of a mask must be between 0 and {(1 << (8 * size)) - 1}, not {value}"
                raise MaskReuseError(msg)

    def start(self) -> bytes:
        """The counter block at which the label's stretch of key stream begins."""
        return b"".join(
            value.to_bytes(size, "big")
            for value, size in (
                (self.round, ROUND_BYTES),
                (self.attempt, ATTEMPT_BYTES),
                (self.part, PART_BYTES),
                (0, BLOCK_BYTES),
            )
        )


class PairMask:
    """The key stream that one pair of members shares."""

    def __init__(self, secret: PairSecret, *, adds: bool) -> None:
        key = HKDFExpand(hashes.SHA256(), 16, LABEL).derive(secret.key)
        self._stream = Cipher(algorithms.AES128(key), modes.CTR(bytes(16))).encryptor()
        self.adds = adds

    def expand(self, label: MaskLabel, zeros: bytes) -> bytes:
        """As many bytes of the label's stretch as there are zeros."""
        self._stream.reset_nonce(label.start())
        return self._stream.update(zeros)


class Masker:
    """One member's side: hides its vectors so that only the sum over all members can be read."""

    def __init__(self, own: str, secrets: Mapping[str, PairSecret]) -> None:
        if own in secrets:
            msg = f"member {own!r} has a secret with itself; members must have different names"
            raise KeyAgreementError(msg)
        self.own = own
        self._pairs = tuple(PairMask(secret, adds=own < peer) for peer, secret in sorted(secrets.items()))
        self._last: MaskLabel | None = None

    def mask(self, values: NDArray[np.int64], ring: Ring, label: MaskLabel) -> bytes:
        """The values hidden under this label, packed. A label that does not come after the last one is refused."""
        if self._last is not None and label <= self._last:
            msg = f"{label} does not come after {self._last}: a mask must not be used twice"
            raise MaskReuseError(msg)
        self._last = label
        total = ring.of(values)
        zeros = bytes(total.nbytes)
        for pair in self._pairs:
            # A whole random word is random in the ring too; pack cuts it off.
            mask = np.frombuffer(pair.expand(label, zeros), ring.word)
            (np.add if pair.adds else np.subtract)(total, mask, out=total)
        return ring.pack(total)
