"""A federation over TLS in one process, from its file to its results; and keys that a malicious server replaces."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest

from fedslim.data import load
from fedslim.data.partition import iid
from fedslim.data.vocabulary import ItemSecret, Vocabulary
from fedslim.errors import FedslimError, JournalError, ProtocolError, RunError, UntrustedError, WriteError
from fedslim.federated import simulate
from fedslim.federated.accounting import save_served
from fedslim.federated.deployment import (
    MEMBER_JOURNAL,
    SERVER_JOURNAL,
    DeployedMember,
    DeployedServer,
    KeyTrust,
    MemberTrust,
)
from fedslim.federated.records import load_run
from fedslim.network.connection import Patience
from fedslim.network.journal import Journal
from fedslim.protocol import messages as m
from fedslim.protocol.member import MemberInput, MemberSession
from fedslim.protocol.server import ServerSession
from fedslim.safeguards.audit import AuditLog, summarise
from fedslim.secagg.keys import AgreementKey
from fedslim.settings.federation_file import write_template
from fedslim.trust.enrolment import install_list, make_demo_ca

MEMBERS = ("north", "south", "west")
SECRET = ItemSecret.from_random(bytes(32))


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    return make_demo_ca(tmp_path_factory.mktemp("trust") / "trial", (*MEMBERS, "stranger"), now=datetime.now(UTC))


@pytest.fixture(scope="module")
def databases():
    database = load("encounters").take(range(900))
    return dict(zip(MEMBERS, iid(database, len(MEMBERS), seed=0).parts, strict=True))


@pytest.fixture
def file(tmp_path):
    chosen = {"items.secret_fingerprint": SECRET.fingerprint, "limits.min_count": 1, "limits.min_members_with": 1}
    return write_template(tmp_path / "federation.toml", "a try", MEMBERS, "x", host="localhost", chosen=chosen)


def of_variant(file, variant):
    return replace(file, federation=replace(file.federation, variant=variant))


def identity(trial, name):
    return next(member for member in trial.members if member.name == name)


async def listening(file, trial, folder, *, resume=False, port=0):
    """Start a server as a task; return it once it listens."""
    folder.mkdir(exist_ok=True)
    server = DeployedServer(file, trial.server, folder)
    serving = asyncio.create_task(server.run(resume=resume, host="127.0.0.1", port=port))
    while server.network is None or not server.network.port:  # it is made within the task
        await asyncio.sleep(0.005)
        assert not serving.done(), serving.exception()
    return server, serving


def taking_part(file, trial, databases, folder, port, *, vocabulary=None, audit=None):
    """Start the member that a folder is named after, as a task."""
    folder.mkdir(exist_ok=True)
    mine = (identity(trial, folder.name), databases[folder.name], SECRET, vocabulary, folder)
    member = DeployedMember(file, *mine, audit=audit)
    return asyncio.create_task(member.run(host="localhost", port=port))


async def played(file, trial, databases, out, *, members=MEMBERS, vocabulary=None, audits=()):
    """Run server and members as tasks; return the server's result and what each member received."""
    server, serving = await listening(file, trial, out / "server")
    running = [
        taking_part(
            file, trial, databases, out / name, server.network.port, vocabulary=vocabulary, audit=dict(audits).get(name)
        )
        for name in members
    ]
    try:
        served = await serving
        return served, await asyncio.gather(*running)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


