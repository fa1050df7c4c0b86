"""Random questions in X, most near the edge of what is valid: the covers stay covers."""

from __future__ import annotations

import random
from itertools import combinations

import msgspec
import numpy as np
from hypothesis import example, given, strategies as st
from one_member import FINAL, LAST, N_ITEMS, ROW, asked, check_covers, dropping, entries, next_slots, searching

from fedslim.errors import ProtocolError, SecureAggregationError
from fedslim.protocol import messages as m


def some_parents(rng, table):
    """Two elements, usually in the table and disjoint."""
    alive = [*table.itemsets, *range(N_ITEMS)]  # a number twice may be that of an itemset that has been there
    x = rng.choice(alive)
    apart = [s for s in alive if not {*table.items_of(s)} & {*table.items_of(x)}]
    dead = rng.choice([table.free_slot, table.fresh_slot, LAST, rng.randrange(40)])
    return rng.choice([(x, rng.choice(apart or alive))] * 8 + [(x, x), (x, rng.choice(alive)), (x, dead), (dead, x)])


def some_entries(rng, table, slot):
    """Pairs of some elements with others, most of them in the table; sometimes it is not well-formed."""
    alive = [*range(N_ITEMS), *sorted(table.itemsets)]
    rows = []
    for _ in range(rng.choice([1, 1, 2, 5])):
        strange = rng.choice([[]] * 20 + [[table.free_slot], [table.fresh_slot], [LAST]])
        others = sorted({*rng.sample(alive, rng.randint(1, len(alive))), *strange})
        rows.append((rng.choice([*alive, slot]), others))
    count = sum(len(others) for _, others in rows)
    want = entries(*rows, codes=[rng.choice([1, 2, 9, 14, 15, rng.choice([1, 0])]) for _ in range(count)])
    if rng.random() < 0.2:
        zeros = rng.choice([0, 1, 3, 500, 1 << 22])
        field = rng.choice(["rows", "sizes", "steps"])
        other = bytes(zeros) if field == "steps" else m.Vector(zeros, rng.choice([8, 8, 7]), bytes(zeros))
        want = msgspec.structs.replace(want, **{field: other})
    return want


def some_insertions(rng, table, gone, seed):
    """Itemsets one after the other, most of them in the slots that are free by then."""
    new, slots = [], iter(next_slots(table, 9))
    slot = next(slots)
    for _ in range(rng.choice([1, 2, 3, 8, 9])):
        keep = rng.random() < 0.7
        new.append(m.NewUnion(rng.choice([slot] * 12 + [table.free_slot]), some_parents(rng, table), 9, keep))
        slot = next(slots) if keep and len(new) < 8 else slot
    return m.WantInsertions(new, gone, 30, seed)


def some_want(rng, table):
    """A question near the edge of what is valid."""
    slot = rng.choice([0, N_ITEMS - 1, N_ITEMS, table.free_slot, table.free_slot + 1, rng.randrange(40), LAST])
    fresh = rng.choice([table.free_slot] * 6 + [slot])
    bits = rng.choice([1, 2, 5, 8, 40, 56, 57, 64])
    cells = rng.choice([0, 1, 2, 7, 30, 1000, LAST])
    seed = rng.choice([0, 1, 1 << 53, rng.getrandbits(50)])
    parents = some_parents(rng, table)
    entry = rng.choice([0, 1, 5, 1 << 53])
    alive = [*table.itemsets, *range(N_ITEMS)]
    slots = [rng.choice([slot, *alive]) for _ in range(rng.randint(1, 6))]
    gone = [rng.choice([slot, *alive]) for _ in range(rng.choice([0, 0, 1, 2]))]
    widths = bytes(rng.choice([8, 8, 8, bits, 0, 255]) for _ in slots)
    return rng.choice(
        [
            m.WantSupports(),
            m.WantUnionSupport(parents, bits),
            m.WantRows(slots, widths if rng.random() < 0.9 else widths[1:] or b"\x01"),
            m.WantSparseRow(slot, cells, seed),
            some_entries(rng, table, slot),
            some_entries(rng, table, rng.choice(alive)),
            m.WantInsertions([m.NewUnion(fresh, parents, entry, rng.random() < 0.5)], gone, cells, seed),
            some_insertions(rng, table, gone, seed),
            m.WantRemovals(slots, cells, seed, tuple(rng.random() < 0.3 for _ in slots[rng.random() < 0.1 :])),
            m.WantRemovals([s for s in slots if s in table.itemsets] or [slot], 30, seed),
        ]
    )


