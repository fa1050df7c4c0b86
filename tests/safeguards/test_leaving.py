"""Only what is in a member's audit log and journal leaves it over TLS, and nothing about its data."""

from __future__ import annotations

import asyncio

import pytest
from liar import MEMBERS, Liar, Loopback

from fedslim.errors import DataError, WriteError
from fedslim.protocol import messages as m

LABEL = "HIV positive"


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    return Loopback(tmp_path_factory.mktemp("federation") / "trust", MEMBERS)


def full(*_given):
    message = "the disk is full"
    raise WriteError(message)


async def met(federation, member, *messages):
    """Send a member these messages; return what the server receives, and how the member ends."""
    async with Liar(federation) as liar:
        run = asyncio.create_task(member.run("127.0.0.1", liar.port))
        first = await liar.hear("a")
        if first is not None:
            await liar.say("a", *messages)
            while await liar.hear("a") is not None:
                pass
        (end,) = await asyncio.gather(run, return_exceptions=True)
        return [message for _, message in liar.said], end


def test_a_members_own_error_stays_with_it(federation):
    session = federation.session("a")

    def receive(_message):
        message = f"row 7 has {LABEL!r}"
        raise DataError(message)

    session.receive = receive
    roster = m.Roster(bytes(16), federation.settings(), list(MEMBERS), [bytes(32)] * 3, b"", 0, [b""] * 3, 0)
    said, end = asyncio.run(met(federation, federation.member("a", session=session), roster))
    assert isinstance(end, DataError)
    assert LABEL in str(end)  # the member's operator sees it
    join, abort = said
    assert (type(join), type(abort)) == (m.Join, m.Abort)
    assert LABEL not in abort.reason


def test_what_cannot_be_audited_does_not_leave(federation):
    said, end = asyncio.run(met(federation, federation.member("a", leaving=full)))
    assert isinstance(end, WriteError)
    assert said == []


class FullJournal:
    append = staticmethod(full)


def test_what_cannot_be_written_down_is_not_answered(federation):
    """A member that does not know after a crash what it answered would answer again with other masks."""
    session = federation.session("a")
    session.receive = lambda _message: m.Confirm(0, b"signed")
    roster = m.Roster(bytes(16), federation.settings(), list(MEMBERS), [bytes(32)] * 3, b"", 0, [b""] * 3, 0)
    member = federation.member("a", session=session, journal=FullJournal())
    said, end = asyncio.run(met(federation, member, roster))
    assert isinstance(end, WriteError)
    assert [type(message) for message in said] == [m.Join]
