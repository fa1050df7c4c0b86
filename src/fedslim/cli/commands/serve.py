"""`fedslim server`, `fedslim member` and `fedslim status`: a federation over a network."""

import asyncio
import contextlib
import gc
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import fedslim
from fedslim.cli.console import options, output, passphrases
from fedslim.cli.console.live import PORT, live_page, member_watched_by, report_on_saved, server_watched_by
from fedslim.cli.console.options import Reading, flag, option, reads_data, typed_command
from fedslim.cli.console.progress import Reporter, compile_with_progress, mined_with_progress, reporter
from fedslim.errors import ParameterError, RunError, WriteError
from fedslim.format import count, printable, size

if TYPE_CHECKING:
    from fedslim.data import ItemSecret, TransactionDatabase
    from fedslim.federated.deployment import DeployedMember, DeployedServer
    from fedslim.federated.folder import Finished, RunFolder
    from fedslim.federated.records import RunRecord
    from fedslim.protocol.preparation import Preparation
    from fedslim.protocol.prepare import Site
    from fedslim.settings.federation_file import FederationFile
    from fedslim.trust.identity import Identity

FOLDER_MODE = 0o700  # permissions of a new run folder; an existing one keeps its own
AUDIT = "audit.jsonl"
TOP = 10
SAY_EVERY = 5.0  # seconds between two progress lines

PREPARATION = option("FILE", "Start from the preparation.json of an earlier run, without a new preparation.")
CLASSES = option("A,B,…", "Train a classifier, with one run for each class; give the same list to all parties.")
SERVER_HOST = option("HOST", "The server's host, if not as in the file.")
SERVER_PORT = option("N", "The server's port, if not as in the file.")
IDENTITY = option("DIR", "The folder with key and certificate; by default `certificates` in the federation file.")


def server(
    context: typer.Context,
    file: Path = options.FEDERATION,
    out: Path = option("DIR", "The run folder, for results and journal.", default=Path("run")),
    identity: Path | None = IDENTITY,
    passphrase_file: Path | None = passphrases.FILE,
    resume: bool = flag("--resume", "Continue the run whose journal is in --out, if there is one."),
    preparation: Path | None = PREPARATION,
    port: int | None = option("N", "Listen on this port instead of the one in the file."),
    host: str | None = option("HOST", "Listen on this address only."),
    classes: str | None = CLASSES,
    live: int | None = PORT,
) -> None:
    """Run the server of a federation until its members have found their code table.

    The server waits for all members, runs the search, and writes the code table (items as ids) and a run record to
    --out. SIGTERM or Ctrl-C stops the run after its round, with the best table so far; a second one stops it
    immediately, and --resume continues it.
    """
    from fedslim.cli.commands.classes import class_runs, share_preparation
    from fedslim.cli.console.logs import set_up_logs
    from fedslim.federated.accounting import save_served
    from fedslim.federated.deployment import DeployedServer
    from fedslim.federated.simulation import prepare
    from fedslim.settings.federation_file import FederationFile

    federation = FederationFile.read(file)
    who = load_identity(identity or federation.server.certificates, passphrase_file)
    set_up_logs(federation.log)
    shown = live_page(context, live, federation.federation.name, reporter(quiet=False))
    runs = class_runs(federation, classes, out)
    first = runs[0][2]
    for _, one, place in runs:
        with hold_folder(place, "fedslim server") as folder:
            share_preparation(one, first, place)
            run = DeployedServer(one, who, place, find_kept(preparation if place == first else None, one, place))
            finished = folder.finished(who="server", federation=one.digest().hex())
            if finished is not None:
                run.forget()
                show_finished(finished, place, one.federation.name)
                continue
            compile_with_progress(shown, partial(prepare, one.federation.variant))
            gc.freeze()  # modules and kernels stay, so that collecting the garbage of connections is fast
            serving = run.run(resume=resume, host=host, port=port, on_round=_progress(run))
            around = server_watched_by(shown, run, one.federation.name, partial(_stop, run))
            served = run_until_over(serving, partial(_stop, run), around)
            save_served(served, one, place, typed_command(context))
            if served.lost is None:
                # Only after everything is saved: a server that is killed before can resume.
                folder.finish(note_finished("server", one, run.run_id, served.ending, len(served.table)))
                run.forget()
            show_table(served.table, one.federation.name, place)
            traffic = served.communication
            found = f"{count(len(served.table), 'itemset')}, L% {served.table.compression.L_percent:.2f}"
            cost = f"{count(traffic.rounds, 'round')}, {size(traffic.bytes_total)}"
            output.say(f"{served.ending}: {found}, {cost}; saved in {place}")
            if served.lost is not None:
                raise served.lost
    report_on_saved(shown, (place for *_, place in runs))


