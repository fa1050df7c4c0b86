"""X at a member: the covers of its transactions, the questions it allows about them, and the answers.

Members of one process share what is the same for all of them: the table, the checks, and the kernel calls.

The server's side, and how the two fit together, is in `x.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedslim.errors import ProtocolError
from fedslim.mdl import questions as q
from fedslim.mdl.effort import WIDTHS, plan
from fedslim.mdl.parted_covers import PartedCovers
from fedslim.mdl.policy import MAX_WIDTH
from fedslim.protocol import messages as m
from fedslim.protocol.sums import check_words
from fedslim.protocol.variant import UnmaskedWords as Answer
from fedslim.protocol.x_queries import Shape, entries_of, pack
from fedslim.secagg.ring import MAX_BITS, Words

if TYPE_CHECKING:
    from fedslim.data import TransactionDatabase

Batch = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]


class Phase(Enum):
    """The phase of a run, which determines the allowed questions."""

    START = "at the start"
    SEARCH = "during the search"
    FINAL = "after the search"


class XMember:
    """One member: its answers are words to be masked.

    It answers only questions that the search can ask: first supports of items; then rows, trials and moves about
    elements of the table and unions of two of them; at the end counts of the table that was found.
    """

    def __init__(self, database: TransactionDatabase, settings: m.Settings, members: int) -> None:
        self._database, self._terms = database, (settings, members)
        self.share_work({})

    def share_work(self, shared: dict[str, Any]) -> None:
        """See `MemberSide`."""
        self._members = shared.setdefault("x", XMembers(*self._terms))
        self._place = self._members.add(self._database)

    def answer(self, message: m.Ask) -> Answer:
        """Make the moves, then count what the server asks for."""
        return Answer("x answers", self._members.answer(message, self._place))

    def own_table(self) -> None:
        """See `MemberSide`: there is one table for all members, and the server sends it."""

    def is_final(self, message: m.Ask) -> bool:
        """See `MemberSide`."""
        return any(isinstance(want, m.WantFinal) for want in message.wants)

    def check_end(self, table: m.PackedTable) -> None:
        """See `MemberSide`."""
        self._members.check_end(table)


class XMembers:
    """The members of one process, mostly one: keeps the covers of their transactions, and answers for each of them.

    What is refused depends on the question and the table, never on counts, so it is the same for all.
    """

    def __init__(self, settings: m.Settings, members: int) -> None:
        self._settings, self._size = settings, members
        self._databases: list[TransactionDatabase] = []
        self._waiting: set[int] = set()  # the places of those who will ask for the last answers
        self._phase = Phase.START
        self._dropped = False  # whether rare items were dropped
        self._removed: list[tuple[int, tuple[int, ...], int]] = []  # a stack of elements that may be restored
        self._entered: dict[int, tuple[int, ...]] = {}  # by number: the itemsets that have been in the table
        self._numbered: set[tuple[int, ...]] = set()  # the same itemsets
        self._marked = False
        self._checked: m.PackedTable | None = None
        self._plan = plan(settings.effort, limited=False)
        self._searches = 1
        self._counts: dict[type[m.Want], Callable[[Any], Any]] = {
            m.WantRows: self._rows,
            m.WantSparseRow: self._sparse_row,
            m.WantEntries: self._entries,
            m.WantInsertions: self._insertions,
            m.WantRemovals: self._removals,
            m.WantSupports: self._supports,
            m.WantUnionSupport: self._union_support,
            m.WantFinal: self._final,
        }

    @cached_property
    def _state(self) -> PartedCovers:
        return PartedCovers(self._databases)

    @cached_property
    def _shape(self) -> Shape:
        return Shape.at_start(self._settings, self._databases[0].n_items, self._size)

    def add(self, database: TransactionDatabase) -> int:
        """Add a member before the first question; return its place."""
        if self._phase is not Phase.START:
            raise RuntimeError("members that share work do so from the first question on")
        self._databases.append(database)
        return len(self._databases) - 1

    def check_end(self, table: m.PackedTable) -> None:
        """Check, once for all members, that the itemsets of the result are those that they cover with."""
        if table is self._checked:
            return
        ours = [(list(self._state.table.itemsets[s]), self._state.table.entries[s]) for s in self._state.table]
        if [(element.items, element.entry) for element in table.itemsets] != ours:
            raise ProtocolError("the server's result is not the table that this member covers with; it is refused")
        if table.min_count != self._settings.min_count:
            msg = f"the server's result has another min_count ({table.min_count}) than agreed; it is refused"
            raise ProtocolError(msg)
        self._checked = table

    def answer(self, message: m.Ask, place: int) -> Words:
        """Return one member's answer. Those of all are found when the first one is asked for."""
        if not self._waiting:
            self._words = self._answers(message)
            self._asked, self._waiting = message, set(range(len(self._databases)))
        if message is not self._asked or place not in self._waiting:
            raise RuntimeError("members that answer together are asked the same, each once")
        self._waiting.remove(place)
        words: Words = self._words[place]
        return words

    def _answers(self, message: m.Ask) -> Words:
        """Make the moves, then count what the server asks for: a row of words for each member."""
        self._phase = self._next_phase(message)
        for move in message.moves:
            self._make(move)
        answers: list[Words] = []
        for want in message.wants:
            table = self._state.table
            shape = self._shape._replace(slots=table.fresh_slot, itemsets=len(table))
            answers.append(pack(want, shape, len(self._databases), self._counts[type(want)](want)))
            check_words(sum([words.shape[1] for words in answers]))
        return answers[0] if len(answers) == 1 else np.concatenate(answers, axis=1)

    def _next_phase(self, message: m.Ask) -> Phase:
        """Return the phase after this question; raise `ProtocolError` if the search cannot ask it now.

        A search tries the candidates of two steps in a round at most; a server that tries more is up to something else.
        """
        kinds = [type(want) for want in message.wants]
        tries = [new for want in message.wants if type(want) is m.WantInsertions for new in want.new]
        again = [new for new in tries if self._is_again(new)]
        tried = len(tries) - len(again) + kinds.count(m.WantUnionSupport)
        inserts = [self._is_again(move) for move in message.moves if type(move) is m.InsertUnion]
        inserted = inserts.count(False)
        most = 2 * max([self._settings.width, *(WIDTHS if self._plan.several else ())])
        if len(again) > MAX_WIDTH or not all(new.keep for new in again) or (any(inserts) and kinds != [m.WantFinal]):
            raise ProtocolError("the server inserts itemsets again otherwise than a search does; it is refused")
        if tried > most or inserted > 1:
            msg = (
                f"the server tries {tried} itemsets in a round and inserts {inserted} that were tried before; a search "
                f"of width {most // 2} has at most {most} and 1, so it is refused"
            )
            raise ProtocolError(msg)
        match self._phase:
            case Phase.START if kinds == [m.WantSupports] and not message.moves:
                return Phase.SEARCH
            case Phase.SEARCH if kinds == [m.WantFinal]:
                return Phase.FINAL
            case Phase.SEARCH if m.WantSupports not in kinds and m.WantFinal not in kinds:
                return Phase.SEARCH
            case Phase.FINAL if kinds == [m.WantFinal] and {type(move) for move in message.moves} == {m.RemoveElement}:
                return Phase.FINAL
        what = ", ".join(sorted({kind.__name__ for kind in (*kinds, *map(type, message.moves))}))
        raise ProtocolError(f"the server asked for {what} {self._phase.value}; the search never does, so it is refused")

    # -- moves --------------------------------------------------------------------------------------------------

    def _make(self, move: m.Move) -> None:
        match move:
            case m.InsertUnion():
                self._insert(move, self._union(move))
            case m.RemoveElement(slot):
                self._remove(slot)
            case m.RestoreElement(slot):
                if not self._removed or self._removed[-1][0] != slot:
                    raise ProtocolError(f"the server restores slot {slot}, which was not removed last; it is refused")
                self._state.insert(*self._removed.pop())
            case m.DropItems(items):
                self._drop(items)
            case m.MarkTable() | m.GoBackToMark() | m.EmptyTable():
                self._change_table(move)

    def _change_table(self, move: m.MarkTable | m.GoBackToMark | m.EmptyTable) -> None:
        """Make a move about the whole table; raise `ProtocolError` if the effort has none such now."""
        empty = type(move) is m.EmptyTable
        self._searches += empty
        # After the last search the table is emptied once more, for the best one.
        allowed = self._plan.several and self._searches <= self._plan.most_tasks + 1 if empty else self._plan.rounds
        if not allowed or (type(move) is m.GoBackToMark and not self._marked):
            msg = (
                f"the server sends {type(move).__name__} in search {self._searches}; a search of effort "
                f"{self._settings.effort} does not do that now, so it is refused"
            )
            raise ProtocolError(msg)
        self._removed.clear()
        self._marked = not empty
        match move:
            case m.MarkTable():
                self._state.mark()
            case m.GoBackToMark():
                self._state.go_back()
            case m.EmptyTable():
                self._state.restart()

    def _insert(self, new: m.InsertUnion | m.NewUnion, itemset: tuple[int, ...]) -> None:
        self._state.insert(new.slot, itemset, new.entry)
        self._removed.clear()
        if itemset not in self._numbered:
            self._entered[len(self._entered)] = itemset
            self._numbered.add(itemset)

    def _remove(self, slot: int) -> None:
        table = self._state.table
        self._removed.append((self._alive(slot, itemset=True), table.itemsets[slot], table.entries[slot]))
        self._state.remove(slot)

    def _drop(self, items: m.Vector) -> None:
        table = self._state.table
        numbers = items.values(table.n_items - 1).tolist()
        if self._settings.min_count == 1 or self._dropped or self._entered or self._searches > 1:
            msg = "the server drops items, which is allowed only once, at the start, with min_count > 1; it is refused"
            raise ProtocolError(msg)
        self._dropped = True
        self._state.drop(tuple(numbers))

    # -- counts -------------------------------------------------------------------------------------------------

    def _rows(self, want: m.WantRows) -> Iterator[Batch]:
        for slot in want.slots:
            self._alive(slot)
        if len(want.bits) != len(want.slots) or not all(1 <= bits <= MAX_BITS for bits in want.bits):
            msg = f"the server asked for {len(want.slots)} rows with {len(want.bits)} widths; it is refused"
            raise ProtocolError(msg)
        return self._batches(np.array(want.slots, np.int64))

    def _batches(self, slots: NDArray[np.int64]) -> Iterator[Batch]:
        while len(slots):
            batch = self._state.rows(slots)
            yield batch
            slots = slots[len(batch[0]) // len(self._databases) :]

    def _sparse_row(self, want: m.WantSparseRow) -> Batch:
        return self._state.rows(np.array([self._alive(want.slot)]))

    def _entries(self, want: m.WantEntries) -> NDArray[np.int64]:
        table = self._state.table
        rows, ends, others, _, _ = entries_of(want, table.fresh_slot)
        alive = np.zeros(table.fresh_slot, np.bool_)  # an itemset that is only tried has a rank, but is in no cover
        alive[: table.n_items] = alive[table.order] = True
        if not alive[rows].all() or not alive[others].all():
            raise ProtocolError("the server asks for entries of slots that are empty; it is refused")
        return self._state.entries(rows, ends, others)

    def _insertions(self, want: m.WantInsertions) -> q.Changes:
        changes = []
        for new in want.new:
            itemset = self._union(new)
            changes.append(self._state.trial_insertion(new.slot, itemset, new.entry))
            if new.keep:
                self._insert(new, itemset)
        for slot in want.gone:
            self._remove(slot)
        return q.join_changes(changes)

    def _removals(self, want: m.WantRemovals) -> q.Changes:
        if len(want.gone) not in {0, len(want.slots)}:
            msg = f"the server tries {len(want.slots)} removals with {len(want.gone)} decisions; it is refused"
            raise ProtocolError(msg)
        parts: list[q.Changes] = []
        for slots, leaves in q.in_turn(want.slots, want.gone):
            parts.append(self._state.trial_removals([self._alive(slot, itemset=True) for slot in slots]))
            if leaves:
                self._remove(slots[-1])
        return q.join_changes(parts)

    def _supports(self, _want: m.WantSupports) -> list[NDArray[np.int64]]:
        transactions = [[database.transactions] for database in self._databases]
        return [np.append(self._state.all_supports(), transactions, axis=1)]

    def _union_support(self, want: m.WantUnionSupport) -> list[NDArray[np.int64]]:
        if self._settings.min_support == 1 and self._settings.order == "usage":
            msg = "the server asked for the support of a candidate, which the settings do not need; it is refused"
            raise ProtocolError(msg)
        return [np.array(self._state.support_in_each(self._joined(want.parents)), np.int64)[:, None]]

    def _final(self, _want: m.WantFinal) -> list[NDArray[np.int64]]:
        table = self._state.table
        usages = self._state.all_usages[:, table.order]
        supports = self._state.supports_of(table.order)
        vectors = [np.concatenate([usages, supports], axis=1)]
        if self._shape.members:
            vectors.append(np.concatenate([usages > 0, self._state.all_supports() > 0], axis=1).astype(np.int64))
        return vectors

    # A lying server must not be able to make the kernels access slots without an element, nor ask about any itemset.

    def _alive(self, slot: int, *, itemset: bool = False) -> int:
        table = self._state.table
        if slot not in table.itemsets and (itemset or slot >= table.n_items):
            raise ProtocolError(f"the server asked about slot {slot}, which is empty; it is refused")
        return slot

    def _joined(self, parents: tuple[int, int]) -> tuple[int, ...]:
        """Return the union of two elements of the table; they must have no item in common."""
        table, (x, y) = self._state.table, parents
        itemset = tuple(sorted(table.items_of(self._alive(x)) + table.items_of(self._alive(y))))
        if len(set(itemset)) != len(itemset):
            raise ProtocolError("the server joins two elements that have items in common; it is refused")
        longest = self._settings.max_itemset_size
        if longest is not None and len(itemset) > longest:
            msg = f"the server forms an itemset of {len(itemset)} items; {longest} were agreed on, so it is refused"
            raise ProtocolError(msg)
        return itemset

    def _is_again(self, new: m.InsertUnion | m.NewUnion) -> bool:
        """Return whether an itemset is named by its number, because it was in the table; with effort 1 none is."""
        return self._plan.several and new.parents[0] == new.parents[1]

    def _again(self, number: int) -> tuple[int, ...]:
        """Return an itemset that has been in the table."""
        if number not in self._entered:
            raise ProtocolError(f"the server inserts itemset {number} again, which was not in the table; it is refused")
        return self._entered[number]

    def _union(self, new: m.InsertUnion | m.NewUnion) -> tuple[int, ...]:
        """Return the itemset that is to enter; raise `ProtocolError` if it may not."""
        if new.slot != (expected := self._state.table.free_slot):
            msg = f"the server inserts an itemset into slot {new.slot}, but slot {expected} is next; it is refused"
            raise ProtocolError(msg)
        itemset = self._again(new.parents[0]) if self._is_again(new) else self._joined(new.parents)
        if itemset in self._state.table.present:
            raise ProtocolError("the server inserts an itemset that is in the table already; it is refused")
        if new.entry < self._settings.min_count:
            msg = f"the server inserts an itemset used {new.entry} times, which is below min_count; it is refused"
            raise ProtocolError(msg)
        return itemset
