"""A deployed federation to attack: its files, and runs in processes or in this process."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime

from fedslim.data import ItemSecret, Vocabulary, load
from fedslim.data.partition import iid
from fedslim.federated.deployment import DeployedMember, DeployedServer, MemberTrust
from fedslim.federated.loopback import HOST, Loopback
from fedslim.network.status import TAKING_PART
from fedslim.protocol.member import MemberInput, MemberSession
from fedslim.settings.federation_file import FederationFile
from fedslim.trust.identity import Identity
from fedslim.trust.tls import client_context

MEMBERS = ("north", "south", "west")
PATIENCE = 90.0
"""Seconds that a test waits for a process, on a machine that does other things as well."""


class Deployment:
    """The files of a federation, and what is started on them."""

    def __init__(self, folder, *, transactions=300, **timeouts):
        parts = iid(load("encounters").take(range(transactions)), len(MEMBERS), seed=0).parts
        self.files = Loopback.make(folder, dict(zip(MEMBERS, parts, strict=True)), **timeouts)
        self.folder = folder
        self.secret = ItemSecret.read(folder / "secret.txt")
        self.vocabulary = Vocabulary.read(folder / "vocabulary.json")

    @property
    def file(self):
        return FederationFile.read(self.files.file)

    def log_to(self, path):
        """Set a log in the federation file."""
        text = self.files.file.read_text("utf-8")
        assert text.count('# file = "fedslim.log"') == 1
        self.files.file.write_text(text.replace('# file = "fedslim.log"', f'file = "{path}"'), "utf-8")

    def identity(self, who):
        return Identity.load(self.folder / "trust" / who)

    def context(self, who):
        """Return a member's TLS context."""
        context = client_context(self.identity(who), now=datetime.now(UTC))
        context.set_alpn_protocols([TAKING_PART])
        return context

    def session(self, name):
        """Return a member's session, for an attacker who is that member."""
        trust = MemberTrust.of_identity(self.file, self.identity(name))
        own = (self.files.databases[name], MEMBERS, self.file.settings(), self.secret, self.vocabulary)
        return MemberSession(name, MemberInput(*own, trust=trust))

    def listening(self):
        """Start the server as a process and wait until it listens."""
        process = self.files.start_server()
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            assert process.poll() is None, self.files.said("server")
            with closing(socket.socket()) as line:
                if line.connect_ex((HOST, self.files.port)) == 0:
                    return process
            time.sleep(0.02)
        raise TimeoutError

    @asynccontextmanager
    async def running(self):
        """Run the server and its members as tasks of this process, with their folders."""
        file = self.file
        for who in ("server", *MEMBERS):
            self.files.out(who).mkdir(mode=0o700, exist_ok=True)
        server = DeployedServer(file, self.identity("server"), self.files.out("server"))
        tasks = [asyncio.create_task(server.run(host=HOST))]
        while not tasks[0].done() and (server.network is None or not server.network.port):  # noqa: ASYNC110
            await asyncio.sleep(0.005)  # it is made within the task
        for name in MEMBERS:
            mine = (self.identity(name), self.files.databases[name], self.secret, self.vocabulary, self.files.out(name))
            member = DeployedMember(file, *mine, audit=None)
            tasks.append(asyncio.create_task(member.run(host=HOST)))
        try:
            yield server, tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def close(self):
        self.files.close()
