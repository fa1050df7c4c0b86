"""`fedslim server`, `fedslim member` and `fedslim status`: a federation over a network."""

# Typer evaluates annotations at run time, so command modules do not postpone them.
import asyncio
import contextlib
import gc
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedslim.cli.console import options, passphrases
from fedslim.cli.console.live import (
    Port,
    become_report,
    live_page,
    member_watched_by,
    server_watched_by,
)
from fedslim.cli.console.options import Reading, reads_data
from fedslim.cli.console.output import print_code_table
from fedslim.cli.console.progress import Reporter, reporter
from fedslim.cli.console.repeating import typed_command
from fedslim.cli.console.running import compile_with_progress, mined_with_progress, read_and_prepare
from fedslim.cli.console.stream import is_terminal, print_json, print_text, say, stdout_console
from fedslim.cli.console.text import count, printable, size
from fedslim.errors import ParameterError, RunError, WriteError

if TYPE_CHECKING:
    from fedslim.data import TransactionDatabase
    from fedslim.federated.deployment import DeployedServer
    from fedslim.federated.folder import Finished, RunFolder
    from fedslim.federated.records import RunRecord
    from fedslim.mdl import CodeTable
    from fedslim.settings.federation_file import FederationFile
    from fedslim.trust import Identity

FOLDER_MODE = 0o700
"""Permissions of a new run folder; an existing one keeps its own."""
CODE_TABLE, AUDIT = "codetable.json", "audit.jsonl"
TOP = 10
SAY_EVERY = 5.0
"""Seconds between two progress lines."""
WATCH_EVERY, WATCH_GRACE = 2.0, 30.0
"""Seconds between two questions for the status, and how long the server may fail to answer."""

FederationArgument = Annotated[Path, typer.Argument(metavar="FEDERATION", help="The federation file.")]
IdentityOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="The folder with key and certificate; by default `certificates` in the federation file."
    ),
]


def server(
    context: typer.Context,
    file: FederationArgument,
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The run folder, for results and journal.")] = Path("run"),
    identity: IdentityOption = None,
    passphrase_file: passphrases.File = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run whose journal is in --out, if there is one.")
    ] = False,
    port: Annotated[
        int | None, typer.Option(metavar="N", help="Listen on this port instead of the one in the file.")
    ] = None,
    host: Annotated[str | None, typer.Option(metavar="HOST", help="Listen on this address only.")] = None,
    live: Port = None,
) -> None:
    """Run the server of a federation until its members have found their code table.

    The server waits for all members, runs the search, and writes the code table (items as ids) and a run record to
    --out. SIGTERM or Ctrl-C stops the run after its round, with the best table so far; a second one stops it
    immediately, and --resume continues it.
    """
    from fedslim.cli.console.logs import set_up_logs
    from fedslim.federated.accounting import save_served
    from fedslim.federated.deployment import DeployedServer
    from fedslim.federated.simulation import prepare
    from fedslim.settings.federation_file import FederationFile

    federation = FederationFile.read(file)
    who = _identity(identity or federation.server.certificates, passphrase_file)
    set_up_logs(federation.log)
    run = DeployedServer(federation, who, out)
    with _folder(out, "fedslim server") as folder:
        finished = folder.finished(who="server", federation=federation.digest().hex())
        if finished is not None:
            run.forget()
            _show_finished(finished, out, federation.federation.name)
            return
        watched, shown = live_page(context, live, federation.federation.name, reporter(quiet=False))
        compile_with_progress(shown, lambda: prepare(federation.federation.variant))
        gc.freeze()  # modules and kernels stay, so that collecting the garbage of connections is fast
        serving = run.run(resume=resume, host=host, port=port, on_round=_progress(run))
        served = _until_over(serving, lambda: _stop(run), server_watched_by(watched, run, lambda: _stop(run)))
        save_served(served, federation, out)
        if served.lost is None:
            # Only after everything is saved: a server that is killed before can resume.
            folder.finish(_check_finished("server", federation, run.run_id, served.outcome.ending, len(served.table)))
            run.forget()
        become_report(watched, out)
        _show(served.table, federation.federation.name, out)
        traffic = served.communication
        say(
            f"{served.outcome.ending}: {count(len(served.table), 'itemset')}, "
            f"L% {served.table.compression.L_percent:.2f}, {count(traffic.rounds, 'round')}, "
            f"{size(traffic.bytes_total)}; saved in {out}"
        )
        if served.lost is not None:
            raise served.lost


