"""The questions that the search asks about the data, and the moves that it makes.

SLIM needs four things from its data (usages, co-usages, the effect of a trial insertion and of a trial removal), and
moves elements in and out of the table. A question knows how to ask a source; the search does not know the source:

    search ──Question──▶ driver ──▶ one database                       centralised SLIM
                                ──▶ several, answers added up          threads, and federations

Every answer consists of counts over slots, so answers of several sources are added up entry by entry. Questions are
combined where possible, because in a federation each question is a round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fedslim.mdl.itemsets import Itemset

Counts = NDArray[np.int64]


class SlotCounts(NamedTuple):
    """Nonzero counts over slots, in no particular order."""

    slots: NDArray[np.int32]
    counts: Counts


class Change(NamedTuple):
    """What an insertion or a removal changes: for each slot, how many covers lose the element and how many win it."""

    slots: NDArray[np.int32]
    lost: Counts
    won: Counts

    def among(self, chosen: NDArray[np.bool_]) -> Change:
        """Return the change of some of the slots."""
        return Change(self.slots[chosen], self.lost[chosen], self.won[chosen])


class Changes(NamedTuple):
    """What each of several trials changes, one after the other: the slots of trial r end before ends[r]."""

    ends: Counts
    slots: NDArray[np.int32]
    lost: Counts
    won: Counts

    def each(self) -> tuple[Change, ...]:
        """Return the change of each trial."""
        ends = self.ends.tolist()
        _, slots, lost, won = self
        return tuple([Change(slots[a:b], lost[a:b], won[a:b]) for a, b in zip([0, *ends], ends, strict=False)])

    def last(self, n: int) -> Changes:
        """Return the last `n` trials."""
        begin = self.ends[-n - 1] if len(self.ends) > n else 0
        return Changes(self.ends[-n:] - begin, self.slots[begin:], self.lost[begin:], self.won[begin:])


def flatten(changes: Sequence[Change]) -> Changes:
    """Return several changes in one."""
    if not changes:
        return Changes(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64))
    slots, lost, won = zip(*changes, strict=True)
    ends = np.array(list(accumulate(map(len, slots))), np.int64)  # faster than by NumPy for a few
    return Changes(ends, np.concatenate(slots), np.concatenate(lost), np.concatenate(won))


def join_changes(parts: Sequence[Changes]) -> Changes:
    """Return the trials of all parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    ends, slots, lost, won = zip(*parts, strict=True)
    shifted = [own + begin for own, begin in zip(ends, accumulate(map(len, slots), initial=0), strict=False)]
    return Changes(np.concatenate(shifted), np.concatenate(slots), np.concatenate(lost), np.concatenate(won))


class Source(Protocol):
    """Something with covers to count in: one database, or several whose counts are added up."""

    def supports(self) -> Counts:
        """Return the support of each item: the usages of the standard code table."""

    def support(self, itemset: Itemset) -> int:
        """Return the support of an itemset."""

    def co_usages(self, slots: tuple[int, ...]) -> tuple[SlotCounts, ...]:
        """Return, for each of these elements, its co-usages with all elements (itself included)."""

    def try_insert(self, slot: int, itemset: Itemset, entry: int) -> Change:
        """Return what would change if the itemset entered the table."""

    def try_removals(self, slots: tuple[int, ...]) -> tuple[Change, ...]:
        """Return, for each of these elements, what would change if it alone left the table."""

    def drop(self, items: tuple[int, ...]) -> None:
        """Forget that these items occur; called before the table has any itemset."""

    def insert(self, slot: int, itemset: Itemset, entry: int) -> None:
        """Insert an itemset; its trial told what changes."""

    def remove(self, slot: int) -> None:
        """Remove an element; its trial told what changes. An element without usage needs no trial."""

    def mark(self) -> None:
        """Remember this state, and forget the one remembered before."""

    def go_back(self) -> None:
        """Return to the remembered state, which stays remembered."""

    def restart(self) -> None:
        """Return to the table without itemsets, and forget the remembered state."""


@dataclass(frozen=True, slots=True)
class Supports:
    """What are the supports of all items?"""

    def put_to(self, source: Source) -> Counts:
        """Ask."""
        return source.supports()


@dataclass(frozen=True, slots=True)
class Support:
    """What is the support of the union of these elements? Asked only where the policy depends on supports."""

    itemset: Itemset
    parents: tuple[int, int]

    def put_to(self, source: Source) -> int:
        """Ask."""
        return source.support(self.itemset)


@dataclass(frozen=True, slots=True)
class CoUsages:
    """Rows of the pair matrix: what are the co-usages of these elements with all others?"""

    slots: tuple[int, ...]

    def put_to(self, source: Source) -> tuple[SlotCounts, ...]:
        """Ask."""
        return source.co_usages(self.slots)


@dataclass(frozen=True, slots=True)
class TryRemovals:
    """What if this element were not in the table? Asked about several, one after the other.

    Those that are to be `gone` leave, each before the next one is tried; without it, none does.
    """

    slots: tuple[int, ...]
    gone: tuple[bool, ...] = ()
    expected: tuple[Change, ...] = ()  # what each most likely changes; sources need not look at it

    def put_to(self, source: Source) -> tuple[Change, ...]:
        """Ask."""
        changes: list[Change] = []
        for slots, leaves in in_turn(self.slots, self.gone):
            changes += source.try_removals(slots)
            if leaves:
                source.remove(slots[-1])
        return tuple(changes)


@dataclass(frozen=True, slots=True)
class Drop:
    """Treat these items, which are too rare, as absent from now on. Made once, before any insertion."""

    items: tuple[int, ...]

    def put_to(self, source: Source) -> None:
        """Tell."""
        source.drop(self.items)


