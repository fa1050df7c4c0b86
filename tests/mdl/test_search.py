from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from twin import cover, estimated_gain

from fedslim.data import TransactionDatabase, generate
from fedslim.mdl import CodeTable, mine
from fedslim.mdl.cover_state import CoverState
from fedslim.mdl.driver import Stop, drive
from fedslim.mdl.objective import EXACT, FREE
from fedslim.mdl.policy import Policy
from fedslim.mdl.search import SlimSearch


def rows_of(seed, n_items=14, n=80):
    rng = random.Random(seed)
    patterns = [rng.sample(range(n_items), rng.randint(2, 6)) for _ in range(6)]
    return [{i for p in rng.sample(patterns, 2) for i in p} | set(rng.sample(range(n_items), 2)) for _ in range(n)]


def database(rows, n_items=14):
    return TransactionDatabase.from_transactions(rows, vocabulary=[str(i) for i in range(n_items)])


def check_valid(result, rows):
    """The usages of a result are those of covers computed from scratch with its table."""
    table = [e.items for e in result.entries if len(e.items) > 1]
    usages = {}
    for row in rows:
        for itemset in cover(frozenset(row), table):
            usages[itemset] = usages.get(itemset, 0) + 1
    assert usages == {e.items: e.usage for e in result.entries}


@pytest.mark.parametrize("seed", range(4))
def test_the_table_is_valid_whenever_the_search_waits_for_an_answer(seed):
    rows = rows_of(seed)
    search = SlimSearch(14, Policy(charges=(EXACT, FREE), width=2, sweep=True))
    source = CoverState(database(rows))
    run = search.run()
    question = run.send(next(run).put_to(source))
    bits = [search.result().bits.total]
    try:
        while True:
            check_valid(search.result(), rows)
            question = run.send(question.put_to(source))
            bits.append(search.result().bits.total)
    except StopIteration:
        assert search.converged
    assert all(after <= before + 1e-9 for before, after in pairwise(bits))


class StopAt(Stop):
    """Stop at the n-th check."""

    def __init__(self, n):
        super().__init__()
        self.left = n

    def now(self):
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize(("effort", "every"), [(1, 1), (2, 7), (3, 5)])
def test_a_run_may_be_stopped_at_any_moment(effort, every, tmp_path, monkeypatch):
    monkeypatch.setattr("fedslim.mdl.effort.ITERATIONS", 4)
    monkeypatch.setattr("fedslim.mdl.effort.FIRST_ROUNDS", 2)
    monkeypatch.setattr("fedslim.mdl.effort.STARTS", 2)
    monkeypatch.setattr("fedslim.mdl.effort.MORE_STARTS", 1)
    db = database(rows_of(7, n=30))
    whole = mine(db, effort=effort)
    best = whole.table.compression.before.total
    moment = 0
    while True:
        mined = mine(db, effort=effort, stop=StopAt(moment))
        assert mined.table.compression.after.total <= best + 1e-9
        if moment % (40 * every) == 0:
            mined.table.save(tmp_path / "table.json")
            assert CodeTable.load(tmp_path / "table.json") == mined.table
        if mined.converged:
            break
        moment += every
    assert moment > 2 * every
    assert mined.table == whole.table


def test_a_time_limit_that_is_over_at_once_gives_the_standard_code_table():
    mined = mine(database(rows_of(1)), max_time=1e-9)
    assert (len(mined.table), mined.table.compression.L_percent, mined.ending) == (0, 100.0, "out of time")


def test_a_time_limit_holds_beside_a_stop():
    assert mine(generate("accidents-like", transactions=5_000), max_time=0.2, stop=Stop()).ending == "out of time"


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_transactions_does_not_matter(seed):
    rows = rows_of(seed, n_items=20, n=150)
    shuffled = random.Random(seed).sample(rows, len(rows))
    assert mine(database(rows, 20)).table == mine(database(shuffled, 20)).table


@pytest.mark.parametrize("policy", [Policy(), Policy(charges=(EXACT, FREE), sweep=True)])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_no_row_holds_a_candidate_better_than_its_bound(seed, policy):
    """The bound that makes it possible to skip most pairs (decisions/ranking-bounds.md), on data where it is finite."""
    rng = np.random.default_rng(seed)
    db = generate("accidents-like", transactions=600, seed=seed)
    search = SlimSearch(db.n_items, policy)
    source = CoverState(db)
    run = search.run()
    question = next(run)
    checked = finite = 0
    try:
        while checked < 4:
            question = run.send(question.put_to(source))
            if search.tally.accepted and rng.random() < 0.01:
                checked += 1
                finite += check_bounds(search, source)
    except StopIteration:
        pass
    assert checked
    assert finite


def check_bounds(search, source):
    """Compare every row's bound with the gains of all its pairs; return how many finite bounds were carried over."""
    ranking = search.ranking
    rows, now = ranking._rows, ranking._now
    alive = [s for s in range(ranking._limit) if search._usage[s]]
    finite = 0
    for x in alive:
        bound = max(rows.upper[x], rows.dropped[x])
        finite += bool(np.isfinite(bound) and rows.exact[x] != now.version)
        (row,) = source.co_usages((x,))
        for y, c in zip(row.slots.tolist(), row.counts.tolist(), strict=True):
            owns = rows.stamp[x] > rows.stamp[y] or (rows.stamp[x] == rows.stamp[y] and x > y)
            if x == y or not owns:
                continue
            gain = estimated_gain(
                int(search._usage[x]),
                int(search._usage[y]),
                c,
                now.total,
                now.in_use,
                float(search._standard[x]),
                float(search._standard[y]),
                ranking._charge,
            )
            a, b = sorted((x, y), key=lambda s: ranking._facts.birth[s])
            key = ((int(ranking._facts.birth[a]) + 1) << 32) | (int(ranking._facts.birth[b]) + 1)
            place = np.flatnonzero(ranking._rejected.key == key)
            rejected = len(place) and ranking._rejected.c[place[0]] == c
            assert rejected or gain <= bound
    return finite


def test_ten_thousand_rows_that_promise_the_same_are_no_trouble():
    """A unique item in every transaction: as many rows as transactions, all alike."""
    rows = [[f"id{i}", "ab"[i % 2], "xy"[i % 2]] for i in range(10_000)]
    mined = mine(TransactionDatabase.from_transactions(rows))
    assert mined.converged
    assert {e.labels for e in mined.table.itemsets} == {("a", "x"), ("b", "y")}


def test_bits_are_what_they_were_when_a_step_is_undone(monkeypatch):
    """Progress shows them; the search itself uses differences, and would not notice."""
    real, off = SlimSearch.rewind, []

    def rewind(self):
        if moves := real(self):
            off.append(abs(self.bits_now - self.bits().total))
        return moves

    monkeypatch.setattr(SlimSearch, "rewind", rewind)
    for seed in range(12):
        if len(off) < 3:
            drive(SlimSearch(14, Policy(min_count=8)), CoverState(database(rows_of(seed))))
    assert len(off) >= 3
    assert max(off) < 1e-6
