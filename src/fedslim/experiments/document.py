"""Write the document of all results: tables generated from records, each with a paragraph written by hand.

document(store, prose="docs/results") -> Markdown

The paragraph about an experiment is in PROSE/NAME.md; everything else comes from the records.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from fedslim.errors import InputError
from fedslim.experiments.declarations import EXPERIMENTS, SETS, resolve
from fedslim.experiments.tables import as_markdown, outcomes, tabulate, tabulate_references

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedslim.experiments.declarations import Cell, Experiment
    from fedslim.experiments.store import Store
    from fedslim.federated.records import RunRecord

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
    """Return the document as Markdown.

    Raises:
        InputError: There are no records, or a paragraph is missing.
    """
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