@pytest.mark.parametrize("variant", ["x", "sa", "so"])
def test_over_tls_the_table_is_that_of_one_process(variant, file, trial, databases, tmp_path):
    vocabulary = Vocabulary.of(next(iter(databases.values())).vocabulary, SECRET)
    file = of_variant(file, variant)
    file = replace(
        file,
        items=replace(file.items, vocabulary_digest=vocabulary.digest.hex(), secret_fingerprint=vocabulary.fingerprint),
    )
    served, received = asyncio.run(played(file, trial, databases, tmp_path, vocabulary=vocabulary))
    expected = simulate(databases, variant=variant).table
    assert served.table.found == expected.found
    assert served.table.compression == expected.compression
    for told in received:
        assert (told.table == expected) == (variant != "so")
        assert variant != "so" or {e.labels for e in told.table} <= {e.labels for e in expected}
    assert served.lost is None
    assert (tmp_path / "server" / SERVER_JOURNAL).exists()  # until the results are saved
    assert [step.itemsets for step in served.history][-1] >= len(expected) - 1
    record = served.as_dict(file)
    assert (record["itemsets"], record["rounds"]) == (len(expected), served.communication.rounds)
    save_served(served, file, tmp_path / "saved", "fedslim server")
    kept = load_run(tmp_path / "saved")
    assert (kept.kind, kept.variant, kept.code_table) == ("server", variant, served.table)
    assert [own.name for own in kept.members] == list(file.federation.members)
    assert kept.settings["width"] == file.limits.width
    assert (kept.settings["effort"], kept.settings["seed"]) == (file.limits.effort, file.limits.seed)
    # Only a server of so sees the members' usages; no server learns how many transactions a member has.
    assert {own.usages is None for own in kept.members} == {variant != "so"}
    assert {own.transactions for own in kept.members} == {None}
    assert kept.history == list(served.history)


def test_what_leaves_a_member_is_in_its_audit_log(file, trial, databases, tmp_path):
    with AuditLog.of(tmp_path / "audit.jsonl", file, "north") as audit:
        served, _ = asyncio.run(played(file, trial, databases, tmp_path, audits=[("north", audit)]))
    found = summarise(tmp_path / "audit.jsonl").total
    assert found.messages == served.communication.rounds + 3  # and Join, Confirm and Heard


def test_a_member_that_is_away_for_too_long_is_named_and_the_best_so_far_is_kept(file, trial, databases, tmp_path):
    file = replace(file, timeouts=replace(file.timeouts, grace=0.5))

    async def act():
        server, serving = await listening(file, trial, tmp_path / "server")
        port = server.network.port
        tasks = {name: taking_part(file, trial, databases, tmp_path / name, port) for name in MEMBERS}
        while server.session.rounds < 12:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        tasks["south"].cancel()
        served = await serving
        others = [tasks["north"], tasks["west"]]
        return served, await asyncio.gather(*others, return_exceptions=True)

    served, others = asyncio.run(act())
    assert "'south' stayed away" in str(served.lost)
    assert len(served.table) > 0
    assert served.ending == "member lost"
    assert all(isinstance(error, RunError) and "south" in str(error) for error in others)


async def broken_off(file, trial, databases, out, *, at):
    """Run a server that is stopped and resumed after each of these numbers of rounds; return the last result."""
    port, tasks, earlier = 0, [], []
    for number in (*at, None):
        server, serving = await listening(file, trial, out / "server", resume=bool(earlier), port=port)
        port = server.network.port
        tasks = tasks or [taking_part(file, trial, databases, out / name, port) for name in MEMBERS]
        if number is None:
            break
        while server.session.rounds < number:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        earlier.append((server.account, server.network.status()))
    served = await serving
    await asyncio.gather(*tasks)
    return served, earlier


class SmallDisk:
    """A file on an almost full disk: large writes fail, small ones still succeed."""

    def __init__(self, file, room):
        self._file, self._room = file, room

    def write(self, data):
        if self._file.tell() + len(data) > self._room:
            raise OSError(28, "No space left on device")
        return self._file.write(data)

    def __getattr__(self, name):
        return getattr(self._file, name)


@pytest.fixture
def small_disk(monkeypatch):
    """Put journals of a name on an almost full disk, until there is room again."""

    def begin(name, room):
        create = Journal.create.__func__

        def small(cls, path, header, *, key):
            journal = create(cls, path, header, key=key)
            if path.match(name):
                journal._file = SmallDisk(journal._file, room)
            return journal

        monkeypatch.setattr(Journal, "create", classmethod(small))

    return begin


FULL = "No space left on device; the run can be resumed"


