"""Candidates that were rejected: they are not proposed again until one of their three counts changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedslim._jit import inlined, njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedslim.mdl.kernels.ranking import TableFacts


class Rejected(NamedTuple):
    """Candidates that were rejected, with the counts they had: an open hash table."""

    key: NDArray[np.int64]  # made of two births, 0 for an empty place
    x: NDArray[np.int64]
    y: NDArray[np.int64]
    c: NDArray[np.int64]


@inlined
def _place(key: int, rejected: Rejected) -> int:
    """Return the place of the key in the hash table, or the empty place where it would be."""
    mask = len(rejected.key) - 1
    h = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    place = np.int64(h >> np.uint64(20)) & mask
    while rejected.key[place] != 0 and rejected.key[place] != key:
        place = (place + 1) & mask
    return place


@inlined
def _key(a: int, b: int, facts: TableFacts) -> tuple[int, int, int]:
    """Return the key of a pair, and the pair in the order of that key."""
    if facts.birth[a] > facts.birth[b]:
        a, b = b, a
    return ((facts.birth[a] + 1) << 32) | (facts.birth[b] + 1), a, b


@inlined
def is_rejected(a: int, b: int, c: int, facts: TableFacts, rejected: Rejected) -> bool:
    """Return whether the pair was rejected with exactly these counts."""
    key, p, q = _key(a, b, facts)
    place = _place(key, rejected)
    return (
        rejected.key[place] == key
        and rejected.c[place] == c
        and rejected.x[place] == facts.usage[p]
        and rejected.y[place] == facts.usage[q]
    )


@njit
def reject(a: int, b: int, c: int, facts: TableFacts, rejected: Rejected) -> bool:
    """Remember the pair with its counts; return whether its key is new."""
    key, p, q = _key(a, b, facts)
    place = _place(key, rejected)
    new = rejected.key[place] == 0
    rejected.key[place] = key
    rejected.c[place] = c
    rejected.x[place] = facts.usage[p]
    rejected.y[place] = facts.usage[q]
    return new


@njit
def was_rejected(a: int, b: int, facts: TableFacts, rejected: Rejected) -> bool:
    """Return whether the pair was rejected, with whatever counts."""
    key, _, _ = _key(a, b, facts)
    return rejected.key[_place(key, rejected)] == key


@njit
def rehash(old: Rejected, new: Rejected) -> None:
    """Copy all keys into a larger table."""
    for k in range(len(old.key)):
        if old.key[k] != 0:
            place = _place(old.key[k], new)
            new.key[place] = old.key[k]
            new.x[place] = old.x[k]
            new.y[place] = old.y[k]
            new.c[place] = old.c[k]
