"""Dropped strangers leave no resources behind."""

from __future__ import annotations

import asyncio
import gc
import socket
import warnings
from datetime import UTC, datetime

import pytest

from fedslim.network.listener import Door
from fedslim.trust.enrolment import make_demo_ca
from fedslim.trust.tls import client_context, server_context


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    return make_demo_ca(tmp_path_factory.mktemp("door") / "trial", ["north"], now=datetime.now(UTC))


def left_open(trial, met, after):
    """Connect to a listener and close it once `after` is set; return what was left open."""
    now = datetime.now(UTC)

    async def main():
        context = server_context(trial.server, now=now)
        async with Door("127.0.0.1", 0, context, met, refused=print) as door:
            connecting = asyncio.open_connection("127.0.0.1", door.port, ssl=client_context(trial.members[0], now=now))
            _, writer = await connecting
            writer.transport.pause_reading()  # it does not notice the end
            async with asyncio.timeout(10):
                await after(door)
        writer.transport.abort()
        await asyncio.sleep(0)

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        asyncio.run(main())
        gc.collect()
    return [str(one.message) for one in found]


def test_a_stranger_that_is_being_refused_is_closed_with_the_door(trial):
    refusing = asyncio.Event()

    async def met(_reader, writer):
        refusing.set()
        writer.close()
        await asyncio.sleep(60)  # as if the peer did not close the connection

    async def after(_door):
        await refusing.wait()

    assert left_open(trial, met, after) == []


def test_so_is_one_whose_handshake_was_done_in_that_moment(trial, monkeypatch):
    made, done = asyncio.StreamReaderProtocol.connection_made, []

    def cancelled(self, transport):
        made(self, transport)
        if transport.get_extra_info("ssl_object").server_side:
            done.append(True)
            for task in asyncio.all_tasks():
                if task.get_coro().__name__ == "_greet":
                    task.cancel()

    monkeypatch.setattr(asyncio.StreamReaderProtocol, "connection_made", cancelled)

    async def met(*_):
        raise AssertionError

    async def after(door):
        while not done or door._strangers:  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    assert left_open(trial, met, after) == []


@pytest.mark.parametrize("turns", range(6))
def test_so_is_one_that_was_accepted_when_the_door_closed(trial, turns):
    """Between accepting a connection and the first step of the task that waited for it, that task is cancelled."""

    async def main():
        async with Door("127.0.0.1", 0, server_context(trial.server, now=datetime.now(UTC)), None, print) as door:
            await asyncio.sleep(0)  # it waits for connections
            with socket.create_connection(("127.0.0.1", door.port)):
                for _ in range(turns):
                    await asyncio.sleep(0)

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        asyncio.run(main())
        gc.collect()
    assert [str(one.message) for one in found] == []
