"""NVFlare's simulator: the same tables as over fedslim's own transport, and errors that name the site."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from importlib.util import find_spec

import pytest

from fedslim.data import TransactionDatabase
from fedslim.engines import require, simulator
from fedslim.engines.simulator import EndedEarly, simulate
from fedslim.errors import MissingExtraError, RunError
from fedslim.federated.records import load_run
from fedslim.mdl.codetable import CodeTable
from fedslim.mdl.driver import Stop
from fedslim.settings.federation_file import FederationFile

needs_nvflare = pytest.mark.skipif(
    find_spec("nvflare") is None,
    reason="NVFlare is not installed: make test-nvflare, or pip install 'fedslim[nvflare]'",
)


def test_without_nvflare_we_say_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "nvflare", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'fedslim\[nvflare\]'"):
        require("nvflare")


@pytest.mark.parametrize(
    "command", [["simulate", "encounters", "--engine", "nvflare"], ["nvflare", "status", "job", "--kit", "admin"]]
)
def test_the_command_line_says_so_too(command):
    code = "import sys; sys.modules['nvflare'] = None; from fedslim.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "fedslim: error: NVFlare is not installed: pip install 'fedslim[nvflare]'\n"


@pytest.mark.parametrize(("variant", "given", "width"), [("x", None, 8), ("x", 3, 3), ("sa", None, 1), ("so", 1, 1)])
def test_the_federation_file_of_a_simulation_has_the_width_asked_for(monkeypatch, tmp_path, variant, given, width):
    class EnoughError(Exception):
        pass

    def run(folder, *_rest):
        raise EnoughError(FederationFile.read(folder / "federation.toml").limits.width)

    monkeypatch.setattr(simulator, "require", lambda _name: None)
    monkeypatch.setattr(simulator, "run_simulator", run)
    database = TransactionDatabase.from_transactions([["a", "b"]])
    with pytest.raises(EnoughError, match=f"^{width}$"):
        simulate([database, database], variant=variant, width=given, folder=tmp_path / "run")


@pytest.mark.parametrize(("effort", "seed", "limits"), [(1, 5, (1, 0)), (3, 5, (3, 5))])
def test_the_federation_file_of_a_simulation_has_the_effort_and_the_seed(monkeypatch, tmp_path, effort, seed, limits):
    written = []
    monkeypatch.setattr(simulator, "require", lambda _name: None)
    monkeypatch.setattr(simulator, "run_simulator", lambda folder, *_: written.append(folder) or 1 / 0)
    database = TransactionDatabase.from_transactions([["a", "b"]])
    with pytest.raises(ZeroDivisionError):
        simulate([database, database], effort=effort, seed=seed, folder=tmp_path / "run")
    found = FederationFile.read(written[0] / "federation.toml").limits
    assert (found.effort, found.seed) == limits


@needs_nvflare
@pytest.mark.parametrize("variant", ["x", "sa", "so"])
def test_the_simulator_finds_the_table_of_our_own_transport(hospitals, native, variant, tmp_path):
    found = simulate(hospitals, variant=variant, folder=tmp_path / "run")
    assert found.table == native[variant].table
    assert found.tally == native[variant].tally
    assert found.communication.rounds == native[variant].communication.rounds
    assert found.converged
    if variant == "x":
        told = CodeTable.load(tmp_path / "run" / "sites" / "west" / "simulate_job" / "codetable.json")
        assert replace(told, vocabulary=found.table.vocabulary) == found.table


@needs_nvflare
def test_a_stop_keeps_the_best_so_far(hospitals):
    stop = Stop()
    seen = []

    def watch(progress, said):
        seen.append((progress.itemsets, said.rounds))
        stop.ask()

    found = simulate(hospitals, variant="sa", stop=stop, on_progress=watch)
    assert found.ending == "interrupted"
    assert seen


@needs_nvflare
def test_a_site_that_is_killed_is_named_and_the_best_so_far_is_kept(hospitals, tmp_path):
    folder = tmp_path / "run"
    results = folder / "workspace" / "server" / "simulate_job" / "fedslim"

    def kill():
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            time.sleep(0.05)
            try:
                running = json.loads((results / "status.json").read_bytes())["itemsets"] > 0
            except (OSError, ValueError):
                continue
            if running:
                os.kill(_process_of("west", folder), signal.SIGKILL)
                return

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(EndedEarly, match="west") as ended:
        simulate(hospitals, variant="sa", folder=folder, grace=3)
    killer.join()
    assert ended.value.simulation.ending == "member lost"
    assert len(ended.value.simulation.table) > 0
    record = load_run(results).figures
    assert record["ending"] == "member lost"
    assert len(CodeTable.load(results / "codetable.json")) == record["itemsets"] > 0


def _process_of(site, folder):
    """The process of a site: the simulator names the folder and the site in its arguments."""
    listed = subprocess.run(["ps", "-wweo", "pid,args"], capture_output=True, text=True, check=True).stdout  # noqa: S607
    mine = [line.split() for line in listed.splitlines() if str(folder) in line and "simulator_worker" in line]
    return next(int(words[0]) for words in mine if site in words)


class Call:
    """A stand-in for NVFlare's facade, with calls to members that a test provides."""

    def __init__(self, caller="server", members=None):
        self.caller, self.members, self.is_aborted, self.called = caller, members or {}, False, []

    def get_clients(self, names):
        return lambda **_options: Call._Group(self, names)

    class _Group:
        def __init__(self, facade, names):
            self.facade, self.names = facade, names

        def answer(self, frame):
            results, failures = [], {}
            for name in self.names:
                self.facade.called.append((name, frame))
                try:
                    results.append((name, self.facade.members[name](frame)))
                except OSError as error:
                    failures[name] = error
            return type("Results", (list,), {"failures": failures})(results)


