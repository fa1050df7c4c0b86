"""A federation of sessions on connections with any kind of fault."""

from __future__ import annotations

import random

import msgspec
import pytest

from fedslim.data import load
from fedslim.data.partition import iid
from fedslim.data.vocabulary import ItemSecret, Vocabulary
from fedslim.network.journal import (
    BackRecord,
    EpochRecord,
    RoundRecord,
    encode_record,
    messages_in,
    read_server_records,
)
from fedslim.protocol import messages as m
from fedslim.protocol.events import Began, Ended, Failed, NewEpoch, RoundEnded, Send, WentBack
from fedslim.protocol.member import MemberInput, MemberSession
from fedslim.protocol.server import ServerSession
from fedslim.protocol.state import MemberState, SessionState

MEMBERS = ("a", "b", "c")
SECRET = ItemSecret.from_random(bytes(32))
MOST = 1 << 40


class Weather:
    """A federation on connections that keep each member's messages in order, with any other kind of fault."""

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
        self.lives = 0  # how many servers had to start over
        self.server = self.new_server()
        self.members = {name: MemberSession(name, own) for name, own in self.inputs.items()}
        self.journal = None  # the server's, once the run has begun
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
        return read_server_records(self.journal or (), "journal").rounds

    def join(self, name):
        self.up.append((name, self.members[name].join(self.rng.randbytes(32))))

    def cut(self, name):
        """Break the connection to a member; messages on their way are lost."""
        self.server.disconnect(name)
        self.up = [entry for entry in self.up if entry[0] != name]
        self.down = [entry for entry in self.down if entry[0] != name]

    def fault(self, what, name):
        """Break a connection, kill or end a member, or kill the server."""
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
            self.heard[name] = []  # a member without answers has nothing to continue with
        if what in {"kill", "quit"}:
            self.members[name] = MemberSession(name, self.inputs[name])
            self.members[name].replay(messages_in(self.heard[name], "journal"))
        self.join(name)

    def lose_records(self, who, count):
        """Cut the power of a machine: its last records were not on the disk."""
        if who == "server":
            if self.journal:
                del self.journal[max(0, len(self.journal) - count) :]
        else:
            del self.heard[who][max(0, len(self.heard[who]) - count) :]

    def kill_server(self):
        self.up, self.down = [], []
        if self.journal is None:
            self.lives += 1  # there is nothing to continue with: this is another run
            self.server = self.new_server()
            return
        self.server = self.new_server()
        kept = read_server_records(self.journal, "journal")
        kept.retreats = 0  # this federation may go back as often as it likes
        self.server.replay(kept, len(self.vocabulary), self.now)

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
            return  # it has disconnected; a member that joins while the run ends gets the end twice
        coming_together = isinstance(message, (m.Roster, m.RosterUpdate, m.Confirmed))
        if coming_together or getattr(message, "round", -1) >= member.position:
            self.heard[name].append(encode_record(message))
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
                        self.journal.append(encode_record(EpochRecord(number, self.server.positions.furthest)))
                case WentBack(number, _):
                    self.journal.append(encode_record(BackRecord(number)))
                case RoundEnded(number, _, replies, ending):
                    self.journal.append(encode_record(RoundRecord(number, 0.0, replies, ending)))
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


def states(federation):
    return set(federation.server._states.values())


PHASES = {
    "joining": lambda f: MemberState.SEATED in states(f),
    "invited": lambda f: MemberState.INVITED in states(f),
    # A member has the roster, and its confirmation has not arrived yet.
    "confirming": lambda f: any(c.state is SessionState.CONFIRMING for c in f.members.values()),
    # Some have confirmed it, and wait for the others.
    "confirmed": lambda f: states(f) == {MemberState.IDLE, MemberState.INVITED},
    # All have confirmed, and no member knows yet; or some know, and were asked.
    "told": lambda f: set(f.told(m.Confirmed)) == {*MEMBERS},
    "heard": lambda f: {c.state for c in f.members.values()} == {SessionState.CONFIRMING, SessionState.RUNNING_X},
    "asked": lambda f: MemberState.ASKED_MASKED in states(f),
    "answered": lambda f: states(f) >= {MemberState.ASKED_MASKED, MemberState.IDLE},
}


def claims(federation, name, **fields):
    return msgspec.structs.replace(federation.members[name].join(bytes([7]) * 32), **fields)


def restarted():
    """A server restored from a journal that ends in the fourth epoch."""
    federation = Weather("x", 6, rows=150)
    for rounds, name in ((3, "a"), (5, "b"), (7, "c")):
        federation.until(lambda f, rounds=rounds: f.server.rounds > rounds)
        federation.fault("line", name)
    federation.until(lambda f: f.server.gathering.epoch == 3).until(PHASES["answered"])
    assert read_server_records(federation.journal, "journal").epoch == 3
    federation.kill_server()
    assert federation.server.gathering.epoch == 3
    return federation