def find_kept(given: Path | None, federation: "FederationFile", out: Path) -> "Preparation | None":
    """Return the preparation to start from, if there is one."""
    from fedslim.federated.folder import find_preparation

    if given is not None and not federation.prepares:
        msg = f"--preparation is for federations with a schema, and {federation.path} has none; leave it out"
        raise ParameterError(msg)
    return find_preparation(given, federation, out) if federation.prepares else None


def load_identity(folder: Path, passphrase_file: Path | None) -> "Identity":
    """Load and check the identity of this process, and say what is about to expire."""
    from fedslim.trust.identity import KEY, Identity

    identity = Identity.load(folder, passphrases.for_key(folder / KEY, passphrase_file))
    now = datetime.now(UTC)
    identity.check(now)
    for warning in identity.warnings(now):
        output.say(f"warning: {warning}")
    return identity


def hold_folder(path: Path, program: str) -> AbstractContextManager["RunFolder"]:
    """Create and lock the run folder."""
    from fedslim.federated.folder import RunFolder

    try:
        path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    except OSError as error:
        msg = f"--out {path}: the run folder cannot be created ({error.strerror}); name another folder"
        raise ParameterError(msg) from error
    return RunFolder.held(path, program)


def note_finished(who: str, federation: "FederationFile", run: str, ending: str, itemsets: int) -> "Finished":
    """Return the note that a run has ended, with this result."""
    from fedslim.federated.folder import Finished

    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Finished(who, federation.digest().hex(), run, ending, itemsets, now)


def show_finished(finished: "Finished", out: Path, name: str) -> None:
    """Show the result of a finished run, instead of starting another one."""
    if (out / output.CODE_TABLE).exists():
        show_table(fedslim.CodeTable.load(out / output.CODE_TABLE), name, out)
    ended = f"{finished.at}, {finished.ending}: {count(finished.itemsets, 'itemset')}"
    output.say(f"no new run: the run in {out} has ended ({ended}); for another run, name another folder with --out")


def show_table(table: "fedslim.CodeTable", name: str, out: Path) -> None:
    """Print a saved table. A failure to print is no error: a systemd unit would start another run."""
    try:
        output.print_code_table(table, TOP, name)
    except WriteError as error:
        output.say(f"the table could not be printed ({error}); it is saved in {out}")


def run_until_over(
    run: Coroutine[Any, Any, Any], stop: Callable[[], bool] | None, around: AbstractAsyncContextManager[None]
) -> Any:
    """Run to the end; SIGTERM and Ctrl-C stop gracefully if `stop` can, and else cancel the run."""

    async def main() -> Any:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # this coroutine runs in one

        def on_signal() -> None:
            if stop is None or not stop():
                task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # on Windows: Ctrl-C then cancels the run
                loop.add_signal_handler(number, on_signal)
        async with around:
            return await run

    try:
        return asyncio.run(main())
    except asyncio.CancelledError as error:
        raise KeyboardInterrupt from error


def _stop(run: "DeployedServer") -> bool:
    """Stop the run with the best table so far; return False if the server does not listen yet."""
    output.say("stopping after this round, with the best table so far; repeat to stop immediately")
    if run.network is None:
        return False
    run.network.stop()
    return True


