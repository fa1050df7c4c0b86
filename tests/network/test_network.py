"""Federations over TLS on this machine: all bytes on the wire are accounted for, also with many members."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from loopback import Loopback, serving

from fedslim.data import load
from fedslim.federated.simulation import prepare
from fedslim.mdl.mining import mine
from fedslim.network.connection import hang_up
from fedslim.network.in_process import FrameSent
from fedslim.network.traffic import Communication
from fedslim.protocol.events import RoundEnded

RECORD = 22  # bytes that TLS 1.3 adds to a record: a header, the kind, and the tag
MAX_RECORD = 1 << 14
HANDSHAKE = 5000  # maximum bytes of a handshake and a shutdown, in each direction


class Meter:
    """Passes bytes on between members and the server, and counts them."""

    def __init__(self, port):
        self.up = self.down = self.lines = 0
        self._port = port
        self._tasks = set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self._server.close()
        await asyncio.wait(self._tasks)

    async def _accept(self, reader, writer):
        task = asyncio.current_task()
        self._tasks.add(task)
        self.lines += 1
        there, to = await asyncio.open_connection("127.0.0.1", self._port)
        await asyncio.gather(self._pass(reader, to, "up"), self._pass(there, writer, "down"))
        await hang_up(to)
        await hang_up(writer)

    async def _pass(self, reader, writer, way):
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                setattr(self, way, getattr(self, way) + len(data))
                writer.write(data)
                await writer.drain()
            writer.write_eof()


async def measured(loopback, variant, **chosen):
    """Run through a meter; return the outcome, what members received, the accounted traffic, and the meter."""
    communication, frames = Communication(), {"up": 0, "down": 0}

    def account(event):
        if isinstance(event, FrameSent):
            communication.add(event.kind, event.direction, plain=event.plain, sent=event.sent)
            frames[event.direction] += 1
        elif isinstance(event, RoundEnded):
            communication.end_round()

    server = loopback.server(variant, trace=account, **chosen)
    async with serving(server) as (port, task), Meter(port) as meter:
        received = await asyncio.gather(
            *(
                loopback.run(name, meter.port, session=loopback.session(name, variant=variant))
                for name in loopback.members
            )
        )
        return await task, received, communication, frames, meter


def check_bytes(communication, frames, meter):
    """All bytes on the wire beyond the frames are those that TLS adds."""
    for way, accounted, wired in (
        ("up", communication.bytes_up, meter.up),
        ("down", communication.bytes_down, meter.down),
    ):
        records = frames[way] + accounted // MAX_RECORD + meter.lines * 8
        assert accounted < wired <= accounted + RECORD * records + HANDSHAKE * meter.lines


@pytest.mark.parametrize("variant", ["x", "so"])
def test_bytes_on_the_wire_are_those_accounted_for(tmp_path, variant):
    prepare(variant)
    loopback = Loopback(tmp_path / "trial", [f"s{k}" for k in range(5)])
    outcome, received, *figures = asyncio.run(asyncio.wait_for(measured(loopback, variant), 60))
    check_bytes(*figures)
    assert figures[-1].lines == 5
    if variant == "x":
        expected = mine(loopback.database).table
        assert loopback.table(outcome) == expected
        assert all(one.table == expected for one in received)


class Spied:
    """A journal that records its calls."""

    def __init__(self, who, notes):
        self._who, self._notes = who, notes

    def append(self, record):
        self._notes.append((self._who, "append", len(record)))

    def sync(self):
        self._notes.append((self._who, "sync"))

    def close(self):
        pass


def test_what_a_run_ends_with_is_on_the_disk_before_anybody_is_told(tmp_path):
    """A member that has the end exits, and cannot go back with those that lost it."""
    prepare("x")
    loopback = Loopback(tmp_path / "trial", ["s0", "s1", "s2"], load("encounters").take(range(200)))
    notes = []

    def traced(event):
        if isinstance(event, FrameSent) and event.kind in {"Finish", "Heard"}:
            notes.append((event.member, event.kind))

    async def main():
        server = loopback.server(trace=traced, begin_journal=lambda _: Spied("server", notes))
        async with serving(server) as (port, task):
            members = [loopback.run(name, port, journal=Spied(name, notes)) for name in loopback.members]
            await asyncio.gather(task, *members)

    asyncio.run(asyncio.wait_for(main(), 60))
    told = notes.index(next(note for note in notes if note[1] == "Finish"))
    assert notes[told - 1] == ("server", "sync")
    for name in loopback.members:
        before = [note for note in notes[: notes.index((name, "Heard"))] if note[0] == name and note[1] != "Finish"]
        assert before[-1] == (name, "sync")  # the end itself
        # And the last question, which a resumed server may ask again.
        assert [note for note in before if note[1] == "sync"] == [(name, "sync")] * 2


@pytest.mark.slow
def test_128_members_over_tls_find_the_table(tmp_path, public_data):
    prepare("x")
    database = load("chess", folder=public_data)
    loopback = Loopback(tmp_path / "trial", [f"s{k:03}" for k in range(128)], database)
    expected = mine(database).table
    outcome, received, *figures = asyncio.run(asyncio.wait_for(measured(loopback, "x"), 900))
    assert loopback.table(outcome) == expected
    assert len(received) == 128
    assert all(one.table == expected for one in received)
    check_bytes(*figures)
    assert figures[-1].lines == 128
