"""A dishonest server over TLS: it has a server's certificate, and sends each member whatever it likes.

    async with Liar(federation) as liar:
        tasks = liar.start_members()
        await liar.joined()
        await liar.say("a", message)
        reply = await liar.hear("a")

The members are real: `NetworkClient`, `ClientSession`, certificates from its CA, an agreed federation file.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Self

from loopback import BRISK, Loopback

from fedslim.errors import FedslimError, LineError
from fedslim.network.connection import hang_up, read_frame
from fedslim.protocol import framing, messages as m
from fedslim.trust.tls import peer_name, server_context

MEMBERS = ("a", "b", "c")
RUN = b"the run of liars"


class Liar:
    """Receives what members send, and sends what a test tells it to send."""

    def __init__(self, federation: Loopback) -> None:
        self.federation = federation
        self.joins: dict[str, m.Join] = {}
        self.said: list[tuple[str, m.FromMember]] = []  # everything that members said
        self._lines = {}
        self._inbox = {name: asyncio.Queue() for name in federation.members}
        self._members: dict[str, asyncio.Task] = {}

    async def __aenter__(self) -> Self:
        context = server_context(self.federation.trial.server, now=datetime.now(UTC))
        context.set_alpn_protocols(["fedslim/1"])
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._members.values():
            task.cancel()
        await asyncio.gather(*self._members.values(), return_exceptions=True)
        for writer in self._lines.values():
            await hang_up(writer)
        self._server.close()

    async def _accept(self, reader, writer) -> None:
        name = peer_name(writer.get_extra_info("ssl_object"))
        self._lines[name] = writer
        try:
            while True:
                data = await read_frame(reader, within=BRISK.frame)
                message = framing.from_member(data[framing.PREFIX_BYTES :])
                self.said.append((name, message))
                await self._inbox[name].put(message)
        except (LineError, FedslimError, OSError):
            await self._inbox[name].put(None)

    def start(self, *names: str, **settled) -> None:
        """Start the given members, or all."""
        for name in names or self.federation.members:
            session = self.federation.session(name, **settled)
            member = self.federation.member(name, session=session)
            self._members[name] = asyncio.create_task(member.run("127.0.0.1", self.port))

    async def gather(self) -> dict[str, m.Join]:
        """Wait until all started members have joined."""
        for name in self._members:
            self.joins[name] = await self.hear(name)
        return self.joins

    async def say(self, name: str, *messages: m.FromServer) -> None:
        for message in messages:
            self._lines[name].write(framing.to_bytes(message).data)
        await self._lines[name].drain()

    async def hear(self, name: str, within: float = 10.0) -> m.FromMember | None:
        """Return the next message of a member, or None if it disconnects."""
        async with asyncio.timeout(within):
            return await self._inbox[name].get()

    async def failure(self, name: str) -> BaseException:
        """Return why a member stopped."""
        async with asyncio.timeout(10.0):
            (error,) = await asyncio.gather(self._members[name], return_exceptions=True)
        return error

    def roster(self, *, joins=None, ids=b"", **chosen) -> m.Roster:
        """Return an honest roster, except for the chosen fields."""
        joins = self.joins | (joins or {})
        members = self.federation.members
        made = {
            "run": RUN,
            "settings": self.federation.file.settings(),
            "members": list(members),
            "keys": [joins[name].key for name in members],
            "ids": ids,
            "epoch": 0,
            "certificates": [joins[name].certificate for name in members],
            "next_round": 0,
        }
        return m.Roster(**made | chosen)

    def answers(self) -> list[m.FromMember]:
        """Everything that members sent after joining and confirming: what an attacker wants."""
        polite = (m.Join, m.Confirm, m.Abort)
        return [message for _, message in self.said if not isinstance(message, polite)]