def _progress(run: "DeployedServer") -> Callable[[], None]:
    last = time.monotonic()

    def on_round() -> None:
        nonlocal last
        if run.network is not None and time.monotonic() - last >= SAY_EVERY:
            last = time.monotonic()
            output.say(status_line(run.network.status(), digits=2))

    return on_round


# -- a member ------------------------------------------------------------------------------------------------------


@reads_data
def member(  # noqa: C901, PLR0915  # the steps of a run, in their order
    context: typer.Context,
    file: Path = options.FEDERATION,
    *,
    name: str = option("NAME", "Name of this member, as in its certificate.", default=...),
    data: str = option("DATA", "The data of this member, as for `fedslim mine`.", options.masked, default=...),
    secret: Path = option("FILE", "The secret that the members share.", default=...),
    vocabulary: Path | None = options.VOCABULARY,
    preparation: Path | None = PREPARATION,
    check: bool = flag("--check", "Check data, schema, policy, ledger, secret and certificate, then stop."),
    out: Path = option("DIR", "The run folder, for result, journal and audit log.", default=Path("run")),
    identity: Path | None = IDENTITY,
    policy: Path | None = option("FILE", "The policy of this member; by default policy.toml beside its key."),
    passphrase_file: Path | None = passphrases.FILE,
    labels: Path | None = options.LABELS,
    reading: Reading,
    host: str | None = SERVER_HOST,
    port: int | None = SERVER_PORT,
    no_compare: bool = flag(
        "--no-compare", "Skip the comparison after the run, with the others and with mining alone."
    ),
    classes: str | None = CLASSES,
    class_column: str | None = option("C", "With --classes: the column that has them; without it, classes are items."),
    live: int | None = PORT,
) -> None:
    """Take part in a federation, if the policy and ledger of this member allow it.

    With a schema, the members first agree on cuts and vocabulary in a preparation, which --out keeps. Every message is
    written to the audit log in --out before it is sent: see `fedslim audit`. To rejoin a run, run the same command
    again. After the run, `fedslim report` shows what this member has found and what is different here.
    """
    from fedslim.cli.commands.classes import class_runs, rows_of_class, save_classifier, share_preparation
    from fedslim.cli.console.logs import set_up_logs
    from fedslim.data import ItemSecret, Vocabulary
    from fedslim.data.vocabulary import names_for, read_labels
    from fedslim.federated.accounting import save_results
    from fedslim.federated.deployment import MEMBER_JOURNAL, DeployedMember
    from fedslim.federated.own_record import member_record
    from fedslim.federated.simulation import prepare
    from fedslim.safeguards.audit import AuditLog, summarise
    from fedslim.safeguards.guard import Guard
    from fedslim.settings.federation_file import FederationFile
    from fedslim.settings.policy import MemberPolicy

    federation = FederationFile.read(file)
    folder = identity or federation.server.certificates
    own = MemberPolicy.find(folder) if policy is None else MemberPolicy.read(policy)
    set_up_logs(federation.log)
    Guard(own, federation)  # before anything else is read
    who = load_identity(folder, passphrase_file)
    if who.name != name:
        msg = f"--name is {name!r}, but the certificate belongs to {who.name!r}; use the folder of {name!r}"
        raise ParameterError(msg)
    shared = ItemSecret.read(secret)
    if reading.schema is not None and vocabulary is not None:
        msg = "--vocabulary does not go with --schema: the members find it in the preparation; leave it out"
        raise ParameterError(msg)
    catalogue = {} if labels is None else dict.fromkeys(read_labels(labels), "")

    shown = live_page(context, live, f"{name} · {federation.federation.name}", reporter(quiet=False))

    runs = class_runs(federation, classes, out)

    def take_part(label: str | None, federation: FederationFile, out: Path) -> None:
        guard = Guard(own, federation)

        def joined(audit: AuditLog | None) -> DeployedMember:
            """Read everything, and check it before anybody waits for this member."""
            read = _read(reading, federation, shared, own.policy.min_overlap, shown)
            if label is not None:
                read = rows_of_class(reading, read, classes or "", class_column, label)
            agreed = None if vocabulary is None else Vocabulary.read(vocabulary)
            kept = find_kept(preparation if out == runs[0][2] else None, federation, out)
            return DeployedMember(federation, who, read, shared, agreed, out, audit=audit, guard=guard, kept=kept)

        if check:
            _show_ready(joined(None))
            return
        with hold_folder(out, f"fedslim member --name {name}") as place:
            finished = place.finished(who=name, federation=federation.digest().hex())
            if finished is not None:
                (out / MEMBER_JOURNAL).unlink(missing_ok=True)
                show_finished(finished, out, federation.federation.name)
                return
            share_preparation(federation, runs[0][2], out)
            with AuditLog.of(out / AUDIT, federation, name) as audit:
                member = joined(audit)
                compile_with_progress(shown, lambda: prepare(federation.federation.variant))
                around = member_watched_by(shown, member, audit)
                received = run_until_over(member.run(host=host, port=port), None, around)
            if received.table is None or member.database is None:
                raise RunError(f"the run ended without a table ({received.ending})")
            named = received.table.renamed(names_for(catalogue, shared))
            kept, record = guard.kept(named, member.database, shared), None
            if kept is not None:
                how = {"ending": received.ending, "rounds": member.session.position, "command": typed_command(context)}
                how["sent"] = summarise(out / AUDIT)
                record = member_record(federation, name, named, kept, member.database, **how)
                save_results(kept, record, out)
            # Only after everything is saved: until then, the same command needs the journal.
            place.finish(
                note_finished(name, federation, member.session.run.hex(), received.ending, len(received.table))
            )
            member.forget()
            _show_found(received.ending, named, kept, federation, out)
            if record is not None and not no_compare and label is None:
                _compare(record, named, (data, member.database), out, shown)

    for run in runs:
        take_part(*run)
    report_on_saved(shown, (place for *_, place in runs))
    if classes is not None and not check:
        save_classifier([(label, place / output.CODE_TABLE) for label, _, place in runs], out)


