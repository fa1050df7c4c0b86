"""Hostile bytes from strangers and from a member with a valid certificate: the run continues, or ends cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import ssl
import time
import zlib

import msgspec
import pytest
from loopback import UNLIMITED, Loopback, heard, process, said, say, serving

from fedslim.errors import RunError
from fedslim.federated.simulation import prepare
from fedslim.mdl.mining import mine
from fedslim.network import connection as connections, listener as door
from fedslim.network.connection import Patience, hang_up
from fedslim.protocol import framing, messages as m
from fedslim.protocol.events import Received
from fedslim.protocol.roster import MAX_EPOCHS
from fedslim.protocol.server import ServerSession
from fedslim.protocol.wire_types import ID_BYTES, MAX_ITEMS
from fedslim.secagg.keys import AgreementKey

GOOD, BAD = ("s0", "s1"), "s2"
MB = 1 << 20
MAX_GROWTH = 128 * MB
"""The maximum growth of a small federation's server, whatever it receives: docs/explanation/threat-model.md."""


@pytest.fixture(scope="module")
def loopback(tmp_path_factory):
    prepare("x")
    return Loopback(tmp_path_factory.mktemp("hostile") / "trial", (*GOOD, BAD))


@pytest.fixture(scope="module")
def expected(loopback):
    return mine(loopback.database).table


def within(seconds, work):
    return asyncio.run(asyncio.wait_for(work, seconds))


async def in_turns(jobs, width):
    """Run all jobs, with a limit on how many at a time."""
    jobs = iter(jobs)

    async def worker():
        for job in jobs:
            await job

    await asyncio.gather(*(worker() for _ in range(width)))


# -- strangers -------------------------------------------------------------------------------------------------------


def hello():
    """Return the first bytes of a TLS client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    line = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        line.do_handshake()
    return outgoing.read()


def mutated(rng, data):
    """Return the data with some bytes changed, removed, repeated or inserted."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        at = rng.randrange(len(data) or 1)
        match rng.randrange(4):
            case 0 if data:
                data[at] = rng.randrange(256)
            case 1:
                del data[at : at + rng.randint(1, 40)]
            case 2:
                data[at:at] = rng.randbytes(rng.randint(1, 40))
            case _:
                data[at:at] = data[at : at + rng.randint(1, 200)]
    return bytes(data)


def garbage(rng, greeting):  # noqa: PLR0911
    """Return something that a stranger may send."""
    match rng.randrange(8):
        case 0:
            return b""
        case 1:
            return rng.randbytes(rng.randint(1, 3000))
        case 2:
            return b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
        case 3:
            return greeting[: rng.randrange(len(greeting))]
        case 4:
            return b"\x16\x03\x01\xff\xff" + rng.randbytes(rng.randint(0, 2000))
        case 5:
            return framing.to_bytes(m.Abort("let me in")).data
        case _:
            return mutated(rng, greeting)


