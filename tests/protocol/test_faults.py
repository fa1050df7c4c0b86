"""Connections break, members and the server are killed and restored: the run ends as if nothing had happened."""

from __future__ import annotations

import numpy as np
import pytest
from weather import MEMBERS, MOST, PHASES, Weather

from fedslim.errors import RingError
from fedslim.network.journal import read_server_records
from fedslim.protocol import messages as m
from fedslim.protocol.state import MemberState, SessionState
from fedslim.secagg.ring import Ring


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("variant", ["x", "sa", "so"])
def test_a_run_with_faults_ends_like_one_without(calm, variant, seed):
    federation = Weather(variant, seed)
    assert federation.run(often=0.05 if variant == "x" else 0.03) >= 3  # x has the fewest rounds
    assert federation.outcome == calm[variant]
    assert federation.server.rounds == len(federation.rounds)
    assert {member.received.ending for member in federation.members.values()} == {"converged"}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
@pytest.mark.parametrize("variant", ["x", "sa", "so"])
def test_a_run_whose_machines_lose_power_ends_like_one_without(calm, variant, seed):
    """Records that were not on the disk yet are lost; all members go back, and give the same answers again."""
    federation = Weather(variant, seed)
    faults = ("line", "kill", "server", "server loses power", "member loses power")
    assert federation.run(often=0.03 if variant == "x" else 0.01, faults=faults) >= 3  # x has the fewest rounds
    assert federation.outcome == calm[variant]
    assert federation.server.rounds == len(federation.rounds)
    assert {member.received.ending for member in federation.members.values()} == {"converged"}


@pytest.mark.parametrize("variant", ["x", "sa"])
def test_no_mask_comes_twice_even_where_rounds_are_repeated(variant):
    """The same counts under two masks differ, and no masked answer is sent twice."""
    federation = Weather(variant, 5)
    assert federation.run(often=0.02) >= 5
    repeated = len(federation.sent) - len({(name, reply.round) for name, reply in federation.sent})
    assert repeated > 0
    seen = [(name, reply.words.data) for name, reply in federation.sent if reply.words.length]
    assert len(set(seen)) == len(seen)


@pytest.fixture(scope="module")
def calm_and_small():
    federation = Weather("x", rows=150)
    federation.run()
    return federation


@pytest.mark.parametrize("what", ["line", "kill", "quit", "server"])
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(
    "again", [pytest.param(False, id="at first"), pytest.param(True, id="again", marks=pytest.mark.slow)]
)
def test_a_fault_in_every_phase(calm_and_small, what, phase, again):
    """At the start of the run, and when it resumes after another fault; for every member."""
    for name in MEMBERS[:1] if what == "server" else MEMBERS:
        federation = Weather("x", 11, rows=150)
        if again:
            federation.until(lambda f: f.server.rounds > 5)
            federation.fault("line", "b")
            if phase == "joining":  # while another one is still away
                federation.cut("c")
                federation.until(PHASES[phase])
                federation.join("c")
            else:
                federation.until(lambda f: f.server.gathering.epoch == 1)
        federation.until(PHASES[phase])
        epoch = federation.server.gathering.epoch
        federation.fault(what, name)
        federation.run()
        assert federation.outcome == calm_and_small.outcome
        assert federation.server.rounds == calm_and_small.server.rounds
        was_there = phase != "joining" or again
        if was_there and (what != "server" or federation.journal is not None) and federation.lives == 0:
            assert federation.server.gathering.epoch > epoch


def test_a_member_that_is_lost_between_its_confirmation_and_everybodys_has_nothing_confirmed():
    """The others do not continue with the roster it had signed: all confirm a new one, with its new key."""
    federation = Weather("x", 3).until(PHASES["confirmed"])
    gone = next(name for name, state in federation.server._states.items() if state is MemberState.IDLE)
    federation.cut(gone)
    federation.until(lambda f: not f.up and not f.down)
    assert federation.server.rounds == 0
    assert federation.server.waiting_for()
    before = federation.members[gone]._key.public
    federation.join(gone)
    federation.until(lambda f: f.told(m.Confirmed))
    assert {message.epoch for message in federation.told(m.Confirmed).values()} == {1}
    for member in federation.members.values():
        assert before not in member._roster.keys
        assert member._roster.epoch == 1
    federation.run()
    assert federation.outcome.ending == "converged"


def test_a_confirmation_that_comes_after_a_new_roster_was_sent_does_not_count():
    """It confirms the previous roster: no member would accept it."""
    federation = Weather("x", 3).until(PHASES["confirming"])
    late = next(name for name, c in federation.members.items() if c.state is SessionState.CONFIRMING)
    (old,) = [message for name, message in federation.up if name == late]
    federation.fault("line", next(name for name in MEMBERS if name != late))
    federation.up.sort(key=lambda entry: not isinstance(entry[1], m.Join))  # it is overtaken
    federation.until(lambda f: f.server.gathering.epoch == 1)
    assert federation.server.receive(late, old, 0.0) == []
    assert federation.server.state_of(late) is MemberState.INVITED
    federation.run()
    assert federation.outcome.ending == "converged"


@pytest.mark.parametrize("variant", ["x", "sa", "so"])
def test_a_server_that_is_killed_while_members_confirm_is_taken_up_by_all_of_them(variant):
    """In the first epoch it starts over; later it continues in a new epoch, and every member gets a full roster."""
    federation = Weather(variant, 7, rows=150).until(PHASES["confirmed"])
    federation.kill_server()
    assert federation.lives == 1
    for name in MEMBERS:
        federation.join(name)
    federation.until(lambda f: f.server.rounds > 4)
    federation.fault("line", "a")
    federation.until(lambda f: f.server.gathering.epoch == 1).until(PHASES["confirmed"])
    federation.kill_server()
    assert read_server_records(federation.journal, "journal").epoch == federation.server.gathering.epoch == 1
    for name in MEMBERS:
        federation.join(name)
    federation.until(lambda f: f.down)
    assert set(federation.told(m.Roster)) == {*MEMBERS}
    assert {roster.epoch for roster in federation.told(m.Roster).values()} == {2}
    federation.run()
    assert federation.outcome.ending == "converged"


def row(number, slot):
    return m.Ask(number, 0, [], [m.WantRows([slot], b"\x28")])


@pytest.mark.parametrize("differently", [False, True])
def test_a_server_that_asks_one_member_something_else_reads_noise(differently):
    """In that round and in all later ones: masks depend on all questions before."""
    federation = Weather("x", 4)
    members = federation.members
    federation.until(lambda f: all(member.position == 3 for member in f.members.values()))
    length = members["a"]._variant._members._state.table.fresh_slot

    def summed(asks):
        answers = [members[name].receive(ask) for name, ask in asks.items()]
        words = sum(np.frombuffer(answer.words.data, "<u8") for answer in answers)
        return Ring.for_sums_up_to(MOST >> 1).read(words, length=length)

    def alike(number):
        return {name: row(number, 1) for name in MEMBERS}

    if not differently:
        assert summed(alike(3))[1] == summed(alike(4))[1] > 0
        return
    for number, asks in ((3, alike(3) | {"a": row(3, 0)}), (4, alike(4)), (5, alike(5))):
        with pytest.raises(RingError, match="masks do not cancel"):
            summed(asks)
        assert all(member.position == number + 1 for member in members.values())
