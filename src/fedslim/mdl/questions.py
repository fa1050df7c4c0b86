"""What the search asks of the data, and what it tells them.

SLIM needs four things of its data (usages, co-usages, the effect of a trial insertion, of a trial removal) and tells
them what enters and leaves the table. A question knows how to be put to a source; the search does not know what the
source is:

    search ──Question──▶ driver ──▶ one database                       centralised SLIM
                                ──▶ several, answers added up          threads, and federations

Every answer is made of counts over slots, so answers of several sources are added up entry by entry. What can be asked
at once is asked at once: across a network a question is a round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fedslim.mdl.itemsets import Itemset

    Counts = NDArray[np.int64]


class SlotCounts(NamedTuple):
    """Counts over slots, only those that are not zero, in no particular order of slots."""

    slots: NDArray[np.int32]
    counts: Counts


class Change(NamedTuple):
    """What an insertion or a removal does: for each slot, how many covers lose the element and how many win it."""

    slots: NDArray[np.int32]
    lost: Counts
    won: Counts


class Source(Protocol):
    """Somewhere that has covers to count in: one database, or many that are added up."""

    def supports(self) -> Counts:
        """In how many transactions each item occurs: the usages of the standard code table."""

    def support(self, itemset: Itemset) -> int:
        """In how many transactions all these items occur together."""

    def co_usages(self, slots: tuple[int, ...]) -> tuple[SlotCounts, ...]:
        """For each of these elements, how often each element is used together with it (itself included)."""

    def try_insert(self, slot: int, itemset: Itemset, entry: int) -> Change:
        """What would change if the itemset entered the table."""

    def try_removals(self, slots: tuple[int, ...]) -> tuple[Change, ...]:
        """For each of these elements, what would change if it alone left the table."""

    def drop(self, items: tuple[int, ...]) -> None:
        """Forget that these items occur; asked for before there is any itemset."""

    def insert(self, slot: int, itemset: Itemset, entry: int) -> None:
        """Insert. What changes was said when it was tried."""

    def remove(self, slot: int) -> None:
        """Remove. What changes was said when it was tried; an element without usage goes untried."""


@dataclass(frozen=True, slots=True)
class Supports:
    """The usages of the standard code table, please."""

    def put_to(self, source: Source) -> Counts:
        """Ask."""
        return source.supports()


@dataclass(frozen=True, slots=True)
class Support:
    """How many transactions contain the union of these elements? Asked only where a support decides something."""

    itemset: Itemset
    parents: tuple[int, int]

    def put_to(self, source: Source) -> int:
        """Ask."""
        return source.support(self.itemset)


@dataclass(frozen=True, slots=True)
class CoUsages:
    """Rows of the pair matrix: how often are these elements used together with each other one?"""

    slots: tuple[int, ...]

    def put_to(self, source: Source) -> tuple[SlotCounts, ...]:
        """Ask."""
        return source.co_usages(self.slots)


@dataclass(frozen=True, slots=True)
class TryInsert:
    """What if this itemset, the union of its parents, were in the table?"""

    slot: int
    itemset: Itemset
    entry: int
    parents: tuple[int, int]

    def put_to(self, source: Source) -> Change:
        """Ask."""
        return source.try_insert(self.slot, self.itemset, self.entry)


@dataclass(frozen=True, slots=True)
class TryRemovals:
    """What if this element were not in the table? Asked of several at once, each by itself."""

    slots: tuple[int, ...]

    def put_to(self, source: Source) -> tuple[Change, ...]:
        """Ask."""
        return source.try_removals(self.slots)


@dataclass(frozen=True, slots=True)
class Drop:
    """These items are too rare to be part of anything: they do not occur from now on. Told once, before any insert."""

    items: tuple[int, ...]

    def put_to(self, source: Source) -> None:
        """Tell."""
        source.drop(self.items)


@dataclass(frozen=True, slots=True)
class Insert:
    """This itemset, the union of its parents, is in the table from now on."""

    slot: int
    itemset: Itemset
    entry: int
    parents: tuple[int, int]

    def put_to(self, source: Source) -> None:
        """Tell."""
        source.insert(self.slot, self.itemset, self.entry)


@dataclass(frozen=True, slots=True)
class Restore:
    """The element that was removed last, and has not come back yet, is in the table again, in its slot."""

    slot: int
    itemset: Itemset
    entry: int

    def put_to(self, source: Source) -> None:
        """Tell."""
        source.insert(self.slot, self.itemset, self.entry)


@dataclass(frozen=True, slots=True)
class Remove:
    """This element is no longer in the table."""

    slot: int

    def put_to(self, source: Source) -> None:
        """Tell."""
        source.remove(self.slot)


@dataclass(frozen=True, slots=True)
class Together:
    """Several questions at once: across a network they are one round."""

    questions: tuple[Supports | Support | CoUsages | TryInsert | TryRemovals, ...]

    def put_to(self, source: Source) -> tuple[Any, ...]:
        """Ask them one after the other."""
        return tuple(question.put_to(source) for question in self.questions)


class Presumed(NamedTuple):
    """What an insertion changed, and what was asked about the table with the new element."""

    change: Change
    trials: tuple[Change, ...]
    rows: tuple[SlotCounts, ...]


@dataclass(frozen=True, slots=True)
class Presume:
    """Insert this itemset, most likely for good: what does it change? And then, removals and rows as usual.

    If it does not stay after all, it is removed: covers depend on nothing but the table.
    """

    move: Insert
    removals: tuple[int, ...]
    rows: tuple[int, ...]

    def put_to(self, source: Source) -> Presumed:
        """Tell, and ask."""
        move = self.move
        change = source.try_insert(move.slot, move.itemset, move.entry)
        source.insert(move.slot, move.itemset, move.entry)
        return Presumed(change, source.try_removals(self.removals), source.co_usages(self.rows))


Move = Drop | Insert | Restore | Remove
MOVES = (Drop, Insert, Restore, Remove)
"""What sources are told; everything else they are asked."""

Question = Presume | Supports | Support | CoUsages | TryInsert | TryRemovals | Together | Move


def add_counts(parts: Sequence[SlotCounts]) -> SlotCounts:
    """The sum of several sources' counts."""
    slots, (counts,) = _add([part.slots for part in parts], [[part.counts for part in parts]])
    return SlotCounts(slots, counts)


def add_changes(parts: Sequence[Change]) -> Change:
    """The sum of several sources' changes."""
    slots, (lost, won) = _add(
        [part.slots for part in parts], [[part.lost for part in parts], [part.won for part in parts]]
    )
    return Change(slots, lost, won)


def _add(slots: list[NDArray[np.int32]], columns: list[list[Counts]]) -> tuple[NDArray[np.int32], list[Counts]]:
    every = np.concatenate(slots)
    if len(every) == 0:
        return every, [np.zeros(0, np.int64) for _ in columns]
    present = np.bincount(every)
    where = np.flatnonzero(present)
    # bincount's weights are 64-bit floats, exact for counts below 2^53
    sums = [np.bincount(every, weights=np.concatenate(column))[where].astype(np.int64) for column in columns]
    return where.astype(np.int32), sums
