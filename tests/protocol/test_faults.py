"""Lines break, members and the server are killed and brought back: the run ends as if nothing had happened."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest

from fedslim.data import load
from fedslim.data.partition import iid
from fedslim.data.vocabulary import ItemSecret, Vocabulary
from fedslim.errors import ProtocolError, RingError
from fedslim.network.journal import Journal
from fedslim.network.journal_records import (
    back_record,
    endings_in,
    epoch_record,
    furthest_in,
    last_epoch,
    messages_in,
    round_record,
    rounds_of,
    told_record,
)
from fedslim.protocol import messages as m
from fedslim.protocol.events import Began, Ended, Failed, NewEpoch, RoundEnded, Send, WentBack
from fedslim.protocol.gathering import MAX_EPOCHS, MAX_LOST_EPOCHS
from fedslim.protocol.member import MemberInput, MemberSession
from fedslim.protocol.positions import MAX_LOST_ROUNDS, MAX_RETREATS
from fedslim.protocol.roster import apply_update
from fedslim.protocol.server import ServerSession
from fedslim.protocol.state import MemberState, SessionState
from fedslim.secagg import Ring

MEMBERS = ("a", "b", "c")
SECRET = ItemSecret.from_random(bytes(32))
MOST = 1 << 40


class Weather:
    """A federation on lines of its own, on which messages of a member stay in order and all else may happen."""

    def __init__(self, variant, seed=0, rows=600, *, max_time=None, **settled):
        self.rng = random.Random(seed)
        database = load("encounters").take(range(rows))
        self.vocabulary = Vocabulary.of(database.vocabulary, SECRET)
        parts = iid(database, len(MEMBERS), seed=1).parts
        self.settings = m.Settings(variant, masked=variant != "so", max_transactions=MOST, **settled)
        self.inputs = {
            name: MemberInput(part, MEMBERS, self.settings, SECRET, self.vocabulary)
            for name, part in zip(MEMBERS, parts, strict=True)
        }
        self.max_time, self.now = max_time, 0.0
        self.lives = 0  # of servers that had to begin anew
        self.server = self.new_server()
        self.members = {name: MemberSession(name, own) for name, own in self.inputs.items()}
        self.journal = None  # the server's, from the moment that the run has begun
        self.heard = {name: [] for name in MEMBERS}  # the members' journals
        self.sent = []  # every masked answer that ever left a member
        self.up, self.down = [], []
        self.outcome = None
        for name in MEMBERS:
            self.join(name)

    def new_server(self):
        run = bytes([self.lives]) * 16
        return ServerSession(MEMBERS, self.settings, run=run, max_time=self.max_time, history=self.history)

    def history(self):
        return rounds_of(self.journal or (), "journal")

    def join(self, name):
        self.up.append((name, self.members[name].join(self.rng.randbytes(32))))

    def cut(self, name):
        """The line to a member breaks; what was on it is lost."""
        self.server.disconnect(name)
        self.up = [entry for entry in self.up if entry[0] != name]
        self.down = [entry for entry in self.down if entry[0] != name]

    def fault(self, what, name):
        """A line breaks; a member is killed, or ends by itself; the server is killed."""
        if what.endswith("loses power"):
            self.lose_records("server" if what.startswith("server") else name, self.rng.randrange(1, 12))
            what = "server" if what.startswith("server") else "kill"
        if what == "server":
            self.kill_server()
            for each in MEMBERS:
                self.join(each)
            return
        self.cut(name)
        if what == "quit" and not self.members[name].position:
            self.heard[name] = []  # whoever has not answered anything has nothing to go on with
        if what in {"kill", "quit"}:
            self.members[name] = MemberSession(name, self.inputs[name])
            self.members[name].replay(messages_in(self.heard[name], "journal"))
        self.join(name)

    def lose_records(self, who, count):
        """A machine loses power: its last records were not on the disk."""
        if who == "server":
            if self.journal:
                del self.journal[max(0, len(self.journal) - count) :]
        else:
            del self.heard[who][max(0, len(self.heard[who]) - count) :]

    def kill_server(self):
        self.up, self.down = [], []
        if self.journal is None:
            self.lives += 1  # there is nothing to go on with: this is another run
            self.server = self.new_server()
            return
        self.server = self.new_server()
        records, name = self.journal, "journal"
        known = {"furthest": furthest_in(records, name), "endings": endings_in(records, name)}
        rounds, epoch = rounds_of(records, name), last_epoch(records, name)
        self.server.replay(rounds, len(self.vocabulary), self.now, epoch=epoch, **known)

    def step(self):
        queue = self.down if self.down and (not self.up or self.rng.random() < 0.5) else self.up
        name = self.rng.choice([entry[0] for entry in queue])
        at = next(k for k, entry in enumerate(queue) if entry[0] == name)
        _, message = queue.pop(at)
        if queue is self.down:
            self.hear(name, message)
        else:
            self.act(self.server.receive(name, message, self.now))

    def hear(self, name, message):
        member = self.members[name]
        if member.received is not None:
            return  # it has hung up; whoever joins while the run ends is told twice
        coming_together = isinstance(message, (m.Roster, m.RosterUpdate, m.Confirmed))
        if coming_together or getattr(message, "round", -1) >= member.position:
            self.heard[name].append(told_record(message))
        reply = member.receive(message)
        if isinstance(reply, m.Masked):
            self.sent.append((name, reply))
        if reply is not None:
            self.up.append((name, reply))

    def act(self, outputs):
        for output in outputs:
            match output:
                case Send(to, message):
                    self.down += [(name, message) for name in to]
                case Began():
                    assert self.journal is None
                    self.journal = []
                case NewEpoch(number):
                    if self.journal is not None:
                        self.journal.append(epoch_record(number, self.server.positions.furthest))
                case WentBack(number, _):
                    self.journal.append(back_record(number))
                case RoundEnded(number, _, replies, ending):
                    self.journal.append(round_record(number, 0.0, replies, ending))
                case Ended(outcome):
                    self.outcome = outcome
                case Failed(reason, _):
                    pytest.fail(reason)

    def until(self, there):
        while not there(self):
            self.step()
        return self

    @property
    def rounds(self):
        """The rounds in the server's journal."""
        return self.history()

    def run(self, often=0.0, faults=("line", "kill", "quit", "server")):
        kinds, faults = faults, 0
        while self.outcome is None or self.down:
            if self.outcome is None and self.rng.random() < often:
                self.fault(self.rng.choice(kinds), self.rng.choice(MEMBERS))
                faults += 1
            else:
                self.step()
        return faults

    def told(self, kind):
        """Messages of a kind that are on their way to members, by name."""
        return {name: message for name, message in self.down if isinstance(message, kind)}


