"""Run cells in worker processes: one process per group of cells, several at a time.

If a cell fails, the failure is recorded and the others continue. If the runner is killed, only the running cells are
lost, and the workers exit too. The cells of a group share the partition, the table of all data and the tables of the
members alone, which are computed once.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from fedslim.data import load
from fedslim.errors import WriteError
from fedslim.experiments.declarations import BUDGETS, Cell
from fedslim.experiments.store import Store, reference_tables
from fedslim.federated import Simulation, compare, divide, mine_alone, simulate
from fedslim.federated.records import simulation_record
from fedslim.federated.simulation import prepare
from fedslim.mdl.covering import worth
from fedslim.mdl.mining import mine
from fedslim.metrics import predict_gap

Tell = Callable[["CellState", str | None], None]
Folder = str | Path | None

TELL_EVERY = 1.0

LAST_LINES = 20  # of what a process printed, for the reason why it failed


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

    def __init__(self, store: Store, folder: Folder = None, references: Folder = None) -> None:
        self._store, self._folder, self._references = store, folder, references
        self._state = CellState(0)
        self._tell: Tell = lambda _state, _message: None
        self._turn = Lock()  # of the thread that changes the state or tells it
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._ended = False

    def run(self, cells: Iterable[Cell], *, jobs: int = 1, tell: Tell | None = None) -> CellState:
        """Run the cells that have no record of the current data, in parallel processes.

        `tell` is called with the progress, and with a message whenever a cell is finished; one call at a time.
        """
        cells = list(dict.fromkeys(cells))
        state = self._state = CellState(len(cells))
        tell = self._tell = tell or self._tell
        digest = cache(lambda data: load(data, folder=self._folder).digest())
        groups: dict[Any, list[Cell]] = {}
        for cell in cells:
            record = self._store.look(cell)
            if record is None or isinstance(record, str):
                groups.setdefault(cell.group, []).append(cell)
            elif record.settings.get("data_digest") != digest(cell.data):
                tell(state, f"{cell.key}: the data have changed since it was recorded; it runs again")
                groups.setdefault(cell.group, []).append(cell)
            else:
                self._store.add_references(cell, self._references)
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

    def _run_group(self, cells: list[Cell]) -> None:
        """Run the cells of a group in a process; if it dies, one cell has failed, and another process runs the rest."""
        left = {cell.key: cell for cell in cells}
        while left and not self._ended:
            printed: deque[str] = deque(maxlen=LAST_LINES)
            with suppress(BrokenPipeError), self._start(list(left.values())) as process:
                assert process.stdout is not None  # noqa: S101  # it is a pipe
                for line in process.stdout:
                    try:
                        key, state, doing = json.loads(line)
                    except ValueError:
                        printed.append(line.decode(errors="replace").rstrip())
                        continue
                    if state != "running":
                        del left[key]
                    self._note(key, state, doing)
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
                    self._store.fail(cell, "\n".join([*printed, reason]))
                self._note(cell.key, "failed", reason)

    def _start(self, cells: list[Cell]) -> subprocess.Popen[bytes]:
        """Start a process, which tells of its cells on its standard output; a Ctrl-C does not reach it."""
        pipe, command = subprocess.PIPE, [sys.executable, "-P", "-m", __name__]
        process = subprocess.Popen(  # noqa: S603  # ourselves
            command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, start_new_session=True
        )
        self._processes.add(process)
        if self._ended:
            process.kill()
        assert process.stdin is not None  # noqa: S101  # it is a pipe
        with suppress(BrokenPipeError):  # a process that died already is reported when its output ends
            pickle.dump((cells, self._store, self._folder, self._references), process.stdin)
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


# -- in a worker process -------------------------------------------------------------------------------------------


def run_cells(
    cells: Sequence[Cell],
    store: Store,
    *,
    folder: Folder = None,
    references: Folder = None,
    tell: Callable[[Cell, str, str], None] = lambda _cell, _state, _doing: None,
) -> None:
    """Run the cells of one group, and save each record as soon as it is complete."""
    now = cells[0]

    def doing(text: str) -> None:
        tell(now, "running", text)

    def fail(cell: Cell, error: Exception) -> None:
        store.fail(cell, traceback.format_exc())
        tell(cell, "failed", f"{type(error).__name__}: {error}")

    try:
        group = _Group(now, store, folder, references, doing)
    except Exception as error:  # noqa: BLE001  # all need it
        for cell in cells:
            fail(cell, error)
        return
    for now in cells:
        try:
            tell(now, "done", group.run(now))
        except Exception as error:  # noqa: BLE001  # one cell does not stop the others
            fail(now, error)


class _Group:
    def __init__(
        self, cell: Cell, store: Store, folder: Folder, references: Folder, doing: Callable[[str], None]
    ) -> None:
        self._store, self._doing = store, doing
        doing(f"reading {cell.data}")
        database = load(cell.data, folder=folder)
        self._digest = database.digest()
        doing("mining all data in one place")
        self._centralised = centralised = mine(database, width=cell.width).table
        setting = cell.setting
        how: dict[str, Any] = {"min_dominant": setting.min_dominant} if setting.min_dominant else {}
        how |= {"members": setting.members, "seed": cell.seed}
        table = centralised if cell.width == 1 else None  # a partition does not depend on the width
        self._partition = divide(database, setting.scheme, table=table, **how)
        doing("mining each member alone")
        self._alone = mine_alone(self._partition.parts, centralised, width=cell.width)
        assert self._alone is not None  # noqa: S101  # None only if it was stopped
        doing("computing the gains of the itemsets in the table of all data")
        self._predicted = predict_gap(centralised, worth(database, centralised), self._alone.gap).as_dict()
        self._others = reference_tables(references, cell.data)

    def run(self, cell: Cell) -> str:
        """Run one cell, and return a summary of the result."""
        self._doing(f"preparing {cell.variant}")
        prepare(cell.variant)
        due = 0.0

        def on_progress(now: Any, communication: Any) -> None:
            nonlocal due
            if time.monotonic() >= due:
                due = time.monotonic() + TELL_EVERY
                self._doing(f"L% {now.percent:.2f}, {now.itemsets} itemsets, {communication.rounds} rounds")

        how: dict[str, Any] = {"variant": cell.variant, "width": cell.width, "seed": cell.seed}
        simulation = simulate(self._partition, **how, on_progress=on_progress)
        compared = compare(simulation, alone=self._alone)
        c = self._centralised
        record = simulation_record(
            simulation,
            compared,
            data=cell.data,
            command=cell.command,
            others=self._others,
            figures={
                "centralised_L_percent": c.compression.L_percent,
                "centralised_itemsets": len(c),
                "equal": simulation.table == c,
                **self._predicted,
                **_at_budgets(simulation),
            },
            settings={"cell": cell.as_dict(), "data_digest": self._digest},
        )
        self._store.save(cell, record)
        f = record.figures
        return f"L% {f['L_percent']:.2f}, F1 {f['f1']:.3f}, GRR {f['grr']:.3f}, {f['seconds']:.1f} s"


def _at_budgets(simulation: Simulation) -> dict[str, float]:
    """Return L% after each fraction of the run's time, as if that had been its time budget."""
    steps = simulation.history
    figures = {}
    for part in BUDGETS:
        reached = [step.L_percent for step in steps if step.seconds <= part * simulation.seconds]
        figures[f"L_percent_at_{part:.3f}"] = reached[-1] if reached else 100.0
    return figures


def work() -> None:
    """Run the cells that the runner has sent, and tell it what happens to them."""
    cells, store, folder, references = pickle.load(sys.stdin.buffer)  # noqa: S301  # from the runner
    Thread(target=_end_with_the_runner, daemon=True).start()

    def tell(cell: Cell, state: str, doing: str) -> None:
        print(json.dumps((cell.key, state, doing)), flush=True)  # noqa: T201  # to the runner

    run_cells(cells, store, folder=folder, references=references, tell=tell)


def _end_with_the_runner() -> None:
    """Exit when the standard input closes, which means that the runner has ended."""
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    # Not the classes of this file, which runs as `__main__`.
    from fedslim.experiments.running import work as main

    main()
