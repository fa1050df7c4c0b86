from __future__ import annotations

from hypothesis import given, settings, strategies as st
from twin import Twin

from fedslim.data import TransactionDatabase
from fedslim.mdl import mine
from fedslim.mdl.covering import worth

ROWS = st.lists(st.frozensets(st.integers(0, 6), min_size=1), min_size=1, max_size=25)


@given(ROWS, st.integers(1, 6), st.booleans())
@settings(max_examples=150, deadline=None)
def test_worth_is_what_covering_everything_anew_says(rows, times, pruning):
    rows = rows * times
    vocabulary = [str(i) for i in range(7)]
    database = TransactionDatabase.from_transactions([[str(i) for i in sorted(r)] for r in rows], vocabulary=vocabulary)
    table = mine(database, pruning=pruning).table
    twin = Twin([frozenset(database.vocabulary.index(str(i)) for i in r) for r in rows], database.n_items)
    entries = {items: entry for items, _, _, entry in table.found}
    whole = twin.usages(entries)
    naive = [
        twin.bits_changed(whole, twin.usages({x: e for x, e in entries.items() if x != items})) for items in entries
    ]
    assert worth(database, table) == naive
