from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedslim.data import TransactionDatabase
from fedslim.mdl.cover_state import CoverState, Summed
from fedslim.mdl.driver import drive
from fedslim.mdl.effort import CHEAPER, FREE, HALF
from fedslim.mdl.objective import EXACT
from fedslim.mdl.search import Policy, SlimSearch

sys.path.insert(0, str(Path(__file__).parent))
from twin import Twin, cover


def database(rows, n_items):
    lengths = [len(row) for row in rows]
    tids = np.repeat(np.arange(len(rows)), lengths)
    items = np.array([i for row in rows for i in sorted(row)], np.int64)
    return TransactionDatabase.from_pairs(tids, items, [str(i) for i in range(n_items)], transactions=len(rows))


def compare(rows, n_items, policy=Policy(), sources=1):
    twin = Twin(
        [frozenset(row) for row in rows],
        n_items,
        policy.pruning,
        policy.order,
        policy.max_itemset_size,
        policy.min_support,
        policy.charges[0],
    )
    twin.run()
    search = SlimSearch(n_items, policy)
    states = [CoverState(database(rows[k::sources], n_items)) for k in range(sources)]
    result = drive(search, states[0] if sources == 1 else Summed(states))
    assert [(e.items, e.usage, e.entry) for e in result.entries] == twin.result()
    assert (result.tally.candidates, result.tally.accepted, result.tally.pruned) == (
        twin.candidates,
        twin.accepted,
        twin.pruned,
    )
    usages = twin.usages()
    bits = twin.terms(usages)
    assert result.bits.total == pytest.approx(sum(bits), abs=1e-6)
    assert result.converged
    for state in states:
        check_state(state, twin)
    return result


def check_state(state, twin):
    """The covers kept up to date are the covers made from nothing, and so are the usages."""
    db = state.database
    for t in range(len(db)):
        slots = [state.table.items_of(s) for s in state.cover(t)]
        assert slots == cover(frozenset(db.item_ids(t).tolist()), twin.table())


@st.composite
def databases(draw, *, max_items=12, max_transactions=40):
    """Random rows, some of them made of a few shared patterns so that there is something to find."""
    n_items = draw(st.integers(1, max_items))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = random.Random(seed)
    n = draw(st.integers(0, max_transactions))
    patterns = [
        rng.sample(range(n_items), rng.randint(1, min(n_items, 6))) for _ in range(draw(st.integers(0, 4)))
    ]
    noise = draw(st.sampled_from([0.0, 0.1, 0.3, 0.6]))
    rows = []
    for _ in range(n):
        row = {i for i in range(n_items) if rng.random() < noise}
        for pattern in patterns:
            if rng.random() < 0.4:
                row.update(pattern)
        rows.append(row)
    return rows, n_items


policies = st.builds(
    Policy,
    pruning=st.booleans(),
    order=st.sampled_from(["usage", "support"]),
    max_itemset_size=st.sampled_from([None, None, 2, 3]),
    min_support=st.sampled_from([1, 1, 3]),
    charges=st.sampled_from([(EXACT,), (HALF,), (CHEAPER,), (FREE,)]),
)


@settings(max_examples=300, deadline=None)
@given(databases(), policies, st.integers(1, 3))
def test_engine_and_twin_find_the_same_table_step_for_step(case, policy, sources):
    compare(*case, policy, sources)


@settings(max_examples=40, deadline=None)
@given(databases(max_items=20, max_transactions=80))
def test_engine_and_twin_agree_on_larger_data(case):
    compare(*case)


@pytest.mark.parametrize("n_items", [70, 600])
@pytest.mark.parametrize("seed", range(6))
def test_engine_and_twin_agree_on_wide_data(n_items, seed):
    """More items than fit one machine word (70), and more than have a bit of their own in a mask (600)."""
    rng = random.Random(seed)
    patterns = [rng.sample(range(n_items), rng.randint(2, 7)) for _ in range(6)]
    # items that share a bit, to lead the masks astray
    patterns += [[3, 5], [3, 515 % n_items, 9], [5, 517 % n_items]]
    rows = []
    for _ in range(40):
        row = set(rng.sample(range(n_items), rng.randint(0, 6)))
        for pattern in rng.sample(patterns, 3):
            row.update(pattern)
        rows.append(row)
    compare(rows, n_items)


@pytest.mark.parametrize("seed", range(2))
def test_engine_and_twin_agree_on_transactions_of_several_hundred_items(seed):
    rng = random.Random(seed)
    n_items = 400
    base = rng.sample(range(n_items), 330)
    rows = [set(rng.sample(base, rng.randint(290, 330))) for _ in range(3)] + [set(base)] * 2
    compare(rows, n_items, Policy(max_itemset_size=4))


@pytest.mark.parametrize(
    ("rows", "n_items"),
    [
        ([], 0),
        ([], 3),
        ([set()], 1),
        ([set()] * 5, 2),
        ([{0}], 1),
        ([{0}] * 9, 1),
        ([{0, 1, 2}] * 20, 3),
        ([{0, 1, 2}] * 20, 5),
        ([{0, 1}, {2, 3}] * 10, 4),
        ([{i} for i in range(10)], 10),
    ],
)
def test_engine_and_twin_agree_on_degenerate_data(rows, n_items):
    compare(rows, n_items)
