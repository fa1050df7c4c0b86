"""Runs on a network that are stopped, broken off and resumed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from fedslim.data import builtin_sites
from fedslim.data.vocabulary import ItemSecret
from fedslim.errors import RunError
from fedslim.federated.deployed import MEMBER_JOURNAL, Member, Server
from fedslim.transport.config import FederationFile, write_template
from fedslim.transport.trust import make_trial

NAMES = ("north", "south")
SECRET = ItemSecret.from_random(bytes(32))


class Place:
    """A federation of two on this machine; the grace is short."""

    def __init__(self, folder):
        self.folder, self.told = folder, []
        trial = make_trial(folder / "trust", NAMES, now=datetime.now(UTC))
        self.server_identity, self.identities = trial.server, dict(zip(NAMES, trial.members, strict=True))
        path = folder / "federation.toml"
        write_template(path, "ours", list(NAMES), "x", host="localhost", port=7443)
        path.write_text(path.read_text().replace("grace = 300", "grace = 1"))
        self.file = FederationFile.read(path)
        self.data = {
            name: db.take(range(250)) for name, (_, db) in zip(NAMES, builtin_sites("encounters"), strict=False)
        }

    def server(self):
        (self.folder / "server").mkdir(exist_ok=True)
        return Server(self.file, self.server_identity, self.folder / "server", tell=self.told.append)

    def member(self, name):
        out = self.folder / name
        out.mkdir(exist_ok=True)
        identity = self.identities[name]
        return Member(self.file, identity, self.data[name], SECRET, None, out, audit=None, tell=self.told.append)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


async def listening(server):
    while server.network is None or not server.network.port:  # noqa: ASYNC110  # there is no event for it
        await asyncio.sleep(0.01)
    return server.network.port


def test_a_server_without_a_journal_to_resume_begins_anew_and_can_be_broken_off_while_it_waits(place):
    async def main():
        server = place.server()
        run = asyncio.create_task(server.run(resume=True, port=0))
        await listening(server)
        assert not server.stop()  # there is no round that could end
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert not server.journal.exists()

    asyncio.run(main())
    assert any("this is a new run" in told for told in place.told)


def test_a_run_that_lost_a_member_is_resumed_when_it_comes_back(place):
    async def lose():
        server = place.server()
        run = asyncio.create_task(server.run(port=0))
        port = await listening(server)
        north, south = (asyncio.create_task(place.member(name).run(port=port)) for name in NAMES)
        while server.session.rounds < 5:  # noqa: ASYNC110  # whatever it is in
            await asyncio.sleep(0.001)
        south.cancel()
        served = await run
        assert "stayed away" in str(served.lost)
        assert server.journal.exists()
        with pytest.raises(RunError, match="by the same command"):
            await north

    asyncio.run(lose())
    assert all((place.folder / name / MEMBER_JOURNAL).exists() for name in NAMES)

    async def both():
        server = place.server()
        run = asyncio.create_task(server.run(resume=True, port=0))
        port = await listening(server)
        return await asyncio.gather(run, *(place.member(name).run(port=port) for name in NAMES))

    served, *received = asyncio.run(both())
    assert served.lost is None
    assert served.outcome.converged
    assert [len(one.table) for one in received] == [len(served.table)] * len(NAMES)
    assert not any((place.folder / name / MEMBER_JOURNAL).exists() for name in NAMES)


def test_a_port_that_is_taken_is_an_error_that_says_what_to_do(place):
    async def main():
        server = place.server()
        run = asyncio.create_task(server.run(port=0))
        port = await listening(server)
        with pytest.raises(RunError, match="--port"):
            await place.server().run(port=port)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)

    asyncio.run(main())
