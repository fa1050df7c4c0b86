"""An effort as one search on one source, with few questions, finds what its tasks find in one place."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from hypothesis import given, settings, strategies as st
from test_engine_equals_twin import database, databases
from test_pair_bounds import Frugal, keep_pairs

from fedslim.mdl.cover_state import CoverState
from fedslim.mdl.driver import Stop, drive
from fedslim.mdl.effort import EffortSearch, best_of, carry_out, parts, plan
from fedslim.mdl.policy import Policy
from fedslim.mdl.questions import Drop, Supports
from fedslim.mdl.steps import Tally
from fedslim.mdl.summed import Sharded


@pytest.fixture(scope="module", autouse=True)
def _short():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedslim.mdl.effort.ITERATIONS", 5)
        patch.setattr("fedslim.mdl.effort.FIRST_ROUNDS", 2)
        patch.setattr("fedslim.mdl.effort.STARTS", 2)
        patch.setattr("fedslim.mdl.effort.MORE_STARTS", 1)
        yield


def in_one_place(db, policy, effort, seed):
    """Carry out all tasks with searches that ask whenever they like; return the best result and what was done."""
    tally, best = Tally(), None
    work = parts(policy, plan(effort, limited=False), seed)
    tasks = next(work)
    with suppress(StopIteration):
        while True:
            outcomes = [carry_out(task, db, Stop()) for task in tasks]
            tally = sum([o.result.tally for o in outcomes], tally)
            best = best_of(outcomes, best)
            tasks = work.send(outcomes)
    return best, tally


def compare(db, policy, effort, seed, source):
    expected, tally = in_one_place(db, policy, effort, seed)
    search = EffortSearch(db.n_items, policy, plan(effort, limited=False), seed)
    result = drive(search, source)
    assert (result.entries, result.bits, search.converged) == (expected.entries, expected.bits, True)
    done = search.tally
    assert (done.candidates, done.accepted, done.pruned) == (tally.candidates, tally.accepted, tally.pruned)
    assert search.bits_now == pytest.approx(result.bits.total)
    return search


@given(databases(), st.sampled_from([1, 2, 3]), st.sampled_from([1, 2, 5]), st.integers(0, 99))
@settings(max_examples=25)
def test_it_finds_what_its_tasks_find(case, effort, least, seed):
    db = database(*case)
    compare(db, Policy(min_count=least), effort, seed, CoverState(db))


def planted(seed):
    rng = random.Random(seed)
    n_items, n_rows = rng.randint(4, 30), rng.randint(10, 200)
    patterns = [rng.sample(range(n_items), rng.randint(2, min(6, n_items))) for _ in range(6)]
    rows = []
    for _ in range(n_rows):
        found = {i for pattern in patterns if rng.random() < 0.3 for i in pattern if rng.random() < 0.9}
        rows.append(found | {i for i in range(n_items) if rng.random() < 0.1})
    return database(rows, n_items)


@pytest.mark.parametrize(("seed", "least"), [(1, 1), (11, 5), (24, 5)])
def test_no_candidate_is_missed_when_much_is_taken_out_at_once(seed, least):
    """A row whose best pair was left out of it counts by that pair when the bounds rise, or it is never asked for."""
    db = planted(seed)
    with Sharded(db, 2) as source:
        compare(db, Policy(min_count=least), 3, seed, source)


class Exact(Frugal):
    """Compares the bounds of all pairs with the truth at every question of an effort."""

    def __init__(self, db, effort):
        self.whole = EffortSearch(db.n_items, Policy(), plan(effort, limited=False), 3)
        self.state = CoverState(db)
        self.checks = self.spoilt = 0

    @property
    def search(self):
        return self.whole.now

    def run(self):
        run = self.whole.run()
        question = next(run)
        with suppress(StopIteration):
            while True:
                question = run.send(self.answer(question))
                self.compare()
        return self.whole.result()


@pytest.mark.parametrize(
    ("seed", "how"), [*[(seed, "square") for seed in range(4)], (1, "growing"), (1, "lists"), (1, "later in lists")]
)
def test_the_bounds_hold_after_going_back(seed, how, monkeypatch):
    db = planted(seed)
    keep_pairs(how, db.n_items, monkeypatch)
    exact = Exact(db, 3)
    assert exact.run().entries == in_one_place(db, Policy(), 3, 3)[0].entries
    assert exact.checks > 1000


def test_sources_are_asked_for_supports_and_told_of_rare_items_once():
    db = planted(3)
    state, asked = CoverState(db), []
    search = EffortSearch(db.n_items, Policy(min_count=int(db.supports.min()) + 1), plan(2, limited=False), 0)
    run = search.run()
    question = next(run)
    with suppress(StopIteration):
        while True:
            asked.append(type(question))
            question = run.send(question.put_to(state))
    assert (asked.count(Supports), asked.count(Drop)) == (1, 1)


@pytest.mark.parametrize("effort", [1, 2, 3])
def test_wherever_it_is_stopped_sources_come_to_the_best_table_so_far(effort):
    db = planted(2)
    questions, best = 0, float("inf")
    while True:
        questions += 7
        state, left = CoverState(db), iter(range(questions))
        search = EffortSearch(db.n_items, Policy(), plan(effort, limited=False), 1)
        run = search.run()
        question = next(run)
        with suppress(StopIteration):
            while isinstance(question, search.MUST_ANSWER) or next(left, None) is not None:
                question = run.send(question.put_to(state))
        result = search.result()
        for move in search.rewind():
            move.put_to(state)
        found = search.found()
        assert [state.table.itemsets[slot] for slot, _ in found] == [entry.items for _, entry in found]
        assert [int(state.usages[slot]) for slot, _ in found] == [entry.usage for _, entry in found]
        assert sorted(state.table.itemsets) == sorted(slot for slot, _ in found)
        assert result.bits.total <= best + 1e-9
        best = result.bits.total
        if search.converged:
            break
