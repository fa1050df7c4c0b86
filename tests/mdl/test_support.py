from __future__ import annotations

from hypothesis import given, strategies as st

from fedslim.data import TransactionDatabase
from fedslim.mdl.kernels.counting import SupportIndex


@given(st.lists(st.sets(st.integers(0, 9)), max_size=200), st.data())
def test_support_counts_the_transactions_that_contain_an_itemset(rows, data):
    """More than 32 rows give both kinds of item: with bitmaps and with lists."""
    rows = [*rows, *([{0, 1}] * 80), {8}, {8, 9, 0}]
    db = TransactionDatabase.from_transactions(rows, vocabulary=[str(i) for i in range(10)])
    itemset = tuple(sorted(data.draw(st.sets(st.integers(0, 9)))))
    assert SupportIndex(db).support(itemset) == sum(row.issuperset(itemset) for row in rows)


def test_an_empty_database_supports_nothing():
    db = TransactionDatabase.from_transactions([], vocabulary=["a", "b"])
    assert SupportIndex(db).support((0, 1)) == 0
