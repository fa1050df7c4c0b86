"""Measure a federation over TLS on the loopback address.

    python bench/network_worker.py latency '{"data": "encounters", "members": 10, "runs": 3}'

The server and all members are tasks of one process, so that the full cost of every connection, on both sides, is on one
core and in the figure. The same sessions then run over queues, with the same frames and masks but without connections.
The difference per round is the cost of the network beyond computation.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedslim.data import ItemSecret, Vocabulary
from fedslim.data.partition import iid
from fedslim.federated.simulation import prepare
from fedslim.network.in_process import FrameSent, MemoryFederation
from fedslim.network.member import NetworkMember
from fedslim.network.server import NetworkServer
from fedslim.protocol.member import MemberInput, MemberSession
from fedslim.protocol.messages import Settings
from fedslim.protocol.outcome import code_table
from fedslim.protocol.server import ServerSession
from fedslim.trust.enrolment import make_demo_ca
from fedslim.trust.tls import client_context, peer_name, server_context
from warm import every_kernel
from wire import Clock, Teller, Values, serve
from worker import loaded

if TYPE_CHECKING:
    from ssl import SSLContext

    from fedslim.mdl.codetable import CodeTable
    from fedslim.network.in_process import Trace

HOST = "127.0.0.1"
SETTINGS = Settings("x", masked=True, max_transactions=1 << 40)


class Alone(MemberSession):
    """A member that counts alone, as on a network, where other members of its process would share the work."""

    def share_work(self, shared: dict[str, Any]) -> None:
        """Share nothing."""


class Members:
    """Members with data and certificates."""

    def __init__(self, data: str, count: int, folder: Path) -> None:
        self.database = loaded(data)[0]
        secret = ItemSecret.from_random(bytes(32))
        vocabulary = Vocabulary.of(self.database.vocabulary, secret)
        parts = iid(self.database, count, seed=0).parts
        members = tuple(f"s{k:03}" for k in range(count))
        self.inputs = {
            name: MemberInput(part, members, SETTINGS, secret, vocabulary)
            for name, part in zip(members, parts, strict=True)
        }
        now = datetime.now(UTC)
        trial = make_demo_ca(folder / "trial", members, now=now)
        self.server: SSLContext = server_context(trial.server, now=now)
        self.contexts = {one.name: client_context(one, now=now) for one in trial.members}

    def session(self) -> ServerSession:
        """A new run."""
        return ServerSession(tuple(self.inputs), SETTINGS, run=os.urandom(16))

    def joined_by_queues(self) -> tuple[CodeTable, Values]:
        """Measure one run over queues."""
        clock = Clock()
        asked: list[Trace] = []

        def began(event: Trace) -> None:
            if not asked and isinstance(event, FrameSent) and event.kind == "Ask":
                asked.append(event)
                clock.restart()

        federation = MemoryFederation(self.session(), self.inputs, entropy=os.urandom, trace=began)
        federation.members = {name: Alone(name, own) for name, own in self.inputs.items()}
        outcome = federation.run()
        return code_table(outcome.table, self.database.vocabulary), clock.read() | {"rounds": federation.server.rounds}

    async def joined_by_lines(self) -> tuple[CodeTable, Values]:
        """Measure one run over TLS, from the first question until everybody has the code table."""
        clock = Clock()

        def began(event: Trace) -> None:
            if isinstance(event, FrameSent) and event.kind == "Ask" and not asked:
                asked.append(event)
                clock.restart()

        asked: list[Trace] = []
        server = NetworkServer(self.session(), self.server, peer_name, trace=began)
        running = asyncio.create_task(server.run(HOST, 0))
        while not server.port:  # noqa: ASYNC110  # it starts quickly
            await asyncio.sleep(0.001)
        members = [
            asyncio.create_task(
                NetworkMember(MemberSession(name, own), self.contexts[name], entropy=os.urandom).run(HOST, server.port)
            )
            for name, own in self.inputs.items()
        ]
        await asyncio.wait(members)
        times = clock.read()
        outcome = await running
        return code_table(outcome.table, self.database.vocabulary), times | {"rounds": server.session.rounds}


def latency(data: str, members: int, runs: int) -> Values:
    """Measure runs with and without connections, in turn."""
    every_kernel()
    prepare("x")
    tell = Teller()
    with tempfile.TemporaryDirectory(prefix="fedslim-") as folder:
        federation = Members(data, members, Path(folder))
        turns: list[Values] = []
        for turn in range(runs):
            tell(f"turn {turn + 1}")
            alone, computing = federation.joined_by_queues()
            table, network = asyncio.run(federation.joined_by_lines())
            turns.append({"computing": computing, "network": network, "equal": table == alone})
    rounds = turns[0]["network"]["rounds"]
    beyond = [1e3 * (one["network"]["wall"] - one["computing"]["wall"]) / rounds for one in turns]
    return {
        "data": data,
        "members": members,
        "rounds": rounds,
        "computing_ms": statistics.median(1e3 * one["computing"]["wall"] / rounds for one in turns),
        "network_ms": statistics.median(1e3 * one["network"]["wall"] / rounds for one in turns),
        "beyond_ms": statistics.median(beyond),
        "beyond_ms_all": beyond,
        "equal": all(one["equal"] for one in turns),
        "turns": turns,
    }


if __name__ == "__main__":
    serve({"latency": latency})
