from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import pickle
import socket
import ssl
import stat
import subprocess
import threading
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given
from hypothesis import strategies as st

from fedslim.errors import CertificateError, DataError, ParameterError, UntrustedError
from fedslim.secagg import AgreementKey
from fedslim.transport.trust import (
    Authority,
    Files,
    Identity,
    Role,
    Statement,
    Trust,
    client_context,
    explained,
    install,
    install_list,
    make_renewal,
    make_request,
    make_trial,
    peer_name,
    read_trust,
    refresh,
    server_context,
)
from fedslim.transport.trust import keys as key_files
from fedslim.transport.trust.authority import read_records
from fedslim.transport.trust.certificates import make_certificate, pem
from fedslim.transport.trust.ledger import State

NOW = datetime.now(UTC).replace(microsecond=0)
"""Handshakes go by the clock of the machine; everything else by this."""

DAY = timedelta(days=1)
WORDS = "seven purple hedgehogs"


@pytest.fixture
def trial(tmp_path):
    """A federation of two members and a server."""
    return make_trial(tmp_path / "try", ["north", "south"], now=NOW)


@pytest.fixture
def authority(tmp_path):
    return Authority.create(tmp_path / "ca", "Heart Study CA", now=NOW)


def enrolled(authority, folder, name, role=Role.MEMBER, *, now=NOW, **how):
    """A new identity of an authority."""
    hosts = ("localhost",) if role is Role.SERVER else ()
    request = make_request(name, folder, hosts=hosts).file.read_bytes()
    signed = authority.sign(request, role=role, now=now, **how)
    return install(folder, signed.bundle, fingerprint=authority.fingerprint, now=now)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def extension(certificate, kind):
    return certificate.extensions.get_extension_for_class(kind)


# -- the authority ---------------------------------------------------------------------------------------------------


def test_an_authority_is_a_folder_of_its_owner(authority):
    assert mode(authority.folder) == 0o700
    modes = {path.name: mode(path) for path in authority.folder.iterdir()}
    assert modes == {"ca.key": 0o600, "ledger.json": 0o600, "ca.pem": 0o644, "crl.pem": 0o644}
    certificate = authority.certificate
    assert extension(certificate, x509.BasicConstraints).value == x509.BasicConstraints(ca=True, path_length=0)
    assert extension(certificate, x509.BasicConstraints).critical
    assert certificate.not_valid_after_utc == NOW + 5 * 365 * DAY
    assert Authority.open(authority.folder).fingerprint == authority.fingerprint


def test_openssl_agrees_that_it_is_an_authority(trial):
    ca, member = trial.folder / "ca" / "ca.pem", trial.folder / "north" / "certificate.pem"
    command = ["openssl", "verify", "-x509_strict", "-purpose", "sslclient", "-crl_check", "-CAfile", ca]
    command += ["-CRLfile", trial.folder / "ca" / "crl.pem", member]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no openssl on this machine")
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_authority_is_not_overwritten(authority):
    before = {path.name: path.read_bytes() for path in authority.folder.iterdir()}
    with pytest.raises(DataError, match="there is a CA in this folder already, and it is kept"):
        Authority.create(authority.folder, now=NOW)
    assert {path.name: path.read_bytes() for path in authority.folder.iterdir()} == before


@pytest.mark.parametrize("name", ["", " ", "a\nb", "\x1b[2J", "x" * 65, "Hörz"])
def test_names_of_authorities(tmp_path, name):
    with pytest.raises(ParameterError, match="cannot be the name of a certificate authority"):
        Authority.create(tmp_path / "ca", name, now=NOW)
    assert not (tmp_path / "ca").exists()


def test_times_need_a_zone_and_lifetimes_an_end(tmp_path, authority):
    with pytest.raises(ParameterError, match="has no time zone"):
        Authority.create(tmp_path / "other", now=datetime(2026, 1, 1))  # noqa: DTZ001  # that is the point
    request = make_request("north", tmp_path / "north").file.read_bytes()
    for days in (0, -1, 399):
        with pytest.raises(ParameterError, match=rf"days: {days} is no lifetime for this; give 1 to 398"):
            authority.sign(request, days=days, now=NOW)
    assert read_records(authority.folder) == []


def test_a_member_gets_what_a_member_needs_and_no_more(trial):
    certificate = trial.members[0].certificate
    assert [attribute.value for attribute in certificate.subject] == ["north"]
    found = {type(each.value): each for each in certificate.extensions}
    assert set(found) == {
        *(x509.BasicConstraints, x509.KeyUsage, x509.ExtendedKeyUsage),
        *(x509.SubjectKeyIdentifier, x509.AuthorityKeyIdentifier),
    }
    assert not found[x509.BasicConstraints].value.ca
    assert list(found[x509.ExtendedKeyUsage].value) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    usage = found[x509.KeyUsage].value
    assert usage.digital_signature
    assert not any((usage.key_cert_sign, usage.crl_sign, usage.key_agreement))


