"""Nodes, workers and drivers that die, in a cluster of several nodes on this machine. Run with make test-ray."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest
import ray
from ray.cluster_utils import Cluster

from fedslim.data import load
from fedslim.engines import ray as engine
from fedslim.engines.rows import mine_on_ray
from fedslim.mdl import mine
from fedslim.schema import Schema

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own
COMMAND = [sys.executable, "-m", "fedslim", "mine"]
LONG = 300  # seconds, also on a machine that is slow and busy


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("visits")
    database = load("encounters")
    flags = pd.DataFrame(0, index=range(len(database)), columns=list(database.vocabulary[:40]))
    for t, items in enumerate(database):
        flags.loc[t, [item for item in items if item in flags.columns]] = 1
    table = flags.astype(bool).assign(age=[t % 83 + 0.5 for t in range(len(database))])
    for k in range(4):
        table[k::4].to_parquet(folder / f"{k}.parquet")
    columns = {name: {"kind": "boolean"} for name in flags.columns} | {"age": {"kind": "numeric", "bins": 5}}
    return folder, Schema.of({"columns": columns})


@pytest.fixture
def cluster():
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes = [made.add_node(num_cpus=2) for _ in range(2)]
    ray.init(made.address, log_to_driver=False)
    yield made, nodes
    ray.shutdown()
    made.shutdown()


def processes():
    """Return the id, the parent's id and the command, if any, of every process that has not ended."""
    command = ["/bin/ps", "-ww", "-eo", "pid=,ppid=,stat=,args="]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = [line.split(None, 3) for line in shown.splitlines()]
    return [(int(pid), int(parent), "".join(args)) for pid, parent, state, *args in found if state[0] != "Z"]


def workers_of(ancestor):
    """Return the ids of the processes below another one in which workers run."""
    found = processes()
    below = [ancestor]
    for parent in below:  # which grows
        below += [pid for pid, its, _ in found if its == parent]
    return [pid for pid, _, command in found if pid in below and command.startswith("ray::RowWorker")]


def wait_for(condition, process=None):
    """Return what the condition returns as soon as that is true."""
    end = time.monotonic() + LONG
    while not (found := condition()):
        assert process is None or process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def lose(made, node):
    """Remove a node, and wait until its workers are gone: they outlive it for so long that a short search could end."""
    (raylet,) = node.all_processes["raylet"]
    lost = set(wait_for(lambda: workers_of(raylet.process.pid)))  # the other nodes have too few CPUs for all
    made.remove_node(node, allow_graceful=False)
    wait_for(lambda: lost.isdisjoint(pid for pid, _, _ in processes()))


PHASES = {"reading": "read", "agreeing": "count_up_to", "searching": "answer"}


@pytest.mark.parametrize("phase", PHASES)
def test_a_node_that_dies_changes_nothing(visits, cluster, monkeypatch, phase):
    folder, schema = visits
    made, nodes = cluster
    calls = {"lost": 0, PHASES[phase]: 0}
    call, start = engine.RayEngine.call, engine.RayEngine.start

    def counted(self, worker, method, *about):
        ticket = call(self, worker, method, *about)
        if method == PHASES[phase]:
            calls[method] += 1
            if calls[method] == 2:
                lose(made, nodes[0])
        return ticket

    def started(self, part, *, again):
        calls["lost"] += again
        return start(self, part, again=again)

    monkeypatch.setattr(engine.RayEngine, "call", counted)
    monkeypatch.setattr(engine.RayEngine, "start", started)
    there = mine_on_ray(folder, workers=4, reading={"schema": schema})
    assert there.table == mine(load(folder, schema=schema)).table
    assert calls["lost"] > 0


def test_a_worker_that_dies_changes_nothing(visits, cluster, monkeypatch):
    folder, schema = visits
    assert cluster
    killed = []
    call = engine.RayEngine.call

    def deadly(self, worker, method, *about):
        if method == "answer" and len(killed) < 3:
            killed.append(worker)
            ray.kill(worker)
        return call(self, worker, method, *about)

    monkeypatch.setattr(engine.RayEngine, "call", deadly)
    assert mine_on_ray(folder, workers=3, reading={"schema": schema}).table == mine(load(folder, schema=schema)).table
    assert len(killed) == 3


def mining(*options, stderr=subprocess.STDOUT):
    return subprocess.Popen(
        [*COMMAND, *options], stdout=subprocess.PIPE, stderr=stderr, text=True, start_new_session=True
    )


def test_a_driver_that_was_killed_resumes_from_its_journal(tmp_path):
    journal, there, here = (tmp_path / name for name in ("journal", "there.json", "here.json"))
    data = ["accidents-like:3000", "--top", "0"]
    command = [*data, "--engine", "ray", "--workers", "2", "--out", str(there), "--journal", str(journal)]
    first = mining(*command)
    wait_for(lambda: journal.exists() and journal.stat().st_size > 60_000, first)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    first.stdout.close()
    assert not there.exists()
    again = mining(*command)
    assert again.wait(timeout=LONG) == 0, again.communicate()[0]
    again.stdout.close()
    assert not journal.exists()
    one = subprocess.run([*COMMAND, *data, "--out", str(here)], check=True, capture_output=True)
    assert one.returncode == 0
    assert there.read_bytes() == here.read_bytes()


def test_a_worker_that_is_killed_leaves_no_mark_on_the_output(tmp_path):
    journal, err = tmp_path / "journal", tmp_path / "err"
    command = ["accidents-like:20000", "--engine", "ray", "--workers", "2", "--journal", str(journal), "--json"]
    with err.open("w") as stderr:
        running = mining(*command, stderr=stderr)
    wait_for(lambda: journal.exists() and journal.stat().st_size > 100_000, running)
    first, _ = workers_of(running.pid)
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: "is started again" in err.read_text(), running)
    os.killpg(running.pid, signal.SIGINT)
    assert json.loads(running.communicate(timeout=LONG)[0])["ending"] == "interrupted"
    assert re.fullmatch(r"fedslim: worker [12] of 2 is started again: .*", err.read_text().strip().splitlines()[-1])


def test_ctrl_c_gives_the_best_so_far(tmp_path):
    journal, out = tmp_path / "journal", tmp_path / "out.json"
    running = mining(
        "accidents-like:20000", "--engine", "ray", "--workers", "2", "--out", str(out), "--journal", str(journal)
    )
    wait_for(lambda: journal.exists() and journal.stat().st_size > 100_000, running)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does
    said = running.communicate(timeout=LONG)[0]
    assert running.returncode == 0, said
    assert "stopped by Ctrl-C" in said
    assert out.exists()
    assert journal.exists()  # the same command would go on
