"""Attack 11, by a local user with write access to a member's journal: a forged result.

A journal had a checksum but no key, so anybody could write one. A forged `member.journal` that ended with a result made
`fedslim member` exit with 0, without any server, and save the forged code table.
"""

from __future__ import annotations

import asyncio
import json
import sys
import zlib

import msgspec
import pytest
from deployment import PATIENCE, Deployment

from fedslim.federated.deployment import MEMBER_JOURNAL
from fedslim.network.journal import Journal, encode_record, messages_in
from fedslim.protocol import messages as m

EXTRA = 1000
"""Transactions that the forged table has more than the true one."""


class Victim:
    """A member with the journal of a run that has finished but is not saved yet."""

    def __init__(self, deployment):
        self.deployment = deployment
        self.path = deployment.files.out("north") / MEMBER_JOURNAL
        self.key = deployment.identity("north").derived_key(MEMBER_JOURNAL)
        asyncio.run(asyncio.wait_for(self._run(), PATIENCE))
        journal, self.header, self.records, _ = Journal.reopen(self.path, key=self.key)
        journal.close()
        self.genuine = self.path.read_bytes()
        *_, last = messages_in(self.records, "north")
        table = msgspec.structs.replace(last.table, transactions=last.table.transactions + EXTRA)
        self.forged = [*self.records[:-1], encode_record(msgspec.structs.replace(last, table=table))]
        assert isinstance(last, m.Finish)

    async def _run(self):
        async with self.deployment.running() as (_, tasks):
            await asyncio.gather(*tasks)

    def start(self):
        """Start the member; return its exit code, its output, and the number of transactions in the table it saves."""
        saved = self.path.with_name("codetable.json")
        saved.unlink(missing_ok=True)
        saved.with_name("finished.json").unlink(missing_ok=True)
        (self.deployment.folder / "north.err").unlink(missing_ok=True)
        code = self.deployment.files.start_member("north").wait(PATIENCE)
        table = json.loads(saved.read_text("utf-8"))["transactions"] if saved.exists() else None
        return code, self.deployment.files.said("north"), table


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    deployment = Deployment(tmp_path_factory.mktemp("forged"), grace=1.0)
    yield Victim(deployment)
    deployment.close()


@pytest.fixture
def victim(finished):
    finished.path.unlink(missing_ok=True)
    finished.path.write_bytes(finished.genuine)
    finished.path.chmod(0o600)
    return finished


def is_refused(victim, why, file=None):
    code, said, table = victim.start()
    assert (code, table) == (2, None)
    assert f"fedslim: error: {file or victim.path}: " in said
    assert why in said
    return True


def test_the_genuine_journal_gives_the_result(victim):
    code, said, table = victim.start()
    assert (code, table) == (0, 300)
    assert "the run had already ended" in said


def test_a_journal_with_a_checksum_only_is_refused(victim):
    """The attack that worked: anybody can write a journal of version 2."""
    data = b"fedslim journal 2\n"
    for record in [json.dumps(victim.header).encode(), *victim.forged]:
        data += len(record).to_bytes(4, "big") + zlib.crc32(record).to_bytes(4, "big") + record
    victim.path.write_bytes(data)
    assert is_refused(victim, "this journal has format 2, and this fedslim uses format 3")


def test_a_journal_under_another_key_is_refused(victim):
    victim.path.unlink()
    journal = Journal.create(victim.path, victim.header, key=bytes(32))
    for record in victim.forged:
        journal.append(record)
    journal.close()
    assert is_refused(victim, "was altered, or was not written by this party with its present key")


@pytest.mark.slow
def test_a_journal_of_another_member_is_refused(victim):
    """South is a member too, and might have access to north's files."""
    victim.path.unlink()
    key = victim.deployment.identity("south").derived_key(MEMBER_JOURNAL)
    journal = Journal.create(victim.path, victim.header, key=key)
    for record in victim.forged:
        journal.append(record)
    journal.close()
    assert is_refused(victim, "was altered, or was not written by this party with its present key")


@pytest.mark.slow
def test_a_record_that_was_altered_is_not_believed(victim):
    """Nor are the records after it, including the result: the member gets them from the server again."""
    question = victim.records[len(victim.records) // 2]
    data = bytearray(victim.genuine)
    data[data.index(question) + len(question) // 2] ^= 1
    victim.path.write_bytes(data)
    code, said, table = victim.start()
    assert (code, table) == (1, None)
    assert "damaged bytes at its end" in said
    assert "cannot be reached" in said


@pytest.mark.slow
def test_a_result_that_was_altered_is_not_believed(victim):
    """At the end it looks like an incomplete record: it is cut off, and the member asks the server for the result."""
    data = victim.genuine.replace(victim.records[-1], victim.forged[-1])
    assert len(data) == len(victim.genuine)
    victim.path.write_bytes(data)
    code, said, table = victim.start()
    assert (code, table) == (1, None)
    assert "cannot be reached" in said


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="permissions are those of POSIX")
def test_a_journal_that_others_may_write_is_refused(victim):
    victim.path.chmod(0o666)
    assert is_refused(victim, f"others may change this file (permissions 666), so it is not used; if you trust its "
                              f"content, run `chmod 600 {victim.path}`")  # fmt: skip
    victim.path.chmod(0o600)
    victim.path.parent.chmod(0o777)
    try:
        assert is_refused(victim, f"run `chmod go-w {victim.path.parent}`", victim.path.parent / ".lock")
    finally:
        victim.path.parent.chmod(0o700)
