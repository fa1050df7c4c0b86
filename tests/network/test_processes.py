"""Real processes over TLS: killed parties rejoin, refused ones are told why, and all get the same table."""

from __future__ import annotations

import random
import re
import shutil
import signal
import socket
import ssl
import time
from datetime import UTC, datetime, timedelta

import pytest
from processes import CRAWLING, MEMBERS, PATIENCE, SLOWLY, ends_as_if_nothing_had_happened

from fedslim.federated.loopback import HOST
from fedslim.federated.records import load_run
from fedslim.trust.authority import Authority
from fedslim.trust.certificates import Role
from fedslim.trust.enrolment import install, install_list, make_demo_ca, make_request
from fedslim.trust.identity import Identity
from fedslim.trust.tls import client_context

# -- kills ----------------------------------------------------------------------------------------------------------


def test_a_killed_member_and_a_killed_server_come_back(federate, calm):
    federation = federate()
    federation.start()
    federation.until_round(10)
    assert federation.kill("north") == -signal.SIGKILL
    federation.again("north")
    reached = federation.records("server")
    federation.until_round(reached + 10)
    federation.kill("server")
    assert federation.journal("server").exists()
    assert federation.serve().wait(PATIENCE) == 2  # without --resume
    assert "continue that run with --resume" in federation.said("server")
    federation.again("server")
    ends_as_if_nothing_had_happened(federation, calm)
    assert "rejoining the run" in federation.said("north")
    assert "resumed after" in federation.said("server")


