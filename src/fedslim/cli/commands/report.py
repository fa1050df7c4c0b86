"""`fedslim report`: write an HTML report about runs, which opens in any browser without a network."""

# Typer evaluates annotations at run time, so command modules do not postpone them.
from pathlib import Path
from typing import Annotated

import typer

from fedslim.cli.commands.experiment import RESULTS
from fedslim.cli.console import options
from fedslim.cli.console.saving import check_place
from fedslim.cli.console.stream import print_text, say
from fedslim.cli.console.text import printable
from fedslim.errors import InputError

REPORT = "report.html"
"""The default name of the report."""


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            show_default=False,
            help="A run folder (of `fedslim simulate --out` or a server), a folder that contains run records, or the "
            "name of an experiment. Several make one report.",
        ),
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"The report.  [default: {REPORT} beside the run]", show_default=False),
    ] = None,
    results: Annotated[Path, typer.Option(metavar="DIR", help="The folder with the records of experiments.")] = RESULTS,
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Title of the report.  [default: the name of the data]")
    ] = None,
    labels: options.Labels = None,
    secret: options.Secret = None,
) -> None:
    """Write an HTML report about runs: what they found, what no member finds alone, how they went and what they cost.

    The file needs no network and no other files. Several runs are shown side by side, with their curves in one chart.
    """
    from fedslim.experiments import EXPERIMENTS, Store
    from fedslim.report.finding import find_records
    from fedslim.report.page import write_page
    from fedslim.report.view import view

    experiments = [run for run in runs if _is_experiment(run, results)]
    searched = [file for run in experiments for file in _of_experiment(run, results)]
    failed = [cell for run in experiments for cell in Store(results).failed(EXPERIMENTS[str(run)])]
    found = find_records([run for run in runs if run not in experiments], searched, failed)
    place = out or _beside(runs, experiments)
    for file in found.files:
        check_place(place, besides=file, what="the record of a run")
    of_one = EXPERIMENTS[str(experiments[0])].title if len(runs) == len(experiments) == 1 else None
    names = options.names_from(labels, secret)
    write_page(view(found.records, title=title or of_one, remarks=found.remarks, named=names), place)
    for remark in found.remarks:
        say(f"fedslim: warning: {remark}")
    print_text(printable(str(place)) + "\n")


def _is_experiment(run: Path, results: Path) -> bool:
    """Whether an argument names an experiment; a file of that name takes precedence unless --results is given."""
    from fedslim.experiments import EXPERIMENTS

    return str(run) in EXPERIMENTS and (results != RESULTS or not run.exists())


def _of_experiment(run: Path, results: Path) -> list[Path]:
    from fedslim.experiments import EXPERIMENTS, Store

    files = Store(results).records(EXPERIMENTS[str(run)])
    if not files:
        msg = f"{results}: this folder has no records of {run}; run the experiment with `fedslim experiment run {run}`"
        raise InputError(msg)
    return files


def _beside(runs: list[Path], experiments: list[Path]) -> Path:
    """Return the default place: the folder of a single run; for several or an experiment, the current folder."""
    if len(runs) > 1 or experiments:
        return Path(REPORT)
    return (runs[0] if runs[0].is_dir() else runs[0].parent) / REPORT
