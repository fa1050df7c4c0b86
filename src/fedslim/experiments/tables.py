"""Records as tables: our figures, the paper's beside them, and the difference; as text for terminals and documents.

table = tabulate(experiment, cells, store)
table.head, table.rows, table.remarks
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

from fedslim.experiments import paper
from fedslim.experiments.declarations import FOUND, standing_for
from fedslim.words import size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fedslim.experiments.declarations import Cell, Column, Experiment, Setting
    from fedslim.experiments.store import Store
    from fedslim.federated.records import RunRecord

OURS, PAPERS, DIFFERENCE = "ours", "paper", "difference"
NAMES = {"sa": "SA", "so": "SO", "x": "X"}


@dataclass(slots=True)
class ResultTable:
    """Rows of text. The first `labels` columns say what a row is, the others are figures."""

    head: list[str]
    labels: int
    rows: list[list[str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the cells of one line came to: the mean over seeds of every figure, or why there is none."""

    cells: tuple[Cell, ...]
    records: tuple[RunRecord, ...]
    failures: tuple[str, ...]

    def mean(self, name: str) -> float | None:
        """The mean of a figure; None where nothing has it."""
        values = [v for record in self.records if isinstance(v := record.figures.get(name), int | float)]
        return fmean(values) if values else None

    @property
    def missing(self) -> str | None:
        """What stands in the line where there is nothing to show."""
        if self.records:
            return None
        return f"failed: {self.failures[0].splitlines()[-1]}" if self.failures else "not run"


def outcomes(cells: Iterable[Cell], store: Store) -> list[Outcome]:
    """The cells that differ only in their seed, together."""
    lines: dict[tuple[str, Setting, str], list[Cell]] = {}
    for cell in cells:
        lines.setdefault((cell.data, cell.setting, cell.variant), []).append(cell)
    found = []
    for line in lines.values():
        records = tuple(record for cell in line if (record := store.load(cell)) is not None)
        failures = tuple(reason for cell in line if (reason := store.failure(cell)) is not None)
        found.append(Outcome(tuple(line), records, failures))
    return found


def tabulate(experiment: Experiment, cells: Sequence[Cell], store: Store) -> ResultTable:
    """The table of an experiment, cell by cell beside the paper's."""
    columns = experiment.columns
    several = len(experiment.settings) > 1
    labels = ["data", *(["setting"] if several else []), "variant", ""]
    table = ResultTable([*labels, *(column.head for column in columns)], len(labels))
    seen: set[str] = set()
    for outcome in outcomes(cells, store):
        cell = outcome.cells[0]
        name = [cell.data, *([_setting(cell.setting)] if several else []), NAMES[cell.variant]]
        if columns is FOUND and cell.data not in seen and outcome.records:
            seen.add(cell.data)
            _add_centralised(table, outcome, several=several)
        if outcome.missing is not None:
            table.rows.append([*name, outcome.missing, *([""] * len(columns))])
            continue
        ours = {column.name: outcome.mean(column.name) for column in columns}
        _add(table, name, columns, ours, experiment.paper(cell))
        table.remarks += _remarks(outcome)
    return table


def _add_centralised(table: ResultTable, outcome: Outcome, *, several: bool) -> None:
    data = outcome.cells[0].data
    ours = {name: outcome.mean(f"centralised_{name}") for name in ("L_percent", "itemsets")}
    name = [data, *([""] if several else []), "one place"]
    _add(table, name, FOUND, ours, paper.CENTRALISED.get(standing_for(data)))


def _add(
    table: ResultTable,
    name: Sequence[str],
    columns: Sequence[Column],
    ours: Mapping[str, float | None],
    papers: Mapping[str, float] | None,
) -> None:
    table.rows.append([*name, OURS, *(_shown(column, ours.get(column.name)) for column in columns)])
    if papers is None:
        return
    same = [""] * len(name)
    table.rows.append([*same, PAPERS, *(_shown(column, papers.get(column.name)) for column in columns)])
    table.rows.append([*same, DIFFERENCE, *(_difference(c, ours.get(c.name), papers.get(c.name)) for c in columns)])


def _remarks(outcome: Outcome) -> list[str]:
    cell = outcome.cells[0]
    remarks = []
    if len(outcome.records) < len(outcome.cells):
        remarks.append(
            f"{cell.data}, {NAMES[cell.variant]}: {len(outcome.records)} of {len(outcome.cells)} seeds; "
            f"{len(outcome.failures)} failed"
        )
    early = sorted({str(r.figures["ending"]) for r in outcome.records if not r.figures["converged"]})
    if early:
        remarks.append(f"{cell.data}, {NAMES[cell.variant]}: ended {', '.join(early)}, not converged")
    return remarks


def tabulate_references(cells: Sequence[Cell], store: Store) -> ResultTable:
    """How true the tables are to those of other systems, where there are any to compare with."""
    table = ResultTable(["data", "reference", "variant", "matched", "F1", "WR@50", "WR@100", "ρ"], 3)
    for outcome in outcomes(cells, store):
        if not outcome.records:
            continue
        for agreement in outcome.records[0].agreements:
            if agreement.reference == "centralised":
                continue
            f = agreement.figures
            scores = [f"{f[name]:.3f}" for name in ("f1", "wr50", "wr100", "rho")]
            row = [outcome.cells[0].data, agreement.reference, NAMES[outcome.cells[0].variant]]
            table.rows.append([*row, f"{f['matched']:,.0f}", *scores])
    return table


# -- figures as text -------------------------------------------------------------------------------------------------


def _setting(setting: Setting) -> str:
    if setting.min_dominant:
        return f"{setting.scheme} {setting.min_dominant}"
    return f"{setting.clients} clients" if setting.scheme == "iid" else setting.scheme


def _shown(column: Column, value: float | None) -> str:
    if value is None:
        return "–"
    return size(round(value)) if column.unit == "bytes" else f"{value:,.{column.digits}f}"


def _difference(column: Column, ours: float | None, papers: float | None) -> str:
    if ours is None or papers is None:
        return ""
    if column.unit == "bytes":
        return f"{papers / ours:,.0f}× less" if ours <= papers else f"{ours / papers:,.1f}× more"
    if abs(ours - papers) < 0.5 * 10**-column.digits:
        return "0"
    return f"{ours - papers:+,.{column.digits}f}".replace("-", "−")


def as_markdown(table: ResultTable) -> str:
    """The table for a document."""
    align = ["---"] * table.labels + ["---:"] * (len(table.head) - table.labels)
    lines = [_line(table.head), _line(align), *map(_line, table.rows)]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[Any]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
