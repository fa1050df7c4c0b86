from __future__ import annotations

import random

import numpy as np
import pytest
from twin import cover

from fedslim.data import TransactionDatabase
from fedslim.errors import DataError
from fedslim.mdl import mine
from fedslim.mdl.covering import Covering


def random_rows(seed, n_items, n):
    rng = random.Random(seed)
    patterns = [rng.sample(range(n_items), rng.randint(2, 6)) for _ in range(8)]
    return [
        sorted({i for p in rng.sample(patterns, 2) for i in p} | set(rng.sample(range(n_items), 3))) for _ in range(n)
    ]


@pytest.mark.parametrize("n_items", [9, 80, 700])
@pytest.mark.parametrize("seed", range(4))
def test_covers_of_unseen_transactions_are_those_of_the_slow_twin(n_items, seed):
    vocabulary = [str(i) for i in range(n_items)]
    seen, unseen = random_rows(seed, n_items, 150), random_rows(seed, n_items, 300)[150:]
    table = mine(TransactionDatabase.from_transactions(seen, vocabulary=vocabulary)).table
    covering = Covering(table)
    ends, elements = covering.cover(TransactionDatabase.from_transactions(unseen, vocabulary=vocabulary))
    begin = 0
    order = [items for items, _, _, _ in table.found]
    for row, end in zip(unseen, ends.tolist(), strict=True):
        used = [covering.items_of(k) for k in elements[begin:end].tolist()]
        itemsets = [x for x in used if len(x) > 1]
        singles = sorted(x for x in used if len(x) == 1)
        assert itemsets + singles == cover(frozenset(row), order)
        begin = end


def test_the_bits_of_the_mined_transactions_are_about_the_encoded_length():
    """Apart from smoothing, the lengths of all transactions add up to L(D | CT)."""
    rows = random_rows(1, 20, 4000)
    db = TransactionDatabase.from_transactions(rows)
    table = mine(db).table
    assert Covering(table).bits(db).sum() == pytest.approx(table.compression.after.data, rel=0.01)


def test_an_item_never_seen_costs_more_than_any_seen():
    db = TransactionDatabase.from_transactions([["a", "b"]] * 50 + [["c"]])
    covering = Covering(mine(db).table)
    ab, c, new = covering.bits(TransactionDatabase.from_transactions([["a", "b"], ["c"], ["new"]]))
    assert ab < c < new < np.inf


def test_covering_an_unknown_item_names_transaction_and_item():
    covering = Covering(mine(TransactionDatabase.from_transactions([["a", "b"]] * 5)).table)
    with pytest.raises(DataError, match="transaction 2 has the item 'z'"):
        covering.cover(TransactionDatabase.from_transactions([["a"], ["z", "a"]]))


def test_no_transactions_have_no_covers():
    covering = Covering(mine(TransactionDatabase.from_transactions([["a", "b"]] * 5)).table)
    empty = TransactionDatabase.from_transactions([])
    assert [len(part) for part in covering.cover(empty)] == [0, 0]
    assert len(covering.bits(empty)) == 0
