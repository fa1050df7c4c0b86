"""Which questions a member answers in X at the start, during the search and after it, and at no other time."""

from __future__ import annotations

import pytest
from one_member import (
    FINAL,
    FREE,
    N_ITEMS,
    NOTHING_THERE,
    PAIR,
    ROW,
    SUPPORTS,
    asked,
    check_covers,
    dropping,
    entries,
    insertion,
    searching,
    side,
)

from fedslim.errors import ProtocolError
from fedslim.protocol import messages as m
from fedslim.secagg.ring import Ring

IN_THE_SEARCH = [
    ROW,
    m.WantSparseRow(0, 9, 0),
    m.WantUnionSupport((2, 3), 40),
    insertion(keep=True),
    insertion(keep=False),
    insertion(gone=[PAIR]),
    entries((0, [2, PAIR])),
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
    check_covers(variant._members._state, database)
    assert not variant._members._state.table.itemsets


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
    check_covers(variant._members._state, database)
    assert variant._members._state.table.itemsets == {PAIR: (0, 1)}


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
    check_covers(variant._members._state, database)
    assert variant._members._state.table.itemsets == {PAIR: (0, 1)}
    # The remaining itemsets can still be removed, each once.
    variant.answer(asked(FINAL, moves=[m.RemoveElement(PAIR)]))
    with pytest.raises(ProtocolError, match=NOTHING_THERE):
        variant.answer(asked(FINAL, moves=[m.RemoveElement(PAIR)]))
    check_covers(variant._members._state, database)


@pytest.mark.parametrize("least", [1, 2])
def test_x_answers_at_the_end_for_every_itemset_in_cover_order(least):
    """Usage and support; with `min_members_with` also whether the member has the itemset and each item."""
    variant, database = searching(min_members_with=least)
    variant.answer(asked(ROW, moves=[m.InsertUnion(FREE, (2, 3), 30)]))
    words = variant.answer(asked(FINAL, moves=[m.InsertUnion(FREE + 1, (PAIR, 2), 20)])).words
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
