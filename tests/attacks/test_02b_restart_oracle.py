"""Attack 2, its last sentence: the restarts of a member's unit as an oracle.

Attacker: the server, with the other members absent. It sends one member a roster with the others' old, signed keys, and
varies a setting; from whether the member refuses, it learns the member's number of transactions. A refusal ended the
member's process, and its unit (`Restart=on-failure`, after 5 s) restarted it for the next question.

Before: 16 connections, in little more than a minute, revealed the exact number. Now a member that refused, or that was
refused before it answered anything, waits before it reconnects, longer each time. The wait is stored in a file beside
its ledger, so a new process respects it.
"""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from fedslim.data import load
from fedslim.data.partition import iid
from fedslim.data.vocabulary import ItemSecret, Vocabulary
from fedslim.errors import FedslimError
from fedslim.federated.deployment import DeployedMember, MemberTrust
from fedslim.federated.simulation import prepare
from fedslim.network.connection import hang_up, read_frame
from fedslim.network.status import TAKING_PART
from fedslim.protocol import framing, messages as m
from fedslim.protocol.events import Send
from fedslim.protocol.member import MemberInput, MemberSession
from fedslim.protocol.server import ServerSession
from fedslim.safeguards import guard as guarding
from fedslim.safeguards.guard import Guard
from fedslim.settings.federation_file import write_template
from fedslim.settings.policy import MemberPolicy
from fedslim.trust.enrolment import make_demo_ca
from fedslim.trust.tls import server_context

MEMBERS = ("north", "south", "west")
SECRET = ItemSecret.from_random(bytes(32))
AGREED = Vocabulary.of(load("encounters").vocabulary, SECRET)
RESTART = timedelta(seconds=5)  # RestartSec of deploy/fedslim-member@.service
PROBES = 16


class Clock:
    """A clock that advances only while somebody waits."""

    def __init__(self):
        self.now = self.began = datetime(2026, 3, 4, tzinfo=UTC)

    async def sleep(self, seconds):
        self.now += timedelta(seconds=seconds)

    @property
    def passed(self):
        return self.now - self.began


class LyingServer:
    """Sends its one member a roster with the others' old keys, learns from the answer, and disconnects it."""

    def __init__(self, file, old):
        self.file, self.old = file, old
        self.most, self.answers = 1 << 40, []

    async def talk(self, reader, writer):
        join = framing.from_member((await read_frame(reader, within=5.0))[framing.PREFIX_BYTES :])
        settings = msgspec.structs.replace(self.file.settings(), max_transactions=self.most)
        session = ServerSession(MEMBERS, settings, run=os.urandom(16))
        for name, message in {"north": join, **self.old}.items():
            for output in session.receive(name, message, 0.0):
                if isinstance(output, Send) and "north" in output.to:
                    writer.write(framing.to_bytes(output.message).data)
        await writer.drain()
        answer = framing.from_member((await read_frame(reader, within=5.0))[framing.PREFIX_BYTES :])
        self.answers.append(type(answer))
        writer.write(framing.to_bytes(m.Abort("come again")).data)
        await hang_up(writer)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("oracle")
    prepare("x")
    trial = make_demo_ca(folder / "trust", MEMBERS, now=datetime.now(UTC))
    chosen = {"items.vocabulary_digest": AGREED.digest.hex()}
    file = write_template(folder / "federation.toml", "oracle", MEMBERS, chosen=chosen)
    inputs = dict(zip(MEMBERS, iid(load("encounters").take(range(300)), 3, seed=0).parts, strict=True))
    return SimpleNamespace(folder=folder, trial=trial, file=file, inputs=inputs)


def identity(place, name):
    return next(one for one in place.trial.members if one.name == name)


def probed(place, folder, clock, monkeypatch, choose):
    """Restart the member again and again, as its unit would; return the answers to the server, and when they came."""
    file, now = place.file, datetime.now(UTC)
    monkeypatch.setattr(guarding, "asyncio", SimpleNamespace(sleep=clock.sleep))
    old = {}
    for name in MEMBERS[1:]:
        trust = MemberTrust.of_identity(file, identity(place, name))
        own = MemberInput(place.inputs[name], MEMBERS, file.settings(), SECRET, AGREED, trust=trust)
        old[name] = MemberSession(name, own).join(os.urandom(32))
    server = LyingServer(file, old)
    when = []

    async def act():
        context = server_context(place.trial.server, now=now)
        context.set_alpn_protocols([TAKING_PART])
        listening = await asyncio.start_server(server.talk, "127.0.0.1", 0, ssl=context)
        port = listening.sockets[0].getsockname()[1]
        async with listening:
            for number in range(PROBES):
                server.most = choose(number)
                # A new process: only files are left of the previous one.
                guard = Guard(MemberPolicy.find(folder), file, now=lambda: clock.now)
                out = folder / f"out-{number}"  # the wait is stored beside the ledger, wherever results go
                out.mkdir()
                mine = (identity(place, "north"), place.inputs["north"], SECRET, AGREED, out)
                member = DeployedMember(file, *mine, audit=None, guard=guard)
                with pytest.raises(FedslimError):
                    await member.run(host="localhost", port=port)
                when.append(clock.passed)
                clock.now += RESTART

    asyncio.run(act())
    assert len(server.answers) == PROBES
    return when


@pytest.mark.parametrize(
    ("choose", "what"),
    [
        (lambda _: 1, "refused by the member"),
        (lambda number: (1 << 40) - number, "sent away by the server, which knows that the member was ready"),
    ],
    ids=["refuses", "ready"],
)
def test_restarts_do_not_bring_a_member_back_at_once(place, tmp_path, monkeypatch, choose, what):
    when = probed(place, tmp_path, Clock(), monkeypatch, choose)
    within_an_hour = [at for at in when if at <= timedelta(hours=1)]
    assert len(within_an_hour) <= 8, what
    assert when[-1] > timedelta(hours=8), what  # the unit alone would have taken 80 s


def test_what_is_left_of_it_is_a_file_beside_the_ledger(place, tmp_path, monkeypatch):
    clock = Clock()
    probed(place, tmp_path, clock, monkeypatch, lambda _: 1)
    guard = Guard(MemberPolicy.find(tmp_path), place.file, now=lambda: clock.now)
    assert guard.refusals.count == PROBES
    assert guard.wait() == 3600 - RESTART.total_seconds()
    assert guard.refusals.path == tmp_path / "refusals.json"


def test_the_unit_keeps_what_the_wait_is_written_to():
    """The unit lets the member write beside its certificates, where the ledger is, so the wait survives restarts."""
    unit = (Path(__file__).parents[2] / "deploy" / "fedslim-member@.service").read_text("utf-8")
    assert "--identity /var/lib/fedslim-%i/certificates" in unit
    assert "ReadWritePaths=/var/lib/fedslim-%i " in unit
    assert "RestartPreventExitStatus=2" in unit  # no restart if a policy or ledger forbids the run
