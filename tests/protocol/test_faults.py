"""Lines break, clients and the server are killed and brought back: the run ends as if nothing had happened."""

from __future__ import annotations

import random

import pytest

from fedslim.data import load
from fedslim.data.partition import iid
from fedslim.data.vocabulary import ItemSecret, Vocabulary
from fedslim.errors import ProtocolError
from fedslim.protocol import messages as m
from fedslim.protocol.client import ClientSession, Site
from fedslim.protocol.events import Ended, Failed, RoundEnded, Send
from fedslim.protocol.legality import MemberState
from fedslim.protocol.server import ServerSession
from fedslim.transport.journal import Journal
from fedslim.transport.recording import round_record, rounds_of, told, told_record

MEMBERS = ("a", "b", "c")
SECRET = ItemSecret.from_random(bytes(32))
RUN = bytes(range(16))


class Weather:
    """A federation on lines of its own, on which messages of a member stay in order and all else may happen."""

    def __init__(self, variant, seed=0, database=None, **limits):
        self.rng = random.Random(seed)
        database = load("encounters").take(range(600)) if database is None else database
        self.vocabulary = Vocabulary.of(database.vocabulary, SECRET)
        parts = iid(database, len(MEMBERS), seed=1).parts
        self.sites = {
            name: Site(part, MEMBERS, SECRET, self.vocabulary) for name, part in zip(MEMBERS, parts, strict=True)
        }
        self.variant, self.limits, self.now = variant, limits, 0.0
        self.server = self.new_server()
        self.clients = {name: ClientSession(name, site) for name, site in self.sites.items()}
        self.rounds = []  # the server's journal
        self.heard = {name: [] for name in MEMBERS}  # the clients' journals
        self.sent = []  # every masked answer that ever left a client
        self.up, self.down = [], []
        self.outcome = None
        for name in MEMBERS:
            self.join(name)

    def new_server(self):
        settings = m.Settings(self.variant, masked=True, most_transactions=1 << 40)
        return ServerSession(MEMBERS, settings, run=RUN, **self.limits)

    def join(self, name):
        self.up.append((name, self.clients[name].join(self.rng.randbytes(32))))

    def cut(self, name):
        """The line to a member breaks; what was on it is lost."""
        self.server.disconnect(name)
        self.up = [entry for entry in self.up if entry[0] != name]
        self.down = [entry for entry in self.down if entry[0] != name]

    def fault(self, what, name):
        if what == "server":
            self.up, self.down = [], []
            self.server = self.new_server()
            self.server.replay(rounds_of(self.rounds, "journal"), len(self.vocabulary), self.now)
            for each in MEMBERS:
                self.join(each)
            return
        self.cut(name)
        if what == "kill":
            self.clients[name] = ClientSession(name, self.sites[name])
            self.clients[name].replay(told(self.heard[name], "journal"))
        self.join(name)

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
        client = self.clients[name]
        if isinstance(message, m.Roster) or getattr(message, "round", -1) >= client.position:
            self.heard[name].append(told_record(message))
        reply = client.receive(message)
        if isinstance(reply, m.Masked):
            self.sent.append((name, reply))
        if reply is not None:
            self.up.append((name, reply))

    def act(self, outputs):
        for output in outputs:
            match output:
                case Send(to, message):
                    self.down += [(name, message) for name in to]
                case RoundEnded(number, _, replies, ending):
                    self.rounds.append(round_record(number, 0.0, replies, ending))
                case Ended(outcome):
                    self.outcome = outcome
                case Failed(reason, _):
                    pytest.fail(reason)

    def run(self, often=0.0):
        faults = 0
        while self.outcome is None or self.down:
            if self.outcome is None and self.server.rounds > 2 and self.rng.random() < often:
                self.fault(self.rng.choice(["line", "kill", "server"]), self.rng.choice(MEMBERS))
                faults += 1
            else:
                self.step()
        return faults


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


@pytest.mark.parametrize("variant", ["x", "sa"])
def test_no_mask_comes_twice_even_where_rounds_are_repeated(variant):
    """The same counts under two masks differ; and no masked answer of a member is ever sent again."""
    federation = Weather(variant, 5)
    assert federation.run(often=0.02) >= 5
    repeated = len(federation.sent) - len({(name, reply.round) for name, reply in federation.sent})
    assert repeated > 0
    seen = [(name, reply.words.data) for name, reply in federation.sent if reply.words.length]
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("what", ["line", "kill", "server"])
@pytest.mark.parametrize("phase", ["joining", "invited", "asked", "answered"])
def test_a_fault_in_every_phase(calm, what, phase):
    federation = Weather("x", 11)

    def there():
        states = set(federation.server._states.values())
        return {
            "joining": MemberState.SEATED in states,
            "invited": MemberState.INVITED in states,
            "asked": MemberState.ASKED_MASKED in states and federation.server.rounds > 5,
            "answered": {MemberState.ASKED_MASKED, MemberState.IDLE} <= states and federation.server.rounds > 9,
        }[phase]

    while not there():
        federation.step()
    name = next(n for n, s in federation.server._states.items() if s is not MemberState.EXPECTED)
    if what == "server" and phase in {"joining", "invited"}:
        pytest.skip("before the first round there is nothing to bring a server back to")
    if what == "kill" and phase in {"joining", "invited"}:
        federation.heard[name] = []
    federation.fault(what, name)
    federation.run()
    assert federation.outcome == calm["x"]


