"""`fedslim report`: runs as a page that opens in any browser, without a network."""

# Typer looks at annotations when the program runs, so the modules with commands do without postponed ones.
from pathlib import Path
from typing import Annotated

import typer

from fedslim.cli.experiment import RESULTS
from fedslim.cli.saving import check_place
from fedslim.cli.stream import print_text
from fedslim.cli.text import printable
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
    """Make one HTML file of runs: what was found, what no site finds alone, how it went, and what it cost.

    The file needs no network and no other file. Several runs stand side by side, with their curves in one chart.
    """
    from fedslim.federated.records import load_run  # noqa: PLC0415  # see fedslim.cli
    from fedslim.report.finding import record_files  # noqa: PLC0415
    from fedslim.report.page import write_page  # noqa: PLC0415
    from fedslim.report.view import view  # noqa: PLC0415

    named = [file for run in runs for file in _of_experiment(run, results) or (run,)]
    files = record_files(named)
    place = out or _beside(runs)
    for file in files:
        check_place(place, besides=file, what="the record of a run")
    write_page(view([load_run(file) for file in files], title=title or _title(runs)), place)
    print_text(printable(str(place)) + "\n")


def _of_experiment(run: Path, results: Path) -> list[Path]:
    """The records of the experiment of that name, if it is one and no file or folder is called so."""
    from fedslim.experiments import EXPERIMENTS, Store  # noqa: PLC0415  # see fedslim.cli

    experiment = EXPERIMENTS.get(str(run))
    if experiment is None or run.exists():
        return []
    files = Store(results).records(experiment)
    if not files:
        msg = f"{results}: there are no records of {run} in this folder; make them with `fedslim experiment run {run}`"
        raise InputError(msg)
    return files


def _title(runs: list[Path]) -> str | None:
    """What a page of one experiment is called."""
    from fedslim.experiments import EXPERIMENTS  # noqa: PLC0415  # see fedslim.cli

    experiment = EXPERIMENTS.get(str(runs[0]))
    return experiment.title if experiment is not None and len(runs) == 1 and not runs[0].exists() else None


def _beside(runs: list[Path]) -> Path:
    """In the folder of the one run or experiment; where there are several, in that where the command was typed."""
    if len(runs) > 1 or not runs[0].exists():
        return Path(REPORT)
    return (runs[0] if runs[0].is_dir() else runs[0].parent) / REPORT
