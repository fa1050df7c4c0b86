"""SO, the paper's server-observable variant: a table for each member, and the server sees their counts.

Every member proposes pairs of its own elements with its own counts. The server merges them by union and remembers which
members proposed what. It lets these members evaluate a candidate; the usages of all others stay as they were. A member
is asked only about its own elements, by its own slots, so it never learns the itemsets of others. An answer has only
what changed since the member's last answer.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedslim.algorithm1.local_table import LocalTable, Numbering
from fedslim.algorithm1.pairs import PairCounts, PairLedger
from fedslim.algorithm1.search import Acceptance, Algorithm1Question, Algorithm1Search, Evaluation, NextCandidates
from fedslim.data import TransactionDatabase
from fedslim.errors import ProtocolError
from fedslim.mdl.kernels.arrays import lengthen
from fedslim.mdl.questions import Change, Supports, add_changes
from fedslim.mdl.steps import TableEntry
from fedslim.protocol import messages as m
from fedslim.protocol.outcome import Outcome, check_singletons, found_by, pack_table
from fedslim.protocol.variant import MemberSide, Replies, Round, ServerSide, Situation, search_in_rounds

# -- the server ---------------------------------------------------------------------------------------------------


class SoMemberState(Numbering):
    """What the server knows about one member: its slots, usages and co-usages."""

    def __init__(self, n_items: int) -> None:
        super().__init__(n_items)
        self._pairs = PairLedger()
        self.usages = np.zeros(n_items, np.int64)  # by global numbers

    def take_in(self, reply: m.Candidates, transactions: int) -> PairCounts:
        """Store a member's new co-usages; return the differences to the old ones, by global numbers."""
        slots, length = self.next_slot, reply.counts.length
        if not reply.x.length == reply.y.length == length <= slots * (slots - 1) // 2:
            msg = f"candidates have {reply.x.length}, {reply.y.length} and {length} entries for {slots} elements"
            raise ProtocolError(msg)
        x, y, counts = reply.x.values(), reply.y.values(), reply.counts.values(transactions)
        one, other = self.numbers_of(x), self.numbers_of(y)
        low, high = np.minimum(one, other), np.maximum(one, other)
        if (low == high).any():
            raise ProtocolError("a candidate joins an element with itself")
        return PairCounts(low, high, counts - self._pairs.replace(PairCounts(low, high, counts)))

    def change(self, change: Change) -> None:
        """Apply a change of usages, by global numbers."""
        most = int(change.slots.max(initial=-1))
        if most >= len(self.usages):
            self.usages = lengthen(self.usages, 2 * most)
        np.add.at(self.usages, change.slots, np.asarray(change.won) - np.asarray(change.lost))

    def usage(self, number: int) -> int:
        """Return the member's usage of an element."""
        return int(self.usages[number]) if number < len(self.usages) else 0

    def uses(self, pairs: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
        """Return the pairs that the member uses together, by its slots."""
        both = np.array(pairs, np.int32)
        x, y = np.ascontiguousarray(both.T)  # numba would compile the kernel again for strided columns
        used = self._pairs.look_up(x, y) > 0
        return [(x, y) for x, y in self.slots_of(both[used]).tolist()]


class Algorithm1Server(ServerSide):
    """Algorithm 1 at the server, in SA and SO."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self.search = Algorithm1Search(situation.items)
        self.supports: list[int] = []
        self.transactions = 0

    def run(self) -> Generator[Round, Replies, Outcome]:
        """See `ServerSide`."""
        ending = yield from search_in_rounds(self.search, self._situation, self._answered)
        result = self.search.result()
        found = found_by(result, (yield from self._counted([e for e in result.entries if len(e.items) > 1])))
        check_singletons(result, found, self.supports)
        table = pack_table(found, self.supports, self.transactions)
        return Outcome(table, result.tally, ending, self.member_usages())

    @abstractmethod
    def _answered(self, question: Algorithm1Question) -> Generator[Round, Replies, Any]:
        """Answer a question of the search."""

    @abstractmethod
    def _counted(self, itemsets: list[TableEntry]) -> Generator[Round, Replies, list[int]]:
        """Return the support of each of these itemsets."""


class SoServer(Algorithm1Server):
    """Algorithm 1, answered by each member separately."""

    members_know = False

    def __init__(self, situation: Situation) -> None:
        super().__init__(situation)
        self._members = {name: SoMemberState(situation.items) for name in situation.members}
        self._sums = PairLedger()
        self._accepted: dict[str, m.Accept] = {}  # the accepted itemset, for members that do not know yet
        self._on_trial: dict[str, Change] = {}  # for each member, what the last candidate would change

    def member_usages(self) -> dict[str, list[int]]:
        """See `ServerSide`."""
        entries = [e.items for e in self.search.result().entries if len(e.items) > 1]
        numbers = [self.search.elements.number_of(items) for items in entries]
        return {name: [member.usage(number) for number in numbers] for name, member in self._members.items()}

    def _answered(self, question: Algorithm1Question) -> Generator[Round, Replies, Any]:
        match question:
            case Supports():
                return (yield from self._usages())
            case NextCandidates():
                return (yield from self._candidates())
            case Evaluation(number, itemset, pairs):
                check_itemset(itemset)
                return (yield from self._evaluated(number, pairs))
            case Acceptance(trial):
                self._accept(trial.number, trial.pairs)
        return None

    def _usages(self) -> Generator[Round, Replies, NDArray[np.int64]]:
        replies = yield Round(m.AskUsages(self._situation.number), m.Usages, "usages", self._situation.items + 1)
        counts = [reply.counts.values(self._situation.settings.max_transactions) for reply in replies.values()]
        if any(len(usages) != self._situation.items + 1 for usages in counts):
            raise ProtocolError(f"a member sent usages for another number of items than {self._situation.items}")
        for name, usages in zip(replies, counts, strict=True):
            self._members[name].usages[:] = usages[:-1]
        *self.supports, self.transactions = np.sum(counts, axis=0).tolist()
        if max(self.supports, default=0) > self.transactions:
            raise ProtocolError("a member sent usages that are higher than the number of transactions")
        return np.array(self.supports, np.int64)

    def _candidates(self) -> Generator[Round, Replies, PairCounts]:
        number = self._situation.number
        accepted, self._accepted = self._accepted, {}
        asked = {name: m.AskCandidates(number, accepted.get(name)) for name in self._members}
        replies = yield Round(asked, m.Candidates, "candidates")
        news = [self._members[name].take_in(reply, self.transactions) for name, reply in replies.items()]
        x, y = np.concatenate([part.x for part in news]), np.concatenate([part.y for part in news])
        keys, where = np.unique((x.astype(np.int64) << 32) | y, return_inverse=True)
        added = np.zeros(len(keys), np.int64)
        np.add.at(added, where, np.concatenate([part.counts for part in news]))
        x, y = (keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32)
        sums = PairCounts(x, y, self._sums.look_up(x, y) + added)
        self._sums.replace(sums)
        return sums

    def _evaluated(self, number: int, pairs: tuple[tuple[int, int], ...]) -> Generator[Round, Replies, Change]:
        """Ask the members that proposed the candidate; the usages of all others do not change."""
        participants = {name: used for name, member in self._members.items() if (used := member.uses(pairs))}
        asked = {name: m.Evaluate(self._situation.number, used) for name, used in participants.items()}
        replies = yield Round(asked, m.Evaluated, "evaluation")
        self._on_trial = {name: self._changed(name, reply, number) for name, reply in replies.items()}
        return add_changes(list(self._on_trial.values()))

    def _changed(self, name: str, reply: m.Evaluated, number: int) -> Change:
        slots, lost, won = reply.slots.values(), reply.lost.values(), reply.won.values()
        if not len(slots) == len(lost) == len(won):
            msg = f"member {name!r} sent an evaluation with {len(slots)}, {len(lost)} and {len(won)} entries"
            raise ProtocolError(msg)
        change = Change(slots, lost, won)  # type: ignore[arg-type]
        return self._members[name].change_of(change, new=number)

    def _accept(self, number: int, pairs: tuple[tuple[int, int], ...]) -> None:
        for name, change in self._on_trial.items():
            self._members[name].change(change)
        for name, member in self._members.items():
            if used := member.uses(pairs):
                self._accepted[name] = m.Accept(used)
                member.enter(number)

    def _counted(self, itemsets: list[TableEntry]) -> Generator[Round, Replies, list[int]]:
        """Return the supports of itemsets at the members that have them; no member is asked about others' itemsets."""
        number = self._situation.number
        accepted, self._accepted = self._accepted, {}
        asked = {name: m.AskSupports(number, accepted.get(name)) for name in self._members}
        replies = yield Round(asked, m.SupportCounts, "supports")
        supports = Counter[tuple[int, ...]]()
        for name, reply in replies.items():
            slots, counts = reply.slots.values(), reply.counts.values(self.transactions)
            if len(slots) != len(counts) or len(np.unique(slots)) != len(slots):
                msg = f"member {name!r} sent {len(counts)} supports for {len(slots)} itemsets, or two for the same one"
                raise ProtocolError(msg)
            numbers = self._members[name].numbers_of(slots)
            for element, count in zip(numbers.tolist(), counts.tolist(), strict=True):
                supports[self.search.elements.items_of(element)] += count
        return [supports.get(e.items, e.usage) for e in itemsets]


# -- a member -----------------------------------------------------------------------------------------------------


class SoMember(MemberSide):
    """One member's own table; messages name its elements by its own slots."""

    def __init__(self, database: TransactionDatabase, _settings: m.Settings, _members: int) -> None:
        self._database = database
        self._local = LocalTable(database)
        self._answers: dict[type[m.FromServer], Callable[[Any], m.FromMember]] = {
            m.AskUsages: self._usages,
            m.AskCandidates: self._candidates,
            m.Evaluate: self._evaluated,
            m.AskSupports: self._supports,
        }

    def answer(self, message: Any) -> m.FromMember:
        """See `MemberSide`."""
        return self._answers[type(message)](message)

    def is_final(self, message: Any) -> bool:
        """See `MemberSide`."""
        return isinstance(message, m.AskSupports)

    def own_table(self) -> m.PackedTable:
        """See `MemberSide`: the member's own table, which it sends to nobody."""
        state = self._local.state
        usages, table = state.usages, state.table
        itemsets = [
            m.PackedElement(list(items), int(usages[slot]), state.support(items), table.entries[slot])
            for slot, items in ((slot, table.items_of(slot)) for slot in table)
        ]
        vectors = m.Vector.of(usages[: table.n_items]), m.Vector.of(state.supports())
        return m.PackedTable(itemsets, *vectors, self._database.transactions, min_count=1, other=0)

    def _usages(self, ask: m.AskUsages) -> m.Usages:
        counts = np.append(self._local.state.supports(), self._database.transactions)
        return m.Usages(ask.round, m.Vector.of(counts))

    def _candidates(self, ask: m.AskCandidates) -> m.Candidates:
        self._accept(ask.accepted)
        news = self._local.news()
        return m.Candidates(ask.round, m.Vector.of(news.x), m.Vector.of(news.y), m.Vector.of(news.counts))

    def _evaluated(self, ask: m.Evaluate) -> m.Evaluated:
        change = self._local.try_pairs(ask.pairs)
        return m.Evaluated(ask.round, *(m.Vector.of(part) for part in change))

    def _accept(self, accepted: m.Accept | None) -> None:
        if accepted is not None and self._local.accept(accepted.pairs) is None:
            raise m.refused("the server accepted an itemset that this member has not proposed")

    def _supports(self, ask: m.AskSupports) -> m.SupportCounts:
        self._accept(ask.accepted)
        slots, state = self._local.slots, self._local.state
        counts = [state.support(state.table.items_of(slot)) for slot in slots]
        return m.SupportCounts(ask.round, *(m.Vector.of(np.array(part, np.int64)) for part in (slots, counts)))


def check_itemset(itemset: tuple[int, ...]) -> None:
    """Check that a candidate's elements are disjoint: in honest covers, elements used together always are."""
    if len(set(itemset)) != len(itemset):
        raise ProtocolError("a candidate joins elements with an item in common")
