"""`fedslim demo`: the built-in hospitals mine together with every variant, and find what none finds alone."""

import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedslim import federated, mdl
from fedslim.cli.commands.show import REPORT, overview
from fedslim.cli.console import options
from fedslim.cli.console.options import Variant, flag, option
from fedslim.cli.console.output import RUN, grid, print_rich
from fedslim.cli.console.progress import Reporter, compile_with_progress, reporter
from fedslim.cli.console.saving import check_place
from fedslim.errors import ParameterError, RunError
from fedslim.format import count, duration, size

if TYPE_CHECKING:
    from fedslim.federated.loopback import LoopbackResult
    from fedslim.safeguards.audit import Summary

    Runs = list[tuple[federated.Simulation, federated.Comparison]]
    NetworkRuns = list[tuple[federated.Simulation, LoopbackResult, Summary]]

DATA = "encounters"
OUT = "fedslim-demo"
MEMBERS = ("north", "south", "west")  # of the demo with processes
SHOWN = 5  # number of itemsets to show


def demo(
    quiet: bool = options.QUIET,
    network: bool = flag("--network", "Run a server and three members as processes on this machine, over TLS."),
    variants: list[Variant] | None = option(
        "x|sa|so", "With --network: the variant; may be repeated.  [default: x]", name="--variant"
    ),
    out: Path | None = option(
        "DIR", f"Folder for run records and {REPORT}; with --network, for each party's.  [default: {OUT}]"
    ),
) -> None:
    """Let six hospitals with built-in, synthetic patients mine together, with each variant of the protocol.

    The output shows what each variant finds and costs, and itemsets that the hospitals find together but none finds
    alone. Among them are drug interactions with only a few cases at each hospital.
    """
    report = reporter(quiet=quiet)
    if network:
        networked_demo(DATA, [each.value for each in variants or (Variant.x,)], report, out)
        return
    if variants:
        raise ParameterError("--variant needs --network; without --network, the demo runs all variants")
    place = (out or Path(OUT)) / REPORT
    check_place(place)
    with report.stage("loading"):
        from fedslim.data import TransactionDatabase, builtin_members
        from fedslim.federated.records import save_run, simulation_record
        from fedslim.federated.simulation import prepare, simulate
        from fedslim.report.page import write_page
        from fedslim.report.view import view

        databases = dict(builtin_members(DATA))
    for variant in Variant:
        compile_with_progress(report, lambda: prepare(variant))  # noqa: B023  # called at once
    runs: Runs = []
    records = []
    with report.stage("mining all data in one place"):
        whole = mdl.mine(TransactionDatabase.joined(list(databases.values())))
    with report.stage("mining each member alone, for comparison"):
        alone = federated.mine_alone(list(databases.values()), whole.table)  # one gap for all variants
    for variant in Variant:
        with report.stage(f"mining together: {variant.value}"):
            simulation = simulate(databases, variant=variant.value)
        compared = federated.compare(simulation, alone=alone)
        assert compared is not None  # noqa: S101  # nothing can interrupt it here
        runs.append((simulation, compared))
        record = simulation_record(simulation, compared, data=DATA, command="fedslim demo")
        save_run(record, place.parent / simulation.variant / RUN)
        records.append(record)
    shown = view(records, title="Six hospitals, mining together")
    write_page(shown, place)
    facts = [*_facts(whole, runs), *((run.variant, run.meaning) for run in shown.runs), ("report", str(place))]
    print_rich(overview(shown), _together(runs), facts)


def _together(runs: "Runs") -> Any:
    """Return a table of itemsets that no member finds alone, those with the fewest cases at any member first."""
    found: dict[tuple[str, ...], tuple[int, ...]] = {}
    by = defaultdict[tuple[str, ...], list[str]](list)
    for simulation, compared in runs:
        for itemset in compared.recovered:
            found[itemset.labels] = itemset.supports
            by[itemset.labels].append(simulation.variant)
    rarest = sorted(found, key=lambda labels: (max(found[labels]), -len(labels), labels))[:SHOWN]
    place = runs[0][0].table.vocabulary.index
    rows = [(" + ".join(map(str, found[one])), by[one], sorted(one, key=place)) for one in rarest]
    return grid(("cases at each member", "found by", "found together, by no member alone"), rows, right=1)


