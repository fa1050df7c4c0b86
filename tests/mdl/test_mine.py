from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from itertools import pairwise

import pytest

from fedslim.data import PLANTED, builtin_database, builtin_members, generate, load
from fedslim.mdl import CodeTable, effort as effort_module, mine
from fedslim.mdl.driver import Stop, Trend, stopping_on_interrupt
from fedslim.mdl.effort import Greedy, Local, Plan, TaskOutcome, best_of, carry_out, parts, plan
from fedslim.mdl.objective import Bits
from fedslim.mdl.policy import Policy
from fedslim.mdl.steps import SearchResult, TableEntry, Tally

GREEDY = {  # L% at most, with the plain greedy
    "ionosphere": 48.53,
    "chess": 14.02,
    "mushroom": 18.74,
    "pendigits": 39.41,
    "letter": 32.86,
    "adult": 21.52,
    "connect": 12.21,
    "accidents_head": 31.24,
}
ONE_BY_ONE = {  # L% with width 1
    "ionosphere": 49.52,
    "chess": 14.93,
    "mushroom": 18.37,
    "pendigits": 39.64,
    "letter": 33.57,
    "adult": 22.79,
    "connect": 12.32,
    "accidents_head": 31.41,
}
PUBLISHED = {  # SLIM's published results
    "ionosphere": 49.70,
    "chess": 14.70,
    "mushroom": 18.50,
    "pendigits": 39.40,
    "letter": 33.40,
    "adult": 22.80,
    "connect": 12.30,
}
QUICK = {"ionosphere", "chess", "mushroom", "pendigits", "adult"}


