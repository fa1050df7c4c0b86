"""`fedslim status`: the progress of a running server."""

# Typer evaluates annotations at run time, so command modules do not postpone them.
import asyncio
from typing import Annotated

import typer

from fedslim.cli.commands.serve import FederationArgument, IdentityOption, load_identity
from fedslim.cli.console import options
from fedslim.cli.console.stream import print_json, print_text
from fedslim.cli.console.text import count, printable, size


def status(
    file: FederationArgument,
    *,
    identity: IdentityOption = None,
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
    found = asyncio.run(ask(context, host or federation.server.host, port or federation.server.port))
    if json:
        print_json(found)
        return
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
    print_text("".join(printable(line) + "\n" for line in lines))  # escaped, as all of it comes from the server
