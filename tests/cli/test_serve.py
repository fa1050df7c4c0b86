"""A run that ends on a full disk loses nothing, and does not claim that results were saved."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest
from deployment import Deployment

from fedslim.federated.records import load_run
from fedslim.mdl.codetable import CodeTable
from fedslim.settings.policy import write_policy


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    """A federation whose run has ended without saving anything: server and members still have journals."""
    made = Deployment(tmp_path_factory.mktemp("deployment"), transactions=120)

    async def main():
        async with made.running() as (_, tasks):
            await asyncio.gather(*tasks)

    asyncio.run(asyncio.wait_for(main(), 90))
    return made


def out_of(deployment, who):
    return deployment.files.out(who)


@pytest.fixture
def member(fedslim, deployment):
    folder = deployment.folder
    own = ("--name", "north", "--data", folder / "north.csv", "--identity", folder / "trust" / "north")
    columns = ("--transaction-column", "transaction", "--item-column", "item")
    shared = ("--secret", folder / "secret.txt", "--vocabulary", folder / "vocabulary.json")
    command = ("member", deployment.files.file, "--out", out_of(deployment, "north"), *own, *columns, *shared)
    return lambda *more: fedslim(*command, *more)


@pytest.fixture
def server(fedslim, deployment):
    identity = deployment.folder / "trust" / "server"
    command = ("server", deployment.files.file, "--out", out_of(deployment, "server"), "--identity", identity)
    return lambda: fedslim(*command, "--resume")


@pytest.fixture
def full_disk(monkeypatch):
    """Simulate a full disk for files of a given name, until it is freed."""
    real = Path.replace

    def begin(name):
        def replace(path, target):
            if Path(target).name == name:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(path, target)

        monkeypatch.setattr(Path, "replace", replace)

    def end():
        monkeypatch.setattr(Path, "replace", real)

    return begin, end


def check(run, out, journal, result, full_disk):
    """If the disk is full, the journal stays, and the same command saves the result later."""
    begin, end = full_disk
    begin(result)
    ran = run()
    assert ran.code == 1, ran.err
    last = ran.err.splitlines()[-1]
    assert last.startswith("fedslim: error: ")
    assert str(out / result) in last
    assert f"saved in {out}" not in ran.err
    assert ((out / journal).is_file(), (out / result).exists()) == (True, False)
    end()
    ran = run()
    assert ran.code == 0, ran.err
    assert f"saved in {out}" in ran.err
    assert ((out / journal).exists(), (out / result).is_file()) == (False, True)


def test_a_member_that_cannot_save_its_table_says_so_and_keeps_its_journal(member, deployment, full_disk):
    out = out_of(deployment, "north")
    check(member, out, "member.journal", "codetable.json", full_disk)
    assert len(CodeTable.load(out / "codetable.json")) > 0


def test_a_server_that_cannot_save_its_results_says_so_and_keeps_its_journal(server, deployment, full_disk):
    out = out_of(deployment, "server")
    check(server, out, "server.journal", "run.json", full_disk)
    assert len(load_run(out).code_table) > 0


def test_a_member_is_the_one_in_its_certificate(member):
    ran = member("--name", "south")
    assert (ran.code, ran.out) == (2, "")
    assert all(name in ran.only_line for name in ("'north'", "'south'", "--name"))


def test_a_policy_is_looked_at_before_anything_else(member, tmp_path):
    """Keys and data are not even opened for a federation that the policy refuses."""
    write_policy(tmp_path / "policy.toml", policy_min_members=9)
    ran = member("--policy", tmp_path / "policy.toml", "--identity", tmp_path / "none", "--data", tmp_path / "none.csv")
    assert (ran.code, ran.out) == (2, "")
    assert "policy.min_members" in ran.only_line
