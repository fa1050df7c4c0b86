"""`fedslim demo --network`: the demo with real processes, compared with the result of one process."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from fedslim.cli.console.output import grid, summary
from fedslim.cli.console.running import compile_with_progress
from fedslim.cli.console.stream import print_rich
from fedslim.cli.console.text import count, duration, shown_items, size
from fedslim.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from fedslim.cli.console.progress import Reporter
    from fedslim.federated import Simulation
    from fedslim.federated.loopback import LoopbackResult
    from fedslim.safeguards.audit_summary import Summary

    Runs = list[tuple[Simulation, LoopbackResult, Summary]]

MEMBERS = ("north", "south", "west")
SHOWN = 5


def networked_demo(data: str, variants: Sequence[str], report: Reporter) -> None:
    """Run a server and three members as separate processes, over mutual TLS on loopback, and print the result.

    Raises:
        RunError: A process failed, or the processes found another table than one process finds.
    """
    with report.stage("loading"):
        from fedslim.data import load
        from fedslim.data.partition import iid
        from fedslim.federated.loopback import NOTHING_LEFT_OUT, Loopback
        from fedslim.federated.simulation import prepare, simulate
        from fedslim.safeguards.audit_summary import summarise

        parts = dict(zip(MEMBERS, iid(load(data), len(MEMBERS), seed=0).parts, strict=True))
    runs: Runs = []
    for variant in variants:
        compile_with_progress(report, lambda: prepare(variant))  # noqa: B023  # called at once
        with report.stage(f"mining in one process: {variant}"):
            # The defaults of a federation file; sa and so have no smallest count.
            limits = {"min_count": 5, "min_members_with": 2} if variant == "x" else NOTHING_LEFT_OUT
            simulation = simulate(parts, variant=variant, **limits)
        with tempfile.TemporaryDirectory(prefix="fedslim-demo-") as folder:
            with report.stage("enrolling a server and its members"):
                federation = Loopback.make(Path(folder), parts, variant=variant, limits=limits)
            with report.stage(f"mining with a server and {len(MEMBERS)} members on 127.0.0.1: {variant}"):
                result = federation.run()
            audit = summarise(federation.out(MEMBERS[0]) / "audit.jsonl")
        if any(table != simulation.table for table in (result.table, *result.told.values())):
            msg = f"{variant}: the processes found a different table than one process; report this as a bug"
            raise RunError(msg)
        runs.append((simulation, result, audit))
    print_rich(_itemsets(runs), _variants(runs), summary(_facts(data, runs)))


def _itemsets(runs: Runs) -> Table:
    table = runs[0][1].table
    rows = [(f"{e.bits_saved:,.0f}", f"{e.usage:,}", shown_items(e.labels)) for e in table.top(SHOWN)]
    return grid(("bits saved", "usage", f"found by {runs[0][0].variant}"), rows, right=2)


def _variants(runs: Runs) -> Table:
    rows = [
        (
            f"{len(result.table):,}",
            f"{result.table.compression.L_percent:.2f}",
            f"{result.record.figures['rounds']:,}",
            size(sum(kind.bytes for kind in result.record.traffic)),
            duration(result.seconds),
            simulation.variant,
            f"equal (server{' and members' if result.told else ''})",
        )
        for simulation, result, _ in runs
    ]
    return grid(("itemsets", "L%", "rounds", "sent", "time", "variant", "compared with one process"), rows, right=5)


def _facts(data: str, runs: Runs) -> list[tuple[str, str]]:
    simulation = runs[0][0]
    sizes = ", ".join(f"{name} {size:,}" for name, size in zip(simulation.members, simulation.sizes, strict=True))
    audits = []
    for run, _, log in runs:
        total = log.total
        unmasked = total.statistics - total.statistics_masked
        sent = f"{log.member} sent {count(total.messages, 'message')}, {size(total.bytes)}"
        statistics = f"{total.statistics_masked:,} statistics masked, {unmasked:,} unmasked"
        audits.append((f"audit {run.variant}", f"{sent}: {statistics}, {total.labels:,} labels"))
    return [
        ("data", f"{data}, synthetic, divided among members: {sizes} transactions"),
        (
            "processes",
            f"a server and {count(len(simulation.members), 'member')}, TLS 1.3 with certificates on both sides",
        ),
        *audits,
        ("more", "https://fedslim.readthedocs.io/en/latest/how-to/deploy.html"),
    ]
