"""The server's side: add up one masked vector from each member, and read the sum.

    total = MaskedSum(members, length=900)
    total.add("hospital-a", data) …
    words = total.words()

It does not matter what the words hold: that is the business of `Ring` and `Sketch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedslim.errors import MembershipError, RingError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fedslim.secagg.ring import Words

WORD_BYTES = 8


class MaskedSum:
    """A sum over exactly the members of a round; without one of them it is noise, and is not given out."""

    def __init__(self, members: Iterable[str], *, length: int) -> None:
        self._missing = set(members)
        self._members = frozenset(self._missing)
        if not self._members:
            msg = "a sum needs at least one member"
            raise MembershipError(msg)
        self._total = np.zeros(length, np.uint64)

    @property
    def missing(self) -> frozenset[str]:
        """Who has not answered yet."""
        return frozenset(self._missing)

    def add(self, member: str, data: bytes) -> None:
        """Take in a member's vector, once."""
        if member not in self._members:
            msg = f"{member!r} is not a member of this round; its answer is not taken"
            raise MembershipError(msg)
        if member not in self._missing:
            msg = f"{member!r} has answered this round already; the second answer is not taken"
            raise MembershipError(msg)
        if len(data) != WORD_BYTES * len(self._total):
            msg = f"{member!r} sent {len(data)} bytes where {WORD_BYTES * len(self._total)} were asked for"
            raise RingError(msg)
        self._total += np.frombuffer(data, "<u8")
        self._missing.remove(member)

    def words(self) -> Words:
        """The sum, once everybody has answered."""
        if self._missing:
            msg = f"the sum cannot be read before {', '.join(map(repr, sorted(self._missing)))} answered"
            raise MembershipError(msg)
        return self._total
