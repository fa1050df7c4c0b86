"""The certificate authority: what it signs, what it refuses, and its ledger."""

from __future__ import annotations

import subprocess
import threading
from datetime import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given, strategies as st
from trusting import DAY, NOW, enrolled, extension, mode, request_of

from fedslim.errors import CertificateError, DataError, ParameterError
from fedslim.trust.authority import Authority, CertificateState, read_records
from fedslim.trust.certificates import Role, pem
from fedslim.trust.enrolment import make_request
from fedslim.trust.identity import Statement

# -- the authority ---------------------------------------------------------------------------------------------------


def test_only_its_owner_can_access_the_folder_of_an_authority(authority):
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
    with pytest.raises(DataError, match="already contains a CA, which is kept"):
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
        with pytest.raises(ParameterError, match=rf"days: {days} is out of range; give 1 to 398"):
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
    with pytest.raises(CertificateError, match="this CA expired on"):
        authority.sign(request, now=NOW + 100 * DAY)


# -- requests that must not be signed --------------------------------------------------------------------------------


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
    with pytest.raises(CertificateError, match=r"r\.csr: the signature of this request is not valid"):
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
    assert Statement("agreement key", b"f", name, b"k").name == name


def test_other_requests_that_are_refused(authority):
    for data in (b"", b"hello", b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"):
        with pytest.raises(CertificateError, match="this is not a certificate request"):
            authority.sign(data, now=NOW)
    other = request_of("north", ec.generate_private_key(ec.SECP256R1()), algorithm=hashes.SHA256())
    with pytest.raises(CertificateError, match="is not an Ed25519 key"):
        authority.sign(pem(other), now=NOW)
    names = [x509.NameAttribute(NameOID.COMMON_NAME, name) for name in ("north", "south")]
    for subject in ([], names, [names[0], x509.NameAttribute(NameOID.ORGANIZATION_NAME, "South")]):
        with pytest.raises(CertificateError, match="one common name and nothing else"):
            authority.sign(pem(request_of(names=subject)), now=NOW)
    assert read_records(authority.folder) == []


def test_a_name_belongs_to_one_key(authority, tmp_path):
    enrolled(authority, tmp_path / "a", "north")
    taken = make_request("north", tmp_path / "b").file.read_bytes()
    with pytest.raises(CertificateError, match=r"'north' has a valid certificate with another key, until .* --renew"):
        authority.sign(taken, now=NOW)
    assert len(read_records(authority.folder)) == 1
    # Once the certificate has expired, the name is free.
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
    assert states == {
        "server": CertificateState.VALID,
        "north": CertificateState.REVOKED,
        "south": CertificateState.VALID,
    }
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
    with pytest.raises(CertificateError, match="this key was revoked on"):
        trial.authority.sign((trial.folder / "north" / "north.csr").read_bytes(), renew=True, now=NOW)
    again = enrolled(trial.authority, tmp_path / "again", "north")
    again.check(NOW)
    assert len(list(trial.authority.trust.revocations)) == 1


def test_the_ledger_is_read_strictly(authority):
    path = authority.folder / "ledger.json"
    text = path.read_text()
    for wrong, message in [
        (text[:-5], "is damaged"),
        (text.replace('"version": 1', '"version": 2'), "of version 2"),
        (text.replace('"records": []', '"records": [{}]'), "is damaged"),
        (text.replace('"format"', '"fromat"'), "is damaged"),
    ]:
        path.write_text(wrong)
        with pytest.raises(CertificateError, match=message):
            authority.sign(pem(request_of()), now=NOW)
        with pytest.raises(CertificateError, match=message):
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