@reads_data
def member(
    context: typer.Context,
    file: FederationArgument,
    *,
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of this member, as in its certificate.")],
    data: Annotated[
        str,
        typer.Option(metavar="DATA", callback=options.masked, help="The data of this member, as for `fedslim mine`."),
    ],
    secret: Annotated[Path, typer.Option(metavar="FILE", help="The secret that the members share.")],
    vocabulary: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The vocabulary that the members agreed on.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The run folder, for result, journal and audit log.")] = Path(
        "run"
    ),
    identity: IdentityOption = None,
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The policy of this member; by default policy.toml beside its key."),
    ] = None,
    passphrase_file: passphrases.File = None,
    labels: options.Labels = None,
    reading: Reading,
    host: Annotated[str | None, typer.Option(metavar="HOST", help="The server's host, if not as in the file.")] = None,
    port: Annotated[int | None, typer.Option(metavar="N", help="The server's port, if not as in the file.")] = None,
    no_compare: Annotated[
        bool,
        typer.Option(
            "--no-compare", help="Do not compare after the run with the others, and with what is found alone."
        ),
    ] = False,
    live: Port = None,
) -> None:
    """Take part in a federation, if the policy and ledger of this member allow it.

    Every message is written to the audit log in --out before it is sent: see `fedslim audit`. To rejoin a run, run
    the same command again. After the run, `fedslim report` shows what this member has found and what is different here.
    """
    from fedslim.cli.console.logs import set_up_logs
    from fedslim.data import ItemSecret, Vocabulary
    from fedslim.data.vocabulary import names_for, read_labels
    from fedslim.federated.accounting import save_results
    from fedslim.federated.deployment import MEMBER_JOURNAL, DeployedMember
    from fedslim.federated.own_record import member_record
    from fedslim.federated.simulation import prepare
    from fedslim.safeguards.audit import AuditLog
    from fedslim.safeguards.guard import Guard
    from fedslim.settings.federation_file import FederationFile
    from fedslim.settings.policy import MemberPolicy

    federation = FederationFile.read(file)
    folder = identity or federation.server.certificates
    own = MemberPolicy.find(folder) if policy is None else MemberPolicy.read(policy)
    set_up_logs(federation.log)
    guard = Guard(own, federation)  # before anything else is read
    who = _identity(folder, passphrase_file)
    if who.name != name:
        msg = f"--name is {name!r}, but the certificate belongs to {who.name!r}; use the folder of {name!r}"
        raise ParameterError(msg)
    shared = ItemSecret.read(secret)
    catalogue = {} if labels is None else dict.fromkeys(read_labels(labels), "")
    agreed = None if vocabulary is None else Vocabulary.read(vocabulary)
    with _folder(out, f"fedslim member --name {name}") as place:
        finished = place.finished(who=name, federation=federation.digest().hex())
        if finished is not None:
            (out / MEMBER_JOURNAL).unlink(missing_ok=True)
            _show_finished(finished, out, federation.federation.name)
            return
        watched, shown = live_page(context, live, f"{name} · {federation.federation.name}", reporter(quiet=False))
        database = read_and_prepare(reading, shown, lambda: prepare(federation.federation.variant))
        with AuditLog.of(out / AUDIT, federation, name) as audit:
            member = DeployedMember(federation, who, database, shared, agreed, out, audit=audit, guard=guard)
            received = _until_over(member.run(host=host, port=port), None, member_watched_by(watched, member, audit))
        if received.table is None:
            msg = f"the run ended without a table ({received.ending})"
            raise RunError(msg)
        named = received.table.renamed(names_for(catalogue, shared))
        kept, record = guard.kept(named, database, shared), None
        if kept is not None:
            how = {"ending": received.ending, "rounds": member.session.position, "command": typed_command(context)}
            record = member_record(federation, name, named, kept, database, audit=out / AUDIT, **how)
            save_results(kept, record, out)
        # Only after everything is saved: until then, the same command needs the journal.
        place.finish(_check_finished(name, federation, member.session.run.hex(), received.ending, len(received.table)))
        member.forget()
        _show_found(received.ending, named, kept, federation, out)
        if record is not None:
            become_report(watched, out)
            if not no_compare:
                _compare(record, named, (data, database), out, shown)


def status(
    file: FederationArgument,
    *,
    identity: IdentityOption = None,
    watch: Annotated[bool, typer.Option("--watch", help="Keep showing it, until the run ends or Ctrl-C.")] = False,
    json: options.Json = False,
    host: Annotated[str | None, typer.Option(metavar="HOST", help="The server's host, if not as in the file.")] = None,
    port: Annotated[int | None, typer.Option(metavar="N", help="The server's port, if not as in the file.")] = None,
) -> None:
    """Show the progress of a running server: the connected members, the round, and whom it is waiting for.

    The server answers only members, so this needs the certificate of a member.
    """
    from datetime import UTC, datetime

    from fedslim.network.status import ask
    from fedslim.settings.federation_file import FederationFile
    from fedslim.trust import client_context

    federation = FederationFile.read(file)
    who = _identity(identity or federation.server.certificates, None)
    context = client_context(who, now=datetime.now(UTC))

    def asked() -> dict[str, Any]:
        return asyncio.run(ask(context, host or federation.server.host, port or federation.server.port))

    if json and watch:
        msg = "--json and --watch do not go together; leave one of them out"
        raise ParameterError(msg)
    if watch:
        with contextlib.suppress(KeyboardInterrupt):  # how people end it
            _watch(asked)
    elif json:
        print_json(asked())
    else:
        print_text(_status_text(asked()))


