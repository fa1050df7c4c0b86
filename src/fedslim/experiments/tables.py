"""Tabulate records: our figures, those of the paper, and the difference, as text."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from fedslim import __version__
from fedslim.experiments.declarations import (
    BUDGET,
    FOUND,
    STAND_INS,
    Cell,
    Experiment,
    FigureColumn,
    Setting,
    published,
)
from fedslim.experiments.store import Store
from fedslim.federated.records import RunRecord
from fedslim.format import size

OURS, PAPERS, DIFFERENCE = "ours", "paper", "difference"
CENTRALISED = "centralised"  # the name of our own table of all data in one place, in records
SOME = 10  # ratios below this are shown with one decimal

_PYTHON_NAME = re.compile(r"^[\w.]*(?:Error|Exception|Interrupt): ")


@dataclass(slots=True)
class ResultTable:
    """Rows of text. The first `labels` columns identify a row, the others are figures."""

    head: list[str]
    labels: int
    rows: list[list[str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CellOutcome:
    """The results of cells that differ only in their seed: records, and reasons of failures."""

    cells: tuple[Cell, ...]
    records: tuple[RunRecord, ...]
    failures: tuple[str, ...]

    def mean(self, name: str) -> float | None:
        """Return the mean of a figure over seeds; None if no record has it."""
        values = [v for record in self.records if isinstance(v := record.figures.get(name), int | float)]
        return fmean(values) if values else None

    @property
    def name(self) -> str:
        """The name of the row in remarks."""
        cell = self.cells[0]
        setting = "" if cell.setting == Setting() else f", {_setting(cell.setting)}"
        return f"{cell.data}{setting}, {_variant(cell)}"


def outcomes(cells: Iterable[Cell], store: Store) -> list[CellOutcome]:
    """Group cells that differ only in their seed, and load their records."""
    rows = defaultdict[Any, list["Cell"]](list)
    for cell in cells:
        rows[cell.data, cell.setting, cell.variant, cell.width].append(cell)
    found = []
    for row in rows.values():
        results = [store.look(cell) for cell in row]
        records = tuple(result for result in results if result is not None and not isinstance(result, str))
        failures = tuple(result for result in results if isinstance(result, str))
        found.append(CellOutcome(tuple(row), records, failures))
    return found


def tabulate(experiment: Experiment, cells: Sequence[Cell], store: Store) -> ResultTable:
    """Return the table of an experiment, with the paper's figures below ours."""
    columns = experiment.columns
    several = len(experiment.settings) > 1
    labels = ["data", *(["setting"] if several else []), "variant", ""]
    table = ResultTable([*labels, *(column.head for column in columns)], len(labels))
    found = outcomes(cells, store)
    table.remarks += _about(experiment, cells, found)
    seen: set[tuple[str, int]] = set()
    for outcome in found:
        cell = outcome.cells[0]
        place = cell.data, cell.width  # what decides the table of all data in one place
        if columns is FOUND and place not in seen:
            seen.add(place)
            known = next((o for o in found if (o.cells[0].data, o.cells[0].width) == place and o.records), None)
            if known is not None:
                name = [cell.data, *([""] if several else []), f"one place, width {cell.width}"]
                ours = {figure: known.mean(f"centralised_{figure}") for figure in ("L_percent", "itemsets")}
                papers = published("centralised", cell.data) if cell.width == 1 else None
                _add(table, name, FOUND, ours, papers)
        name = [cell.data, *([_setting(cell.setting)] if several else []), _variant(cell)]
        if outcome.records:
            ours = {column.name: outcome.mean(column.name) for column in columns}
            _add(table, name, columns, ours, experiment.paper(cell))
        else:
            table.rows.append([*name, "failed" if outcome.failures else "not run", *([""] * len(columns))])
        table.remarks += _remarks(outcome)
    return table


def _add(
    table: ResultTable,
    name: Sequence[str],
    columns: Sequence[FigureColumn],
    ours: Mapping[str, float | None],
    papers: Mapping[str, float] | None,
) -> None:
    table.rows.append([*name, OURS, *(_show(column, ours.get(column.name)) for column in columns)])
    if papers is None:
        return
    same = [""] * len(name)
    table.rows.append([*same, PAPERS, *(_show(column, papers.get(column.name)) for column in columns)])
    table.rows.append([*same, DIFFERENCE, *(_difference(c, ours.get(c.name), papers.get(c.name)) for c in columns)])