@pytest.fixture(scope="module")
def calm():
    tables = {}
    for variant in ("x", "sa", "so"):
        federation = Weather(variant)
        federation.run()
        tables[variant] = federation.outcome
    return tables


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("variant", ["x", "sa", "so"])
def test_a_run_with_faults_ends_like_one_without(calm, variant, seed):
    federation = Weather(variant, seed)
    assert federation.run(often=0.01) >= 3
    assert federation.outcome == calm[variant]
    assert federation.server.rounds == len(federation.rounds)
    assert {member.received.ending for member in federation.members.values()} == {"converged"}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("variant", ["x", "sa", "so"])
def test_a_run_whose_machines_lose_power_ends_like_one_without(calm, variant, seed):
    """Records that were not on the disk yet are lost; everybody goes back, and answers the same again."""
    federation = Weather(variant, seed)
    assert (
        federation.run(often=0.01, faults=("line", "kill", "server", "server loses power", "member loses power")) >= 3
    )
    assert federation.outcome == calm[variant]
    assert federation.server.rounds == len(federation.rounds)
    assert {member.received.ending for member in federation.members.values()} == {"converged"}


@pytest.mark.parametrize("variant", ["x", "sa"])
def test_no_mask_comes_twice_even_where_rounds_are_repeated(variant):
    """The same counts under two masks differ; and no masked answer of a member is ever sent again."""
    federation = Weather(variant, 5)
    assert federation.run(often=0.02) >= 5
    repeated = len(federation.sent) - len({(name, reply.round) for name, reply in federation.sent})
    assert repeated > 0
    seen = [(name, reply.words.data) for name, reply in federation.sent if reply.words.length]
    assert len(set(seen)) == len(seen)


