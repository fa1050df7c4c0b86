"""Attack 10, by a stranger: refused connections fill the server's disk.

Each refused connection wrote a line to the terminal and the log, without limit: 4 seconds of them gave 279 kB.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time

import pytest
from deployment import PATIENCE, Deployment

from fedslim.federated.loopback import HOST
from fedslim.network.connection import MAX_RETURNS

SECONDS = 2.0
GARBAGE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def deployment(tmp_path):
    made = Deployment(tmp_path)
    made.log_to(tmp_path / "server.log")
    yield made
    made.close()


async def strangers(port):
    """Connect without TLS in 16 tasks, and return how often."""
    end, count = time.monotonic() + SECONDS, 0

    async def again_and_again():
        nonlocal count
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(HOST, port)
                writer.write(GARBAGE)
                count += 1
                await asyncio.sleep(0.01)
                writer.close()
                await writer.wait_closed()

    await asyncio.gather(*(again_and_again() for _ in range(16)))
    return count


async def returns(port, context, count):
    """Connect as a member repeatedly."""
    for _ in range(count):
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(HOST, port, ssl=context)
            with contextlib.suppress(OSError, TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.01)
            writer.transport.abort()


def test_strangers_cannot_fill_the_log(deployment, tmp_path):
    server = deployment.listening()
    count = asyncio.run(asyncio.wait_for(strangers(deployment.files.port), PATIENCE))
    assert count > 100
    server.terminate()
    server.wait(PATIENCE)
    log, shown = (tmp_path / "server.log").read_text("utf-8"), deployment.files.said("server")
    for text in (log, shown):
        assert len(text) < 2000
        told = [line for line in text.splitlines() if "refused " in line]
        assert re.search(r"refused a connection: .* it does not speak TLS at all$", told[0])
        number = re.search(r"refused ([\d,]+) more connections; the latest: .* it does not speak TLS at all$", told[1])
        assert int(number[1].replace(",", "")) > count // 2  # all are counted that did not disconnect too early
        assert len(told) == 2


def test_nor_can_a_member_that_comes_back_all_the_time(deployment, tmp_path):
    server = deployment.listening()
    times = MAX_RETURNS + 50
    asyncio.run(asyncio.wait_for(returns(deployment.files.port, deployment.context("west"), times), PATIENCE))
    server.terminate()
    server.wait(PATIENCE)
    told = [line for line in (tmp_path / "server.log").read_text("utf-8").splitlines() if "refused " in line]
    assert len(told) == 2
    assert told[0].endswith(" WARNING refused a connection: 'west' reconnects too often")
    assert re.search(r"WARNING refused \d+ more connections; the latest: 'west' reconnects too often$", told[1])