def test_a_server_gets_its_hosts(trial):
    server = trial.server
    assert (server.role, list(map(str, server.hosts))) == (Role.SERVER, ["localhost", "127.0.0.1", "::1"])
    assert list(extension(server.certificate, x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.SERVER_AUTH]


def test_the_authority_decides_about_hosts(authority, tmp_path):
    asked = make_request("fed", tmp_path / "fed", hosts=["evil.example"]).file.read_bytes()
    signed = authority.sign(asked, role=Role.SERVER, hosts=["fed.example", "10.0.0.7"], now=NOW)
    assert signed.record.hosts == ["fed.example", "10.0.0.7"]
    plain = make_request("other", tmp_path / "other").file.read_bytes()
    with pytest.raises(CertificateError, match="a server needs the host names"):
        authority.sign(plain, role=Role.SERVER, now=NOW)
    with pytest.raises(ParameterError, match="a member has none"):
        authority.sign(plain, hosts=["fed.example"], now=NOW)


def test_certificates_are_short_lived_and_never_outlive_the_authority(tmp_path):
    authority = Authority.create(tmp_path / "ca", days=100, now=NOW)
    assert enrolled(authority, tmp_path / "a", "a").expires == NOW + 90 * DAY
    later = NOW + 50 * DAY
    assert enrolled(authority, tmp_path / "b", "b", now=later).expires == NOW + 100 * DAY
    request = make_request("c", tmp_path / "c").file.read_bytes()
    with pytest.raises(CertificateError, match="this CA has expired on"):
        authority.sign(request, now=NOW + 100 * DAY)


# -- requests that must not be signed --------------------------------------------------------------------------------


def request_of(name="north", key=None, *extensions, names=None, algorithm=None):
    subject = names if names is not None else [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    for each, critical in extensions:
        builder = builder.add_extension(each, critical=critical)
    return builder.sign(key or Ed25519PrivateKey.generate(), algorithm)


def test_what_a_request_asks_for_is_ignored(authority):
    request = request_of(
        "north",
        None,
        (x509.BasicConstraints(ca=True, path_length=None), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.SubjectAlternativeName([x509.DNSName("fed.example"), x509.RFC822Name("a@b.example")]), False),
    )
    signed = x509.load_pem_x509_certificate(authority.sign(pem(request), now=NOW).certificate)
    assert not extension(signed, x509.BasicConstraints).value.ca
    assert list(extension(signed, x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    with pytest.raises(x509.ExtensionNotFound):
        extension(signed, x509.SubjectAlternativeName)


def test_a_request_with_a_wrong_signature_is_refused(authority):
    der = bytearray(request_of().public_bytes(Encoding.DER))
    der[-1] ^= 1
    text = pem(x509.load_der_x509_csr(bytes(der)))
    with pytest.raises(CertificateError, match=r"r\.csr: the signature of this request is wrong"):
        authority.sign(text, where="r.csr", now=NOW)


@pytest.mark.parametrize(
    "name", ["North", "nörth", "a b", "a\x1b[2J", "-a", "a-", "a.b", "a_b", "../a", "x" * 64, "a\n", "а"]
)
def test_a_request_with_a_bad_name_is_refused(authority, tmp_path, name):
    with pytest.raises(CertificateError, match="cannot be the name of a member") as caught:
        authority.sign(pem(request_of(name)), now=NOW)
    assert str(caught.value).isprintable()
    with pytest.raises(ParameterError, match="cannot be the name of a member"):
        make_request(name, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@given(st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True))
def test_good_names_can_be_requested(name):
    assert Statement.agreement_key(b"f", name, b"k").name == name


def test_other_requests_that_are_refused(authority):
    for data in (b"", b"hello", b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"):
        with pytest.raises(CertificateError, match="this is no certificate request"):
            authority.sign(data, now=NOW)
    other = request_of("north", ec.generate_private_key(ec.SECP256R1()), algorithm=hashes.SHA256())
    with pytest.raises(CertificateError, match="is not Ed25519"):
        authority.sign(pem(other), now=NOW)
    names = [x509.NameAttribute(NameOID.COMMON_NAME, name) for name in ("north", "south")]
    for subject in ([], names, [names[0], x509.NameAttribute(NameOID.ORGANIZATION_NAME, "South")]):
        with pytest.raises(CertificateError, match="one name and nothing beside it"):
            authority.sign(pem(request_of(names=subject)), now=NOW)
    assert read_records(authority.folder) == []


def test_a_name_belongs_to_one_key(authority, tmp_path):
    enrolled(authority, tmp_path / "a", "north")
    taken = make_request("north", tmp_path / "b").file.read_bytes()
    with pytest.raises(CertificateError, match=r"'north' has a valid certificate with another key, until .* --renew"):
        authority.sign(taken, now=NOW)
    assert len(read_records(authority.folder)) == 1
    # When the certificate has ended, the name is free.
    assert authority.sign(taken, now=NOW + 91 * DAY).replaced == ()


def test_a_key_belongs_to_one_name(authority):
    key = Ed25519PrivateKey.generate()
    authority.sign(pem(request_of("north", key)), now=NOW)
    with pytest.raises(CertificateError, match="'north' has the same key"):
        authority.sign(pem(request_of("south", key)), now=NOW)


def test_a_member_does_not_become_a_server(authority, tmp_path):
    member = enrolled(authority, tmp_path / "a", "north")
    request = (tmp_path / "a" / "north.csr").read_bytes()
    for renew in (False, True):
        with pytest.raises(CertificateError, match=f"{member.name!r} has a valid certificate as a member"):
            authority.sign(request, role=Role.SERVER, hosts=["localhost"], renew=renew, now=NOW)


def test_the_authority_does_not_sign_its_own_name(tmp_path):
    authority = Authority.create(tmp_path / "ca", "north", now=NOW)
    with pytest.raises(CertificateError, match="is the name of the CA itself"):
        authority.sign(pem(request_of("north")), now=NOW)


# -- the ledger ------------------------------------------------------------------------------------------------------


def test_revoking(trial):
    folder = trial.folder / "ca"
    number = trial.authority.trust.number
    revoked = trial.authority.revoke("north", now=NOW)
    assert [record.name for record in revoked] == ["north"]
    states = {record.name: record.state(NOW) for record in read_records(folder)}
    assert states == {"server": State.VALID, "north": State.REVOKED, "south": State.VALID}
    trust = trial.authority.trust
    assert trust.number == number + 1
    assert [entry.serial_number for entry in trust.revocations] == [trial.members[0].certificate.serial_number]
    with pytest.raises(CertificateError, match="'north' has no valid certificate; its last one is revoked"):
        trial.authority.revoke("north", now=NOW)
    with pytest.raises(CertificateError, match="this CA has signed nothing for 'west'"):
        trial.authority.revoke("west", now=NOW)
    assert trial.authority.trust.number == number + 1


def test_a_revoked_key_is_not_signed_again_and_a_new_one_is(trial, tmp_path):
    trial.authority.revoke("north", now=NOW)
    with pytest.raises(CertificateError, match="the key of this request was revoked on"):
        trial.authority.sign((trial.folder / "north" / "north.csr").read_bytes(), renew=True, now=NOW)
    again = enrolled(trial.authority, tmp_path / "again", "north")
    again.check(NOW)
    assert len(list(trial.authority.trust.revocations)) == 1


def test_the_ledger_is_read_strictly(authority):
    path = authority.folder / "ledger.json"
    text = path.read_text()
    for wrong, told in [
        (text[:-5], "is damaged"),
        (text.replace('"version": 1', '"version": 2'), "of version 1"),
        (text.replace('"records": []', '"records": [{}]'), "is damaged"),
        (text.replace('"format"', '"fromat"'), "is damaged"),
    ]:
        path.write_text(wrong)
        with pytest.raises(CertificateError, match=told):
            authority.sign(pem(request_of()), now=NOW)
        with pytest.raises(CertificateError, match=told):
            read_records(authority.folder)
    path.chmod(0o644)
    with pytest.raises(CertificateError, match="others may read or change the ledger"):
        read_records(authority.folder)


def test_a_list_that_is_made_at_the_same_moment_is_newer(authority):
    first = authority.trust
    authority.renew_list(now=NOW)
    second = authority.trust
    assert second.number == first.number + 1
    assert second.revocations.last_update_utc > first.revocations.last_update_utc


def test_signing_at_the_same_time_loses_no_record(authority):
    requests = [pem(request_of(f"m{number}")) for number in range(8)]
    threads = [
        threading.Thread(target=Authority.open(authority.folder).sign, args=(each,), kwargs={"now": NOW})
        for each in requests
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {record.name for record in read_records(authority.folder)} == {f"m{number}" for number in range(8)}
    assert authority.trust.number == 1 + 8


# -- keys and folders ------------------------------------------------------------------------------------------------


def test_a_key_is_made_for_its_owner_and_not_replaced(tmp_path):
    made = make_request("north", tmp_path / "new" / "north")
    folder = tmp_path / "new" / "north"
    assert (mode(folder), mode(folder / "key.pem"), mode(folder / "north.csr")) == (0o700, 0o600, 0o644)
    assert made.file == folder / "north.csr"
    assert b"PRIVATE" not in made.file.read_bytes()
    assert made.key == key_files.fingerprint(key_files.read_key(folder / "key.pem").public_key())
    before = (folder / "key.pem").read_bytes()
    with pytest.raises(DataError, match=r"key\.pem: there is a key already, and it is kept.*`fedslim enroll renew`"):
        make_request("south", folder)
    assert (folder / "key.pem").read_bytes() == before


@pytest.mark.parametrize("others", [0o640, 0o604, 0o620, 0o666])
def test_a_key_that_others_may_read_is_refused(trial, others):
    for folder, use in (("north", Identity.load), ("ca", Authority.open)):
        path = trial.folder / folder / ("ca.key" if folder == "ca" else "key.pem")
        path.chmod(others)
        with pytest.raises(CertificateError, match=rf"others may read or change this private key \(.* {others:03o}\)"):
            use(trial.folder / folder)


def test_a_ca_that_others_may_change_is_not_trusted(trial):
    (trial.folder / "north" / "ca.pem").chmod(0o664)
    with pytest.raises(CertificateError, match=r"ca\.pem: others may change whom you trust .* chmod go-w"):
        Identity.load(trial.folder / "north")


def test_keys_under_a_passphrase(tmp_path):
    authority = Authority.create(tmp_path / "ca", passphrase=WORDS, now=NOW)
    request = make_request("fed", tmp_path / "fed", hosts=["localhost"], passphrase=WORDS).file.read_bytes()
    for path in (tmp_path / "ca" / "ca.key", tmp_path / "fed" / "key.pem"):
        assert path.read_bytes().startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
        assert mode(path) == 0o600
        assert key_files.has_passphrase(path)
        with pytest.raises(CertificateError, match="has a passphrase, and none was given"):
            key_files.read_key(path)
        with pytest.raises(CertificateError, match="the passphrase is wrong") as caught:
            key_files.read_key(path, "seven purple hedgehog")
        assert "hedgehog" not in str(caught.value)
    bundle = Authority.open(tmp_path / "ca", WORDS).sign(request, role=Role.SERVER, now=NOW).bundle
    identity = install(tmp_path / "fed", bundle, fingerprint=authority.fingerprint, passphrase=WORDS, now=NOW)
    server_context(identity, now=NOW)  # OpenSSL reads it as well
    with pytest.raises(CertificateError, match="the passphrase is wrong"):
        Identity.load(tmp_path / "fed", "some other words")
    with pytest.raises(CertificateError, match="the passphrase is wrong"):
        Authority.open(tmp_path / "ca", "some other words")


def test_a_key_whose_file_changed_is_told_and_no_terminal_asked(trial):
    path = trial.folder / "north" / "key.pem"
    path.unlink()
    key_files.write_key(key_files.new_key(), path, WORDS)
    with pytest.raises(CertificateError, match=r"key\.pem: TLS cannot use it with .*certificate\.pem"):
        client_context(trial.members[0], now=NOW)


def test_passphrases_that_are_worth_nothing(tmp_path):
    for words in ("", "short", "x" * 1001):
        with pytest.raises(ParameterError, match="passphrase: it needs 12 characters or more"):
            make_request("north", tmp_path / "north", passphrase=words)
    assert not (tmp_path / "north" / "key.pem").exists()


def test_a_passphrase_that_is_not_needed_does_no_harm(trial):
    assert Identity.load(trial.folder / "north", WORDS).name == "north"


def test_things_that_are_no_keys(trial, tmp_path):
    path = tmp_path / "k"
    for data in (b"", b"hello", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"):
        path.write_bytes(data)
        path.chmod(0o600)
        with pytest.raises(CertificateError, match="this is no private key"):
            key_files.read_key(path)
    path.write_bytes(bytes(1 << 20) + b"x")
    with pytest.raises(CertificateError, match="larger than"):
        key_files.read_key(path)
    with pytest.raises(DataError, match="there is no such file"):
        Identity.load(tmp_path / "nowhere")
    with pytest.raises(DataError, match="NUL"):
        Identity.load("a\0b")
    assert not key_files.has_passphrase(tmp_path / "nowhere")
    (trial.folder / "ca" / "ca.key").unlink()
    key_files.write_key(key_files.new_key(), trial.folder / "ca" / "ca.key")
    with pytest.raises(CertificateError, match="this is not the key of"):
        Authority.open(trial.folder / "ca")


# -- installing ------------------------------------------------------------------------------------------------------


def test_whose_word_it_is_must_be_said_once(authority, tmp_path):
    folder = tmp_path / "north"
    bundle = authority.sign(make_request("north", folder).file.read_bytes(), now=NOW).bundle
    with pytest.raises(CertificateError, match=r"whose word is this\? .*--fingerprint.*--ca"):
        install(folder, bundle, now=NOW)
    with pytest.raises(CertificateError, match="there is no CA with the fingerprint '00' in this file"):
        install(folder, bundle, fingerprint="00", now=NOW)
    with pytest.raises(CertificateError, match="certificate has not come yet"):
        Identity.load(folder)
    pairs = [authority.fingerprint[k : k + 2].upper() for k in range(0, 64, 2)]
    assert install(folder, bundle, fingerprint=":".join(pairs), now=NOW).name == "north"
    assert install(folder, bundle, now=NOW).name == "north"  # it is known from now on
    modes = {path.name: mode(path) for path in folder.iterdir()}
    assert modes == {
        **dict.fromkeys(("north.csr", "certificate.pem", "ca.pem", "crl.pem"), 0o644),
        "key.pem": 0o600,
    }


def test_the_parts_by_themselves(authority, tmp_path):
    folder = tmp_path / "north"
    signed = authority.sign(make_request("north", folder).file.read_bytes(), now=NOW)
    ca, crl = ((authority.folder / name).read_bytes() for name in ("ca.pem", "crl.pem"))
    with pytest.raises(
        CertificateError, match=r"no revocation list in this file; name the crl\.pem of the CA \(--crl\)"
    ):
        install(folder, signed.certificate, ca, now=NOW)
    assert install(folder, signed.certificate, ca, crl, now=NOW).trust.name == "Heart Study CA"
    files = Files(*(folder / name for name in ("key.pem", "certificate.pem", "ca.pem", "crl.pem")))
    assert Identity.load(files).certificate == Identity.load(folder).certificate


def test_what_does_not_belong_is_not_installed(trial, authority, tmp_path):
    ca = pem(authority.certificate)
    folder = tmp_path / "west"
    west = authority.sign(make_request("west", folder).file.read_bytes(), now=NOW)
    theirs = trial.authority.sign((folder / "west.csr").read_bytes(), now=NOW)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    stranger = authority.sign(pem(request_of("east")), now=NOW).bundle
    cases = [
        (theirs.bundle, ca, NOW, "is not signed by 'Heart Study CA'"),
        (stranger, ca, NOW, "this is a certificate for 'east', and nobody in .* has asked for that"),
        (west.bundle, west.certificate, NOW, "not the certificate of a CA"),
        (west.bundle, ca, NOW + 91 * DAY, "has expired on"),
        (west.bundle, ca, NOW - DAY, "check the clocks"),
        (b"hello", ca, NOW, "there is no certificate in this file"),
        (west.bundle, b"hello", NOW, "there is no certificate in this file"),
    ]
    for bundle, named, now, told in cases:
        with pytest.raises(CertificateError, match=told):
            install(folder, bundle, named, now=now)
    other = authority.sign(pem(request_of("west")), renew=True, now=NOW).bundle
    with pytest.raises(
        CertificateError, match=r"this certificate is for another key than the one in .*newest west\.csr"
    ):
        install(folder, other, ca, now=NOW)
    with pytest.raises(CertificateError, match="was revoked by"):  # which that list says
        install(folder, west.bundle, ca, pem(authority.trust.revocations), now=NOW)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_folder_stays_with_its_authority(trial, authority):
    folder = trial.folder / "north"
    theirs = authority.sign((folder / "north.csr").read_bytes(), now=NOW)
    with pytest.raises(CertificateError, match="this folder trusts another CA"):
        install(folder, theirs.bundle, fingerprint=authority.fingerprint, now=NOW)
    with pytest.raises(CertificateError, match="is not signed by"):
        install(folder, theirs.bundle, now=NOW)


def test_lists_are_renewed_and_never_set_back(trial, authority):
    folder = trial.folder / "north"
    old = (trial.folder / "ca" / "crl.pem").read_bytes()
    trial.authority.revoke("south", now=NOW)
    new = (trial.folder / "ca" / "crl.pem").read_bytes()
    assert install_list(folder, new).number == read_trust(folder).number == trial.authority.trust.number
    with pytest.raises(CertificateError, match=r"crl: this is list \d, and number \d is known; get the newest"):
        install_list(folder, old, where="crl")
    with pytest.raises(CertificateError, match="not signed by 'fedslim demo CA"):
        install_list(folder, pem(authority.trust.revocations))
    with pytest.raises(CertificateError, match="no revocation list in this file"):
        install_list(folder, b"hello")
    # A certificate that comes with an older list does not bring that back either.
    again = trial.authority.sign((folder / "north.csr").read_bytes(), now=NOW).certificate
    install(folder, again + old, now=NOW)
    assert (folder / "crl.pem").read_bytes() == new


# -- renewal ---------------------------------------------------------------------------------------------------------


def test_renewing_with_the_same_key(trial):
    later = NOW + 20 * DAY
    folder = trial.folder / "server"
    request = make_renewal(folder)
    signed = trial.authority.sign(request.file.read_bytes(), role=Role.SERVER, now=later)
    renewed = install(folder, signed.bundle, now=later)
    assert (renewed.name, renewed.hosts) == ("server", trial.server.hosts)
    assert renewed.certificate.public_key() == trial.server.certificate.public_key()
    assert renewed.expires == NOW + 30 * DAY  # this authority ends then
    assert signed.replaced == ()
    renewed.trust.check(trial.server.certificate, Role.SERVER, later)  # the old one stays good until it ends


def test_renewing_with_a_new_key_revokes_the_old_one(trial):
    folder = trial.folder / "north"
    request = make_renewal(folder, new=True).file.read_bytes()
    assert Identity.load(folder).certificate == trial.members[0].certificate  # in use until the new one is there
    assert mode(folder / "next-key.pem") == 0o600
    with pytest.raises(CertificateError, match="waits for its certificate already"):
        make_renewal(folder, new=True)
    with pytest.raises(CertificateError, match="sign it with --renew"):
        trial.authority.sign(request, now=NOW)
    signed = trial.authority.sign(request, renew=True, now=NOW)
    renewed = install(folder, signed.bundle, now=NOW)
    assert renewed.name == "north"
    assert not (folder / "next-key.pem").exists()
    assert mode(folder / "key.pem") == 0o600
    renewed.check(NOW)
    with pytest.raises(UntrustedError, match="'north' was revoked"):
        renewed.trust.check(trial.members[0].certificate, Role.MEMBER, NOW)
    states = [record.state(NOW) for record in read_records(trial.folder / "ca") if record.name == "north"]
    assert states == [State.SUPERSEDED, State.VALID]


def test_nothing_to_renew(authority, tmp_path):
    with pytest.raises(CertificateError, match="never had a certificate of this CA"):
        authority.sign(pem(request_of()), renew=True, now=NOW)
    make_request("north", tmp_path / "north")
    with pytest.raises(DataError, match=r"certificate\.pem: there is no such file"):
        make_renewal(tmp_path / "north")


def test_warnings_come_in_time(authority, tmp_path):
    identity = enrolled(authority, tmp_path / "north", "north")
    assert identity.expires == NOW + 90 * DAY
    for after in (0, 30, 59):
        assert identity.warnings(NOW + after * DAY) == []
    ours, listed = identity.warnings(NOW + 76 * DAY + timedelta(hours=1))
    assert ours.startswith("the certificate of 'north' ends in 13 days, on ")
    assert ours.endswith(f"renew it with `fedslim enroll renew {tmp_path / 'north'}`")
    assert listed.startswith("the revocation list of 'Heart Study CA' ends in 13 days, on ")
    assert identity.warnings(NOW + 89 * DAY)[0].startswith("the certificate of 'north' ends in 1 day, on ")
    assert identity.warnings(NOW + 90 * DAY)[0].startswith("the certificate of 'north' ends today, on ")
    assert identity.warnings(NOW + 91 * DAY)[0].startswith("the certificate of 'north' has ended on ")
    assert "make a new CA in time" in identity.warnings(NOW + 5 * 365 * DAY - 20 * DAY)[1]
    short = enrolled(authority, tmp_path / "south", "south", days=6)
    assert short.warnings(NOW + 3 * DAY) == []
    assert "ends in 1 day" in short.warnings(NOW + 4 * DAY + timedelta(minutes=10))[0]


# -- what members sign -----------------------------------------------------------------------------------------------


@pytest.fixture
def signed(trial):
    """An agreement key of `north`, as `south` gets it by way of the server."""
    north = trial.members[0]
    public = AgreementKey.from_random(bytes(range(32))).public
    statement = Statement.agreement_key(b"heart study, run 7", "north", public)
    return statement, north.certificate_der, north.sign(statement)


def verify(trial, statement, certificate, signature, *, members=("north", "south"), now=NOW, trust=None):
    (trust or trial.members[1].trust).verify(statement, certificate, signature, members=members, now=now)


def test_a_signed_key_is_believed(trial, signed):
    verify(trial, *signed)


def test_a_key_that_was_replaced_is_not(trial, signed):
    statement, certificate, signature = signed
    theirs = AgreementKey.from_random(bytes(32)).public
    for change in ({"data": theirs}, {"federation": b"heart study, run 8"}, {"what": "table"}):
        with pytest.raises(UntrustedError, match=r"the signature of 'north' is not on this .* the run must not go on"):
            verify(trial, dataclasses.replace(statement, **change), certificate, signature)
    for wrong in (b"", signature[:-1], signature + b"x", bytes(64)):
        with pytest.raises(UntrustedError, match="the signature of 'north' is not on this agreement key"):
            verify(trial, statement, certificate, wrong)


def test_nobody_signs_for_another(trial, signed):
    statement, certificate, signature = signed
    south = trial.members[1]
    with pytest.raises(ParameterError, match="'south' cannot sign a statement of 'north'"):
        south.sign(statement)
    with pytest.raises(UntrustedError, match="the certificate sent for 'south' is that of 'north'"):
        verify(trial, dataclasses.replace(statement, name="south"), certificate, signature)
    ours = south._key.sign(statement.encoded)  # what a member that lies could do
    with pytest.raises(UntrustedError, match="the certificate sent for 'north' is that of 'south'"):
        verify(trial, statement, south.certificate_der, ours)
    with pytest.raises(UntrustedError, match="the signature of 'north'"):
        verify(trial, statement, certificate, ours)


def test_who_is_not_a_member_does_not_count(trial, signed):
    with pytest.raises(UntrustedError, match="'north' is not a member of this federation"):
        verify(trial, *signed, members=("south", "west"))


def test_the_server_does_not_sign_as_a_member(trial):
    statement = Statement.agreement_key(b"f", "server", b"key")
    with pytest.raises(UntrustedError, match="'server' is for a server, and it is used as a member"):
        verify(trial, statement, trial.server.certificate_der, trial.server.sign(statement), members=("server",))


def test_revoked_and_expired_signers_are_refused(trial, signed):
    with pytest.raises(UntrustedError, match="the certificate of 'north' has expired on"):
        verify(trial, *signed, now=NOW + 31 * DAY)
    with pytest.raises(UntrustedError, match=r"valid from .* check the clocks"):
        verify(trial, *signed, now=NOW - DAY)
    trial.authority.revoke("north", now=NOW)
    verify(trial, *signed)  # south does not know yet
    newer = trial.members[1].trust.renewed((trial.folder / "ca" / "crl.pem").read_bytes())
    with pytest.raises(UntrustedError, match="the certificate of 'north' was revoked by 'fedslim demo CA"):
        verify(trial, *signed, trust=newer)


def test_an_old_revocation_list_is_not_enough(authority, tmp_path):
    identity = enrolled(authority, tmp_path / "north", "north", days=300)
    identity.check(NOW + 90 * DAY)
    with pytest.raises(UntrustedError, match=r"the revocation list is too old: .* get a new crl\.pem"):
        identity.check(NOW + 91 * DAY)


def test_certificates_of_others_are_refused(trial, signed, authority, tmp_path):
    statement = signed[0]
    stranger = enrolled(authority, tmp_path / "north", "north")
    with pytest.raises(UntrustedError, match="is not signed by 'fedslim demo CA"):
        verify(trial, statement, stranger.certificate_der, stranger.sign(statement))
    # A member that signs certificates, in the name of the authority or in its own.
    own = Ed25519PrivateKey.generate()
    lifetime = (NOW - DAY, NOW + DAY)
    for issuer in (trial.authority.certificate, trial.members[1].certificate):
        forged = make_certificate(
            issuer, trial.members[1]._key, ("north", own.public_key()), (Role.MEMBER, ()), lifetime
        )
        with pytest.raises(UntrustedError, match="is not signed by"):
            verify(trial, statement, forged.public_bytes(Encoding.DER), own.sign(statement.encoded))
    ca = trial.authority
    with pytest.raises(UntrustedError, match="neither a member's nor a server's"):
        verify(trial, statement, ca.certificate.public_bytes(Encoding.DER), ca._key.sign(statement.encoded))


@given(st.binary(max_size=600))
def test_bytes_that_are_no_certificate_are_refused(trial_of_all, junk):
    statement = Statement.agreement_key(b"f", "north", b"k")
    with pytest.raises(UntrustedError, match="what was sent as the certificate of 'north' is none"):
        verify(trial_of_all, statement, junk, bytes(64))
    with pytest.raises(UntrustedError, match="none of ours is so large"):
        verify(trial_of_all, statement, bytes(4097), bytes(64))


@pytest.fixture(scope="module")
def trial_of_all(tmp_path_factory):
    return make_trial(tmp_path_factory.mktemp("all") / "try", ["north", "south"], now=NOW)


def test_statements_say_what_they_are_for():
    encoded = Statement.agreement_key(b"ab", "c", b"d").encoded
    assert encoded.startswith(b"fedslim statement v1: ")
    assert encoded != Statement.agreement_key(b"a", "c", b"d").encoded
    parts = [("a", b"bc"), ("ab", b"c")]
    assert len({Statement.agreement_key(b"f", name, data).encoded for name, data in parts}) == 2
    with pytest.raises(ParameterError, match="federation: "):
        Statement.agreement_key(b"", "c", b"d")


def test_nothing_secret_is_shown(trial):
    identity = trial.members[0]
    hidden = identity._key.private_bytes_raw().hex()
    identity = dataclasses.replace(identity, _passphrase=WORDS)
    shown = f"{identity!r} {identity} {trial!r} {identity.trust!r} {identity.files!r} {vars(trial.authority)}"
    assert WORDS not in shown
    assert hidden not in shown
    assert repr(identity).startswith("Identity('north', member, until ")
    with pytest.raises(TypeError):
        pickle.dumps(identity)


# -- handshakes ------------------------------------------------------------------------------------------------------


def handshake(server, client, host="localhost", *, careless=False):
    """What each side has at the end of a handshake and a word in both directions: the peer's name, or an error.

    A side that does not check certificates is not asked for the name, unless it is `careless`.
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
                    wrapped.recv(1)  # in TLS 1.3 a client learns only now that it was refused
                    if name == "client":
                        wrapped.sendall(b"!")
            except (OSError, UntrustedError) as error:
                found[name] = error

    thread = threading.Thread(target=side, args=("server", server, theirs), kwargs={"server_side": True})
    thread.start()
    side("client", client, ours, server_hostname=host)
    thread.join()
    return found["server"], found["client"]


def told(error, peer="the peer"):
    assert isinstance(error, ssl.SSLError), error
    return str(explained(error, peer))


def loose(identity, protocol, **changes):
    """A context as somebody would make it who does not mean well."""
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if identity is not None:
        context.load_cert_chain(identity.files.certificate, identity.files.key)
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


def test_a_context_is_for_the_role_and_the_time(trial):
    with pytest.raises(
        CertificateError, match=r"'north' is signed as a member, and this needs a server; .*--role server"
    ):
        server_context(trial.members[0], now=NOW)
    with pytest.raises(CertificateError, match="'server' is signed as a server, and this needs a member"):
        client_context(trial.server, now=NOW)
    with pytest.raises(UntrustedError, match="has expired"):
        client_context(trial.members[0], now=NOW + 31 * DAY)
    trial.authority.revoke("north", now=NOW)
    with pytest.raises(UntrustedError, match="was revoked"):
        client_context(trial.members[0], trust=trial.authority.trust, now=NOW)


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
    assert "not signed by the CA of this federation" in told(refused)
    _, refused = handshake(loose_server(server), client_context(trial.members[0], now=NOW))
    assert "not signed by the CA of this federation" in told(refused)


def test_a_twin_of_the_authority_is_another_one(trial, tmp_path):
    """The name of an authority says nothing; its key does."""
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
    refused, alerted = handshake(server_context(good[1], trust=trust, now=NOW), loose_client(member))
    assert words in told(refused)
    assert alert in told(alerted)
    _, refused = handshake(loose_server(server), client_context(good[0], trust=trust, now=NOW))
    assert words in told(refused)


def test_revoked_certificates_are_refused_by_both_sides(trial):
    trial.authority.revoke("north", now=NOW)
    trial.authority.revoke("server", now=NOW)
    trust = trial.authority.trust
    client = client_context(trial.members[1], trust=trust, now=NOW)
    _, refused = handshake(server_context(trial.server, now=NOW), client)
    assert "its certificate was revoked" in told(refused)
    other = make_request("other", trial.folder / "other", hosts=["localhost"]).file.read_bytes()
    bundle = trial.authority.sign(other, role=Role.SERVER, now=NOW).bundle
    server = install(trial.folder / "other", bundle, fingerprint=trial.authority.fingerprint, now=NOW)
    refused, alerted = handshake(server_context(server, now=NOW), client_context(trial.members[0], now=NOW))
    assert "its certificate was revoked" in told(refused)
    assert "our certificate was revoked" in told(alerted)
    assert handshake(server_context(server, now=NOW), client) == ("south", "other")


def test_a_server_learns_of_a_revocation_while_it_runs(trial):
    server = server_context(trial.server, now=NOW)
    client = client_context(trial.members[0], now=NOW)
    assert handshake(server, client) == ("north", "server")
    trial.authority.revoke("north", now=NOW)
    refresh(server, trial.authority.trust)
    refused, _ = handshake(server, client)
    assert "its certificate was revoked" in told(refused)
    assert handshake(server, client_context(trial.members[1], now=NOW)) == ("south", "server")


def test_an_old_revocation_list_lets_nobody_in(tmp_path):
    then = NOW - 91 * DAY
    authority = Authority.create(tmp_path / "ca", now=then)
    server = enrolled(authority, tmp_path / "fed", "fed", Role.SERVER, now=then, days=300)
    member = enrolled(authority, tmp_path / "a", "a", now=then, days=300)
    refused, _ = handshake(server_context(server, now=then), loose_client(member))
    assert "our revocation list is too old; install the newest crl.pem" in told(refused)


@pytest.mark.parametrize(("host", "words"), [("fed.example", "other host names"), ("10.0.0.7", "other addresses")])
def test_a_server_of_another_name_is_refused(trial, host, words):
    contexts = server_context(trial.server, now=NOW), client_context(trial.members[0], now=NOW)
    _, refused = handshake(*contexts, host)
    assert words in told(refused)


def test_the_common_name_is_no_host_name(trial):
    contexts = server_context(trial.server, now=NOW), client_context(trial.members[0], now=NOW)
    _, refused = handshake(*contexts, "server")
    assert "other host names" in told(refused)


def test_a_client_must_say_whom_it_calls(trial):
    """Python itself lets it leave the name out, and then any server of the federation would do."""
    contexts = server_context(trial.server, now=NOW), client_context(trial.members[0], now=NOW)
    objects, wires = [], (ssl.MemoryBIO(), ssl.MemoryBIO())
    for side, context in enumerate(contexts):
        objects.append(context.wrap_bio(wires[side], wires[1 - side], server_side=side == 0))
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
    assert "it does not speak TLS 1.3" in told(refused)
    assert "it does not speak TLS 1.3" in told(alerted)
    server = loose_server(trial.server)
    server.maximum_version = ssl.TLSVersion.TLSv1_2
    _, refused = handshake(server, client_context(trial.members[0], now=NOW))
    assert "it does not speak TLS 1.3" in told(refused)


def test_no_certificate_is_not_enough(trial):
    refused, alerted = handshake(server_context(trial.server, now=NOW), loose_client(None))
    assert "it shows no certificate" in told(refused)
    assert "it wants a certificate, and we showed none" in told(alerted)


def test_a_member_is_no_server(trial):
    """The member's own certificate has no host names, so one is forged into the check by leaving it out."""
    client = client_context(trial.members[1], now=NOW)
    client.check_hostname = False
    _, refused = handshake(loose_server(trial.members[0]), client)
    assert "for the other role" in told(refused)


def test_a_server_is_no_member(trial):
    refused, alerted = handshake(server_context(trial.server, now=NOW), loose_client(trial.server))
    assert "for the other role" in told(refused)
    assert "our certificate is for the other role" in told(alerted)


def test_a_member_cannot_sign_another(trial, tmp_path):
    south = trial.members[1]
    key = key_files.new_key()
    forged = make_certificate(
        south.certificate, south._key, ("north", key.public_key()), (Role.MEMBER, ()), (NOW - DAY, NOW + DAY)
    )
    (tmp_path / "chain.pem").write_bytes(pem(forged) + pem(south.certificate))
    key_files.write_key(key, tmp_path / "key.pem")
    client = loose_client(None)
    client.load_cert_chain(tmp_path / "chain.pem", tmp_path / "key.pem")
    refused, _ = handshake(server_context(trial.server, now=NOW), client)
    assert isinstance(refused, ssl.SSLCertVerificationError)


def test_plain_text_is_refused(trial):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"GET / HTTP/1.0\r\n\r\n")
        with pytest.raises(ssl.SSLError) as caught:
            server_context(trial.server, now=NOW).wrap_socket(theirs, server_side=True)
    assert "it does not speak TLS at all" in told(caught.value)


def test_who_is_there_is_only_known_where_it_was_checked(trial):
    server, client = server_context(trial.server, now=NOW), client_context(trial.members[0], now=NOW)
    with_nothing = server.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=True)
    with pytest.raises(UntrustedError, match="it is refused"):
        peer_name(with_nothing)
    # getpeercert() gives a certificate also where nobody has looked at it.
    _, refused = handshake(server, loose_client(trial.members[0]), careless=True)
    assert isinstance(refused, UntrustedError)
    assert "does not check certificates" in str(refused)
    refused, _ = handshake(loose_server(trial.server), client, careless=True)
    assert "does not check certificates" in str(refused)


# -- a try on one machine ----------------------------------------------------------------------------------------------


def test_a_trial_is_complete_and_private(trial):
    assert sorted(path.name for path in trial.folder.iterdir()) == ["ca", "north", "server", "south"]
    assert all(mode(path) == 0o700 for path in (trial.folder, *trial.folder.iterdir()))
    assert {path.name for path in trial.folder.rglob("*") if path.is_file() and mode(path) == 0o600} == {
        *("ca.key", "key.pem", "ledger.json"),
    }


@pytest.mark.parametrize("members", [[], ["a", "a"], ["server"], ["ca"], ["A"]])
def test_a_trial_needs_members(tmp_path, members):
    with pytest.raises(ParameterError, match="members"):
        make_trial(tmp_path / "try", members, now=NOW)
    assert not (tmp_path / "try").exists()


def test_a_trial_is_made_in_a_new_folder(tmp_path):
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(CertificateError, match="there is something in this folder"):
        make_trial(tmp_path, ["a"], now=NOW)


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
def test_hosts_that_are_none(tmp_path, host):
    with pytest.raises(ParameterError, match="host: "):
        make_request("fed", tmp_path / "fed", hosts=[host])
    assert not (tmp_path / "fed").exists()


def test_trust_takes_only_authorities(trial):
    member = pem(trial.members[0].certificate)
    with pytest.raises(CertificateError, match="not the certificate of a CA"):
        Trust.of(member, pem(trial.authority.trust.revocations))
