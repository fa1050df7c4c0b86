"""A server that says what it likes: a member refuses, and no question leads its kernels out of their arrays."""

from __future__ import annotations

import random
import tracemalloc
from itertools import combinations

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedslim.data import ItemSecret, Vocabulary
from fedslim.errors import FedslimError, ParameterError, ProtocolError, RingError, SecureAggregationError
from fedslim.protocol import messages as m
from fedslim.protocol.member import MemberInput, MemberSession
from fedslim.protocol.state import SessionState
from fedslim.protocol.variant import member_side
from fedslim.protocol.x_member import MAX_ENTERING
from fedslim.secagg import AgreementKey, Ring
from wire import (
    FIGURE,
    MOST,
    RUN,
    SECRET,
    VARIANTS,
    Line,
    databases,
    inputs_of,
    of_numbers,
    settings_for,
    sprinkled,
    table_of,
)

LAST = m.MAX_SLOTS - 1
N_ITEMS = 9


def side(variant, seed=1, n_items=N_ITEMS, transactions=50, **settled):
    """One member's side, alone with the server."""
    (database,) = of_numbers([sprinkled(seed, n_items, 1, transactions, noise=0.2)[0]], n_items).values()
    return member_side(settings_for(variant, **settled), database, 2), database


def check_covers(state, database, dropped=()):
    """Every transaction is covered, exactly, by elements of the table; what was dropped counts as absent."""
    for t in range(database.transactions):
        slots = state.cover(t)
        items = [i for s in slots for i in state.table.items_of(s)]
        begin, end = database.offsets[t : t + 2]
        assert sorted(items) == [i for i in database.items[begin:end].tolist() if i not in dropped]


def vector(values):
    return m.Vector.of(np.array(values, np.int64))


# -- x ---------------------------------------------------------------------------------------------------------------


def asked(*wants, moves=(), number=0):
    return m.Ask(number, 0, list(moves), list(wants))


PAIR = N_ITEMS
"""The slot in which the union of the first two items is in these tests; the next one is free."""

FREE = N_ITEMS + 1
ROW = m.WantRows([0], b"\x28")
"""A question that can always be answered during the search."""


def searching(seed=1, *, pair=True, **settled):
    """A member in the middle of the search, with one itemset in its table or none."""
    variant, database = side("x", seed, **settled)
    variant.answer(asked(m.WantSupports()))
    if pair:
        variant.answer(asked(ROW, moves=[m.InsertUnion(PAIR, (0, 1), 9)]))
    return variant, database


def insertion(slot=FREE, parents=(2, 3), *, entry=9, cells=9, keep=True):
    return m.WantInsertion(slot, parents, entry, cells, 0, keep)


NOTHING_THERE = "in which this member has nothing"
COMMON = "items in common"
ALREADY = "in it already"
TOO_LONG = "itemset of 3 items; 2 were agreed on"
TOO_RARE = "used 4 times, below the smallest count"
OTHER_SLOT = "here slot 10 is next"
CELLS = "cells per table"
WORDS = "an answer has at most"
BITS = "56 are the most"
WIDTHS = r"\d rows with \d widths"

BAD_WANTS = [
    (m.WantSupports(), "WantSupports during the search", {}),
    (m.WantUnionSupport((0, 2), 40), "which nothing that was agreed on needs", {}),
    (m.WantUnionSupport((0, 2), 40), "which nothing that was agreed on needs", {"min_count": 5}),
    *(
        (want, told, settled)
        for settled in ({"min_support": 2}, {"order": "support"})
        for want, told in (
            (m.WantUnionSupport((0, 2), 57), BITS),
            (m.WantUnionSupport((0, 2), 64), BITS),
            (m.WantUnionSupport((0, FREE), 40), NOTHING_THERE),
            (m.WantUnionSupport((LAST, 0), 40), NOTHING_THERE),
            (m.WantUnionSupport((2, 2), 40), COMMON),
            (m.WantUnionSupport((PAIR, PAIR), 40), COMMON),
            (m.WantUnionSupport((PAIR, 1), 40), COMMON),
        )
    ),
    (m.WantUnionSupport((PAIR, 2), 40), TOO_LONG, {"min_support": 2, "max_itemset_size": 2}),
    (m.WantRows([FREE], b"\x28"), NOTHING_THERE, {}),
    (m.WantRows([LAST], b"\x28"), NOTHING_THERE, {}),
    (m.WantRows([0, PAIR, FREE], b"\x28\x28\x28"), NOTHING_THERE, {}),
    (m.WantRows([0], b"\x00"), WIDTHS, {}),
    (m.WantRows([0], b"\x39"), WIDTHS, {}),
    (m.WantRows([0], b"\xff"), WIDTHS, {}),
    (m.WantRows([0], b"\x28\x28"), WIDTHS, {}),
    (m.WantRows([0, 1], b"\x28"), WIDTHS, {}),
    (m.WantSparseRow(FREE, 9, 0), NOTHING_THERE, {}),
    (m.WantSparseRow(0, 0, 0), CELLS, {}),
    (m.WantSparseRow(0, LAST, 0), WORDS, {}),
    *(
        (msgspec.structs.replace(want, keep=keep), told, settled)
        for keep in (False, True)
        for want, told, settled in (
            (insertion(FREE + 1), OTHER_SLOT, {}),
            (insertion(0), OTHER_SLOT, {}),
            (insertion(PAIR), OTHER_SLOT, {}),
            (insertion(LAST), OTHER_SLOT, {}),
            (insertion(parents=(2, 2)), COMMON, {}),
            (insertion(parents=(PAIR, PAIR)), COMMON, {}),
            (insertion(parents=(PAIR, 1)), COMMON, {}),
            (insertion(parents=(0, PAIR)), COMMON, {}),
            (insertion(parents=(2, FREE)), NOTHING_THERE, {}),
            (insertion(parents=(FREE, FREE)), NOTHING_THERE, {}),
            (insertion(parents=(LAST, 2)), NOTHING_THERE, {}),
            (insertion(parents=(0, 1)), ALREADY, {}),
            (insertion(parents=(1, 0)), ALREADY, {}),
            (insertion(parents=(0, 1), entry=1), ALREADY, {}),
            (insertion(parents=(PAIR, 2)), TOO_LONG, {"max_itemset_size": 2}),
            (insertion(entry=4), TOO_RARE, {"min_count": 5}),
            (insertion(cells=0), CELLS, {}),
            (insertion(cells=LAST), WORDS, {}),
        )
    ),
    (m.WantRemovals([0], 9, 0), NOTHING_THERE, {}),
    (m.WantRemovals([FREE], 9, 0), NOTHING_THERE, {}),
    (m.WantRemovals([LAST], 9, 0), NOTHING_THERE, {}),
    (m.WantRemovals([PAIR] * 63 + [0], 9, 0), NOTHING_THERE, {}),
    (m.WantRemovals([PAIR], 0, 0), CELLS, {}),
    (m.WantRemovals([PAIR], LAST, 0), WORDS, {}),
    (m.WantFinal(57), BITS, {}),
    (m.WantFinal(64), BITS, {}),
]
ONCE = "which is done once, at the start, for a smallest count"
NOT_LAST = "not what was removed last"


def dropping(*items):
    return m.DropItems(vector(items))


