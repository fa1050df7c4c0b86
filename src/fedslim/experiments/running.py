"""Run cells in worker processes: one process per group of cells, several at a time.

If a cell fails, the failure is recorded and the others continue. If the runner is killed, only the running cells are
lost; the workers exit too, because they read from a pipe that closes with the runner.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from fedslim.data import load
from fedslim.errors import WriteError
from fedslim.experiments.declarations import Cell
from fedslim.experiments.store import Store

Tell = Callable[["CellState", str | None], None]

LAST_WORDS = 20  # number of output lines of a worker to keep for the failure record


@dataclass(slots=True)
class CellState:
    """The progress of all cells."""

    total: int
    done: int = 0
    kept: int = 0  # had a record before
    failed: int = 0
    running: dict[str, str] = field(default_factory=dict)  # cell -> current step
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.began

    @property
    def remaining(self) -> float | None:
        """Estimated seconds left, if the remaining cells take as long as those run so far."""
        ran = self.done + self.failed
        left = self.total - self.kept - ran
        return self.seconds / ran * left if ran else None


class Runner:
    """Runs the cells that have no record in the store; a thread for each process listens to it."""

    def __init__(self, store: Store, folder: str | Path | None = None, references: str | Path | None = None) -> None:
        self._store = store
        self._options: dict[str, Any] = {"store": store.folder, "folder": folder, "references": references}
        self._digests: dict[str, str] = {}
        self._state = CellState(0)
        self._tell: Tell = lambda _state, _message: None
        self._turn = Lock()  # of the thread that changes the state or tells it
        self._processes: set[subprocess.Popen[str]] = set()
        self._ended = False

    def run(self, cells: Iterable[Cell], *, jobs: int = 1, tell: Tell | None = None) -> CellState:
        """Run the cells that have no record of the current data, in parallel processes.

        `tell` is called with the progress, and with a message whenever a cell is finished; one call at a time.
        """
        cells = list(dict.fromkeys(cells))
        state = self._state = CellState(len(cells))
        tell = self._tell = tell or self._tell
        groups: dict[Any, list[Cell]] = {}
        for cell in cells:
            record = self._store.look(cell)
            if record is None or isinstance(record, str):
                groups.setdefault(cell.group, []).append(cell)
            elif record.settings.get("data_digest") != self._digest(cell.data):
                tell(state, f"{cell.key}: the data have changed since it was recorded; it runs again")
                groups.setdefault(cell.group, []).append(cell)
            else:
                self._store.add_references(cell, self._options["references"])
                state.kept += 1
        with ThreadPoolExecutor(jobs) as pool:
            try:
                waiting = {pool.submit(self._run_group, group) for group in groups.values()}
                while waiting:
                    ended, waiting = wait(waiting, timeout=0.5)
                    for each in ended:
                        each.result()
                    with self._turn:
                        tell(state, None)
            finally:
                self._ended = True
                pool.shutdown(wait=False, cancel_futures=True)
                for process in list(self._processes):
                    process.kill()
        return state

    def _digest(self, data: str) -> str:
        """Return the digest of the current data."""
        if data not in self._digests:
            self._digests[data] = load(data, folder=self._options["folder"]).digest()
        return self._digests[data]

    def _run_group(self, cells: list[Cell]) -> None:
        """Run the cells of a group in a process; if it dies, one cell has failed, and another process runs the rest."""
        left = {cell.key: cell for cell in cells}
        while left and not self._ended:
            output: deque[str] = deque(maxlen=LAST_WORDS)
            with suppress(BrokenPipeError), self._start(list(left.values())) as process:
                assert process.stdout is not None  # noqa: S101  # it is a pipe
                for line in process.stdout:
                    try:
                        event = json.loads(line)
                    except ValueError:
                        output.append(line.rstrip())
                        continue
                    if event["state"] != "running":
                        del left[event["cell"]]
                    self._note(**event)
            self._processes.discard(process)
            if left and not self._ended:
                cell = left.pop(next(iter(left)))
                if self._store.done(cell):  # it died after saving the record, before reporting it
                    self._note(cell.key, "done", "done")
                    continue
                code = process.returncode
                how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
                reason = f"its process {how}"
                with suppress(WriteError):  # a full disk may be the reason
                    self._store.fail(cell, "\n".join([*output, reason]))
                self._note(cell.key, "failed", reason)

    def _start(self, cells: list[Cell]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "fedslim.experiments.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        self._processes.add(process)
        if self._ended:
            process.kill()
        assert process.stdin is not None  # noqa: S101  # it is a pipe
        job = json.dumps({**self._options, "cells": [cell.as_dict() for cell in cells]}, default=str)
        with suppress(BrokenPipeError):  # a process that died already is reported when its output ends
            process.stdin.write(job + "\n")
            process.stdin.flush()  # and keep it open: the process exits when it closes
        return process

    def _note(self, cell: str, state: str, doing: str) -> None:
        """Note and tell what a process says about a cell."""
        with self._turn:
            if state == "running":
                self._state.running[cell] = doing
                self._tell(self._state, None)
                return
            self._state.running.pop(cell, None)
            self._state.done += state == "done"
            self._state.failed += state == "failed"
            self._tell(self._state, f"{cell}: {'failed: ' if state == 'failed' else ''}{doing}")
