"""TLS handshakes of enrolled parties, and of others."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
from trusting import DAY, NOW, enrolled, mode

from fedslim.errors import CertificateError, ParameterError, UntrustedError
from fedslim.trust import keys as key_files
from fedslim.trust.authority import Authority
from fedslim.trust.certificates import Role, make_certificate, pem
from fedslim.trust.enrolment import install, make_demo_ca, make_request
from fedslim.trust.identity import TrustStore
from fedslim.trust.tls import client_context, explain, peer_name, refresh, server_context

# -- handshakes ------------------------------------------------------------------------------------------------------


def handshake(server, member, host="localhost", *, careless=False):
    """Return what the server and the member get from a handshake and a byte each way: the peer's name, or an error.

    A side that does not verify certificates is not asked for the name, unless it is `careless`.
    """
    ours, theirs = socket.socketpair()
    found = {}

    def side(name, context, plain, **how):
        with plain:
            plain.settimeout(20)
            try:
                with context.wrap_socket(plain, **how) as wrapped:
                    found[name] = peer_name(wrapped) if context.verify_mode or careless else None
                    if name == "server":
                        wrapped.sendall(b"!")
                    wrapped.recv(1)  # in TLS 1.3 a member learns only now that it was refused
                    if name == "member":
                        wrapped.sendall(b"!")
            except (OSError, UntrustedError) as error:
                found[name] = error

    thread = threading.Thread(target=side, args=("server", server, theirs), kwargs={"server_side": True})
    thread.start()
    side("member", member, ours, server_hostname=host)
    thread.join()
    return found["server"], found["member"]


def told(error, peer="the peer"):
    assert isinstance(error, ssl.SSLError), error
    return str(explain(error, peer))


def why(error):
    """Return OpenSSL's error number for a certificate (x509_vfy.h, as in `_VERIFYING`), or its reason code."""
    assert isinstance(error, ssl.SSLError), error
    assert str(explain(error, "the peer")).startswith("the peer ")
    return getattr(error, "verify_code", 0) or error.reason


UNKNOWN_CA, OLD_LIST, OTHER_ROLE, OTHER_HOST = 20, 12, 26, 62


def loose(identity, protocol, **changes):
    """Create a context without any checks, as an attacker would."""
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if identity is not None:
        context.load_cert_chain(identity.folder / "certificate.pem", identity.folder / "key.pem")
    for name, value in changes.items():
        setattr(context, name, value)
    return context


def loose_client(identity, **changes):
    return loose(identity, ssl.PROTOCOL_TLS_CLIENT, **changes)


def loose_server(identity):
    return loose(identity, ssl.PROTOCOL_TLS_SERVER)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_both_sides_know_each_other(trial, host):
    contexts = server_context(trial.server, now=NOW), client_context(trial.members[0], now=NOW)
    assert handshake(*contexts, host) == ("north", "server")


def test_contexts_are_strict(trial):
    for context in (server_context(trial.server, now=NOW), client_context(trial.members[0], now=NOW)):
        assert context.minimum_version is ssl.TLSVersion.TLSv1_3
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.verify_flags & ssl.VERIFY_CRL_CHECK_LEAF
        assert len(context.get_ca_certs()) == 1
    assert context.check_hostname
    assert not context.hostname_checks_common_name


def test_a_session_is_not_resumed(trial):
    """A resumed session would skip the check of certificates, and so of revocations since."""
    server, member = server_context(trial.server, now=NOW), client_context(trial.members[0], now=NOW)
    assert server.num_tickets == 0
    assert server.options & ssl.OP_NO_TICKET
    sessions = []

    def meet(session):
        ours, theirs = socket.socketpair()

        def serve():
            with theirs, server.wrap_socket(theirs, server_side=True) as wrapped:
                wrapped.sendall(b"!")
                wrapped.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        with ours, member.wrap_socket(ours, server_hostname="localhost", session=session) as wrapped:
            wrapped.recv(1)  # tickets would arrive before it
            sessions.append(wrapped.session)
            reused = wrapped.session_reused
            wrapped.sendall(b"!")
        thread.join()
        return reused

    assert not meet(None)
    assert not meet(sessions[0])
    assert not sessions[0].has_ticket


