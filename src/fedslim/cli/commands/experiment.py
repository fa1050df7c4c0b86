"""`fedslim experiment`: the tables of the paper, run again and shown beside the paper's."""

# Typer looks at annotations when the program runs, so the modules with commands do without postponed ones.
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedslim.cli.commands.simulate import Variant
from fedslim.cli.console import options
from fedslim.cli.console.options import whole
from fedslim.cli.console.output import grid
from fedslim.cli.console.saving import check_place
from fedslim.cli.console.stream import is_terminal, print_json, print_rich, print_text, say
from fedslim.cli.console.text import count, duration
from fedslim.errors import ParameterError, RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fedslim.experiments import Cell, Experiment, Store
    from fedslim.experiments.running import CellState
    from fedslim.experiments.tables import ResultTable

MAX_JOBS = 256
MAX_SEEDS = 1000
SAY_EVERY = 30.0
"""Seconds between two lines about how far it is, in a log."""

app = typer.Typer(
    help="Run the paper's experiments again, and see its figures beside ours.",
    short_help="Run the paper's experiments again.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class Name(StrEnum):
    """The experiments; a test sees that these are all."""

    iid = "iid"
    scalability = "scalability"
    uneven = "uneven"
    noniid = "noniid"
    gap = "gap"
    budget = "budget"


Chosen = Annotated[Name, typer.Argument(metavar="NAME", help="One of those that `fedslim experiment list` lists.")]
Datasets = Annotated[
    str | None, typer.Option(metavar="A,B", help="Only these data, or others than the experiment has.")
]
Variants = Annotated[str | None, typer.Option(metavar="x,sa,so", help="Only these variants.")]
Seeds = Annotated[
    int, typer.Option(metavar="N", callback=whole(1, MAX_SEEDS), help="Seeds 0 to N-1; the mean is shown.")
]
Results = Annotated[Path, typer.Option("--results", metavar="DIR", help="Where the records are kept.")]
RESULTS = Path("results")


@app.command("list")
def list_(json: options.Json = False) -> None:
    """List the experiments: what each asks, and of which data."""
    from fedslim.experiments import EXPERIMENTS

    experiments = EXPERIMENTS.values()
    if json:
        told = [{"name": e.name, "title": e.title, "asks": e.asks, "datasets": list(e.datasets)} for e in experiments]
        print_json({"experiments": told})
        return
    rows = [(e.name, f"{len(e.settings) * 3}", e.asks, ", ".join(e.datasets)) for e in experiments]
    print_rich(grid(("name", "runs for each set", "asks", "data"), rows, left=1, right=2))


@app.command()
def run(
    name: Chosen,
    *,
    datasets: Datasets = None,
    variants: Variants = None,
    jobs: Annotated[int, typer.Option(metavar="N", callback=whole(1, MAX_JOBS), help="Processes at a time.")] = 1,
    seeds: Seeds = 1,
    results: Results = RESULTS,
    references: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", envvar="FEDSLIM_REFERENCE", help="Tables of other systems to compare with: SET.SYSTEM.json."
        ),
    ] = None,
    from_: options.From = None,
    quiet: options.Quiet = False,
) -> None:
    """Run an experiment, and show it beside the paper's table.

    What was run before is kept, so that a run that was stopped or killed goes on where it was; what failed is tried
    again. Ctrl-C loses no more than the cells that are running.
    """
    from fedslim.experiments.references import reference_tables
    from fedslim.experiments.running import Runner

    if references is not None and not references.is_dir():
        msg = f"--references {references}: there is no such folder; name the one with the tables, or leave it out"
        raise ParameterError(msg)
    experiment, cells, remarks, store = _choose(name, datasets, variants, seeds, results, from_)
    for data in {cell.data for cell in cells}:
        reference_tables(references, data)  # one that cannot be read is said before hours of work
    _make_room(results)
    with _reporting(experiment.name, quiet=quiet) as tell:
        state = Runner(store, from_, references).run(cells, jobs=jobs, tell=tell)
    _print(experiment, cells, store, remarks)
    if state.failed:
        msg = f"{count(state.failed, 'cell')} of {state.total} failed; the reasons are in {results}/*.failed.txt"
        raise RunError(msg)


@app.command()
def show(
    name: Chosen,
    *,
    datasets: Datasets = None,
    variants: Variants = None,
    seeds: Seeds = 1,
    results: Results = RESULTS,
    markdown: Annotated[bool, typer.Option("--markdown", help="As a table for a document.")] = False,
    json: options.Json = False,
    from_: options.From = None,
) -> None:
    """Show what there is of an experiment beside the paper's figures, cell by cell, with the difference."""
    from fedslim.experiments.tables import as_markdown, tabulate

    experiment, cells, remarks, store = _choose(name, datasets, variants, seeds, results, from_, shown=True)
    remarks = (*remarks, *_elsewhere(experiment, cells, store))
    table = tabulate(experiment, cells, store)
    said = [*remarks, *dict.fromkeys(table.remarks)]
    if json:
        told = [_describe(experiment, cell, store) for cell in cells]
        print_json({"experiment": name.value, "cells": told, "remarks": said})
    elif markdown:
        print_text(as_markdown(table) + "".join(f"\n- {remark}." for remark in said) + "\n")
    else:
        _print(experiment, cells, store, remarks)


@app.command()
def document(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where it goes.")] = Path("docs/results.md"),
    *,
    prose: Annotated[
        Path, typer.Option(metavar="DIR", help="The paragraphs about the experiments: NAME.md for each.")
    ] = Path("docs/results"),
    seeds: Seeds = 1,
    results: Results = RESULTS,
    from_: options.From = None,
) -> None:
    """Write the document of all results from the records that there are."""
    from fedslim.data.atomic import write_whole
    from fedslim.experiments import Store
    from fedslim.experiments.document import document as written

    check_place(out)
    text = written(Store(results), prose, folder=from_, seeds=seeds)
    write_whole(out, text.encode())
    print_text(f"{out}\n")