def _watch(asked: Callable[[], dict[str, Any]]) -> None:
    """Show the status until the run has ended: in place on a terminal, otherwise the lines that have changed."""
    from rich.live import Live
    from rich.text import Text

    found, before, answered = asked(), "", time.monotonic()
    lively = Live(console=stdout_console(), auto_refresh=False) if is_terminal(sys.stdout) else None
    with lively or nullcontext():
        text = _status_text(found)
        while True:
            if lively is not None:
                lively.update(Text(text.rstrip("\n")), refresh=True)
            else:
                print_text("".join(line for line in text.splitlines(keepends=True) if line not in before))
            if found["over"]:
                return
            time.sleep(WATCH_EVERY)
            before = text
            try:
                found = asked()
                text, answered = _status_text(found), time.monotonic()
            except RunError as error:  # the server may be restarting
                if time.monotonic() - answered > WATCH_GRACE:
                    raise
                text = printable(f"{error}; trying again") + "\n"


def _status_text(found: dict[str, Any]) -> str:
    """Return a status as lines, escaped, as all of it comes from the server."""
    lines = [
        f"{name}: {'connected' if member['here'] else 'not connected'}, {member['state']}"
        for name, member in found["members"].items()
    ]
    percent = "" if found["L_percent"] is None else f", L% {found['L_percent']:.0f}"
    awaited = ", ".join(found["waiting_for"]) or "nobody"
    lines.append(
        f"round {found['rounds']}: {count(found['itemsets'], 'itemset')}{percent}, {size(found['bytes_up'])} up, "
        f"{size(found['bytes_down'])} down; waiting for {awaited}"
    )
    return "".join(printable(line) + "\n" for line in lines)


def _show_found(
    ending: str, table: "CodeTable", kept: "CodeTable | None", federation: "FederationFile", out: Path
) -> None:
    """Show what a member found, and say where it is."""
    if kept is not None:
        _show(kept, federation.federation.name, out)
    own_only = federation.federation.variant == "so"
    whose = " in this member's own table (in variant so, members get no other)" if own_only else ""
    where = f"saved in {out}" if kept is not None else "not saved, as results.table = none in this member's policy"
    say(f"{ending}: {count(len(table), 'itemset')}{whose}; {where}")


def _compare(
    record: "RunRecord", table: "CodeTable", data: "tuple[str, TransactionDatabase]", out: Path, shown: Reporter
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
    say(f"{missed} of them are not found by this member alone; to see them, run `fedslim report {out}`")


def _identity(folder: Path, passphrase_file: Path | None) -> "Identity":
    from datetime import UTC, datetime

    from fedslim.trust import Identity
    from fedslim.trust.identity import Files

    identity = Identity.load(folder, passphrases.for_key(Files.within(folder).key, passphrase_file))
    now = datetime.now(UTC)
    identity.check(now)
    for warning in identity.warnings(now):
        say(f"warning: {warning}")
    return identity


def _folder(path: Path, program: str) -> AbstractContextManager["RunFolder"]:
    """Create and lock the run folder."""
    from fedslim.federated.folder import RunFolder

    try:
        path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    except OSError as error:
        msg = f"--out {path}: the run folder cannot be created ({error.strerror}); name another folder"
        raise ParameterError(msg) from error
    return RunFolder.held(path, program)


def _check_finished(who: str, federation: "FederationFile", run: str, ending: str, itemsets: int) -> "Finished":
    from datetime import UTC, datetime

    from fedslim.federated.folder import Finished

    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Finished(who, federation.digest().hex(), run, ending, itemsets, now)


def _show_finished(finished: "Finished", out: Path, name: str) -> None:
    """Show the result of a finished run, instead of starting another one."""
    from fedslim.mdl import CodeTable

    if (out / CODE_TABLE).exists():
        _show(CodeTable.load(out / CODE_TABLE), name, out)
    say(
        f"this run has ended ({finished.at}, {finished.ending}: {count(finished.itemsets, 'itemset')}); its results "
        f"are in {out}; for another run, name another folder with --out"
    )


def _show(table: "CodeTable", name: str, out: Path) -> None:
    """Print a saved table. A failure to print is no error: a systemd unit would start another run."""
    try:
        print_code_table(table, TOP, name)
    except WriteError as error:
        say(f"the table could not be printed ({error}); it is saved in {out}")


def _until_over(
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
    say("stopping after this round, with the best table so far; repeat to stop immediately")
    if run.network is None:
        return False
    run.network.stop()
    return True


def _progress(run: "DeployedServer") -> Callable[[], None]:
    from fedslim.mdl.objective import percent_of_standard

    last = time.monotonic()

    def on_round() -> None:
        nonlocal last
        if time.monotonic() - last < SAY_EVERY or run.session is None or run.session.variant is None:
            return
        assert run.account is not None  # noqa: S101  # created with the session
        last = time.monotonic()
        search = run.session.variant.search
        percent = percent_of_standard(search.bits_now, search.bits_standard.total)
        say(
            f"round {run.session.rounds}: {count(search.itemsets, 'itemset')}, L% {percent:.2f}, "
            f"{size(run.account.communication.bytes_total)}"
        )

    return on_round
