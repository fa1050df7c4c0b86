"""`fedslim simulate`: run a federation in one process, and show what it finds, costs and recovers."""

# Typer evaluates annotations at run time, so command modules do not postpone them.
import math
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedslim.cli.commands.classes import check_classes, simulate_classifier
from fedslim.cli.console import options
from fedslim.cli.console.live import Port, WatchedRun, live_page
from fedslim.cli.console.options import Reading, reads_data, whole
from fedslim.cli.console.output import print_code_table, table_record
from fedslim.cli.console.progress import Reporter, reporter
from fedslim.cli.console.repeating import typed_command
from fedslim.cli.console.running import compile_with_progress, mined_with_progress, read_and_prepare
from fedslim.cli.console.saving import check_place
from fedslim.cli.console.stream import print_json, say
from fedslim.cli.console.summary import CENTRALISED, CODE_TABLE, RUN, KeptRun, simulation_facts, simulation_tables
from fedslim.cli.console.text import count, shown_label, size
from fedslim.errors import FedslimError, ParameterError

if TYPE_CHECKING:
    from fedslim.data import Partition, TransactionDatabase
    from fedslim.federated import Comparison, Simulation
    from fedslim.mdl.codetable import CodeTable
    from fedslim.metrics import ReferenceTable

MAX_MEMBERS = 4096
"""Copied from the protocol, so that `--help` need not import it; a test checks that they agree."""

NO_MASKS = "the server sees every member's counts; for measurements only"


class Variant(StrEnum):
    """The variants of the protocol; a test checks that the list is complete."""

    x = "x"
    sa = "sa"
    so = "so"


class Scheme(StrEnum):
    """How the data are divided; a test checks that the list is complete."""

    iid = "iid"
    dirichlet = "dirichlet"
    paper_sizes = "paper-sizes"
    support_skew = "support-skew"
    support_quantity_skew = "support-quantity-skew"


class Engine(StrEnum):
    """What carries the messages."""

    own = "own"
    nvflare = "nvflare"


