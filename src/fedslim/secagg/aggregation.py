"""The server's side of secure aggregation: add up one masked vector per member, and read the sum.

    total = MaskedSum(members, length=900)
    total.add("hospital-a", data) …
    words = total.words()

`Ring` and `Sketch` define the content of the words.
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
    """The sum over exactly the members of a round; it cannot be read while one is missing, as it would be noise."""

    def __init__(self, members: Iterable[str], *, length: int) -> None:
        self._missing = set(members)
        self._members = frozenset(self._missing)
        if not self._members:
            msg = "a sum needs at least one member"
            raise MembershipError(msg)
        self._total = np.zeros(length, np.uint64)

    @property
    def missing(self) -> frozenset[str]:
        """The members that have not answered yet."""
        return frozenset(self._missing)

    def add(self, member: str, data: bytes) -> None:
        """Add a member's vector; each member may answer once."""
        if member not in self._members:
            msg = f"{member!r} is not a member of this round; its answer is rejected"
            raise MembershipError(msg)
        if member not in self._missing:
            msg = f"{member!r} has already answered this round; the second answer is rejected"
            raise MembershipError(msg)
        if len(data) != WORD_BYTES * len(self._total):
            msg = f"{member!r} sent {len(data)} bytes instead of {WORD_BYTES * len(self._total)}"
            raise RingError(msg)
        self._total += np.frombuffer(data, "<u8")
        self._missing.remove(member)

    def words(self) -> Words:
        """Return the sum, after all members have answered."""
        if self._missing:
            msg = f"the sum cannot be read yet; no answer from {', '.join(map(repr, sorted(self._missing)))}"
            raise MembershipError(msg)
        return self._total
