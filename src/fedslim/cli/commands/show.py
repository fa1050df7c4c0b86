"""`fedslim show`: show a saved code table or a run record. `fedslim report`: write an HTML report about runs."""

from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import fedslim
from fedslim.cli.commands.experiment import RESULTS
from fedslim.cli.commands.uses import UsedTable
from fedslim.cli.console import options, output
from fedslim.cli.console.options import Reading, argument, option, reads_data
from fedslim.cli.console.saving import check_place
from fedslim.errors import InputError, ParameterError
from fedslim.format import size

if TYPE_CHECKING:
    from rich.table import Table

    from fedslim.federated.records import RunRecord
    from fedslim.report.view import ReportView, RunView

EXAMPLES = 5  # number of itemsets to show that no member finds alone
FEW_MEMBERS = 12  # for more members, only the range is shown
OWN = ("not found here alone", "different here", "left this member")  # figures of a member
LEVELS = "▁▂▃▄▅▆▇█"
POINTS = 32


def show(
    file: Path = argument("FILE", "A code table or run record, or the folder of a run."),
    top: int = options.TOP(default=20),
    json: bool = options.JSON,
    labels: Path | None = options.LABELS,
    secret: Path | None = options.SECRET,
) -> None:
    """Show a saved code table: the most useful itemsets, and how well they compress the data.

    For a run, also show its progress, what no member finds alone, the agreement with a reference, the cost, and the
    command to repeat it.
    """
    from fedslim.experiments.declarations import EXPERIMENTS
    from fedslim.report.finding import find_records, is_record
    from fedslim.report.view import view

    if not file.exists() and str(file) in EXPERIMENTS:
        raise ParameterError(f"{file} is the name of an experiment; show it with `fedslim experiment show {file}`")
    names = options.names_from(labels, secret)
    if not (file.is_dir() or is_record(file)):
        table = fedslim.CodeTable.load(file).renamed(names)
        if json:
            output.print_json({"file": str(file), **output.table_record(table, top)})
        else:
            output.print_code_table(table, top, str(file))
        return
    found = find_records([file])
    records = found.records
    for remark in found.remarks:
        output.warn(remark)
    if json:
        runs = [{"file": str(file), **_run_record(record, top, names)} for record in records]
        output.print_json(runs[0] if len(runs) == 1 else {"file": str(file), "runs": runs})
        return
    shown = view(records, named=names)
    if len(records) > 1:  # one line for each
        output.print_rich(overview(shown))
        return
    run = shown.runs[0]
    origin = [("usages", run.usages_note)] if run.table.members is None else []
    origin += [(fact.name, fact.value) for fact in run.configuration if fact.name in {"machine", "versions", "created"}]
    print_run(run, records[0].code_table.renamed(names), top, [*origin, ("command", run.command)])


def overview(shown: "ReportView") -> "Table | None":
    """Return a table with a row for each run."""
    rows = [(*row.cells, output.shown_label(row.name)) for row in shown.overview]
    return output.grid((*shown.columns, "run"), rows, right=len(shown.columns))


def print_run(run: "RunView", table: "fedslim.CodeTable", top: int, more: "output.Facts" = ()) -> None:
    """Print a run: its table, what no member finds alone, what was sent, the members, and a summary with `more`."""
    traffic = [(m.direction, m.messages, size(m.bytes), size(m.bytes_uncompressed), m.kind) for m in run.traffic]
    sent = output.grid(("direction", "messages", "sent", "before compression", "message"), traffic, left=1, right=4)
    between = _gap(run), sent, _members(run)
    output.print_code_table(table, top, run.data, [*_facts(run), *more], between=between)


def _gap(run: "RunView") -> "Table | None":
    own, table, gap = run.own, run.table, run.gap
    if own is not None and table.alone is not None:
        new = [k for k, is_new in enumerate(table.alone) if is_new][:EXAMPLES]
        rows = [(own.supports[k], table.support[k], [run.labels[i] for i in table.items[k]]) for k in new]
        return output.grid(("support here", "all members", "not found here alone"), rows, right=2)
    if gap is None or not gap.recovered:
        return None
    found = [k for k, is_found in enumerate(gap.found) if is_found][:EXAMPLES]
    shown = []
    for k in found:
        supports = gap.supports[k]
        having = sum(support > 0 for support in supports)
        spread = " + ".join(map(str, supports))
        if len(supports) > FEW_MEMBERS:
            spread = f"{min(supports):,} – {median(supports):,.15g} – {max(supports):,}"
        shown.append((gap.usage[k], having, spread, [run.labels[i] for i in gap.items[k]]))
    titles = ("usage", "members", "support at each member", "found together, by no member alone")
    return output.grid(titles, shown, right=3)


