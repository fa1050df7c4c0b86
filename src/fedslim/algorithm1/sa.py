"""SA, the paper's secure-aggregation variant: a table for each member, structure visible to the server, counts masked.

Every aggregation takes two rounds. In the first, members send their candidates, pairs of elements, that the global
index does not have yet, without counts. In the second, all members send masked counts of the same entries of the index
in the same order, 0 where they have none. All members answer every evaluation in the same way, so that nobody can tell
who uses a candidate. The index has a canonical order that every party maintains itself; only changes are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedslim.algorithm1.local_table import LocalTable, Numbering
from fedslim.algorithm1.pairs import PairCounts, PairLedger
from fedslim.algorithm1.search import Acceptance, Algorithm1Question, Evaluation, NextCandidates
from fedslim.algorithm1.so import Algorithm1Server, check_itemset
from fedslim.data import TransactionDatabase
from fedslim.errors import ProtocolError
from fedslim.mdl.questions import Change, Supports
from fedslim.mdl.steps import TableEntry
from fedslim.protocol import messages as m
from fedslim.protocol.sums import ask_counts, pack_counts
from fedslim.protocol.variant import MemberSide, Replies, Round, Situation, UnmaskedWords
from fedslim.secagg.ring import Ring


class Index(PairLedger):
    """The candidates of all members: pairs of numbers, each at a place that is the same for all parties."""

    def has(self, x: NDArray[np.int32], y: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return whether these pairs are in the index."""
        return self.look_up(x, y) > 0

    def lose(self, gone: NDArray[np.int64]) -> None:
        """Remove the pairs at these places, which no member uses any more."""
        if not self.is_place(gone):
            raise m.refused("the server removed entries from the index that it does not have")
        self.discard(gone)

    def change(
        self, x: NDArray[np.int32], y: NDArray[np.int32], elements: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Add new pairs; return the entries to count: the new ones, then those with one of the elements."""
        old_x, old_y = self.at(self.around(elements))
        self.replace(PairCounts(x, y, np.ones(len(x), np.int64)))
        return np.concatenate((x, old_x)), np.concatenate((y, old_y))


# -- the server ---------------------------------------------------------------------------------------------------


class SaServer(Algorithm1Server):
    """Algorithm 1, answered by masked sums."""

    members_know = True

    def __init__(self, situation: Situation) -> None:
        super().__init__(situation)
        self._index = Index()
        self._gone: NDArray[np.int64] = np.zeros(0, np.int64)
        self._touched: NDArray[np.int32] = np.zeros(0, np.int32)  # elements changed by the last accepted itemset
        self._entered: m.Entered | None = None  # the accepted itemset that members do not know yet
        self._change: Change | None = None

    def _answered(self, question: Algorithm1Question) -> Generator[Round, Replies, Any]:
        match question:
            case Supports():
                return (yield from self._usages())
            case NextCandidates():
                return (yield from self._candidates())
            case Evaluation(number, itemset, pairs, entry):
                check_itemset(itemset)
                return (yield from self._evaluated(m.Entered(number, list(pairs), entry)))
            case Acceptance(trial):
                assert self._change is not None  # noqa: S101  # the candidate has just been evaluated
                self._entered = m.Entered(trial.number, list(trial.pairs), trial.entry)
                self._touched = self._change.slots
        return None

    def _usages(self) -> Generator[Round, Replies, NDArray[np.int64]]:
        ring = Ring.for_sums_up_to(self._situation.settings.max_transactions)
        ask = m.AskIndexedUsages(self._situation.number, 0)
        counts = yield from ask_counts(ask, ring, self._situation.items + 1, "usages")
        *self.supports, self.transactions = counts.tolist()
        if max(self.supports, default=0) > self.transactions:
            msg = "a usage is higher than the number of transactions: a member does not count as the protocol says"
            raise ProtocolError(msg)
        return np.array(self.supports, np.int64)

    def _candidates(self) -> Generator[Round, Replies, PairCounts]:
        entered, self._entered = self._entered, None
        gone, self._gone = self._gone, np.zeros(0, np.int64)
        # Remove unused pairs before members send new ones: a removed pair may be among these.
        self._index.lose(gone)
        ask_structure = m.AskStructure(self._situation.number, entered, m.Vector.of(gone))
        replies = yield Round(ask_structure, m.Structure, "structure")
        x, y = self._union(replies)
        touched, self._touched = self._touched, np.zeros(0, np.int32)
        xs, ys = self._index.change(x, y, touched)
        usage = self.search.usages
        # No co-usage is above the usage of either element.
        ring = Ring.for_sums_up_to(int(np.minimum(usage[xs], usage[ys]).max(initial=0)))
        new_x, new_y, elements = (m.Vector.of(part) for part in (x, y, touched))
        ask = m.AskIndexed(self._situation.number, 0, new_x, new_y, elements, ring.bits)
        counts = yield from ask_counts(ask, ring, len(xs), "candidates")
        unused = counts == 0
        self._gone = self._index.places_of(xs[unused], ys[unused])
        return PairCounts(xs, ys, counts)

    def _union(self, replies: Replies) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Check the candidates of all members, and return the new pairs in ascending order."""
        parts = []
        most = len(self.search.usages) - 1
        for name, reply in replies.items():
            if reply.x.length > most * (most + 1) // 2:
                msg = f"member {name!r} sent {reply.x.length} candidates, more than {most + 1} elements can have"
                raise ProtocolError(msg)
            x, y = reply.x.values(most), reply.y.values(most)
            if len(x) != len(y) or (x >= y).any():
                msg = f"member {name!r} sent candidates that are not pairs of elements in ascending order"
                raise ProtocolError(msg)
            parts.append((x << 32) | y)
        keys = np.unique(np.concatenate(parts))
        x, y = (keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32)
        new = ~self._index.has(x, y)
        return x[new], y[new]

    def _evaluated(self, candidate: m.Entered) -> Generator[Round, Replies, Change]:
        length = max(len(self.search.usages), candidate.number + 1)
        ring = Ring.for_sums_up_to(self.transactions)
        ask = m.AskEvaluation(self._situation.number, 0, candidate, ring.bits)
        counts = yield from ask_counts(ask, ring, 2 * length, "evaluation")
        lost, won = counts[:length], counts[length:]
        numbers = np.flatnonzero(lost | won)
        self._change = Change(numbers.astype(np.int32), lost[numbers], won[numbers])
        return self._change

    def _counted(self, itemsets: list[TableEntry]) -> Generator[Round, Replies, list[int]]:
        numbers = [self.search.elements.number_of(e.items) for e in itemsets]
        ring = Ring.for_sums_up_to(self.transactions)
        entered, self._entered = self._entered, None
        vector = m.Vector.of(np.array(numbers, np.int64))
        ask = m.AskIndexedSupports(self._situation.number, 0, entered, vector, ring.bits)
        counts = yield from ask_counts(ask, ring, len(numbers), "supports")
        supports: list[int] = counts.tolist()
        return supports


# -- a member -----------------------------------------------------------------------------------------------------


class SaMember(MemberSide):
    """One member's own table, and its copy of the global index."""

    def __init__(self, database: TransactionDatabase, settings: m.Settings, _members: int) -> None:
        self._database = database
        self._bits = Ring.for_sums_up_to(settings.max_transactions).bits
        self._last: type[m.FromServer] | None = None  # the kind of the last question
        self._local = LocalTable(database)
        self._numbering = Numbering(database.n_items)
        self._itemsets: dict[int, tuple[int, ...]] = {}  # number -> items, for all itemsets ever accepted
        self._index = Index()
        self._answers: dict[type[m.FromServer], Callable[[Any], m.FromMember | UnmaskedWords]] = {
            m.AskIndexedUsages: self._usages,
            m.AskStructure: self._structure,
            m.AskIndexed: self._indexed,
            m.AskEvaluation: self._evaluated,
            m.AskIndexedSupports: self._supports,
        }

    def is_final(self, message: Any) -> bool:
        """See `MemberSide`."""
        return isinstance(message, m.AskIndexedSupports)

    def answer(self, message: Any) -> m.FromMember | UnmaskedWords:
        """See `MemberSide`."""
        kind, last = type(message), self._last
        if (kind is m.AskIndexedUsages) is not (last is None) or last is m.AskIndexedSupports:
            raise m.refused(f"the server sent {kind.__name__} when the search never does")
        self._last = kind
        return self._answers[kind](message)

    def _usages(self, _ask: m.AskIndexedUsages) -> UnmaskedWords:
        counts = np.append(self._local.state.supports(), self._database.transactions)
        return pack_counts("sa usages", counts, self._bits)

    def _structure(self, ask: m.AskStructure) -> m.Structure:
        self._index.lose(ask.gone.values())
        self._enter(ask.entered)
        news = self._local.news()
        used = news.counts > 0
        one, other = (self._numbering.numbers_of(part[used]) for part in (news.x, news.y))
        x, y = np.minimum(one, other), np.maximum(one, other)
        new = ~self._index.has(x, y)
        return m.Structure(ask.round, m.Vector.of(x[new]), m.Vector.of(y[new]))

    def _indexed(self, ask: m.AskIndexed) -> UnmaskedWords:
        most = self._known - 1
        x, y, elements = (v.values(most).astype(np.int32) for v in (ask.x, ask.y, ask.elements))
        if len(x) != len(y) or (x >= y).any() or not _ascending((x.astype(np.int64) << 32) | y):
            raise m.refused("the server's changes to the index are not pairs of elements in ascending order")
        if self._index.has(x, y).any() or not _ascending(elements):
            raise m.refused("the server's changes to the index name pairs or elements twice")
        xs, ys = self._index.change(x, y, elements)
        slots = self._numbering.slots_of
        return pack_counts("sa candidates", self._local.together(slots(xs), slots(ys)), ask.bits)

    def _evaluated(self, ask: m.AskEvaluation) -> UnmaskedWords:
        candidate = ask.candidate
        self._union_of(candidate)
        # The length is that of the index, so that it reveals nothing about this member.
        length = max(self._known, candidate.number + 1)
        counts = np.zeros(2 * length, np.int64)
        pairs = self._numbering.pairs_of(candidate.pairs)
        change = self._local.try_pairs(pairs, candidate.entry) if pairs else None
        if change is not None and len(change.slots):
            known = self._numbering.change_of(change, new=candidate.number)
            counts[known.slots] = known.lost
            counts[known.slots + length] = known.won
        return pack_counts("sa evaluation", counts, ask.bits)

    def _enter(self, entered: m.Entered | None) -> None:
        """Remember the accepted itemset, and insert it into this member's table if this member proposed it."""
        if entered is None:
            return
        items = self._union_of(entered)
        if self._itemsets.setdefault(entered.number, items) != items:
            raise m.refused(f"the server gave the number {entered.number} to two itemsets")
        pairs = self._numbering.pairs_of(entered.pairs)
        if pairs and self._local.accept(pairs, entered.entry) is not None:
            self._numbering.enter(entered.number)

    def _union_of(self, entered: m.Entered) -> tuple[int, ...]:
        """Return the union of all pairs of a candidate, which members without these pairs can check as well."""
        known = self._known
        new = self._database.n_items <= entered.number <= known
        if not new or any(max(pair) >= known for pair in entered.pairs):
            raise m.refused(f"the server gave an itemset the number {entered.number} of {known} known ones")
        items, *others = {tuple(sorted(self._items_of(x) + self._items_of(y))) for x, y in entered.pairs}
        if others or len(set(items)) != len(items):
            raise m.refused("the server joined pairs that do not have one union")
        return items

    @property
    def _known(self) -> int:
        """How many elements have a number."""
        return self._database.n_items + len(self._itemsets)

    def _items_of(self, number: int) -> tuple[int, ...]:
        return (number,) if number < self._database.n_items else self._itemsets[number]

    def _supports(self, ask: m.AskIndexedSupports) -> UnmaskedWords:
        self._enter(ask.entered)
        if ask.numbers.length > self._known:
            raise m.refused(f"the server asked for {ask.numbers.length} supports of {self._known} known elements")
        numbers = ask.numbers.values(self._known - 1).tolist()
        supports = np.array([self._local.state.support(self._items_of(n)) for n in numbers], np.int64)
        return pack_counts("sa supports", supports, ask.bits)


def _ascending(values: NDArray[Any]) -> bool:
    return bool((values[1:] > values[:-1]).all())
