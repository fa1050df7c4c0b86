"""A member's policy, ledger and waiting time in real runs: nothing is sent before it is recorded."""

from __future__ import annotations

import asyncio
import re
import signal
import time
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import pytest

from fedslim.data import TransactionDatabase, Vocabulary, load
from fedslim.data.partition import iid
from fedslim.data.vocabulary import ItemSecret
from fedslim.errors import ProtocolError, RunError, WriteError
from fedslim.federated.deployment import MEMBER_JOURNAL, DeployedMember, DeployedServer
from fedslim.federated.loopback import Loopback
from fedslim.federated.simulation import prepare, simulate
from fedslim.mdl.codetable import CodeTable
from fedslim.protocol import messages as m
from fedslim.safeguards.guard import Guard, Refusals
from fedslim.safeguards.ledger import AnswerLedger
from fedslim.settings.federation_file import FederationFile, write_template
from fedslim.settings.policy import MemberPolicy, write_policy
from fedslim.trust.enrolment import make_demo_ca

MEMBERS = ("north", "south", "west")
SECRET = ItemSecret.from_random(bytes(32))
AGREED = Vocabulary.of(load("encounters").vocabulary, SECRET)
PATIENCE = 120.0


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    prepare("x")
    return make_demo_ca(tmp_path_factory.mktemp("trust") / "trial", MEMBERS, now=datetime.now(UTC))


@pytest.fixture(scope="module")
def databases():
    return dict(zip(MEMBERS, iid(load("encounters").take(range(600)), len(MEMBERS), seed=0).parts, strict=True))


@pytest.fixture
def file(tmp_path):
    chosen = {"items.vocabulary_digest": AGREED.digest.hex(), "limits.max_rounds": 8, "timeouts.grace": 5}
    return write_template(tmp_path / "federation.toml", "a try", MEMBERS, chosen=chosen)


class Run:
    """A server and its members in one process; each member has a ledger in its folder."""

    def __init__(self, file, trial, databases, folder):
        self.file, self.trial, self.databases, self.folder = file, trial, databases, folder
        self.server = None

    def impatient(self):
        self.file = replace(self.file, timeouts=replace(self.file.timeouts, grace=0.2))

    def member(self, name):
        out = self.folder / name
        out.mkdir(exist_ok=True)
        guard = Guard(MemberPolicy.find(out), self.file, first_wait=1.0)
        identity = next(one for one in self.trial.members if one.name == name)
        mine = (identity, self.databases[name], SECRET, AGREED, out)
        return DeployedMember(self.file, *mine, audit=None, guard=guard)

    def ledger(self, name):
        return AnswerLedger(self.folder / name / "ledger.json")

    async def play(self, *members):
        out = self.folder / "server"
        out.mkdir(exist_ok=True)
        self.server = server = DeployedServer(self.file, self.trial.server, out)
        serving = asyncio.create_task(server.run(host="127.0.0.1", port=0))
        while server.network is None or not server.network.port:  # it is made within the task
            await asyncio.sleep(0.005)
            assert not serving.done(), serving.exception()
        port = server.network.port
        running = [member.run(host="localhost", port=port) for member in members]
        ended = await asyncio.wait_for(asyncio.gather(*running, return_exceptions=True), PATIENCE)
        await asyncio.wait_for(asyncio.gather(serving, return_exceptions=True), PATIENCE)
        server.forget()
        for member, one in zip(members, ended, strict=True):
            if not isinstance(one, Exception):
                member.forget()
        return ended


@pytest.fixture
def run(file, trial, databases, tmp_path):
    return Run(file, trial, databases, tmp_path)


def test_what_is_answered_is_in_the_ledger_before_the_first_answer_leaves(run):
    members = [run.member(name) for name in MEMBERS]
    seen = []
    record = members[0]._recorder

    def watched(peer):
        leave = record(peer)

        def leaving(message, frame):
            leave(message, frame)
            seen.append((type(message), len(run.ledger("north").entries().answers)))

        return leaving

    members[0]._recorder = watched
    ended = asyncio.run(run.play(*members))
    assert [one.ending for one in ended] == ["out of rounds"] * 3
    assert {count for kind, count in seen if kind is m.Masked} == {1}
    assert {count for kind, count in seen if kind in {m.Join, m.Confirm}} == {0}  # nothing was answered by these
    [found] = run.ledger("north").entries().answers
    assert (found.members, found.transactions, found.runs) == (list(MEMBERS), len(run.databases["north"]), 1)
    asyncio.run(run.play(*map(run.member, MEMBERS)))
    assert run.ledger("north").entries().answers[0].runs == 2


