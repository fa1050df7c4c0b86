"""`fedslim report`: write an HTML report about runs or a code table; it opens in any browser without a network."""

from pathlib import Path
from typing import Annotated

from fedslim.cli.commands.experiment import RESULTS
from fedslim.cli.commands.uses import UsedTable
from fedslim.cli.console import options
from fedslim.cli.console.options import Reading, argument, option, reads_data
from fedslim.cli.console.output import print_line, warn
from fedslim.cli.console.saving import check_place
from fedslim.errors import InputError, ParameterError

REPORT = "report.html"  # the default name of the report


@reads_data
def report(
    runs: Annotated[
        list[Path],
        argument(
            "RUN...",
            "A run folder (of `fedslim simulate --out`, a server or a member), a code table, a folder that "
            "contains run records, or the name of an experiment. Several make one report.",
        ),
    ],
    *,
    out: Annotated[Path | None, option("FILE", f"The report.  [default: {REPORT} beside the run]")] = None,
    data: Annotated[
        str | None, option("DATA", "Also show the most unusual rows of these data, and explain them.", options.masked)
    ] = None,
    results: Annotated[Path, option("DIR", "The folder with the records of experiments.")] = RESULTS,
    title: Annotated[str | None, option("TEXT", "Title of the report.  [default: the name of the data]")] = None,
    labels: options.Labels = None,
    secret: options.Secret = None,
    reading: Reading,
) -> None:
    """Write an HTML report about runs: what they found, what no member finds alone, how they went and what they cost.

    With --data, the report contains rows of the data.

    The file needs no network and no other files. Several runs are shown side by side, with their curves in one chart.
    """
    from fedslim.experiments.declarations import EXPERIMENTS
    from fedslim.experiments.store import Store
    from fedslim.experiments.tables import tabulate
    from fedslim.federated.records import FAILED
    from fedslim.report.finding import find_records
    from fedslim.report.page import write_page
    from fedslim.report.rows import unusual_rows
    from fedslim.report.view import view

    store = Store(results)
    # A file called like an experiment takes precedence, unless --results is given.
    names = [run for run in runs if str(run) in EXPERIMENTS and (results != RESULTS or not run.exists())]
    experiments = [EXPERIMENTS[str(name)] for name in names]
    for each in experiments:
        if not store.records(each):
            remedy = f"run the experiment with `fedslim experiment run {each.name}`"
            raise InputError(f"{results}: this folder has no records of {each.name}; {remedy}")
    searched = [file for each in experiments for file in store.records(each)]
    failed = [cell for each in experiments for cell in store.records(each, FAILED)]
    found = find_records([run for run in runs if run not in names], searched, failed)
    # Beside a single run; the report of several or of an experiment is written to the current folder.
    folder = Path() if len(runs) > 1 or names else runs[0] if runs[0].is_dir() else runs[0].parent
    place = out or folder / REPORT
    for file in found.files:
        check_place(place, besides=file, what="the record of a run")
    rows = None
    if data is not None:
        if len(found.records) != 1:
            msg = f"--data goes with one run or code table, and there are {len(found.records)}; name one of them"
            raise ParameterError(msg)
        used = UsedTable(found.files[0], reading, None, quiet=False)
        rows = unusual_rows(used.table, used.whole())
    shown = view(
        found.records,
        title=title or (experiments[0].title if len(runs) == len(experiments) == 1 else None),
        remarks=found.remarks,
        named=options.names_from(labels, secret),
        failed=found.failed,
        figures=[(one.title, tabulate(one, one.cells(sorted(store.datasets(one))), store)) for one in experiments],
        rows=rows,
    )
    private = rows is not None or any(record.own is not None for record in found.records)
    write_page(shown, place, private=private)
    for remark in found.remarks:
        warn(remark)
    print_line(str(place))