def test_a_member_without_its_journal_cannot_go_on():
    federation = Weather("x", 2)
    while federation.server.rounds < 10:
        federation.step()
    federation.cut("b")
    federation.clients["b"] = ClientSession("b", federation.sites["b"])
    with pytest.raises(ProtocolError, match="'b' comes back from round 0 of run \\(none\\)"):
        federation.server.receive("b", federation.clients["b"].join(bytes(32)), 0.0)


def test_a_member_of_another_run_is_refused():
    federation = Weather("x", 2)
    join = federation.clients["a"].join(bytes(32))
    stranger = m.Join(*(getattr(join, f) if f != "run" else bytes(16) for f in join.__struct_fields__))
    with pytest.raises(ProtocolError, match="belongs to another run"):
        federation.new_server().receive("a", stranger, 0.0)


def test_a_question_that_comes_again_must_be_the_same():
    federation = Weather("x", 2)
    while federation.clients["a"].position < 4:
        federation.step()
    last = federation.clients["a"]._last.question
    federation.fault("line", "b")
    while federation.clients["a"]._roster.epoch == 0:
        federation.step()
    other = m.Ask(last.round, federation.clients["a"]._roster.epoch, [], [m.WantSupports(41)])
    with pytest.raises(ProtocolError, match="asked something else in round"):
        federation.clients["a"].receive(other)


def test_a_roster_of_an_earlier_epoch_is_refused():
    federation = Weather("x", 2)
    while federation.server.rounds < 3:
        federation.step()
    roster = federation.clients["a"]._roster
    with pytest.raises(ProtocolError, match="not one of the run"):
        federation.clients["a"].receive(roster)


def test_who_was_away_at_the_end_is_told_when_it_comes_back():
    federation = Weather("x", 3)
    while federation.outcome is None:
        federation.step()
    federation.down = [entry for entry in federation.down if entry[0] != "c"]
    federation.join("c")
    while federation.up or federation.down:
        federation.step()
    assert federation.clients["c"].received.ending == "converged"
    assert federation.clients["c"].received.table == federation.clients["a"].received.table


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
    for record in expected.rounds[:STOP_AT]:
        whole.append(record)
    whole.close()
    data = (tmp_path / "whole").read_bytes()
    for number, again in enumerate((False, True)):
        path = tmp_path / f"torn-{number}"
        path.write_bytes(data[:-3])
        journal, _, records = Journal.reopen(path, key=bytes(32))
        journal.close()
        assert records == expected.rounds[: STOP_AT - 1]
        federation = Weather(variant, 8)
        while len(federation.rounds) < STOP_AT - 1:
            federation.step()
        federation.rounds = records
        federation.fault("server", None)
        if again:
            federation.server.stop()
        federation.run()
        assert federation.outcome == (expected.outcome if again else calm[variant])


# -- a server that asks members different things ---------------------------------------------------------------------


def test_a_server_that_asks_one_member_something_else_reads_noise():
    """In the round itself, and ever after: masks depend on all that was asked before."""
    federation = Weather("x", 4)
    while not any(isinstance(message, m.Ask) for _, message in federation.down):
        federation.step()
    federation.down = [
        (who, m.Ask(q.round, q.attempt, q.moves, [m.WantSupportOf([[0, 1]], 40)]) if who == "a" else q)
        if isinstance(q, m.Ask)
        else (who, q)
        for who, q in federation.down
    ]
    answers = []
    for who, question in [entry for entry in federation.down if isinstance(entry[1], m.Ask)]:
        answers.append(federation.clients[who].receive(question))
    assert len(answers) == len(MEMBERS)
    # The member that was asked alone answers one word: the sum of the others' first words with it is no count.
    total = sum(int.from_bytes(answer.words.data[:8], "little") for answer in answers) % 2**64
    assert total > 1 << 40
    follow = m.Ask(answers[0].round + 1, 0, [], [m.WantSupportOf([[0, 1]], 40)])
    again = [federation.clients[name].receive(follow) for name in MEMBERS]
    total = sum(int.from_bytes(answer.words.data, "little") for answer in again) % 2**64
    assert total > 1 << 40