# -- a fault in every phase ------------------------------------------------------------------------------------------


def states(federation):
    return set(federation.server._states.values())


PHASES = {
    "joining": lambda f: MemberState.SEATED in states(f),
    "invited": lambda f: MemberState.INVITED in states(f),
    # Somebody has the roster, and its confirmation is not there yet.
    "confirming": lambda f: any(c.state is SessionState.CONFIRMING for c in f.members.values()),
    # Some have confirmed it, and wait for the others.
    "confirmed": lambda f: states(f) == {MemberState.IDLE, MemberState.INVITED},
    # All have, and nobody has heard it yet; or some have, and were asked.
    "told": lambda f: set(f.told(m.Confirmed)) == {*MEMBERS},
    "heard": lambda f: {c.state for c in f.members.values()} == {SessionState.CONFIRMING, SessionState.RUNNING_X},
    "asked": lambda f: MemberState.ASKED_MASKED in states(f),
    "answered": lambda f: states(f) >= {MemberState.ASKED_MASKED, MemberState.IDLE},
}


@pytest.fixture(scope="module")
def calm_and_small():
    federation = Weather("x", rows=150)
    federation.run()
    return federation


@pytest.mark.parametrize("what", ["line", "kill", "quit", "server"])
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("again", [False, True], ids=["at first", "again"])
def test_a_fault_in_every_phase(calm_and_small, what, phase, again):
    """When the run begins, and when it is taken up again after another fault; whoever it is that it happens to."""
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
    """The others do not go on with what it had signed: everybody confirms a new roster, with its new key."""
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
    """It is of the roster before: nobody would believe it."""
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
    """In the first epoch it begins anew; later it goes on in another epoch, and every member gets a whole roster."""
    federation = Weather(variant, 7, rows=150).until(PHASES["confirmed"])
    federation.kill_server()
    assert federation.lives == 1
    for name in MEMBERS:
        federation.join(name)
    federation.until(lambda f: f.server.rounds > 4)
    federation.fault("line", "a")
    federation.until(lambda f: f.server.gathering.epoch == 1).until(PHASES["confirmed"])
    federation.kill_server()
    assert last_epoch(federation.journal, "journal") == federation.server.gathering.epoch == 1
    for name in MEMBERS:
        federation.join(name)
    federation.until(lambda f: f.down)
    assert set(federation.told(m.Roster)) == {*MEMBERS}
    assert {roster.epoch for roster in federation.told(m.Roster).values()} == {2}
    federation.run()
    assert federation.outcome.ending == "converged"


# -- what a new epoch says -------------------------------------------------------------------------------------------


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


def claims(federation, name, **fields):
    return msgspec.structs.replace(federation.members[name].join(bytes([7]) * 32), **fields)


def restarted():
    """A server that was killed in the fourth epoch, as its journal says."""
    federation = Weather("x", 6, rows=150)
    for rounds, name in ((3, "a"), (5, "b"), (7, "c")):
        federation.until(lambda f, rounds=rounds: f.server.rounds > rounds)
        federation.fault("line", name)
    federation.until(lambda f: f.server.gathering.epoch == 3).until(PHASES["answered"])
    assert last_epoch(federation.journal, "journal") == 3
    federation.kill_server()
    assert federation.server.gathering.epoch == 3
    return federation


@pytest.mark.parametrize("epoch", [65_535, 1000, 3 + MAX_LOST_EPOCHS + 2])
def test_a_restarted_server_refuses_a_member_from_far_ahead(epoch):
    """There are so many epochs and no more: one member could use them up for all."""
    federation = restarted()
    with pytest.raises(ProtocolError, match=f"member 'b' comes back from epoch {epoch - 1}, and there was none after"):
        federation.server.receive("b", claims(federation, "b", epoch=epoch), 0.0)
    assert federation.server.state_of("b") is MemberState.AWAY
    for name in MEMBERS:
        federation.join(name)
    federation.run()
    assert federation.outcome.ending == "converged"


@pytest.mark.parametrize("epoch", [4, 5, 3 + MAX_LOST_EPOCHS + 1])
def test_a_restarted_server_takes_its_own_epoch_and_those_that_its_disk_may_have_lost(epoch):
    """The next roster is of an epoch that no member has been in."""
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
        ProtocolError, match=f"member 'b' comes back from epoch {epoch - 1}, and there was none after 0"
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