# -- what is chosen --------------------------------------------------------------------------------------------------


def _choose(  # noqa: PLR0917  # what three commands have in common
    name: Name,
    datasets: str | None,
    variants: str | None,
    seeds: int,
    results: Path,
    folder: str | None,
    *,
    shown: bool = False,
) -> tuple["Experiment", list["Cell"], tuple[str, ...], "Store"]:
    from fedslim.experiments import EXPERIMENTS, Store, resolve

    experiment = EXPERIMENTS[name.value]
    wanted = experiment.datasets if datasets is None else _words("--datasets", datasets)
    chosen = [v.value for v in (Variant.sa, Variant.so, Variant.x)] if variants is None else _variants(variants)
    store = Store(results)
    resolved = resolve(wanted, folder, store.datasets() if shown else ())  # what was run can be shown without its data
    if not resolved.names or (datasets is not None and resolved.remarks):
        msg = "; ".join(resolved.remarks)
        raise ParameterError(msg)
    return experiment, experiment.cells(resolved.names, chosen, seeds), resolved.remarks, store


def _variants(text: str) -> list[str]:
    chosen = _words("--variants", text)
    for each in chosen:
        if each not in {v.value for v in Variant}:
            msg = f"--variants: there is no variant {each!r}; choose from {', '.join(v.value for v in Variant)}"
            raise ParameterError(msg)
    return chosen


def _words(option: str, text: str) -> list[str]:
    words = list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not words:
        msg = f"{option} {text!r} names nothing; give names with commas between them"
        raise ParameterError(msg)
    return words


def _elsewhere(experiment: "Experiment", cells: "Sequence[Cell]", store: "Store") -> list[str]:
    """What somebody may look for in vain."""
    if not store.folder.is_dir():
        return [f"{store.folder}: there is no such folder; nothing was run yet, or --results names another"]
    others = sorted(store.datasets(experiment) - {cell.data for cell in cells})
    return [f"there are records of other data; see them with --datasets {','.join(others)}"] if others else []


def _make_room(results: Path) -> None:
    """Make the folder, and see that records can be written to it: before hours of work, not after."""
    from tempfile import TemporaryFile

    if results.exists() and not results.is_dir():
        msg = f"--results {results}: this is a file; name a folder"
        raise ParameterError(msg)
    try:
        results.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=results):
            pass
    except OSError as error:
        msg = f"--results {results}: records cannot be written there: {error.strerror}; name another folder"
        raise ParameterError(msg) from error


# -- what is shown ---------------------------------------------------------------------------------------------------


def _print(experiment: "Experiment", cells: "Sequence[Cell]", store: "Store", remarks: "Sequence[str]") -> None:
    from fedslim.experiments.tables import tabulate, tabulate_references

    table = tabulate(experiment, cells, store)
    parts: list[Any] = [experiment.title, _grid(table)]
    others = tabulate_references(cells, store) if experiment.name == "iid" else None
    if others is not None and others.rows:
        parts += ["Beside the tables of other systems", _grid(others)]
    print_rich(*parts)
    for remark in (*remarks, *dict.fromkeys(table.remarks)):
        say(f"fedslim: {remark}")


def _grid(table: "ResultTable") -> Any:
    last = len(table.head)
    return grid(tuple(table.head), [tuple(row) for row in table.rows], left=table.labels, right=last)


def _describe(experiment: "Experiment", cell: "Cell", store: "Store") -> dict[str, Any]:
    found = store.look(cell)
    failure = found if isinstance(found, str) else None
    beside = experiment.paper(cell)
    return {
        **cell.as_dict(),
        "state": "not run" if found is None else "done" if failure is None else "failed",
        "failure": failure,
        "figures": None if found is None or isinstance(found, str) else found.figures,
        "paper": None if beside is None else dict(beside),
    }


@contextmanager
def _reporting(name: str, *, quiet: bool) -> Iterator["Callable[[CellState, str | None], None] | None"]:
    """Progress: on a terminal a view that changes, in a log a line for each cell and one now and then."""
    import sys

    if quiet:
        yield None
    elif is_terminal(sys.stderr):
        with _lively(name) as tell:
            yield tell
    else:
        due = SAY_EVERY

        def plain(state: "CellState", said: str | None) -> None:
            nonlocal due
            if said is not None:
                say(f"fedslim: {_place(state)} {said}")
            elif state.seconds >= due:
                due = state.seconds + SAY_EVERY
                say(f"fedslim: {_place(state)} {'; '.join(f'{k}: {v}' for k, v in state.running.items())}")

        yield plain


@contextmanager
def _lively(name: str) -> Iterator["Callable[[CellState, str | None], None]"]:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    console = Console(stderr=True)
    with Live(Text(f"{name}: starting"), console=console, transient=True) as live:

        def tell(state: "CellState", said: str | None) -> None:
            if said is not None:
                console.print(Text(said))
            left = state.remaining
            yet = "" if left is None else f", about {duration(max(left, 1.0))} to go"
            lines = [Text(f"{name}: {_place(state)} in {duration(state.seconds)}{yet}", style="bold")]
            lines += [
                Text(f"  {key}: {doing}", overflow="ellipsis", no_wrap=True) for key, doing in state.running.items()
            ]
            live.update(Group(*lines))

        yield tell


def _place(state: "CellState") -> str:
    failed = f", {state.failed} failed" if state.failed else ""
    return f"[{state.kept + state.done}/{state.total}{failed}]"
