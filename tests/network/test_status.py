"""The status of a running server, over real TLS and on a local port."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime

import pytest

from fedslim.errors import FedslimError, RunError
from fedslim.network import status
from fedslim.network.server import NetworkServer
from fedslim.protocol.messages import Settings
from fedslim.protocol.server import ServerSession
from fedslim.trust.enrolment import make_demo_ca
from fedslim.trust.tls import client_context, peer_name, server_context

MEMBERS = ("north", "south")


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    return make_demo_ca(tmp_path_factory.mktemp("trust") / "trial", (*MEMBERS, "stranger"), now=datetime.now(UTC))


def now():
    return datetime.now(UTC)


async def serving(trial, act):
    """Run `act` with a server that waits for its members."""
    session = ServerSession(MEMBERS, Settings("x", masked=True, max_transactions=1 << 40), run=os.urandom(16))
    context = server_context(trial.server, now=now())
    context.set_alpn_protocols([status.TAKING_PART, status.ASKING])
    server = NetworkServer(session, context, peer_name)
    task = asyncio.create_task(server.run("127.0.0.1", 0))
    await server.listening.wait()
    try:
        return await act(server)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def identity(trial, name):
    return next(member for member in trial.members if member.name == name)


def test_a_member_is_told_how_the_run_is(trial):
    async def act(server):
        return await status.ask(client_context(identity(trial, "north"), now=now()), "localhost", server.port)

    found = asyncio.run(serving(trial, act))
    assert found["members"] == {name: {"here": False, "state": "waiting for it to join"} for name in MEMBERS}
    assert (found["rounds"], found["waiting_for"], found["over"]) == (0, list(MEMBERS), False)


@pytest.mark.parametrize(("precise", "rounded"), [(None, None), (51.49, 51), (51.5, 52), (100.0, 100)])
def test_members_get_a_rounded_percentage(precise, rounded):
    told = status.for_members(FOUND | {"L_percent": precise})
    assert told == FOUND | {"L_percent": rounded}
    assert isinstance(told["L_percent"], int | None)


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"\xff\xff\xff\xff", str(0xFFFFFFFF)),  # refused without waiting for the data
        (b"\0\0\0\2[]", "localhost"),
        (b"\0\0\0\2{,", "localhost"),
        (b"\0\0", "localhost"),
    ],
)
def test_what_is_no_status_is_refused(trial, data, named):
    async def answer(_reader, writer):
        writer.write(data)
        if data[0]:
            await asyncio.sleep(10)  # no more data, and the connection stays open
        writer.close()

    async def main():
        context = server_context(trial.server, now=now())
        context.set_alpn_protocols([status.ASKING])
        async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
            port = server.sockets[0].getsockname()[1]
            await status.ask(client_context(identity(trial, "north"), now=now()), "localhost", port)

    with pytest.raises(RunError, match=named):
        asyncio.run(main())


def test_asking_is_not_taking_part(trial):
    async def act(server):
        for _ in range(3):
            await status.ask(client_context(identity(trial, "north"), now=now()), "localhost", server.port)
        return server.status()

    assert asyncio.run(serving(trial, act))["members_here"] == 0


def test_whoever_is_no_member_is_told_nothing(trial):
    async def act(server):
        with pytest.raises(FedslimError, match=r"did not report its status|too long for a status"):
            await status.ask(client_context(identity(trial, "stranger"), now=now()), "localhost", server.port)

    asyncio.run(serving(trial, act))


def test_where_nobody_is_there_one_is_told_so(trial):
    with pytest.raises(FedslimError, match="did not report its status: nothing is listening there"):
        asyncio.run(status.ask(client_context(identity(trial, "north"), now=now()), "localhost", 1))


FOUND = {
    "rounds": 7,
    "itemsets": 3,
    "L_percent": 51.5,
    "bytes_up": 10,
    "bytes_down": 20,
    "seconds": 1.5,
    "members_here": 2,
    "members_awaited": 1,
    "members": {"north": {"here": True}},
}


async def fetched(request):
    async with status.serve_status("127.0.0.1", 0, lambda: FOUND) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer


def test_health_status_and_metrics_are_answered():
    assert asyncio.run(fetched(b"GET /health HTTP/1.1\r\n\r\n")).endswith(b"\r\n\r\nok\n")
    body = asyncio.run(fetched(b"GET /status HTTP/1.1\r\n\r\n")).partition(b"\r\n\r\n")[2]
    assert json.loads(body) == FOUND
    text = asyncio.run(fetched(b"GET /metrics HTTP/1.1\r\n\r\n")).decode()
    assert "\nfedslim_rounds 7\n" in text
    assert "\nfedslim_l_percent 51.5\n" in text
    assert "# TYPE fedslim_rounds counter" in text


@pytest.mark.parametrize(
    "request_", [b"POST /health HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\x00\xff\r\n", b"\r\n"]
)
def test_anything_else_is_not(request_):
    assert asyncio.run(fetched(request_)).startswith(b"HTTP/1.1 404 ")


def test_a_request_without_end_is_dropped():
    assert asyncio.run(fetched(b"G" * 10_000)) == b""


def test_without_a_port_nothing_listens():
    async def act():
        async with status.serve_status("127.0.0.1", None, dict) as port:
            return port

    assert asyncio.run(act()) == 0