BAD_MOVES = [
    ([m.InsertUnion(FREE + 1, (2, 3), 9)], OTHER_SLOT, {}),
    ([m.InsertUnion(0, (2, 3), 9)], OTHER_SLOT, {}),
    ([m.InsertUnion(PAIR, (2, 3), 9)], OTHER_SLOT, {}),
    ([m.InsertUnion(LAST, (2, 3), 9)], OTHER_SLOT, {}),
    ([m.InsertUnion(FREE, (2, FREE), 9)], NOTHING_THERE, {}),
    ([m.InsertUnion(FREE, (LAST, 2), 9)], NOTHING_THERE, {}),
    ([m.RemoveElement(PAIR), m.InsertUnion(PAIR, (PAIR, 2), 9)], NOTHING_THERE, {}),
    ([m.InsertUnion(FREE, (2, 2), 9)], COMMON, {}),
    ([m.InsertUnion(FREE, (1, PAIR), 9)], COMMON, {}),
    ([m.InsertUnion(FREE, (0, 1), 9)], ALREADY, {}),
    ([m.InsertUnion(FREE, (1, 0), 5)], ALREADY, {}),
    # the same union, of other elements
    ([m.InsertUnion(FREE, (PAIR, 2), 9), m.InsertUnion(11, (1, 2), 9), m.InsertUnion(12, (11, 0), 8)], ALREADY, {}),
    ([m.InsertUnion(FREE, (PAIR, 2), 9)], TOO_LONG, {"max_itemset_size": 2}),
    ([m.InsertUnion(FREE, (2, 3), 4)], TOO_RARE, {"min_count": 5}),
    ([m.RemoveElement(0)], NOTHING_THERE, {}),
    ([m.RemoveElement(FREE)], NOTHING_THERE, {}),
    ([m.RemoveElement(LAST)], NOTHING_THERE, {}),
    ([m.RemoveElement(PAIR), m.RemoveElement(PAIR)], NOTHING_THERE, {}),
    ([m.RestoreElement(PAIR)], NOT_LAST, {}),
    ([m.RestoreElement(0)], NOT_LAST, {}),
    ([m.RestoreElement(LAST)], NOT_LAST, {}),
    ([m.RemoveElement(PAIR), m.RestoreElement(FREE)], NOT_LAST, {}),
    ([m.RemoveElement(PAIR), m.RestoreElement(PAIR), m.RestoreElement(PAIR)], NOT_LAST, {}),
    (
        [m.InsertUnion(FREE, (2, 3), 9), m.RemoveElement(FREE), m.RemoveElement(PAIR), m.RestoreElement(FREE)],
        NOT_LAST,
        {},
    ),
    # another element is in the slot, or may be
    ([m.RemoveElement(PAIR), m.InsertUnion(PAIR, (2, 3), 9), m.RestoreElement(PAIR)], NOT_LAST, {}),
    (
        [m.InsertUnion(FREE, (2, 3), 9), m.RemoveElement(PAIR), m.InsertUnion(PAIR, (0, 1), 9), m.RestoreElement(PAIR)],
        NOT_LAST,
        {},
    ),
    ([dropping(4)], ONCE, {}),
    ([dropping()], ONCE, {}),
    ([dropping(4)], ONCE, {"min_count": 5}),
    ([m.RemoveElement(PAIR), dropping(4)], ONCE, {"min_count": 5}),
    ([dropping(N_ITEMS)], "at most 8 makes sense", {"min_count": 5}),
    ([m.DropItems(m.Vector(3, 8, b""))], "has 0 bytes", {"min_count": 5}),
]


def allocated(act):
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("want", "told", "settled"), BAD_WANTS, ids=[f"{want!r}{settled}"[:90] for want, _, settled in BAD_WANTS]
)
def test_x_refuses_questions_that_make_no_sense(want, told, settled):
    variant, database = searching(**settled)

    def refused():
        with pytest.raises((ProtocolError, RingError), match=told):
            variant.answer(asked(want))

    assert allocated(refused) < 1 << 20
    check_covers(variant._state, database)


@pytest.mark.parametrize(
    ("moves", "told", "settled"), BAD_MOVES, ids=[f"{moves!r}{settled}"[:90] for moves, _, settled in BAD_MOVES]
)
def test_x_refuses_moves_that_make_no_sense(moves, told, settled):
    variant, database = searching(**settled)
    for move in moves[:-1]:
        variant.answer(asked(ROW, moves=[move]))
    with pytest.raises(ProtocolError, match=told):
        variant.answer(asked(ROW, moves=moves[-1:]))
    check_covers(variant._state, database)
    # All in one question are refused as well, if not for that they are too many.
    if sum(isinstance(move, m.InsertUnion) for move in moves) > MAX_ENTERING:
        told = "and has 3 enter"
    variant, database = searching(**settled)
    with pytest.raises(ProtocolError, match=told):
        variant.answer(asked(ROW, moves=moves))
    check_covers(variant._state, database)


@pytest.mark.parametrize(
    ("messages", "settled"),
    [
        ([asked(m.WantUnionSupport((PAIR, 2), 40))], {"min_support": 2, "max_itemset_size": 3}),
        ([asked(m.WantUnionSupport((2, 0), 1))], {"order": "support"}),
        ([asked(insertion(parents=(PAIR, 2), keep=True))], {"max_itemset_size": 3}),
        ([asked(insertion(parents=(3, 2), entry=5, keep=False))], {"min_count": 5}),
        ([asked(ROW, moves=[m.InsertUnion(FREE, (PAIR, 2), 5)])], {"min_count": 5, "max_itemset_size": 3}),
        ([asked(m.WantRemovals([PAIR] * 64, 9, 0), m.WantRows([0, PAIR], b"\x01\x38"))], {}),
        ([asked(m.WantRows([0] * 4096, b"\x38" * 4096))], {}),
        ([asked(ROW, moves=[m.RemoveElement(PAIR)]), asked(ROW, moves=[m.RestoreElement(PAIR)])], {}),
        (
            [
                asked(ROW, moves=[m.InsertUnion(FREE, (2, 3), 9)]),
                asked(ROW, moves=[m.RemoveElement(PAIR)]),
                asked(ROW, moves=[m.RemoveElement(FREE), m.RestoreElement(FREE)]),
                asked(ROW, moves=[m.RestoreElement(PAIR)]),
            ],
            {},
        ),
    ],
)
def test_x_answers_what_is_just_allowed(messages, settled):
    variant, database = searching(**settled)
    for message in messages:
        assert len(variant.answer(message).words)
    check_covers(variant._state, database)


TOO_MANY = "a search does no more than 3 and 2"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (asked(*[insertion(keep=False)] * 4), "tries 4 itemsets in a round and has 0 enter"),
        (asked(*[insertion(keep=False)] * 4096), "tries 4096 itemsets in a round and has 0 enter"),
        (asked(*[m.WantUnionSupport((2, 3), 40)] * 4), "tries 4 itemsets in a round and has 0 enter"),
        (
            asked(*[m.WantUnionSupport((2, 3), 40), insertion(keep=False)] * 2),
            "tries 4 itemsets in a round and has 0 enter",
        ),
        (
            asked(insertion(), insertion(FREE + 1, (4, 5)), insertion(FREE + 2, (6, 7))),
            "tries 3 itemsets in a round and has 3 enter",
        ),
        (
            asked(
                insertion(FREE + 2, (6, 7)), moves=[m.InsertUnion(FREE, (2, 3), 9), m.InsertUnion(FREE + 1, (4, 5), 9)]
            ),
            "tries 1 itemsets in a round and has 3 enter",
        ),
        (
            asked(m.WantFinal(40), moves=[m.InsertUnion(FREE + k, (2, 3 + k), 9) for k in range(3)]),
            "tries 0 itemsets in a round and has 3 enter",
        ),
        (asked(ROW, moves=[m.InsertUnion(FREE, (2, 3), 9)] * 4096), "has 4096 enter"),
    ],
    ids=lambda case: repr(case)[:60],
)
def test_x_tries_no_more_itemsets_in_a_round_than_a_search_does(message, told):
    """Nothing of it is carried out: whoever could try thousands at once would count what it likes."""
    variant, database = searching(min_support=2)
    with pytest.raises(ProtocolError, match=f"{told}; {TOO_MANY}"):
        variant.answer(message)
    assert variant._state.table.itemsets == {PAIR: (0, 1)}
    check_covers(variant._state, database)


