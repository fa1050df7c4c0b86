"""Measure the preparation of a federation: rounds, bytes and seconds for 40 columns of 10 bins at ten members.

python bench/preparation.py [ROWS ...]

All members and the server are in this process, so the seconds are those of all of them together.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pandas as pd

from fedslim.data import ItemSecret
from fedslim.data.frames import dataframe_table
from fedslim.federated.simulation import entropy_of, prepare, prepare_together
from fedslim.schema import Schema, agree, conform

COLUMNS, BINS, MEMBERS = 40, 10, 10


def measure(rows: int, step: float | None) -> str:
    """Prepare once; return a line of the table."""
    rule = {"kind": "numeric", "bins": BINS} | ({} if step is None else {"resolution": step})
    schema = Schema.of({"columns": {f"c{number}": rule for number in range(COLUMNS)}})
    values = np.random.default_rng(1).normal(50, 20, (rows, COLUMNS))
    frames = [pd.DataFrame(values[k::MEMBERS], columns=list(schema.columns)) for k in range(MEMBERS)]
    sites = {f"m{k}": conform(schema, dataframe_table(frame)) for k, frame in enumerate(frames)}
    began = time.process_time()
    made = prepare_together(schema, sites, ItemSecret.from_random(bytes(32)), entropy_of(1))
    seconds = time.process_time() - began
    found = made.encoding.rules.agreed.cuts  # type: ignore[union-attr]
    assert found == agree(schema, list(sites.values())).cuts  # noqa: S101  # a measurement of a wrong result is no use
    up, down = (made.communication.bytes_up / MEMBERS / 1e3, made.communication.bytes_down / MEMBERS / 1e3)
    step_text = "exact" if step is None else f"{step:g}"
    return f"{rows:>8,} {step_text:>10} {made.communication.rounds:>6} {up:>10.0f} {down:>10.0f} {seconds:>8.2f}"


def main() -> None:
    """Print a table."""
    prepare("x")
    measure(1000, 1.0)  # compiles
    print("    rows resolution rounds   kB up/member  kB down  CPU s")
    for rows in map(int, sys.argv[1:] or ("1000", "10000", "100000")):
        for step in (1.0, None):
            print(measure(rows, step), flush=True)


if __name__ == "__main__":
    main()
