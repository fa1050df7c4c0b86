"""What `DeployedServer` and `DeployedMember` pass to their parts."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from fedslim.data import load
from fedslim.data.partition import iid
from fedslim.data.vocabulary import ItemSecret
from fedslim.errors import JournalError, ProtocolError
from fedslim.federated.deployment import SERVER_JOURNAL, DeployedMember, DeployedServer
from fedslim.settings.federation_file import write_template
from fedslim.trust.enrolment import install_list, make_demo_ca
from fedslim.trust.tls import client_context

MEMBERS = ("north", "south", "west")
SECRET = ItemSecret.from_random(bytes(32))


@pytest.fixture
def trial(tmp_path):
    return make_demo_ca(tmp_path / "trial", MEMBERS, now=datetime.now(UTC))


@pytest.fixture
def file(tmp_path):
    chosen = {"items.secret_fingerprint": SECRET.fingerprint, "limits.min_count": 1, "limits.min_members_with": 1}
    return write_template(tmp_path / "federation.toml", "a try", MEMBERS, "x", host="localhost", chosen=chosen)


@pytest.fixture(scope="module")
def databases():
    return dict(zip(MEMBERS, iid(load("encounters").take(range(120)), len(MEMBERS), seed=0).parts, strict=True))


def identity(trial, name):
    return next(member for member in trial.members if member.name == name)


def member_of(file, trial, databases, folder, name="north", data=None):
    folder.mkdir(exist_ok=True)
    mine = (identity(trial, name), databases[data or name], SECRET, None, folder)
    return DeployedMember(file, *mine, audit=None)


def at_once(run):
    """Run something that must fail at once; if it began, it would wait for others."""
    return asyncio.run(asyncio.wait_for(run, 10))


@asynccontextmanager
async def serving(file, trial, folder, *, resume=False):
    """Provide a listening server; cancel it at the end."""
    folder.mkdir(exist_ok=True)
    server = DeployedServer(file, trial.server, folder)
    task = asyncio.create_task(server.run(resume=resume, host="127.0.0.1", port=0))
    try:
        while (server.network is None or not server.network.port) and not task.done():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        yield server, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_keys_are_checked_by_the_list_of_today_not_by_that_of_the_start(file, trial, databases, tmp_path, logged):
    async def main():
        join = member_of(file, trial, databases, tmp_path / "west", "west").session.join(os.urandom(32))
        async with serving(file, trial, tmp_path / "server") as (server, _):
            trial.authority.revoke("west", now=datetime.now(UTC))
            install_list(trial.folder / "server", (trial.folder / "ca" / "crl.pem").read_bytes())
            context = client_context(identity(trial, "north"), now=datetime.now(UTC))
            _, writer = await asyncio.open_connection("localhost", server.network.port, ssl=context)
            while not any("now using revocation list" in line for line in logged.messages):  # noqa: ASYNC110  # it looks at new lines
                await asyncio.sleep(0.005)
            writer.transport.abort()
            with pytest.raises(ProtocolError, match="'west'"):
                server.session.receive("west", join, 0.0)

    asyncio.run(asyncio.wait_for(main(), 60))


def test_the_time_that_a_run_has_taken_goes_on_after_a_resume(file, trial, databases, tmp_path):
    """`max_time` depends on it: a server that is killed again and again must not run forever."""
    hours = 3600.0

    async def main():
        async with serving(file, trial, tmp_path / "server") as (server, _):
            running = [
                asyncio.create_task(
                    member_of(file, trial, databases, tmp_path / name, name).run(
                        host="localhost", port=server.network.port
                    )
                )
                for name in MEMBERS
            ]
            while not server.session.rounds:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            server.session._began -= 5 * hours
            begun = server.session.rounds
            while server.session.rounds < begun + 2:  # noqa: ASYNC110  # so that a round was written down since
                await asyncio.sleep(0.001)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        async with serving(file, trial, tmp_path / "server", resume=True) as (server, _):
            return server.session.elapsed(time.monotonic())

    assert 5 * hours <= asyncio.run(asyncio.wait_for(main(), 60)) < 6 * hours


def test_a_member_plays_no_journal_of_another_federation_or_member(file, trial, databases, tmp_path, monkeypatch):
    folder = tmp_path / "north"
    member_of(file, trial, databases, folder)._journal().close()
    other = replace(file, limits=replace(file.limits, min_support=7))
    with pytest.raises(JournalError, match=r"member\.journal"):
        at_once(member_of(other, trial, databases, folder).run(host="localhost", port=1))
    again = member_of(file, trial, databases, folder)
    again.session.name = "south"
    with pytest.raises(JournalError, match=r"member\.journal"):
        at_once(again.run(host="localhost", port=1))
    with monkeypatch.context() as patched:
        patched.setattr("fedslim.protocol.messages.PROTOCOL", 99)
        newer = member_of(file, trial, databases, folder).run(host="localhost", port=1)
        with pytest.raises(JournalError, match=r"member\.journal"):
            at_once(newer)
    member_of(file, trial, databases, folder)._journal().close()  # it was not changed, and belongs to this member


def test_a_server_continues_no_journal_of_another_federation(file, trial, tmp_path):
    folder = tmp_path / "server"
    folder.mkdir()
    server = DeployedServer(file, trial.server, folder)

    class Session:
        gathering = type("Items", (), {"ids": (), "labels": ()})()

    server._begin_journal(Session(), bytes(16), folder / SERVER_JOURNAL, 3).close()
    other = replace(file, limits=replace(file.limits, min_support=7))
    with pytest.raises(JournalError, match=r"server\.journal"):
        at_once(DeployedServer(other, trial.server, folder).run(resume=True, port=0))
    gc.collect()