@pytest.fixture
def engine():
    pytest.importorskip("nvflare", reason="NVFlare is not installed: make test-nvflare")
    from fedslim.engines import engine

    return engine("nvflare")


def test_only_the_server_is_answered(engine, monkeypatch):
    member = engine.FedslimMember()
    member._member = type("Member", (), {"answer": lambda _self, frame: frame * 2})()
    monkeypatch.setattr(engine, "collab", Call("server"))
    assert member.answer(b"ab") == b"abab"
    for caller, frame in (("south", b"ab"), ("server", "ab")):
        monkeypatch.setattr(engine, "collab", Call(caller))
        with pytest.raises(PermissionError, match="only the server may call this"):
            member.answer(frame)


def test_what_goes_wrong_at_a_site_stays_there(engine, monkeypatch):
    noted = []

    def fail(_self, _frame):
        msg = "patient 17 has no item"
        raise KeyError(msg)

    member = engine.FedslimMember()
    member._member = type("Member", (), {"answer": fail, "note": lambda _self, text: noted.append(text)})()
    monkeypatch.setattr(engine, "collab", Call("server"))
    with pytest.raises(RuntimeError) as told:
        member.answer(b"ab")
    assert str(told.value) == "it cannot go on; its own log says why"
    assert told.value.__context__ is None
    assert "patient 17" in noted[0]


def test_a_frame_goes_to_its_member_only_and_failures_are_named(engine, monkeypatch):
    def gone(_frame):
        msg = "no route"
        raise OSError(msg)

    facade = Call(members={"a": lambda frame: frame + b"!", "b": gone, "c": lambda _frame: "text"})
    monkeypatch.setattr(engine, "collab", facade)
    collected = engine._call({"a": b"one", "b": b"two", "c": b"one"}, 5.0)
    assert sorted(facade.called) == [("a", b"one"), ("b", b"two"), ("c", b"one")]
    assert collected.replies == {"a": b"one!"}
    assert collected.failures == {"b": "no route", "c": "it answered with str, not with a frame"}
    facade.is_aborted = True
    with pytest.raises(RunError, match="the job was aborted") as broken:
        engine._call({"a": b"one", "b": b"two"}, 5.0)
    assert broken.value.unanswered == {"b"}


def test_what_engines_log_reaches_nvflares_handlers_once_and_escaped(engine, logged):
    for _ in range(2):
        engine._set_up_logs()
    logging.getLogger("fedslim.engines.server").warning("%s disconnected: %s", "west", "100%s\n\x1b[2J")
    logging.getLogger("fedslim.safeguards.guard").warning("123 transactions")  # which stays at the site
    assert logged.record_tuples == [("fedslim.engines.server", logging.WARNING, "west disconnected: 100%s \ufffd[2J")]
