"""The server's side of the paper's Algorithm 1, where every member has its own code table.

The global table is the union of the members' tables, with usages added up. Members propose unions of elements that
they use together. The server adds up their counts, ranks the unions by estimated gain, lets the members that proposed
the best one try it, and lets them insert it if the total description length falls. There is no pruning; an itemset
that no member uses any more is dropped.

Elements have *global numbers*: 0 … n_items - 1 are the items, and every accepted itemset gets the next number. A number
is never given to another itemset; an itemset that left and is accepted again gets its number back. As in
`mdl/search.py`, questions go to the driver of the generator, answers are sums over members, and the state is a valid
code table whenever the search waits.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedslim.algorithm1.ranking import COUNTS_CONTRADICT, NumberedElements, Union, UnionRanking
from fedslim.errors import RunError
from fedslim.mdl.itemsets import Itemset, order_key
from fedslim.mdl.kernels.gain import bits_after
from fedslim.mdl.objective import Bits, description_length, log2_table, standard_length, standard_lengths
from fedslim.mdl.questions import Change, Supports
from fedslim.mdl.steps import LATEST, SearchResult, TableEntry, Tally

NumberPairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class NextCandidates:
    """Which pairs have new co-usages, and what are their sums? At first, all; there may be unchanged ones among them.

    The answer is `PairCounts`, by global numbers.
    """


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What if every member that uses one of these pairs had their union, this itemset, in its table?

    `entry` is the estimated usage of the itemset then, over all members. The answer is a `Change`, by global numbers.
    """

    number: int
    itemset: Itemset
    pairs: NumberPairs
    entry: int


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Insert the itemset that was evaluated into the table of every member that uses one of the pairs.

    These members drop itemsets that they no longer use.
    """

    trial: Evaluation


Algorithm1Question = Supports | NextCandidates | Evaluation | Acceptance


class Algorithm1Search:
    """One run of Algorithm 1."""

    # Between the evaluation of an itemset and its acceptance, the table does not match the usages.
    MUST_ANSWER: ClassVar[tuple[type, ...]] = (Supports, Acceptance)

    def __init__(self, n_items: int) -> None:
        self.tally = Tally()
        self.converged = False
        self.bits_now = 0.0
        self.bits_standard = Bits(0.0, 0.0)
        self.best_gain = math.inf  # the estimated gain of the last candidate tried
        self.elements = NumberedElements(n_items)  # by global numbers, also those that have left the table
        self._entries: dict[int, int] = {}  # the itemsets in the table: number -> estimated usage at entry
        self._item_lengths: list[float] = []
        self._log2: NDArray[np.float64] = np.zeros(1)
        self._total = self._in_use = 0

    # -- state --------------------------------------------------------------------------------------------------

    @property
    def itemsets(self) -> int:
        """The current number of itemsets in the global table, without singletons."""
        return len(self._entries)

    def latest(self) -> tuple[tuple[Itemset, int], ...]:
        """Return the itemsets found last, with their usages, the newest first."""
        newest = islice(reversed(self._entries), LATEST)
        return tuple([(self.elements.items_of(number), int(self.usages[number])) for number in newest])

    @property
    def usages(self) -> NDArray[np.int64]:
        """The usage of each element by number, including those that left the table; a view, do not keep it."""
        return self.elements.usage[: len(self.elements)]

    def bits(self) -> Bits:
        """Return the current description length, with both parts."""
        elements = self.elements
        return description_length(elements.usage.tolist(), elements.standard.tolist())

    def result(self) -> SearchResult:
        """Return the current global table."""
        usage, n_items = self.elements.usage, self.elements.n_items
        found = [
            TableEntry(self.elements.items_of(number), int(usage[number]), entry)
            for number, entry in self._entries.items()
        ]
        found.sort(key=lambda e: order_key(e.items, e.entry))
        singletons = [TableEntry((i,), int(usage[i]), 0) for i in range(n_items) if usage[i]]
        return SearchResult((*found, *singletons), self.bits(), self.bits_standard, self.tally, self.converged)

    # -- the search ---------------------------------------------------------------------------------------------

    def run(self) -> Generator[Algorithm1Question, Any, SearchResult]:
        """Search until no candidate improves the description length."""
        supports = yield Supports()
        ranking = self._start(np.asarray(supports, np.int64))
        changed: NDArray[np.int32] | None = np.zeros(0, np.int32)
        while changed is not None:
            ranking.take_in(changed, (yield NextCandidates()), self._total, self._in_use)
            changed = yield from self._step(ranking)
        self.converged = True
        return self.result()

    def _start(self, supports: NDArray[np.int64]) -> UnionRanking:
        n_items = self.elements.n_items
        self._item_lengths = standard_lengths(supports.tolist())
        self.elements.usage[:n_items] = supports
        self.elements.standard[:n_items] = self._item_lengths
        self._total, self._in_use = int(supports.sum()), int(np.count_nonzero(supports))
        self._log2 = log2_table(int(supports.max(initial=0)))
        self.bits_standard = self.bits()
        self.bits_now = self.bits_standard.total
        return UnionRanking(self.elements, self._log2)

    def _step(self, ranking: UnionRanking) -> Generator[Algorithm1Question, Any, NDArray[np.int32] | None]:
        """Accept the first candidate that compresses better; return the elements whose usage changed, None if none."""
        while (union := ranking.best()) is not None:
            trial = self._trial(union)
            self.tally.candidates += 1
            self.best_gain = union.gain
            change: Change = yield trial
            bits = self._bits_changed(change)
            if bits < 0:
                yield Acceptance(trial)
                return self._apply(trial, change, bits)
            ranking.reject(union)
        return None

    def _trial(self, union: Union) -> Evaluation:
        x, y = union.pairs[0]
        itemset = tuple(sorted(self.elements.items_of(x) + self.elements.items_of(y)))
        number = self.elements.number_of(itemset)
        self.elements.standard[number] = standard_length(itemset, self._item_lengths)
        return Evaluation(number, itemset, union.pairs, int(self.elements.usage[number]) + union.together)

    def _apply(self, trial: Evaluation, change: Change, bits: float) -> NDArray[np.int32]:
        self.elements.add(trial.itemset)
        self._entries[trial.number] = trial.entry
        self.tally.accepted += 1
        self.bits_now += bits
        net = change.won - change.lost
        usage = self.elements.usage
        usage[change.slots] += net
        self._total, self._in_use = int(usage.sum()), int(np.count_nonzero(usage))
        for number in change.slots[usage[change.slots] == 0].tolist():
            self._entries.pop(number, None)
        changed: NDArray[np.int32] = change.slots[net != 0]
        return changed

    def _bits_changed(self, change: Change) -> float:
        """Return the change of L(D, CT) in bits."""
        numbers = np.array(change.slots, np.int32)
        lost, won = (np.array(counts, np.int64) for counts in (change.lost, change.won))
        if len(numbers) and not (numbers.min() >= 0 and numbers.max() <= len(self.elements)):
            raise RunError(COUNTS_CONTRADICT)
        after = self.elements.usage[numbers] + (won - lost)
        if len(after) and not (after.min() >= 0 and after.max() < len(self._log2)):
            raise RunError(COUNTS_CONTRADICT)
        known = (self.elements.usage, self.elements.standard, self._total, self._in_use, self._log2)
        return bits_after(Change(numbers, lost, won), *known)