@dataclass(frozen=True, slots=True)
class Insert:
    """Insert this itemset, the union of its parents, into the table.

    If both parents are the same, they are not known any more: the itemset was in a table before.
    """

    slot: int
    itemset: Itemset
    entry: int
    parents: tuple[int, int]

    @classmethod
    def again(cls, slot: int, itemset: Itemset, entry: int) -> Insert:
        """Insert an itemset that was in a table before."""
        return cls(slot, itemset, entry, (itemset[0], itemset[0]))

    @property
    def is_again(self) -> bool:
        """Whether the itemset was in a table before."""
        return self.parents[0] == self.parents[1]

    def put_to(self, source: Source) -> None:
        """Tell."""
        source.insert(self.slot, self.itemset, self.entry)


@dataclass(frozen=True, slots=True)
class Restore:
    """Put the element that was removed last, and not restored yet, back into its slot."""

    slot: int
    itemset: Itemset
    entry: int

    def put_to(self, source: Source) -> None:
        """Tell."""
        source.insert(self.slot, self.itemset, self.entry)


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove this element from the table."""

    slot: int

    def put_to(self, source: Source) -> None:
        """Tell."""
        source.remove(self.slot)


@dataclass(frozen=True, slots=True)
class Mark:
    """Remember this state instead of the one remembered before."""

    def put_to(self, source: Source) -> None:
        """Tell."""
        source.mark()


@dataclass(frozen=True, slots=True)
class GoBack:
    """Return to the remembered state, which stays remembered."""

    def put_to(self, source: Source) -> None:
        """Tell."""
        source.go_back()


@dataclass(frozen=True, slots=True)
class Restart:
    """Remove all itemsets: another search begins. Its slots are numbered as at the beginning."""

    def put_to(self, source: Source) -> None:
        """Tell."""
        source.restart()


@dataclass(frozen=True, slots=True)
class Together:
    """Several questions at once: in a federation they are one round."""

    questions: tuple[Support | CoUsages | TryRemovals | TryInsertions | Fetch, ...]

    def put_to(self, source: Source) -> tuple[Any, ...]:
        """Ask them one after the other."""
        return tuple(question.put_to(source) for question in self.questions)


class Tried(NamedTuple):
    """Trial removals before the insertions, what each of these changes, trial removals after them.

    `fetched` are counts that may be useful next.
    """

    before: tuple[Change, ...]
    changes: tuple[Change, ...]
    trials: tuple[Change, ...]
    fetched: Any = ()  # for the ranking; only sources that count the cost of a question fetch any


@dataclass(frozen=True, slots=True)
class TryInsertions:
    """What if these itemsets were in the table?

    They are tried one after the other, and those to `keep` enter, since they are presumed to stay; then the itemsets
    that are presumed to be `gone` leave; then some removals are tried. What does not stay after all is undone: covers
    depend only on the table.
    """

    moves: tuple[Insert, ...]
    keep: tuple[bool, ...]
    gone: tuple[int, ...] = ()
    removals: tuple[int, ...] = ()
    before: tuple[int, ...] = ()  # removals to try first: it is presumed that none of them is carried out
    expected: tuple[Change, ...] = ()  # what each most likely changes; sources need not look at it
    whole: bool = False  # whether these are all candidates of a step: then counts may be fetched for the next one

    def put_to(self, source: Source) -> Tried:
        """Ask."""
        before, changes = source.try_removals(self.before), []
        for move, keep in zip(self.moves, self.keep, strict=True):
            changes.append(source.try_insert(move.slot, move.itemset, move.entry))
            if keep:
                source.insert(move.slot, move.itemset, move.entry)
        for slot in self.gone:
            source.remove(slot)
        return Tried(before, tuple(changes), source.try_removals(self.removals))

    def kept(self) -> tuple[list[Insert], list[Change]]:
        """Return the insertions that are presumed to stay, and what they are expected to change."""
        kept = [k for k, keep in enumerate(self.keep) if keep]
        return [self.moves[k] for k in kept], [self.expected[k] for k in kept]


@dataclass(frozen=True, slots=True)
class Fetch:
    """Counts that will be useful if these elements leave, after some insertions or none; see `Tried`."""

    leaving: tuple[tuple[int, Change], ...]
    insertions: TryInsertions | None = None

    def put_to(self, source: Source) -> tuple[()]:  # noqa: ARG002  # most sources can be asked again at any time
        """Ask."""
        return ()


Move = Drop | Insert | Restore | Remove | Mark | GoBack | Restart
MOVES = (Drop, Insert, Restore, Remove, Mark, GoBack, Restart)
"""Moves change the table and have no answer; all other questions have one."""

Question = TryInsertions | Supports | Support | CoUsages | TryRemovals | Fetch | Together | Move


def in_turn(slots: Sequence[int], gone: Sequence[bool]) -> Iterator[tuple[tuple[int, ...], bool]]:
    """Divide removals into those that can be tried at once, and say whether the last of them leaves."""
    first = 0
    for k, leaves in enumerate(gone):
        if leaves:
            yield tuple(slots[first : k + 1]), True
            first = k + 1
    if first < len(slots):
        yield tuple(slots[first:]), False


def add_counts(parts: Sequence[SlotCounts]) -> SlotCounts:
    """Add up the counts of several sources."""
    slots, (counts,) = _add([part.slots for part in parts], [[part.counts for part in parts]])
    return SlotCounts(slots, counts)


def add_changes(parts: Sequence[Change]) -> Change:
    """Add up the changes of several sources."""
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
    # The weights of bincount are 64-bit floats, which are exact for counts below 2^53.
    sums = [np.bincount(every, weights=np.concatenate(column))[where].astype(np.int64) for column in columns]
    return where.astype(np.int32), sums