def _read(
    reading: Reading, federation: "FederationFile", secret: "ItemSecret", min_overlap: float, shown: Reporter
) -> "TransactionDatabase | Site":
    """Read this member's data, as items or in terms of the schema."""
    from fedslim.protocol.prepare import Site
    from fedslim.schema import Schema

    schema = None if reading.schema is None else Schema.read(reading.schema)
    federation.check_schema(schema)
    with shown.stage(f"reading {output.shown_label(reading.source)}"):
        return reading.load() if schema is None else Site(schema, reading.conformed(schema), secret, min_overlap)


def _show_ready(member: "DeployedMember") -> None:
    """Say what a dry run found."""
    from fedslim.cli.commands.agreeing import show_report

    if member.site is not None:
        output.print_rich(*show_report(member.site.conformed.report))
    checked = "policy, ledger, secret and certificate are fine; nothing was sent"
    output.say(f"ready: {count(member.transactions, 'transaction')}; {checked}")


def _show_found(
    ending: str, table: "fedslim.CodeTable", kept: "fedslim.CodeTable | None", federation: "FederationFile", out: Path
) -> None:
    """Show what a member found, and say where it is."""
    if kept is not None:
        show_table(kept, federation.federation.name, out)
    own_only = federation.federation.variant == "so"
    whose = " in this member's own table (in variant so, members get no other)" if own_only else ""
    where = f"saved in {out}" if kept is not None else "not saved, as results.table = none in this member's policy"
    output.say(f"{ending}: {count(len(table), 'itemset')}{whose}; {where}")