# -- whoever cannot go on --------------------------------------------------------------------------------------------


def test_a_member_without_its_journal_cannot_go_on_where_the_server_keeps_none():
    federation = Weather("x", 2)
    while federation.server.rounds < 10:
        federation.step()
    federation.cut("b")
    federation.server.positions.history = None
    federation.members["b"] = MemberSession("b", federation.inputs["b"])
    with pytest.raises(ProtocolError, match="'b' comes back from round 0, and was in round"):
        federation.server.receive("b", federation.members["b"].join(bytes(32)), 0.0)


def lose_everything(federation, name):
    """A member is killed, and its journal is gone with its disk."""
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
    with pytest.raises(pytest.fail.Exception, match="members have lost records 17 times, 'b' the last"):
        federation.run()
    assert federation.server.over


def test_a_member_that_goes_back_answers_what_it_had_answered_and_nothing_else():
    """Otherwise a server could ask two questions where the search asks one, as often as it likes."""
    federation = Weather("x", 2).until(lambda f: f.server.rounds > 10)
    federation.lose_records("server", 6)
    federation.fault("server", "a")
    federation.until(lambda f: "a" in f.told(m.Ask) and f.members["a"].state is SessionState.RUNNING_X)
    member, question = federation.members["a"], federation.told(m.Ask)["a"]
    assert member.position == question.round < max(member._asked)
    row = next(asked for number, asked in member._asked.items() if number > question.round and asked != question)
    with pytest.raises(ProtocolError, match=f"asked something else in round {question.round} than before"):
        member.receive(msgspec.structs.replace(row, round=question.round, attempt=question.attempt))
    federation.run()
    assert federation.outcome.ending == "converged"


def gone_back(federation, number):
    """A member that has signed that everybody goes back to this round, and been shown everybody's signatures."""
    member = federation.members["a"]
    epoch = member._roster.epoch + 1
    confirm = member.receive(m.RosterUpdate(epoch, [], number))
    member.receive(m.Confirmed(epoch, [confirm.signature] * 3))
    return member, epoch


def again(question, epoch, **fields):
    return msgspec.structs.replace(question, attempt=epoch, **fields)


@pytest.mark.parametrize("back_to", [0, 4])
def test_a_server_cannot_skip_what_was_answered_before(back_to):
    """Under a number that is free it would have another question answered, in a state that has passed."""
    federation = Weather("x", 2).until(lambda f: f.members["a"].position > 10)
    member, epoch = gone_back(federation, back_to)
    asked = dict(member._asked)
    last = max(asked)
    for number in (last + 1, last, back_to + 1):
        with pytest.raises(ProtocolError, match=f"asked something else in round {number} than before"):
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
    """It has answered, so it does not take another run, an earlier epoch or another vocabulary for its first."""
    federation = Weather("x", 2).until(lambda f: f.members["a"].position > 5)
    member, epoch = gone_back(federation, 0)
    assert (member.position, member.has_answered) == (0, True)
    other = msgspec.structs.replace(member._roster, **{"epoch": epoch + 1} | change)
    with pytest.raises(ProtocolError, match="not one of the run that this member is in"):
        member.receive(other)
    join = member.join(bytes(32))
    assert (join.run, join.epoch, join.position) == (member.run, epoch + 1, 0)


def test_an_earlier_question_does_not_get_the_last_answer():
    federation = Weather("x", 2).until(lambda f: f.members["a"].position > 5)
    member, epoch = gone_back(federation, federation.members["a"].position - 1)
    with pytest.raises(ProtocolError, match="asked something else in round 0 than before"):
        member.receive(again(member._asked[0], epoch))


def test_how_far_a_member_says_it_was_does_not_keep_a_run_from_stopping_for_ever():
    """A server that was killed believes it once, and no more than the run may take."""
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
    federation = Weather("x", 2).until(lambda f: f.server.rounds > 20)
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
    """Its journal knows how far members were, and what was decided there; otherwise they refuse what it asks next."""
    federation = Weather("x", 2).until(lambda f: f.server.rounds > 20)
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
    """Its line broke before it had the roster that told it."""
    federation = Weather("x", 2).until(lambda f: f.server.rounds > 20)
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
    with pytest.raises(ProtocolError, match=f"'b' comes back from round {far}, and was in round"):
        federation.server.receive("b", claims(federation, "b", position=far), 0.0)


