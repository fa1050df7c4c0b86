"""Measure federations; each call runs in its own process.

    python bench/federation_worker.py ratio '{"data": "chess", "members": 10, "runs": 1}'

Clocks start when the kernels of every variant are ready and the members have their data; `compiled` lists kernels that
were compiled while the clock ran. CPU seconds cover the whole call: the server, all members, and their set-up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedslim.federated import divide, simulate
from fedslim.federated.simulation import prepare
from fedslim.mdl.mining import mine
from fedslim.protocol.variant import VARIANTS
from warm import every_kernel
from wire import Clock, Teller, Values, peak_mb, serve
from worker import compilations, loaded

if TYPE_CHECKING:
    from fedslim.data import Partition, TransactionDatabase
    from fedslim.federated import Simulation
    from fedslim.mdl.codetable import CodeTable

SEED = 0


def ratio(data: str, members: int, runs: int) -> Values:
    """Measure the CPU seconds of `x`, with and without masks, and of all data in one place, in turn, several times."""
    database, partition, before = _ready(data, members)
    turns = [
        {
            "centralised": _centralised(database)[1],
            "masked": _federated(partition, "x")[1],
            "plain": _federated(partition, "x", masking=False)[1],
        }
        for _ in range(runs)
    ]
    return {**before, "members": members, "turns": turns}


def large(data: str, members: int) -> Values:
    """Measure time and memory of one run of `x`, and the time for all data in one place."""
    database, partition, before = _ready(data, members)
    before["peak_mb_loaded"] = peak_mb()
    _, figures = _federated(partition, "x")
    figures["peak_mb"] = peak_mb()
    return {**before, "members": members, "x": figures, "centralised": _centralised(database)[1]}


# -- help ----------------------------------------------------------------------------------------------------------


def _ready(data: str, members: int) -> tuple[TransactionDatabase, Partition, Values]:
    """Return the partitioned data, after everything that must not be measured."""
    every_kernel()
    for variant in VARIANTS:
        prepare(variant)
    database, before = loaded(data)
    return database, divide(database, "iid", members=members, seed=SEED), before


def _centralised(database: TransactionDatabase) -> tuple[CodeTable, Values]:
    with compilations() as compiled:
        clock = Clock()
        mined = mine(database, threads=1)
        times = clock.read()
    return mined.table, {
        **times,
        "L_percent": mined.table.compression.L_percent,
        "itemsets": len(mined.table),
        "candidates": mined.tally.candidates,
        "compiled": compiled,
    }


def _federated(partition: Partition, variant: str, *, masking: bool = True) -> tuple[Simulation, Values]:
    tell = Teller()
    with compilations() as compiled:
        clock = Clock()
        ran = simulate(
            partition,
            variant=variant,
            masking=masking,
            seed=SEED,
            on_progress=lambda now, said: tell(
                f"{variant}: {now.itemsets} itemsets, {said.rounds} rounds, {now.seconds:.0f} s"
            ),
        )
        times = clock.read()
    kept = ("L_percent", "itemsets", "candidates", "rounds", "bytes_total", "bytes_up", "bytes_down", "by_kind")
    told = ran.as_dict()
    return ran, {**times, **{name: told[name] for name in (*kept, "converged")}, "compiled": compiled}


if __name__ == "__main__":
    serve({"ratio": ratio, "large": large})