@pytest.mark.parametrize("part", [0.4, 0.9])
def test_a_server_whose_disk_is_full_ends_clearly_and_can_be_resumed(
    file, trial, databases, tmp_path, small_disk, part
):
    (tmp_path / "calm").mkdir()
    calm, _ = asyncio.run(played(file, trial, databases, tmp_path / "calm"))
    room = int(part * (tmp_path / "calm/server" / SERVER_JOURNAL).stat().st_size)

    async def main():
        small_disk(f"server/{SERVER_JOURNAL}", room)
        server, serving = await listening(file, trial, tmp_path / "server")
        port = server.network.port
        tasks = [taking_part(file, trial, databases, tmp_path / name, port) for name in MEMBERS]
        with pytest.raises(WriteError, match=FULL):
            await serving
        _, serving = await listening(file, trial, tmp_path / "server", resume=True, port=port)
        return await serving, await asyncio.gather(*tasks)

    served, received = asyncio.run(main())
    assert served.table == calm.table
    assert served.lost is None
    assert all(each.table is not None for each in received)


def test_a_member_whose_disk_is_full_ends_clearly_and_can_come_back(file, trial, databases, tmp_path, small_disk):
    (tmp_path / "calm").mkdir()
    calm, _ = asyncio.run(played(file, trial, databases, tmp_path / "calm"))

    async def main():
        small_disk(f"{MEMBERS[0]}/{MEMBER_JOURNAL}", 8_000)
        server, serving = await listening(file, trial, tmp_path / "server")
        port = server.network.port
        first, *rest = [taking_part(file, trial, databases, tmp_path / name, port) for name in MEMBERS]
        with pytest.raises(WriteError, match=FULL):
            await first
        again = taking_part(file, trial, databases, tmp_path / MEMBERS[0], port)
        return await asyncio.gather(serving, again, *rest)

    served, *received = asyncio.run(main())
    assert served.table == calm.table
    assert served.lost is None
    assert all(each.table is not None for each in received)


def test_figures_go_on_after_a_resume(file, trial, databases, tmp_path):
    (tmp_path / "calm").mkdir()
    calm, _ = asyncio.run(played(file, trial, databases, tmp_path / "calm"))
    served, earlier = asyncio.run(broken_off(file, trial, databases, tmp_path, at=(6, 15)))
    assert served.table == calm.table
    assert served.communication.rounds == calm.communication.rounds
    unchanging = ("round", "itemsets", "bits_total", "L_percent")
    assert [[getattr(row, k) for k in unchanging] for row in served.history] == [
        [getattr(row, k) for k in unchanging] for row in calm.history
    ]
    for figure in ("seconds", "bytes_total"):
        values = [getattr(row, figure) for row in served.history]
        assert values == sorted(values)
    # Repeated rounds and joins come on top; costs after the last recorded round are lost.
    c = served.communication
    assert c.bytes_total > calm.communication.bytes_total
    assert {kind for kind, _ in c.traffic} == {kind for kind, _ in calm.communication.traffic}
    assert c.traffic["Join", "up"].messages == 9
    assert c.traffic["Finish", "down"].messages == 3
    assert served.seconds > served.history[-1].seconds
    (first, _), (second, status) = earlier
    assert second.communication.rounds > first.communication.rounds >= 5
    assert status["bytes_up"] == second.communication.bytes_up
    for one, other in zip(first.history, second.history, strict=False):
        assert msgspec.structs.replace(one, seconds=0.0) == msgspec.structs.replace(other, seconds=0.0)


def test_a_journal_of_another_run_is_not_overwritten(file, trial, tmp_path):
    (tmp_path / SERVER_JOURNAL).write_bytes(b"something")
    server = DeployedServer(file, trial.server, tmp_path)
    with pytest.raises(JournalError, match="journal of another run"):
        asyncio.run(server.run())
    with pytest.raises(JournalError, match="not a journal of fedslim"):
        asyncio.run(server.run(resume=True))


