"""Helpers for tests of sessions: small federations, recorded frames, and connections that a test can manipulate."""

from __future__ import annotations

import random
from collections import deque
from hashlib import shake_256
from itertools import count

import msgspec
import numpy as np

from fedslim.data import ItemSecret, TransactionDatabase, Vocabulary
from fedslim.network.in_process import FrameSent, MemoryFederation
from fedslim.protocol import framing, messages as m
from fedslim.protocol.events import Ended, Failed, RoundEnded, Send
from fedslim.protocol.member import MemberInput, MemberSession
from fedslim.protocol.outcome import code_table
from fedslim.protocol.server import ServerSession

VARIANTS = ("x", "sa", "so")
SECRET = ItemSecret.from_random(bytes(range(32)))
RUN = b"the run of tests"
MOST = 1 << 40

FIGURE = {"c1": ["abc"] * 3 + ["ae"] * 2, "c2": ["abd"] * 4 + ["ce"]}


def vector(values):
    return m.Vector.of(np.array(values, np.int64))


def entropy_of(seed):
    numbers = count()
    return lambda length: shake_256(f"tests {seed} {next(numbers)}".encode()).digest(length)


def databases(parts, labels=None):
    """Databases over one vocabulary, by name; parts are lists of rows of labels (or letters of a word)."""
    named = parts if isinstance(parts, dict) else {f"s{k:03}": part for k, part in enumerate(parts)}
    labels = labels or sorted({label for part in named.values() for row in part for label in row})
    joined = TransactionDatabase.from_transactions([list(labels), *(list(row) for p in named.values() for row in p)])
    order = [joined.vocabulary.index(label) for label in labels]
    assert order == sorted(order)
    found, at = {}, 1
    for name, part in named.items():
        found[name] = joined.take(range(at, at + len(part)))
        at += len(part)
    return found


def of_numbers(parts, n_items):
    """Databases of rows of item numbers, as tests/algorithm1/federation.py makes them."""
    from federation import database

    return {f"s{k:03}": database(part, n_items) for k, part in enumerate(parts)}


def settings_for(variant, *, masked=True, most=MOST, share="none", policy=None, searched=0, **chosen):
    """The settings of a run; a search policy may supply some of them, and `searched` is the seed of the search."""
    if policy is not None:
        names = ("pruning", "order", "max_itemset_size", "min_support", "min_count", "width")
        chosen = {name: getattr(policy, name) for name in names} | chosen
    return m.Settings(variant, masked and variant != "so", most, share, seed=searched, **chosen)


def inputs_of(named, variant="x", *, agreed=True, secret=SECRET, **settled):
    vocabulary = Vocabulary.of(next(iter(named.values())).vocabulary, secret) if agreed else None
    settings = settings_for(variant, **settled)
    return {name: MemberInput(database, tuple(named), settings, secret, vocabulary) for name, database in named.items()}


SESSION = ("max_time", "keys", "vocabulary")


def server_for(members, variant, *, policy=None, **chosen):
    own = {name: chosen.pop(name) for name in SESSION if name in chosen}
    settings = settings_for(variant, policy=policy, **chosen)
    return ServerSession(tuple(members), settings, run=RUN, **own)


class Recorder:
    """A trace: all frames that were sent, and their messages."""

    def __init__(self):
        self.events = []

    def __call__(self, event):
        self.events.append(event)

    @property
    def frames(self):
        return [event for event in self.events if isinstance(event, FrameSent)]

    @property
    def rounds(self):
        return [event for event in self.events if isinstance(event, RoundEnded)]

    def messages(self, direction=None, kind=None, member=None):
        return [
            decoded(frame)
            for frame in self.frames
            if direction in {None, frame.direction} and kind in {None, frame.kind} and member in {None, frame.member}
        ]


def decoded(frame):
    read = framing.from_member if frame.direction == "up" else framing.from_server
    return read(frame.data[framing.PREFIX_BYTES :])


def recorded(named, variant, *, seed=0, agreed=True, masked=True, clock=None, between=None, **chosen):
    """Run a federation in memory; return it, its outcome, and the recording."""
    recorder = Recorder()
    server = server_for(named, variant, masked=masked, **chosen)
    settled = {name: value for name, value in chosen.items() if name not in SESSION}
    inputs = inputs_of(named, variant, agreed=agreed, masked=masked, **settled)
    timed = {} if clock is None else {"clock": clock}
    federation = MemoryFederation(server, inputs, entropy=entropy_of(seed), trace=recorder, **timed)
    outcome = federation.run(None if between is None else lambda: between(server))
    return federation, outcome, recorder


def table_of(outcome, named):
    return code_table(outcome.table, next(iter(named.values())).vocabulary)


def walk(value, path=""):
    """Every value in a message, with the names of the fields that lead to it."""
    if isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from walk(getattr(value, field), f"{path}.{field}" if path else field)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from walk(part, path)
    else:
        yield path, value


class Line:
    """Sessions connected by queues of messages; `up` and `down` may change, drop or multiply messages."""

    def __init__(self, named, variant, *, seed=0, inputs=None, **chosen):
        draw = entropy_of(seed)
        self.named = named
        self.server = server_for(named, variant, **chosen)
        inputs = inputs or inputs_of(
            named, variant, **{name: value for name, value in chosen.items() if name not in SESSION}
        )
        self.draw = draw
        self.members = {name: MemberSession(name, own) for name, own in inputs.items()}
        self.queue = deque()
        self.ended = self.failed = None
        self.sent = []  # (member, message) of everything that the server said
        self.said = []  # (member, message) of everything that members said
        self.now = 0.0

    def begin(self):
        for name, member in self.members.items():
            self.queue.append((name, member.join(self.draw(32))))
        return self

    def take(self, outputs, down=None):
        for output in outputs:
            if isinstance(output, Send):
                for name in output.to:
                    message = framing.from_server(framing.to_bytes(output.message).data[4:])
                    if down is not None:
                        message = down(name, message)
                    self.sent.append((name, message))
                    reply = self.members[name].receive(message)
                    if reply is not None:
                        self.queue.append((name, framing.from_member(framing.to_bytes(reply).data[4:])))
            elif isinstance(output, Failed):
                self.failed = output
            elif isinstance(output, Ended):
                self.ended = output.outcome

    def step(self, up=None, down=None):
        """Deliver one message from a member."""
        name, message = self.queue.popleft()
        if up is not None:
            message = up(name, message)
        self.said.append((name, message))
        self.take(self.server.receive(name, message, self.now), down)

    def run(self, up=None, down=None, most=100_000):
        """Run until no message is left; return the outcome, or None if the run failed."""
        for _ in range(most):
            if not self.queue:
                break
            self.step(up, down)
        assert not self.queue, "it does not come to an end"
        return self.ended


def sprinkled(seed, n_items, members, transactions, patterns=4, noise=0.08):
    """Rows of item numbers with something to find, dealt out unevenly."""
    rng = random.Random(seed)
    found = [rng.sample(range(n_items), rng.randint(2, min(6, n_items))) for _ in range(patterns)]
    parts = [[] for _ in range(members)]
    for _ in range(transactions):
        row = {i for i in range(n_items) if rng.random() < noise}
        for pattern in found:
            if rng.random() < 0.35:
                row.update(pattern)
        parts[min(int(rng.expovariate(1.0)), members - 1)].append(row)
    return parts