def _positive(value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        msg = f"{value} is not a positive number; give one above 0, small for very uneven sizes"
        raise typer.BadParameter(msg)
    return value


@reads_data
def simulate(
    context: typer.Context,
    data: options.Data,
    more: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DATA]...", show_default=False, help="With --schema: one more file for each member."),
    ] = None,
    *,
    secret: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With several files: the secret that numbers items; by default from --seed."),
    ] = None,
    variant: Annotated[
        Variant,
        typer.Option(metavar="x|sa|so", help="x: exact. sa, so: as in the paper, with and without secure aggregation."),
    ] = Variant.x,
    members: Annotated[
        int,
        typer.Option(metavar="N", callback=whole(1, MAX_MEMBERS), help="Number of members to divide the data among."),
    ] = 10,
    partition: Annotated[
        Scheme,
        typer.Option(
            metavar="P", help="How to divide: iid, dirichlet, paper-sizes, support-skew, support-quantity-skew."
        ),
    ] = Scheme.iid,
    alpha: Annotated[
        float,
        typer.Option(
            metavar="A", callback=_positive, help="Evenness of the sizes, for dirichlet and support-quantity-skew."
        ),
    ] = 0.5,
    min_dominant: Annotated[
        int,
        typer.Option(metavar="N", callback=whole(1), help="Fewest items of a dominant itemset, for the two skews."),
    ] = 3,
    seed: Annotated[
        int,
        typer.Option(
            metavar="N",
            callback=whole(0, 2**63 - 1),
            help="Random seed for the partition, all keys and efforts above 2; equal seeds give equal runs.",
        ),
    ] = 0,
    max_time: options.MaxTime = None,
    max_rounds: Annotated[
        int | None,
        typer.Option(metavar="N", callback=whole(1), help="Stop after N rounds, with the best table so far."),
    ] = None,
    min_count: options.MinCount = 1,
    min_members_with: Annotated[
        int, typer.Option(metavar="N", callback=whole(1), help="Show only itemsets that occur at N or more members.")
    ] = 1,
    width: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            callback=whole(1, options.MAX_WIDTH),
            help=f"For x: candidates to try in each step, 1 to {options.MAX_WIDTH}; 1 is SLIM as published.  "
            f"[default: {options.WIDTH}]",
            show_default=False,
        ),
    ] = None,
    effort: Annotated[
        int,
        typer.Option(
            metavar="N",
            callback=whole(1, options.HIGHEST_EFFORT),
            help=f"For x: how hard to search, 1 to {options.HIGHEST_EFFORT}: more takes many more rounds, and is never "
            "worse.",
        ),
    ] = 1,
    no_masking: Annotated[
        bool,
        typer.Option(
            "--no-masking", help="FOR MEASUREMENTS ONLY: x or sa without masks; the server sees every member's counts."
        ),
    ] = False,
    engine: Annotated[
        Engine,
        typer.Option(metavar="E", help="own: in this process. nvflare: in NVFlare's simulator, as processes."),
    ] = Engine.own,
    reference: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Compare with this table, instead of mining all data in one place."),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Make a classifier: a run for each value of this column, or for data without columns of these items, "
            "separated by commas.",
        ),
    ] = None,
    no_compare: Annotated[
        bool,
        typer.Option("--no-compare", help="Run only the federation, without mining all data or the members alone."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help=f"Save {CODE_TABLE} and {RUN} to this folder, for `fedslim report`."),
    ] = None,
    top: options.Top = 10,
    json: options.Json = False,
    reading: Reading,
    data_seed: options.Seed = None,
    live: Port = None,
    quiet: options.Quiet = False,
) -> None:
    """Divide DATA among members, let them mine together without sharing a transaction, and show the result.

    With --schema and several files, each file is a member's, and the members first agree on cuts and items.

    Everything runs in this process, with the messages and masks of a real federation. Ctrl-C stops the search and
    keeps the best table so far, or stops the comparison; press it twice to discard the result.
    """
    from fedslim.data import TransactionDatabase

    _check_choices(variant, reference, no_masking=no_masking, no_compare=no_compare)
    _check_engine(engine, no_masking=no_masking)
    if classes is not None:
        left_out = {
            "--variant": variant is not Variant.x,
            "--engine": engine is not Engine.own,
            "--reference": reference is not None,
            "--min-count": min_count > 1 or min_members_with > 1,
            "--max-rounds": max_rounds is not None,
            "--no-masking": no_masking,
            "--live": live is not None,
            "--schema or several data sets": reading.schema is not None or bool(more),
        }
        check_classes(left_out, out, data)
        split = {"members": members, "alpha": alpha, "min_dominant": min_dominant, "seed": seed}
        how = {"width": width or 1, "effort": effort, "max_time": max_time, "seed": seed}
        shown = {"out": out, "compare": not no_compare, "json": json}
        divided = {"scheme": partition.value, **split}
        simulate_classifier(reading, classes, reporter(quiet=quiet), divided, how, **shown)
        return
    if out is not None:
        _check_folder(out, data, reference)
    width = _width(variant, width, effort)
    watched, report = live_page(context, live, shown_label(data), reporter(quiet=quiet))
    given = None if reference is None else _load(reference)
    together = _prepare([data, *more], reading, secret, seed) if more else None
    database = (
        TransactionDatabase.joined(list(together.values()))
        if together
        else read_and_prepare(replace(reading, seed=data_seed), report)
    )
    chosen = {"min_count": min_count, "width": width, "effort": effort, "seed": seed}
    run = SimulatedRun(data, database, report, variant=variant, engine=engine, **chosen)
    how = {"members": members, "alpha": alpha, "min_dominant": min_dominant, "seed": seed}
    parts = together or run.divide(partition, how)
    if watched is not None:
        _introduce(watched, parts, database, min_count * min_members_with)
    simulation, early = run.federate(
        parts,
        masking=not no_masking,
        max_time=max_time,
        max_rounds=max_rounds,
        min_members_with=min_members_with,
        **chosen,
    )
    told = {"reference": None if no_compare else CENTRALISED if reference is None else str(reference)}
    told["out"] = None if out is None else str(out)
    kept = KeptRun(
        simulation, out, {"data": data, **table_record(simulation.table, top), **told}, typed_command(context)
    )
    kept.save(None)
    compared = None if no_compare or early is not None else run.compare(simulation, given)
    if compared is not None:
        kept.save(compared)
    if watched is not None:
        watched.result = lambda: kept.view(compared)
    if no_masking:
        say(f"fedslim: warning: --no-masking: {NO_MASKS}")
    if json:
        print_json(kept.record(compared))
    else:
        lines = simulation_facts(
            simulation, compared, told["reference"], skipped=no_compare or early is not None, unmasked=no_masking
        )
        place = [] if out is None or kept.failure else [("saved", str(out))]
        between = simulation_tables(simulation, compared)
        print_code_table(simulation.table, top, shown_label(data), [*lines, *place], between=between)
    if kept.failure is not None:
        raise kept.failure
    if early is not None:
        raise early