def test_a_server_does_not_begin_where_others_could_replace_its_journal(file, trial, tmp_path):
    """It reports that before members join, not after hours of work that cannot be resumed."""
    tmp_path.chmod(0o777)
    server = DeployedServer(file, trial.server, tmp_path)
    for resume in (False, True):
        with pytest.raises(JournalError, match=f"run `chmod go-w {tmp_path}`"):
            asyncio.run(asyncio.wait_for(server.run(resume=resume, port=0), 10))
    assert server.network is None


def test_who_is_not_in_the_file_does_not_take_part(file, trial, databases, tmp_path):
    with pytest.raises(FedslimError, match="stranger"):
        DeployedMember(file, identity(trial, "stranger"), databases["north"], SECRET, None, tmp_path, audit=None)


# -- the end ----------------------------------------------------------------------------------------------------------


class Killed(Exception):  # noqa: N818  # nothing of ours: nobody catches it
    pass


def member_of(file, trial, databases, out, name, *, killed=False):
    (out / name).mkdir(exist_ok=True)
    member = DeployedMember(file, identity(trial, name), databases[name], SECRET, None, out / name, audit=None)
    receive = member.session.receive

    def die(message):
        if isinstance(message, m.Finish):
            raise Killed
        return receive(message)

    if killed:  # when the end has arrived on its connection but was not handled
        member.session.receive = die
    return member


async def served_to(file, trial, out, *, resume=False, port=0):
    (out / "server").mkdir(exist_ok=True)
    server = DeployedServer(file, trial.server, out / "server")
    serving = asyncio.create_task(server.run(resume=resume, host="127.0.0.1", port=port))
    while server.network is None or not server.network.port:
        await asyncio.sleep(0.005)
        assert not serving.done(), serving.exception()
    return server, serving


async def all_but_west_hear(file, trial, databases, out, port):
    """Run all members and kill west when the end has arrived there; return what the others received."""
    members = [member_of(file, trial, databases, out, name, killed=name == "west") for name in MEMBERS]
    told = await asyncio.gather(*(one.run(host="localhost", port=port) for one in members), return_exceptions=True)
    assert isinstance(told[MEMBERS.index("west")], Killed)
    return told


@pytest.mark.parametrize("variant", ["x", "sa", "so"])
def test_a_member_killed_with_the_end_on_its_line_comes_back_for_it(variant, file, trial, databases, tmp_path):
    file = of_variant(file, variant)

    async def act():
        server, serving = await served_to(file, trial, tmp_path)
        port = server.network.port
        told = await all_but_west_hear(file, trial, databases, tmp_path, port)
        assert server.network.untold() == ("west",)
        assert not serving.done()
        west = await member_of(file, trial, databases, tmp_path, "west").run(host="localhost", port=port)
        return await serving, told[0], west

    served, north, west = asyncio.run(act())
    assert served.as_dict(file)["not_told"] == []
    assert west.ending == north.ending == "converged"
    assert (west.table == north.table) == (variant != "so")
    assert variant != "so" or len(west.table) > 0


def test_a_member_that_does_not_come_back_for_the_end_is_named(file, trial, databases, tmp_path, monkeypatch, logged):
    monkeypatch.setattr("fedslim.federated.deployment.patience", lambda _file: Patience(farewell=0.5))

    async def act():
        server, serving = await served_to(file, trial, tmp_path)
        await all_but_west_hear(file, trial, databases, tmp_path, server.network.port)
        return await serving

    served = asyncio.run(act())
    assert served.lost is None
    assert served.as_dict(file)["not_told"] == ["west"]
    assert "no acknowledgement from west: they may not know that the run has ended" in logged.messages


def test_a_member_killed_before_its_result_was_saved_does_not_need_the_server(file, trial, databases, tmp_path, logged):
    for variant in ("x", "sa", "so"):
        out = tmp_path / variant
        out.mkdir()
        ours = of_variant(file, variant)
        _, told = asyncio.run(played(ours, trial, databases, out))
        logged.clear()
        again = member_of(ours, trial, databases, out, "north")
        assert asyncio.run(again.run(host="localhost", port=1)) == told[0]
        assert "the run had already ended; the result is in the journal" in logged.messages


