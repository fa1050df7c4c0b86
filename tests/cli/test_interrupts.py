from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from fedslim.cli.console.progress import keep_interrupts
from fedslim.mdl.codetable import CodeTable

LONG = "accidents-like:40000"
STARTED = "itemset"  # what the live display shows once something has been found


def test_the_first_ctrl_c_keeps_the_best_so_far(terminal, tmp_path):
    out = tmp_path / "table.json"
    run = terminal("mine", LONG, "--out", out, "--json", stdout=subprocess.PIPE)
    run.wait_for(STARTED)
    run.process.send_signal(signal.SIGINT)
    printed = run.process.stdout.read()
    assert run.finish() == 0
    assert "Traceback" not in run.screen
    record = json.loads(printed)
    assert (record["ending"], record["converged"]) == ("interrupted", False)
    table = CodeTable.load(out)
    assert len(table) == record["itemsets"] > 0
    assert table.compression.L_percent == record["L_percent"] < 100


def test_the_second_ctrl_c_gives_up(tmp_path):
    code = """
import signal, sys
import fedslim.mdl.mining as engine
from fedslim.cli import main

def mine(database, **how):
    signal.raise_signal(signal.SIGINT)
    assert how["stop"].asked
    print("asked", file=sys.stderr)
    signal.raise_signal(signal.SIGINT)

engine.mine = mine
sys.exit(main(sys.argv[1:]))
"""
    out = tmp_path / "table.json"
    done = subprocess.run(
        [sys.executable, "-c", code, "mine", "encounters", "--out", str(out)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.endswith("asked\nfedslim: interrupted\n")
    assert not out.exists()


def test_ctrl_c_before_mining_ends_it_with_one_line():
    code = """
import signal, sys
import fedslim.data
from fedslim.cli import main

fedslim.data.load = lambda *_, **__: signal.raise_signal(signal.SIGINT)
sys.exit(main(sys.argv[1:]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, "mine", "encounters", "--quiet"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "fedslim: interrupted\n")


def test_no_interrupt_is_lost_where_exceptions_are_dropped(capsys):
    class Dropping:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGINT)

    def compiling():
        held = Dropping()
        del held  # exceptions here are printed and dropped, as in a compiler's callback

    with pytest.raises(KeyboardInterrupt), keep_interrupts():
        compiling()
    assert capsys.readouterr().err == ""
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_that_was_raised_is_raised_once():
    with pytest.raises(KeyboardInterrupt), keep_interrupts():
        signal.raise_signal(signal.SIGINT)


def test_other_dropped_exceptions_are_told_as_ever(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: told.append(dropped.exc_type))

    class Dropping:
        def __del__(self):
            raise LookupError

    with keep_interrupts():
        held = Dropping()
        del held
    assert told == [LookupError]


def test_ctrl_c_that_means_nothing_goes_on_meaning_nothing():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with keep_interrupts():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_in_another_thread_nothing_is_touched():
    reached = []

    def work():
        with keep_interrupts():
            reached.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert reached == [True]
