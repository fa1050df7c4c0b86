"""`fedslim report`: runs as a page that opens in any browser, without a network."""

# Typer looks at annotations when the program runs, so the modules with commands do without postponed ones.
from pathlib import Path
from typing import Annotated

import typer

from fedslim.cli.commands.experiment import RESULTS
from fedslim.cli.console.saving import check_place
from fedslim.cli.console.stream import print_text, say
from fedslim.cli.console.text import printable
from fedslim.errors import InputError

REPORT = "report.html"
"""What the page is called where nobody says."""


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            show_default=False,
            help="What simulate --out or a server wrote, a folder with records anywhere in it, or the name of an "
            "experiment; several make one page.",
        ),
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"The page.  [default: {REPORT} beside the run]", show_default=False),
    ] = None,
    results: Annotated[Path, typer.Option(metavar="DIR", help="Where the records of experiments are kept.")] = RESULTS,
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What stands above it.  [default: the data's name]")
    ] = None,
) -> None:
    """Make one HTML file of runs: what was found, what no member finds alone, how it went, and what it cost.

    The file needs no network and no other file. Several runs stand side by side, with their curves in one chart.
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
    write_page(view(found.records, title=title or of_one, remarks=found.remarks), place)
    for remark in found.remarks:
        say(f"fedslim: warning: {remark}")
    print_text(printable(str(place)) + "\n")


def _is_experiment(run: Path, results: Path) -> bool:
    """Whether an experiment is meant: a file or folder of that name counts, unless it is said where records are."""
    from fedslim.experiments import EXPERIMENTS

    return str(run) in EXPERIMENTS and (results != RESULTS or not run.exists())


def _of_experiment(run: Path, results: Path) -> list[Path]:
    from fedslim.experiments import EXPERIMENTS, Store

    files = Store(results).records(EXPERIMENTS[str(run)])
    if not files:
        msg = f"{results}: there are no records of {run} in this folder; make them with `fedslim experiment run {run}`"
        raise InputError(msg)
    return files


def _beside(runs: list[Path], experiments: list[Path]) -> Path:
    """In the folder of the one run; where there are several, or an experiment, where the command was typed."""
    if len(runs) > 1 or experiments:
        return Path(REPORT)
    return (runs[0] if runs[0].is_dir() else runs[0].parent) / REPORT