async def stranger(port, data, *, listen):
    with contextlib.suppress(OSError, TimeoutError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.suppress(OSError, TimeoutError):
            writer.write(data)
            if listen:
                await asyncio.wait_for(reader.read(100), 0.05)
        writer.transport.abort()
        await hang_up(writer)


@pytest.mark.parametrize("inputs", [2000, pytest.param(60_000, marks=pytest.mark.slow)])
def test_a_run_among_strangers(loopback, expected, inputs):
    """Random bytes, broken TLS, HTTP, connections that close at once: the run continues, and memory is bounded."""
    rng = random.Random(1)
    greeting = hello()

    async def main():
        async with process(loopback) as (port, end):
            await in_turns(
                (stranger(port, garbage(rng, greeting), listen=rng.random() < 0.3) for _ in range(inputs)), 24
            )
            runs = [loopback.run(name, port) for name in loopback.members]
            await in_turns((stranger(port, garbage(rng, greeting), listen=False) for _ in range(inputs // 6)), 4)
            return await asyncio.gather(*runs), await end()

    received, told = within(200, main())
    assert all(one.table == expected for one in received)
    assert told["reason"] is None
    assert told["after"] - told["before"] < MAX_GROWTH
    assert told["files"] < 30


def test_silent_lines_do_not_keep_members_out(loopback, expected, monkeypatch):
    """Hundreds of silent connections: their number and duration are limited, and the run continues."""
    monkeypatch.setattr(door, "MIN_TIME", 0.1)

    async def main():
        server = loopback.server(strangers=16, patience=Patience(handshake=1.5, frame=5.0))
        async with serving(server) as (port, task):
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(300)]
            for _, writer in idle[::3]:
                writer.write(b"\x16\x03\x01\x02\x00\x01")  # half a greeting
            began = time.monotonic()
            runs = [loopback.run(name, port) for name in loopback.members]
            most = 0
            while not task.done():
                most = max(most, len(server._door._strangers))
                await asyncio.sleep(0.01)
            # They were ahead in the kernel's queue.
            assert time.monotonic() - began < 30
            assert most <= 16
            received = await asyncio.gather(*runs)
            for _, writer in idle:
                writer.transport.abort()
            return await task, received

    outcome, received = within(90, main())
    assert loopback.table(outcome) == expected
    assert all(one.table == expected for one in received)


def test_a_silent_stranger_is_shown_out_in_time(loopback):
    async def main():
        server = loopback.server(patience=Patience(handshake=0.5))
        async with serving(server) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            began = time.monotonic()
            assert await reader.read() == b""
            assert 0.3 < time.monotonic() - began < 3
            await hang_up(writer)
            await asyncio.sleep(0.05)
            assert not server._door._strangers

    within(20, main())


def test_a_certificate_of_nobody_in_the_federation_gets_a_reason(loopback):
    async def main():
        server = loopback.server(members=GOOD)
        async with serving(server) as (port, _):
            return await said(loopback, BAD, port, b""), server.status()["members"]

    reason, members = within(20, main())
    assert repr(BAD) in reason
    assert BAD not in members


# -- a member gone bad -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def corpus(loopback):
    """The members' frames of a real run, without its end."""
    frames = []

    async def main():
        server = loopback.server(trace=frames.append)
        async with serving(server) as (port, task):
            await asyncio.gather(*(loopback.run(name, port) for name in loopback.members), task)

    within(60, main())
    return [one.data for one in frames if getattr(one, "direction", "") == "up"]


def packed(plain):
    data = zlib.compress(plain, 1)
    return len(data).to_bytes(4, "big") + data


def bomb(size):
    packer = zlib.compressobj(9)
    data = b"".join([packer.compress(bytes(MB)) for _ in range(size // MB)] + [packer.flush()])
    return len(data).to_bytes(4, "big") + data


HUGE = [
    b"\xff\xff\xff\xff",
    b"\x04\x00\x00\x01" + bytes(1000),
    framing.MAX_FRAME.to_bytes(4, "big") + bytes(100_000),
    bytes(4),
]


def fuzzed(rng, corpus, bombs):
    data = rng.choice(corpus)
    match rng.randrange(8):
        case 0:
            return rng.choice(HUGE)
        case 1:
            return rng.choice(bombs)
        case 2:
            return rng.randbytes(rng.randint(1, 2000))
        case 3:  # a good frame at the wrong time
            return data
        case 4 | 5:  # compressed correctly
            return packed(mutated(rng, zlib.decompress(data[4:])) or b"\xc0")
        case _:
            return mutated(rng, data)


async def answers_badly(loopback, port, spoil, *, within=2.0):
    """Take part correctly until the first question, then answer it badly."""
    session = loopback.session(BAD)
    reader, writer = await loopback.line(BAD, port)
    try:
        await say(writer, session.join(os.urandom(32)))
        while (message := await heard(reader, within)) is not None:
            if isinstance(message, m.Abort):
                return message.reason
            reply = session.receive(message)
            if reply is None:
                continue
            if isinstance(reply, m.Confirm):
                await say(writer, reply)
            else:
                writer.write(spoil(reply))
                await writer.drain()
    except (OSError, TimeoutError):
        return None
    finally:
        writer.transport.abort()
        await hang_up(writer)


@pytest.mark.parametrize(
    ("inputs", "answers", "seed"),
    [(250, 40, 2), *(pytest.param(12_000, 600, seed, marks=pytest.mark.slow) for seed in (2, 3, 5))],
)
def test_a_run_with_a_member_that_sends_fuzzed_frames(loopback, expected, corpus, inputs, answers, seed):
    """Whatever it sends, the others wait; when an honest member takes its place, the table is right.

    They wait for the grace, which is longer here than it takes: see the next test for when it is not.
    """
    rng = random.Random(seed)
    bombs = [bomb(1 * MB), bomb(200 * MB), packed(b"\x91" * 100_000)]
    longest = max(corpus, key=len)

    def spoil(reply):
        data = framing.to_bytes(reply).data
        wrong = [
            framing.to_bytes(msgspec.structs.replace(reply, round=reply.round + rng.choice([-1, 1, 1000]))).data
            if reply.round
            else longest,
            framing.to_bytes(msgspec.structs.replace(reply, attempt=(reply.attempt + 1) % 1000)).data,
            framing.to_bytes(m.Confirm(0, b"")).data,
            framing.to_bytes(m.SupportCounts(0, reply.words, reply.words)).data,
            *HUGE[:3],
            bombs[1],
            data[:-1] + bytes([data[-1] ^ 1]),  # a byte of its checksum
            data[: len(data) // 2] + rng.randbytes(100),
        ]
        return rng.choice(wrong)

    async def main():
        async with process(loopback, grace=600.0) as (port, end):
            runs = [loopback.run(name, port) for name in GOOD]
            await asyncio.sleep(0.3)  # theirs is the vocabulary
            frames = (fuzzed(rng, corpus, bombs) for _ in range(inputs))
            await in_turns((said(loopback, BAD, port, data, listen=rng.choice([0, 0.03])) for data in frames), 3)
            for _ in range(answers):
                await answers_badly(loopback, port, spoil, within=0.3)
            runs.append(loopback.run(BAD, port))
            return await asyncio.gather(*runs), await end()

    received, told = within(600 if inputs > 5000 else 100, main())
    assert all(one.table == expected for one in received)
    assert told["reason"] is None, told["lines"]
    assert told["after"] - told["before"] < MAX_GROWTH
    assert told["files"] < 30


def test_whoever_says_nothing_but_garbage_has_stayed_away(loopback, corpus):
    """Being connected is not enough, a member must join: the run ends and names it, and the others are told."""
    rng = random.Random(4)
    late = [data for data in corpus if not isinstance(framing.from_member(data[4:]), m.Join)]

    async def main():
        server = loopback.server(patience=Patience(answer=30.0, grace=1.5, farewell=0.5), returns=UNLIMITED)
        async with serving(server) as (port, task):
            runs = [loopback.run(name, port) for name in GOOD]
            await answers_badly(loopback, port, lambda _reply: HUGE[0])
            while not task.done():
                await said(loopback, BAD, port, fuzzed(rng, late, HUGE), listen=0.03)
            with pytest.raises(RunError, match=f"member '{BAD}' stayed away"):
                await task
            return await asyncio.gather(*runs)

    assert all(f"member '{BAD}' stayed away" in one.ending for one in within(30, main()))


def spoilt(loopback, roster, how):
    """Return a well-formed Join that no honest member would accept."""
    session = loopback.session(BAD)
    join, trust = session.join(os.urandom(32)), loopback.input_of(BAD).trust
    key = AgreementKey.from_random(os.urandom(32)).public
    match how:
        case "signature":
            changed = {"signature": join.signature[:-1] + bytes([join.signature[-1] ^ 1])}
        case "none":
            changed = {"signature": b"", "certificate": b""}
        case "key":
            changed = {"key": key}
        case "certificate":
            changed = {"certificate": loopback.input_of(GOOD[0]).trust.certificate}
        case "weak":
            changed = {"key": bytes(32), "signature": trust.sign("agreement key", bytes(32))}
        case "twin":
            theirs = roster.keys[roster.members.index(GOOD[0])]
            changed = {"key": theirs, "signature": trust.sign("agreement key", theirs)}
    return msgspec.structs.replace(join, **changed)


def test_a_key_that_others_would_refuse_is_refused_at_the_door(loopback, expected):
    """When it was passed on, honest members gave up and were blamed for the end of the run."""
    whys = {
        "signature": "the signature of 's2' does not match this agreement key",
        "none": "cannot be read",
        "key": "the signature of 's2' does not match this agreement key",
        "certificate": "belongs to 's0'",
        "weak": "not a usable X25519 public key",
        "twin": "joins with the key of 's0'",
    }

    async def main():
        server = loopback.server(returns=UNLIMITED)
        async with serving(server) as (port, task):
            runs = [loopback.run(name, port) for name in GOOD]
            reader, writer = await loopback.line(BAD, port)
            await say(writer, loopback.session(BAD).join(os.urandom(32)))
            roster = await heard(reader)
            told = {}
            for how in whys:
                bad = framing.to_bytes(spoilt(loopback, roster, how)).data
                told[how] = await said(loopback, BAD, port, bad)
            await hang_up(writer)
            runs.append(loopback.run(BAD, port))
            return told, await asyncio.gather(*runs), await task

    told, received, _ = within(60, main())
    assert all(one.table == expected for one in received)
    for how, why in whys.items():
        assert f"member '{BAD}' joins with" in told[how]
        assert why in told[how]


@pytest.mark.parametrize("inputs", [1500, pytest.param(40_000, marks=pytest.mark.slow)])
def test_a_flood_of_frames_that_are_legal_and_late(loopback, expected, corpus, inputs):
    """Answers that come before a member is ready again are dropped, however many they are."""
    late = [data for data in corpus if isinstance(framing.from_member(data[4:]), m.Masked)]

    async def main():
        async with process(loopback) as (port, end):
            runs = [loopback.run(name, port) for name in GOOD]
            await answers_badly(loopback, port, lambda _reply: HUGE[0])
            session = loopback.session(BAD)
            reader, writer = await loopback.line(BAD, port)
            await say(writer, session.join(os.urandom(32)))
            assert isinstance(await heard(reader), m.Roster)
            for k in range(inputs):
                writer.write(late[k % len(late)])
                await writer.drain()
            await hang_up(writer)
            runs.append(loopback.run(BAD, port))
            return await asyncio.gather(*runs), await end()

    received, told = within(120, main())
    assert all(one.table == expected for one in received)
    assert told["after"] - told["before"] < MAX_GROWTH


@pytest.mark.parametrize("times", [2, pytest.param(12, marks=pytest.mark.slow)])
def test_a_member_that_knows_a_million_items_again_and_again(loopback, expected, times):
    """It may do so before others have joined; its message is forgotten when it disconnects."""
    join = loopback.session(BAD, agreed=False).join(bytes(32))
    many = [os.urandom(ID_BYTES * MAX_ITEMS), bytes(ID_BYTES * MAX_ITEMS)]
    frames = [framing.to_bytes(msgspec.structs.replace(join, ids=ids, items=MAX_ITEMS)).data for ids in many]

    async def main():
        async with process(loopback) as (port, end):
            for k in range(times):
                await said(loopback, BAD, port, frames[k % 2], listen=0.5)
            runs = [loopback.run(name, port) for name in loopback.members]
            return await asyncio.gather(*runs), await end()

    received, told = within(60, main())
    assert all(one.table == expected for one in received)
    assert told["after"] - told["before"] < MAX_GROWTH + 100 * MB


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (HUGE[0], "4294967295 bytes"),
        (HUGE[2], "at most"),
        (lambda: bomb(200 * MB), "larger than allowed"),
        (HUGE[3] * 20_000 + framing.to_bytes(m.Confirm(0, b"")).data, "sent Confirm"),  # keepalives, then a message
        (packed(b"\xdd\xff\xff\xff\xff"), "no message we know"),
        (framing.to_bytes(m.Confirm(0, b"")).data, "sent Confirm"),
    ],
)
def test_whoever_says_what_it_may_not_is_told_why(loopback, data, reason):
    sent = data() if callable(data) else data

    async def main():
        async with serving(loopback.server()) as (port, _):
            return await said(loopback, BAD, port, sent, listen=20.0)  # it may have to wait for a core

    assert reason in within(40, main())


def test_one_byte_at_a_time_is_not_waited_for(loopback, logged):
    async def main():
        server = loopback.server(patience=Patience(frame=0.6))
        async with serving(server) as (port, _):
            _, writer = await loopback.line(BAD, port)
            began = time.monotonic()
            data = framing.to_bytes(loopback.session(BAD).join(bytes(32))).data
            for byte in data:
                writer.write(bytes([byte]))
                await asyncio.sleep(0.1)
                if began and not server._connections and time.monotonic() - began > 0.3:
                    break
            assert 0.5 < time.monotonic() - began < 3
            assert f"{BAD} disconnected: a message did not end within 0.6 s" in logged.messages
            writer.transport.abort()
            await hang_up(writer)

    within(20, main())


def test_a_frame_may_be_as_long_as_what_was_asked_for_and_no_longer(loopback):
    async def main():
        server = loopback.server()
        session = server.session
        assert session.max_bytes(BAD) == framing.SMALL + ID_BYTES * MAX_ITEMS
        async with serving(server) as (port, task):
            runs = [loopback.run(name, port) for name in GOOD]
            while session.state_of(GOOD[0]).name != "SEATED":  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert session.max_bytes(BAD) == framing.SMALL  # the others have agreed on a vocabulary

            def too_long(reply):
                assert session.max_bytes(BAD) < framing.SMALL + 8 * len(reply.words.data) + 1000
                more = m.Vector(1 << 17, 64, os.urandom(1 << 20))
                return framing.to_bytes(m.Masked(reply.round, reply.attempt, more)).data

            reason = await answers_badly(loopback, port, too_long)
            runs.append(loopback.run(BAD, port))
            await task
            await asyncio.gather(*runs)
            return reason

    assert "are allowed here" in within(60, main())


def test_whoever_does_not_read_is_given_up(loopback):
    """A member sends many items and does not read the roster with all of them; the run ends and names it."""
    many = 6 << 16  # together more than the system's buffers hold

    async def main():
        server = loopback.server(patience=Patience(answer=30.0, grace=1.0, frame=1.0, farewell=0.5))
        async with serving(server) as (port, task):
            _, writer = await loopback.line(BAD, port)
            writer.transport.pause_reading()
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            join = loopback.session(BAD, agreed=False).join(bytes(32))
            ids = b"".join(sorted(os.urandom(16) for _ in range(many)))
            await say(writer, msgspec.structs.replace(join, ids=ids, items=len(ids) // 16))
            runs = [loopback.run(name, port, session=loopback.session(name, agreed=False)) for name in GOOD]
            with pytest.raises(RunError, match=f"member '{BAD}' stayed away"):
                await task
            for run in runs:
                run.cancel()
            await asyncio.gather(*runs, return_exceptions=True)
            writer.transport.abort()
            await hang_up(writer)

    within(90, main())


def test_whoever_joins_and_is_never_ready_is_named(loopback):
    async def main():
        server = loopback.server(patience=Patience(answer=0.5, grace=1.0, farewell=0.5))
        async with serving(server) as (port, task):
            runs = [loopback.run(name, port) for name in GOOD]
            _, writer = await loopback.line(BAD, port)
            await say(writer, loopback.session(BAD).join(bytes(32)))
            with pytest.raises(RunError, match=f"member '{BAD}' has not answered"):
                await task
            received = await asyncio.gather(*runs)
            assert all(BAD in one.ending for one in received)
            writer.transport.abort()
            await hang_up(writer)

    within(30, main())


def test_whoever_comes_and_goes_is_named(loopback):
    """Each time it reconnects, all members repeat the round; that must not go on forever."""

    async def main():
        # The others have a roster to check each time, and may be behind when the run ends.
        server = loopback.server(patience=Patience(answer=2.0, grace=3.0, farewell=10.0), returns=UNLIMITED)
        async with serving(server) as (port, task):
            runs = [loopback.run(name, port) for name in GOOD]
            while not task.done():
                session = loopback.session(BAD)
                await said(loopback, BAD, port, framing.to_bytes(session.join(os.urandom(32))).data)
            with pytest.raises(RunError, match=f"member '{BAD}' reconnected"):
                await task
            ends = await asyncio.gather(*runs, return_exceptions=True)  # one that is reconnecting finds no server
            assert all(isinstance(end, RunError | Received) for end in ends)

    within(90, main())


@pytest.mark.parametrize("lines", [150, pytest.param(5000, marks=pytest.mark.slow)])
def test_lines_of_one_member_again_and_again(loopback, expected, monkeypatch, lines):
    """A new connection replaces the old one, and too many are refused; the run then continues."""
    monkeypatch.setattr(connections, "RETURNS_WITHIN", 2.0)

    async def main():
        server = loopback.server(returns=20)
        async with serving(server) as (port, task):
            runs = [loopback.run(name, port) for name in GOOD]
            kept = []
            for _ in range(lines):
                with contextlib.suppress(OSError):
                    kept.append(await loopback.line(BAD, port))
            await asyncio.sleep(0.2)
            assert len(server._door._known) <= len(loopback.members)
            runs.append(loopback.run(BAD, port))
            outcome = await task
            received = await asyncio.gather(*runs)
            for _, writer in kept:
                writer.transport.abort()
                await hang_up(writer)
            return outcome, received

    outcome, received = within(120, main())
    assert loopback.table(outcome) == expected
    assert all(one.table == expected for one in received)


# -- the session's own bounds ----------------------------------------------------------------------------------------


def test_nobody_makes_the_epochs_run_out(loopback):
    """Otherwise a member that claims to be in the last possible epoch could end the run for all."""
    session = ServerSession(loopback.members, loopback.settings(), run=bytes(16))
    join = loopback.session(BAD).join(bytes(32))
    with pytest.raises(Exception, match="there was none after"):
        session.receive(BAD, msgspec.structs.replace(join, epoch=MAX_EPOCHS - 1), 0.0)


def test_a_member_that_comes_back_for_ever_is_named(loopback):
    session = ServerSession(loopback.members, loopback.settings(), run=bytes(16))
    for name in loopback.members:
        session.receive(name, loopback.session(name).join(os.urandom(32)), 0.0)
    join = loopback.session(BAD).join(bytes(32))
    session.gathering.epoch = MAX_EPOCHS - 1
    session.disconnect(BAD)
    *_, failed = session.receive(BAD, join, 0.0)
    assert failed.member == BAD
    assert "too often" in failed.reason
