from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from fedslim.data import TransactionDatabase, builtin_database
from fedslim.mdl import crew as crew_module, effort, mine
from fedslim.mdl.crew import Crew, Helper
from fedslim.mdl.driver import Stop, stopping_on_interrupt
from fedslim.mdl.effort import Greedy, Local, carry_out
from fedslim.mdl.local_search import Segment, itemsets_of
from fedslim.mdl.policy import Policy

DB = builtin_database("encounters").take(range(300))


@pytest.fixture(scope="module")
def start():
    return itemsets_of(carry_out(Greedy(Policy()), DB, Stop()).result)


def ready(crew):
    """Start helpers, and wait until they are ready."""
    crew._hand_out([], [None] * 2)
    deadline = time.monotonic() + 120
    while not all(helper.ready for helper in crew._helpers):
        crew._collect([], {}, 1.0)
        assert time.monotonic() < deadline
    return crew


@pytest.fixture
def with_helpers(monkeypatch):
    monkeypatch.setattr(crew_module, "WORTH_HELP", 0.0)
    crews = []

    def make(workers, stop=None):
        crews.append(Crew(DB, stop or Stop(), workers))
        return ready(crews[-1])

    yield make
    for crew in crews:
        crew.end()


def segments(start, iterations, n=2):
    return [Local(Policy(), Segment(start, iterations), (7, chain)) for chain in range(n)]


def test_helpers_find_what_this_process_finds(with_helpers, start):
    tasks = [Greedy(Policy(width=2)), *segments(start, 10), Greedy(Policy(width=3))]
    alone = Crew(DB, Stop(), 1).carry_out(tasks)
    crew = with_helpers(3)
    assert len(crew._helpers) == 2
    together = crew.carry_out(tasks)
    assert together == alone
    assert [o.result.tally for o in together] == [o.result.tally for o in alone]
    assert crew._busy() == []


def test_the_task_of_a_helper_that_is_killed_is_carried_out_by_another(with_helpers, start, monkeypatch):
    tasks = segments(start, 15)
    alone = Crew(DB, Stop(), 1).carry_out(tasks)
    crew = with_helpers(2)
    (helper,) = crew._helpers
    given = Helper.send

    def send(self, message):
        given(self, message)
        self._process.kill()

    monkeypatch.setattr(Helper, "send", send)
    assert crew.carry_out(tasks) == alone
    assert crew._helpers == []
    assert helper._process.wait() == -signal.SIGKILL


def test_a_stop_ends_helpers_with_their_best_tables(with_helpers, start):
    stop = Stop()
    crew = with_helpers(2, stop)
    before = carry_out(Greedy(Policy(), start), DB, Stop()).bits
    threading.Timer(3.0, stop.ask).start()
    outcomes = crew.carry_out(segments(start, 10**9))
    assert len(outcomes) == 2
    assert all(o.bits < before and o.iterations > 0 and not o.result.converged for o in outcomes)


def test_a_helper_ends_with_its_process(with_helpers):
    crew = with_helpers(2)
    (helper,) = crew._helpers
    helper._outbox.put(None)
    helper._threads[0].join()
    helper._process.stdin.close()
    assert helper._process.wait(timeout=20) == 0


def test_helpers_are_not_started_for_little_work(start):
    crew = Crew(DB, Stop(), 4)
    assert len(crew.carry_out(segments(start, 1))) == 2
    assert crew._helpers is None


def test_without_helpers_the_work_is_done_all_the_same(monkeypatch, start):
    def fail(*_):
        raise OSError

    monkeypatch.setattr(crew_module, "WORTH_HELP", 0.0)
    monkeypatch.setattr(crew_module, "Helper", fail)
    crew = Crew(DB, Stop(), 4)
    assert len(crew.carry_out(segments(start, 1))) == 2
    assert crew._helpers == []


@pytest.mark.parametrize("threads", [2, 3])
def test_the_result_of_a_local_search_does_not_depend_on_the_number_of_processes(monkeypatch, threads):
    monkeypatch.setattr(effort, "ITERATIONS", 5)
    one = mine(DB, effort=3, threads=1, seed=4)
    monkeypatch.setattr(crew_module, "WORTH_HELP", 0.0)
    other = mine(DB, effort=3, threads=threads, seed=4)
    assert one.converged
    assert other.table == one.table
    assert other.tally == one.tally


def test_a_time_limit_alone_is_used_up_and_a_longer_one_is_no_worse():
    short, long = mine(DB, max_time=0.5), mine(DB, max_time=3)
    assert (short.ending, long.ending) == ("out of time", "out of time")
    assert 3 <= long.seconds < 3 + crew_module.GRACE
    # On a busy machine the time may be too short to find anything better.
    others = (short, mine(DB, effort=1))
    assert long.table.compression.after.total <= min(other.table.compression.after.total for other in others)


def test_ctrl_c_keeps_the_best_table(start):
    stop = Stop()

    def press(progress):
        if progress.iterations > 3 and not stop.asked:
            os.kill(os.getpid(), signal.SIGINT)

    with stopping_on_interrupt(stop):
        mined = mine(DB, effort=8, stop=stop, on_progress=press)
    assert mined.ending == "interrupted"
    assert mined.table.compression.after.total < carry_out(Greedy(Policy(), start), DB, Stop()).bits


def test_a_local_search_ends_by_itself_where_there_is_nothing_to_find():
    db = TransactionDatabase.from_transactions([[1], [2], [3]])
    assert mine(db, max_time=30).ending == "converged"


def test_progress_counts_iterations_and_names_the_best(monkeypatch):
    monkeypatch.setattr("fedslim.mdl.driver.REPORT_EVERY", 0.0)
    monkeypatch.setattr("fedslim.mdl.effort.ITERATIONS", 20)
    monkeypatch.setattr("fedslim.mdl.effort.FIRST_ROUNDS", 1)
    seen = []
    mined = mine(DB, effort=3, on_progress=seen.append)
    assert {p.policies for p in seen} == {9 + 40}
    assert seen[0].iterations == 0
    assert seen[-1].iterations > 0
    assert all(p.best <= p.percent or p.iterations for p in seen)
    assert seen[-1].best == pytest.approx(mined.table.compression.L_percent, abs=0.5)
