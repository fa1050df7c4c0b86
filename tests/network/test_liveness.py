"""Dead connections that look open: both sides notice, and the run continues."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys

import pytest
from processes import MEMBERS, ends_as_if_nothing_had_happened

from fedslim.errors import LineError
from fedslim.network.connection import BEAT, MISSED_BEATS, Connection, Reader

BEATS = 0.4
"""Seconds between two keepalives, in tests with processes."""


# -- two ends of one connection ---------------------------------------------------------------------------------------


def sockets():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    return one, other


async def connected(line, beat, frame=5.0):
    line.setblocking(False)
    loop, reader = asyncio.get_running_loop(), Reader(limit=1 << 16)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, line)
    return Connection(reader, asyncio.StreamWriter(transport, protocol, reader, loop), frame=frame, beat=beat)


def frame_of(size, fill=7):
    return size.to_bytes(4, "big") + bytes([fill]) * size


def test_frames_arrive_whole_among_beats():
    """A keepalive is never sent within a frame, however long the frame takes."""

    async def main():
        one, other = [await connected(line, 0.005) for line in sockets()]
        frames = [frame_of(size, fill) for fill, size in enumerate((1, 12_000_000, 10, 70_000, 1_000_000), 1)]

        async def send():
            for data in frames:
                await one.send(data)
                await asyncio.sleep(0.02)

        sending = asyncio.create_task(send())
        await asyncio.sleep(0.2)  # until the long one exceeds the system's buffer and waits
        for data in frames:
            await asyncio.sleep(0.03)
            assert await other.receive() == data
        await sending
        await one.close()
        with pytest.raises(LineError, match=r"closed by the other side$|was reset$"):
            await other.receive()
        await other.close()

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_line_that_is_silent_is_given_up():
    async def main():
        line, silent = sockets()
        connection = await connected(line, 0.02)
        with pytest.raises(LineError, match=f"nothing was received for {MISSED_BEATS * 0.02:g} s"):
            await connection.receive()
        assert connection.writer.transport.is_closing()
        assert silent.recv(100).startswith(BEAT)
        silent.close()
        await connection.close()

    asyncio.run(asyncio.wait_for(main(), 30))


def test_what_is_not_read_yet_is_no_silence():
    """While the buffer is full of unread data, nothing can arrive."""

    async def main():
        line, other = sockets()
        connection = await connected(line, 0.05)
        other.setblocking(False)
        data = memoryview(frame_of(8_000_000))
        sent = 0
        for _ in range(10):  # more than the buffer holds, and nothing is read
            with contextlib.suppress(BlockingIOError):
                while sent < len(data):
                    sent += other.send(data[sent : sent + 65536])
            await asyncio.sleep(0.05)
        assert sent < len(data)
        receiving = asyncio.create_task(connection.receive())
        while sent < len(data):
            await asyncio.sleep(0.001)
            with contextlib.suppress(BlockingIOError):
                sent += other.send(data[sent : sent + 65536])
        assert await receiving == data
        other.close()
        await connection.close()

    asyncio.run(asyncio.wait_for(main(), 30))


def test_whoever_shows_life_is_not_silent():
    """By keepalives, and by the bytes of a slow frame."""

    async def main():
        line, slow = sockets()
        connection = await connected(line, 0.05)
        receiving = asyncio.create_task(connection.receive())
        for part in [BEAT] * 6 + [bytes([byte]) for byte in frame_of(6)]:
            await asyncio.sleep(0.05)
            slow.sendall(part)
        assert await receiving == frame_of(6)
        slow.close()
        await connection.close()

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_process_that_did_not_listen_does_not_blame_the_other():
    """It was suspended or busy: data that arrived meanwhile are read before the connection is judged."""

    async def main():
        import time

        line, other = sockets()
        connection = await connected(line, 0.05)
        receiving = asyncio.create_task(connection.receive())
        for _ in range(3):
            time.sleep(0.5)  # noqa: ASYNC251  # which is the point
            other.sendall(BEAT)
            await asyncio.sleep(0.01)
        other.sendall(frame_of(3))
        assert await receiving == frame_of(3)
        other.close()
        await connection.close()

    asyncio.run(asyncio.wait_for(main(), 30))


# -- real processes ---------------------------------------------------------------------------------------------------


@pytest.mark.slow  # tests/chaos has such a middlebox, too
def test_a_middlebox_that_forwards_nothing_does_not_end_the_run(federate, calm):
    """It still acknowledges them. New connections work."""
    federation = federate(grace=30.0, keepalive=BEATS)
    federation.start()
    federation.until_round(10)
    federation.relay.mute()
    ends_as_if_nothing_had_happened(federation, calm)
    assert "nothing was received for" in federation.said("server") + federation.said("north")


def test_a_member_does_not_wait_for_a_server_that_is_gone_behind_a_middlebox(federate):
    federation = federate(grace=5.0, keepalive=BEATS)
    federation.serve()
    federation.until(lambda: "listening on" in federation.said("server"))  # members must not give up before
    federation.join(*MEMBERS)
    federation.until_round(10)
    federation.relay.mute()
    federation.kill("server")
    assert federation.ends() == [1] * len(MEMBERS)
    for name in MEMBERS:
        said = federation.said(name)
        assert "nothing was received for" in said or "was reset" in said or "was closed" in said
        assert "error: the server at" in said


@pytest.mark.slow
def test_a_member_that_is_stopped_is_away_and_comes_back(federate, calm):
    federation = federate(grace=30.0, keepalive=BEATS)
    federation.start()
    federation.until_round(10)
    federation.running["south"].send_signal(signal.SIGSTOP)
    federation.until(lambda: "south disconnected: nothing was received for" in federation.said("server"))
    federation.running["south"].send_signal(signal.SIGCONT)
    ends_as_if_nothing_had_happened(federation, calm)


INSIDE = "FEDSLIM_TESTS_IN_NAMESPACE"


@pytest.mark.skipif(INSIDE not in os.environ, reason="is run by the next test, in a network of its own")
def test_inside_a_namespace(federate, calm):
    federation = federate(grace=30.0, keepalive=BEATS)
    federation.start()
    federation.until_round(10)
    for port in federation.relay.ports():
        for side in ("--sport", "--dport"):
            rule = ["iptables", "-A", "INPUT", "-p", "tcp", side, str(port), "-j", "DROP"]
            subprocess.run(rule, check=True)
    ends_as_if_nothing_had_happened(federation, calm)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root on Linux can have a network")
@pytest.mark.skipif(shutil.which("ip") is None, reason="there is no `ip` (iproute2) here")
@pytest.mark.skipif(shutil.which("iptables") is None, reason="there is no `iptables` here")
def test_packets_that_vanish_do_not_end_the_run(tmp_path):
    """On all open connections; new ones work. In a separate network namespace, so that nothing else is affected."""
    name = f"fedslim-{os.getpid()}"
    ip = shutil.which("ip")
    made = subprocess.run([ip, "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"a network namespace cannot be made: {made.stderr.strip()}")
    within = [ip, "netns", "exec", name]
    try:
        subprocess.run([*within, "ip", "link", "set", "lo", "up"], check=True)
        if subprocess.run([*within, "iptables", "-L"], capture_output=True, check=False).returncode:
            pytest.skip("the kernel has no packet filter")
        test = f"{__file__}::test_inside_a_namespace"
        command = [*within, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
        done = subprocess.run(
            [*command, f"--basetemp={tmp_path / 'inside'}"],
            env=os.environ | {INSIDE: "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
    finally:
        subprocess.run([ip, "netns", "del", name], check=False)