def good_ask(rng, table, longest, number):
    """A question that any table can answer, with a valid move."""
    alive = [*table.itemsets, *range(N_ITEMS)]
    pairs = [(x, y, {*table.items_of(x), *table.items_of(y)}) for x, y in combinations(alive, 2)]
    pairs = [
        (x, y)
        for x, y, items in pairs
        if len(items) == len(table.items_of(x)) + len(table.items_of(y)) <= (longest or N_ITEMS)
        and tuple(sorted(items)) not in table.present
    ]
    wants = [
        m.WantRows(rng.choices(alive, k=4), bytes(rng.randint(1, 56) for _ in range(4))),
        m.WantSparseRow(rng.choice(alive), 30, rng.getrandbits(50)),
        entries((rng.choice(alive), [0, 2, 5]), (rng.choice(alive), [rng.choice(alive)]), codes=[1, 15, 5, 2]),
    ]
    moves = []
    if table.itemsets:
        wants.append(m.WantRemovals(rng.choices([*table.itemsets], k=rng.randint(1, 8)), 30, rng.getrandbits(50)))
        if rng.random() < 0.2:
            slots = rng.sample([*table.itemsets], rng.randint(1, min(4, len(table.itemsets))))
            gone = tuple(rng.random() < 0.5 for _ in slots)
            return m.Ask(number, 0, [], [*wants, m.WantRemovals(slots, 30, rng.getrandbits(50), gone)])
    if table.itemsets and rng.random() < 0.1:
        slot = rng.choice([*table.itemsets])
        moves = rng.choice([[m.RemoveElement(slot), m.RestoreElement(slot)], [m.RemoveElement(slot)]])
        wants = wants[:1] if slot not in wants[0].slots else [m.WantRows([0], b"\x08")]
    elif pairs:
        parents, entry = rng.choice(pairs), rng.choice([5, 9, 1 << 53])
        keep = rng.random() < 0.3
        gone = [rng.choice([*table.itemsets])] if table.itemsets and rng.random() < 0.2 else []
        new = [m.NewUnion(table.free_slot, parents, entry, keep)]
        wants.append(m.WantInsertions(new, gone, 30, rng.getrandbits(50)))
    return asked(rng.choice(wants), moves=moves, number=number)


def some_move(rng, table):
    slot = rng.choice([*table.itemsets, *table.itemsets, 0, N_ITEMS, table.free_slot, LAST])
    return rng.choice(
        [
            m.RemoveElement(slot),
            m.RestoreElement(table.free_slot),
            m.RestoreElement(slot),
            m.InsertUnion(rng.choice([table.free_slot, slot]), some_parents(rng, table), rng.choice([0, 9, 1 << 53])),
            m.MarkTable(),
            m.GoBackToMark(),
            m.EmptyTable(),
        ]
    )


@given(st.integers(0, 1 << 60))
@example(20349)
def test_x_survives_whatever_is_asked(seed):
    """Dozens of questions one after the other, at least every other one answered: the covers stay covers."""
    rng = random.Random(seed)
    settled = {
        "min_support": rng.choice([1, 1, 2]),
        "min_count": rng.choice([1, 1, 5]),
        "max_itemset_size": rng.choice([None, None, 2, 4]),
        "min_members_with": rng.choice([1, 2]),
        "effort": rng.choice([1, 1, 2, 3]),
    }
    variant, database = searching(rng.randrange(20), pair=False, **settled)
    dropped = set()
    if settled["min_count"] > 1 and rng.random() < 0.5:
        dropped = set(rng.sample(range(N_ITEMS), rng.choice([0, 1, 3])))
        variant.answer(asked(ROW, moves=[dropping(*sorted(dropped))]))
    for number in range(50):
        table = variant._members._state.table
        moves = [some_move(rng, table) for _ in range(rng.choice([0, 0, 0, 1, 2]))]
        try:
            reply = variant.answer(asked(some_want(rng, table), moves=moves, number=number))
            assert reply.words.dtype == np.uint64
        except (ProtocolError, SecureAggregationError):
            pass
        # Whatever was refused, a valid question is answered.
        reply = variant.answer(good_ask(rng, variant._members._state.table, settled["max_itemset_size"], number))
        assert len(reply.words)
    check_covers(variant._members._state, database, dropped)
    variant.answer(asked(FINAL))
    table = variant._members._state.table
    while table.itemsets:
        gone = rng.sample(sorted(table.itemsets), rng.randint(1, min(4, len(table))))
        variant.answer(asked(FINAL, moves=[m.RemoveElement(slot) for slot in gone]))
        check_covers(variant._members._state, database, dropped)
