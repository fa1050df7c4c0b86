"""Records are lost, and all members go back: they answer the same questions again, and no others."""

from __future__ import annotations

import msgspec
import pytest
from weather import MEMBERS, Weather, claims, restarted

from fedslim.errors import ProtocolError
from fedslim.protocol import messages as m
from fedslim.protocol.member import MemberSession
from fedslim.protocol.positions import MAX_LOST_ROUNDS, MAX_RETREATS
from fedslim.protocol.state import SessionState


def test_a_member_without_its_journal_cannot_go_on_where_the_server_keeps_none():
    federation = Weather("x", 2)
    while federation.server.rounds < 10:
        federation.step()
    federation.cut("b")
    federation.server.positions.history = None
    federation.members["b"] = MemberSession("b", federation.inputs["b"])
    with pytest.raises(ProtocolError, match="'b' comes back from round 0, but was in round"):
        federation.server.receive("b", federation.members["b"].join(bytes(32)), 0.0)


def lose_everything(federation, name):
    """A member is killed, and its journal is lost with its disk."""
    federation.heard[name] = []
    federation.fault("kill", name)


@pytest.mark.parametrize("variant", ["x", "sa", "so"])
def test_a_member_without_its_journal_makes_everybody_begin_again(calm, variant):
    federation = Weather(variant, 2).until(lambda f: f.server.rounds > 10)
    lose_everything(federation, "b")
    federation.until(lambda f: f.server.gathering.epoch == 1)
    assert federation.server.rounds == 1
    federation.run()
    assert federation.outcome == calm[variant]


def test_a_member_that_loses_its_records_again_and_again_ends_the_run():
    federation = Weather("x", 2)
    for epoch in range(1, MAX_RETREATS + 1):
        federation.until(lambda f: f.server.rounds > 2)
        lose_everything(federation, "b")
        federation.until(lambda f, epoch=epoch: f.server.gathering.epoch == epoch)
    federation.until(lambda f: f.server.rounds > 2)
    lose_everything(federation, "b")
    with pytest.raises(pytest.fail.Exception, match="members lost records 17 times"):
        federation.run()
    assert federation.server.over


def test_a_member_that_goes_back_answers_what_it_had_answered_and_nothing_else():
    """Otherwise a server could ask two questions where the search asks one, any number of times."""
    federation = Weather("x", 2).until(lambda f: f.server.rounds > 10)
    federation.lose_records("server", 6)
    federation.fault("server", "a")
    federation.until(lambda f: "a" in f.told(m.Ask) and f.members["a"].state is SessionState.RUNNING_X)
    member, question = federation.members["a"], federation.told(m.Ask)["a"]
    assert member.position == question.round < max(member._asked)
    row = next(asked for number, asked in member._asked.items() if number > question.round and asked != question)
    with pytest.raises(ProtocolError, match=f"asked another question in round {question.round}"):
        member.receive(msgspec.structs.replace(row, round=question.round, attempt=question.attempt))
    federation.run()
    assert federation.outcome.ending == "converged"


def gone_back(federation, number):
    """A member that has confirmed the return to this round, and has the signatures of all members."""
    member = federation.members["a"]
    epoch = member._roster.epoch + 1
    confirm = member.receive(m.RosterUpdate(epoch, [], number))
    member.receive(m.Confirmed(epoch, [confirm.signature] * 3))
    return member, epoch


def again(question, epoch, **fields):
    return msgspec.structs.replace(question, attempt=epoch, **fields)


@pytest.mark.parametrize("back_to", [0, 4])
def test_a_server_cannot_skip_what_was_answered_before(back_to):
    """Under an unused number it would get another question answered, in an earlier state."""
    federation = Weather("x", 2).until(lambda f: f.members["a"].position > 10)
    member, epoch = gone_back(federation, back_to)
    asked = dict(member._asked)
    last = max(asked)
    for number in (last + 1, last, back_to + 1):
        with pytest.raises(ProtocolError, match=f"asked another question in round {number}"):
            member.receive(again(asked[back_to + 1], epoch, round=number))
    for number in range(back_to, last + 1):
        assert member.receive(again(asked[number], epoch)).round == number
    assert member._asked == asked


