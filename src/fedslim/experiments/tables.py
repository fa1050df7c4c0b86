"""Tabulate records: our figures, those of the paper, and the difference, as text for terminals and documents."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from fedslim import __version__
from fedslim.errors import InputError
from fedslim.experiments.declarations import (
    BUDGET,
    EXPERIMENTS,
    FOUND,
    SETS,
    STAND_INS,
    Cell,
    Experiment,
    FigureColumn,
    Setting,
    published,
    resolve,
)
from fedslim.experiments.store import Store
from fedslim.federated.records import RunRecord
from fedslim.format import size

OURS, PAPERS, DIFFERENCE = "ours", "paper", "difference"
CENTRALISED = "centralised"  # the name of our own table of all data in one place, in records
SOME = 10  # ratios below this are shown with one decimal
NAMES = {"sa": "SA", "so": "SO", "x": "X"}

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
    def missing(self) -> str | None:
        """The text to show instead of figures; None if there are records."""
        if self.records:
            return None
        return "failed" if self.failures else "not run"

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
        if outcome.missing is None:
            ours = {column.name: outcome.mean(column.name) for column in columns}
            _add(table, name, columns, ours, experiment.paper(cell))
        else:
            table.rows.append([*name, outcome.missing, *([""] * len(columns))])
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


# -- figures as text -------------------------------------------------------------------------------------------------


def _setting(setting: Setting) -> str:
    if setting.min_dominant:
        return f"{setting.scheme} {setting.min_dominant}"
    return f"{setting.members} members" if setting.scheme == "iid" else setting.scheme


def _variant(cell: Cell) -> str:
    return f"{NAMES[cell.variant]}, width {cell.width}" if cell.variant == "x" else NAMES[cell.variant]


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


def as_markdown(table: ResultTable) -> str:
    """Return the table as Markdown."""
    align = ["---"] * table.labels + ["---:"] * (len(table.head) - table.labels)
    lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in (table.head, align, *table.rows)]
    return "".join(f"| {line} |\n" for line in lines)


# -- the document of all results --------------------------------------------------------------------------------------

HEAD = """# The paper's experiments, run again

`make results` writes this page from the records of `fedslim experiment run`; do not edit it. "Ours" is a run of this
program, "paper" is the figure in the FedSLIM paper, and "difference" is ours minus the paper's. "One place" is plain
SLIM over all data; the paper uses SLIM of 2012. Width 1 is SLIM as published; wider steps are ours
([wide steps](explanation/wide-steps.md)). Our F1, WR@50, WR@100, ρ and gap compare with our own table of all data in
one place, mined with the same width (1 for SA and SO), the paper's with the table of scikit-mine. The end of the first
section compares ours with the tables of other systems. People wrote the paragraphs, from the project's own records;
they may not fit tables made from other records.
"""


def document(store: Store, prose: str | Path, *, folder: str | Path | None = None, seeds: int = 1) -> str:
    """Return the document as Markdown: tables, each with a paragraph written by hand, from PROSE/NAME.md."""
    parts = [HEAD]
    records: dict[str, RunRecord] = {}  # a cell may belong to several experiments
    for experiment in EXPERIMENTS.values():
        resolved = resolve(experiment.datasets, folder, store.datasets())
        cells = experiment.cells(resolved.names, seeds=seeds)
        found = {str(record.settings["cell"]): record for o in outcomes(cells, store) for record in o.records}
        if not found:
            continue
        records |= found
        parts.append(_section(experiment, cells, store, resolved.remarks, Path(prose)))
    if not records:
        msg = f"{store.folder}: there are no records in this folder; create some with `fedslim experiment run iid`"
        raise InputError(msg)
    parts.insert(1, _made_on(list(records.values())))
    return "\n".join(parts)


def _section(experiment: Experiment, cells: Sequence[Cell], store: Store, remarks: Sequence[str], prose: Path) -> str:
    table = tabulate(experiment, cells, store)
    path = prose / f"{experiment.name}.md"
    try:
        paragraph = path.read_text("utf-8").strip()
    except OSError as error:
        msg = f"{path}: cannot read the paragraph about {experiment.name} ({error.strerror}); write one"
        raise InputError(msg) from error
    lines = [f"## `{experiment.name}`: {experiment.title}", "", experiment.asks, "", paragraph, "", as_markdown(table)]
    lines += [f"- {remark}." for remark in (*remarks, *dict.fromkeys(table.remarks))]
    if experiment.datasets == SETS and experiment.name == "iid":
        others = tabulate_references(cells, store)
        if others.rows:
            lines += ["", "Compared with the tables of other systems:", "", as_markdown(others)]
    lines += ["", f"    fedslim experiment run {experiment.name}", f"    fedslim experiment show {experiment.name}", ""]
    return "\n".join(lines)


def _made_on(records: Sequence[RunRecord]) -> str:
    """Where the figures come from; times are those of a machine that had other things to do as well."""
    machines = Counter(
        f"{r.machine.get('cpu')}, {r.machine.get('cores')} cores, {r.machine.get('memory_gb')} GB" for r in records
    )
    programs = Counter(", ".join(f"{name} {version}" for name, version in sorted(r.versions.items())) for r in records)
    days = sorted({record.made[:10] for record in records})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return (
        f"{len(records)} records, created {when} on: {'; '.join(machines)}. Versions: {'; '.join(programs)}. "
        "Results, rounds and bytes do not depend on the machine.\n"
    )
