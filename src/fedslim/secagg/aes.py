"""Add and subtract the AES-128 key streams of many keys at once.

    streams = KeyStreams(added, subtracted)         # two lists of keys
    streams.apply(total, blocks)                    # encrypts the counter blocks with each key

A member has a key for every other member, and most answers are short: calling a library for each key takes several
times as long as encrypting. Where the processor has instructions for AES, one kernel does all keys; the instructions
take the same time for all keys and blocks. Everywhere else the library does it. The key streams are the same.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from llvmlite import ir
from numba.core.cgutils import get_or_insert_function, unpack_tuple
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

from fedslim._jit import inlined, njit
from fedslim.errors import KeyAgreementError

if TYPE_CHECKING:
    from fedslim.secagg.ring import Words

BLOCK_BYTES = 16
ROUNDS = 10
WORDS_IN_BLOCK = 2
BLOCKS_IN_STEP = 4
"""The kernel encrypts this many blocks at a time, by one instruction where the processor can."""

WORDS_IN_STEP = WORDS_IN_BLOCK * BLOCKS_IN_STEP
ZERO, LOW = np.uint64(0), np.uint64(0xFFFFFFFF)


def blocks_at_once() -> int:
    """Return how many blocks one AES instruction encrypts; 0 if kernels cannot use any."""
    config: Any = numba.config
    if platform.machine().lower() not in {"x86_64", "amd64"}:
        return 0
    # CPU_FEATURES is set for kernels that must run on several processors.
    features = (get_host_cpu_features() if config.CPU_FEATURES is None else config.CPU_FEATURES).split(",")
    if "+vaes" in features:
        return 4 if "+avx512f" in features else 2
    return int("+aes" in features)


AT_ONCE = blocks_at_once()


def _rounds(_typing: Any, blocks: Any, keys: Any) -> Any:
    """Add the first round key to the blocks, and make a round of AES with each of the others (FIPS 197, section 5.1).

    Blocks and keys are tuples of words.
    """

    def compiled(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words, key_words = (unpack_tuple(builder, argument) for argument in arguments)
        lanes = min(len(words), WORDS_IN_BLOCK * AT_ONCE)
        vector = ir.VectorType(ir.IntType(64), lanes)
        width = "" if lanes == WORDS_IN_BLOCK else f".{64 * lanes}"
        inner, last = (
            get_or_insert_function(builder.module, ir.FunctionType(vector, [vector, vector]), name + width)
            for name in ("llvm.x86.aesni.aesenc", "llvm.x86.aesni.aesenclast")
        )

        def packed(elements: Sequence[Any]) -> Any:
            value = ir.Constant(vector, ir.Undefined)
            for k, element in enumerate(elements):
                value = builder.insert_element(value, element, ir.IntType(32)(k))
            return value

        first, *inner_keys, last_key = (
            packed(key_words[k : k + WORDS_IN_BLOCK] * (lanes // WORDS_IN_BLOCK))
            for k in range(0, len(key_words), WORDS_IN_BLOCK)
        )
        encrypted = []
        for begin in range(0, len(words), lanes):
            state = builder.xor(packed(words[begin : begin + lanes]), first)
            for key in inner_keys:
                state = builder.call(inner, [state, key])
            state = builder.call(last, [state, last_key])
            encrypted += [builder.extract_element(state, ir.IntType(32)(k)) for k in range(lanes)]
        return context.make_tuple(builder, signature.return_type, encrypted)

    return blocks(blocks, keys), compiled


rounds: Any = intrinsic(_rounds)


@njit
def expand_keys(keys: np.ndarray, out: np.ndarray) -> None:
    """Write the round keys of each key (FIPS 197, section 5.2)."""
    for p in range(len(keys)):
        a, b, c, d = keys[p, 0] & LOW, keys[p, 0] >> np.uint64(32), keys[p, 1] & LOW, keys[p, 1] >> np.uint64(32)
        constant = np.uint64(1)
        for r in range(ROUNDS + 1):
            out[p, 2 * r], out[p, 2 * r + 1] = a | b << np.uint64(32), c | d << np.uint64(32)
            # In a block of four equal columns, a last round with empty keys substitutes bytes and moves none.
            column = d | d << np.uint64(32)
            other = rounds((column, column), (ZERO, ZERO, ZERO, ZERO))[0] & LOW
            a ^= (other >> np.uint64(8) | other << np.uint64(24)) & LOW ^ constant
            b ^= a
            c ^= b
            d ^= c
            constant = constant << np.uint64(1) if constant < np.uint64(0x80) else np.uint64(0x1B)


@inlined
def _negate(total: np.ndarray) -> None:
    for w in range(len(total)):
        total[w] = ZERO - total[w]


@njit
def apply_streams(total: np.ndarray, keys: np.ndarray, subtracted: int, blocks: np.ndarray) -> None:
    """Encrypt the blocks with each key; subtract the words of the first `subtracted` keys, and add those of the others.

    There is a multiple of `WORDS_IN_STEP` words.
    """
    _negate(total)
    for p in range(len(keys)):
        if p == subtracted:
            _negate(total)
        k = keys[p]
        # A tuple stays in registers; an array could overlap with `total`, so it would be read again in every step.
        own = (
            *(k[0], k[1], k[2], k[3], k[4], k[5], k[6], k[7], k[8], k[9], k[10]),
            *(k[11], k[12], k[13], k[14], k[15], k[16], k[17], k[18], k[19], k[20], k[21]),
        )
        for w in range(0, len(total), WORDS_IN_STEP):
            b = blocks[w : w + WORDS_IN_STEP]
            stream = rounds((b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]), own)
            for j in range(WORDS_IN_STEP):
                total[w + j] += stream[j]
    if subtracted == len(keys):
        _negate(total)


class LibraryStreams:
    """Key streams by the library, for processors without AES instructions."""

    def __init__(self, added: Sequence[bytes], subtracted: Sequence[bytes]) -> None:
        # This is counter mode with our own counter blocks, which all keys share. No block repeats, so the weakness of
        # ECB does not apply; a test compares it with the library's CTR.
        self._ciphers = [
            (apply, Cipher(algorithms.AES128(key), modes.ECB()).encryptor())  # noqa: S305
            for apply, keys in ((np.add, added), (np.subtract, subtracted))
            for key in keys
        ]

    def apply(self, total: Words, blocks: bytes) -> None:
        """Add and subtract the key streams at these counter blocks."""
        for apply, cipher in self._ciphers:
            apply(total, np.frombuffer(cipher.update(blocks), "<u8"), out=total)


class HardwareStreams:
    """Key streams by the AES instructions of the processor."""

    def __init__(self, added: Sequence[bytes], subtracted: Sequence[bytes]) -> None:
        keys = np.frombuffer(b"".join([*subtracted, *added]), "<u8").reshape(-1, WORDS_IN_BLOCK)
        self._keys = np.empty((len(keys), WORDS_IN_BLOCK * (ROUNDS + 1)), np.uint64)
        self._subtracted = len(subtracted)
        expand_keys(keys, self._keys)
        # Masks that are wrong in the same way at all members would cancel, and hide nothing.
        ours, theirs = np.zeros((2, WORDS_IN_STEP), np.uint64)
        probe = bytes(range(BLOCKS_IN_STEP * BLOCK_BYTES))
        self.apply(ours, probe)
        LibraryStreams(added, subtracted).apply(theirs, probe)
        if (ours != theirs).any():
            msg = "the AES instructions of this processor do not give the key stream of the library; nothing is sent"
            raise KeyAgreementError(msg)

    def apply(self, total: Words, blocks: bytes) -> None:
        """Add and subtract the key streams at these counter blocks."""
        apply_streams(total, self._keys, self._subtracted, np.frombuffer(blocks, "<u8"))


KeyStreams = HardwareStreams if AT_ONCE else LibraryStreams