def test_a_member_that_cannot_write_its_ledger_answers_nothing(run):
    run.impatient()
    (run.folder / "north").mkdir()
    write_policy(run.folder / "north" / "policy.toml", ledger_file="books/ledger.json")
    members = [run.member(name) for name in MEMBERS]
    (run.folder / "north" / "books").rmdir()
    (run.folder / "north" / "books").touch()  # a file, so that there can be no folder of that name
    ended = asyncio.run(run.play(*members))
    assert isinstance(ended[0], WriteError)
    assert members[0].session.position == 1  # it has an answer, which stays with it
    assert run.server.account.communication.traffic["Masked", "up"].messages == 2  # of the other two


def refusing(member):
    """A member that refuses the server's roster."""

    def refuse(message):
        if isinstance(message, m.Roster):
            msg = "this is no roster of ours; it is refused"
            raise ProtocolError(msg)
        return receive(message)

    receive = member.session.receive
    member.session.receive = refuse
    return member


def test_a_member_that_refuses_writes_that_down_before_the_server_hears_of_it(run):
    member = refusing(run.member("north"))
    seen = []
    record = member._recorder

    def watched(peer):
        leave = record(peer)
        return lambda message, frame: (
            seen.append((type(message), member._guard.refusals.count)),
            leave(message, frame),
        )

    member._recorder = watched
    ended = asyncio.run(run.play(member, run.member("south"), run.member("west")))
    assert isinstance(ended[0], ProtocolError)
    assert (m.Abort, 1) in seen
    # The others had confirmed the roster when the run ended before the first question: they wait as well.
    assert all(isinstance(error, RunError) for error in ended[1:])
    assert [run.member(name)._guard.refusals.count for name in MEMBERS] == [1, 1, 1]


def test_after_a_refusal_a_member_waits_and_a_run_that_ends_well_is_a_new_beginning(run, logged):
    asyncio.run(run.play(refusing(run.member("north")), run.member("south"), run.member("west")))
    logged.clear()
    ended = asyncio.run(run.play(*map(run.member, MEMBERS)))
    assert [one.ending for one in ended] == ["out of rounds"] * 3
    assert sum("refused each other (1 time)" in told for told in logged.messages) == 3
    assert [run.member(name)._guard.refusals.count for name in MEMBERS] == [0, 0, 0]


def test_a_run_that_was_answered_and_breaks_off_is_no_refusal(run):
    """The run can be resumed, so members must be able to rejoin as soon as the server is back."""
    run.impatient()
    members = [run.member(name) for name in MEMBERS]
    receive = members[0].session.receive

    def die(message):
        if members[0].session.position == 3:
            raise WriteError(28, "No space left on device")
        return receive(message)

    members[0].session.receive = die
    ended = asyncio.run(run.play(*members))
    assert isinstance(ended[0], WriteError)
    assert all("'north' stayed away" in str(error) for error in ended[1:])
    assert [run.member(name)._guard.refusals.count for name in MEMBERS] == [0, 0, 0]
    assert (run.folder / "south" / MEMBER_JOURNAL).exists()


def test_the_wait_can_be_broken_off(databases, tmp_path):
    federation = Loopback.make(tmp_path, databases)
    id_ = FederationFile.read(federation.file).federation.id
    Refusals(tmp_path / "trust" / "north" / "refusals.json", id_).add(datetime.now(UTC))
    process = federation.start_member("north")
    try:
        deadline = time.monotonic() + PATIENCE
        while "refused each other (1 time)" not in federation.said("north"):
            assert time.monotonic() < deadline, federation.said("north")
            assert process.poll() is None, federation.said("north")
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    finally:
        federation.close()
    assert "the server at" not in federation.said("north")  # it did not even try to connect