def _facts(whole: "mdl.Mined", runs: "Runs") -> list[tuple[str, str]]:
    simulation, compared = runs[0]
    alone = [len(table) for table in compared.local_tables]
    where = f"{count(simulation.table.transactions, 'transaction')} at {', '.join(simulation.members)}"
    missed = f"{len(compared.gap)} of the {len(whole.table)} found in one place are found by no member: the gap"
    percent = whole.table.compression.L_percent
    return [
        ("data", f"{DATA}, synthetic: {where}"),
        ("one place", f"{count(len(whole.table), 'itemset')}, L% {percent:.2f}"),
        ("alone", f"a member finds {min(alone)} to {max(alone)} itemsets; {missed}"),
        ("more", f"fedslim simulate {DATA} --variant sa --members 10"),
    ]


# -- with processes: compared with the result of one process ----------------------------------------------------------


def networked_demo(data: str, variants: list[str], report: "Reporter", out: Path | None = None) -> None:
    """Run a server and three members as processes, over mutual TLS on loopback; each party's report goes to `out`."""
    with report.stage("loading"):
        from fedslim.data import load
        from fedslim.data.partition import iid
        from fedslim.federated.loopback import NOTHING_LEFT_OUT, Loopback
        from fedslim.federated.records import load_run
        from fedslim.federated.simulation import prepare, simulate
        from fedslim.report.page import write_page
        from fedslim.report.view import view
        from fedslim.safeguards.audit import summarise

        parts = dict(zip(MEMBERS, iid(load(data), len(MEMBERS), seed=0).parts, strict=True))
    runs: NetworkRuns = []
    for variant in variants:
        compile_with_progress(report, lambda: prepare(variant))  # noqa: B023  # called at once
        with report.stage(f"mining in one process: {variant}"):
            # The defaults of a federation file; sa and so have no smallest count.
            limits = {"min_count": 5, "min_members_with": 2} if variant == "x" else NOTHING_LEFT_OUT
            simulation = simulate(parts, variant=variant, **limits)
        with tempfile.TemporaryDirectory(prefix="fedslim-demo-") as folder:
            with report.stage("enrolling a server and its members"):
                federation = Loopback.make(Path(folder), parts, variant=variant, limits=limits, share_labels="members")
            with report.stage(f"mining with a server and {len(MEMBERS)} members on 127.0.0.1: {variant}"):
                result = federation.run(compare=out is not None)
            if out is not None:
                for who in ("server", *MEMBERS):
                    shown = view([load_run(federation.out(who))], title=f"{data}: {who}")
                    write_page(shown, out / f"{variant}-{who}.html", private=True)
            audit = summarise(federation.out(MEMBERS[0]) / "audit.jsonl")
        if any(table != simulation.table for table in (result.table, *result.told.values())):
            raise RunError(f"{variant}: the processes found a different table than one process; report this as a bug")
        runs.append((simulation, result, audit))
    reports = [] if out is None else [("reports", str(out))]
    first, result, _ = runs[0]
    rows = [(f"{e.bits_saved:,.0f}", e.usage, e.labels) for e in result.table.top(SHOWN)]
    found = grid(("bits saved", "usage", f"found by {first.variant}"), rows, right=2)
    facts = [*_network_facts(data, runs), *reports]
    print_rich(found, overview(view([result.record for _, result, _ in runs])), facts)


def _network_facts(data: str, runs: "NetworkRuns") -> list[tuple[str, str]]:
    simulation = runs[0][0]
    sizes = ", ".join(f"{name} {size:,}" for name, size in zip(simulation.members, simulation.sizes, strict=True))
    members, audits = count(len(simulation.members), "member"), []
    for run, result, log in runs:
        total = log.total
        who = f"server{' and members' if result.told else ''}"
        audits.append((f"table {run.variant}", f"equal ({who}) to that of one process, in {duration(result.seconds)}"))
        unmasked = total.statistics - total.statistics_masked
        sent = f"{log.member} sent {count(total.messages, 'message')}, {size(total.bytes)}"
        statistics = f"{total.statistics_masked:,} statistics masked, {unmasked:,} unmasked"
        audits.append((f"audit {run.variant}", f"{sent}: {statistics}, {total.labels:,} labels"))
    return [
        ("data", f"{data}, synthetic, divided among members: {sizes} transactions"),
        ("processes", f"a server and {members}, TLS 1.3 with certificates on both sides"),
        *audits,
        ("more", "https://fedslim.readthedocs.io/en/latest/how-to/deploy.html"),
    ]
