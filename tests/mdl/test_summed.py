"""Rows on several workers: the same table, also when a worker is replaced in the middle of a search."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, strategies as st

from fedslim.data import TransactionDatabase
from fedslim.mdl.cover_state import CoverState
from fedslim.mdl.mining import RowsElsewhere, mine
from fedslim.mdl.summed import SummedSource, TableLog, add_up


class Workers(SummedSource):
    """Parts of a database in this process; each question may find one of them replaced."""

    def __init__(self, database, n, replaced=0.0, seed=0):
        self.parts = [database.take(range(k, database.transactions, n)) for k in range(n)]
        self.states = [CoverState(part, reuse_slots=False) for part in self.parts]
        self.log, self.dice, self.replaced, self.replacements = TableLog(), random.Random(seed), replaced, 0

    def put(self, question, *about):
        if self.dice.random() < self.replaced:
            k = self.dice.randrange(len(self.parts))
            self.states[k] = CoverState(self.parts[k], reuse_slots=False)
            for move in self.log.moves():
                move.put_to(self.states[k])
            self.replacements += 1
        self.log.put(question, *about)
        return add_up([getattr(state, question)(*about) for state in self.states])


def elsewhere(database, *args, **kwargs):
    workers = Workers(database, *args, **kwargs)
    return workers, RowsElsewhere(lambda q: q.put_to(workers), database.vocabulary, database.transactions)


rows = st.lists(st.sets(st.integers(0, 9), max_size=7).map(sorted), min_size=1, max_size=40)


@given(rows, st.integers(1, 5), st.sampled_from([1, 3]), st.sampled_from([1, 8]))
def test_rows_elsewhere_give_the_same_table(transactions, n, min_count, width):
    database = TransactionDatabase.from_transactions(transactions, vocabulary=list(range(10)))
    here = mine(database, min_count=min_count, width=width)
    there = mine(elsewhere(database, n)[1], min_count=min_count, width=width)
    assert there.table == here.table
    assert there.tally == here.tally


@pytest.mark.parametrize("effort", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_worker_that_is_replaced_changes_nothing(effort):
    dice = random.Random(5)
    habits = [dice.sample(range(24), 5) for _ in range(6)]
    transactions = [sorted({*dice.choice(habits), *dice.sample(range(24), 2)}) for _ in range(150)]
    database = TransactionDatabase.from_transactions(transactions)
    workers, there = elsewhere(database, 3, replaced=0.1)
    assert mine(there, effort=effort, seed=4).table == mine(database, effort=effort, seed=4).table
    assert workers.replacements > 10
