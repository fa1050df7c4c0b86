"""Helpers for network tests: a federation over TLS on this machine, with members that a test controls.

As a program it is a server in a process of its own, which says at its end how much memory it took:

    python loopback.py FOLDER RETURNS GRACE MEMBER ...
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import resource
import sys
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from fedslim.data import ItemSecret, Vocabulary, load
from fedslim.data.partition import iid
from fedslim.errors import FedslimError, LineError, UntrustedError
from fedslim.federated.deployment import KeyTrust, MemberTrust
from fedslim.federated.simulation import prepare
from fedslim.network.connection import Patience, hang_up, read_frame
from fedslim.network.member import NetworkMember
from fedslim.network.server import NetworkServer
from fedslim.protocol import framing
from fedslim.protocol.member import MemberInput, MemberSession
from fedslim.protocol.outcome import code_table
from fedslim.protocol.server import ServerSession
from fedslim.settings.federation_file import FederationFile, write_template
from fedslim.trust.enrolment import make_demo_ca
from fedslim.trust.identity import Identity
from fedslim.trust.tls import client_context, peer_name, server_context

SECRET = ItemSecret.from_random(bytes(range(32)))
BRISK = Patience(answer=60.0, grace=20.0, frame=5.0, farewell=5.0, handshake=2.0)
UNLIMITED = 1 << 30


class Loopback:
    """Certificates and data of a federation whose server is on this machine."""

    def __init__(self, folder, members, database=None):
        self.folder, self.members = folder, tuple(members)
        self.database = load("encounters") if database is None else database
        self.trial = make_demo_ca(folder, members, now=datetime.now(UTC))
        chosen = {"items.secret_fingerprint": SECRET.fingerprint, "limits.min_count": 1, "limits.min_members_with": 1}
        self.file = write_template(folder / "federation.toml", "loopback", members, "x", chosen=chosen)
        now = datetime.now(UTC)
        self.contexts = {one.name: client_context(one, now=now) for one in self.trial.members}
        self.parts = dict(zip(self.members, iid(self.database, len(self.members), seed=0).parts, strict=True))
        self.vocabulary = Vocabulary.of(self.database.vocabulary, SECRET)

    def settings(self, variant="x"):
        return msgspec.structs.replace(self.file.settings(), variant=variant, masked=variant != "so")

    def input_of(self, name, *, agreed=True, variant="x"):
        identity = next(one for one in self.trial.members if one.name == name)
        vocabulary = self.vocabulary if agreed else None
        trust = MemberTrust.of_identity(self.file, identity)
        return MemberInput(self.parts[name], self.members, self.settings(variant), SECRET, vocabulary, trust=trust)

    def session(self, name, **settled):
        return MemberSession(name, self.input_of(name, **settled))

    def member(self, name, *, session=None, patience=BRISK, **chosen):
        session = session or self.session(name)
        return NetworkMember(session, self.contexts[name], entropy=os.urandom, patience=patience, **chosen)

    def server(self, variant="x", *, patience=BRISK, members=None, **chosen):
        keys = KeyTrust.of(self.file, lambda: self.trial.server.trust)
        session = ServerSession(members or self.members, self.settings(variant), run=os.urandom(16), keys=keys)
        context = server_context(self.trial.server, now=datetime.now(UTC))
        return NetworkServer(session, context, peer_name, patience=patience, **chosen)

    def table(self, outcome):
        return code_table(outcome.table, self.database.vocabulary)

    async def line(self, name, port):
        """Open a connection as a member."""
        return await asyncio.open_connection("127.0.0.1", port, ssl=self.contexts[name])

    def run(self, name, port, **chosen):
        return asyncio.create_task(self.member(name, **chosen).run("127.0.0.1", port))


@asynccontextmanager
async def serving(server):
    """Start a server; yield its port and its task."""
    task = asyncio.create_task(server.run("127.0.0.1", 0))
    while not server.port and not task.done():  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    try:
        yield server.port, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def heard(reader, within=5.0):
    """Return the server's next message, or None if it closes the connection."""
    try:
        async with asyncio.timeout(within):
            data = await read_frame(reader, within=within)
    except (LineError, UntrustedError):
        return None
    return framing.from_server(data[framing.PREFIX_BYTES :])


async def say(writer, *messages):
    for message in messages:
        writer.write(framing.to_bytes(message).data)
    await writer.drain()


async def said(loopback, name, port, data, *, listen=2.0):
    """Connect as a member and send bytes; return the server's reason for closing the connection, if it does."""
    try:
        reader, writer = await loopback.line(name, port)
    except OSError:
        return None
    try:
        writer.write(data)
        await writer.drain()
        answer = await heard(reader, listen) if listen else None
    except (OSError, TimeoutError, FedslimError):
        answer = None
    finally:
        writer.transport.abort()
        await hang_up(writer)
    return getattr(answer, "reason", None)


class Lines(logging.Handler):
    """Collects the last log lines, in a process without pytest."""

    def __init__(self):
        super().__init__()
        self.texts = deque(maxlen=20)

    def emit(self, record):
        self.texts.append(record.getMessage())


def peak():
    """Return the peak resident size of this process in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def files():
    """Return the number of open files of this process, where the system tells."""
    place = Path("/proc/self/fd")
    return len(list(place.iterdir())) if place.is_dir() else 0


@asynccontextmanager
async def process(loopback, *, returns=UNLIMITED, grace=BRISK.grace):
    """Start a server in a separate process; yield its port and a function that waits for its end and its report."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, __file__, str(loopback.folder), str(returns), str(grace), *loopback.members]
    child = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=environment)

    async def end():
        told = json.loads(await child.stdout.readline())
        await child.wait()
        return told

    try:
        yield int(await child.stdout.readline()), end
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()


async def _serve(folder, returns, grace, members):
    identity = Identity.load(Path(folder) / "server")
    file = FederationFile.read(Path(folder) / "federation.toml")
    session = ServerSession(
        members, file.settings(), run=os.urandom(16), keys=KeyTrust.of(file, lambda: identity.trust)
    )
    context = server_context(identity, now=datetime.now(UTC))
    lines = Lines()  # its last log lines, in case the run ends unexpectedly
    logging.getLogger("fedslim").addHandler(lines)
    logging.getLogger("fedslim").setLevel(logging.INFO)
    patience = replace(BRISK, answer=600.0, grace=grace)
    server = NetworkServer(session, context, peer_name, patience=patience, returns=returns)
    gc.freeze()  # as `fedslim server` does
    before = peak()
    told = {"before": before, "reason": None, "table": None}
    async with serving(server) as (port, task):
        print(port, flush=True)  # noqa: T201
        try:
            outcome = await task
            told["itemsets"] = len(outcome.table.itemsets)
        except FedslimError as error:
            told["reason"] = str(error)
    told |= {"after": peak(), "files": files(), "lines": list(lines.texts)}
    print(json.dumps(told), flush=True)  # noqa: T201


if __name__ == "__main__":
    prepare("x")
    asyncio.run(_serve(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]))
