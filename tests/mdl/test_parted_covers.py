"""Counting in several databases at once: each gets the counts that it has alone."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
from hypothesis import given, strategies as st

from fedslim.data import TransactionDatabase
from fedslim.mdl import parted_covers
from fedslim.mdl.cover_state import CoverState
from fedslim.mdl.parted_covers import PartedCovers

N_ITEMS = 7
ROWS = st.lists(st.frozensets(st.integers(0, N_ITEMS - 1)), max_size=12)
ITEMSETS = st.frozensets(st.integers(0, N_ITEMS - 1), min_size=2).map(lambda items: tuple(sorted(items)))
MOVES = st.lists(st.tuples(st.sampled_from("iiirrtmgd"), ITEMSETS, st.integers(0, 5), st.integers(0, 9)), max_size=25)


def database(rows, times):
    return TransactionDatabase.from_transactions(
        [[str(i) for i in sorted(row)] for row in rows * times], vocabulary=[str(i) for i in range(N_ITEMS)]
    )


def as_sets(changes):
    """What changes, in whatever order it was found."""
    return [set(zip(*[part.tolist() for part in change], strict=True)) for change in changes]


def compare(together, alone):
    """The covers, the usages and the rows of all elements."""
    slots = np.array([*range(N_ITEMS), *sorted(together.table.itemsets)])
    rows, done = [[] for _ in alone], 0
    while done < len(slots):
        ends, others, counts = together.rows(slots[done:])
        for k, (a, b) in enumerate(zip([0, *ends], ends, strict=False)):
            rows[k % len(alone)].append(dict(zip(others[a:b].tolist(), counts[a:b].tolist(), strict=True)))
        done += len(ends) // len(alone)
    whole = np.arange(together.table.fresh_slot)
    found = together.entries(slots, len(whole) * np.arange(1, len(slots) + 1), np.tile(whole, len(slots)))
    for p, counts in enumerate(found.reshape(len(alone), len(slots), len(whole)).tolist()):
        assert [{s: n for s, n in enumerate(row) if n} for row in counts] == rows[p]
    first = 0
    for p, state in enumerate(alone):
        assert together.all_usages[p].tolist() == state.usages.tolist()
        transactions = range(state.databases[0].transactions)
        assert [together.cover(first + t) for t in transactions] == [state.cover(t) for t in transactions]
        first += len(transactions)
        own = state.co_usages(tuple(slots.tolist()))
        assert rows[p] == [dict(zip(r.slots.tolist(), r.counts.tolist(), strict=True)) for r in own]


@given(
    st.lists(st.tuples(ROWS, st.sampled_from([1, 1, 3, 40])), min_size=1, max_size=4),
    MOVES,
    st.sampled_from([0, 1 << 12]),
)
def test_each_database_counts_what_it_counts_alone(parts, moves, room):  # noqa: C901  # a case for each move
    """In whatever order itemsets come and go, with much room or hardly any."""
    databases = [database(*part) for part in parts]
    with patch.multiple(parted_covers, ROOM_FOR_TRIALS=room, ROOM_FOR_ROWS=room):
        together, alone, marked = PartedCovers(databases), [CoverState(one) for one in databases], False
        assert together.all_supports().tolist() == [state.supports().tolist() for state in alone]
        for number, (what, items, entry, which) in enumerate(moves):
            states, slots = [together, *alone], sorted(together.table.itemsets)
            if what == "d" and number == 0:
                for state in states:
                    state.drop((which % N_ITEMS,))
            elif what == "m" or (what == "g" and marked):
                marked = True
                for state in states:
                    _ = state.mark() if what == "m" else state.go_back()
            elif what in "rt" and slots:
                some = slots[which % len(slots) :]
                trials = together.trial_removals(some).each()
                for p, state in enumerate(alone):
                    assert as_sets(trials[p :: len(alone)]) == as_sets(state.try_removals(tuple(some)))
                for state in states if what == "r" else ():
                    state.remove(some[entry % len(some)])
            elif what == "i" and items not in together.table.present:
                slot = together.table.free_slot
                changes = together.trial_insertion(slot, items, entry).each()
                assert as_sets(changes) == as_sets([state.try_insert(slot, items, entry) for state in alone])
                for state in states if which else ():
                    state.insert(slot, items, entry)
            compare(together, alone)
            assert together.support_in_each(items) == [state.support(items) for state in alone]
