"""What the tests of the command line share."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest

from fedslim.cli import main
from fedslim.cli.console import progress

COMMAND = (sys.executable, "-m", "fedslim")
PATIENCE = 180.0
"""Seconds after which a process is given up: the first one may have to compile the engine."""


@dataclass(frozen=True)
class Ran:
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def only_line(self):
        """The single line on stderr."""
        assert self.err.count("\n") == 1, self.err
        assert "Traceback" not in self.err
        return self.err.rstrip("\n")


@pytest.fixture(autouse=True)
def _plain_surroundings(tmp_path_factory, monkeypatch):
    """Hide the user's data, cache and colour settings from all tests."""
    for name in ("FEDSLIM_DATA", "FORCE_COLOR", "NO_COLOR", "COLUMNS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FEDSLIM_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8")


@pytest.fixture
def fedslim(capsys, monkeypatch):
    """Runs a command in this process, without progress lines however slow the machine."""
    monkeypatch.setattr(progress, "WORTH_TELLING", PATIENCE)
    monkeypatch.setattr(progress, "FIRST_LINE", PATIENCE)

    def run(*arguments):
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def process():
    """Runs a command in a process of its own."""

    def run(*arguments, **how):
        done = subprocess.run(
            [*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE, check=False, **how
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def loaded_by():
    """The names of the packages that a successful command loads, in a process of its own."""
    code = """
import sys
from fedslim.cli import main
from fedslim.cli.console import progress
code = main(sys.argv[1:])
print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
sys.exit(code)
"""

    def run(*arguments):
        command = [sys.executable, "-c", code, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr
        return set(done.stderr.split())

    return run


class Terminal:
    """A command with stderr, and optionally stdout, on a pseudo-terminal."""

    def __init__(self, arguments, *, columns, term, stdout):
        self._ours, theirs = pty.openpty()
        os.set_blocking(self._ours, False)
        surroundings = {**os.environ, "TERM": term, "COLUMNS": str(columns), "LINES": "40"}
        self.process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)], stdin=theirs, stdout=stdout or theirs, stderr=theirs, env=surroundings
        )
        os.close(theirs)
        self.screen = ""

    def wait_for(self, text):
        """Read until the terminal has shown `text`."""
        end = time.monotonic() + PATIENCE
        while text not in self.screen:
            assert time.monotonic() < end, self.screen
            assert self._read(), f"ended without showing {text!r}: {self.screen}"

    def finish(self):
        """Read to the end and return the exit code."""
        while self._read():
            pass
        return self.process.wait(PATIENCE)

    def _read(self):
        ready, _, _ = select.select([self._ours], [], [], PATIENCE)
        assert ready, self.screen
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # raised on Linux when the other end is closed
            return False
        self.screen += data.decode(errors="replace")
        return bool(data)

    def close(self):
        """Kill the process and close the terminal."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        if self.process.stdout is not None:
            self.process.stdout.close()
        os.close(self._ours)


@pytest.fixture
def terminal():
    """Starts a command on a terminal."""
    with contextlib.ExitStack() as stack:

        def start(*arguments, columns=100, term="xterm-256color", stdout=None):
            started = Terminal(arguments, columns=columns, term=term, stdout=stdout)
            stack.callback(started.close)
            return started

        yield start


@pytest.fixture
def baskets(tmp_path):
    """A small file with two itemsets to find."""
    path = tmp_path / "baskets.dat"
    path.write_text("1 2 3\n1 2 3\n1 2 3\n4 5\n4 5\n1 2 3 4 5\n6\n" * 8)
    return path
