"""Attack 13, by a member: `fedslim status` as an oracle for sums.

While it ran, the server reported L% to members at full precision. L% is a function of the summed usages, which members
do not otherwise learn before the end (in SO: never).
"""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

import pytest
from deployment import PATIENCE, Deployment

from fedslim.federated.loopback import HOST
from fedslim.network import status
from fedslim.trust.tls import client_context


@pytest.fixture
def deployment(tmp_path):
    made = Deployment(tmp_path, transactions=900)
    yield made
    made.close()


async def figures(deployment):
    """Return L% as a member sees it during a run, and as the server's own machine sees it."""
    told, precise = [], []
    async with deployment.running() as (server, tasks):
        while not tasks[0].done():
            context = client_context(deployment.identity("north"), now=datetime.now(UTC))
            try:
                answer = await status.ask(context, HOST, server.network.port)
            except Exception:  # noqa: BLE001  # the run has just ended
                break
            told.append(answer["L_percent"])
            precise.append(server.network.status()["L_percent"])
        await asyncio.gather(*tasks)
    return told, precise


def test_a_member_is_told_whole_percents(deployment):
    told, precise = asyncio.run(asyncio.wait_for(figures(deployment), PATIENCE))
    known = [one for one in told if one is not None]
    assert known
    assert all(isinstance(one, int) for one in known)
    assert any(one != round(one) for one in precise if one is not None)  # the operator sees full precision


def test_the_operators_own_figures_stay_precise():
    found = {"L_percent": 51.23456789, "rounds": 7}
    body = status._response(b"GET /status HTTP/1.1\r\n", lambda: found).partition(b"\r\n\r\n")[2]
    assert json.loads(body) == found
    assert "\nfedslim_l_percent 51.23456789\n" in status.prometheus(found)