def marked(names):
    return [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", marked(GREEDY))
def test_the_plain_greedy_compresses_as_well_as_it_should(public_data, name):
    mined = mine(load(name, folder=public_data))
    assert mined.converged
    assert round(mined.table.compression.L_percent, 2) <= GREEDY[name]


@pytest.mark.parametrize("name", marked(ONE_BY_ONE))
def test_width_1_is_slim_as_published(public_data, name):
    mined = mine(load(name, folder=public_data), width=1)
    assert round(mined.table.compression.L_percent, 2) == ONE_BY_ONE[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_several_widths_reach_the_published_compression(public_data, name):
    assert mine(load(name, folder=public_data), effort=2).table.compression.L_percent <= PUBLISHED[name]


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("ionosphere", 100),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in (("ionosphere", 351), ("chess", 3196))),
    ],
)
def test_a_higher_effort_never_ends_worse(public_data, name, rows):
    db = load(name, folder=public_data).take(range(rows))
    bits = [mine(db, effort=effort).table.compression.after.total for effort in (1, 2, 3)]
    assert bits == sorted(bits, reverse=True)
    assert bits[2] < bits[1]


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_the_result_does_not_depend_on_the_number_of_threads(threads, tmp_path):
    db = builtin_database("encounters")
    mine(db, threads=1).table.save(tmp_path / "one.json")
    mine(db, threads=threads).table.save(tmp_path / "many.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "many.json").read_bytes()


def test_more_threads_than_transactions_are_no_harm():
    db = builtin_database("encounters").take(range(3))
    assert mine(db, threads=16).table == mine(db, threads=1).table


def test_the_built_in_syndromes_are_found_together_and_the_thin_ones_at_no_member():
    found = {frozenset(e.labels) for e in mine(builtin_database("encounters")).table.itemsets}
    assert {s.name for s in PLANTED if not any(frozenset(s.items) <= x for x in found)} == set()
    thin = [frozenset(s.items) for s in PLANTED if s.kind == "thin"]
    assert thin
    for _, own in builtin_members("encounters"):
        local = [frozenset(e.labels) for e in mine(own).table.itemsets]
        assert not any(syndrome <= itemset for syndrome in thin for itemset in local)


def test_when_the_time_is_up_the_table_is_valid_and_not_converged(tmp_path):
    db = generate("accidents-like", transactions=20_000)
    mined = mine(db, max_time=1.0)
    assert (mined.converged, mined.ending) == (False, "out of time")
    assert 0 < mined.table.compression.L_percent < 100
    mined.table.save(tmp_path / "table.json")
    assert CodeTable.load(tmp_path / "table.json") == mined.table


def test_somebody_else_may_ask_to_stop():
    stop = Stop()
    seen = []

    def on_progress(progress):
        seen.append(progress)
        stop.ask()

    mined = mine(generate("accidents-like", transactions=5_000), stop=stop, on_progress=on_progress)
    assert mined.ending == "interrupted"
    assert len(seen) == 1
    assert seen[0].percent < 100
    assert (seen[0].policy, seen[0].policies) == (1, 1)


def test_the_first_interrupt_asks_and_the_second_one_interrupts():
    stop = Stop()
    with stopping_on_interrupt(stop):
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.asked
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_ignored_interrupt_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with stopping_on_interrupt(Stop()):
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_leave_signals_alone():
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def other():
        with stopping_on_interrupt(Stop()):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [before]


def test_progress_guesses_the_time_left_from_how_fast_gains_fall():
    trend = Trend()
    assert trend.remaining(1.0, 1024.0) is None
    # Halved every second: from 512 bits it takes nine more seconds to get to one.
    assert trend.remaining(2.0, 512.0) == pytest.approx(9.0)
    assert trend.remaining(3.0, 0.0) is None


def test_warming_up_leaves_nothing_to_compile(public_data):
    """Otherwise the first run would pause in the middle without any explanation."""
    from fedslim.mdl.kernels import array_table, counting, gain, insertion, ranking, removal
    from fedslim.mdl.mining import prepare

    def compiled():
        modules = (array_table, counting, gain, insertion, ranking, removal)
        kernels = [f for m in modules for f in vars(m).values() if hasattr(f, "signatures")]
        return [(f.__name__, list(f.signatures)) for f in kernels if f.__name__ != "cover_all"]

    prepare()
    before = compiled()
    mine(load("chess", folder=public_data))
    assert compiled() == before


def test_where_kernels_cannot_be_kept_they_are_compiled_for_this_process_only(monkeypatch):
    from fedslim.mdl import mining

    calls = []

    def fails_once():
        calls.append("warm up")
        if len(calls) == 1:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(mining, "_warm_up", fails_once)
    monkeypatch.setattr(mining, "forget_caches", lambda: calls.append("forget"))
    mining.prepare.__wrapped__()
    assert calls == ["warm up", "forget", "warm up"]


def carried_out(db, effort):
    """Carry out an effort; return its tasks, and L of the best table after each part."""
    done, bits, best = [], [], None
    work = parts(Policy(), plan(effort, limited=False), 5)
    tasks = next(work)
    with suppress(StopIteration):
        while True:
            done += tasks
            outcomes = [carry_out(task, db, Stop()) for task in tasks]
            best = best_of(outcomes, best)
            bits.append(best.bits.total)
            tasks = work.send(outcomes)
    return done, bits


def test_each_effort_does_what_the_one_below_does_and_some_more(monkeypatch):
    monkeypatch.setattr(effort_module, "ITERATIONS", 3)
    db = builtin_database("encounters").take(range(60))
    done = []
    for effort in (1, 2, 3, 4):
        tasks, bits = carried_out(db, effort)
        assert bits == sorted(bits, reverse=True)
        assert len(tasks) <= plan(effort, limited=False).most_tasks
        done.append(tasks)
    assert [len(tasks) for tasks in done] == [1, 9, 9 + 40 + 10 * 1, 9 + 40 + 10 * 4]
    assert done[0] == [Greedy(Policy())]
    assert all(higher[: len(lower)] == lower for lower, higher in pairwise(done))
    assert len({task.seed for task in done[3][9:]}) == 40 + 10 * 4


def test_two_chains_start_from_different_tables_and_continue_from_the_better_one():
    def outcome(first, bits):
        entries = (TableEntry((first, first + 1), 5, 5),)
        return TaskOutcome(SearchResult(entries, Bits(bits, 0.0), Bits(99.0, 0.0), Tally(), converged=True))

    work = parts(Policy(), plan(4, limited=False), 0)
    tasks = next(work)
    for number, bits in enumerate([50, 50, 40, 45]):  # one width, several widths, polished, random widths
        tasks = work.send([outcome(number, bits)] * len(tasks))
    chains = [task for task in tasks if isinstance(task, Local)]
    assert [task.segment.start for task in chains] == [(((2, 3), 5),), (((3, 4), 5),)]
    tasks = work.send([outcome(7, 39), outcome(8, 38)] + [outcome(9, 60)] * (len(tasks) - 2))
    assert {task.segment.start for task in tasks if isinstance(task, Local)} == {(((8, 9), 5),)}


@pytest.mark.parametrize(
    ("effort", "limited", "expected"),
    [
        (None, False, Plan(several=False, rounds=0)),
        (None, True, Plan(several=True, rounds=None)),
        (1, True, Plan(several=False, rounds=0)),
        (2, True, Plan(several=True, rounds=0)),
        (3, False, Plan(several=True, rounds=1)),
        (8, False, Plan(several=True, rounds=4**5)),
    ],
)
def test_a_time_limit_without_an_effort_is_used_up(effort, limited, expected):
    assert plan(effort, limited=limited) == expected