@pytest.mark.parametrize(
    "message",
    [
        asked(*[insertion(keep=False)] * 3),
        asked(m.WantUnionSupport((2, 3), 40), insertion(keep=False), insertion(parents=(4, 5), keep=False)),
        asked(insertion(FREE + 1, (4, 5)), ROW, moves=[m.InsertUnion(FREE, (2, 3), 9)]),
        asked(
            m.WantFinal(40),
            moves=[m.InsertUnion(FREE, (2, 3), 9), m.InsertUnion(FREE + 1, (4, 5), 9), m.RemoveElement(PAIR)],
        ),
    ],
    ids=lambda case: repr(case)[:60],
)
def test_x_answers_as_many_trials_in_a_round_as_a_search_makes(message):
    variant, database = searching(min_support=2)
    assert len(variant.answer(message).words)
    check_covers(variant._state, database)


def test_x_does_not_say_by_a_refusal_how_large_a_count_is():
    """Counts that do not fit wrap around: with few bits a question is answered just as with many."""
    wide, database = searching(min_support=2)
    narrow, _ = searching(min_support=2)
    length = 2 + N_ITEMS - 1  # all slots that were ever used
    most = int(database.supports.max())
    assert most > 8
    for bits in (1, 2, 3):
        rows, few = (v.answer(asked(m.WantRows([2], bytes([b])))).words for v, b in ((wide, 40), (narrow, bits)))
        counts = Ring(40, (1 << 40) - 1).read(rows, length=length)
        assert counts.max() >= 1 << bits
        assert Ring(bits, (1 << bits) - 1).read(few, length=length).tolist() == (counts % (1 << bits)).tolist()
        want = m.WantUnionSupport((PAIR, 2), bits)
        (support,) = Ring(40, (1 << 40) - 1).read(wide.answer(asked(m.WantUnionSupport((PAIR, 2), 40))).words, length=1)
        assert narrow.answer(asked(want)).words.tolist() == [support % (1 << bits)]
    final, few = (v.answer(asked(m.WantFinal(b))).words for v, b in ((wide, 40), (narrow, 2)))
    counts = Ring(40, (1 << 40) - 1).read(final, length=2)
    assert counts.max() >= 4
    assert Ring(2, 3).read(few, length=2).tolist() == (counts % 4).tolist()


def test_x_drops_items_once_and_before_any_itemset():
    variant, database = searching(pair=False, min_count=5)
    variant.answer(asked(ROW))
    variant.answer(asked(ROW, moves=[dropping(2, 4)]))
    check_covers(variant._state, database, dropped=(2, 4))
    with pytest.raises(ProtocolError, match=ONCE):
        variant.answer(asked(ROW, moves=[dropping(5)]))
    check_covers(variant._state, database, dropped=(2, 4))
    variant, database = searching(pair=False, min_count=5)
    with pytest.raises(ProtocolError, match=ONCE):
        variant.answer(asked(ROW, moves=[dropping(2), dropping()]))


# -- x: what is asked when -------------------------------------------------------------------------------------------


SUPPORTS, FINAL = m.WantSupports(), m.WantFinal(40)
IN_THE_SEARCH = [
    ROW,
    m.WantSparseRow(0, 9, 0),
    m.WantUnionSupport((2, 3), 40),
    insertion(keep=True),
    insertion(keep=False),
    m.WantRemovals([PAIR], 9, 0),
]
AT_THE_START = "at the start; the search never does"
AFTER = "after the search; the search never does"
DURING = "during the search; the search never does"


@pytest.mark.parametrize(
    "message",
    [
        *(asked(want) for want in (*IN_THE_SEARCH, FINAL)),
        *(asked(SUPPORTS, want) for want in (*IN_THE_SEARCH, FINAL, SUPPORTS)),
        *(asked(want, SUPPORTS) for want in (*IN_THE_SEARCH, FINAL)),
        *(
            asked(SUPPORTS, moves=[move])
            for move in (m.InsertUnion(PAIR, (0, 1), 9), m.RemoveElement(PAIR), m.RestoreElement(PAIR), dropping(2))
        ),
    ],
    ids=lambda message: repr(message)[:80],
)
def test_x_begins_with_supports_alone(message):
    variant, database = side("x", min_support=2, min_count=5)
    with pytest.raises(ProtocolError, match=AT_THE_START):
        variant.answer(message)
    check_covers(variant._state, database)
    assert not variant._state.table.itemsets


@pytest.mark.parametrize(
    "message",
    [
        asked(SUPPORTS),
        asked(SUPPORTS, moves=[m.RemoveElement(PAIR)]),
        *(asked(SUPPORTS, want) for want in (*IN_THE_SEARCH, FINAL)),
        *(asked(want, SUPPORTS) for want in IN_THE_SEARCH),
        *(asked(FINAL, want) for want in (*IN_THE_SEARCH, FINAL)),
        *(asked(want, FINAL) for want in IN_THE_SEARCH),
        asked(FINAL, FINAL, moves=[m.RemoveElement(PAIR)]),
    ],
    ids=lambda message: repr(message)[:80],
)
def test_x_is_asked_for_supports_once_and_for_final_counts_alone(message):
    variant, database = searching(min_support=2)
    with pytest.raises(ProtocolError, match=DURING):
        variant.answer(message)
    check_covers(variant._state, database)
    assert variant._state.table.itemsets == {PAIR: (0, 1)}


@pytest.mark.parametrize(
    "message",
    [
        asked(FINAL),
        asked(SUPPORTS),
        *(asked(want) for want in IN_THE_SEARCH),
        *(asked(want, moves=[m.RemoveElement(PAIR)]) for want in IN_THE_SEARCH),
        *(asked(FINAL, want, moves=[m.RemoveElement(PAIR)]) for want in (*IN_THE_SEARCH, FINAL, SUPPORTS)),
        asked(FINAL, moves=[m.InsertUnion(FREE, (2, 3), 9)]),
        asked(FINAL, moves=[m.RemoveElement(PAIR), m.InsertUnion(PAIR, (2, 3), 9)]),
        asked(FINAL, moves=[m.RemoveElement(PAIR), m.RestoreElement(PAIR)]),
        asked(FINAL, moves=[dropping(2)]),
        asked(FINAL, moves=[dropping(2), m.RemoveElement(PAIR)]),
    ],
    ids=lambda message: repr(message)[:80],
)
def test_x_is_asked_nothing_new_after_the_search(message):
    variant, database = searching(min_support=2, min_count=5)
    variant.answer(asked(FINAL))
    with pytest.raises(ProtocolError, match=AFTER):
        variant.answer(message)
    check_covers(variant._state, database)
    assert variant._state.table.itemsets == {PAIR: (0, 1)}
    # What is left can still leave, each of it once.
    variant.answer(asked(FINAL, moves=[m.RemoveElement(PAIR)]))
    with pytest.raises(ProtocolError, match=NOTHING_THERE):
        variant.answer(asked(FINAL, moves=[m.RemoveElement(PAIR)]))
    check_covers(variant._state, database)


@pytest.mark.parametrize("least", [1, 2])
def test_x_answers_at_the_end_for_every_itemset_in_cover_order(least):
    """Usage and support; where the settings say how many members must have it, also whether it and each item are."""
    variant, database = searching(min_members_with=least)
    moves = [m.InsertUnion(FREE, (2, 3), 30), m.InsertUnion(FREE + 1, (PAIR, 2), 20)]
    words = variant.answer(asked(FINAL, moves=moves)).words
    rows = [set(database.items[a:b].tolist()) for a, b in zip(database.offsets, database.offsets[1:], strict=False)]
    usages, supports = [0, 0, 0], []
    table = [{0, 1, 2}, {2, 3}, {0, 1}]
    for row in rows:
        left = set(row)
        for k, itemset in enumerate(table):
            if itemset <= left:
                usages[k] += 1
                left -= itemset
    supports = [sum(itemset <= row for row in rows) for itemset in table]
    ring = Ring(40, (1 << 40) - 1)
    assert ring.read(words[: ring.words(6)], length=6).tolist() == [*usages, *supports]
    rest = words[ring.words(6) :]
    if least == 1:
        assert not len(rest)
    else:
        has = [*(usage > 0 for usage in usages), *(any(i in row for row in rows) for i in range(N_ITEMS))]
        assert Ring(2, 2).read(rest, length=3 + N_ITEMS).tolist() == [int(one) for one in has]


