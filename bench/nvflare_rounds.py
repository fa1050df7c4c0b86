"""Compare a round over NVFlare with one over fedslim's own network: the figures of docs/how-to/nvflare.md.

    make .venv-nvflare/.ready
    .venv-nvflare/bin/python bench/nvflare_rounds.py --data chess --members 10

The same federation runs three times: in one process, as processes over TLS on loopback, and in NVFlare's simulator,
which uses processes too. The code tables must be equal. The time of a round is measured between the first and the last
change of the code table, without starting and joining; with more sites than cores, it includes waiting for a core.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from fedslim.data import load
from fedslim.engines.simulator import JOB_ID, RESULTS, simulate as simulate_nvflare
from fedslim.federated import divide, simulate
from fedslim.federated.loopback import Loopback
from fedslim.federated.records import load_run
from fedslim.federated.simulation import named_databases, prepare


def main() -> None:
    """Run all three and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="chess", help="data set, as for fedslim mine; public ones from FEDSLIM_DATA")
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--variant", default="x")
    given = parser.parse_args()
    prepare(given.variant)
    sites = named_databases(divide(load(given.data), "iid", members=given.members, seed=0))
    print(f"{given.data}, {given.variant}, {given.members} sites\n")
    print("| carried by | rounds | bytes | ms a round | start to end, s |\n|---|---:|---:|---:|---:|")
    here = simulate(sites, variant=given.variant)
    rounds, sent = here.communication.rounds, here.communication.bytes_total
    _row("one process, no line", rounds, sent, 1e3 * here.seconds / rounds, here.seconds)
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        federation = Loopback.make(Path(folder), sites, variant=given.variant)
        found = federation.run()
        seconds = time.perf_counter() - began
        assert found.table == here.table  # noqa: S101
        sent = sum(kind.bytes for kind in found.record.traffic)
        _row("own TLS, processes", rounds, sent, _of_a_round(federation.out("server")), seconds)
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        over = simulate_nvflare(sites, variant=given.variant, folder=Path(folder) / "run")
        seconds = time.perf_counter() - began
        assert over.table == here.table  # noqa: S101
        out = Path(folder) / "run" / "workspace" / "server" / JOB_ID / RESULTS
        said = over.communication
        _row("NVFlare's simulator, processes", said.rounds, said.bytes_total, _of_a_round(out), seconds)


def _of_a_round(out: Path) -> float:
    """Return the milliseconds per round, from the server's history."""
    history = load_run(out).history
    return 1e3 * (history[-1].seconds - history[0].seconds) / (history[-1].round - history[0].round)


def _row(what: str, rounds: int, sent: int, milliseconds: float, seconds: float) -> None:
    print(f"| {what} | {rounds:,} | {sent:,} | {milliseconds:.1f} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
