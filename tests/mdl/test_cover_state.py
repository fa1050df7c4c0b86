from __future__ import annotations

from collections import Counter
from unittest.mock import patch

from hypothesis import example, given, strategies as st
from twin import cover

from fedslim.data import TransactionDatabase
from fedslim.mdl import cover_state
from fedslim.mdl.cover_state import CoverState
from fedslim.mdl.itemsets import order_key
from fedslim.mdl.kernels.removal import FEW

N_ITEMS = 7
ROWS = st.lists(st.frozensets(st.integers(0, N_ITEMS - 1), min_size=1), min_size=1, max_size=20)
ITEMSETS = st.frozensets(st.integers(0, N_ITEMS - 1), min_size=2).map(lambda items: tuple(sorted(items)))
MOVES = st.lists(st.tuples(st.sampled_from("iitrr"), ITEMSETS, st.integers(0, 5), st.integers(0, 9)), max_size=25)

MANY = FEW + 1  # removals group transactions only where there are more than a few
TIMES = [1, 2, 5, 20, MANY]


def covers(state, rows):
    """The cover of each transaction, and where each element is used: both must equal the twin's."""
    table = state.table
    order = sorted(table.itemsets.values(), key=lambda items: order_key(items, entries(state)[items]))
    expected = [sorted(cover(row, order)) for row in rows]
    assert [sorted(map(table.items_of, state.cover(t))) for t in range(len(rows))] == expected
    kept = state.covers
    for slot in (*range(N_ITEMS), *table.itemsets):
        where = kept.tids[kept.tid_start[slot] : kept.tid_start[slot] + kept.usage[slot]]
        assert sorted(where.tolist()) == [t for t, own in enumerate(expected) if table.items_of(slot) in own]


def rows_of_pairs(state, transactions):
    """The co-usages of each element, whether kept or counted now: both must equal those in the covers."""
    slots = (*range(N_ITEMS), *state.table.itemsets)
    found = [dict(zip(r.slots.tolist(), r.counts.tolist(), strict=True)) for r in state.co_usages(slots)]
    all_covers = [state.cover(t) for t in range(transactions)]
    expected = [Counter(s for own in all_covers if slot in own for s in own) for slot in slots]
    assert found == expected


def entries(state):
    return {items: state.table.entries[slot] for slot, items in state.table.itemsets.items()}


@given(ROWS, MOVES, st.sampled_from(TIMES), st.sampled_from([None, 0, 150, 1 << 16]))
@example(
    [frozenset({0}), frozenset({0, 1, 2})],
    [("i", (0, 1), 9, 0), ("i", (1, 2), 0, 0), ("i", (0, 1, 2), 1, 0), ("r", (0, 1), 0, 0), ("r", (0, 1), 0, 1)],
    MANY,
    1 << 16,
)
@example([frozenset({0, 1, 2})], [("i", (1, 2), 0, 0), ("i", (0, 1), 5, 0), ("r", (0, 1), 1, 1)], MANY, 0)
def test_whatever_comes_and_goes_in_whatever_order_covers_are_those_of_the_twin(rows, moves, times, most_pairs):
    """Including moves that no search makes: removing an unused element just after it was broken.

    The same holds for co-usages, whether they are never kept, or only as long as they are few.
    """
    rows = rows * times
    vocabulary = [str(i) for i in range(N_ITEMS)]
    texts = [[str(i) for i in sorted(row)] for row in rows]
    database = TransactionDatabase.from_transactions(texts, vocabulary=vocabulary)
    numbers = {label: i for i, label in enumerate(database.vocabulary)}
    rows = [frozenset(numbers[str(i)] for i in row) for row in rows]
    state = CoverState(database, keep_pairs=most_pairs is not None)
    with patch.multiple(cover_state, MANY_PAIRS=most_pairs, PAIRS_FOR_EACH_OCCURRENCE=0):
        for what, items, entry, which in moves:
            slots = sorted(state.table.itemsets)
            if what == "r" and slots:
                slot = slots[which % len(slots)]
                before, trials = state.usages.copy(), state.try_removals((slot,) * (entry % 2))
                state.remove(slot)
                for trial in trials:
                    before[trial.slots] += trial.won - trial.lost
                    assert before.tolist() == state.usages.tolist()
            elif what == "t" and slots and which % 2:
                state.try_removals((slots[which % len(slots)],))
            elif items not in state.table.present:
                (slot,) = state.table.free_slots(1)
                state.try_insert(slot, items, entry)
                if what == "i":
                    state.insert(slot, items, entry)
            covers(state, rows)
            rows_of_pairs(state, len(rows))


def test_a_trial_leaves_nothing_behind_for_the_next():
    """Where many transactions use an itemset, with the same elements after it."""
    state = CoverState(TransactionDatabase.from_transactions([["a", "b"], ["a", "b", "c"]] * MANY))
    state.insert(3, (0, 1), 2 * MANY)
    first, second = state.try_removals((3, 3))
    assert [part.tolist() for part in first] == [part.tolist() for part in second]
