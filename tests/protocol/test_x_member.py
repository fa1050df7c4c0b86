"""What a member refuses and answers in X, with a server that may ask anything."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from one_member import (
    ALREADY,
    FREE,
    LAST,
    N_ITEMS,
    NOTHING_THERE,
    ONCE,
    PAIR,
    ROW,
    allocated,
    asked,
    check_covers,
    dropping,
    entries,
    insertion,
    insertions,
    searching,
)

from fedslim.errors import ProtocolError, RingError
from fedslim.protocol import messages as m
from fedslim.secagg.ring import Fields, Ring
from wire import vector

COMMON = "items in common"
TOO_LONG = "itemset of 3 items; 2 were agreed on"
TOO_RARE = "used 4 times, which is below min_count"
OTHER_SLOT = "but slot 10 is next"
CELLS = "cells per table"
WORDS = "an answer has at most"
BITS = "a ring has 1 to 56 bits"
WIDTHS = r"\d rows with \d widths"
EMPTY_SLOTS = "entries of slots that are empty"
NO_ROWS = "entries of rows that do not exist|at most 9 is allowed"
NOT_VALID = "in a form that is not valid"
TOO_MANY = r"\d+ entries of \d+ rows, too many"
ENTRIES = entries((0, [1, 2, 3]))


def kept(want, keep):
    """The same question with itemsets that all enter, or do not."""
    return msgspec.structs.replace(want, new=[msgspec.structs.replace(new, keep=keep) for new in want.new])


BAD_WANTS = [
    (m.WantSupports(), "WantSupports during the search", {}),
    (m.WantUnionSupport((0, 2), 40), "which the settings do not need", {}),
    (m.WantUnionSupport((0, 2), 40), "which the settings do not need", {"min_count": 5}),
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
    (entries((FREE, [0])), NO_ROWS, {}),
    (entries((LAST, [0])), "at most 9 is allowed", {}),
    (entries((0, [1]), (FREE, [0])), NO_ROWS, {}),
    (entries((0, [1, FREE])), NO_ROWS, {}),
    (entries((0, [1]), (2, [3, FREE])), NO_ROWS, {}),
    (entries((0, [9, 18, 27])), NO_ROWS, {}),
    (entries((0, [LAST])), NO_ROWS, {}),
    (entries((0, [1 << 28])), NOT_VALID, {}),
    (entries((0, [1]), codes=[0]), NO_ROWS, {}),
    (entries((0, [1, 2]), codes=[15, 0]), NO_ROWS, {}),
    (entries((0, [])), NOT_VALID, {}),
    (entries((0, [1]), (2, [])), NO_ROWS, {}),
    (entries(), NOT_VALID, {}),
    (msgspec.structs.replace(ENTRIES, widths=b""), NOT_VALID, {}),
    (msgspec.structs.replace(ENTRIES, widths=b"\x44" * 3), NOT_VALID, {}),
    (msgspec.structs.replace(ENTRIES, widths=b"\x44" * (1 << 20)), NOT_VALID, {}),
    (msgspec.structs.replace(ENTRIES, sizes=vector([2])), NOT_VALID, {}),
    (msgspec.structs.replace(ENTRIES, sizes=vector([3, 0])), NOT_VALID, {}),
    (msgspec.structs.replace(ENTRIES, sizes=vector([4])), NOT_VALID, {}),
    (msgspec.structs.replace(ENTRIES, sizes=vector([11])), "at most 10 is allowed", {}),
    (msgspec.structs.replace(ENTRIES, rows=vector([0, 1])), NOT_VALID, {}),
    *((msgspec.structs.replace(ENTRIES, steps=s), NOT_VALID, {}) for s in (b"", bytes(2), bytes(4), b"\1\1\x81")),
    # The same pairs again and again, in some bytes each: they would take the member gigabytes.
    (msgspec.structs.replace(ENTRIES, steps=bytes((1 << 21) + 1)), TOO_MANY, {}),
    (msgspec.structs.replace(ENTRIES, rows=m.Vector(1 << 20, 8, bytes(1 << 20))), TOO_MANY, {}),
    (msgspec.structs.replace(ENTRIES, sizes=m.Vector(1 << 20, 8, bytes(1 << 20))), TOO_MANY, {}),
    (entries(*[(0, [1])] * 11), TOO_MANY, {}),
    # The second itemset is refused as the first would be, and so is what leaves after them.
    *(
        (insertions((FREE, (2, 3)), (slot, parents), keep=keep), told, settled)
        for keep, slot, parents, told, settled in (
            (False, FREE + 1, (4, 5), OTHER_SLOT, {}),
            (True, FREE, (4, 5), "but slot 11 is next", {}),
            (True, FREE + 2, (4, 5), "but slot 11 is next", {}),
            (False, FREE, (FREE, 4), NOTHING_THERE, {}),
            (True, FREE + 1, (FREE, 3), COMMON, {}),
            (True, FREE + 1, (3, 2), ALREADY, {}),
            (True, FREE + 1, (FREE, 4), TOO_LONG, {"max_itemset_size": 2}),
        )
    ),
    (insertion(gone=[0]), NOTHING_THERE, {}),
    (insertion(gone=[LAST]), NOTHING_THERE, {}),
    (insertion(gone=[FREE + 1]), NOTHING_THERE, {}),
    (insertion(gone=[FREE], keep=False), NOTHING_THERE, {}),
    (insertion(gone=[PAIR, PAIR]), NOTHING_THERE, {}),
    (insertion(parents=(PAIR, 2), gone=[PAIR, FREE, PAIR]), NOTHING_THERE, {}),
    *(
        (kept(want, keep), told, settled)
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
    (m.WantRemovals([PAIR], 9, 0, (True, False)), "1 removals with 2 decisions", {}),
    (m.WantRemovals([PAIR, PAIR], 9, 0, (True,)), "2 removals with 1 decisions", {}),
    (m.WantRemovals([PAIR, PAIR], 9, 0, (True, False)), NOTHING_THERE, {}),
    (m.WantFinal(57), BITS, {}),
    (m.WantFinal(64), BITS, {}),
]
NOT_LAST = "was not removed last"
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
    # The same union of other elements.
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
    # Another element is, or may be, in the slot.
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
    ([dropping(N_ITEMS)], "at most 8 is allowed", {"min_count": 5}),
    ([m.DropItems(m.Vector(3, 8, b""))], "has 0 bytes", {"min_count": 5}),
]


@pytest.mark.parametrize(
    ("want", "told", "settled"), BAD_WANTS, ids=[f"{want!r}{settled}"[:90] for want, _, settled in BAD_WANTS]
)
def test_x_refuses_questions_that_make_no_sense(want, told, settled):
    variant, database = searching(**settled)

    def refused():
        with pytest.raises((ProtocolError, RingError), match=told):
            variant.answer(asked(want))

    assert allocated(refused) < 1 << 20
    check_covers(variant._members._state, database)


@pytest.mark.parametrize(
    ("moves", "told", "settled"), BAD_MOVES, ids=[f"{moves!r}{settled}"[:90] for moves, _, settled in BAD_MOVES]
)
def test_x_refuses_moves_that_make_no_sense(moves, told, settled):
    variant, database = searching(**settled)
    for move in moves[:-1]:
        variant.answer(asked(ROW, moves=[move]))
    with pytest.raises(ProtocolError, match=told):
        variant.answer(asked(ROW, moves=moves[-1:]))
    check_covers(variant._members._state, database)
    # All in one question are refused as well, at least for being too many.
    if (inserted := sum(isinstance(move, m.InsertUnion) for move in moves)) > 1:
        told = f"and inserts {inserted}"
    variant, database = searching(**settled)
    with pytest.raises(ProtocolError, match=told):
        variant.answer(asked(ROW, moves=moves))
    check_covers(variant._members._state, database)


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
        ([asked(entries((0, [*range(PAIR + 1)]), (PAIR, [PAIR]), codes=[1, *range(2, 10), 14, 15]))], {}),
        ([asked(entries(*[(0, [1])] * 10))], {}),
        (
            [asked(insertions((FREE, (2, 3)), (FREE + 1, (FREE, 4)), (FREE + 2, (PAIR, FREE + 1)), gone=[PAIR, FREE]))],
            {},
        ),
        ([asked(insertion(), entries((FREE, [0, PAIR])), m.WantRemovals([FREE], 9, 0))], {}),
        (
            [
                asked(insertion(), m.WantRemovals([PAIR, FREE, FREE], 9, 0, (True, False, True))),
                asked(ROW, moves=[m.RestoreElement(FREE), m.RestoreElement(PAIR)]),
            ],
            {},
        ),
        ([asked(insertion(gone=[PAIR])), asked(ROW, moves=[m.RestoreElement(PAIR), m.RemoveElement(FREE)])], {}),
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
    check_covers(variant._members._state, database)


DISJOINT = [(0, 2), (1, 3), (4, 5), (6, 7)]
"""Pairs of elements that can enter one after the other."""


@pytest.mark.parametrize(
    ("message", "width", "told"),
    [
        (asked(insertions(*[(FREE, (2, 3))] * 17, keep=False)), 8, "tries 17 itemsets in a round and inserts 0"),
        (asked(insertions(*[(FREE, (2, 3))] * 64, keep=False)), 8, "tries 64 itemsets in a round and inserts 0"),
        (asked(*[insertion(keep=False)] * 17), 8, "tries 17 itemsets in a round and inserts 0"),
        (asked(*[insertion(keep=False)] * 4096), 8, "tries 4096 itemsets in a round and inserts 0"),
        (asked(*[insertions(*[(FREE, (2, 3))] * 6, keep=False)] * 3), 8, "tries 18 itemsets in a round and inserts 0"),
        (asked(*[m.WantUnionSupport((2, 3), 40)] * 17), 8, "tries 17 itemsets in a round and inserts 0"),
        (
            asked(*[m.WantUnionSupport((2, 3), 40), insertions(*[(FREE, (2, 3))] * 2, keep=False)] * 6),
            8,
            "tries 18 itemsets in a round and inserts 0",
        ),
        (asked(*[insertion(keep=False)] * 3), 1, "tries 3 itemsets in a round and inserts 0"),
        (
            asked(*[insertions(*[(FREE + k, pair) for k, pair in enumerate(DISJOINT)])] * 2),
            3,
            "tries 8 itemsets in a round and inserts 0",
        ),
        (
            asked(
                insertion(FREE + 2, (6, 7)), moves=[m.InsertUnion(FREE, (2, 3), 9), m.InsertUnion(FREE + 1, (4, 5), 9)]
            ),
            8,
            "tries 1 itemsets in a round and inserts 2",
        ),
        (
            asked(m.WantFinal(40), moves=[m.InsertUnion(FREE + k, (2, 3 + k), 9) for k in range(2)]),
            8,
            "tries 0 itemsets in a round and inserts 2",
        ),
        (asked(ROW, moves=[m.InsertUnion(FREE, (2, 3), 9)] * 4096), 8, "inserts 4096"),
    ],
    ids=lambda case: repr(case)[:60],
)
def test_x_tries_no_more_itemsets_in_a_round_than_a_search_does(message, width, told):
    """Nothing is carried out: a server that could try thousands at once could count anything."""
    variant, database = searching(min_support=2, width=width)
    too_many = f"that were tried before; a search of width {width} has at most {2 * width} and 1"
    with pytest.raises(ProtocolError, match=f"{told} {too_many}"):
        variant.answer(message)
    assert variant._members._state.table.itemsets == {PAIR: (0, 1)}
    check_covers(variant._members._state, database)


@pytest.mark.parametrize(
    ("message", "width"),
    [
        (asked(insertions(*[(FREE, (2, 3))] * 16, keep=False)), 8),
        (asked(*[insertion(keep=False)] * 16), 8),
        (asked(*[insertion(keep=False)] * 2), 1),
        (asked(insertion()), 1),
        (asked(insertions(*[(FREE + k, pair) for k, pair in enumerate(DISJOINT)])), 4),
        (
            asked(
                m.WantUnionSupport((2, 3), 40),
                insertions((FREE, (2, 3)), (FREE, (4, 5)), keep=False),
            ),
            3,
        ),
        (asked(insertion(FREE + 1, (4, 5)), ROW, moves=[m.InsertUnion(FREE, (2, 3), 9)]), 1),
        (asked(m.WantFinal(40), moves=[m.InsertUnion(FREE, (2, 3), 9), m.RemoveElement(PAIR)]), 1),
    ],
    ids=lambda case: repr(case)[:60],
)
def test_x_answers_as_many_trials_in_a_round_as_a_search_makes(message, width):
    variant, database = searching(min_support=2, width=width)
    assert len(variant.answer(message).words)
    check_covers(variant._members._state, database)


def test_x_refuses_pairs_with_a_freed_slot():
    """A slot below the highest one may be empty, too."""
    variant, database = searching()
    variant.answer(asked(insertion(gone=[PAIR])))
    with pytest.raises(ProtocolError, match=EMPTY_SLOTS):
        variant.answer(asked(entries((0, [2, PAIR, FREE]))))
    with pytest.raises(ProtocolError, match=EMPTY_SLOTS):
        variant.answer(asked(entries((0, [2]), (PAIR, [2, FREE]))))
    assert len(variant.answer(asked(entries((0, [2, FREE])))).words) == 1
    check_covers(variant._members._state, database)


def test_x_refuses_pairs_with_an_itemset_that_is_only_tried():
    """It has a place in the order until the trial ends, but no covers to count in."""
    variant, database = searching()
    variant.answer(asked(insertion(gone=[PAIR])))
    tried = insertion(PAIR, (4, 5), keep=False)
    for pairs in (entries((0, [2, PAIR])), entries((PAIR, [0]))):
        for message in ([asked(tried, pairs)], [asked(tried), asked(pairs)]):
            with pytest.raises(ProtocolError, match=EMPTY_SLOTS):  # noqa: PT012  # the last one of these
                for question in message:
                    variant.answer(question)
    check_covers(variant._members._state, database)


def test_x_counts_pairs_as_rows_do():
    """Entries are those of the rows, each in its own number of bits."""
    variant, _ = searching()
    row = Ring(40, (1 << 40) - 1).read(variant.answer(asked(m.WantRows([2], b"\x28"))).words, length=FREE)
    other = Ring(40, (1 << 40) - 1).read(variant.answer(asked(m.WantRows([PAIR], b"\x28"))).words, length=FREE)
    words = variant.answer(asked(entries((2, [0, 2, 3, 4, PAIR]), (PAIR, [4]), codes=[4, 15, 9, 6, 6, 5]))).words
    widths = np.array([8, 56, 18, 12, 12, 10], np.uint8)
    assert Fields(widths).read(words).tolist() == [*row[[0, 2, 3, 4, PAIR]], other[4]]
    assert row[2] > row[3] > 0


def test_x_counts_what_each_itemset_changes_when_those_before_it_are_in_the_table():
    """Several in one question change the same as one in each; those that do not stay change nothing for the next."""
    together, database = searching()
    alone, _ = searching()
    new = [
        m.NewUnion(FREE, (2, 3), 9, True),
        m.NewUnion(FREE + 1, (4, 5), 9, False),
        m.NewUnion(FREE + 1, (FREE, 4), 9, True),
    ]
    together.answer(asked(m.WantInsertions(new, [FREE], 9, 0), ROW))
    for one in new:
        alone.answer(asked(m.WantInsertions([one], [], 9, 0)))
    alone.answer(asked(ROW, moves=[m.RemoveElement(FREE)]))
    assert (
        together._members._state.table.itemsets
        == alone._members._state.table.itemsets
        == {PAIR: (0, 1), FREE + 1: (2, 3, 4)}
    )
    for variant in (together, alone):
        check_covers(variant._members._state, database)
    both = [variant.answer(asked(m.WantRows([0, 4], b"\x28\x28"))).words.tolist() for variant in (together, alone)]
    assert both[0] == both[1]


def test_x_does_not_say_by_a_refusal_how_large_a_count_is():
    """Counts that do not fit wrap around: a question with few bits is answered like one with many."""
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
        pairs = narrow.answer(asked(entries((2, [0, 2]), codes=[bits] * 2))).words
        most = 1 << 2 * bits
        assert Fields(np.array([2 * bits] * 2, np.uint8)).read(pairs).tolist() == (counts[[0, 2]] % most).tolist()
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
    check_covers(variant._members._state, database, dropped=(2, 4))
    with pytest.raises(ProtocolError, match=ONCE):
        variant.answer(asked(ROW, moves=[dropping(5)]))
    check_covers(variant._members._state, database, dropped=(2, 4))
    variant, database = searching(pair=False, min_count=5)
    with pytest.raises(ProtocolError, match=ONCE):
        variant.answer(asked(ROW, moves=[dropping(2), dropping()]))


def test_x_refuses_more_than_an_answer_can_hold():
    """Each question alone could be answered, but not all together, which is noticed on the way."""
    variant, _ = searching()
    half = m.WantSparseRow(0, 800_000, 0)

    def refused():
        with pytest.raises(ProtocolError, match=r"asked for \d+ words, but an answer has at most"):
            variant.answer(asked(*[half] * 4096))

    assert allocated(refused) < 1 << 27


def test_x_takes_no_itemset_twice():
    """Removing one of the two would remove the other from the order: covers would use it, but not the table."""
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