def test_x_refuses_more_than_an_answer_can_hold():
    """Each question could be answered; all together could not, and it is noticed on the way."""
    variant, _ = searching()
    half = m.WantSparseRow(0, 800_000, 0)

    def refused():
        with pytest.raises(ProtocolError, match=r"asked for \d+ words; an answer has at most"):
            variant.answer(asked(*[half] * 4096))

    assert allocated(refused) < 1 << 27


def some_parents(rng, table):
    """Two elements, most of them alive and without an item in common."""
    alive = [*table.itemsets, *range(N_ITEMS)]
    x = rng.choice(alive)
    apart = [s for s in alive if not {*table.items_of(s)} & {*table.items_of(x)}]
    dead = rng.choice([table.free_slot, table.fresh_slot, LAST, rng.randrange(40)])
    return rng.choice([(x, rng.choice(apart or alive))] * 8 + [(x, x), (x, rng.choice(alive)), (x, dead), (dead, x)])


def some_want(rng, table):
    """A question near the edge of what makes sense."""
    slot = rng.choice([0, N_ITEMS - 1, N_ITEMS, table.free_slot, table.free_slot + 1, rng.randrange(40), LAST])
    fresh = rng.choice([table.free_slot] * 6 + [slot])
    bits = rng.choice([1, 2, 5, 8, 40, 56, 57, 64])
    cells = rng.choice([0, 1, 2, 7, 30, 1000, LAST])
    seed = rng.choice([0, 1, 1 << 53, rng.getrandbits(50)])
    parents = some_parents(rng, table)
    entry = rng.choice([0, 1, 5, 1 << 53])
    alive = [*table.itemsets, *range(N_ITEMS)]
    slots = [rng.choice([slot, *alive]) for _ in range(rng.randint(1, 6))]
    widths = bytes(rng.choice([8, 8, 8, bits, 0, 255]) for _ in slots)
    return rng.choice(
        [
            m.WantSupports(),
            m.WantUnionSupport(parents, bits),
            m.WantRows(slots, widths if rng.random() < 0.9 else widths[1:] or b"\x01"),
            m.WantSparseRow(slot, cells, seed),
            m.WantInsertion(fresh, parents, entry, cells, seed, rng.random() < 0.5),
            m.WantInsertion(table.free_slot, parents, 9, 30, seed, keep=True),
            m.WantRemovals(slots, cells, seed),
            m.WantRemovals([s for s in slots if s in table.itemsets] or [slot], 30, seed),
        ]
    )


def good_ask(rng, table, longest, number):
    """One that is answered in any table, with a move that can be made in it."""
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
    ]
    moves = []
    if table.itemsets:
        wants.append(m.WantRemovals(rng.choices([*table.itemsets], k=rng.randint(1, 8)), 30, rng.getrandbits(50)))
    if table.itemsets and rng.random() < 0.1:
        slot = rng.choice([*table.itemsets])
        moves = rng.choice([[m.RemoveElement(slot), m.RestoreElement(slot)], [m.RemoveElement(slot)]])
        wants = wants[:1] if slot not in wants[0].slots else [m.WantRows([0], b"\x08")]
    elif pairs:
        parents, entry = rng.choice(pairs), rng.choice([5, 9, 1 << 53])
        insert = m.WantInsertion(table.free_slot, parents, entry, 30, rng.getrandbits(50), rng.random() < 0.3)
        wants.append(insert)
    return asked(rng.choice(wants), moves=moves, number=number)


def some_move(rng, table):
    slot = rng.choice([*table.itemsets, *table.itemsets, 0, N_ITEMS, table.free_slot, LAST])
    return rng.choice(
        [
            m.RemoveElement(slot),
            m.RestoreElement(table.free_slot),
            m.RestoreElement(slot),
            m.InsertUnion(rng.choice([table.free_slot, slot]), some_parents(rng, table), rng.choice([0, 9, 1 << 53])),
        ]
    )


def test_x_takes_no_itemset_twice():
    """Removing one of the two would take the other out of the order: the covers would have what the table has not."""
    variant, _ = searching()
    for entry in (9, 5):
        for parents in ((0, 1), (1, 0)):
            for message in (
                asked(ROW, moves=[m.InsertUnion(FREE, parents, entry)]),
                asked(insertion(parents=parents, entry=entry, keep=True)),
                asked(insertion(parents=parents, entry=entry, keep=False)),
            ):
                with pytest.raises(ProtocolError, match=ALREADY):
                    variant.answer(message)


@given(st.integers(0, 1 << 60))
@example(20349)
@settings(max_examples=120)
def test_x_survives_whatever_is_asked(seed):
    """Dozens of questions one after the other, at least every other one answered: the covers stay covers."""
    rng = random.Random(seed)
    settled = {
        "min_support": rng.choice([1, 1, 2]),
        "min_count": rng.choice([1, 1, 5]),
        "max_itemset_size": rng.choice([None, None, 2, 4]),
        "min_members_with": rng.choice([1, 2]),
    }
    variant, database = searching(rng.randrange(20), pair=False, **settled)
    table = variant._state.table
    dropped = set()
    if settled["min_count"] > 1 and rng.random() < 0.5:
        dropped = set(rng.sample(range(N_ITEMS), rng.choice([0, 1, 3])))
        variant.answer(asked(ROW, moves=[dropping(*sorted(dropped))]))
    for number in range(50):
        moves = [some_move(rng, table) for _ in range(rng.choice([0, 0, 0, 1, 2]))]
        try:
            reply = variant.answer(asked(some_want(rng, table), moves=moves, number=number))
            assert reply.words.dtype == np.uint64
        except (ProtocolError, SecureAggregationError):
            pass
        # Whatever was refused, what makes sense is answered.
        reply = variant.answer(good_ask(rng, table, settled["max_itemset_size"], number))
        assert len(reply.words)
    check_covers(variant._state, database, dropped)
    variant.answer(asked(FINAL))
    while table.itemsets:
        gone = rng.sample(sorted(table.itemsets), rng.randint(1, min(4, len(table))))
        variant.answer(asked(FINAL, moves=[m.RemoveElement(slot) for slot in gone]))
        check_covers(variant._state, database, dropped)


# -- so --------------------------------------------------------------------------------------------------------------


@given(st.integers(0, 1 << 60))
@settings(max_examples=120)
def test_so_survives_whatever_is_asked(seed):
    rng = random.Random(seed)
    variant, database = side("so", seed=rng.randrange(20))
    local = variant._local
    news = variant.answer(m.AskCandidates(0, None))
    known = list(zip(news.x.values().tolist(), news.y.values().tolist(), strict=True))
    for number in range(40):
        slot = rng.choice([0, N_ITEMS, local.next_slot, LAST, *local.slots])
        pairs = [rng.choice([*known[:5], (slot, 1), (slot, slot), (1, 0)]) for _ in range(rng.choice([1, 1, 1, 2, 9]))]
        ask = rng.choice(
            [
                m.AskUsages(number),
                m.AskCandidates(number, rng.choice([None, m.Accept(pairs)])),
                m.Evaluate(number, pairs),
                m.AskSupports(number, rng.choice([None, m.Accept(pairs)])),
            ]
        )
        try:
            reply = variant.answer(ask)
        except ProtocolError:
            continue
        if isinstance(reply, m.Candidates):
            known = [*zip(reply.x.values().tolist(), reply.y.values().tolist(), strict=True), *known]
    check_covers(local._state, database)