# -- results at a member ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_member_writes_what_its_policy_says_and_loses_nothing_if_it_cannot(databases, tmp_path):
    federation = Loopback.make(tmp_path, databases)
    for name, kept in (("south", "ids"), ("west", "none")):
        path = tmp_path / "trust" / name / "policy.toml"
        path.write_text(path.read_text().replace('table = "labels"', f'table = "{kept}"'))
    saved = {name: federation.out(name) / "codetable.json" for name in MEMBERS}
    saved["north"].mkdir(parents=True)  # a folder, so that no file can be written there
    try:
        processes = [federation.start_server(), *map(federation.start_member, MEMBERS)]
        assert [process.wait(PATIENCE) for process in processes] == [0, 2, 0, 0]
        assert "codetable.json: not a regular file" in federation.said("north")
        assert (federation.out("north") / MEMBER_JOURNAL).exists()
        saved["north"].rmdir()
        assert federation.start_member("north").wait(PATIENCE) == 0  # and the server is gone
        result = federation.result()
    finally:
        federation.close()
    assert result.table == simulate(databases).table
    labels = result.table.vocabulary
    told = CodeTable.load(saved["north"]).vocabulary  # north knows items that it does not have only by their ids
    assert {one for one in told if not one.startswith("#")} == {one for row in databases["north"] for one in row}
    assert all(re.fullmatch("#[0-9a-f]{32}", label) for label in CodeTable.load(saved["south"]).vocabulary)
    assert not saved["west"].exists()
    assert "not saved, as results.table = none" in federation.said("west")
    assert not any(label in (tmp_path / "west.txt").read_text() for label in labels)
    for name in MEMBERS:
        [found] = AnswerLedger(tmp_path / "trust" / name / "ledger.json").entries().answers
        assert (found.members, found.runs) == (list(MEMBERS), 1)


@pytest.mark.slow
def test_members_name_items_of_others_and_the_server_names_none(tmp_path):
    """With labels shared among members, over real connections; another member has a catalogue instead."""
    rows = {
        "north": [["rash", "north only"]] * 12,
        "south": [["rash", "fever"]] * 12 + [["too rare"]],
        "west": [["fever", "west only"]] * 12,
    }
    whole = sorted({label for part in rows.values() for row in part for label in row})
    joined = TransactionDatabase.from_transactions([whole, *(row for part in rows.values() for row in part)])
    bounds = np.cumsum([1, *map(len, rows.values())])
    parts = {name: joined.take(range(*pair)) for name, pair in zip(rows, pairwise(bounds.tolist()), strict=True)}
    for shared in ("members", "none"):
        folder = tmp_path / shared
        federation = Loopback.make(folder, parts, limits={"min_count": 5, "min_members_with": 1})
        for path in (federation.file, *(folder / "trust" / name / "policy.toml" for name in MEMBERS)):
            path.write_text(path.read_text().replace('share_labels = "none"', f'share_labels = "{shared}"'))
        policy = folder / "trust" / "south" / "policy.toml"
        policy.write_text(policy.read_text().replace('table = "labels"', 'table = "ids"'))
        (folder / "codes.txt").write_text("west only\ntoo rare\nunknown\n")
        try:
            processes = [federation.start_server(), federation.start_member("north", "--labels", folder / "codes.txt")]
            processes += map(federation.start_member, ("south", "west"))
            assert [process.wait(PATIENCE) for process in processes] == [0] * 4, federation.said("north")
        finally:
            federation.close()
        tables = {name: CodeTable.load(federation.out(name) / "codetable.json") for name in ("server", *MEMBERS)}
        named = {
            name: {one for one in tables[name].vocabulary if not one.startswith(("#", "item "))} for name in tables
        }
        everything = {"rash", "fever", "north only", "west only"}
        assert named["server"] == named["south"] == set()
        assert named["north"] == (everything if shared == "members" else {"rash", "north only", "west only"})
        assert named["west"] == (everything if shared == "members" else {"fever", "west only"})
        for file in federation.out("server").iterdir():
            assert not any(label.encode() in file.read_bytes() for label in whole if label != "rash")