def test_a_member_of_another_run_is_refused():
    federation = Weather("x", 2)
    join = federation.members["a"].join(bytes(32))
    stranger = m.Join(*(getattr(join, f) if f != "run" else bytes(16) for f in join.__struct_fields__))
    with pytest.raises(ProtocolError, match="belongs to another run"):
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
    with pytest.raises(ProtocolError, match="asked something else in round"):
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
        with pytest.raises(ProtocolError, match="not one of the run"):
            member.receive(message)
    federation.fault("line", "b")
    federation.until(lambda _: member._roster.epoch == 1)
    for message in (m.RosterUpdate(1, [], 0), m.RosterUpdate(0, [], 0), member._roster, roster):
        with pytest.raises(ProtocolError, match="not one of the run"):
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


# -- a server that is killed while it ends the run early --------------------------------------------------------------


STOP_AT = 9
LIMITS = {"interrupted": {}, "out of rounds": {"max_rounds": STOP_AT}, "out of time": {"max_time": 100.0}}


def stopped_early(variant, ending, kill_after=None):
    """A run that ends early, after so many rounds; its server is killed as soon as so many more are written down."""
    federation = Weather(variant, 8, **LIMITS[ending])
    while federation.outcome is None:
        if len(federation.rounds) == STOP_AT - 1:
            # A server that is brought back knows neither: only its journal does.
            federation.now = 1000.0 if ending == "out of time" else 0.0
            if ending == "interrupted":
                federation.server.stop()
        if kill_after is not None and len(federation.rounds) == STOP_AT + kill_after:
            federation.now, kill_after = 0.0, None
            federation.fault("server", None)
        else:
            federation.step()
    return federation


@pytest.mark.parametrize("ending", LIMITS)
@pytest.mark.parametrize("variant", ["x", "sa", "so"])
def test_a_server_killed_in_its_closing_rounds_ends_as_it_had_decided(calm, variant, ending):
    expected = stopped_early(variant, ending)
    assert expected.outcome.ending == ending
    assert expected.outcome.table != calm[variant].table
    for kill_after in range(len(expected.rounds) - STOP_AT):
        again = stopped_early(variant, ending, kill_after)
        assert (again.outcome, len(again.rounds)) == (expected.outcome, len(expected.rounds))


@pytest.mark.parametrize("variant", ["x", "sa", "so"])
def test_a_decision_that_was_torn_was_not_made(calm, variant, tmp_path):
    """Nothing had followed from it: the run goes on, or ends there when it is told to again."""
    expected = stopped_early(variant, "interrupted")
    whole = Journal.create(tmp_path / "whole", {}, key=bytes(32))
    for record in expected.journal[:STOP_AT]:
        whole.append(record)
    whole.close()
    data = (tmp_path / "whole").read_bytes()
    for number, again in enumerate((False, True)):
        path = tmp_path / f"torn-{number}"
        path.write_bytes(data[:-3])
        journal, _, records, _ = Journal.reopen(path, key=bytes(32))
        journal.close()
        assert records == expected.journal[: STOP_AT - 1]
        federation = Weather(variant, 8)
        while len(federation.rounds) < STOP_AT - 1:
            federation.step()
        federation.journal = list(records)
        federation.fault("server", None)
        if again:
            federation.server.stop()
        federation.run()
        assert federation.outcome == (expected.outcome if again else calm[variant])


# -- a server that asks members different things ---------------------------------------------------------------------


def row(number, slot):
    return m.Ask(number, 0, [], [m.WantRows([slot], b"\x28")])


@pytest.mark.parametrize("differently", [False, True])
def test_a_server_that_asks_one_member_something_else_reads_noise(differently):
    """In the round itself, and ever after: masks depend on all that was asked before."""
    federation = Weather("x", 4)
    members = federation.members
    federation.until(lambda f: all(member.position == 3 for member in f.members.values()))
    length = members["a"]._variant._state.table.fresh_slot

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
