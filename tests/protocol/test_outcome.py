from __future__ import annotations

import numpy as np
import pytest

from fedslim.errors import ProtocolError
from fedslim.protocol import messages as m
from fedslim.protocol.outcome import code_table, pack_table
from fedslim.protocol.x_queries import Shape, read, words_of
from fedslim.secagg.ring import Ring

SUPPORTS = [5, 4, 3]


def sent(usage, support, *, transactions=6, min_count=1, other=0):
    """A table with one itemset, as it is received."""
    spelled = [5 - usage, 4 - usage, 3]
    vectors = (m.Vector.of(np.array(counts, np.int64)) for counts in (spelled, SUPPORTS))
    return m.PackedTable([m.PackedElement([0, 1], usage, support, usage)], *vectors, transactions, min_count, other)


def test_a_table_that_can_be_is_taken():
    table = code_table(sent(2, 3), ["a", "b", "c"])
    assert table.found == (((0, 1), 2, 3, 2),)
    assert (table.supports, table.singleton_usages, table.transactions) == ((5, 4, 3), (3, 2, 3), 6)


@pytest.mark.parametrize(
    ("usage", "support", "more"),
    [
        (3, 2, {}),  # used where it does not occur
        (2, 7, {}),  # in more transactions than there are
        (5, 5, {}),  # more often than one of its items
        (2, 3, {"transactions": 4}),  # an item in more transactions than there are
        (2, 3, {"min_count": 3}),  # a count below the smallest
        (2, 3, {"min_count": 2, "other": 1}),
    ],
)
def test_one_that_cannot_be_is_refused(usage, support, more):
    with pytest.raises(ProtocolError):
        code_table(sent(usage, support, **more), ["a", "b", "c"])


@pytest.mark.parametrize(("usage", "support"), [(3, 2), (2, 7), (0, 3), (5, 5)])
def test_nor_does_a_server_send_one(usage, support):
    pack_table([((0, 1), 2, 3, 2)], SUPPORTS, 6)
    with pytest.raises(ProtocolError):
        pack_table([((0, 1), usage, support, 2)], SUPPORTS, 6)


@pytest.mark.parametrize("members", [0, 3])
def test_final_counts_are_usages_then_supports_then_who_has_them(members):
    want, shape = m.WantFinal(7), Shape(items=3, max_transactions=100, members=members, slots=5, itemsets=2)
    words = np.zeros(words_of(want, shape), np.uint64)
    ring, few = Ring.for_sums_up_to(100), Ring.for_sums_up_to(3)
    split = ring.words(4)
    ring.put(words[:split], np.arange(4, dtype=np.int32), np.array([10, 20, 30, 40]), length=4)
    if members:
        few.put(words[split:], np.arange(5, dtype=np.int32), np.array([1, 2, 3, 2, 1]), length=5)
    found = read(want, shape, words, [100, members][: 1 + bool(members)])
    assert (found.usages.tolist(), found.supports.tolist()) == ([10, 20], [30, 40])
    if members:
        assert (found.members.tolist(), found.members_with_item.tolist()) == ([1, 2], [3, 2, 1])
