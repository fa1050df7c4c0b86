"""The candidates ranked by estimated gain: a thin layer over `kernels/ranking.py` that grows its arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedslim.mdl.kernels import gain, ranking
from fedslim.mdl.kernels.arrays import KeptArrays, lengthen, zeros
from fedslim.mdl.kernels.gain import Rejected
from fedslim.mdl.kernels.ranking import Choice, Known, PairRows, TableFacts, Totals
from fedslim.mdl.objective import log2
from fedslim.mdl.questions import Change, Insert, SlotCounts

if TYPE_CHECKING:
    from fedslim.mdl.table import WorkingTable

ANY_SIZE = 1 << 30
SHORT_ROW = 64
PAIRS_FOR_EACH_OCCURRENCE = 8
MAX_ROWS = 1024
"""Most rows in one question: wide data have many, and a search can stop only between questions."""

LOOK = 6
"""For each candidate of a step, how many of the best candidates are looked at to find some without common elements."""

POOLS = ("partners", "counts")  # the arrays of rows that are not by slot

FILLS = {"upper": -np.inf, "exact": -1.0, "partner": -1.0, "dropped": -np.inf}
"""What they hold for slots without an element, where it is not 0."""

MARGIN = 32.0
"""Pairs estimated to cost more bits than this are not kept: rows stay short, and rarely have to be asked for again."""


class Candidate(NamedTuple):
    """Two elements to join, their co-usage, and the estimated gain in bits."""

    x: int
    y: int
    together: int
    gain: float


@dataclass(frozen=True, slots=True)
class UnknownRows:
    """Rows that must be asked for first, because one of them may have the best candidate."""

    slots: tuple[int, ...]
    above: float  # pairs with lower gains do not matter
    known: tuple[Candidate, ...] = ()  # the best candidates of all other rows, from rankings that look at them


class CandidateRanking:
    """Keeps rows of the pair matrix, and finds the best of all candidates."""

    def __init__(
        self,
        table: WorkingTable,
        usages: NDArray[np.int64],
        standard: NDArray[np.float64],
        log2_table: NDArray[np.float64],
        *,
        charge: float,
        width: int = 1,
        largest: int | None = None,
        least: int = 1,
    ) -> None:
        self._table = table
        self.width = width  # candidates of a step
        self._charge = charge
        self._largest = ANY_SIZE if largest is None else largest
        self._least = least  # pairs with a lower co-usage are no candidates
        self._births = table.n_items
        self._limit = table.n_items
        elements, births, most = table.elements, np.arange(table.capacity, dtype=np.int64), len(log2_table)
        parts = (np.zeros(most), np.zeros(most), np.full(most, ranking.NEVER, np.int64))
        self._facts = TableFacts(usages, standard, elements.size, elements.rank, births, log2_table, *parts)
        self._rows: PairRows = zeros(PairRows, table.capacity, partners=4096, counts=4096)
        for name, fill in FILLS.items():
            getattr(self._rows, name)[:] = fill
        self._tree = np.zeros(2, np.int32)
        self._choice = _empty_choice(table.capacity, width)
        self._found = np.zeros(table.capacity, np.int32)
        self._occurrences = int(usages.sum())
        self._pool_end = 0
        self._rejected_count = 0
        self._rejected = _empty_rejected(1024)
        self._version = 0
        self._marked_rows, self._marked_rejected = KeptArrays(), KeptArrays()
        self._set_now(int(usages.sum()), int(np.count_nonzero(usages)))
        self._forget(np.arange(self._limit))

    @property
    def charge(self) -> float:
        """What new elements are charged for in the estimate."""
        return self._charge

    @property
    def _known(self) -> Known:
        return Known(self._rows, self._facts, self._rejected, self._now)

    def _set_now(self, total: int, in_use: int) -> None:
        log_total = log2(total)
        settings = (self._charge, self._largest, self._least, MARGIN)
        self._now = Totals(self._version, total, in_use, total * log_total, in_use * log_total, *settings)

    def best(self) -> tuple[Candidate, ...] | UnknownRows:
        """Return the best candidates of which no two have an element in common, or the rows needed to find them.

        They are the first `width` of those among the best `LOOK · width`; the first has the highest gain of all.
        """
        best, above = self._best_known()
        unknown = self._unknown(above)
        return UnknownRows(unknown, above) if unknown else best

    def _best_known(self) -> tuple[tuple[Candidate, ...], float]:
        """Return the best candidates in the rows that are known, and the gain below which nothing matters."""
        half = 1 << max(self._limit - 1, 1).bit_length()
        if len(self._tree) < 2 * half:
            self._tree = np.zeros(2 * half, np.int32)
        width = self.width
        if len(self._choice.row) < width:
            self._choice = _empty_choice(self._table.capacity, width)
        choice = self._choice
        n, above = ranking.choose(self._limit, width, LOOK * width, self._tree, choice, self._known)
        columns = (choice.row, choice.partner, choice.together, choice.gain)
        return tuple(map(Candidate._make, zip(*(c[:n].tolist() for c in columns), strict=True))), above

    def _unknown(self, above: float) -> tuple[int, ...]:
        """Return the unknown rows whose bound is at least `above`; if there are many, those with the highest bounds."""
        n = ranking.unknown(self._limit, above, self._rows, self._found)
        slots = self._found[:n]
        if n > MAX_ROWS:
            slots = np.sort(slots[np.argsort(-self._rows.upper[slots], kind="stable")[:MAX_ROWS]])
        return tuple(slots.tolist())

    def learn(self, slots: tuple[int, ...], answers: tuple[SlotCounts, ...]) -> None:
        """Store the rows of these slots."""
        self._learn(slots, answers)

    def _learn(
        self, slots: tuple[int, ...], rows: Sequence[SlotCounts], most: int = 0, dropped: float = -np.inf
    ) -> None:
        """Store rows; `most` and `dropped` are the largest co-usage and gain of pairs that they lack."""
        if max([len(row.slots) for row in rows]) > self._longest_row:
            for slot, row in zip(slots, rows, strict=True):
                self._add((slot,), *self._shortened(slot, row, most, dropped))
        else:
            self._add(slots, rows, most, dropped)

    def _add(self, slots: tuple[int, ...], rows: Sequence[SlotCounts], most: int, dropped: float) -> None:
        others, counts = (np.concatenate(column) for column in zip(*rows, strict=True))
        if self._pool_end + len(others) > len(self._rows.partners):
            self.compact(len(others))
        new = (np.array(slots), np.cumsum([len(row.slots) for row in rows]), others, counts)
        self._pool_end = ranking.add_rows(*new, self._pool_end, most, dropped, self._known)

    @property
    def _longest_row(self) -> int:
        """How many pairs of a row are kept, so that all rows together are linear in the data.

        There are enough of them for a step, which may look at no other row.
        """
        return max(SHORT_ROW, LOOK * self.width, PAIRS_FOR_EACH_OCCURRENCE * self._occurrences // max(self._limit, 1))

    def _shortened(
        self, slot: int, row: SlotCounts, most: int = 0, dropped: float = -np.inf
    ) -> tuple[tuple[SlotCounts], int, float]:
        """Return the best pairs of a row, best first, and the largest co-usage and gain of all others."""
        gains = np.empty(len(row.slots))
        ranking.row_gains(slot, row.slots, row.counts, gains, self._known)
        rank = self._facts.rank
        first, second = np.minimum(rank[row.slots], rank[slot]), np.maximum(rank[row.slots], rank[slot])
        order = np.lexsort((second, first, -row.counts, -gains))
        # Rejected pairs come first and are kept in addition: they may be forgiven.
        length = self._longest_row + int(np.count_nonzero(np.isposinf(gains)))
        order = order[: int(np.count_nonzero(gains > -np.inf))]
        kept, others = order[:length], order[length:]
        most, dropped = int(row.counts[others].max(initial=most)), float(gains[others].max(initial=dropped))
        return (SlotCounts(row.slots[kept], row.counts[kept]),), most, dropped

    def reject(self, candidate: Candidate) -> None:
        """Do not propose this pair again until one of its three counts changes."""
        if self._rejected_count * 2 >= len(self._rejected.key):
            self.widen()
        self._rejected_count += gain.reject(candidate.x, candidate.y, candidate.together, self._facts, self._rejected)
        self._rows.exact[candidate.x] = ranking.NEVER
        self._rows.exact[candidate.y] = ranking.NEVER

    def best_without(self, candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...] | UnknownRows:
        """Return the best candidates if these were rejected."""
        kept, count = self._rejected, self._rejected_count
        self._rejected = Rejected(*[column.copy() for column in kept])
        for candidate in candidates:
            self.reject(candidate)
        best = self.best()
        self._rejected, self._rejected_count = kept, count
        self._rows.exact[[slot for c in candidates for slot in (c.x, c.y)]] = ranking.NEVER
        return best

    def was_rejected(self, candidate: Candidate) -> bool:
        """Return whether a candidate was rejected before, with other counts: then it most likely will be again."""
        return bool(gain.was_rejected(candidate.x, candidate.y, self._facts, self._rejected))

    def widen(self) -> None:
        """Make the table of rejected candidates larger."""
        larger = _empty_rejected(len(self._rejected.key) * 4)
        gain.rehash(self._rejected, larger)
        self._rejected = larger

    def warm_up(self) -> None:
        """Run the code that small data do not reach, so that it is compiled."""
        self.widen()
        self.compact()
        self._shortened(0, SlotCounts(np.zeros(1, np.int32), np.zeros(1, np.int64)))

    def forget_rejected(self) -> None:
        """Give every rejected candidate another chance."""
        self._rejected = _empty_rejected(len(self._rejected.key))
        self._rejected_count = 0
        self.recharge(self._charge)

    def recharge(self, charge: float) -> None:
        """Continue with another charge; the bounds of all rows become invalid, so all are asked for again."""
        self._charge = charge
        self._version += 1
        self._set_now(self._now.total, self._now.in_use)
        self._forget(np.arange(self._limit))
        self._pool_end = 0

    def changed(self, slots: NDArray[np.int32], total: int, in_use: int) -> None:
        """Note that the covers of these elements changed; their usages and ranks are already up to date."""
        before = self._now
        self._version += 1
        ranking.drift(self._limit, self._rows, before.total, before.in_use, total, in_use)
        self._rows.stamp[slots] = self._version
        self._set_now(total, in_use)
        self._forget(slots)

    def _forget(self, slots: NDArray[np.integer]) -> None:
        ranking.forget_rows(slots.astype(np.int32, copy=False), self._rows, self._facts, self._now)

    def adopt(self, usages: NDArray[np.int64], standard: NDArray[np.float64]) -> None:
        """Use these longer arrays from now on."""
        self._facts = self._facts._replace(usage=usages, standard=standard)

    def change(self, change: Change, pivot: int | None) -> None:
        """Note what is about to change; usages are still those before.

        `pivot` is the element that enters or leaves: the covers that change are those with it.
        """

    def never_with(self, slot: int, others: list[int]) -> list[int]:  # noqa: ARG002  # it does not know
        """Return those of the other elements that are certainly in no cover with this one."""
        return []

    def settle(self, moves: Sequence[Insert], fetched: Any) -> None:
        """Take in counts that were asked for in case that these insertions stay."""

    def welcome(self, slot: int, candidate: Candidate | None = None) -> None:  # noqa: ARG002  # for rankings that know more
        """Prepare a slot for a new element; the table may have grown to make room for it."""
        self._grow()
        self._limit = max(self._limit, slot + 1)
        self._births += 1
        self._facts.birth[slot] = self._births

    def birth_of(self, slot: int) -> int:
        """Return the unique number of an element, which identifies it in rejected pairs."""
        return int(self._facts.birth[slot])

    def welcome_back(self, slot: int, birth: int) -> None:
        """Restore an element in its slot, as if it had never left."""
        self._grow()
        self._facts.birth[slot] = birth

    def _grow(self) -> None:
        """Make room for all slots of the table."""
        elements, capacity, rows = self._table.elements, self._table.capacity, self._rows
        self._facts = self._facts._replace(size=elements.size, rank=elements.rank)
        if capacity == len(rows.upper):
            return
        self._facts = self._facts._replace(birth=lengthen(self._facts.birth, capacity))
        self._found = np.zeros(capacity, np.int32)
        self._choice = _empty_choice(capacity, len(self._choice.row))
        per_slot = [name for name in PairRows._fields if name not in POOLS]
        self._rows = rows._replace(**{f: lengthen(getattr(rows, f), capacity, FILLS.get(f, 0)) for f in per_slot})

    def mark(self) -> None:
        """Remember this state instead of the one remembered before; the usages belong to the search."""
        counts = (self._births, self._limit, self._pool_end, self._rejected_count, len(self._rejected.key))
        self._marked = (*counts, self._now, self._charge)
        self._marked_rows.keep((self._facts.birth[: self._limit], *self._kept_rows(self._limit, self._pool_end)))
        self._marked_rejected.keep(self._rejected)

    def go_back(self) -> None:
        """Return to the remembered state; the table and the usages have already been restored."""
        self._births, self._limit, self._pool_end, self._rejected_count, places, then, self._charge = self._marked
        self._grow()
        rows = self._kept_rows(self._table.capacity, len(self._rows.partners))
        self._marked_rows.put_back((self._facts.birth, *rows))
        if len(self._rejected.key) != places:
            self._rejected = _empty_rejected(places)
        self._marked_rejected.put_back(self._rejected)
        # Versions are never used twice, because `TableFacts.part_version` refers to them.
        self._version += 1
        exact = self._rows.exact[: self._limit]
        exact[exact == then.version] = self._version
        self._set_now(then.total, then.in_use)

    def _kept_rows(self, limit: int, pool_end: int) -> list[NDArray[Any]]:
        return [getattr(self._rows, f)[: pool_end if f in POOLS else limit] for f in PairRows._fields]

    def compact(self, extra: int = 0) -> None:
        """Move all rows together, to reuse the space of forgotten ones."""
        rows = self._rows
        used = int(rows.length[: self._limit][rows.known[: self._limit] == 1].sum())
        size = max(len(rows.partners), 2 * (used + extra))
        partners, counts = np.zeros(size, np.int32), np.zeros(size, np.int32)
        self._pool_end = ranking.compact(rows, self._limit, partners, counts)
        self._rows = rows._replace(partners=partners, counts=counts)


def _empty_choice(capacity: int, width: int) -> Choice:
    choice: Choice = zeros(Choice, capacity, row=width, partner=width, together=width, gain=width)
    choice.best_partner[:] = ranking.NEVER
    return choice


def _empty_rejected(size: int) -> Rejected:
    return Rejected(*(np.zeros(size, np.int64) for _ in range(4)))
