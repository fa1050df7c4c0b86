"""Attack 9, by a member against the server's log, and by a server against a member's terminal.

A member joined with another protocol number and a line break in `Join.software`. The server quoted both in its log, so
the member could forge a line of the log. `fedslim status` printed whatever a server answered, including escape
sequences.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import subprocess
import sys
from datetime import UTC, datetime

import msgspec
import pytest
from deployment import PATIENCE, Deployment

from fedslim.cli.console.logs import set_up_logs
from fedslim.errors import FrameError
from fedslim.federated.loopback import HOST
from fedslim.network.status import ASKING, PREFIX_BYTES
from fedslim.protocol import framing, messages as m
from fedslim.settings.federation_keys import Log
from fedslim.trust.tls import server_context

FORGED = "2026-01-01 00:00:00,000 INFO all is ok"
LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ \S.*")
HARMFUL = "x\n" + FORGED + "\r\x1b[2J\x1b]0;title\x07 \x9b31m \u202eevil\u2066 \u2028 \x85 \x00"


@pytest.fixture
def deployment(tmp_path):
    made = Deployment(tmp_path)
    yield made
    made.close()


async def said(deployment, name, message):
    """Connect as a member, send a message, and return the reason why the server disconnects."""
    port = deployment.files.port
    reader, writer = await asyncio.open_connection(HOST, port, ssl=deployment.context(name))
    writer.write(framing.to_bytes(message).data)
    length = framing.length_of(await reader.readexactly(framing.PREFIX_BYTES))
    answer = framing.from_server(await reader.readexactly(length))
    writer.close()
    await writer.wait_closed()
    return answer.reason


def test_a_member_cannot_write_a_line_of_the_servers_log(deployment, tmp_path):
    deployment.log_to(tmp_path / "server.log")
    deployment.listening()
    join = deployment.session("west").join(bytes(32))
    forging = msgspec.structs.replace(join, protocol=m.PROTOCOL + 1, software=f"0\n{FORGED}")
    reason = asyncio.run(asyncio.wait_for(said(deployment, "west", forging), PATIENCE))
    assert "no message we know" in reason or "speaks protocol" in reason
    log, shown = (tmp_path / "server.log").read_text("utf-8").split("\n"), deployment.files.said("server").split("\n")
    assert not any(line.startswith(FORGED) for line in (*log, *shown))
    assert log.pop() == ""
    assert all(LINE.fullmatch(line) for line in log)
    assert any(" WARNING west: " in line for line in log)  # the refusal is logged


@pytest.mark.parametrize("software", ["0\n1", "0 1", "0)", "\x1b[2J", "1.0\n", "\u202e", "x" * 41])
def test_a_version_is_letters_digits_dots_and_signs(deployment, software):
    join = deployment.session("west").join(bytes(32))
    forged = framing.to_bytes(msgspec.structs.replace(join, software=software)).data
    with pytest.raises(FrameError, match="no message we know: Expected `str` "):
        framing.from_member(forged[framing.PREFIX_BYTES :])
    for good in (join.software, "0.2.dev1+g1a2B3c", "1.0-rc1", ""):
        data = framing.to_bytes(msgspec.structs.replace(join, software=good)).data
        assert framing.from_member(data[framing.PREFIX_BYTES :]).software == good


def test_whatever_is_told_is_one_harmless_line(tmp_path, capsys):
    """Whichever field a peer finds that is quoted."""
    set_up_logs(Log(file=tmp_path / "run.log"))
    logger = logging.getLogger("fedslim.network.server")
    logger.warning("%s: %s", "west", HARMFUL)
    logger.info("done")
    log, shown = (tmp_path / "run.log").read_bytes().decode(), capsys.readouterr().err
    for text in (log, shown):
        first, second, rest = text.split("\n")
        assert first.isprintable()
        assert " WARNING west: x 2026" in first or first.startswith("west: x 2026")
        assert second.endswith("done")
        assert rest == ""


def test_a_server_cannot_write_to_the_terminal_of_a_member_that_asks(deployment):
    lie = {
        "members": {f"north{HARMFUL}": {"here": True, "state": HARMFUL}},
        "waiting_for": [HARMFUL],
        "rounds": HARMFUL,
        "itemsets": 1,
        "L_percent": None,
        "bytes_up": 1,
        "bytes_down": 1,
    }

    async def answer(_reader, writer):
        data = json.dumps(lie).encode()
        writer.write(len(data).to_bytes(PREFIX_BYTES, "big") + data)
        await writer.drain()
        writer.close()

    async def main():
        context = server_context(deployment.identity("server"), now=datetime.now(UTC))
        context.set_alpn_protocols([ASKING])
        async with await asyncio.start_server(answer, HOST, 0, ssl=context) as server:
            port = server.sockets[0].getsockname()[1]
            command = [sys.executable, "-m", "fedslim", "status", str(deployment.files.file), "--port", str(port)]
            command += ["--identity", str(deployment.folder / "trust" / "north")]
            asked = await asyncio.create_subprocess_exec(
                *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=None
            )
            out, error = await asked.communicate()
            return asked.returncode, out.decode(), error.decode()

    code, out, error = asyncio.run(asyncio.wait_for(main(), PATIENCE))
    assert (code, error) == (0, "")
    first, second, rest = out.split("\n")
    assert rest == ""
    assert first.isprintable()
    assert second.isprintable()
