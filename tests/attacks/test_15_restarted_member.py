"""Attack 15, critical, by the server: a restarted member. Found while reviewing the defences against attacks 1 to 14.

A member that was killed replays its journal, and then believed itself in the middle of a run: it answered a question
before it had confirmed a roster on its new connection and, without shared secrets, answered without masks. The server
only had to close the connection and wait for the unit to restart the member. The server's messages were also recorded
before they were checked, so a refused message was accepted when the journal was replayed.
"""

from __future__ import annotations

import asyncio
import os

import pytest
from liar import MEMBERS, Liar, Loopback

from fedslim.errors import ProtocolError
from fedslim.network.journal import Journal, messages_in
from fedslim.protocol import messages as m
from fedslim.protocol.member import MemberSession
from wire import Line, of_numbers, sprinkled

KEY = bytes(32)


@pytest.mark.parametrize("variant", ["x", "sa"])
def test_a_member_that_comes_back_answers_nothing_before_it_has_confirmed(variant):
    line = Line(of_numbers(sprinkled(3, 9, 3, 90), 9), variant).begin()
    heard = []

    def record(name, message):
        if name == "s000":
            heard.append(message)
        return message

    while not line.members["s000"].position:
        line.step(down=record)
    back = MemberSession("s000", line.members["s000"]._own)
    back.replay(heard)
    assert back.position == 1
    back.join(os.urandom(32))
    ask = {
        "x": m.Ask(1, 0, [], [m.WantRows([0, 1], b"\x28\x28")]),
        "sa": m.AskIndexed(1, 0, *[m.Vector(0, 8, b"")] * 3, 40),
    }[variant]
    for message in (ask, m.Confirmed(0, [b""] * 3), m.RosterUpdate(1, [], 0)):
        with pytest.raises(ProtocolError, match="waiting for the roster"):
            back.receive(message)


def test_counts_without_masks_never_leave_a_member_that_agreed_to_masks():
    """A second line of defence, whatever led to this state."""
    line = Line(of_numbers(sprinkled(3, 9, 3, 90), 9), "x").begin()
    while not line.members["s000"].position:
        line.step()
    member = line.members["s000"]
    member._secrets = {}
    with pytest.raises(ProtocolError, match="without masks"):
        member.receive(m.Ask(1, 0, [], [m.WantRows([0], b"\x08")]))


def test_a_member_keeps_only_what_it_accepted(tmp_path):
    """A refused question is not in the journal (over TLS, with a dishonest server)."""
    federation = Loopback(tmp_path / "trust", MEMBERS)
    journal = Journal.create(tmp_path / "member.journal", {}, key=KEY)

    async def attack():
        async with Liar(federation) as liar:
            liar.start("b", "c")
            session = federation.session("a")
            member = federation.member("a", session=session, journal=journal)
            liar._members["a"] = asyncio.create_task(member.run("127.0.0.1", liar.port))
            await liar.gather()
            for name in MEMBERS:
                await liar.say(name, liar.roster())
            signatures = [(await liar.hear(name)).signature for name in MEMBERS]
            await liar.say("a", m.Confirmed(0, signatures), m.Ask(0, 0, [], [m.WantSupports()]))
            assert isinstance(await liar.hear("a"), m.Masked)
            await liar.say("a", m.Ask(1, 7, [], [m.WantRows([0], b"\x08")]))  # an attempt that nobody made
            return await liar.failure("a")

    assert isinstance(asyncio.run(attack()), ProtocolError)
    journal.close()
    again, _, records, _ = Journal.reopen(tmp_path / "member.journal", key=KEY)
    again.close()
    kinds = [type(message) for message in messages_in(records, "journal")]
    assert kinds == [m.Roster, m.Confirmed, m.Ask]
