"""`fedslim experiment`: rerun the paper's experiments, and compare with its tables."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from fedslim.cli.console import options, output
from fedslim.cli.console.options import Variant, argument, command_group, option, whole
from fedslim.errors import ParameterError, RunError
from fedslim.format import count, duration

if TYPE_CHECKING:
    from fedslim.experiments.declarations import Cell, Experiment
    from fedslim.experiments.running import CellState
    from fedslim.experiments.store import Store
    from fedslim.experiments.tables import ResultTable

MAX_JOBS = 256
MAX_SEEDS = 1000
RESULTS = Path("results")
SAY_EVERY = 30.0  # seconds between two progress lines in a log

app = command_group(
    "Rerun the paper's experiments, and compare the figures with the paper's.", "Rerun the paper's experiments."
)
Name = StrEnum("Name", ["iid", "scalability", "uneven", "noniid", "gap", "budget"])
"""The experiments; a test checks that the list is complete."""

CHOSEN = argument("NAME", "An experiment from `fedslim experiment list`.")
DATASETS = option("A,B", "Use these data sets instead of the experiment's own.")
VARIANTS = option("x,sa,so", "Run only these variants.")
SEEDS = option("N", "Use seeds 0 to N-1, and show the mean.", whole(1, MAX_SEEDS), default=1)
RESULTS_FOLDER = option("DIR", "The folder with the run records.", name="--results", default=RESULTS)


@app.command("list", short_help="List the experiments.")
def list_(json: bool = options.JSON) -> None:
    """List the experiments: the question that each answers, and its data sets."""
    from fedslim.experiments.declarations import EXPERIMENTS

    experiments = EXPERIMENTS.values()
    listed = [{"name": e.name, "title": e.title, "asks": e.asks, "datasets": list(e.datasets)} for e in experiments]
    rows = [(e.name, len(e.cells([e.name])), e.asks, e.datasets) for e in experiments]
    table = output.grid(("name", "runs per data set", "question", "data"), rows, left=1, right=2)
    output.print_result(json, {"experiments": listed}, table)


@app.command(short_help="Run an experiment, or continue it.")
def run(
    name: Name = CHOSEN,
    datasets: str | None = DATASETS,
    variants: str | None = VARIANTS,
    jobs: int = option("N", "Number of parallel processes.", whole(1, MAX_JOBS), default=1),
    seeds: int = SEEDS,
    results: Path = RESULTS_FOLDER,
    references: Path | None = option(
        "DIR", "Folder with tables of other systems to compare with: SET.SYSTEM.json.", envvar="FEDSLIM_REFERENCE"
    ),
    from_: str | None = options.FROM,
    quiet: bool = options.QUIET,
) -> None:
    """Run an experiment, and compare the results with the paper's table.

    Finished cells are kept: to continue an interrupted experiment, run the same command again. Failed cells are
    retried. Ctrl-C loses only the cells that are running.
    """
    from fedslim.experiments.running import Runner
    from fedslim.experiments.store import reference_tables

    if references is not None and not references.is_dir():
        msg = f"--references {references}: the folder does not exist; name the folder with the tables, or leave it out"
        raise ParameterError(msg)
    experiment, cells, remarks, store = _choose(name, datasets, variants, seeds, results, from_)
    for data in {cell.data for cell in cells}:
        reference_tables(references, data)  # fail now, not after hours of work
    _make_room(results)
    with _reporting(experiment.name, quiet=quiet) as report:
        state = Runner(store, from_, references).run(cells, jobs=jobs, tell=report)
    _print(experiment, cells, store, remarks)
    if state.failed:
        msg = f"{count(state.failed, 'cell')} of {state.total} failed; see {results}/*.failed.txt for the reasons"
        raise RunError(msg)


@app.command(short_help="Show the results of an experiment so far.")
def show(
    name: Name = CHOSEN,
    datasets: str | None = DATASETS,
    variants: str | None = VARIANTS,
    seeds: int = SEEDS,
    results: Path = RESULTS_FOLDER,
    json: bool = options.JSON,
    from_: str | None = options.FROM,
) -> None:
    """Show the results of an experiment so far, compared with the paper's figures cell by cell."""
    from fedslim.experiments.tables import tabulate

    experiment, cells, remarks, store = _choose(name, datasets, variants, seeds, results, from_, shown=True)
    others = sorted(store.datasets(experiment) - {cell.data for cell in cells})
    if not results.is_dir():
        why = "the folder does not exist; run the experiment first, or name its folder with --results"
        remarks.append(f"{results}: {why}")
    elif others:
        remarks.append(f"there are records of other data sets; show them with --datasets {','.join(others)}")
    if not json:
        _print(experiment, cells, store, remarks)
        return
    described = []
    for cell in cells:
        found, beside = store.look(cell), experiment.paper(cell)
        failure = found if isinstance(found, str) else None
        state = "not run" if found is None else "done" if failure is None else "failed"
        figures = None if found is None or isinstance(found, str) else found.figures
        more = {"state": state, "failure": failure, "figures": figures, "paper": beside and dict(beside)}
        described.append(cell.as_dict() | more)
    told = [*remarks, *dict.fromkeys(tabulate(experiment, cells, store).remarks)]
    output.print_json({"experiment": name.value, "cells": described, "remarks": told})