def _check_choices(variant: Variant, reference: Path | None, *, no_masking: bool, no_compare: bool) -> None:
    if no_masking and variant is Variant.so:
        msg = "--no-masking does not go with variant so, which has no masks; leave it out"
        raise ParameterError(msg)
    if no_compare and reference is not None:
        msg = "--reference and --no-compare contradict each other; leave one of them out"
        raise ParameterError(msg)


def _prepare(
    sources: list[str], reading: Reading, secret: Path | None, seed: int
) -> "Mapping[str, TransactionDatabase]":
    """Let members with a file each agree on cuts and items."""
    from fedslim.data import ItemSecret
    from fedslim.federated.preparing import prepare_together
    from fedslim.federated.simulation import entropy_of
    from fedslim.schema import Schema

    if reading.schema is None:
        msg = "several files are the tables of members, and need --schema; name one file to divide it"
        raise ParameterError(msg)
    names = [Path(source).stem for source in sources]
    if len(set(names)) < len(names):
        msg = "two files have the same name; members are called by the names of their files, so rename one"
        raise ParameterError(msg)
    agreed, entropy = Schema.read(reading.schema), entropy_of(seed)
    tables = zip(names, sources, strict=True)
    sites = {name: replace(reading, source=one).conformed(agreed) for name, one in tables}
    shared = ItemSecret.from_random(entropy(32)) if secret is None else ItemSecret.read(secret)
    made = prepare_together(agreed, sites, shared, entropy)
    costs = f"{count(made.communication.rounds, 'round')}, {size(made.communication.bytes_total)}"
    say(f"preparation: {count(len(made.preparation.ids), 'item')}, {costs}")
    return made.databases


def _width(variant: Variant, width: int | None, effort: int) -> int:
    """Return the width of the run, after checking that the variant allows it and the effort."""
    from fedslim.federated.simulation import check_effort, width_of

    check_effort(variant.value, effort)
    return width_of(variant.value, width)


def _check_engine(engine: Engine, *, no_masking: bool) -> None:
    if engine is not Engine.nvflare:
        return
    from fedslim.engines import require

    require("nvflare")
    if no_masking:
        msg = "--no-masking does not go with --engine nvflare, which always masks; leave one of them out"
        raise ParameterError(msg)


def _check_folder(out: Path, data: str, reference: Path | None) -> None:
    for name in (CODE_TABLE, RUN):
        check_place(out / name, besides=data)
        check_place(out / name, besides=reference, what="the reference")


def _load(reference: Path) -> "ReferenceTable | CodeTable":
    from fedslim.metrics import load_reference

    return load_reference(reference)


