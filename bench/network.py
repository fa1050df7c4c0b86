"""Measure a round over TLS between processes on this machine, and compare these sources with another checkout.

    git worktree add /tmp/before COMMIT
    .venv/bin/python bench/network.py --before /tmp/before
    .venv/bin/python bench/network.py --delay 0.05              # with this delay each way, in seconds

Each run starts a server and its members as processes. The versions take turns; the best run of each counts. With a
delay, a round should take two delays: one round trip.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]

WORKER = """
import asyncio, sys, tempfile, threading
from pathlib import Path
from fedslim.data import load
from fedslim.data.partition import iid
from fedslim.federated.loopback import HOST, Loopback, free_port

rows, members, delay = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])

async def carry(reader, writer):
    "Forward data in order, each piece after the delay."
    loop, queue = asyncio.get_running_loop(), asyncio.Queue()
    async def deliver():
        while (item := await queue.get())[1]:
            await asyncio.sleep(max(0.0, item[0] + delay - loop.time()))
            writer.write(item[1])
        writer.close()
    delivering = asyncio.create_task(deliver())
    while data := await reader.read(1 << 16):
        queue.put_nowait((loop.time(), data))
    queue.put_nowait((loop.time(), b""))
    await delivering

async def relay(port, target):
    async def accept(reader, writer):
        for _ in range(600):
            try:
                there, to = await asyncio.open_connection(HOST, target)
                break
            except OSError:
                await asyncio.sleep(0.05)
        await asyncio.gather(carry(reader, to), carry(there, writer), return_exceptions=True)
    await (await asyncio.start_server(accept, HOST, port)).serve_forever()

with tempfile.TemporaryDirectory() as folder:
    parts = iid(load("encounters").take(range(rows)), members, seed=0).parts
    files = Loopback.make(Path(folder), {f"m{k}": part for k, part in enumerate(parts)})
    more = []
    if delay:
        target = free_port()
        threading.Thread(target=lambda: asyncio.run(relay(files.port, target)), daemon=True).start()
        begin, more = files.start_server, ["--port", str(target)]
        Loopback.start_server = lambda self, *given: begin(*given, *more)
    record = files.run().record
    steps = record.history
    first, last = steps[0], steps[-1]
    print((last.seconds - first.seconds) / (last.round - first.round), record.figures["rounds"])
"""


def measured(sources: Path, rows: int, members: int, delay: float) -> tuple[float, int]:
    """Return the seconds per round, and the number of rounds."""
    command = [sys.executable, "-c", WORKER, str(rows), str(members), str(delay)]
    environment = os.environ | {"PYTHONPATH": str(sources / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    seconds, rounds = done.stdout.split()
    return float(seconds), int(rounds)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="a checkout of the sources to compare with")
    parser.add_argument("--rows", type=int, default=3000, help="number of built-in encounters")
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--delay", type=float, default=0.0, help="delay each way, in seconds")
    parser.add_argument("--turns", type=int, default=3)
    chosen = parser.parse_args()
    versions = {"these": HERE} | ({"before": chosen.before} if chosen.before else {})
    best: dict[str, tuple[float, int]] = {}
    for turn in range(chosen.turns):
        for name in list(versions)[:: 1 if turn % 2 else -1]:
            found = measured(versions[name], chosen.rows, chosen.members, chosen.delay)
            best[name] = min(found, best.get(name, found))
    print("| sources | rounds | ms a round |\n|---|---:|---:|")
    for name, (seconds, rounds) in best.items():
        print(f"| {name} | {rounds:,} | {1000 * seconds:.2f} |")


if __name__ == "__main__":
    main()