def test_so_refuses_to_insert_what_it_has_not_proposed():
    variant, _ = side("so")
    for pairs in ([(0, 0)], [(N_ITEMS, 0)], [(LAST, LAST)], [(LAST, 0), (0, LAST)]):
        with pytest.raises(ProtocolError, match="accepted an itemset that this member has not proposed; it is refused"):
            variant.answer(m.AskCandidates(0, m.Accept(pairs)))
        with pytest.raises(ProtocolError, match="has not proposed"):
            variant.answer(m.AskSupports(0, m.Accept(pairs)))
        assert variant.answer(m.Evaluate(0, pairs)).slots.length == 0


def test_so_refuses_pairs_that_make_different_itemsets():
    variant, _ = side("so")
    news = variant.answer(m.AskCandidates(0, None))
    pairs = list(zip(news.x.values().tolist(), news.y.values().tolist(), strict=True))[:2]
    for ask in (m.Evaluate(1, pairs), m.AskCandidates(1, m.Accept(pairs))):
        with pytest.raises(ProtocolError, match="joined pairs that do not make one itemset; it is refused"):
            variant.answer(ask)


# -- sa --------------------------------------------------------------------------------------------------------------


def begun(seed=1):
    """An SA member whose index has all its own pairs in it."""
    variant, database = side("sa", seed)
    variant.answer(m.AskIndexedUsages(0, 0))
    named = variant.answer(m.AskStructure(1, None, NONE))
    keys = sorted(zip(named.x.values().tolist(), named.y.values().tolist(), strict=True))
    x, y = zip(*keys, strict=True)
    variant.answer(m.AskIndexed(2, 0, vector(x), vector(y), vector([]), 40))
    return variant, database, keys


NONE = vector([])


@pytest.mark.parametrize(
    "ask",
    [
        m.AskIndexedUsages(3, 0),
        m.AskStructure(3, None, vector([5, 5])),
        m.AskStructure(3, None, vector([1 << 40])),
        m.AskStructure(3, None, vector([100_000])),
        m.AskIndexed(3, 0, vector([0]), NONE, NONE, 40),
        m.AskIndexed(3, 0, vector([1]), vector([0]), NONE, 40),
        m.AskIndexed(3, 0, vector([1]), vector([1]), NONE, 40),
        m.AskIndexed(3, 0, vector([0]), vector([N_ITEMS]), NONE, 40),
        m.AskIndexed(3, 0, vector([0]), vector([1 << 40]), NONE, 40),
        m.AskIndexed(3, 0, NONE, NONE, vector([N_ITEMS]), 40),
        m.AskIndexed(3, 0, NONE, NONE, vector([0] * 100_000), 40),
        m.AskIndexed(3, 0, NONE, NONE, vector([1, 0]), 40),
        m.AskIndexed(3, 0, NONE, NONE, vector([0]), 57),
        m.AskIndexed(3, 0, NONE, NONE, vector([0]), 64),
        m.AskStructure(3, None, m.Vector(3, 8, b"")),
        m.AskEvaluation(3, 0, m.Entered(N_ITEMS, [(0, 1)], 5), 57),
        m.AskEvaluation(3, 0, m.Entered(N_ITEMS, [(0, 1)], 5), 64),
        m.AskEvaluation(3, 0, m.Entered(0, [(0, 1)], 5), 40),
        m.AskEvaluation(3, 0, m.Entered(N_ITEMS - 1, [(0, 1)], 5), 40),
        m.AskEvaluation(3, 0, m.Entered(N_ITEMS + 1, [(0, 1)], 5), 40),
        m.AskEvaluation(3, 0, m.Entered(LAST, [(0, 1)], 5), 40),
        m.AskEvaluation(3, 0, m.Entered(N_ITEMS, [(0, 0)], 5), 40),
        m.AskEvaluation(3, 0, m.Entered(N_ITEMS, [(0, N_ITEMS)], 5), 40),
        m.AskEvaluation(3, 0, m.Entered(N_ITEMS, [(LAST, LAST)], 5), 40),
        m.AskEvaluation(3, 0, m.Entered(N_ITEMS, [(0, 1), (0, 2)], 5), 40),
        m.AskStructure(3, m.Entered(0, [(0, 1)], 5), NONE),
        m.AskStructure(3, m.Entered(N_ITEMS - 1, [(0, 1)], 5), NONE),
        m.AskStructure(3, m.Entered(N_ITEMS + 1, [(0, 1)], 5), NONE),
        m.AskStructure(3, m.Entered(LAST, [(0, 1)], 5), NONE),
        m.AskStructure(3, m.Entered(N_ITEMS, [(0, N_ITEMS)], 5), NONE),
        m.AskStructure(3, m.Entered(N_ITEMS, [(0, 0)], 5), NONE),
        m.AskStructure(3, m.Entered(N_ITEMS, [(0, 1), (0, 2)], 5), NONE),
        m.AskStructure(3, m.Entered(N_ITEMS, [(LAST, LAST)], 5), NONE),
        m.AskIndexedSupports(3, 0, None, vector([N_ITEMS]), 40),
        m.AskIndexedSupports(3, 0, None, vector([0] * (N_ITEMS + 1)), 40),
        m.AskIndexedSupports(3, 0, None, vector([0]), 57),
        m.AskIndexedSupports(3, 0, m.Entered(0, [(0, 1)], 5), NONE, 40),
    ],
    ids=lambda ask: repr(ask)[:70],
)
def test_sa_refuses_questions_that_make_no_sense(ask):
    variant, database, _ = begun()

    def refused():
        with pytest.raises((ProtocolError, RingError)):
            variant.answer(ask)

    assert allocated(refused) < 1 << 23
    check_covers(variant._local._state, database)


def test_sa_refuses_pairs_that_the_index_has_and_pairs_named_twice():
    variant, _, keys = begun()
    (x, y), *_ = keys
    with pytest.raises(ProtocolError, match="name pairs or elements twice"):
        variant.answer(m.AskIndexed(3, 0, vector([x]), vector([y]), NONE, 40))
    variant, _ = side("sa")
    variant.answer(m.AskIndexedUsages(0, 0))
    with pytest.raises(ProtocolError, match="no pairs of elements in ascending order"):
        variant.answer(m.AskIndexed(3, 0, vector([0, 0]), vector([1, 1]), NONE, 40))


def test_sa_refuses_a_number_for_two_itemsets():
    variant, _, keys = begun()
    one, other = keys[:2]
    variant.answer(m.AskStructure(3, m.Entered(N_ITEMS, [one], 5), NONE))
    with pytest.raises(ProtocolError, match=f"gave the number {N_ITEMS} to two itemsets"):
        variant.answer(m.AskStructure(4, m.Entered(N_ITEMS, [other], 5), NONE))


SA_QUESTIONS = [
    m.AskIndexedUsages(3, 0),
    m.AskStructure(3, None, NONE),
    m.AskIndexed(3, 0, NONE, NONE, NONE, 40),
    m.AskEvaluation(3, 0, m.Entered(N_ITEMS, [(0, 1)], 5), 40),
    m.AskIndexedSupports(3, 0, None, NONE, 40),
]
ANOTHER_TIME = "at another time than the search does"