def test_a_server_killed_while_it_takes_leave_waits_for_those_who_have_not_heard(file, trial, databases, tmp_path):
    async def act():
        server, serving = await served_to(file, trial, tmp_path)
        port = server.network.port
        told = await all_but_west_hear(file, trial, databases, tmp_path, port)
        while server.network.untold() != ("west",):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        server, serving = await served_to(file, trial, tmp_path, resume=True, port=port)
        assert server.network.untold() == ("west",)
        west = await member_of(file, trial, databases, tmp_path, "west").run(host="localhost", port=port)
        return await serving, told[0], west

    served, north, west = asyncio.run(act())
    assert served.untold == ()
    assert west == north


# -- revocation -------------------------------------------------------------------------------------------------------


def test_a_revocation_counts_for_new_lines_of_a_server_that_runs(file, databases, tmp_path, logged):
    trial = make_demo_ca(tmp_path / "own", (*MEMBERS, "stranger"), now=datetime.now(UTC))
    crl = trial.folder / "server" / "crl.pem"

    def west():
        return member_of(file, trial, databases, tmp_path, "west").run(host="localhost", port=port)

    async def act():
        nonlocal port
        server, serving = await served_to(file, trial, tmp_path)
        port = server.network.port
        north = asyncio.create_task(
            member_of(file, trial, databases, tmp_path, "north").run(host="localhost", port=port)
        )
        while "north connected" not in logged.messages:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        good = crl.read_bytes()
        for number in range(2):  # an unusable list is logged once, and the old one stays
            crl.write_bytes(b"no list")
            os.utime(crl, ns=(1, 1))
            south = asyncio.create_task(
                member_of(file, trial, databases, tmp_path, "south").run(host="localhost", port=port)
            )
            while sum(line == "south connected" for line in logged.messages) <= number:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            south.cancel()
            await asyncio.gather(south, return_exceptions=True)
        crl.write_bytes(good)
        trial.authority.revoke("west", now=datetime.now(UTC))
        install_list(trial.folder / "server", (trial.folder / "ca" / "crl.pem").read_bytes())
        with pytest.raises(UntrustedError, match="it says that our certificate was revoked"):
            await west()
        assert not north.done()
        assert not serving.done()
        north.cancel()
        serving.cancel()
        await asyncio.gather(north, serving, return_exceptions=True)

    port = 0
    asyncio.run(asyncio.wait_for(act(), 60))
    unused = [record for record in logged.records if "ignored the new revocation list" in record.getMessage()]
    assert [record.levelname for record in unused] == ["WARNING"]
    number = trial.authority.trust.number
    assert f"now using revocation list {number}" in logged.messages
    assert any("its certificate was revoked" in line for line in logged.messages)


def test_a_line_that_is_there_is_cut_when_its_member_is_revoked(file, databases, tmp_path, logged):
    trial = make_demo_ca(tmp_path / "own", MEMBERS, now=datetime.now(UTC))
    file = replace(file, timeouts=replace(file.timeouts, grace=0.6))

    async def act():
        server, serving = await served_to(file, trial, tmp_path)
        port = server.network.port
        north, west = (
            asyncio.create_task(member_of(file, trial, databases, tmp_path, name).run(host="localhost", port=port))
            for name in ("north", "west")
        )
        while len(server.network._connections) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        trial.authority.revoke("west", now=datetime.now(UTC))
        install_list(trial.folder / "server", (trial.folder / "ca" / "crl.pem").read_bytes())
        with pytest.raises(UntrustedError, match="it says that our certificate was revoked"):
            await west
        assert list(server.network._connections) == ["north"]  # other members are not affected
        for task in (north, serving):
            assert not task.done()
            task.cancel()
        await asyncio.gather(north, serving, return_exceptions=True)

    asyncio.run(asyncio.wait_for(act(), 60))
    assert sum("refused 'west': the certificate of 'west' was revoked" in line for line in logged.messages) == 1
    assert "west disconnected: its certificate is no longer accepted" in logged.messages


