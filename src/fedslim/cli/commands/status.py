"""`fedslim status`: the progress of a running server."""

# Typer evaluates annotations at run time, so command modules do not postpone them.
import asyncio
import contextlib
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Annotated, Any

import typer

from fedslim.cli.commands.serve import FederationArgument, IdentityOption, load_identity
from fedslim.cli.console import options
from fedslim.cli.console.stream import is_terminal, print_json, print_text, stdout_console
from fedslim.cli.console.text import count, printable, size
from fedslim.errors import ParameterError, RunError

WATCH_EVERY, WATCH_GRACE = 2.0, 30.0
"""Seconds between two questions for the status, and how long the server may fail to answer."""


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
    who = load_identity(identity or federation.server.certificates, None)
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
