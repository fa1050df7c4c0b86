"""Compare X of these sources with X of another checkout: rounds, bytes and CPU time, and CPU time of one place.

    git worktree add /tmp/before COMMIT
    .venv/bin/python bench/versus.py /tmp/before --sets adult,mushroom --members 10,128

Each measurement has its own process. The two versions alternate, and take turns to go first, so that changes in the
speed of the machine affect both. CPU time is that of the server and all members, or of mining all data in one place
with one thread; the best of several runs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]

WORKER = """
import json, sys, time
from fedslim.data import load
from fedslim.data.partition import iid
from fedslim.federated.simulation import prepare, simulate
from fedslim.mdl.mining import mine
name, members, repeat, options = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
database = load(name)
parts = iid(database, members, seed=0)
prepare("x")
mine(load("encounters"))
began = time.process_time()
mine(database, threads=1)
alone = time.process_time() - began
best = None
for _ in range(repeat):
    began = time.process_time()
    run = simulate(parts, variant="x", **options)
    took = time.process_time() - began
    best = took if best is None else min(best, took)
traffic = run.communication
figures = {"rounds": traffic.rounds, "bytes": traffic.bytes_total, "cpu": best, "alone": alone}
print(json.dumps(figures | {"L": run.table.compression.L_percent}))
"""


def measured(sources: Path, name: str, members: int, repeat: int, options: dict[str, int]) -> dict[str, float]:
    """Measure a federation of these sources in a new process."""
    command = [sys.executable, "-c", WORKER, name, str(members), str(repeat), json.dumps(options)]
    environment = os.environ | {"PYTHONPATH": str(sources / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="a checkout of the sources to compare with")
    parser.add_argument("--sets", default="adult", help="data sets, as for `fedslim mine`")
    parser.add_argument("--members", default="10,128", help="numbers of members")
    parser.add_argument("--turns", type=int, default=3, help="number of turns of each version")
    parser.add_argument("--repeat", type=int, default=1, help="runs in each process")
    parser.add_argument("--options", default="{}", help="options of `simulate` for these sources only, as JSON")
    chosen = parser.parse_args()
    os.environ.setdefault("FEDSLIM_DATA", str(HERE.parent / "shared" / "data"))
    print("| data | members | rounds | bytes | CPU s | one place, CPU s | L% |\n|---|---:|---:|---:|---:|---:|---:|")
    for name in chosen.sets.split(","):
        for members in map(int, chosen.members.split(",")):
            runs: dict[str, list[dict[str, float]]] = {"before": [], "after": []}
            sides = [("before", chosen.before, {}), ("after", HERE, json.loads(chosen.options))]
            for turn in range(chosen.turns):
                for which, sources, options in sides[:: -1 if turn % 2 else 1]:
                    runs[which].append(measured(sources, name, members, chosen.repeat, options))
            old, new = (min(runs[which], key=lambda run: run["cpu"]) for which in ("before", "after"))
            cells = [
                f"{old['rounds']:,.0f} → {new['rounds']:,.0f} ({new['rounds'] - old['rounds']:+.0f})",
                f"{old['bytes']:,.0f} → {new['bytes']:,.0f} ({100 * (new['bytes'] / old['bytes'] - 1):+.2f} %)",
                f"{old['cpu']:.2f} → {new['cpu']:.2f} ({100 * (new['cpu'] / old['cpu'] - 1):+.1f} %)",
                " → ".join(f"{min(run['alone'] for run in runs[which]):.3f}" for which in ("before", "after")),
                f"{old['L']:.2f} → {new['L']:.2f}",
            ]
            print(f"| {name} | {members} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