def test_a_context_needs_a_valid_certificate_of_its_role(trial):
    with pytest.raises(CertificateError, match=r"'north' is signed as a member, .* needs a server; .*--role server"):
        server_context(trial.members[0], now=NOW)
    with pytest.raises(CertificateError, match=r"'server' is signed as a server, .* needs a member"):
        client_context(trial.server, now=NOW)
    with pytest.raises(UntrustedError, match="expired on"):
        client_context(trial.members[0], now=NOW + 31 * DAY)
    trial.authority.revoke("north", now=NOW)
    with pytest.raises(UntrustedError, match="was revoked"):
        client_context(replace(trial.members[0], trust=trial.authority.trust), now=NOW)


def test_over_the_network_with_asyncio(trial):
    async def meet():
        met = asyncio.get_running_loop().create_future()

        async def serve(reader, writer):
            met.set_result(peer_name(writer.get_extra_info("ssl_object")))
            writer.write(await reader.readexactly(5))
            await writer.drain()
            writer.close()

        context = server_context(trial.server, now=NOW)
        async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
            port = server.sockets[0].getsockname()[1]
            context = client_context(trial.members[1], now=NOW)
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            connection = writer.get_extra_info("ssl_object")
            writer.write(b"hello")
            answer = await reader.readexactly(5)
            named = peer_name(connection)
            writer.close()
            await writer.wait_closed()
            return await met, named, answer, connection.version(), connection.session_reused

    assert asyncio.run(asyncio.wait_for(meet(), 60)) == ("south", "server", b"hello", "TLSv1.3", False)


def test_another_authority_is_unknown_on_both_sides(trial, authority, tmp_path):
    member = enrolled(authority, tmp_path / "north", "north")
    server = enrolled(authority, tmp_path / "server", "server", Role.SERVER)
    refused, _ = handshake(server_context(trial.server, now=NOW), loose_client(member))
    assert why(refused) == UNKNOWN_CA
    _, refused = handshake(loose_server(server), client_context(trial.members[0], now=NOW))
    assert why(refused) == UNKNOWN_CA


def test_another_authority_of_the_same_name_is_refused(trial, tmp_path):
    """A CA is identified by its key, not by its name."""
    twin = Authority.create(tmp_path / "twin", trial.authority.name, now=NOW)
    member = enrolled(twin, tmp_path / "north", "north")
    refused, _ = handshake(server_context(trial.server, now=NOW), loose_client(member))
    assert isinstance(refused, ssl.SSLCertVerificationError)


@pytest.mark.parametrize(
    ("when", "words", "alert"),
    [
        (NOW - 40 * DAY, "its certificate has expired", "has expired"),
        (NOW + 2 * DAY, "its certificate is not valid yet; check the clocks", "check the clocks"),
    ],
)
def test_certificates_out_of_time_are_refused_by_both_sides(tmp_path, when, words, alert):
    authority = Authority.create(tmp_path / "ca", now=NOW - 50 * DAY)
    good = enrolled(authority, tmp_path / "a", "a"), enrolled(authority, tmp_path / "b", "b", Role.SERVER)
    member = enrolled(authority, tmp_path / "c", "c", now=when, days=30)
    server = enrolled(authority, tmp_path / "d", "d", Role.SERVER, now=when, days=30)
    authority.renew_list(now=NOW)
    trust = authority.trust
    refused, alerted = handshake(server_context(replace(good[1], trust=trust), now=NOW), loose_client(member))
    assert words in told(refused)
    assert alert in told(alerted)
    _, refused = handshake(loose_server(server), client_context(replace(good[0], trust=trust), now=NOW))
    assert words in told(refused)


def test_revoked_certificates_are_refused_by_both_sides(trial):
    trial.authority.revoke("north", now=NOW)
    trial.authority.revoke("server", now=NOW)
    trust = trial.authority.trust
    member = client_context(replace(trial.members[1], trust=trust), now=NOW)
    _, refused = handshake(server_context(trial.server, now=NOW), member)
    assert "its certificate was revoked" in told(refused)
    other = make_request("other", trial.folder / "other", hosts=["localhost"]).file.read_bytes()
    bundle = trial.authority.sign(other, role=Role.SERVER, now=NOW).bundle
    server = install(trial.folder / "other", bundle, fingerprint=trial.authority.fingerprint, now=NOW)
    refused, alerted = handshake(server_context(server, now=NOW), client_context(trial.members[0], now=NOW))
    assert "its certificate was revoked" in told(refused)
    assert "our certificate was revoked" in told(alerted)
    assert handshake(server_context(server, now=NOW), member) == ("south", "other")


