"""Maps one member's slots to global element numbers: each member has one in SA, the server has one per member in SO."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedslim.errors import ProtocolError
from fedslim.mdl.arrays import lengthen
from fedslim.mdl.questions import Change

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOWHERE = -1


class Numbering:
    """Slots are assigned in ascending order; an itemset that comes back to a member gets a new slot."""

    def __init__(self, n_items: int) -> None:
        self._numbers = np.arange(n_items, dtype=np.int32)  # slot -> number
        self._slots = np.arange(n_items, dtype=np.int32)  # number -> the last slot it had here

    @property
    def next_slot(self) -> int:
        """The slot of the next itemset."""
        return len(self._numbers)

    def numbers_of(self, slots: NDArray[Any], *, new: int | None = None) -> NDArray[np.int32]:
        """Return the global numbers of slots; `new` is that of the itemset on trial in the next slot."""
        known = self._numbers if new is None else np.append(self._numbers, np.int32(new))
        if len(slots) and not 0 <= int(slots.max()) < len(known):
            msg = f"slot {int(slots.max())} was named, but there are only {len(known)} slots"
            raise ProtocolError(msg)
        numbers: NDArray[np.int32] = known[slots]
        return numbers

    def slots_of(self, numbers: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the slots of global numbers, NOWHERE for elements that this member never had."""
        known = numbers < len(self._slots)
        return np.where(known, self._slots[np.where(known, numbers, 0)], NOWHERE).astype(np.int32)

    def pairs_of(self, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Convert pairs of global numbers to pairs of slots, without pairs that this member never had."""
        slots = self.slots_of(np.array(pairs, np.int32)).tolist()
        return [(x, y) for x, y in slots if x >= 0 and y >= 0]

    def change_of(self, change: Change, *, new: int) -> Change:
        """Convert a change by slots to one by global numbers."""
        return Change(self.numbers_of(change.slots, new=new), change.lost, change.won)

    def enter(self, number: int) -> None:
        """Assign the next slot to the element with this number."""
        if number >= len(self._slots):
            self._slots = lengthen(self._slots, 2 * number, NOWHERE)
        self._slots[number] = len(self._numbers)
        self._numbers = np.append(self._numbers, np.int32(number))