def test_what_is_answered_again_does_not_begin_a_new_count_of_rounds():
    federation = Weather("x", 2, max_rounds=6).until(lambda f: f.members["a"].position > 5)
    for _ in range(3):
        member, epoch = gone_back(federation, 2)
        for number, question in list(member._asked.items())[2:]:
            assert member.receive(again(question, epoch)).round == number
    row = next(q for q in member._asked.values() if isinstance(q.wants[0], m.WantRows))
    while len(member._asked) < 6 + m.ROUNDS_TO_FINISH:
        member.receive(again(row, epoch, round=member.position, moves=[]))
    with pytest.raises(ProtocolError, match="6 were agreed on"):
        member.receive(again(row, epoch, round=member.position, moves=[]))


@pytest.mark.parametrize("change", [{"run": b"r" * 16}, {"epoch": 1}, {"ids": bytes(range(16))}])
def test_a_member_at_the_first_round_again_is_in_the_run_it_was_in(change):
    """It has answered before, so it accepts no other run, earlier epoch or other vocabulary."""
    federation = Weather("x", 2).until(lambda f: f.members["a"].position > 5)
    member, epoch = gone_back(federation, 0)
    assert (member.position, member.has_answered) == (0, True)
    other = msgspec.structs.replace(member._roster, **{"epoch": epoch + 1} | change)
    with pytest.raises(ProtocolError, match="does not belong to the run"):
        member.receive(other)
    join = member.join(bytes(32))
    assert (join.run, join.epoch, join.position) == (member.run, epoch + 1, 0)


def test_an_earlier_question_does_not_get_the_last_answer():
    federation = Weather("x", 2).until(lambda f: f.members["a"].position > 5)
    member, epoch = gone_back(federation, federation.members["a"].position - 1)
    with pytest.raises(ProtocolError, match="asked another question in round 0"):
        member.receive(again(member._asked[0], epoch))


def test_how_far_a_member_says_it_was_does_not_keep_a_run_from_stopping_for_ever():
    """A server that was killed accepts it once, and only up to the limit of the run."""
    federation = restarted()
    far = federation.server.rounds + MAX_LOST_ROUNDS
    federation.act(federation.server.receive("b", claims(federation, "b", position=far), 0.0))
    federation.cut("b")
    for name in MEMBERS:
        federation.join(name)
    federation.until(lambda f: f.told(m.Roster))
    federation.cut("b")
    with pytest.raises(ProtocolError, match="'b' comes back from round"):
        federation.server.receive("b", claims(federation, "b", position=far + 1), 0.0)
    limited = Weather("x", 6, rows=150, max_rounds=40).until(lambda f: f.server.rounds > 8)
    limited.kill_server()
    with pytest.raises(ProtocolError, match="'b' comes back from round 57"):
        limited.server.receive("b", claims(limited, "b", position=57), 0.0)


@pytest.mark.parametrize("when", ["before it", "while everybody goes back"])
def test_a_run_that_is_told_to_stop_while_it_goes_back_stops_where_it_had_been(when):
    """Members answer the same questions again, so the search cannot stop among them."""
    federation = Weather("x", 2).until(lambda f: f.server.rounds > 14)
    if when == "before it":
        federation.server.stop()
        federation.until(lambda f: f.rounds and f.rounds[-1].ending is not None)
    reached = max(member.position for member in federation.members.values())
    federation.fault("member loses power", "c")
    federation.until(lambda f: f.server.gathering.epoch == 1)
    assert federation.server.rounds < reached
    federation.server.stop()
    federation.run()
    assert federation.outcome.ending == "interrupted"
    assert federation.server.rounds >= reached


