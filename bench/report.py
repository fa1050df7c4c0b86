"""Tables of the results in the JSON files, for the terminal and for the documentation."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from wire import Values

FINE, COARSE = 10.0, 100.0
BUSY = 1.15
"""A single thread with a higher ratio of wall time to CPU time had to wait for a core."""


@dataclass
class Table:
    """A table with a title and remarks; the first column is text, the others are numbers."""

    title: str
    head: list[str]
    rows: list[list[str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Format the table for the terminal."""
        widths = [max(len(row[place]) for row in (self.head, *self.rows)) for place in range(len(self.head))]

        def line(cells: list[str]) -> str:
            first, *others = (
                cell.ljust(width) if not place else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
            )
            return "  ".join([first, *others]).rstrip()

        ruled = "  ".join("-" * width for width in widths)
        body = [line(self.head), ruled, *(line(row) for row in self.rows)]
        return "\n".join(["", self.title, "", *body, *([""] if self.remarks else []), *self.remarks])

    def markdown(self) -> str:
        """Format the table for the documentation."""
        rule = "|".join(["---", *["---:"] * (len(self.head) - 1)])
        body = [" | ".join(row) for row in self.rows]
        lines = [f"| {' | '.join(self.head)} |", f"|{rule}|", *(f"| {row} |" for row in body)]
        remarks = ["", *(f"- {remark}" for remark in self.remarks)] if self.remarks else []
        return "\n".join([f"### {self.title}", "", *lines, *remarks])


def read(folder: Path, part: str) -> Values | None:
    """Read the results of a part, if there are any."""
    path = folder / f"{part}.json"
    if not path.exists():
        return None
    found: Values = json.loads(path.read_text())
    return found


def machine(values: Values) -> str:
    """Describe the machine in one sentence."""
    here, versions = values["machine"], values["versions"]
    packages = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{here['cpu']}, {here['cores']} cores, {here['memory_gb']} GB, {here['system']}; {packages}."


def _peers(results: Values) -> list[Table]:
    table = Table(
        "Time to reach what scikit-mine has",
        [
            "data set",
            "L% to reach",
            "scikit-mine wall s",
            "CPU s",
            "fedslim wall s",
            "CPU s",
            "effort",
            "times faster (wall)",
            "(CPU)",
        ],
    )
    for name, one in results["sets"].items():
        ours = one["ours"]
        by_target = dict(zip(ours["targets"], ours["reached"], strict=False))
        for snapshot in one["snapshots"]:
            mine = by_target.get(snapshot["bits"])
            theirs = [f"{snapshot['L_percent']:.3f}", s(snapshot["wall"]), s(snapshot["cpu"])]
            if mine is None:
                cells = ["not reached", "-", str(ours["effort"]), "-", "-"]
            else:
                faster = [times(snapshot[kind] / mine[kind]) for kind in ("wall", "cpu")]
                cells = [s(mine["wall"]), s(mine["cpu"]), str(ours["effort"]), *faster]
            table.rows.append([name, *theirs, *cells])
        tried = ", ".join(f"effort {effort}: {percent:.3f}" for effort, percent in ours["tried"].items())
        table.remarks.append(
            f"{name}: best L% of fedslim by the time it stopped: {tried}; "
            f"median of {len(ours['runs'])} runs, one thread, each in a fresh process."
        )
        table.remarks += noise(name, ours["runs"])
    table.remarks += [f"skipped: {reason}" for reason in results["skipped"]]
    return [table]


def _convergence(results: Values) -> list[Table]:
    table = Table(
        "To convergence, plain greedy",
        [
            "data set",
            "L%",
            "itemsets",
            "CPU s",
            "wall s",
            "wall s, default threads",
            "C++ SLIM CPU s",
            "times less",
            "prototype CPU s",
            "times less",
        ],
    )
    for name, one in results["sets"].items():
        original = one["original"]
        table.rows.append(
            [
                name,
                f"{one['L_percent']:.2f}",
                f"{one['itemsets']:,}",
                s(one["cpu"]),
                s(one["wall"]),
                s(one["wall_default"]),
                "-" if original is None else f"{original:g}",
                "-" if original is None else times(original / one["cpu"]),
                f"{one['prototype']:g}",
                times(one["prototype"] / one["cpu"]),
            ]
        )
        if not one["same"]:
            table.remarks.append(f"{name}: the runs did NOT all give the same result.")
        table.remarks += noise(name, one["runs"])
    counts = ", ".join(f"{len(one['runs'])} ({name})" for name, one in results["sets"].items())
    table.remarks.append(f"CPU and wall time of one thread, without start-up; medians of runs: {counts or 'none'}.")
    table.remarks += [f"skipped: {reason}" for reason in results["skipped"]]
    found = results["startup"]
    startup = Table("Start-up of a process", ["what", "wall s", "CPU s"])
    for what, key in (
        ("import", "import"),
        ("kernels, from the cache", "kernels"),
        ("kernels, compiled (once)", "compile"),
    ):
        startup.rows.append([what, s(found[f"{key}_wall"]), s(found[f"{key}_cpu"])])
    return [table, startup]