def _introduce(
    watched: WatchedRun,
    parts: "Partition | Mapping[str, TransactionDatabase]",
    database: "TransactionDatabase",
    fewest: int,
) -> None:
    """Show the members on the live page, and the itemsets found, unless some may turn out to be too rare to show."""
    from fedslim.federated.simulation import named_databases
    from fedslim.report.feed import LiveMember

    named = named_databases(parts).items()
    watched.feed.show(members=[LiveMember(name, None, count(len(part), "transaction")) for name, part in named])
    if fewest == 1:
        watched.labels = database.vocabulary.__getitem__


class SimulatedRun:
    """The steps of a simulation. All data are mined in one place at most once, and only if needed."""

    def __init__(
        self,
        name: str,
        database: "TransactionDatabase",
        report: Reporter,
        *,
        variant: Variant,
        engine: Engine,
        min_count: int,
        width: int,
        effort: int,
        seed: int,
    ) -> None:
        self._engine = engine
        self._how: dict[str, Any] = {"min_count": min_count, "width": width, "effort": effort, "seed": seed}
        self._plain = (min_count, width, effort) == (1, 1, 1)
        self._name = name
        self._database = database
        self._report = report
        self._variant = variant.value
        self._whole: CodeTable | None = None

    def divide(self, scheme: Scheme, how: dict[str, Any]) -> "Partition":
        """Divide the data among members."""
        from fedslim.data.partition import check_member_count
        from fedslim.federated.dividing import SKEWED, divide

        check_member_count(self._database, how["members"])
        # With min_count, the table numbers its items differently, and a partition does not depend on the width and the
        # effort: `divide` then mines a plain table itself.
        table = None
        if scheme in SKEWED and self._plain and (table := self._centralised()) is None:
            raise KeyboardInterrupt
        return divide(self._database, scheme.value, **how, table=table)

    def _centralised(self) -> "CodeTable | None":
        """Mine all data in one place; return None if interrupted."""
        if self._whole is None:
            doing = "mining in one place:"
            mined = mined_with_progress(self._database, self._name, self._report, doing=doing, **self._how)
            self._whole = mined.table if mined.converged else None
        return self._whole

    def federate(
        self, partition: "Partition | Mapping[str, TransactionDatabase]", *, max_time: float | None, **how: Any
    ) -> "tuple[Simulation, FedslimError | None]":
        """Run the federation; return the result, and the error if it ended early because a member was lost."""
        from fedslim.federated import simulation as room
        from fedslim.mdl.driver import Stop, stopping_on_interrupt

        compile_with_progress(self._report, lambda: room.prepare(self._variant))
        stop = Stop(max_time)
        members = len(partition if isinstance(partition, Mapping) else partition.parts)
        doing = f"{self._variant} over {count(members, 'member')} of"
        with stopping_on_interrupt(stop), self._report.mining(self._name, stop, doing) as show:
            on_progress = None
            if show is not None:
                on_progress = lambda progress, traffic: show(  # noqa: E731  # None if nothing is shown
                    progress, [count(traffic.rounds, "round"), f"{size(traffic.bytes_total)} sent"]
                )
            if self._engine is Engine.nvflare:
                from fedslim.engines import simulator

                del how["masking"]  # NVFlare always masks
                try:
                    return simulator.simulate(
                        partition, variant=self._variant, max_time=max_time, stop=stop, on_progress=on_progress, **how
                    ), None
                except simulator.EndedEarly as error:
                    return error.simulation, error
            return room.simulate(
                partition, variant=self._variant, max_time=max_time, stop=stop, on_progress=on_progress, **how
            ), None

    def compare(self, simulation: "Simulation", reference: "ReferenceTable | CodeTable | None") -> "Comparison | None":
        """Compare with a reference; return None if interrupted."""
        from fedslim.federated import compare
        from fedslim.mdl.driver import Stop, stopping_on_interrupt

        if reference is None and (reference := self._centralised()) is None:
            return None
        stop = Stop()
        doing = f"mining {count(len(simulation.databases), 'member')} alone, for comparison (Ctrl-C to skip)"
        with stopping_on_interrupt(stop), self._report.stage(doing):
            return compare(simulation, reference, stop=stop)
