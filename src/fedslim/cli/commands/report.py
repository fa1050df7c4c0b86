"""`fedslim report`: write an HTML report about runs or a code table; it opens in any browser without a network."""

# Typer evaluates annotations at run time, so command modules do not postpone them.
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedslim.cli.commands.experiment import RESULTS
from fedslim.cli.console import options
from fedslim.cli.console.options import Reading, reads_data
from fedslim.cli.console.progress import reporter
from fedslim.cli.console.running import read_and_prepare
from fedslim.cli.console.saving import check_place
from fedslim.cli.console.stream import print_text, say
from fedslim.cli.console.text import printable
from fedslim.errors import InputError, ParameterError

if TYPE_CHECKING:
    from fedslim.experiments.tables import ResultTable

REPORT = "report.html"
"""The default name of the report."""


@reads_data
def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            show_default=False,
            help="A run folder (of `fedslim simulate --out`, a server or a member), a code table, a folder that "
            "contains run records, or the name of an experiment. Several make one report.",
        ),
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"The report.  [default: {REPORT} beside the run]", show_default=False),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            callback=options.masked,
            help="Also show the most unusual rows of these data, and how they are covered.",
        ),
    ] = None,
    results: Annotated[Path, typer.Option(metavar="DIR", help="The folder with the records of experiments.")] = RESULTS,
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Title of the report.  [default: the name of the data]")
    ] = None,
    labels: options.Labels = None,
    secret: options.Secret = None,
    reading: Reading,
) -> None:
    """Write an HTML report about runs: what they found, what no member finds alone, how they went and what they cost.

    With --data, the report contains rows of the data.

    The file needs no network and no other files. Several runs are shown side by side, with their curves in one chart.
    """
    from fedslim.experiments import EXPERIMENTS, Store
    from fedslim.report.finding import find_records
    from fedslim.report.page import write_page
    from fedslim.report.rows import unusual_rows
    from fedslim.report.view import view

    experiments = [run for run in runs if _is_experiment(run, results)]
    searched = [file for run in experiments for file in _of_experiment(run, results)]
    failed = [cell for run in experiments for cell in Store(results).failed(EXPERIMENTS[str(run)])]
    found = find_records([run for run in runs if run not in experiments], searched, failed)
    place = out or _beside(runs, experiments)
    for file in found.files:
        check_place(place, besides=file, what="the record of a run")
    rows = None
    if data is not None:
        if len(found.records) != 1:
            msg = f"--data goes with one run or code table, and there are {len(found.records)}; name one of them"
            raise ParameterError(msg)
        rows = unusual_rows(found.records[0].code_table, read_and_prepare(reading, reporter(quiet=False)))
    of_one = EXPERIMENTS[str(experiments[0])].title if len(runs) == len(experiments) == 1 else None
    shown = view(
        found.records,
        title=title or of_one,
        remarks=found.remarks,
        named=options.names_from(labels, secret),
        failed=found.failed,
        figures=_beside_paper(experiments, results),
        rows=rows,
    )
    private = rows is not None or any(record.own is not None for record in found.records)
    write_page(shown, place, private=private)
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


def _beside_paper(experiments: list[Path], results: Path) -> list[tuple[str, "ResultTable"]]:
    """Return the figures of experiments beside those of the paper."""
    from fedslim.experiments import EXPERIMENTS, Store
    from fedslim.experiments.tables import tabulate

    store, chosen = Store(results), [EXPERIMENTS[str(name)] for name in experiments]
    return [(each.title, tabulate(each, each.cells(sorted(store.datasets(each))), store)) for each in chosen]


def _beside(runs: list[Path], experiments: list[Path]) -> Path:
    """Return the default place: the folder of a single run; for several or an experiment, the current folder."""
    if len(runs) > 1 or experiments:
        return Path(REPORT)
    return (runs[0] if runs[0].is_dir() else runs[0].parent) / REPORT
