"""After a fault a new epoch begins: what its roster has, and which epochs a server accepts."""

from __future__ import annotations

import pytest
from weather import MEMBERS, Weather, claims, restarted

from fedslim.errors import ProtocolError
from fedslim.protocol import messages as m
from fedslim.protocol.roster import MAX_EPOCHS, MAX_LOST_EPOCHS, apply_update
from fedslim.protocol.state import MemberState


@pytest.mark.parametrize("gone", [("b",), ("a", "c"), ("c",), MEMBERS])
def test_an_update_of_the_roster_has_the_new_keys_and_nothing_else(gone):
    federation = Weather("x", 2).until(lambda f: f.server.rounds > 3)
    before = federation.members["a"]._roster
    for name in gone:
        federation.cut(name)
    federation.until(lambda f: not f.up and not f.down)
    for name in gone:
        federation.join(name)
    federation.until(lambda f: f.server.gathering.epoch == 1)
    keys = {name: member._key.public for name, member in federation.members.items()}
    places = {name: before.members.index(name) for name in MEMBERS}
    rosters, updates = federation.told(m.Roster), federation.told(m.RosterUpdate)
    assert set(rosters) == {*gone}
    assert set(updates) == {*MEMBERS} - {*gone}
    for update in updates.values():
        seats = [m.Seat(places[name], keys[name], b"") for name in sorted(gone)]
        assert update == m.RosterUpdate(1, seats, federation.server.rounds - 1)
        assert apply_update(before, update) == rosters[gone[0]]
    for roster in rosters.values():
        assert (roster.epoch, dict(zip(roster.members, roster.keys, strict=True))) == (1, keys)
    federation.run()
    assert federation.outcome.ending == "converged"


def test_after_two_faults_an_update_says_what_is_new_since_the_last_one():
    federation = Weather("x", 2).until(lambda f: f.server.rounds > 3)
    for epoch, name in ((1, "b"), (2, "c")):
        federation.fault("line", name)
        federation.until(lambda f, epoch=epoch: f.server.gathering.epoch == epoch)
        places = {seat.place for seat in federation.told(m.RosterUpdate)["a"].seats}
        assert places == {MEMBERS.index(name)}
        federation.until(lambda f: not f.told((m.Roster, m.RosterUpdate)))
    rosters = [member._roster for member in federation.members.values()]
    assert rosters[0] == rosters[1] == rosters[2]
    assert len({member._digest for member in federation.members.values()}) == 1
    federation.run()
    assert federation.outcome.ending == "converged"


@pytest.mark.parametrize("epoch", [65_535, 1000, 3 + MAX_LOST_EPOCHS + 2])
def test_a_restarted_server_refuses_a_member_from_far_ahead(epoch):
    """The number of epochs is limited: one member could use them up for all."""
    federation = restarted()
    with pytest.raises(ProtocolError, match=f"member 'b' comes back from epoch {epoch - 1}, but there was none after"):
        federation.server.receive("b", claims(federation, "b", epoch=epoch), 0.0)
    assert federation.server.state_of("b") is MemberState.AWAY
    for name in MEMBERS:
        federation.join(name)
    federation.run()
    assert federation.outcome.ending == "converged"


@pytest.mark.parametrize("epoch", [4, 5, 3 + MAX_LOST_EPOCHS + 1])
def test_a_restarted_server_takes_its_own_epoch_and_those_that_its_disk_may_have_lost(epoch):
    """The next roster has an epoch that no member has seen."""
    federation = restarted()
    assert federation.members["b"].join(bytes(32)).epoch == 4
    federation.act(federation.server.receive("b", claims(federation, "b", epoch=epoch), 0.0))
    for name in ("a", "c"):
        federation.join(name)
    federation.until(lambda f: f.told(m.Roster))
    assert {roster.epoch for roster in federation.told(m.Roster).values()} == {epoch}
    federation.run()
    assert federation.outcome.ending == "converged"


@pytest.mark.parametrize("epoch", [2, 17, 65_535])
def test_a_server_that_was_not_restarted_knows_its_epochs(epoch):
    federation = Weather("x", 6, rows=150).until(lambda f: f.server.rounds > 3)
    federation.cut("b")
    with pytest.raises(
        ProtocolError, match=f"member 'b' comes back from epoch {epoch - 1}, but there was none after 0"
    ):
        federation.server.receive("b", claims(federation, "b", epoch=epoch), 0.0)
    federation.join("b")
    federation.run()
    assert federation.outcome.ending == "converged"


def test_epochs_come_to_an_end():
    federation = Weather("x", 6, rows=150).until(lambda f: f.server.rounds > 3)
    federation.cut("b")
    federation.until(lambda f: not f.up and not f.down)
    federation.server.gathering.epoch = MAX_EPOCHS - 1
    federation.join("b")
    with pytest.raises(pytest.fail.Exception, match="member 'b' came back once too often"):
        federation.run()
    assert federation.server.over
