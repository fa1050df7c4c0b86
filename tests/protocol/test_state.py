"""Who may send what, and when: every pair of a state and a message."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from fedslim.errors import ParameterError, ProtocolError
from fedslim.mdl import mine
from fedslim.protocol import messages as m, state as legality
from fedslim.protocol.member import MemberInput, MemberSession
from fedslim.protocol.server import MAX_LATE
from fedslim.protocol.state import AT_MEMBER, AT_SERVER, AWAITING, MemberState, SessionState
from wire import FIGURE, SECRET, VARIANTS, Line, databases, table_of

EMPTY = m.Vector.of(np.zeros(0, np.int64))
SETTINGS = m.Settings("x", True, 1000)

FROM_CLIENT = {
    m.Join: m.Join(m.PROTOCOL, "0", bytes(32), bytes(8), b"", b"", 0, [], b"", b"", b"", 0, 0),
    m.Confirm: m.Confirm(0, bytes(32)),
    m.Masked: m.Masked(0, 0, EMPTY),
    m.Ready: m.Ready(0, False, b""),
    m.Usages: m.Usages(0, EMPTY),
    m.Candidates: m.Candidates(0, EMPTY, EMPTY, EMPTY),
    m.Evaluated: m.Evaluated(0, EMPTY, EMPTY, EMPTY),
    m.SupportCounts: m.SupportCounts(0, EMPTY, EMPTY),
    m.Structure: m.Structure(0, EMPTY, EMPTY),
    m.Labels: m.Labels(0, 0, b""),
    m.Heard: m.Heard(),
    m.Abort: m.Abort("I cannot go on"),
}
FROM_SERVER = {
    m.Roster: m.Roster(bytes(16), SETTINGS, ["a"], [bytes(32)], b"", 0, [b""], 0),
    m.RosterUpdate: m.RosterUpdate(1, [m.Seat(0, bytes(32), b"")], 0),
    m.Confirmed: m.Confirmed(0, [bytes(32)]),
    m.Ask: m.Ask(0, 0, [], [m.WantSupports()]),
    m.AskPreparation: m.AskPreparation(0, 0, EMPTY, m.WantValues()),
    m.AskUsages: m.AskUsages(0),
    m.AskCandidates: m.AskCandidates(0, None),
    m.Evaluate: m.Evaluate(0, [(0, 1)]),
    m.AskSupports: m.AskSupports(0, None),
    m.AskIndexedUsages: m.AskIndexedUsages(0, 0),
    m.AskStructure: m.AskStructure(0, None, EMPTY),
    m.AskIndexed: m.AskIndexed(0, 0, EMPTY, EMPTY, EMPTY, 4),
    m.AskEvaluation: m.AskEvaluation(0, 0, m.Entered(5, [(0, 1)], 1), 4),
    m.AskIndexedSupports: m.AskIndexedSupports(0, 0, None, EMPTY, 4),
    m.AskLabels: m.AskLabels(0, 0, m.PackedTable([], EMPTY, EMPTY, 1, 1, 0)),
    m.Finish: m.Finish("converged", None, (), []),
    m.Abort: m.Abort("that was it"),
}
STATE_OF_VARIANT = {"x": SessionState.RUNNING_X, "sa": SessionState.RUNNING_SA, "so": SessionState.RUNNING_SO}


def test_there_is_an_instance_of_every_message():
    assert set(FROM_CLIENT) == set(get_args(m.FromMember))
    assert set(FROM_SERVER) == set(get_args(m.FromServer))


# -- the tables themselves -------------------------------------------------------------------------------------------

ANSWERS = {m.Masked, m.Ready, m.Usages, m.Candidates, m.Evaluated, m.SupportCounts, m.Structure, m.Labels}
LEGAL_AT_SERVER = {
    MemberState.EXPECTED: {m.Join, m.Heard},  # of the end of the preparation
    MemberState.SEATED: {m.Confirm, *ANSWERS},  # too late, in a run that is being resumed
    MemberState.INVITED: {m.Confirm, *ANSWERS},
    MemberState.IDLE: set(),
    MemberState.ASKED_MASKED: {m.Masked},
    MemberState.ASKED_READY: {m.Ready},
    MemberState.ASKED_USAGES: {m.Usages},
    MemberState.ASKED_CANDIDATES: {m.Candidates},
    MemberState.ASKED_EVALUATED: {m.Evaluated},
    MemberState.ASKED_SUPPORTS: {m.SupportCounts},
    MemberState.ASKED_STRUCTURE: {m.Structure},
    MemberState.ASKED_LABELS: {m.Labels},
    MemberState.AWAY: {m.Join},
    MemberState.FINISHED: {m.Confirm, *ANSWERS, m.Heard},  # Heard, or messages on their way when the run ended
}
ROSTERS = {m.Roster, m.RosterUpdate}  # also later: a member has come back
LEGAL_AT_CLIENT = {
    SessionState.JOINING: {m.Roster, m.Finish},
    SessionState.CONFIRMING: {m.Confirmed, *ROSTERS},
    SessionState.PREPARING: {m.AskPreparation, m.Finish, *ROSTERS},
    SessionState.RUNNING_X: {m.Ask, m.AskLabels, m.Finish, *ROSTERS},
    SessionState.RUNNING_SA: {
        *(m.AskIndexedUsages, m.AskStructure, m.AskIndexed, m.AskEvaluation, m.AskIndexedSupports),
        *(m.AskLabels, m.Finish, *ROSTERS),
    },
    SessionState.RUNNING_SO: {m.AskUsages, m.AskCandidates, m.Evaluate, m.AskSupports, m.Finish, *ROSTERS},
    SessionState.FINISHED: None,
}


@pytest.mark.parametrize("state", MemberState)
@pytest.mark.parametrize("kind", FROM_CLIENT)
def test_the_server_takes_what_the_table_lists_and_nothing_else(state, kind):
    legal = LEGAL_AT_SERVER[state]
    if kind in legal | {m.Abort}:
        after = legality.at_server(state, FROM_CLIENT[kind], "hospital")
        late = (
            state in {MemberState.SEATED, MemberState.FINISHED}
            or kind is m.Heard
            or (state, kind) in {(MemberState.INVITED, answer) for answer in ANSWERS}
        )
        waited = MemberState.SEATED if kind is m.Join else state if late else MemberState.IDLE
        assert after is (MemberState.FINISHED if kind is m.Abort else waited)
        return
    with pytest.raises(ProtocolError) as refused:
        legality.at_server(state, FROM_CLIENT[kind], "hospital")
    assert str(refused.value) == (
        f"member 'hospital' sent {kind.__name__} while the server was {state.value}; it is refused"
    )


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("state", SessionState)
@pytest.mark.parametrize("kind", FROM_SERVER)
def test_a_member_takes_what_the_table_lists_and_nothing_else(state, kind, variant):
    legal = LEGAL_AT_CLIENT[state]
    if legal is not None and kind in legal | {m.Abort}:
        after = legality.at_member(state, FROM_SERVER[kind], variant)
        if kind in {m.Abort, m.Finish}:
            assert after is SessionState.FINISHED
        elif kind in ROSTERS:
            assert after is SessionState.CONFIRMING  # nothing is answered before all have confirmed it
        elif kind is m.Confirmed:
            assert after is STATE_OF_VARIANT[variant]
        else:
            assert after is state
        return
    with pytest.raises(ProtocolError) as refused:
        legality.at_member(state, FROM_SERVER[kind], variant)
    assert str(refused.value) == (f"the server sent {kind.__name__} while this member was {state.value}; it is refused")


def test_every_reply_is_waited_for_in_a_state_of_its_own():
    assert set(AWAITING) == set(FROM_CLIENT) - {m.Join, m.Confirm, m.Heard, m.Abort}
    assert len(set(AWAITING.values())) == len(AWAITING)
    assert all(kind in FROM_CLIENT for _, kind in AT_SERVER)
    assert all(kind in FROM_SERVER for _, kind in AT_MEMBER)


def test_no_question_is_legal_before_the_roster_was_confirmed():
    questions = {kind for state in STATE_OF_VARIANT.values() for kind in LEGAL_AT_CLIENT[state]} - ROSTERS - {m.Finish}
    for state in (SessionState.JOINING, SessionState.CONFIRMING):
        assert not questions & {kind for own, kind in AT_MEMBER if own is state}


def test_an_unknown_variant_is_told_with_those_that_are_known():
    """No run gets that far: a member that agreed to it cannot accept the roster."""
    own = MemberInput(databases(FIGURE)["c1"], ("c1",), m.Settings("y", True, 1000), SECRET)
    member = MemberSession("c1", own)
    key = member.join(bytes(range(32))).key
    ids = b"".join(sorted(SECRET.ids_of("abcde")))
    with pytest.raises(ParameterError, match="there is no variant 'y'; choose one of x, sa, so"):
        member.receive(m.Roster(bytes(16), own.settings, ["c1"], [key], ids, 0, [b""], 0))
    assert member.state is SessionState.JOINING


# -- whole sessions: whatever is refused leaves no trace -------------------------------------------------------------


def expected(inputs, variant):
    line = Line(inputs, variant).begin()
    return table_of(line.run(), inputs)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_run_in_which_everything_illegal_is_tried_at_every_step_ends_with_the_right_table(variant):
    """Before every message, try every illegal message of each kind from and to each member."""
    inputs = databases(FIGURE)
    line = Line(inputs, variant).begin()
    seen_at_client = set()
    while line.queue:
        for name in inputs:
            try_all_at_server(line.server, name)
            seen_at_client |= try_all_at_member(line.members[name])
        line.step()
    table = table_of(line.ended, inputs)
    assert table == expected(inputs, variant)
    if variant == "x":
        assert table == mine(databases({"all": [*FIGURE["c1"], *FIGURE["c2"]]})["all"]).table
    # Every message of this variant was tried, and after the end nothing is accepted.
    for name, member in line.members.items():
        assert (member.state, line.server.state_of(name)) == (SessionState.FINISHED, MemberState.FINISHED)
        for message in FROM_SERVER.values():
            with pytest.raises(ProtocolError, match="while this member was finished"):
                member.receive(message)
        for kind, message in FROM_CLIENT.items():
            if kind is m.Join:
                # It may have been away, so it gets the end of the run.
                (send,) = line.server.receive(name, message, 0.0)
                assert isinstance(send.message, m.Finish)
                continue
            # Heard, or a message that was on its way when the run ended; only a few are accepted.
            before = vars_of(line.server)
            line.server.receive(name, FROM_CLIENT[m.Join], 0.0)
            for _ in range(MAX_LATE):
                assert line.server.receive(name, message, 0.0) == []
            with pytest.raises(ProtocolError, match=f"sent {kind.__name__} long after the end; it is refused"):
                line.server.receive(name, message, 0.0)
            assert vars_of(line.server) == before
    for passed in (SessionState.JOINING, SessionState.CONFIRMING, STATE_OF_VARIANT[variant]):
        assert {kind for state, kind in seen_at_client if state is passed} == set(FROM_SERVER) - {
            kind for state, kind in AT_MEMBER if state is passed
        }


def try_all_at_server(server, name):
    state = server.state_of(name)
    for kind, message in FROM_CLIENT.items():
        if (state, kind) not in AT_SERVER:
            before = vars_of(server)
            with pytest.raises(ProtocolError, match=f"member '{name}' sent {kind.__name__} while"):
                server.receive(name, message, 0.0)
            assert vars_of(server) == before


def try_all_at_member(member):
    tried = set()
    state = member.state
    for kind, message in FROM_SERVER.items():
        if (state, kind) not in AT_MEMBER:
            with pytest.raises(ProtocolError, match=f"sent {kind.__name__} while this member was {state.value}"):
                member.receive(message)
            assert member.state is state
            assert member.received is None
            tried.add((state, kind))
    return tried


def vars_of(server):
    return (
        dict(server._states),
        dict(server.gathering._joined),
        dict(server.gathering._signatures),
        server.gathering.epoch,
        dict(server._replies),
        set(server._waiting),
        server.rounds,
        server.outcome,
        server._round,
    )


@pytest.mark.parametrize("kind", FROM_CLIENT)
def test_whoever_is_no_member_is_refused(kind):
    line = Line(databases(FIGURE), "x").begin()
    with pytest.raises(ProtocolError, match=f"'mallory' is not a member of this federation; its {kind.__name__} is"):
        line.server.receive("mallory", FROM_CLIENT[kind], 0.0)
    assert line.run() is not None


@pytest.mark.parametrize("variant", VARIANTS)
def test_replies_to_other_rounds_are_refused_and_do_no_harm(variant):
    inputs = databases(FIGURE)
    line = Line(inputs, variant).begin()
    kept = []
    while line.queue:
        name, message = line.queue[0]
        number = getattr(message, "round", None)
        if number is not None:
            for other in (number - 1, number + 1, (1 << 47) - 1):
                fields = [getattr(message, field) for field in message.__struct_fields__]
                with pytest.raises(ProtocolError, match=rf"answered round {other} during round {number}"):
                    line.server.receive(name, type(message)(other, *fields[1:]), 0.0)
            for old in kept:
                if old.round != number and line.server.state_of(name) is AWAITING[type(old)]:
                    with pytest.raises(ProtocolError, match="it is refused"):
                        line.server.receive(name, old, 0.0)
            kept = [*kept[-20:], message]
        line.step()
    assert table_of(line.ended, inputs) == expected(inputs, variant)


@pytest.mark.parametrize("variant", VARIANTS)
def test_questions_that_come_again_or_too_late_are_refused_before_anything_is_done(variant):
    """Replays of every question so far, after every step: each is about an earlier table."""
    inputs = databases(FIGURE)
    line = Line(inputs, variant).begin()
    while line.queue:
        line.step()
        for name, message in line.sent:
            member = line.members[name]
            if member.state is SessionState.FINISHED or not hasattr(message, "round"):
                continue
            with pytest.raises(ProtocolError, match=rf"sent {type(message).__name__} of round {message.round} while"):
                member.receive(message)
    assert table_of(line.ended, inputs) == expected(inputs, variant)


@pytest.mark.parametrize("variant", VARIANTS)
def test_members_may_answer_in_any_order(variant):
    inputs = databases(FIGURE)
    line = Line(inputs, variant).begin()
    while line.queue:
        line.queue.reverse()
        line.step()
    assert table_of(line.ended, inputs) == expected(inputs, variant)


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_answer_counts_once(variant):
    inputs = databases(FIGURE)
    line = Line(inputs, variant).begin()
    while line.queue:
        name, message = line.queue[0]
        line.step()
        if line.server.over:
            assert line.server.receive(name, message, 0.0) == []
            break
        with pytest.raises(ProtocolError):
            line.server.receive(name, message, 0.0)
    assert table_of(line.ended, inputs) == expected(inputs, variant)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_member_that_gives_up_at_any_moment_ends_the_run_for_all(variant):
    inputs = databases(FIGURE)
    steps = 0
    while True:
        line = Line(inputs, variant).begin()
        for _ in range(steps):
            line.step()
        if not line.queue:
            break
        line.take(line.server.receive("c1", m.Abort("no more"), 0.0))
        assert line.server.over
        assert (line.failed.member, line.failed.reason) == ("c1", "member 'c1' gave up: no more")
        joined = any(name == "c2" for name, _ in line.said)
        told = line.members["c2"].received
        assert (told.ending if joined else None) == (
            "ended by the server: member 'c1' gave up: no more" if joined else None
        )
        steps += 1
    assert steps > 6


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_member_that_is_lost_ends_the_run_once(variant):
    line = Line(databases(FIGURE), variant).begin()
    for _ in range(6):
        line.step()
    assert line.server.waiting_for()
    line.take(line.server.lose("c2", "its connection broke"))
    assert (line.failed.member, line.failed.reason) == ("c2", "its connection broke")
    assert line.server.lose("c2", "again") == []
    assert line.server.waiting_for() == ()
