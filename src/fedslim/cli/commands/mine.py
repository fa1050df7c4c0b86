"""`fedslim mine`: mine a code table from data."""

import logging
from contextlib import ExitStack
from dataclasses import replace
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fedslim.cli.console import options
from fedslim.cli.console.live import PORT, live_page
from fedslim.cli.console.options import Reading, flag, option, reads_data, typed_command, whole
from fedslim.cli.console.output import Said, print_code_table, print_json, shown_label, table_record
from fedslim.cli.console.progress import mined_with_progress, read_and_prepare, reporter
from fedslim.cli.console.saving import check_place, save
from fedslim.errors import ParameterError
from fedslim.format import count, duration

if TYPE_CHECKING:
    from fedslim.mdl.driver import Progress
    from fedslim.mdl.mining import Mined
    from fedslim.report.view import ReportView

MAX_THREADS, MAX_WORKERS = 256, 10_000
MiningEngine = StrEnum("MiningEngine", ["ray"])
Order = StrEnum("Order", ["usage", "support"])


@reads_data
def mine(
    context: typer.Context,
    data: str = options.DATA,
    *,
    out: Path | None = option("FILE", "Save the code table as JSON, for `fedslim show`."),
    report: Path | None = option(
        "FILE", "Write an HTML report: the table, how it grew, and the most unusual rows of DATA."
    ),
    top: int = options.TOP(default=20),
    max_time: float | None = options.MAX_TIME,
    effort: int | None = options.EFFORT(default=None),
    width: int | None = options.SEARCH_WIDTH,
    json: bool = options.JSON,
    min_support: int = option("N", "Find only itemsets in at least N transactions.", whole(1), default=1),
    min_count: int = options.MIN_COUNT,
    max_itemset_size: int | None = option("N", "Find only itemsets of at most N items.", whole(1)),
    order: Order = option("usage|support", "How to order itemsets of equal size in a cover.", default=Order.usage),
    no_pruning: bool = flag("--no-pruning", "Keep itemsets that later ones make redundant."),
    threads: int | None = option("N", "Number of threads; it does not change the result.", whole(1, MAX_THREADS)),
    reading: Reading,
    seed: int | None = option("N", "Random seed, for generated data and for efforts above 2.", options.seed),
    secret: Path | None = option("FILE", "The members' secret: number items as their federation does, by their ids."),
    live: int | None = PORT,
    engine: MiningEngine | None = option(
        "ray", "Read and search DATA at the workers of a Ray cluster; the table is the same."
    ),
    address: str | None = option("A", "Address of the Ray cluster; without one, Ray is started on this machine."),
    workers: int | None = option("N", "Number of Ray workers; by default all CPUs.", whole(1, MAX_WORKERS)),
    journal: Path | None = option(
        "FILE", "Write the workers' answers to FILE; the same command continues a run that was killed."
    ),
    quiet: bool = options.QUIET,
) -> None:
    """Find the itemsets that compress DATA best, and show the most useful ones.

    The effort is 1 by default, or with --max-time as high as the time allows. Ctrl-C stops the search and keeps the
    best result so far; press it twice to discard the result.
    """
    for name, place in (("--out", out), ("--report", report)):
        if place is not None:
            check_place(place, besides=data, option=name)
    if out is not None and report is not None and out.resolve() == report.resolve():
        raise ParameterError(f"--out and --report both name {out}; name two files")
    until_done = context.with_resource(ExitStack())  # also until the live page has become the report
    shown = live_page(context, live, shown_label(data), reporter(quiet=quiet))
    how: dict[str, Any] = {
        "effort": effort,
        "width": width or options.WIDTH,
        "min_support": min_support,
        "min_count": min_count,
        "max_itemset_size": max_itemset_size,
        "order": order,
        "pruning": not no_pruning,
        "seed": seed or 0,
    }
    reading, steps = replace(reading, seed=seed), list["Progress"]()
    load = None
    if engine is None:
        _refuse("is only for --engine ray", address=address, workers=workers, journal=journal)
    else:
        from fedslim.engines.rows import rows_on_ray

        logging.getLogger("fedslim.engines").addHandler(Said(options.TOLD))
        _refuse("is not for --engine ray", secret=secret, threads=threads)
        about = how | {"limited": max_time is not None}
        there = rows_on_ray(
            data, workers=workers, address=address, journal=journal, reading=reading.chosen(), how=about
        )
        load = partial(until_done.enter_context, there)
    database: Any = read_and_prepare(reading, shown, load=load)
    if secret is not None:
        from fedslim.data import ItemSecret, Vocabulary, over

        shared = ItemSecret.read(secret)
        database = over(database, Vocabulary.merge(Vocabulary.of(database.vocabulary, shared)), shared)
    shown.labels = database.vocabulary.__getitem__
    recorded = None if report is None and live is None else steps
    mined = mined_with_progress(database, data, shown, steps=recorded, max_time=max_time, threads=threads, **how)
    saved, failure = save(mined.table, out)
    tried, used_up = mined.tally.candidates, effort is None and max_time is not None
    if json:
        record = {
            "data": data,
            **table_record(mined.table, top),
            "candidates": tried,
            "seconds": mined.seconds,
            "converged": mined.converged,
            "ending": mined.ending,
            "effort": None if used_up else effort or 1,
            "out": saved and str(saved),
            "width": how["width"],
        }
        print_json(record)
    else:
        ending = "stopped by Ctrl-C" if mined.ending == "interrupted" else mined.ending
        search = f"{count(tried, 'candidate')} in {duration(mined.seconds)}; {ending}"
        places = {"saved": saved, "report": report}
        facts = [("search", search), *((name, str(place)) for name, place in places.items() if place is not None)]
        print_code_table(mined.table, top, data, facts)
    made = cache(partial(_view, mined, database, steps, (data, typed_command(context))))  # for a report and a live page
    if report is not None:
        from fedslim.report.page import write_page

        write_page(made(), report, private=True)
    shown.result = made
    if failure is not None:
        raise failure
    if journal is not None and mined.converged:
        journal.unlink(missing_ok=True)


def _refuse(why: str, **given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise typer.BadParameter(f"--{name} {why}; leave it out")


def _view(mined: "Mined", database: Any, steps: "list[Progress]", names: tuple[str, str]) -> "ReportView":
    """Return what a report on a run shows."""
    from fedslim.federated.own_record import mined_record
    from fedslim.federated.records import HistoryStep
    from fedslim.report.rows import unusual_rows
    from fedslim.report.view import view

    c, best = mined.table.compression, 100.0
    history = [HistoryStep(0, 0.0, 0, c.before.total, best, 0)]
    for at in steps:
        best = min(best, at.percent if at.best is None else at.best)
        history.append(HistoryStep(at.candidates, at.seconds, at.itemsets, best / 100 * c.before.total, best, 0))
    tried, seconds = mined.tally.candidates, mined.seconds
    history.append(HistoryStep(tried, seconds, len(mined.table), c.after.total, c.L_percent, 0))
    figures = {"candidates": tried, "seconds": seconds, "ending": mined.ending}
    record = mined_record(mined.table, *names, history=history, figures=figures)
    return view([record], rows=unusual_rows(mined.table, database))
