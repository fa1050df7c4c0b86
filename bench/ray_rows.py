"""Measure the search on Ray: beside one process and two threads, and how time and memory grow with the data.

    python bench/ray_rows.py 1 4 16                  # times the size of Accidents; needs fedslim[ray]

Each search goes on to 200 itemsets. Memory is the peak of a worker, which includes Python, numba and Ray: about 250 MB.
CPU seconds are those of all workers, and depend less than other times on what else the machine does. With
`--no-threads` only Ray is measured.
"""

from __future__ import annotations

import json
import os
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


def _workers() -> tuple[list[float], float]:
    """Return the peak memory of each worker, in MB, and the CPU seconds of all workers."""
    found, seconds = [], 0.0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cmdline").read_text().startswith("ray::RowWorker"):
                status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
                found.append(int(status["VmHWM"].split()[0]) / 1024)
                used = (process / "stat").read_text().rpartition(")")[2].split()[11:13]
                seconds += sum(map(int, used)) / os.sysconf("SC_CLK_TCK")
    return found, seconds


def measure(times: float, threads: tuple[int, ...]) -> dict[str, Any]:
    """Measure one size."""
    database = load(f"accidents-like:{round(ACCIDENTS * times)}")
    figures: dict[str, Any] = {"transactions": database.transactions, "occurrences": database.occurrences}
    figures |= {f"threads_{n}": _search(database, threads=n) for n in threads}
    began = time.monotonic()
    with rows_on_ray(database, workers=WORKERS) as rows:
        figures["start"] = time.monotonic() - began
        _, before = _workers()
        figures["ray"] = _search(rows)
        figures["peak_mb"], after = _workers()
        figures["cpu"] = {"before": before, "search": after - before}
        began = time.monotonic()
        for _ in range(EMPTY_ROUNDS):
            rows.ask(Together(()))
        figures["round_ms"] = (time.monotonic() - began) / EMPTY_ROUNDS * 1000
    figures["bytes_each"] = max(figures["peak_mb"]) * 2**20 / (database.occurrences / WORKERS)
    return figures


if __name__ == "__main__":
    prepare()
    sizes = [given for given in sys.argv[1:] if given != "--no-threads"]
    for size in sizes or ["1"]:
        print(json.dumps(measure(float(size), () if "--no-threads" in sys.argv else (1, 2))), flush=True)