def _choose(
    name: Name,
    datasets: str | None,
    variants: str | None,
    seeds: int,
    results: Path,
    folder: str | None,
    *,
    shown: bool = False,
) -> tuple["Experiment", list["Cell"], list[str], "Store"]:
    from fedslim.experiments.declarations import EXPERIMENTS, resolve
    from fedslim.experiments.store import Store

    experiment = EXPERIMENTS[name.value]
    wanted = experiment.datasets if datasets is None else _words("--datasets", datasets)
    known = [v.value for v in (Variant.sa, Variant.so, Variant.x)]
    chosen = known if variants is None else _words("--variants", variants)
    if (odd := next((each for each in chosen if each not in known), None)) is not None:
        raise ParameterError(f"--variants: {odd!r} is not a variant; choose from {', '.join(Variant)}")
    store = Store(results)
    # Results can be shown without their data.
    names, remarks = resolve(wanted, folder, store.datasets() if shown else ())
    if not names or (datasets is not None and remarks):
        raise ParameterError("; ".join(remarks))
    return experiment, experiment.cells(names, chosen, seeds), list(remarks), store


def _words(name: str, text: str) -> list[str]:
    words = list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not words:
        raise ParameterError(f"{name} {text!r}: there are no names; give names separated by commas")
    return words


def _make_room(results: Path) -> None:
    """Create the folder, and check that records can be written to it before hours of work."""
    if results.exists() and not results.is_dir():
        raise ParameterError(f"--results {results}: this is a file; name a folder")
    try:
        results.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=results):
            pass
    except OSError as error:
        msg = f"--results {results}: records cannot be written to this folder ({error.strerror}); name another"
        raise ParameterError(msg) from error


def _print(experiment: "Experiment", cells: "Sequence[Cell]", store: "Store", remarks: "Sequence[str]") -> None:
    from fedslim.experiments.tables import tabulate, tabulate_references

    table = tabulate(experiment, cells, store)
    parts: list[Any] = [experiment.title, _grid(table)]
    if experiment.name == "iid" and (others := tabulate_references(cells, store)).rows:
        parts += ["Compared with the tables of other systems", _grid(others)]
    output.print_rich(*parts)
    for remark in (*remarks, *dict.fromkeys(table.remarks)):
        output.say(f"fedslim: {remark}")


def _grid(table: "ResultTable") -> Any:
    return output.grid(table.head, table.rows, left=table.labels, right=len(table.head))


@contextmanager
def _reporting(name: str, *, quiet: bool) -> Iterator["Callable[[CellState, str | None], None] | None"]:
    """Report progress: a live view on a terminal; in a log, a line for each cell and one every `SAY_EVERY` seconds."""
    if quiet:
        yield None
        return
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    lively, due = output.is_terminal(sys.stderr), SAY_EVERY
    view = Live(Text(f"{name}: starting"), console=output.rich_console(stderr=True), transient=True)

    def report(state: "CellState", event: str | None) -> None:
        nonlocal due
        failed = f", {state.failed} failed" if state.failed else ""
        place = f"[{state.kept + state.done}/{state.total}{failed}]"
        doing = [f"{key}: {step}" for key, step in state.running.items()]
        if lively:
            if event is not None:
                view.console.print(Text(event))
            to_go = "" if state.remaining is None else f", about {duration(max(state.remaining, 1.0))} to go"
            head = Text(f"{name}: {place} in {duration(state.seconds)}{to_go}", style="bold")
            view.update(Group(head, *(Text(f"  {line}", overflow="ellipsis", no_wrap=True) for line in doing)))
        elif event is not None:
            output.say(f"fedslim: {place} {event}")
        elif state.seconds >= due:
            due = state.seconds + SAY_EVERY
            output.say(f"fedslim: {place} {'; '.join(doing)}")

    with view if lively else nullcontext():
        yield report