@pytest.mark.parametrize(("lost", "decided"), [("member", True), ("member", False), ("server", False)])
def test_a_server_that_is_killed_on_the_way_back_stops_where_the_run_had_been(lost, decided):
    """Its journal has the members' positions and the decisions; otherwise they would refuse its next question."""
    federation = Weather("x", 2).until(lambda f: f.server.rounds > 14)
    if decided:
        federation.server.stop()
        federation.until(lambda f: f.rounds[-1].ending is not None)
    reached = max(member.position for member in federation.members.values())
    federation.lose_records("server" if lost == "server" else "c", 10)
    federation.fault("server" if lost == "server" else "kill", "c")
    federation.until(lambda f: f.server.gathering.epoch == 1 and f.told(m.Ask))
    assert federation.server.rounds < reached
    federation.fault("server", "c")
    if not decided:
        federation.server.stop()
    federation.run()
    assert federation.outcome.ending == "interrupted"
    assert federation.server.rounds >= reached


def test_a_member_that_was_away_when_everybody_went_back_is_taken_back():
    """Its connection broke before it received the roster that told it to go back."""
    federation = Weather("x", 2).until(lambda f: f.server.rounds > 14)
    federation.lose_records("c", 10)
    federation.fault("kill", "c")
    federation.until(lambda f: "b" in f.told((m.Roster, m.RosterUpdate)))
    assert federation.server.rounds < federation.members["b"].position
    federation.fault("line", "b")
    federation.run()
    assert federation.outcome.ending == "converged"


def test_a_server_that_was_not_killed_knows_its_rounds():
    federation = Weather("x", 6, rows=150).until(lambda f: f.server.rounds > 3)
    federation.cut("b")
    far = federation.server.rounds + 1
    with pytest.raises(ProtocolError, match=f"'b' comes back from round {far}, but was in round"):
        federation.server.receive("b", claims(federation, "b", position=far), 0.0)


def test_a_member_of_another_run_is_refused():
    federation = Weather("x", 2)
    join = federation.members["a"].join(bytes(32))
    stranger = m.Join(*(getattr(join, f) if f != "run" else bytes(16) for f in join.__struct_fields__))
    with pytest.raises(ProtocolError, match="but this is run"):
        federation.new_server().receive("a", stranger, 0.0)


def test_a_question_that_comes_again_must_be_the_same():
    federation = Weather("x", 2)
    while federation.members["a"].position < 4:
        federation.step()
    last = federation.members["a"]._last.question
    federation.fault("line", "b")
    member = federation.members["a"]
    federation.until(lambda _: member._roster.epoch == 1 and member.state is SessionState.RUNNING_X)
    other = m.Ask(last.round, 1, [], [m.WantRows([0], b"\x29")])
    with pytest.raises(ProtocolError, match="asked another question in round"):
        member.receive(other)
    federation.run()
    assert federation.outcome.ending == "converged"


def test_a_roster_of_an_earlier_epoch_is_refused():
    federation = Weather("x", 2)
    while federation.server.rounds < 3:
        federation.step()
    member = federation.members["a"]
    roster = member._roster
    for message in (roster, m.RosterUpdate(0, [], 0)):
        with pytest.raises(ProtocolError, match="does not belong to the run"):
            member.receive(message)
    federation.fault("line", "b")
    federation.until(lambda _: member._roster.epoch == 1)
    for message in (m.RosterUpdate(1, [], 0), m.RosterUpdate(0, [], 0), member._roster, roster):
        with pytest.raises(ProtocolError, match="does not belong to the run"):
            member.receive(message)


def test_who_was_away_at_the_end_is_told_when_it_comes_back():
    federation = Weather("x", 3)
    while federation.outcome is None:
        federation.step()
    federation.down = [entry for entry in federation.down if entry[0] != "c"]
    federation.join("c")
    while federation.up or federation.down:
        federation.step()
    assert federation.members["c"].received.ending == "converged"
    assert federation.members["c"].received.table == federation.members["a"].received.table