def _about(experiment: Experiment, cells: Sequence[Cell], found: Sequence[CellOutcome]) -> list[str]:
    """Return the remarks on the table as a whole."""
    remarks = []
    published = [cell for cell in cells if experiment.paper(cell) is not None]
    substitutes = list(dict.fromkeys(cell.data for cell in published if cell.data in STAND_INS))
    if substitutes:
        verb = "replaces" if len(substitutes) == 1 else "replace"
        remarks.append(
            f"{' and '.join(substitutes)} {verb} Accidents: the paper's figures are those of Accidents, so the "
            "differences are only indicative"
        )
    if published and experiment.columns is not BUDGET:
        remarks.append(
            "for agreement and gap, our reference is our own table of all data in one place, the paper's is that of "
            "scikit-mine"
        )
    if any(len(outcome.records) > 1 for outcome in found):
        remarks.append(f"figures are means over {len({cell.seed for cell in cells})} seeds if all of them were run")
    return remarks


def _remarks(outcome: CellOutcome) -> list[str]:
    remarks = []
    if outcome.records and len(outcome.records) < len(outcome.cells):
        remarks.append(f"{outcome.name}: {len(outcome.records)} of {len(outcome.cells)} seeds")
    for why in dict.fromkeys(outcome.failures):
        reason = _PYTHON_NAME.sub("", why.splitlines()[-1])  # the last line, without the name of the exception
        remarks.append(f"{outcome.name}: failed: {reason}")
    early = sorted({str(r.figures["ending"]) for r in outcome.records if not r.figures["converged"]})
    if early:
        remarks.append(f"{outcome.name}: not converged; ended: {', '.join(early)}")
    others = sorted({r.versions.get("fedslim", "?") for r in outcome.records} - {__version__})
    if others:
        remarks.append(f"{outcome.name}: created by fedslim {', '.join(others)}; this is {__version__}")
    return remarks


def tabulate_references(cells: Sequence[Cell], store: Store) -> ResultTable:
    """Return the table of comparisons with other systems."""
    table = ResultTable(["data", "reference", "variant", "matched", "F1", "WR@50", "WR@100", "ρ"], 3)
    for outcome in outcomes(cells, store):
        agreements = [each for record in outcome.records for each in record.agreements]
        for system in {each.reference for each in agreements} - {CENTRALISED}:
            found = [each.figures for each in agreements if each.reference == system]
            scores = [f"{fmean(f[name] for f in found):.3f}" for name in ("f1", "wr50", "wr100", "rho")]
            row = [outcome.cells[0].data, system, _variant(outcome.cells[0])]
            table.rows.append([*row, f"{fmean(f['matched'] for f in found):,.0f}", *scores])
    order = list(dict.fromkeys(row[0] for row in table.rows))
    table.rows.sort(key=lambda row: (order.index(row[0]), row[1]))
    return table


def _setting(setting: Setting) -> str:
    if setting.min_dominant:
        return f"{setting.scheme} {setting.min_dominant}"
    return f"{setting.members} members" if setting.scheme == "iid" else setting.scheme


def _variant(cell: Cell) -> str:
    return f"X, width {cell.width}" if cell.variant == "x" else cell.variant.upper()


def _show(column: FigureColumn, value: float | None) -> str:
    if value is None:
        return "–"
    return size(round(value)) if column.unit == "bytes" else f"{value:,.{column.digits}f}"


def _difference(column: FigureColumn, ours: float | None, papers: float | None) -> str:
    if ours is None or papers is None or (column.unit == "bytes" and min(ours, papers) <= 0):
        return ""
    if column.unit == "bytes":
        times = max(ours, papers) / min(ours, papers)
        return f"{times:,.{1 if times < SOME else 0}f}× {'less' if ours <= papers else 'more'}"
    # From the rounded figures, so that readers can check it.
    difference = round(ours, column.digits) - round(papers, column.digits)
    if abs(difference) < 0.5 * 10**-column.digits:
        return "0"
    return f"{difference:+,.{column.digits}f}".replace("-", "−")
