"""How a simulation is shown: what it cost, how well it agrees, and what no member would have found alone."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from fedslim.cli.console.output import grid
from fedslim.cli.console.running import ENDINGS
from fedslim.cli.console.text import count, duration, number, shown_items, size

if TYPE_CHECKING:
    from rich.table import Table

    from fedslim.federated import Comparison, Simulation

EXAMPLES = 5
"""Itemsets of the gap that are shown."""


def tables(simulation: Simulation, compared: Comparison | None) -> list[Table]:
    """The messages by kind, and examples of what no member finds alone."""
    rows = [
        (row["direction"], f"{row['messages']:,}", size(row["bytes"]), size(row["bytes_uncompressed"]), row["kind"])
        for row in sorted(simulation.communication.as_dict()["by_kind"], key=lambda row: -row["bytes"])
    ]
    shown = [grid(("way", "messages", "sent", "before compression", "message"), rows, left=1, right=4)]
    if compared is not None and compared.recovered:
        shown.append(_gap_grid(simulation, compared))
    return shown


def found_items(simulation: Simulation, labels: tuple[str, ...]) -> str:
    """An itemset that a federation found, its items in the order of the vocabulary."""
    place = {label: number for number, label in enumerate(simulation.table.vocabulary)}
    return shown_items(tuple(sorted(labels, key=place.__getitem__)))


def _gap_grid(simulation: Simulation, compared: Comparison) -> Table:
    rows = []
    for itemset in compared.recovered[:EXAMPLES]:
        spread = itemset.spread
        assert spread is not None  # noqa: S101  # the members' data were handed in
        middle = number(spread.support_median, 0 if spread.support_median.is_integer() else 1)
        rows.append(
            (
                f"{itemset.usage:,}",
                f"{spread.members_with_support:,}",
                f"{spread.support_min:,} – {middle} – {spread.support_max:,}",
                found_items(simulation, itemset.labels),
            )
        )
    return grid(("usage", "members", "support at a member", "found together, by no member alone"), rows, right=3)


def facts(
    simulation: Simulation, compared: Comparison | None, reference: str | None, *, skipped: bool, unmasked: bool
) -> list[tuple[str, str]]:
    """The lines of the summary."""
    said = simulation.communication
    work = f"{count(simulation.tally.candidates, 'candidate')}, {count(said.rounds, 'round')}"
    end = f"{duration(simulation.seconds)}; {ENDINGS[simulation.ending]}"
    lines = [
        ("members", members(simulation)),
        ("search", f"{simulation.variant}: {work} in {end}"),
        ("sent", f"{size(said.bytes_total)}: {size(said.bytes_up)} up, {size(said.bytes_down)} down"),
    ]
    if unmasked:
        lines.append(("masks", "NONE (--no-masking): the server saw every member's counts; for measurements only"))
    if compared is not None:
        f = compared.fidelity
        beside = "all data in one place" if reference in {None, "centralised"} else reference
        lines += [
            ("agrees", f"F1 {f.f1:.3f} with {beside} (precision {f.precision:.3f}, recall {f.recall:.3f})"),
            ("", f"WR@50 {f.wr50:.3f}, WR@100 {f.wr100:.3f}, ρ {f.rho:.3f}"),
            ("gap", gap(compared)),
        ]
    elif not skipped:
        lines.append(("agrees", "not compared: stopped by Ctrl-C"))
    return lines


def members(simulation: Simulation) -> str:
    """How many members there are, how they came about, and their sizes."""
    sizes, partition = simulation.sizes, simulation.partition
    dealt = "" if partition is None else f" by {partition.scheme}, seed {partition.seed}"
    least, most = min(sizes), max(sizes)
    if least == most:
        each = f"{count(most, 'transaction')} each" if len(sizes) > 1 else count(most, "transaction")
    else:
        each = f"{least:,} to {most:,} transactions, median {number(median(sizes))}"
    return f"{len(sizes):,}{dealt}: {each}"


def gap(compared: Comparison) -> str:
    """What no member finds alone, and how much of it was recovered."""
    if not len(compared.gap):
        return "none: some member finds each itemset of the reference alone"
    r = compared.recovery
    return f"{count(r.gap, 'itemset')} that no member finds alone, {r.gap_recovered:,} recovered (GRR {r.grr:.3f})"
