"""Run cells in worker processes: one process per group of cells, several at a time.

    Runner(store, folder).run(cells, jobs=2, tell=print)

If a cell fails, the failure is recorded and the others continue. If the runner is killed, only the running cells are
lost; the workers exit too, because they read from a pipe that closes with the runner.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

from fedslim.data import load
from fedslim.errors import WriteError
from fedslim.experiments.references import add_references

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from fedslim.experiments.declarations import Cell
    from fedslim.experiments.store import Store

LAST_WORDS = 20
"""Number of output lines of a worker to keep for the failure record."""


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


@dataclass(slots=True)
class _Job:
    cells: list[Cell]
    process: subprocess.Popen[str]
    open: set[str]
    output: deque[str]
    threads: list[Thread]

    def end(self) -> int:
        """Wait until the process has ended and all output was read; return the exit code."""
        code = self.process.wait()
        for thread in self.threads:
            thread.join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None  # noqa: S101  # all of them are pipes
            with suppress(OSError):
                pipe.close()
        return code


class Runner:
    """Runs the cells that have no record in the store."""

    def __init__(self, store: Store, folder: str | Path | None = None, references: str | Path | None = None) -> None:
        self._store = store
        self._options = {
            "store": str(store.folder),
            "folder": None if folder is None else str(folder),
            "references": None if references is None else str(references),
        }
        self._digests: dict[str, str] = {}
        self._events: SimpleQueue[tuple[_Job, dict[str, Any] | None]] = SimpleQueue()

    def run(
        self, cells: Iterable[Cell], *, jobs: int = 1, tell: Callable[[CellState, str | None], None] | None = None
    ) -> CellState:
        """Run the cells.

        Args:
            cells: The cells to run; those with a record of the current data are kept.
            jobs: Number of parallel processes.
            tell: Called with the progress, and with a message whenever a cell is finished.
        """
        tell = tell or (lambda _state, _message: None)
        cells = list(dict.fromkeys(cells))
        state = CellState(len(cells))
        groups: dict[Any, list[Cell]] = {}
        for cell in cells:
            record = self._store.look(cell)
            if record is None or isinstance(record, str):
                groups.setdefault(cell.group, []).append(cell)
            elif record.settings.get("data_digest") != self._digest(cell.data):
                tell(state, f"{cell.key}: the data have changed since it was recorded; it runs again")
                groups.setdefault(cell.group, []).append(cell)
            else:
                add_references(cell, self._store, self._options["references"])
                state.kept += 1
        waiting: deque[list[Cell]] = deque(groups.values())
        running: list[_Job] = []
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    running.append(self._start(waiting.popleft()))
                if rest := self._listen(running, state, tell):
                    waiting.appendleft(rest)
        finally:
            for job in running:
                job.process.kill()
            for job in running:
                job.end()
        return state

    def _digest(self, data: str) -> str:
        """Return the digest of the current data."""
        if data not in self._digests:
            self._digests[data] = load(data, folder=self._options["folder"]).digest()
        return self._digests[data]

    def _start(self, cells: list[Cell]) -> _Job:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "fedslim.experiments.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        job = _Job(cells, process, {cell.key for cell in cells}, deque(maxlen=LAST_WORDS), [])
        job.threads = [Thread(target=listen, args=(job,), daemon=True) for listen in (self._hear, _keep)]
        for thread in job.threads:
            thread.start()
        assert process.stdin is not None  # noqa: S101  # it is a pipe
        with suppress(BrokenPipeError):  # a process that died already is reported when its output ends
            process.stdin.write(json.dumps({**self._options, "cells": [cell.as_dict() for cell in cells]}) + "\n")
            process.stdin.flush()  # and keep it open: the process exits when it closes
        return job

    def _hear(self, job: _Job) -> None:
        assert job.process.stdout is not None  # noqa: S101  # it is a pipe
        for line in job.process.stdout:
            try:
                self._events.put((job, json.loads(line)))
            except ValueError:
                job.output.append(line.rstrip())
        self._events.put((job, None))

    def _listen(
        self, running: list[_Job], state: CellState, tell: Callable[[CellState, str | None], None]
    ) -> list[Cell]:
        """Handle one event; return the cells of an ended process that have not been run."""
        try:
            job, event = self._events.get(timeout=0.5)
        except Empty:
            tell(state, None)
            return []
        message: str | None = None
        rest: list[Cell] = []
        if event is None:
            running.remove(job)
            message, rest = self._finish(job, state)
        elif event["state"] == "running":
            state.running[event["cell"]] = event["doing"]
        else:
            state.running.pop(event["cell"], None)
            job.open.discard(event["cell"])
            if event["state"] == "done":
                state.done += 1
                message = f"{event['cell']}: {event['doing']}"
            else:
                state.failed += 1
                message = f"{event['cell']}: failed: {event['doing']}"
        tell(state, message)
        return rest

    def _finish(self, job: _Job, state: CellState) -> tuple[str | None, list[Cell]]:
        """Handle the end of a process: the cell it was running has failed; return the others for another process."""
        code = job.end()
        left = [cell for cell in job.cells if cell.key in job.open]
        if not left:
            return None, []
        cell, *rest = left
        state.running.pop(cell.key, None)
        if self._store.done(cell):  # it died after saving the record, before reporting it
            state.done += 1
            return f"{cell.key}: done", rest
        state.failed += 1
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        reason = f"its process {how}"
        with suppress(WriteError):  # a full disk may be the reason
            self._store.fail(cell, "\n".join([*job.output, reason]))
        return f"{cell.key}: failed: {reason}", rest


def _keep(job: _Job) -> None:
    assert job.process.stderr is not None  # noqa: S101  # it is a pipe
    for line in job.process.stderr:
        job.output.append(line.rstrip())