def in_phase(federation, phase, rounds):
    """Start all processes and return in the given phase."""
    federation.serve()
    if phase == "joining":
        federation.join("north", "south")
        federation.until(lambda: "north connected" in federation.said("server"))
        return
    if phase == "seated":
        federation.relay.delay = CRAWLING
        federation.join(*MEMBERS)
        federation.until(lambda: federation.records("north") > 0)
        assert federation.records("server") < 0
        return
    federation.join(*MEMBERS)
    at = {"first": 0, "early": 3, "middle": rounds // 2, "last": rounds - 1, "end": rounds}[phase]
    federation.until_round(max(0, at - 2))
    if phase in {"last", "end"}:
        federation.relay.delay = CRAWLING
    federation.until_round(at)


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["joining", "seated", "first", "early", "middle", "last", "end"])
@pytest.mark.parametrize("variant", ["x", "sa", "so"])
def test_a_member_killed_in_any_phase_comes_back(federate, calm, variant, phase):
    federation = federate(variant=variant)
    in_phase(federation, phase, calm[variant].communication.rounds)
    federation.kill("north")
    federation.relay.delay = SLOWLY
    federation.again("north")
    if "west" not in federation.running:
        federation.join("west")
    ends_as_if_nothing_had_happened(federation, calm, variant)


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["joining", "seated", "first", "early", "middle", "last", "end"])
@pytest.mark.parametrize("variant", ["x", "sa", "so"])
def test_a_server_killed_in_any_phase_is_resumed(federate, calm, variant, phase):
    federation = federate(variant=variant, grace=8.0)
    in_phase(federation, phase, calm[variant].communication.rounds)
    federation.kill("server")
    federation.relay.delay = SLOWLY
    if phase in {"joining", "seated"}:
        federation.serve("--resume")  # no round was recorded: it starts a new run, and says so
    else:
        federation.again("server")
    if "west" not in federation.running:
        federation.join("west")
    ends_as_if_nothing_had_happened(federation, calm, variant)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_ten_random_kills_change_nothing(federate, calm, seed):
    rng = random.Random(seed)
    federation = federate(delay=0.03)
    rounds = calm["x"].communication.rounds
    federation.start()
    for at in sorted(rng.sample(range(rounds * 9 // 10), 10)):
        federation.until_round(at)
        who = rng.choice(("server", *MEMBERS))
        federation.kill(who)
        federation.again(who)
    ends_as_if_nothing_had_happened(federation, calm)


@pytest.mark.slow  # tests/chaos cuts lines, too
def test_lines_that_break_are_made_again(federate, calm):
    federation = federate()
    federation.start()
    for at in (0, 5, 20):
        federation.until_round(at)
        federation.relay.cut()
    ends_as_if_nothing_had_happened(federation, calm)
    assert federation.said("server").count("all members are connected again") >= 1


@pytest.mark.slow  # tests/network/test_hostile.py and tests/engines/test_exchange.py have this in one process
def test_a_member_that_stays_away_ends_the_run_with_the_best_so_far(federate, calm):
    federation = federate(grace=5.0)
    federation.start()
    federation.until_round(20)
    federation.kill("west")
    assert federation.ends("server", "north", "south") == [1, 1, 1]
    for who in ("server", "north", "south"):
        assert "'west' stayed away" in federation.said(who)
    figures = load_run(federation.files.out("server")).figures
    assert "'west' stayed away" in figures["reason"]
    assert figures["ending"] == "member lost"
    found = federation.result().table
    assert len(found) > 0
    assert found.compression.L_percent > calm["x"].table.compression.L_percent
    # If all come back after all, the run continues.
    federation.running.clear()
    federation.again("server")
    federation.join(*MEMBERS)
    ends_as_if_nothing_had_happened(federation, calm)


@pytest.mark.slow
def test_a_server_that_was_stopped_has_not_waited_meanwhile(federate, calm):
    """A member reconnected while the server was suspended; by the clock, it had been away for too long."""
    federation = federate(grace=3.0)
    federation.start()
    federation.until_round(20)
    server = federation.running["server"]
    federation.kill("west")
    federation.until(lambda: "west disconnected" in federation.said("server"))
    lines = len(federation.relay.lines)
    server.send_signal(signal.SIGSTOP)
    try:
        federation.join("west")
        federation.until(lambda: len(federation.relay.lines) > lines)
        time.sleep(4.0)
    finally:
        server.send_signal(signal.SIGCONT)
    ends_as_if_nothing_had_happened(federation, calm)


# -- signals --------------------------------------------------------------------------------------------------------


def test_sigterm_ends_a_member_that_can_come_back_and_a_server_with_the_best_so_far(federate, calm):
    federation = federate()
    federation.start()
    federation.until_round(5)
    assert federation.kill("south", signal.SIGTERM) == 130
    assert federation.journal("south").exists()
    federation.again("south")
    reached = federation.records("server")
    federation.until_round(reached + 5)
    federation.running["server"].send_signal(signal.SIGTERM)
    assert federation.ends("server", *MEMBERS) == [0] * 4
    result = federation.result()
    assert result.record.figures["ending"] == "interrupted"
    assert 0 < len(result.table) < len(calm["x"].table)
    assert all(table == result.table for table in result.told.values())


def test_sigterm_ends_a_server_whose_members_are_not_there(federate):
    federation = federate()
    federation.serve()
    federation.join("north")
    federation.until(lambda: "north connected" in federation.said("server"))
    assert federation.kill("server", signal.SIGTERM) == 1
    assert "stopped while waiting for 'south', 'west'" in federation.said("server")
    assert federation.ends("north") == [1]
    assert "stopped while" in federation.said("north")


def test_a_port_that_is_taken_is_said(federate):
    federation = federate()
    with socket.create_server((HOST, federation.port)):
        assert federation.serve().wait(PATIENCE) == 1
    assert f"cannot listen on {HOST}:{federation.port}" in federation.said("server")
    assert "internal error" not in federation.said("server")


# -- who may take part ----------------------------------------------------------------------------------------------


def enrolled(authority, folder, name, now, **how):
    request = make_request(name, folder, hosts=how.pop("hosts", ())).file.read_bytes()
    return install(folder, authority.sign(request, now=now, **how).bundle, fingerprint=authority.fingerprint, now=now)


@pytest.mark.slow  # tests/trust/test_handshakes.py has this without processes
def test_whoever_may_not_take_part_is_told_at_once_and_the_others_go_on(federate, calm, tmp_path):
    """Wrong CA, expired, revoked, not listed, another's name, another host, TLS 1.2; none disturbs the run."""
    federation = federate(delay=0.0, grace=300.0)
    files, trust, now = federation.files, tmp_path / "trust", datetime.now(UTC)
    authority = Authority.open(trust / "ca")
    make_demo_ca(tmp_path / "foreign", MEMBERS, now=now)
    enrolled(authority, tmp_path / "stranger", "east", now)
    revoked = enrolled(authority, tmp_path / "revoked", "gone", now)
    authority.revoke("gone", now=now)
    install_list(trust / "server", (trust / "ca" / "crl.pem").read_bytes())
    then = now - timedelta(days=20)
    old = make_demo_ca(tmp_path / "old", MEMBERS, now=then)
    enrolled(old.authority, tmp_path / "expired", "late", then, days=1)
    listed = files.file.read_text().replace('"west"', '"west", "east", "gone", "late"')
    assert listed != files.file.read_text()

    federation.serve()
    federation.join("north")
    federation.until(lambda: "north connected" in federation.said("server"))
    own = files.file.read_text()
    for name in ("east", "gone", "late"):
        shutil.copy(tmp_path / "west.csv", tmp_path / f"{name}.csv")

    def tried(who, identity, *more):
        if not (identity / "policy.toml").exists():
            shutil.copy(trust / "north" / "policy.toml", identity)
        return files.start_member(who, "--identity", str(identity), *more)

    began = time.monotonic()
    # Its own file does not list it; nor does the server's, whatever its own says.
    cases = {"east": tried("east", tmp_path / "stranger")}
    assert cases["east"].wait(PATIENCE) == 2
    assert "'east' is not a member" in federation.said("east")
    files.file.write_text(listed)
    cases = {
        "east": (tried("east", tmp_path / "stranger"), "'east' is not a member of this federation"),
        "gone": (tried("gone", tmp_path / "revoked"), "it says that our certificate was revoked"),
        "late": (tried("late", tmp_path / "expired"), "expired"),
        "south": (tried("south", tmp_path / "foreign" / "south"), "not signed by the CA of this federation"),
    }
    for who, (process, why) in cases.items():
        assert process.wait(PATIENCE) in {1, 2}, who
        assert why in federation.said(who)
    files.file.write_text(own)

    claims = tried("south", trust / "west")
    assert claims.wait(PATIENCE) == 2
    assert "the certificate belongs to 'west'" in federation.said("south")
    assert time.monotonic() - began < 60.0  # and the grace is 300

    context = client_context(revoked, now=now - timedelta(seconds=1))
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        pytest.raises(ssl.SSLError, match=r"(?i)protocol.version"),
        socket.create_connection((HOST, federation.port)) as line,
    ):
        context.wrap_socket(line, server_hostname=HOST)
    federation.join("south", "west")
    ends_as_if_nothing_had_happened(federation, calm)
    # The first is logged with its reason and the others are counted, so that strangers cannot fill the log.
    said = federation.said("server")
    assert said.count("refused a connection: ") == 1
    assert re.search(r"refused \d more connections; the latest: .* it does not speak TLS 1\.3\n", said)


def listens(port):
    with socket.socket() as line:
        return line.connect_ex((HOST, port)) == 0


def test_a_server_at_another_host_name_is_not_believed(federate, tmp_path):
    federation = federate(delay=0.0, grace=300.0)
    authority = Authority.open(tmp_path / "trust" / "ca")
    now = datetime.now(UTC)
    enrolled(authority, tmp_path / "elsewhere", "other", now, role=Role.SERVER, hosts=("example.org",))
    assert Identity.load(tmp_path / "elsewhere").role is Role.SERVER
    federation.serve("--identity", str(tmp_path / "elsewhere"))
    federation.until(lambda: listens(federation.port))
    federation.join("north")
    assert federation.ends("north") == [1]
    assert "its certificate is for other" in federation.said("north")
    assert federation.running["server"].poll() is None
