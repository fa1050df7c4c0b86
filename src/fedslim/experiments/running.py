"""Running cells: one process for the cells that share their data, several at a time.

    Runner(store, folder).run(cells, jobs=2, tell=print)

A cell that fails is noted and the rest go on. Whoever is killed loses the cells that were running, and their processes
end with it: they listen to a pipe that closes with the runner.
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
"""How many lines of what a process said on stderr are kept for when it fails."""


@dataclass(slots=True)
class CellState:
    """How far everything is."""

    total: int
    done: int = 0
    kept: int = 0  # were there before
    failed: int = 0
    running: dict[str, str] = field(default_factory=dict)  # cell -> what it does
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self.began

    @property
    def remaining(self) -> float | None:
        """About how many seconds are left, if those to come are like those that were run."""
        ran = self.done + self.failed
        left = self.total - self.kept - ran
        return self.seconds / ran * left if ran else None


@dataclass(slots=True)
class _Job:
    cells: list[Cell]
    process: subprocess.Popen[str]
    open: set[str]
    said: deque[str]
    threads: list[Thread]

    def end(self) -> int:
        """Wait until everything was heard; returns the exit code."""
        code = self.process.wait()
        for thread in self.threads:
            thread.join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None  # noqa: S101  # all of them are pipes
            with suppress(OSError):
                pipe.close()
        return code


class Runner:
    """Runs cells that are not in the store yet."""

    def __init__(self, store: Store, folder: str | Path | None = None, references: str | Path | None = None) -> None:
        self._store = store
        self._told = {
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
            cells: Which; those that have a record of the data as they are now are kept.
            jobs: How many processes at a time.
            tell: Called with how far it is, and with a sentence whenever a cell is finished.
        """
        tell = tell or (lambda _state, _said: None)
        cells = list(dict.fromkeys(cells))
        state = CellState(len(cells))
        groups: dict[Any, list[Cell]] = {}
        for cell in cells:
            record = self._store.look(cell)
            if record is None or isinstance(record, str):
                groups.setdefault(cell.group, []).append(cell)
            elif record.settings.get("data_digest") != self._digest(cell.data):
                tell(state, f"{cell.key}: the data are not those of its record any more; it is run again")
                groups.setdefault(cell.group, []).append(cell)
            else:
                add_references(cell, self._store, self._told["references"])
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
        """Of the data as they are now."""
        if data not in self._digests:
            self._digests[data] = load(data, folder=self._told["folder"]).digest()
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
        with suppress(BrokenPipeError):  # if it died already, that is told when its output ends
            process.stdin.write(json.dumps({**self._told, "cells": [cell.as_dict() for cell in cells]}) + "\n")
            process.stdin.flush()  # and stays open: when it closes, the process ends
        return job

    def _hear(self, job: _Job) -> None:
        assert job.process.stdout is not None  # noqa: S101  # it is a pipe
        for line in job.process.stdout:
            try:
                self._events.put((job, json.loads(line)))
            except ValueError:
                job.said.append(line.rstrip())
        self._events.put((job, None))

    def _listen(
        self, running: list[_Job], state: CellState, tell: Callable[[CellState, str | None], None]
    ) -> list[Cell]:
        """Hear one thing; returns cells that have lost their process and are still to be run."""
        try:
            job, event = self._events.get(timeout=0.5)
        except Empty:
            tell(state, None)
            return []
        said: str | None = None
        rest: list[Cell] = []
        if event is None:
            running.remove(job)
            said, rest = self._over(job, state)
        elif event["state"] == "running":
            state.running[event["cell"]] = event["doing"]
        else:
            state.running.pop(event["cell"], None)
            job.open.discard(event["cell"])
            if event["state"] == "done":
                state.done += 1
                said = f"{event['cell']}: {event['doing']}"
            else:
                state.failed += 1
                said = f"{event['cell']}: failed: {event['doing']}"
        tell(state, said)
        return rest

    def _over(self, job: _Job, state: CellState) -> tuple[str | None, list[Cell]]:
        """A process has ended. What it was at has failed; what it had not begun is for another."""
        code = job.end()
        left = [cell for cell in job.cells if cell.key in job.open]
        if not left:
            return None, []
        cell, *rest = left
        state.running.pop(cell.key, None)
        if self._store.done(cell):  # it died between keeping the record and saying so
            state.done += 1
            return f"{cell.key}: done", rest
        state.failed += 1
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        reason = f"the process that ran it {how}"
        with suppress(WriteError):  # the disk may be what it died of
            self._store.fail(cell, "\n".join([*job.said, reason]))
        return f"{cell.key}: failed: {reason}", rest


def _keep(job: _Job) -> None:
    assert job.process.stderr is not None  # noqa: S101  # it is a pipe
    for line in job.process.stderr:
        job.said.append(line.rstrip())