@pytest.mark.parametrize("ask", SA_QUESTIONS, ids=lambda ask: type(ask).__name__)
def test_sa_is_asked_for_usages_first_and_for_supports_last(ask):
    first = isinstance(ask, m.AskIndexedUsages)
    variant, _ = side("sa")
    if first:
        variant.answer(ask)
    for question in SA_QUESTIONS if first else [ask]:
        if first is isinstance(question, m.AskIndexedUsages):
            with pytest.raises(ProtocolError, match=ANOTHER_TIME):
                variant.answer(question)
    variant, _, _ = begun()
    variant.answer(m.AskIndexedSupports(3, 0, None, NONE, 40))
    with pytest.raises(ProtocolError, match=ANOTHER_TIME):
        variant.answer(ask)


def test_sa_does_not_say_by_a_refusal_how_large_a_count_is():
    """As X: what does not fit wraps around."""
    (wide, database, keys), (narrow, _, _) = begun(), begun()
    ring = Ring(40, (1 << 40) - 1)
    for bits in (1, 2, 3):
        few = Ring(bits, (1 << bits) - 1)
        asks = [
            (m.AskIndexed(3, 0, NONE, NONE, vector(range(N_ITEMS)), bits), len(keys)),
            (m.AskEvaluation(3, 0, m.Entered(N_ITEMS, [keys[0]], 9), bits), 2 * (N_ITEMS + 1)),
        ]
        for ask, length in asks:
            counts = ring.read(wide.answer(msgspec.structs.replace(ask, bits=40)).words, length=length)
            assert counts.max() >= 1 << bits
            assert few.read(narrow.answer(ask).words, length=length).tolist() == (counts % (1 << bits)).tolist()
    supports = database.supports
    assert supports.max() > 3
    words = narrow.answer(m.AskIndexedSupports(9, 0, None, vector(range(N_ITEMS)), 2)).words
    assert Ring(2, 3).read(words, length=N_ITEMS).tolist() == (supports % 4).tolist()


@given(st.integers(0, 1 << 60))
@settings(max_examples=120)
def test_sa_survives_whatever_is_asked(seed):
    rng = random.Random(seed)
    variant, database, keys = begun(rng.randrange(20))
    answered = 0
    for number in range(3, 45):
        known = variant._known
        some = rng.choice([0, 1, N_ITEMS - 1, N_ITEMS, known - 1, known, known + 1, LAST])
        pairs = [rng.choice([*keys, *keys, (0, some), (some, some)]) for _ in range(rng.choice([1, 1, 1, 2, 5]))]
        entered = m.Entered(rng.choice([known, known, known, some]), pairs, rng.choice([0, 4, 1 << 53]))
        bits = rng.choice([1, 4, 40, 40, 40, 56, 57, 64])
        pool = [0, 1, 2, known - 1, known, 300]
        x, y, elements, gone = (sorted(rng.choices(pool, k=rng.choice([0, 0, 1, 2]))) for _ in range(4))
        asks = [
            m.AskIndexedUsages(number, 0),
            m.AskStructure(number, rng.choice([None, entered]), vector(gone)),
            m.AskIndexed(number, 0, vector(x), vector(y), vector(elements), bits),
            m.AskIndexed(number, 0, NONE, NONE, vector(sorted(set(elements))), bits),
            m.AskEvaluation(number, 0, entered, bits),
        ]
        if number > 40:  # nothing comes after it, if it is answered
            asks = [m.AskIndexedSupports(number, 0, rng.choice([None, entered]), vector(elements), bits)]
        try:
            variant.answer(rng.choice(asks))
        except (ProtocolError, SecureAggregationError):
            continue
        answered += 1
    assert answered
    check_covers(variant._local._state, database)


# -- a session: what it agreed to ------------------------------------------------------------------------------------


PEER = AgreementKey.from_random(bytes(31) + b"\7")


def seated(variant="x", *, agreed=True, **settled):
    """A member that has joined, and the roster that an honest server sends it."""
    named = databases(FIGURE)
    own = inputs_of(named, variant, agreed=agreed, **settled)["c1"]
    member = MemberSession("c1", own)
    keys = [member.join(bytes(range(32))).key, PEER.public]
    return member, m.Roster(RUN, own.settings, ["c1", "c2"], keys, b"", 0, [b"", b""], 0)


def confirmed(member, roster):
    """The same, with everybody's signatures: it answers from now on."""
    confirm = member.receive(roster)
    assert member.receive(m.Confirmed(roster.epoch, [confirm.signature] * 2)) is None
    return member


def test_a_member_that_has_answered_nothing_does_not_join_in_the_middle():
    """Of a run that has lost it, everybody goes back to the beginning; anything else would be another run."""
    member, roster = seated()
    with pytest.raises(ProtocolError, match="goes on with round 7, and this member has answered nothing"):
        member.receive(replaced(roster, next_round=7))
    confirmed(member, roster)


def replaced(roster, **fields):
    return msgspec.structs.replace(roster, **fields)


def alone(roster):
    return {"members": ["c1"], "keys": roster.keys[:1], "certificates": [b""]}


def crowded(roster):
    return {"members": ["c1", "c2", "c2"], "keys": [*roster.keys, roster.keys[1]], "certificates": [b""] * 3}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda _: {"members": ["c1", "c3"]}, "the server's roster has the members 'c1', 'c3', this member agreed to"),
        (alone, "with others it shares nothing"),
        (crowded, "with others it shares nothing"),
        (lambda _: {"members": ["c1", "c1"]}, "another key under this member's name"),
        (lambda r: {"members": ["c1", "c1"], "keys": [r.keys[0]] * 2}, "with others it shares nothing"),
        (lambda _: {"members": ["c2", "c2"]}, "another key under this member's name"),
        (lambda r: {"keys": r.keys[:1]}, "2 members, 1 keys and 2 certificates"),
        (lambda r: {"keys": [*r.keys, r.keys[0]]}, "2 members, 3 keys and 2 certificates"),
        (lambda _: {"certificates": [b""]}, "2 members, 2 keys and 1 certificates"),
        (lambda r: {"keys": r.keys[::-1]}, "another key under this member's name"),
        (lambda r: {"keys": [PEER.public, r.keys[1]]}, "another key under this member's name"),
        (lambda _: {"ids": bytes(16)}, "a vocabulary of its own, but one was agreed on"),
    ],
)
def test_a_member_takes_no_seat_that_it_did_not_agree_to(change, told):
    member, roster = seated()
    with pytest.raises(FedslimError, match=told):
        member.receive(replaced(roster, **change(roster)))
    assert member.state is SessionState.JOINING
    assert isinstance(member.receive(roster), m.Confirm)


AGREED = {
    "variant": ("sa", "so", "y", ""),
    "masked": (False,),
    "max_transactions": (10, MOST - 1, MOST + 1),
    "share_vocabulary": (True,),
    "max_rounds": (None, 99, 101),
    "pruning": (False,),
    "order": ("support", "", "size"),
    "max_itemset_size": (None, 4, 6),
    "min_support": (1, 3),
    "min_count": (1, 4, 6),
    "min_members_with": (1, 3),
}


def test_every_setting_is_among_those_that_are_tried():
    assert set(AGREED) == set(m.Settings.__struct_fields__)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in AGREED.items() for value in values])
def test_a_member_believes_its_own_file_and_not_the_server(name, value):
    member, roster = seated(max_rounds=100, max_itemset_size=5, min_support=2, min_count=5, min_members_with=2)
    own = getattr(roster.settings, name)
    with pytest.raises(ProtocolError, match=f"announced {name} = {value!r}, and this member agreed to {own!r}; every"):
        member.receive(replaced(roster, settings=replaced(roster.settings, **{name: value})))
    assert member.state is SessionState.JOINING
    assert isinstance(member.receive(roster), m.Confirm)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_member_runs_only_the_variant_that_it_agreed_to(variant):
    for other in VARIANTS:
        member, _ = seated(other)
        _, roster = seated(variant)
        if other == variant:
            assert isinstance(member.receive(roster), m.Confirm)
            continue
        with pytest.raises(
            ProtocolError, match=f"announced variant = '{variant}', and this member agreed to '{other}'"
        ):
            member.receive(roster)