def local_tables(results: Values) -> list[Table]:
    """Return the table of the local search."""
    sets = results["sets"]
    table = Table("L% of the local search, over CPU seconds", ["CPU s", *sets])
    for place, mark in enumerate(results["marks"]):
        reached = [one["points"][place : place + 1] for one in sets.values()]
        if any(reached):
            table.rows.append([f"{mark:,}", *[f"{p[0]['L_percent']:.3f}" if p else "-" for p in reached]])
    done = ", ".join(f"{one['points'][-1]['iterations']:,} ({name})" for name, one in sets.items() if one["points"])
    table.remarks.append(f"CPU time of both chains, seed 0. Iterations in all: {done}.")
    for name, one in sets.items():
        table.remarks += noise(name, [one | {"wall": 0.0}])
    return [table]


def _large(results: Values) -> list[Table]:
    dense = results["dense"]
    growing = Table(
        f"Accidents-like, {dense['transactions']:,} x {dense['items']:,}, as the table grows",
        ["itemsets", "accepted", "wall s", "CPU s", "ms for each accepted", "candidates", "L%", "peak MB"],
    )
    before: Values = {"wall": 0.0, "accepted": 0}
    for point in dense["points"]:
        step = (point["wall"] - before["wall"]) / (point["accepted"] - before["accepted"])
        growing.rows.append(
            [
                f"{point['itemsets']:,}",
                f"{point['accepted']:,}",
                s(point["wall"]),
                s(point["cpu"]),
                f"{1000 * step:.0f}",
                f"{point['candidates']:,}",
                f"{point['L_percent']:.2f}",
                f"{point['peak_mb']:,.0f}",
            ]
        )
        before = point
    growing.remarks.append(
        "Wall time for each accepted itemset is measured since the row above; default threads. "
        "There are fewer itemsets than accepted ones because pruning removes some."
    )
    table = Table(
        "Large data: time and memory",
        ["data set", "until", "wall s", "CPU s", "L%", "itemsets", "loading s", "peak MB, loaded", "peak MB"],
    )
    for name, key in (("accidents-like", "dense"), ("wide-sparse", "wide")):
        if (one := results.get(key)) is None:
            continue
        until = "convergence" if one["converged"] else f"{one['itemsets']:,} itemsets"
        table.rows.append(
            [
                f"{name} {one['transactions']:,} x {one['items']:,}",
                until,
                s(one["wall"]),
                s(one["cpu"]),
                f"{one['L_percent']:.2f}",
                f"{one['itemsets']:,}",
                s(one["load"]["wall"]),
                f"{one['peak_mb_loaded']:,.0f}",
                f"{one['peak_mb']:,.0f}",
            ]
        )
        table.remarks += noise(name, [one])
    return [growing, table]


def _growth(results: Values) -> list[Table]:
    table = Table(
        f"Growth: accidents-like to {results['accepted']} accepted itemsets, one thread",
        ["transactions", "CPU s", "wall s", "times the row above (CPU)", "candidates", "L%", "peak MB"],
    )
    before = None
    for size, one in results["sizes"].items():
        table.rows.append(
            [
                f"{int(size):,}",
                s(one["cpu"]),
                s(one["wall"]),
                "-" if before is None else f"{one['cpu'] / before:.2f}",
                f"{one['candidates']:,}",
                f"{one['L_percent']:.2f}",
                f"{one['peak_mb']:,.0f}",
            ]
        )
        before = one["cpu"]
        table.remarks += noise(f"{int(size):,}", one["runs"])
    counts = {len(one["runs"]) for one in results["sizes"].values()}
    table.remarks.append(f"Median of {' or '.join(map(str, sorted(counts)))} runs.")
    return [table]


def noise(name: str, runs: list[Values]) -> list[str]:
    """Return remarks about disturbed measurements."""
    remarks = []
    spoilt = sum(bool(run["compiled"]) for run in runs)
    if spoilt:
        remarks.append(f"{name}: in {spoilt} of {len(runs)} runs kernels were compiled while the clock ran.")
    busy = [run for run in runs if run["wall"] > BUSY * run["cpu"]]
    if busy:
        worst = max(run["wall"] / run["cpu"] for run in busy)
        remarks.append(
            f"{name}: {len(busy)} of {len(runs)} runs waited for a core (wall up to {worst:.2f} times CPU); use CPU."
        )
    return remarks


def s(seconds: float) -> str:
    """Format seconds with about three digits."""
    return f"{seconds:.3f}" if seconds < FINE / 10 else f"{seconds:.2f}" if seconds < COARSE else f"{seconds:.0f}"


def times(ratio: float) -> str:
    """Format a ratio."""
    return f"{ratio:.1f}" if ratio < FINE else f"{ratio:,.0f}"


MAKERS: dict[str, Callable[[Values], list[Table]]] = {
    "peers": _peers,
    "convergence": _convergence,
    "large": _large,
    "growth": _growth,
}
"""The tables of each part of the first section; those of the federation are in `federation_report`."""
