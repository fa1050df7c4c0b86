"""The worker process, which runs the cells of one group; it reads its job from the first line of stdin.

The cells share the partition, the table of all data and the tables of the members alone, which are computed once.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from threading import Thread
from typing import TYPE_CHECKING, Any

from fedslim.data import load
from fedslim.experiments.declarations import BUDGETS, Cell
from fedslim.experiments.store import Store, reference_tables
from fedslim.federated import compare, divide, mine_alone, simulate
from fedslim.federated.records import simulation_record
from fedslim.federated.simulation import prepare
from fedslim.mdl.covering import worth
from fedslim.mdl.mining import mine
from fedslim.metrics import predict_gap

if TYPE_CHECKING:
    from fedslim.federated import Simulation

Tell = Callable[[Cell, str, str], None]

TELL_EVERY = 1.0


def run_cells(
    cells: Sequence[Cell],
    store: Store,
    *,
    folder: str | None = None,
    references: str | None = None,
    tell: Tell = lambda _cell, _state, _doing: None,
) -> None:
    """Run the cells of one group, and save each record as soon as it is complete."""
    left = list(cells)
    try:
        group = _Group(cells[0], store, folder, references, lambda doing: tell(left[0], "running", doing))
        while left:
            cell = left[0]
            try:
                tell(cell, "done", group.run(cell))
            except Exception:  # noqa: BLE001  # one cell does not stop the others
                _record_failure(cell, store, tell)
            left.pop(0)
    except Exception:  # noqa: BLE001  # record the failure for each remaining cell
        for cell in left:
            _record_failure(cell, store, tell)


def _record_failure(cell: Cell, store: Store, tell: Tell) -> None:
    error = sys.exception()
    store.fail(cell, traceback.format_exc())
    tell(cell, "failed", f"{type(error).__name__}: {error}")


class _Group:
    def __init__(
        self, cell: Cell, store: Store, folder: str | None, references: str | None, doing: Callable[[str], None]
    ) -> None:
        self._store, self._doing = store, doing
        doing(f"reading {cell.data}")
        database = load(cell.data, folder=folder)
        self._digest = database.digest()
        centralised = store.centralised(cell.data, self._digest, cell.width)
        if centralised is None:
            doing("mining all data in one place")
            centralised = mine(database, width=cell.width).table
            store.keep_centralised(cell.data, self._digest, cell.width, centralised)
        self._centralised, setting = centralised, cell.setting
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
        reached = [step["L_percent"] for step in steps if step["seconds"] <= part * simulation.seconds]
        figures[f"L_percent_at_{part:.3f}"] = reached[-1] if reached else 100.0
    return figures


def _end_with_the_runner() -> None:
    """Exit when stdin closes, which means that the runner has ended."""
    while sys.stdin.readline():
        pass
    os._exit(1)


def main() -> None:
    """Run the job on the first line of stdin."""
    job = json.loads(sys.stdin.readline())
    Thread(target=_end_with_the_runner, daemon=True).start()

    def tell(cell: Cell, state: str, doing: str) -> None:
        print(json.dumps({"cell": cell.key, "state": state, "doing": doing}), flush=True)  # noqa: T201  # to the runner

    cells = [Cell.of(fields) for fields in job["cells"]]
    run_cells(cells, Store(job["store"]), folder=job["folder"], references=job["references"], tell=tell)


if __name__ == "__main__":
    main()