def test_the_most_transactions_may_be_just_enough():
    """A member sees for itself whether its part fits, before anybody hears of it."""
    member, roster = seated(most=10)
    assert isinstance(member.receive(roster), m.Confirm)
    with pytest.raises(ParameterError, match="for 9 transactions of 2 members, and this member has 5, which is more"):
        seated(most=9)


@pytest.mark.parametrize("ids", [bytes(15), bytes(17), bytes(32), b"\2" * 16 + b"\1" * 16])
def test_a_vocabulary_of_the_servers_must_be_one(ids):
    member, roster = seated(agreed=False)
    with pytest.raises(ProtocolError, match="the server's vocabulary"):
        member.receive(replaced(roster, ids=ids))
    assert member.state is SessionState.JOINING


def test_a_vocabulary_of_the_servers_must_have_the_members_items():
    member, roster = seated(agreed=False)
    own = sorted(SECRET.ids_of("abcde"))
    for ids in (bytes(16), b"".join(own[:-1]), b"".join(own[1:]), b""):
        with pytest.raises(ProtocolError, match="does not have all the ids that this member has sent"):
            member.receive(replaced(roster, ids=ids))
        assert member.state is SessionState.JOINING
    assert isinstance(member.receive(replaced(roster, ids=b"".join(own))), m.Confirm)


def test_a_member_that_uses_another_secret_does_not_take_part():
    named = databases(FIGURE)
    other = ItemSecret.from_random(bytes(32))
    vocabulary = Vocabulary.of(named["c1"].vocabulary, SECRET)
    own = MemberInput(named["c1"], ("c1", "c2"), settings_for("x"), other, vocabulary)
    with pytest.raises(FedslimError, match="secret"):
        MemberSession("c1", own)


def test_whoever_is_not_among_its_own_members_cannot_begin():
    with pytest.raises(FedslimError, match="'c9' is not among the members 'c1', 'c2'"):
        MemberSession("c9", inputs_of(databases(FIGURE))["c1"])


# -- a session: what everybody confirmed -----------------------------------------------------------------------------


FIRST = {"x": m.Ask(0, 0, [], [m.WantSupports()]), "sa": m.AskIndexedUsages(0, 0), "so": m.AskUsages(0)}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda own: m.Confirmed(0, [own]), "passed on 1 signatures of epoch 0 for a roster of 2"),
        (lambda own: m.Confirmed(0, [own] * 3), "passed on 3 signatures of epoch 0 for a roster of 2"),
        (lambda own: m.Confirmed(1, [own] * 2), "2 signatures of epoch 1 .* in epoch 0"),
        (lambda own: m.Confirmed(0, [own, bytes(32)]), "member 'c2' was shown another roster"),
        (lambda own: m.Confirmed(0, [own, b""]), "member 'c2' was shown another roster"),
        (lambda own: m.Confirmed(0, [bytes(32), own]), "member 'c1' was shown another roster"),
    ],
)
def test_a_member_answers_nothing_before_everybody_signed_what_it_signed(variant, change, told):
    member, roster = seated(variant)
    own = member.receive(roster).signature
    for _ in range(2):
        with pytest.raises(FedslimError, match=told):
            member.receive(change(own))
        assert member.state is SessionState.CONFIRMING
        assert not member._secrets
        with pytest.raises(ProtocolError, match="while this member was waiting for the others to confirm"):
            member.receive(FIRST[variant])
    member.receive(m.Confirmed(0, [own, own]))
    assert member.receive(FIRST[variant]) is not None


@pytest.mark.parametrize(
    ("key", "told"),
    [(None, "cannot agree on a secret with itself"), (bytes(32), "the key of member 'c2' is not a usable X25519")],
)
@pytest.mark.parametrize("variant", ["x", "sa"])
def test_a_member_shares_no_secret_under_a_key_that_hides_nothing(variant, key, told):
    member, roster = seated(variant)
    own = member.receive(replaced(roster, keys=[roster.keys[0], key or roster.keys[0]])).signature
    with pytest.raises(FedslimError, match=told):
        member.receive(m.Confirmed(0, [own, own]))
    assert member.state is SessionState.CONFIRMING
    with pytest.raises(ProtocolError, match="while this member was waiting for the others to confirm"):
        member.receive(FIRST[variant])


@pytest.mark.parametrize(
    "change",
    [
        {"run": bytes(16)},
        {"epoch": 1},
        {"keys": "another"},
        {"ids": "one more"},
    ],
    ids=repr,
)
def test_members_that_were_shown_different_rosters_sign_different_things(change):
    """And if signatures prove nothing, the sum of what they answer is noise."""
    named = databases(FIGURE)
    members = {name: MemberSession(name, own) for name, own in inputs_of(named, agreed=False).items()}
    keys = [member.join(bytes([k]) * 32).key for k, member in enumerate(members.values())]
    ids = sorted(SECRET.ids_of("abcde"))
    roster = m.Roster(RUN, settings_for("x"), list(members), keys, b"".join(ids), 0, [b"", b""], 0)
    if "keys" in change:
        change = {"keys": [PEER.public, keys[1]]}
    if "ids" in change:
        change = {"ids": b"".join(sorted([*ids, bytes(16)]))}
    rosters = {"c1": roster, "c2": replaced(roster, **change)}
    signed = {name: members[name].receive(shown).signature for name, shown in rosters.items()}
    assert len(set(signed.values())) == 2
    for name, member in members.items():
        with pytest.raises(FedslimError, match="was shown another roster"):
            member.receive(m.Confirmed(rosters[name].epoch, list(signed.values())))
        member.receive(m.Confirmed(rosters[name].epoch, [signed[name]] * 2))
    answers = [
        member.receive(m.Ask(0, rosters[name].epoch, [], [m.WantSupports()])) for name, member in members.items()
    ]
    words = sum(np.frombuffer(answer.words.data, "<u8")[:6] for answer in answers)
    with pytest.raises(RingError, match="masks do not cancel"):
        Ring.for_sums_up_to(MOST).read(words, length=6)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("update", "told"),
    [
        (lambda _: m.RosterUpdate(1, [m.Seat(0, PEER.public, b"")], 0), "another key under this member's name"),
        (
            lambda _: m.RosterUpdate(1, [m.Seat(2, PEER.public, b"")], 0),
            "at a place that the roster of 2 does not have",
        ),
        (
            lambda r: m.RosterUpdate(1, [m.Seat(4095, r.keys[0], b"")], 0),
            "at a place that the roster of 2 does not have",
        ),
        (lambda _: m.RosterUpdate(0, [m.Seat(1, PEER.public, b"")], 0), "not one of the run"),
        (lambda _: m.RosterUpdate(0, [], 0), "not one of the run"),
        (lambda r: r, "not one of the run"),
        (lambda r: replaced(r, epoch=1, run=bytes(16)), "not one of the run"),
        (lambda r: replaced(r, epoch=1, ids=bytes(16)), "not one of the run"),
        (lambda r: replaced(r, epoch=1, members=["c1", "c3"]), "not one of the run"),
        (lambda r: replaced(r, epoch=1, settings=replaced(r.settings, min_count=9)), "not one of the run"),
        (lambda r: replaced(r, epoch=1, keys=[PEER.public] * 2), "another key under this member's name"),
        (lambda r: replaced(r, epoch=1, keys=r.keys[:1]), "2 members, 1 keys"),
    ],
)
def test_a_new_roster_must_be_of_the_run_that_the_member_is_in(variant, update, told):
    member, roster = seated(variant)
    confirmed(member, roster).receive(FIRST[variant])
    before = member.state
    with pytest.raises(ProtocolError, match=told):
        member.receive(update(roster))
    assert member.state is before
    # Nothing has changed: it takes an honest one, and answers only after it was confirmed.
    confirm = member.receive(m.RosterUpdate(1, [m.Seat(1, AgreementKey.from_random(b"7" * 32).public, b"")], 0))
    assert confirm.epoch == 1
    assert member.state is SessionState.CONFIRMING
    member.receive(m.Confirmed(1, [confirm.signature] * 2))
    assert member.state is before