def test_a_server_learns_of_a_revocation_while_it_runs(trial):
    server = server_context(trial.server, now=NOW)
    member = client_context(trial.members[0], now=NOW)
    assert handshake(server, member) == ("north", "server")
    trial.authority.revoke("north", now=NOW)
    refresh(server, trial.authority.trust)
    refused, _ = handshake(server, member)
    assert "its certificate was revoked" in told(refused)
    assert handshake(server, client_context(trial.members[1], now=NOW)) == ("south", "server")


def test_an_old_revocation_list_lets_nobody_in(tmp_path):
    then = NOW - 91 * DAY
    authority = Authority.create(tmp_path / "ca", now=then)
    server = enrolled(authority, tmp_path / "fed", "fed", Role.SERVER, now=then, days=300)
    member = enrolled(authority, tmp_path / "a", "a", now=then, days=300)
    refused, _ = handshake(server_context(server, now=then), loose_client(member))
    assert why(refused) == OLD_LIST
    assert "crl.pem" in told(refused)


@pytest.mark.parametrize(("host", "words"), [("fed.example", "other host names"), ("10.0.0.7", "other addresses")])
def test_a_server_at_another_host_is_refused(trial, host, words):
    contexts = server_context(trial.server, now=NOW), client_context(trial.members[0], now=NOW)
    _, refused = handshake(*contexts, host)
    assert words in told(refused)


def test_the_common_name_is_not_used_as_a_host_name(trial):
    contexts = server_context(trial.server, now=NOW), client_context(trial.members[0], now=NOW)
    _, refused = handshake(*contexts, "server")
    assert why(refused) == OTHER_HOST


def test_a_member_must_say_whom_it_calls(trial):
    """Up to 3.13, Python lets a client leave out the host name, and would then accept any server of the federation."""
    contexts = server_context(trial.server, now=NOW), client_context(trial.members[0], now=NOW)
    objects, wires = [], (ssl.MemoryBIO(), ssl.MemoryBIO())
    for side, context in enumerate(contexts):
        try:
            objects.append(context.wrap_bio(wires[side], wires[1 - side], server_side=side == 0))
        except ValueError:
            context.check_hostname = False  # the only other way to skip the check
            objects.append(context.wrap_bio(wires[side], wires[1 - side]))
    for _ in range(4):
        for each in objects:
            with contextlib.suppress(ssl.SSLWantReadError):
                each.do_handshake()
    assert peer_name(objects[0]) == "north"
    with pytest.raises(UntrustedError, match="does not check the server's host name"):
        peer_name(objects[1])


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_older_tls_is_refused_by_both_sides(trial):
    old = loose_client(trial.members[0], maximum_version=ssl.TLSVersion.TLSv1_2)
    refused, alerted = handshake(server_context(trial.server, now=NOW), old)
    assert why(refused) == "UNSUPPORTED_PROTOCOL"
    assert why(alerted).endswith("ALERT_PROTOCOL_VERSION")
    server = loose_server(trial.server)
    server.maximum_version = ssl.TLSVersion.TLSv1_2
    _, refused = handshake(server, client_context(trial.members[0], now=NOW))
    assert why(refused).endswith(("UNSUPPORTED_PROTOCOL", "ALERT_PROTOCOL_VERSION"))  # either side may be first


def test_a_member_without_a_certificate_is_refused(trial):
    refused, alerted = handshake(server_context(trial.server, now=NOW), loose_client(None))
    assert why(refused) == "PEER_DID_NOT_RETURN_A_CERTIFICATE"
    assert why(alerted).endswith("ALERT_CERTIFICATE_REQUIRED")


def test_a_member_cannot_act_as_a_server(trial):
    """A member's certificate has no host names, so the check of host names is switched off here."""
    member = client_context(trial.members[1], now=NOW)
    member.check_hostname = False
    _, refused = handshake(loose_server(trial.members[0]), member)
    assert why(refused) == OTHER_ROLE


def test_a_server_cannot_act_as_a_member(trial):
    refused, alerted = handshake(server_context(trial.server, now=NOW), loose_client(trial.server))
    assert why(refused) == OTHER_ROLE
    assert why(alerted).endswith("ALERT_UNSUPPORTED_CERTIFICATE")


