"""What `fedslim simulate` says about a run, and what it saves: its tables, the lines of its summary, its files."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from fedslim.cli.console.output import CODE_TABLE, RUN, format_itemset, grid, say, traffic_grid
from fedslim.cli.console.progress import ENDINGS
from fedslim.cli.console.saving import save
from fedslim.errors import FedslimError
from fedslim.format import count, duration, number, size

if TYPE_CHECKING:
    from pathlib import Path

    from rich.table import Table

    from fedslim.federated import Comparison, Simulation
    from fedslim.federated.records import RunRecord
    from fedslim.report.view import ReportView

CENTRALISED = "centralised"
"""The name of the default reference, mined from all data in one place."""

EXAMPLES = 5
"""Number of itemsets of the gap to show."""


def simulation_tables(simulation: Simulation, compared: Comparison | None) -> list[Table | None]:
    """Return tables of the messages by kind, and of itemsets that no member finds alone."""
    traffic = sorted(simulation.communication.as_dict()["by_kind"], key=lambda row: -row["bytes"])
    fields = ("direction", "messages", "bytes", "bytes_uncompressed", "kind")
    rows = []
    for itemset in () if compared is None else compared.recovered[:EXAMPLES]:
        spread = itemset.spread
        assert spread is not None  # noqa: S101  # known, as the comparison had the members' data
        middle = number(spread.support_median, 0 if spread.support_median.is_integer() else 1)
        supports = f"{spread.support_min:,} – {middle} – {spread.support_max:,}"
        items = format_itemset(simulation.table, itemset.labels)
        rows.append((f"{itemset.usage:,}", f"{spread.members_with_support:,}", supports, items))
    gap = grid(("usage", "members", "support at a member", "found together, by no member alone"), rows, right=3)
    return [traffic_grid(tuple(row[field] for field in fields) for row in traffic), gap]


def simulation_facts(
    simulation: Simulation, compared: Comparison | None, reference: str | None, *, skipped: bool, unmasked: bool
) -> list[tuple[str, str]]:
    """Return the lines of the summary."""
    traffic = simulation.communication
    work = f"{count(simulation.tally.candidates, 'candidate')}, {count(traffic.rounds, 'round')}"
    end = f"{duration(simulation.seconds)}; {ENDINGS[simulation.ending]}"
    lines = [
        ("members", _members(simulation)),
        ("search", f"{simulation.variant}: {work} in {end}"),
        ("sent", f"{size(traffic.bytes_total)}: {size(traffic.bytes_up)} up, {size(traffic.bytes_down)} down"),
    ]
    if unmasked:
        lines.append(("masks", "NONE (--no-masking): the server saw every member's counts; for measurements only"))
    if compared is not None:
        f = compared.fidelity
        beside = "all data in one place" if reference in {None, CENTRALISED} else reference
        lines += [
            ("agreement", f"F1 {f.f1:.3f} with {beside} (precision {f.precision:.3f}, recall {f.recall:.3f})"),
            ("", f"WR@50 {f.wr50:.3f}, WR@100 {f.wr100:.3f}, ρ {f.rho:.3f}"),
            ("gap", _gap(compared)),
        ]
    elif not skipped:
        lines.append(("agreement", "not compared: stopped by Ctrl-C"))
    return lines


def _members(simulation: Simulation) -> str:
    """Describe the members: how many there are, how the data were divided, and their sizes."""
    sizes, partition = simulation.sizes, simulation.partition
    divided = "" if partition is None else f" by {partition.scheme}, seed {partition.seed}"
    least, most = min(sizes), max(sizes)
    if least == most:
        each = f"{count(most, 'transaction')} each" if len(sizes) > 1 else count(most, "transaction")
    else:
        each = f"{least:,} to {most:,} transactions, median {number(median(sizes))}"
    return f"{len(sizes):,}{divided}: {each}"


def _gap(compared: Comparison) -> str:
    """Describe the discovery gap, and how much of it was recovered."""
    r = compared.recovery
    if not len(compared.gap):
        return "none: some member finds each itemset of the reference alone"
    return f"{count(r.gap, 'itemset')} that no member finds alone, {r.gap_recovered:,} recovered (GRR {r.grr:.3f})"


@dataclass(slots=True)
class KeptRun:
    """What is saved in --out: the table as soon as there is one, since the comparison may take long."""

    simulation: Simulation
    out: Path | None
    told: dict[str, Any]
    command: str
    failure: FedslimError | None = None

    def record(self, compared: Comparison | None) -> dict[str, Any]:
        """Return everything about the run for JSON; the figures of a missing comparison are null."""
        from fedslim.federated.comparison import NOT_COMPARED

        figures = NOT_COMPARED if compared is None else compared.as_dict()
        return {**self.told, **self.simulation.as_dict(), **figures}

    def save(self, compared: Comparison | None) -> None:
        """Save the results so far; keep a failure, to report it after the output."""
        from fedslim.federated.folder import set_aside
        from fedslim.federated.records import save_run

        if self.out is None or self.failure is not None:
            return
        try:
            if compared is None:
                if (place := set_aside(self.out)) is not None:
                    say(f"fedslim: the results of the earlier run in {self.out} are now in {place}")
                self.failure = save(self.simulation.table, self.out / CODE_TABLE).failure
                if self.failure is not None:
                    return
            save_run(self._run(compared), self.out / RUN)
        except FedslimError as error:
            self.failure = error

    def view(self, compared: Comparison | None) -> ReportView:
        """Return what a report on the run shows."""
        from fedslim.report.view import view

        return view([self._run(compared)])

    def _run(self, compared: Comparison | None) -> RunRecord:
        from fedslim.federated.records import simulation_record

        names = {"data": self.told["data"], "command": self.command}
        reference = self.told["reference"] or CENTRALISED
        return simulation_record(self.simulation, compared, **names, reference=reference)
