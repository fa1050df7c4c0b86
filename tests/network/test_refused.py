"""Log records of the network: their levels, and refused connections as counts."""

from __future__ import annotations

import asyncio
import socket
from logging import INFO, WARNING

import pytest
from loopback import Loopback, serving

from fedslim.errors import RunError
from fedslim.network import listener
from fedslim.network.connection import Patience, unreached_because
from fedslim.network.listener import SUMMARY_EVERY, RefusedConnections
from fedslim.network.member import NetworkMember
from fedslim.protocol import framing, messages as m


class Told:
    def __init__(self, logged):
        self.now, self.logged = 100.0, logged
        self.refusals = RefusedConnections(lambda: self.now)

    @property
    def lines(self):
        assert all(record.levelno == WARNING for record in self.logged.records)
        return self.logged.messages

    def after(self, seconds):
        self.now += seconds
        self.refusals.summarise()


@pytest.fixture
def told(logged):
    return Told(logged)


def test_the_first_is_told_with_its_reason_and_the_others_are_counted(told):
    for number in range(1001):
        told.refusals.add(f"reason {number}")
        told.refusals.summarise()
    assert told.lines == ["refused a connection: reason 0"]
    told.after(SUMMARY_EVERY - 1)
    assert len(told.lines) == 1
    told.after(1)
    assert told.lines[1:] == ["refused 1,000 more connections in the last minute; the latest: reason 1000"]
    told.after(10 * SUMMARY_EVERY)
    assert len(told.lines) == 2


def test_there_is_a_sentence_a_minute_at_most(told):
    for number in range(600):
        told.refusals.add(f"reason {number}")
        told.after(1)
    assert len(told.lines) == 11
    assert told.lines[-1] == "refused 60 more connections in the last minute; the latest: reason 599"


def test_one_that_comes_before_the_summary_is_in_it(told):
    for reason in ("a reason", "another"):
        told.refusals.add(reason)
    told.now += SUMMARY_EVERY
    told.refusals.add("a third")
    told.refusals.summarise()
    assert told.lines[1:] == ["refused 2 more connections in the last minute; the latest: a third"]


def test_one_after_a_quiet_minute_is_told_at_once(told):
    told.refusals.add("a reason")
    told.after(SUMMARY_EVERY)
    told.refusals.add("another")
    assert told.lines == ["refused a connection: a reason", "refused a connection: another"]


def test_none_is_lost_at_the_end(told):
    told.refusals.finish()
    told.refusals.add("a reason")
    told.refusals.add("another")
    told.refusals.finish()
    told.refusals.finish()
    assert told.lines == ["refused a connection: a reason", "refused 1 more connection; the latest: another"]


# -- levels -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loopback(tmp_path_factory):
    return Loopback(tmp_path_factory.mktemp("refused") / "trial", ("hathaway-clinic", "refused-clinic"))


def test_a_level_does_not_depend_on_what_a_member_is_called(loopback, logged):
    async def main():
        server = loopback.server()
        async with serving(server) as (port, _):
            _, writer = await loopback.line("hathaway-clinic", port)
            while "hathaway-clinic connected" not in logged.messages:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            writer.transport.abort()
            while server._connections:  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    asyncio.run(asyncio.wait_for(main(), 30))
    levels = {text: level for _, level, text in logged.record_tuples}
    assert levels["hathaway-clinic connected"] == INFO
    assert levels["hathaway-clinic disconnected: the connection was closed by the other side"] == WARNING
    assert next(level for text, level in levels.items() if "waiting for hathaway-clinic, refused" in text) == INFO
    assert {record.name for record in logged.records} == {"fedslim.network.server"}


def test_a_server_tells_the_count_while_it_runs(loopback, monkeypatch, logged):
    monkeypatch.setattr(listener, "SUMMARY_EVERY", 0.2)

    async def main():
        async with serving(loopback.server(patience=Patience(grace=0.2))) as (port, _):
            while not any("more connection" in line for line in logged.messages):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"no TLS")
                await asyncio.sleep(0.02)
                writer.close()
                await writer.wait_closed()

    asyncio.run(asyncio.wait_for(main(), 30))
    lines = logged.messages
    assert lines[1].startswith("refused a connection: ")
    assert "in the last minute; the latest: " in lines[2]


def test_a_member_is_warned_where_there_is_no_server(loopback, logged):
    member = loopback.member("hathaway-clinic", patience=Patience(grace=0.2))
    with pytest.raises(RunError, match="cannot be reached"):
        asyncio.run(member.run("127.0.0.1", 1))
    told = "the server at 127.0.0.1:1 cannot be reached; retrying for 0.2 s"
    assert logged.record_tuples == [("fedslim.network.member", WARNING, told)]


def test_a_member_says_how_long_it_had_no_answer(loopback):
    member = loopback.member("hathaway-clinic", patience=Patience(grace=0.2, connect=0.1))
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,  # which never says anything
        pytest.raises(RunError, match=r"cannot be reached: no answer within 0\.1 s; check the address"),
    ):
        asyncio.run(asyncio.wait_for(member.run(*listener.getsockname()), 30))


def test_there_is_always_a_reason_why_nobody_was_reached():
    assert unreached_because(TimeoutError(), 5.0).startswith("no answer within 5 s; ")
    # As asyncio raises it if the other side closes the connection during the handshake.
    assert unreached_because(ConnectionResetError(), 5.0) == "the other side closed the connection before it was set up"


def test_a_member_that_is_too_early_for_the_search_refuses_nothing():
    """The server may still be telling members how the preparation ended."""
    refusals, sent = [], []

    class Early:
        received, position = None, 0

        def join(self, _entropy):
            return m.Heard()

        def is_too_early(self, message):
            return isinstance(message, m.Finish)

    class Line:
        async def send(self, data):
            sent.append(data)

        async def receive(self):
            return framing.to_bytes(m.Finish("converged", None, (), [])).data

    member = NetworkMember(Early(), None, entropy=bytes, refusing=lambda: refusals.append(1))
    asyncio.run(asyncio.wait_for(member._converse(Line()), 10))
    assert (len(sent), refusals) == (1, [])