def test_a_name_is_taken_from_a_certificate_of_the_right_role_only(trial):
    """TLS has checked the role already; this is the second check."""

    def connection(context, shown, *, server_side):
        return SimpleNamespace(
            context=context,
            server_side=server_side,
            server_hostname=None if server_side else "localhost",
            version=lambda: "TLSv1.3",
            getpeercert=lambda binary_form: shown.certificate_der if binary_form else None,
        )

    server, north = trial.server, trial.members[0]
    ours, theirs = server_context(server, now=NOW), client_context(north, now=NOW)
    assert peer_name(connection(ours, north, server_side=True)) == "north"
    assert peer_name(connection(theirs, server, server_side=False)) == "server"
    for context, shown, side in ((ours, server, True), (theirs, north, False)):
        with pytest.raises(UntrustedError, match=repr(shown.name)):
            peer_name(connection(context, shown, server_side=side))


def test_a_member_cannot_sign_another(trial, tmp_path):
    south = trial.members[1]
    key = key_files.new_key()
    forged = make_certificate(
        south.certificate, south._key, ("north", key.public_key()), (Role.MEMBER, ()), (NOW - DAY, NOW + DAY)
    )
    (tmp_path / "chain.pem").write_bytes(pem(forged) + pem(south.certificate))
    key_files.write_key(key, tmp_path / "key.pem")
    member = loose_client(None)
    member.load_cert_chain(tmp_path / "chain.pem", tmp_path / "key.pem")
    refused, _ = handshake(server_context(trial.server, now=NOW), member)
    assert isinstance(refused, ssl.SSLCertVerificationError)


def test_plain_text_is_refused(trial):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"GET / HTTP/1.0\r\n\r\n")
        with pytest.raises(ssl.SSLError) as caught:
            server_context(trial.server, now=NOW).wrap_socket(theirs, server_side=True)
    assert "it does not speak TLS at all" in told(caught.value)


def test_a_peer_has_no_name_unless_tls_verified_it(trial):
    server, member = server_context(trial.server, now=NOW), client_context(trial.members[0], now=NOW)
    with_nothing = server.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=True)
    with pytest.raises(UntrustedError, match="it is refused"):
        peer_name(with_nothing)
    # getpeercert() returns a certificate even if TLS did not verify it.
    _, refused = handshake(server, loose_client(trial.members[0]), careless=True)
    assert isinstance(refused, UntrustedError)
    assert "does not verify certificates" in str(refused)
    refused, _ = handshake(loose_server(trial.server), member, careless=True)
    assert "does not verify certificates" in str(refused)


# -- a demo on one machine ---------------------------------------------------------------------------------------------


def test_a_demo_is_complete_and_private(trial):
    assert sorted(path.name for path in trial.folder.iterdir()) == ["ca", "north", "server", "south"]
    assert all(mode(path) == 0o700 for path in (trial.folder, *trial.folder.iterdir()))
    assert {path.name for path in trial.folder.rglob("*") if path.is_file() and mode(path) == 0o600} == {
        *("ca.key", "key.pem", "ledger.json"),
    }


@pytest.mark.parametrize("members", [[], ["a", "a"], ["server"], ["ca"], ["A"]])
def test_a_demo_needs_members(tmp_path, members):
    with pytest.raises(ParameterError, match="members"):
        make_demo_ca(tmp_path / "try", members, now=NOW)
    assert not (tmp_path / "try").exists()


def test_a_demo_is_made_in_a_new_folder(tmp_path):
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(CertificateError, match="this folder is not empty"):
        make_demo_ca(tmp_path, ["a"], now=NOW)


@pytest.mark.parametrize(
    "host",
    [
        "*.example.org",
        "https://a.example",
        "a.example:443",
        "-a",
        "a..b",
        "",
        "fe80::1%eth0",
        "10.0.0.256",
        "ä.example",
    ],
)
def test_invalid_hosts_are_refused(tmp_path, host):
    with pytest.raises(ParameterError, match="host: "):
        make_request("fed", tmp_path / "fed", hosts=[host])
    assert not (tmp_path / "fed").exists()


def test_trust_takes_only_authorities(trial):
    with pytest.raises(CertificateError, match="not the certificate of a CA"):
        TrustStore(trial.members[0].certificate, trial.authority.trust.revocations)