@pytest.mark.parametrize("variant", ["x", "sa"])
def test_masks_are_made_for_the_epoch_that_was_confirmed_and_no_other(variant):
    member, roster = seated(variant)
    confirmed(member, roster)
    for attempt in (1, 65_535):
        with pytest.raises(ProtocolError, match=f"made attempt {attempt} in epoch 0"):
            member.receive(replaced(FIRST[variant], attempt=attempt))
    assert member.receive(FIRST[variant]) is not None


# -- a session: questions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_question_that_makes_no_sense_ends_the_session(variant):
    """Part of it may have been carried out: there is no going on from there."""
    member, roster = seated(variant)
    confirmed(member, roster).receive(FIRST[variant])
    bad = {
        "x": m.Ask(1, 0, [m.InsertUnion(5, (0, 1), 7)], [m.WantRows([99], b"\x08")]),
        "sa": m.AskStructure(1, m.Entered(99, [(0, 1)], 7), NONE),
        "so": m.AskCandidates(1, m.Accept([(0, 99)])),
    }[variant]
    with pytest.raises(ProtocolError, match="refused"):
        member.receive(bad)
    assert member.state is SessionState.FINISHED
    assert member.received is None
    with pytest.raises(ProtocolError, match="while this member was finished"):
        member.receive(bad)


ANY = {
    "x": lambda number: m.Ask(number, 0, [], [m.WantRows([0], b"\x08")]),
    "sa": lambda number: m.AskStructure(number, None, NONE),
    "so": lambda number: m.AskCandidates(number, None),
}
AT_THE_END = {
    "x": lambda number: m.Ask(number, 0, [], [m.WantFinal(40)]),
    "sa": lambda number: m.AskIndexedSupports(number, 0, None, NONE, 40),
    "so": lambda number: m.AskSupports(number, None),
}


@pytest.mark.parametrize("limit", [1, 3, 20])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_member_answers_so_many_rounds_and_then_only_what_ends_the_run(variant, limit):
    member, roster = seated(variant, max_rounds=limit)
    confirmed(member, roster).receive(FIRST[variant])
    most = limit + m.ROUNDS_TO_FINISH
    for number in range(1, most):
        assert member.receive(ANY[variant](number)) is not None
    with pytest.raises(ProtocolError, match=f"goes on asking after {most} rounds, and {limit} were agreed on"):
        member.receive(ANY[variant](most))
    assert member.receive(AT_THE_END[variant](most)) is not None
    with pytest.raises(ProtocolError, match="refused"):
        member.receive(ANY[variant](most + 1))


@pytest.mark.parametrize("variant", VARIANTS)
def test_rounds_that_nobody_limited_are_not_counted(variant):
    member, roster = seated(variant)
    confirmed(member, roster).receive(FIRST[variant])
    for number in range(1, 300):
        assert member.receive(ANY[variant](number)) is not None


# -- the table at the end --------------------------------------------------------------------------------------------


NOT_OURS = "not the table that this member has covered with"
NO_ITEMSET = "not items of the vocabulary in ascending order"


@pytest.mark.parametrize(
    ("variant", "change", "told"),
    [
        *(
            (variant, change, told)
            for variant in ("x", "sa")
            for change, told in (
                (lambda _: {"usages": vector([1])}, "usages of 1 items and supports of 5 came where there are 5"),
                (lambda _: {"supports": vector([1] * 6)}, "usages of 5 items and supports of 6 came where there are 5"),
                (lambda _: {"usages": m.Vector(5, 8, b"")}, "a vector says 5 numbers"),
                (lambda _: {"transactions": 3}, "do not agree"),
                (lambda _: {"usages": vector([m.MAX_COUNT] * 5)}, "do not agree"),
                (lambda t: {"supports": vector(t.supports.values() + 1)}, "do not agree"),
                (lambda t: {"itemsets": [replaced(t.itemsets[0], usage=0), *t.itemsets[1:]]}, "do not agree"),
                (lambda t: {"itemsets": [replaced(t.itemsets[0], usage=10), *t.itemsets[1:]]}, "do not agree"),
            )
        ),
        *(
            ("x", change, NOT_OURS)
            for change in (
                lambda _: {"itemsets": []},
                lambda t: {"itemsets": t.itemsets[1:]},
                lambda t: {"itemsets": t.itemsets[::-1]},
                lambda t: {"itemsets": [*t.itemsets, m.PackedElement([0, 1], 0, 0, 0)]},
                lambda t: {"itemsets": [*t.itemsets, t.itemsets[0]]},
                lambda t: {"itemsets": [replaced(t.itemsets[0], entry=3), *t.itemsets[1:]]},
                lambda t: {"itemsets": [replaced(t.itemsets[0], items=[0, 2]), *t.itemsets[1:]]},
            )
        ),
        ("x", lambda _: {"min_count": 2}, "says that its smallest count is 2"),
        *(
            ("sa", change, told)
            for change, told in (
                (lambda _: {"itemsets": [m.PackedElement([0, 5], 1, 1, 1)]}, NO_ITEMSET),
                (lambda _: {"itemsets": [m.PackedElement([1, 0], 1, 1, 1)]}, NO_ITEMSET),
                (lambda _: {"itemsets": [m.PackedElement([1, 1], 1, 1, 1)]}, NO_ITEMSET),
                (lambda _: {"itemsets": [m.PackedElement([1], 1, 1, 1)]}, NO_ITEMSET),
                (lambda _: {"itemsets": []}, "usages and supports of the table do not agree"),
                (lambda t: {"itemsets": [*t.itemsets, m.PackedElement([0, 1], 0, 0, 0)]}, "do not agree"),
                (lambda t: {"itemsets": [*t.itemsets, t.itemsets[0]]}, "do not agree"),
                (lambda _: {"min_count": 3}, "a count below 3, which it says is its smallest"),
                (lambda _: {"min_count": 2, "other": 1}, "a count below 2, which it says is its smallest"),
            )
        ),
    ],
)
def test_a_member_takes_no_table_that_is_none(variant, change, told):
    inputs = databases(FIGURE)
    honest = Line(inputs, variant).begin().run().table

    def down(_name, message):
        if isinstance(message, m.Finish):
            return m.Finish("converged", replaced(honest, **change(honest)))
        return message

    with pytest.raises(ProtocolError, match=told):
        Line(inputs, variant).begin().run(down=down)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_server_may_end_a_run_at_any_time(variant):
    member, roster = seated(variant)
    assert confirmed(member, roster).receive(m.Finish("interrupted", None)) is None
    assert member.received.ending == "interrupted"
    assert (member.received.table is None) == (variant != "so")  # in so it has its own


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_server_may_give_up_at_any_time_and_end_only_what_has_begun(variant):
    for steps in range(3):
        member, roster = seated(variant)
        confirm = member.receive(roster) if steps else None
        if steps == 2:
            member.receive(m.Confirmed(0, [confirm.signature] * 2))
        else:
            with pytest.raises(ProtocolError, match="sent Finish while this member was"):
                member.receive(m.Finish("converged", None))
        assert member.receive(m.Abort("no more")) is None
        assert (member.state, member.received.ending) == (SessionState.FINISHED, "ended by the server: no more")


def test_an_honest_server_is_not_refused():
    inputs = databases(FIGURE)
    line = Line(inputs, "x").begin()
    assert line.members["c1"].received is None
    table = table_of(line.run(), inputs)
    assert line.members["c1"].received.table == table
