"""Measure the search on Ray: beside one process and two threads, and how time and memory grow with the data.

    python bench/ray_rows.py 1 4 16                  # times the size of Accidents; needs fedslim[ray]

Each search goes on to 200 itemsets. Memory is the peak of a worker, which includes Python, numba and Ray: about 250 MB.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedslim.data import load
from fedslim.engines.rows import rows_on_ray
from fedslim.mdl.driver import Progress, Stop
from fedslim.mdl.mining import mine, prepare
from fedslim.mdl.questions import Together

ITEMSETS, ACCIDENTS, EMPTY_ROUNDS, WORKERS = 200, 340_183, 200, 2


def _search(data: Any, **how: Any) -> float:
    stop = Stop()

    def on_progress(now: Progress) -> None:
        if now.itemsets >= ITEMSETS:
            stop.ask()

    return mine(data, stop=stop, on_progress=on_progress, **how).seconds


def _peaks() -> list[float]:
    """Return the peak memory of each worker, in MB."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cmdline").read_text().startswith("ray::RowWorker"):
                status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
                found.append(int(status["VmHWM"].split()[0]) / 1024)
    return found


def measure(times: float) -> dict[str, Any]:
    """Measure one size."""
    database = load(f"accidents-like:{round(ACCIDENTS * times)}")
    figures: dict[str, Any] = {"transactions": database.transactions, "occurrences": database.occurrences}
    figures |= {f"threads_{n}": _search(database, threads=n) for n in (1, 2)}
    began = time.monotonic()
    with rows_on_ray(database, workers=WORKERS) as rows:
        figures["start"] = time.monotonic() - began
        figures["ray"] = _search(rows)
        began = time.monotonic()
        for _ in range(EMPTY_ROUNDS):
            rows.ask(Together(()))
        figures["round_ms"] = (time.monotonic() - began) / EMPTY_ROUNDS * 1000
        figures["peak_mb"] = _peaks()
    figures["bytes_each"] = max(figures["peak_mb"]) * 2**20 / (database.occurrences / WORKERS)
    return figures


if __name__ == "__main__":
    prepare()
    for given in sys.argv[1:] or ["1"]:
        print(json.dumps(measure(float(given))), flush=True)