def test_a_key_of_a_revoked_member_is_not_passed_on(file, databases, tmp_path):
    """Its connection may be older than the list."""
    trial = make_demo_ca(tmp_path / "own", MEMBERS, now=datetime.now(UTC))
    trust = trial.server.trust
    session = ServerSession(MEMBERS, file.settings(), run=bytes(16), keys=KeyTrust.of(file, lambda: trust))
    _, join = seated(file, trial, databases, "west")
    trial.authority.revoke("west", now=datetime.now(UTC))
    trust = trial.authority.trust
    with pytest.raises(ProtocolError, match="the certificate of 'west' was revoked"):
        session.receive("west", join, 0.0)


# -- signed keys ------------------------------------------------------------------------------------------------------


def seated(file, trial, databases, name="north"):
    own = MemberInput(
        databases[name], MEMBERS, file.settings(), SECRET, trust=MemberTrust.of_identity(file, identity(trial, name))
    )
    session = MemberSession(name, own)
    return session, session.join(os.urandom(32))


def roster(file, joins):
    ids = sorted({join.ids[k : k + 16] for join in joins.values() for k in range(0, len(join.ids), 16)})
    return m.Roster(
        bytes(16),
        file.settings(),
        list(MEMBERS),
        [joins[name].key for name in MEMBERS],
        b"".join(ids),
        0,
        [joins[name].certificate for name in MEMBERS],
        0,
    )


def confirmed(file, sessions, joins, lies=None):
    """Have all confirm an honest roster but north, which gets a forged one; return how north judges the signatures."""
    honest = roster(file, joins)
    signatures = [
        sessions[name].receive(roster(file, joins | (lies or {})) if name == "north" else honest).signature
        for name in MEMBERS
    ]
    return sessions["north"].receive(m.Confirmed(0, signatures))


@pytest.fixture
def joined(file, trial, databases):
    sessions = {name: seated(file, trial, databases, name) for name in MEMBERS}
    return {name: session for name, (session, _) in sessions.items()}, {name: j for name, (_, j) in sessions.items()}


def test_signed_keys_are_believed(file, joined):
    sessions, joins = joined
    assert confirmed(file, sessions, joins) is None
    assert isinstance(sessions["north"].receive(m.Ask(0, 0, [], [m.WantSupports()])), m.Masked)


def test_a_server_cannot_put_its_own_key_in_between(file, joined):
    sessions, joins = joined
    false = AgreementKey.from_random(os.urandom(32)).public
    lie = msgspec.structs.replace(joins["south"], key=false)
    with pytest.raises(UntrustedError):
        confirmed(file, sessions, joins, {"south": lie})
    with pytest.raises(ProtocolError, match="to confirm the roster"):
        sessions["north"].receive(m.Ask(0, 0, [], [m.WantSupports()]))


def test_nor_leave_signatures_out(file, joined):
    sessions, joins = joined
    with pytest.raises(ProtocolError, match="0 certificates"):
        sessions["north"].receive(msgspec.structs.replace(roster(file, joins), certificates=[]))
    mine = sessions["north"].receive(roster(file, joins)).signature
    for signatures in ([], [mine], [mine, b"", b""], [mine] * 3):
        with pytest.raises((ProtocolError, UntrustedError)):
            sessions["north"].receive(m.Confirmed(0, signatures))


def test_nor_let_a_member_speak_for_another(file, joined):
    sessions, joins = joined
    with pytest.raises(UntrustedError):
        confirmed(file, sessions, joins, {"south": joins["west"]})


def test_nor_take_a_key_that_was_signed_for_another_file(file, trial, databases, joined):
    sessions, joins = joined
    other = replace(file, limits=replace(file.limits, min_support=7))
    _, foreign = seated(other, trial, databases, "south")
    with pytest.raises(UntrustedError):
        confirmed(file, sessions, joins, {"south": foreign})
