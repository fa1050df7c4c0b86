from __future__ import annotations

import random

import pytest

from fedslim.mdl.kernels.arrays import DEAD_RANK, LAST_RANK
from fedslim.mdl.table import WorkingTable


def test_a_staged_itemset_has_its_rank_and_moves_nothing():
    table = WorkingTable(4)
    table.stage(4, (0, 1), 5)
    table.place(4)
    table.stage(5, (0, 1, 2), 2)
    assert table.elements.rank[5] == 0
    assert table.elements.rank[4] == 0
    assert len(table) == 1
    table.unstage()
    assert table.elements.rank[5] == DEAD_RANK


def test_placing_something_else_than_what_is_on_trial_is_refused():
    table = WorkingTable(3)
    with pytest.raises(RuntimeError, match="slot 3 is not on trial"):
        table.place(3)


@pytest.mark.parametrize("seed", range(10))
def test_a_table_stays_in_cover_order_through_random_moves(seed):
    rng = random.Random(seed)
    n_items = rng.choice([5, 70, 1100])
    table = WorkingTable(n_items)
    twin: dict[int, tuple[tuple[int, ...], int]] = {}
    for _ in range(300):
        if twin and rng.random() < 0.3:
            slot = rng.choice(list(twin))
            table.drop(slot)
            del twin[slot]
        else:
            itemset = tuple(sorted(rng.sample(range(n_items), rng.randint(2, 5))))
            entry = rng.randint(1, 9)
            if (itemset, entry) in twin.values():
                continue
            (slot,) = table.free_slots(1)
            assert slot not in twin
            table.stage(slot, itemset, entry)
            if rng.random() < 0.2:
                continue
            table.place(slot)
            twin[slot] = (itemset, entry)
        expected = sorted(twin, key=lambda s: (-len(twin[s][0]), -twin[s][1], twin[s][0]))
        table.unstage()
        assert list(table) == expected
        elements = table.elements
        assert [elements.rank[s] for s in expected] == list(range(len(expected)))
        assert table.item_count == sum(len(itemset) for itemset, _ in twin.values())
        for slot, (itemset, entry) in twin.items():
            start = elements.start[slot]
            assert tuple(elements.items[start : start + elements.size[slot]]) == itemset
            assert (table.items_of(slot), table.entries[slot]) == (itemset, entry)
    assert elements.rank[:n_items].tolist() == [LAST_RANK + i for i in range(n_items)]
    assert len(table.elements.rank) <= n_items + 64 + 4 * 300
