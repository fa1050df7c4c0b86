"""NVFlare's simulator: the same tables as over our own transport, and an end that names the site."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from importlib.util import find_spec

import pytest

from fedslim.engines import require_nvflare
from fedslim.engines.simulator import simulate
from fedslim.errors import MissingExtraError, RunError
from fedslim.mdl.codetable import CodeTable
from fedslim.mdl.driver import Stop

needs_nvflare = pytest.mark.skipif(
    find_spec("nvflare") is None,
    reason="NVFlare is not installed: make test-nvflare, or pip install 'fedslim[nvflare]'",
)


def test_without_nvflare_we_say_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "nvflare", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'fedslim\[nvflare\]'"):
        require_nvflare()


@pytest.mark.parametrize(
    "command", [["simulate", "encounters", "--engine", "nvflare"], ["nvflare", "status", "job", "--kit", "admin"]]
)
def test_the_command_line_says_so_too(command):
    code = "import sys; sys.modules['nvflare'] = None; from fedslim.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "fedslim: error: NVFlare is not installed: pip install 'fedslim[nvflare]'\n"


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
    with pytest.raises(RunError, match="west"):
        simulate(hospitals, variant="sa", folder=folder, grace=3)
    killer.join()
    record = json.loads((results / "run.json").read_text("utf-8"))
    assert record["ending"] == "member lost"
    assert len(CodeTable.load(results / "codetable.json")) == record["itemsets"] > 0


def _process_of(site, folder):
    """The process of a site: the simulator names the folder and the site in its arguments."""
    listed = subprocess.run(["ps", "-wweo", "pid,args"], capture_output=True, text=True, check=True).stdout  # noqa: S607
    mine = [line.split() for line in listed.splitlines() if str(folder) in line and "simulator_worker" in line]
    return next(int(words[0]) for words in mine if site in words)
