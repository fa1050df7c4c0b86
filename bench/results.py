"""Write docs/results.md from the records of `fedslim experiment run`: `make results`."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fedslim.data.atomic import write_whole
from fedslim.errors import InputError
from fedslim.experiments.declarations import EXPERIMENTS, SETS, Cell, Experiment, resolve
from fedslim.experiments.store import Store
from fedslim.experiments.tables import ResultTable, outcomes, tabulate, tabulate_references
from fedslim.federated.records import RunRecord

DOCS = Path(__file__).parents[1] / "docs"

HEAD = """# The paper's experiments, run again

`make results` writes this page from the records of `fedslim experiment run`; do not edit it. "Ours" is a run of this
program, "paper" is the figure in the FedSLIM paper, and "difference" is ours minus the paper's. "One place" is plain
SLIM over all data; the paper uses SLIM of 2012. Width 1 is SLIM as published; wider steps are ours
([wide steps](explanation/wide-steps.md)). Our F1, WR@50, WR@100, ρ and gap compare with our own table of all data in
one place, mined with the same width (1 for SA and SO), the paper's with the table of scikit-mine. The end of the first
section compares ours with the tables of other systems. People wrote the paragraphs, from the project's own records;
they may not fit tables made from other records.
"""


def document(store: Store, prose: Path) -> str:
    """Return the document as Markdown: tables, each with a paragraph written by hand, from PROSE/NAME.md."""
    parts = [HEAD]
    records: dict[str, RunRecord] = {}  # a cell may belong to several experiments
    for experiment in EXPERIMENTS.values():
        resolved = resolve(experiment.datasets, None, store.datasets())
        cells = experiment.cells(resolved.names)
        found = {str(record.settings["cell"]): record for o in outcomes(cells, store) for record in o.records}
        if not found:
            continue
        records |= found
        parts.append(_section(experiment, cells, store, resolved.remarks, prose))
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


def as_markdown(table: ResultTable) -> str:
    """Return the table as Markdown."""
    align = ["---"] * table.labels + ["---:"] * (len(table.head) - table.labels)
    lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in (table.head, align, *table.rows)]
    return "".join(f"| {line} |\n" for line in lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results"), help="the folder with the records")
    text = document(Store(parser.parse_args().results), DOCS / "results")
    write_whole(DOCS / "results.md", text.encode())