def _compare(
    record: "RunRecord", table: "fedslim.CodeTable", data: "tuple[str, TransactionDatabase]", out: Path, shown: Reporter
) -> None:
    """Compare a member's data with the others', and with what it finds alone, after the run; Ctrl-C skips the rest."""
    from fedslim.federated.own_record import compared_record
    from fedslim.federated.records import RUN, save_run

    how = {name: record.settings[name] for name in ("width", "effort", "seed")}
    doing = "mining alone, to compare (nothing is sent):"
    mined = mined_with_progress(data[1], data[0], shown, doing=doing, **how)
    compared = compared_record(record, table, mined.table if mined.converged else None)
    save_run(compared, out / RUN, private=True)
    missed = compared.figures.get("not_found_alone", "an unknown number")
    told = "this member finds all of them alone; to see the report"
    if missed != 0:
        told = f"{missed} of them {'is' if missed == 1 else 'are'} not found by this member alone; to see them"
    output.say(f"{told}, run `fedslim report {out}`")


# -- status ------------------------------------------------------------------------------------------------------------

WATCH_EVERY, WATCH_GRACE = 2.0, 30.0
"""Seconds between two questions for the status, and how long the server may fail to answer."""


def status(
    file: Path = options.FEDERATION,
    identity: Path | None = IDENTITY,
    watch: bool = flag("--watch", "Update the display until the run ends or you press Ctrl-C."),
    json: bool = options.JSON,
    host: str | None = SERVER_HOST,
    port: int | None = SERVER_PORT,
) -> None:
    """Show the progress of a running server: the connected members, the round, and whom it is waiting for.

    The server answers only members, so this needs the certificate of a member.
    """
    from fedslim.network.status import ask
    from fedslim.settings.federation_file import FederationFile
    from fedslim.trust.tls import client_context

    federation = FederationFile.read(file)
    who = load_identity(identity or federation.server.certificates, None)
    context = client_context(who, now=datetime.now(UTC))

    def asked() -> dict[str, Any]:
        return asyncio.run(ask(context, host or federation.server.host, port or federation.server.port))

    if json and watch:
        raise ParameterError("--json and --watch do not go together; leave one of them out")
    if watch:
        with contextlib.suppress(KeyboardInterrupt):  # how people end it
            _watch(asked)
    elif json:
        output.print_json(asked())
    else:
        output.print_text(_status_text(asked()))


def _watch(asked: Callable[[], dict[str, Any]]) -> None:
    """Show the status until the run has ended: in place on a terminal, otherwise the lines that have changed."""
    from rich.live import Live
    from rich.text import Text

    found, before, answered = asked(), "", time.monotonic()
    lively = Live(console=output.rich_console(), auto_refresh=False) if output.is_terminal(sys.stdout) else None
    with lively or contextlib.nullcontext():
        text = _status_text(found)
        while True:
            if lively is not None:
                lively.update(Text(text.rstrip("\n")), refresh=True)
            else:
                output.print_text("".join(line for line in text.splitlines(keepends=True) if line not in before))
            if found["over"]:
                return
            time.sleep(WATCH_EVERY)
            before = text
            try:
                found = asked()
                text, answered = _status_text(found), time.monotonic()
            except RunError as error:  # the server may be restarting
                if time.monotonic() - answered > WATCH_GRACE:
                    raise RunError(f"{error}; if the run has ended, `fedslim show` shows its result") from error
                text = _status_text(found) + printable(f"{error}; trying again") + "\n"


def _status_text(found: dict[str, Any]) -> str:
    """Return a status as lines, escaped, as all of it comes from the server."""
    lines = [
        f"{name}: {'connected' if member['here'] else 'not connected'}, {member['state']}"
        for name, member in found["members"].items()
    ]
    return "".join(printable(line) + "\n" for line in (*lines, status_line(found)))


def status_line(found: dict[str, Any], digits: int = 0) -> str:
    """Return how far a run is, and whom it is waiting for."""
    percent = "" if found["L_percent"] is None else f", L% {found['L_percent']:.{digits}f}"
    traffic = f"{size(found['bytes_up'])} up, {size(found['bytes_down'])} down"
    awaited = ", ".join(found["waiting_for"]) or "nobody"
    reached = "preparing" if found.get("variant") == "prepare" else f"{count(found['itemsets'], 'itemset')}{percent}"
    return f"round {found['rounds']}: {reached}, {traffic}; waiting for {awaited}"
