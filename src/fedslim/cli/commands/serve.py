"""`fedslim server` and `fedslim status`: a federation over a network; also what `fedslim member` shares with them."""

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
from fedslim.cli.console import options, output, passphrases, progress
from fedslim.cli.console.live import PORT, live_page, report_on_saved, server_watched_by
from fedslim.cli.console.options import flag, option
from fedslim.errors import ParameterError, RunError, WriteError
from fedslim.format import count, printable, size

if TYPE_CHECKING:
    from fedslim.federated.deployment import DeployedServer
    from fedslim.federated.folder import Finished, RunFolder
    from fedslim.protocol.preparation import Preparation
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
    shown = live_page(context, live, federation.federation.name, progress.reporter(quiet=False))
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
            progress.compile_with_progress(shown, partial(prepare, one.federation.variant))
            gc.freeze()  # modules and kernels stay, so that collecting the garbage of connections is fast
            serving = run.run(resume=resume, host=host, port=port, on_round=_progress(run))
            around = server_watched_by(shown, run, one.federation.name, partial(_stop, run))
            served = run_until_over(serving, partial(_stop, run), around)
            save_served(served, one, place, options.typed_command(context))
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