def _members(run: "RunView") -> "Table | None":
    """Return a table of the members, without columns for what the variant hides."""
    if len(run.members) > FEW_MEMBERS:
        return None
    columns: dict[str, list[object]] = {
        "transactions": [member.transactions for member in run.members],
        "finds alone": [member.itemsets for member in run.members],
        "L% alone": [None if member.percent is None else f"{member.percent:.2f}" for member in run.members],
        "itemsets used": [member.used for member in run.members],
    }
    shown = {name: column for name, column in columns.items() if set(column) != {None}}
    rows = zip(*shown.values(), (output.shown_label(member.name) for member in run.members), strict=True)
    return output.grid((*shown, "member"), rows, right=len(shown))


def _facts(run: "RunView") -> list[tuple[str, str]]:
    headline = {fact.name: f"{fact.value}: {fact.note}" for fact in run.headline}
    lines = [("variant", f"{run.variant}, {run.meaning}")]
    lines += [(fact.name, f"{fact.value}: {fact.note}") for fact in run.configuration if fact.name == "partition"]
    lines += [("progress", _curve(run))] if run.own is None else []
    lines += [(name, headline[name]) for name in ("itemsets", "rounds", "sent", *OWN) if name in headline]
    lines += [(fact.name, fact.value) for fact in run.knowledge]
    for each in run.agreements:
        figures = ", ".join(f"{fact.name} {fact.value}" for fact in each.figures)
        beside = f"{each.matched:,} matched, {each.missed:,} missed, {each.extra:,} extra"
        lines.append(("agreement", f"with {each.reference}: {beside}; {figures}"))
    if run.gap is not None:
        found = f"{headline['found by no member alone']}; itemsets that no member finds alone"
        lines.append(("gap", found if run.gap.total else "none: some member finds each"))
    return lines


def _curve(run: "RunView") -> str:
    """Draw L% over the rounds."""
    rounds, percent = run.curve.rounds, run.curve.percent
    if not rounds:
        return "unknown"
    low, high = min(percent), max(percent)
    drawn, at = "", 0
    for point in range(POINTS):
        while at + 1 < len(rounds) and rounds[at + 1] <= rounds[-1] * point / (POINTS - 1):
            at += 1
        drawn += LEVELS[round((percent[at] - low) / ((high - low) or 1) * (len(LEVELS) - 1))]
    digits = 0 if all(each.is_integer() for each in percent) else 2  # a server rounds what would reveal small counts
    return f"L% {percent[0]:.{digits}f} {drawn} {percent[-1]:.{digits}f}, over {rounds[-1]:,} rounds"


def _run_record(record: "RunRecord", top: int, names: dict[str, str]) -> dict[str, Any]:
    """Return a run record for JSON, without its history; the table has the form that all commands print."""
    import msgspec

    left_out = ("table", "format", "version", "history")
    fields = {name: getattr(record, name) for name in record.__struct_fields__ if name not in left_out}
    return {**output.table_record(record.code_table.renamed(names), top), **msgspec.to_builtins(fields)}


# -- an HTML report, which opens in any browser without a network -----------------------------------------------------

REPORT = "report.html"  # the default name of the report


@reads_data
def report(
    runs: list[Path] = argument(
        "RUN...",
        "A run folder (of `fedslim simulate --out`, a server or a member), a code table, a folder that "
        "contains run records, or the name of an experiment. Several make one report.",
    ),
    *,
    out: Path | None = option("FILE", f"The report.  [default: {REPORT} beside the run]"),
    data: str | None = option(
        "DATA", "Also show the most unusual rows of these data, and explain them.", options.masked
    ),
    results: Path = option("DIR", "The folder with the records of experiments.", default=RESULTS),
    title: str | None = option("TEXT", "Title of the report.  [default: the name of the data]"),
    labels: Path | None = options.LABELS,
    secret: Path | None = options.SECRET,
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
        output.warn(remark)
    output.print_line(str(place))
