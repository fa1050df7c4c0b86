"""Attack 2, high, by the server: refusals are an oracle.

With the other members absent, the server replayed their old signed keys to one member, varied `max_transactions`, and
learned the exact number of its transactions from refusals in 16 connections. `bits` bracketed the support of any
itemset; a short `length` revealed whether co-occurrences exist.
"""

from __future__ import annotations

import asyncio
import os

import msgspec
import pytest
from liar import MEMBERS, Liar, Loopback

from fedslim.errors import FedslimError
from fedslim.protocol import messages as m
from fedslim.protocol.messages import Want


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    return Loopback(tmp_path_factory.mktemp("liar") / "trust", MEMBERS)


def old_joins(federation):
    """Keys that the others signed in an earlier run of this federation; their private keys no longer exist."""
    return {name: federation.session(name).join(os.urandom(32)) for name in MEMBERS[1:]}


def test_a_member_alone_with_old_keys_of_the_others_answers_nothing(federation):
    async def attack():
        async with Liar(federation) as liar:
            liar.start("a")
            await liar.gather()
            await liar.say("a", liar.roster(joins=old_joins(federation)))
            mine = (await liar.hear("a")).signature
            await liar.say("a", m.Confirmed(0, [mine, mine, mine]), m.Ask(0, 0, [], [m.WantSupports()]))
            return await liar.failure("a"), liar.answers()

    error, answers = asyncio.run(attack())
    assert isinstance(error, FedslimError)
    assert not answers


def refusal(session, settings, joins):
    joins = {"a": session.join(os.urandom(32)), **joins}
    roster = m.Roster(
        bytes(16),
        settings,
        list(MEMBERS),
        [joins[name].key for name in MEMBERS],
        b"",
        0,
        [joins[name].certificate for name in MEMBERS],
        0,
    )
    try:
        return type(session.receive(roster)).__name__
    except FedslimError as error:
        return str(error).replace(str(settings.max_transactions), "N")


def test_what_a_member_says_to_other_settings_does_not_depend_on_how_many_transactions_it_has(federation):
    """The bisection of the attack: every value except the agreed one gets the same refusal."""
    joins, agreed = old_joins(federation), federation.file.settings()
    size = federation.parts["a"].transactions
    said = set()
    for most in (3, 3 * size - 1, 3 * size, 3 * size + 1, 1 << 47):
        said.add(refusal(federation.session("a"), msgspec.structs.replace(agreed, max_transactions=most), joins))
    assert len(said) == 1
    assert refusal(federation.session("a"), agreed, joins) == "Confirm"


def running(federation):
    """Bring a member to the point of questions; the liar has two accomplices that confirm whatever it wants."""
    sessions = {name: federation.session(name) for name in MEMBERS}
    joins = {name: session.join(os.urandom(32)) for name, session in sessions.items()}
    roster = m.Roster(
        bytes(16),
        federation.file.settings(),
        list(MEMBERS),
        [joins[name].key for name in MEMBERS],
        b"",
        0,
        [joins[name].certificate for name in MEMBERS],
        0,
    )
    signatures = [sessions[name].receive(roster).signature for name in MEMBERS]
    sessions["a"].receive(m.Confirmed(0, signatures))
    sessions["a"].receive(m.Ask(0, 0, [], [m.WantSupports()]))
    return sessions["a"]


@pytest.mark.parametrize("bits", [1, 2, 5, 11, 20, 56])
def test_the_width_that_is_asked_for_tells_nothing_about_the_counts(federation, bits):
    """Counts that do not fit wrap around: the answer has the requested length, and no member refuses."""
    member = running(federation)
    reply = member.receive(m.Ask(1, 0, [], [m.WantRows([0, 1, 2], bytes([bits] * 3))]))
    items = len(federation.vocabulary)
    assert reply.words.length == 3 * -(-items // (64 // bits))


def test_a_question_cannot_say_how_many_slots_it_is_about():
    """A member refused a short length only if there was something beyond it. Messages no longer contain a length."""
    for kind in (*Want.__args__, m.AskEvaluation):
        assert "length" not in kind.__struct_fields__
