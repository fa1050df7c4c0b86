"""`fedslim simulate`: run a federation in one process, and show what it finds, costs and recovers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fedslim.cli.commands.show import print_run
from fedslim.cli.console import options, output, progress, saving
from fedslim.cli.console.live import PORT, PREPARING, LiveReporter, live_page
from fedslim.cli.console.options import Reading, Variant, argument, flag, option, reads_data, typed_command, whole
from fedslim.errors import FedslimError, ParameterError
from fedslim.format import count, size

if TYPE_CHECKING:
    from fedslim.data import Partition, TransactionDatabase
    from fedslim.federated import Comparison, Simulation
    from fedslim.federated.records import RunRecord
    from fedslim.mdl.codetable import CodeTable
    from fedslim.metrics.reference import ReferenceTable

MAX_MEMBERS = 4096  # copied from the protocol, so that `--help` need not import it; a test checks that they agree
CENTRALISED = "centralised"  # the name of the default reference, mined from all data in one place


Scheme = StrEnum("Scheme", ["iid", "dirichlet", "paper-sizes", "support-skew", "support-quantity-skew"])
"""How the data are divided; a test checks that the list is complete."""
Engine = StrEnum("Engine", ["own", "nvflare"])


@reads_data
def simulate(  # noqa: PLR0915  # the steps of a run, in their order
    context: typer.Context,
    data: str = options.DATA,
    more: list[str] | None = argument("[DATA]...", "With --schema: one more file for each member.", default=None),
    *,
    secret: Path | None = option("FILE", "With several files: the members' secret; by default made from --seed."),
    variant: Variant = options.VARIANT,
    members: int = option("N", "Number of members to divide the data among.", whole(1, MAX_MEMBERS), default=10),
    partition: Scheme = option(
        "P", "How to divide: iid, dirichlet, paper-sizes, support-skew, support-quantity-skew.", default=Scheme.iid
    ),
    alpha: float = option(
        "A", "Evenness of the sizes, for dirichlet and support-quantity-skew.", options.positive(), default=0.5
    ),
    min_dominant: int = option("N", "Fewest items of a dominant itemset, for the two skews.", whole(1), default=3),
    seed: int = option(
        "N",
        "Random seed for the partition, all keys and efforts above 2; equal seeds give equal runs.",
        options.seed,
        default=0,
    ),
    max_time: float | None = options.MAX_TIME,
    max_rounds: int | None = option("N", "Stop after N rounds, with the best table so far.", whole(1)),
    min_count: int = options.MIN_COUNT,
    min_members_with: int = option("N", "Show only itemsets that occur at N or more members.", whole(1), default=1),
    width: int | None = options.SEARCH_WIDTH,
    effort: int | None = options.EFFORT(default=1),
    no_masking: bool = flag(
        "--no-masking", "FOR MEASUREMENTS ONLY: x or sa without masks; the server sees every member's counts."
    ),
    engine: Engine = option(
        "E", "own: in this process. nvflare: in NVFlare's simulator, as processes.", default=Engine.own
    ),
    reference: Path | None = option("FILE", "Compare with this table, instead of mining all data in one place."),
    classes: str | None = option(
        "COLUMN",
        "Train a classifier: one run for each value of this column, or, without columns, for each of these items, "
        "separated by commas.",
    ),
    no_compare: bool = flag("--no-compare", "Run only the federation, without mining all data or the members alone."),
    out: Path | None = option(
        "DIR",
        f"Save {output.CODE_TABLE} and {output.RUN} to this folder, for `fedslim report`; with --classes, "
        "classifier.json, for `SlimClassifier.load`.",
    ),
    top: int = options.TOP(default=10),
    json: bool = options.JSON,
    reading: Reading,
    data_seed: int | None = options.SEED,
    live: int | None = PORT,
    quiet: bool = options.QUIET,
) -> None:
    """Divide DATA among members, let them mine together without sharing a transaction, and show the result.

    With --schema and several files, each file is a member's, and the members first agree on cuts and items.

    Everything runs in this process, with the messages and masks of a real federation. --width and --effort are for x; a
    higher effort takes many more rounds. Ctrl-C stops the search and keeps the best table so far, or stops the
    comparison; press it twice to discard the result.
    """
    from fedslim.data import TransactionDatabase
    from fedslim.federated.comparison import NOT_COMPARED
    from fedslim.federated.records import simulation_record
    from fedslim.federated.simulation import RunOptions
    from fedslim.metrics import load_reference
    from fedslim.report.view import view

    _check(variant, engine, reference, no_masking=no_masking, no_compare=no_compare)
    divided: dict[str, Any] = {"members": members, "alpha": alpha, "min_dominant": min_dominant, "seed": seed}
    if classes is not None:
        from fedslim.cli.commands.classes import check_classes, simulate_classifier

        left_out = {
            "--variant": variant is not Variant.x,
            "--engine": engine is not Engine.own,
            "--reference": reference is not None,
            "--min-count": min_count > 1 or min_members_with > 1,
            "--max-rounds": max_rounds is not None,
            "--no-masking": no_masking,
        }
        check_classes(left_out, out, data)
        report = live_page(context, live, output.shown_label(data), progress.reporter(quiet=quiet))
        how = {"width": width or 1, "effort": effort, "max_time": max_time, "seed": seed}
        shown = {"out": out, "compare": not no_compare, "json": json, "command": typed_command(context)}
        together = _prepare([data, *more], reading, secret, seed, report) if more else None
        parties: Mapping[str, Any] = together or {"scheme": partition.value, **divided}
        report.result = simulate_classifier(reading, classes, report, parties, how, more=more or [], **shown)
        return
    for place in [] if out is None else [out / output.CODE_TABLE, out / output.RUN]:
        saving.check_place(place, besides=data)
        saving.check_place(place, besides=reference, what="the reference")
    chosen: dict[str, Any] = {"variant": variant.value, "masking": not no_masking, "seed": seed}
    chosen |= {"max_time": max_time, "max_rounds": max_rounds, "width": width, "effort": effort}
    chosen |= {"min_count": min_count, "min_members_with": min_members_with}
    checked = RunOptions.of(1 + len(more) if more else members, **chosen)
    report = live_page(context, live, output.shown_label(data), progress.reporter(quiet=quiet))
    given = None if reference is None else load_reference(reference)
    together = _prepare([data, *more], reading, secret, seed, report) if more else None
    database = (
        TransactionDatabase.joined(list(together.values()))
        if together
        else progress.read_and_prepare(replace(reading, seed=data_seed), report)
    )
    name = ", ".join([data, *(more or [])])
    how = {one: getattr(checked, one) for one in ("min_count", "width", "effort", "seed")}
    run = SimulatedRun(name, database, report, engine, chosen, how)
    parts = together or run.divide(partition, divided)
    run.introduce(parts)
    simulation, early = run.federate(parts)
    told = {"reference": None if no_compare else CENTRALISED if reference is None else str(reference)}
    told["out"] = None if out is None else str(out)
    named: dict[str, Any] = {"data": name, "command": typed_command(context)}
    named["reference"] = told["reference"] or CENTRALISED
    # The table is saved as soon as there is one, since the comparison may take long.
    failure = None if out is None else _save(simulation_record(simulation, None, **named), out, simulation.table)
    skipped = no_compare or early is not None
    compared = None if skipped else run.compare(simulation, given)
    made = simulation_record(simulation, compared, **named)
    if compared is not None and out is not None and failure is None:
        failure = _save(made, out)
    report.result = lambda: view([made])
    if no_masking:
        output.warn("--no-masking: the server sees every member's counts; for measurements only")
    if json:
        figures = NOT_COMPARED if compared is None else compared.as_dict()
        found = {**output.table_record(simulation.table, top), **told, **simulation.as_dict(), **figures}
        output.print_json({"data": name, **found})
    else:
        lines = [("masks", "NONE (--no-masking): the server saw every member's counts")] if no_masking else []
        lines += [("agreement", "not compared: stopped by Ctrl-C")] if compared is None and not skipped else []
        lines += [] if out is None or failure else [("saved", str(out))]
        print_run(view([made]).runs[0], simulation.table, top, lines)
    if (error := failure or early) is not None:
        raise error


def _check(variant: Variant, engine: Engine, reference: Path | None, *, no_masking: bool, no_compare: bool) -> None:
    """Check that the choices go together."""
    if no_masking and variant is Variant.so:
        raise ParameterError("--no-masking does not go with variant so, which has no masks; leave it out")
    if no_compare and reference is not None:
        raise ParameterError("--reference and --no-compare contradict each other; leave one of them out")
    if engine is Engine.nvflare:
        from fedslim.engines import require

        require("nvflare")
        if no_masking:
            msg = "--no-masking does not go with --engine nvflare, which always masks; leave one of them out"
            raise ParameterError(msg)


def _prepare(
    sources: list[str], reading: Reading, secret: Path | None, seed: int, report: progress.Reporter
) -> "Mapping[str, TransactionDatabase]":
    """Let members with a file each agree on cuts and items."""
    from fedslim.data import ItemSecret
    from fedslim.federated.simulation import entropy_of, prepare_together
    from fedslim.schema import Schema

    if reading.schema is None:
        raise ParameterError("several files are the tables of members, and need --schema; name one file to divide it")
    names = [Path(source).stem for source in sources]
    if len(set(names)) < len(names):
        msg = "two files have the same name; members are called by the names of their files, so rename one"
        raise ParameterError(msg)
    agreed, entropy = Schema.read(reading.schema), entropy_of(seed)
    tables = zip(names, sources, strict=True)
    sites = {name: replace(reading, source=one).conformed(agreed) for name, one in tables}
    shared = ItemSecret.from_random(entropy(32)) if secret is None else ItemSecret.read(secret)
    with report.stage(PREPARING):
        made = prepare_together(agreed, sites, shared, entropy)
    costs = f"{count(made.communication.rounds, 'round')}, {size(made.communication.bytes_total)}"
    output.say(f"preparation: {count(len(made.preparation.ids), 'item')}, {costs}")
    return made.databases


@dataclass(slots=True)
class SimulatedRun:
    """The steps of a simulation. All data are mined in one place at most once, and only if needed."""

    name: str
    database: "TransactionDatabase"
    report: progress.Reporter
    engine: Engine
    chosen: dict[str, Any]  # options of `simulate`
    how: dict[str, Any]  # of mining in one place
    whole: "CodeTable | None" = None

    def divide(self, scheme: Scheme, divided: dict[str, Any]) -> "Partition":
        """Divide the data among members."""
        from fedslim.data.partition import check_member_count
        from fedslim.federated.dividing import SKEWED, divide

        check_member_count(self.database, divided["members"])
        # With min_count, the table numbers its items differently, and a partition does not depend on the width and the
        # effort: `divide` then mines a plain table itself.
        plain = all(self.how[name] == 1 for name in ("min_count", "width", "effort"))
        table = None
        if scheme in SKEWED and plain and (table := self._centralised()) is None:
            raise KeyboardInterrupt
        return divide(self.database, scheme.value, **divided, table=table)

    def _centralised(self) -> "CodeTable | None":
        """Mine all data in one place; return None if interrupted."""
        if self.whole is None:
            doing = "mining in one place:"
            mined = progress.mined_with_progress(self.database, self.name, self.report, doing=doing, **self.how)
            self.whole = mined.table if mined.converged else None
        return self.whole

    def introduce(self, parts: "Partition | Mapping[str, TransactionDatabase]") -> None:
        """Show the members on the live page, and the itemsets found, unless some may turn out too rare to show."""
        if isinstance(self.report, LiveReporter):
            from fedslim.federated.simulation import named_databases
            from fedslim.report.feed import LiveMember

            named = named_databases(parts).items()
            members = [LiveMember(name, None, count(len(part), "transaction")) for name, part in named]
            self.report.feed.show(members=members)
            if self.chosen["min_count"] == self.chosen["min_members_with"] == 1:
                self.report.labels = self.database.vocabulary.__getitem__

    def federate(
        self, partition: "Partition | Mapping[str, TransactionDatabase]"
    ) -> "tuple[Simulation, FedslimError | None]":
        """Run the federation; return the result, and the error if it ended early because a member was lost."""
        from fedslim.federated import simulation as room
        from fedslim.mdl.driver import Stop, stopping_on_interrupt

        variant = self.chosen["variant"]
        progress.compile_with_progress(self.report, lambda: room.prepare(variant))
        stop = Stop(self.chosen["max_time"])
        members = len(partition if isinstance(partition, Mapping) else partition.parts)
        doing = f"{variant} over {count(members, 'member')} of"
        with stopping_on_interrupt(stop), self.report.mining(self.name, stop, doing) as show:
            how = self.chosen | {"stop": stop, "on_progress": show and progress.traffic_too(show)}
            if self.engine is Engine.own:
                return room.simulate(partition, **how), None
            from fedslim.engines import simulator

            del how["masking"]  # NVFlare always masks
            try:
                return simulator.simulate(partition, **how), None
            except simulator.EndedEarly as error:
                return error.simulation, error

    def compare(self, simulation: "Simulation", reference: "ReferenceTable | CodeTable | None") -> "Comparison | None":
        """Compare with a reference; return None if interrupted."""
        from fedslim.federated import compare
        from fedslim.mdl.driver import Stop, stopping_on_interrupt

        if reference is None and (reference := self._centralised()) is None:
            return None
        stop = Stop()
        doing = f"mining {count(len(simulation.databases), 'member')} alone, for comparison (Ctrl-C to skip)"
        with stopping_on_interrupt(stop), self.report.stage(doing):
            return compare(simulation, reference, stop=stop)


def _save(record: "RunRecord", out: Path, table: "CodeTable | None" = None) -> FedslimError | None:
    """Save a record, and before it the table of a new run; return a failure, to report it after the output."""
    from fedslim.federated.folder import set_aside
    from fedslim.federated.records import save_run

    try:
        if table is not None:
            if (place := set_aside(out)) is not None:
                output.say(f"fedslim: the results of the earlier run in {out} are now in {place}")
            if (failure := saving.save(table, out / output.CODE_TABLE)[1]) is not None:
                return failure
        save_run(record, out / output.RUN)
    except FedslimError as error:
        return error
    return None
