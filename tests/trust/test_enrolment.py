"""Enrolment at a member: keys, folders, installation and renewal."""

from __future__ import annotations

import base64
from datetime import timedelta

import pytest
from trusting import DAY, NOW, WORDS, enrolled, mode, request_of

from fedslim.errors import CertificateError, DataError, ParameterError, UntrustedError
from fedslim.trust import keys as key_files
from fedslim.trust.authority import Authority, CertificateState, read_records
from fedslim.trust.certificates import Role, pem
from fedslim.trust.enrolment import install, install_list, make_renewal, make_request
from fedslim.trust.identity import Identity, read_trust
from fedslim.trust.tls import client_context, server_context

# -- keys and folders ------------------------------------------------------------------------------------------------


def test_a_key_is_made_for_its_owner_and_not_replaced(tmp_path):
    made = make_request("north", tmp_path / "new" / "north")
    folder = tmp_path / "new" / "north"
    assert (mode(folder), mode(folder / "key.pem"), mode(folder / "north.csr")) == (0o700, 0o600, 0o644)
    assert made.file == folder / "north.csr"
    assert b"PRIVATE" not in made.file.read_bytes()
    assert made.key == key_files.fingerprint(key_files.read_key(folder / "key.pem").public_key())
    before = (folder / "key.pem").read_bytes()
    with pytest.raises(DataError, match=r"key\.pem: .* already contains a key, which is kept.*`fedslim enroll renew`"):
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
    with pytest.raises(CertificateError, match=r"ca\.pem: others may change the trusted CA .* chmod go-w"):
        Identity.load(trial.folder / "north")


def test_keys_under_a_passphrase(tmp_path):
    authority = Authority.create(tmp_path / "ca", passphrase=WORDS, now=NOW)
    request = make_request("fed", tmp_path / "fed", hosts=["localhost"], passphrase=WORDS).file.read_bytes()
    for path in (tmp_path / "ca" / "ca.key", tmp_path / "fed" / "key.pem"):
        assert path.read_bytes().startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
        assert mode(path) == 0o600
        assert key_files.has_passphrase(path)
        with pytest.raises(CertificateError, match="this key needs a passphrase"):
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


def test_a_key_beside_the_certificate_of_another_is_refused(trial):
    north, south = (trial.folder / name for name in ("north", "south"))
    (north / "key.pem").write_bytes((south / "key.pem").read_bytes())
    with pytest.raises(CertificateError, match=r"certificate\.pem: .*key\.pem"):
        Identity.load(north)


def test_a_passphrase_takes_long_to_guess(tmp_path):
    """The file contains the number of iterations as a DER integer of three bytes."""
    key_files.write_key(key_files.new_key(), tmp_path / "key.pem", WORDS)
    lines = (tmp_path / "key.pem").read_bytes().splitlines()
    assert b"\x02\x03" + (600_000).to_bytes(3, "big") in base64.b64decode(b"".join(lines[1:-1]))


def test_a_key_file_that_changed_is_an_error_without_a_prompt(trial):
    path = trial.folder / "north" / "key.pem"
    path.unlink()
    key_files.write_key(key_files.new_key(), path, WORDS)
    with pytest.raises(CertificateError, match=r"key\.pem: TLS cannot use this key with .*certificate\.pem"):
        client_context(trial.members[0], now=NOW)


def test_weak_passphrases_are_refused(tmp_path):
    for words in ("", "short", "x" * 1001):
        with pytest.raises(ParameterError, match="passphrase: it needs at least 12 characters"):
            make_request("north", tmp_path / "north", passphrase=words)
    assert not (tmp_path / "north" / "key.pem").exists()


def test_a_passphrase_that_is_not_needed_is_ignored(trial):
    assert Identity.load(trial.folder / "north", WORDS).name == "north"


def test_files_that_are_not_keys(trial, tmp_path):
    path = tmp_path / "k"
    for data in (b"", b"hello", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"):
        path.write_bytes(data)
        path.chmod(0o600)
        with pytest.raises(CertificateError, match="this is not a private key"):
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


def test_the_trusted_ca_must_be_given_once(authority, tmp_path):
    folder = tmp_path / "north"
    bundle = authority.sign(make_request("north", folder).file.read_bytes(), now=NOW).bundle
    with pytest.raises(CertificateError, match=r"not known which CA to trust.*--fingerprint.*--ca"):
        install(folder, bundle, now=NOW)
    with pytest.raises(CertificateError, match="no CA with the fingerprint '00'"):
        install(folder, bundle, fingerprint="00", now=NOW)
    with pytest.raises(CertificateError, match="certificate is not installed yet"):
        Identity.load(folder)
    pairs = [authority.fingerprint[k : k + 2].upper() for k in range(0, 64, 2)]
    assert install(folder, bundle, fingerprint=":".join(pairs), now=NOW).name == "north"
    assert install(folder, bundle, now=NOW).name == "north"  # the CA is known from now on
    modes = {path.name: mode(path) for path in folder.iterdir()}
    assert modes == {
        **dict.fromkeys(("north.csr", "certificate.pem", "ca.pem", "crl.pem"), 0o644),
        "key.pem": 0o600,
    }


def test_installing_from_separate_files(authority, tmp_path):
    folder = tmp_path / "north"
    signed = authority.sign(make_request("north", folder).file.read_bytes(), now=NOW)
    ca, crl = ((authority.folder / name).read_bytes() for name in ("ca.pem", "crl.pem"))
    with pytest.raises(CertificateError, match=r"no revocation list; give the crl\.pem of the CA \(--crl\)"):
        install(folder, signed.certificate, ca, now=NOW)
    assert install(folder, signed.certificate, ca, crl, now=NOW).trust.name == "Heart Study CA"


def test_a_long_list_in_the_folder_is_used_for_a_new_certificate(trial):
    """Lists may be longer than keys and certificates."""
    folder = trial.folder / "north"
    listed = folder / "crl.pem"
    listed.write_bytes(b"# a comment\n" * (key_files.MAX_BYTES // 12 + 1) + listed.read_bytes())
    signed = trial.authority.sign((folder / "north.csr").read_bytes(), now=NOW)
    assert install(folder, signed.certificate, now=NOW).name == "north"


def test_what_does_not_belong_is_not_installed(trial, authority, tmp_path):
    ca = pem(authority.certificate)
    folder = tmp_path / "west"
    west = authority.sign(make_request("west", folder).file.read_bytes(), now=NOW)
    theirs = trial.authority.sign((folder / "west.csr").read_bytes(), now=NOW)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    stranger = authority.sign(pem(request_of("east")), now=NOW).bundle
    cases = [
        (theirs.bundle, ca, NOW, "is not signed by 'Heart Study CA'"),
        (stranger, ca, NOW, "this certificate is for 'east', but .* has no request for that name"),
        (west.bundle, west.certificate, NOW, "not the certificate of a CA"),
        (west.bundle, ca, NOW + 91 * DAY, "expired on"),
        (west.bundle, ca, NOW - DAY, "check the clocks"),
        (b"hello", ca, NOW, "contains no certificate"),
        (west.bundle, b"hello", NOW, "contains no certificate"),
    ]
    for bundle, given, now, message in cases:
        with pytest.raises(CertificateError, match=message):
            install(folder, bundle, given, now=now)
    other = authority.sign(pem(request_of("west")), renew=True, now=NOW).bundle
    with pytest.raises(CertificateError, match=r"does not belong to the key in .*newest west\.csr"):
        install(folder, other, ca, now=NOW)
    with pytest.raises(CertificateError, match="was revoked by"):  # according to that list
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
    with pytest.raises(CertificateError, match=r"crl: this is list number \d, but number \d is already installed"):
        install_list(folder, old, where="crl")
    with pytest.raises(CertificateError, match="not signed by 'fedslim demo CA"):
        install_list(folder, pem(authority.trust.revocations))
    with pytest.raises(CertificateError, match="contains no revocation list"):
        install_list(folder, b"hello")
    # A certificate with an older list does not replace the newer one either.
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
    assert renewed.expires == NOW + 30 * DAY  # when the CA expires
    assert signed.replaced == ()
    renewed.trust.check(trial.server.certificate, Role.SERVER, later)  # the old one stays valid until it expires


def test_renewing_with_a_new_key_revokes_the_old_one(trial):
    folder = trial.folder / "north"
    request = make_renewal(folder, new=True).file.read_bytes()
    assert Identity.load(folder).certificate == trial.members[0].certificate  # until the new one is installed
    assert mode(folder / "next-key.pem") == 0o600
    with pytest.raises(CertificateError, match="already awaits its certificate"):
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
    assert states == [CertificateState.SUPERSEDED, CertificateState.VALID]


def test_nothing_to_renew(authority, tmp_path):
    with pytest.raises(CertificateError, match="never had a certificate from this CA"):
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
    assert ours.startswith("the certificate of 'north' expires in 13 days, on ")
    assert ours.endswith(f"renew it with `fedslim enroll renew {tmp_path / 'north'}`")
    assert listed.startswith("the revocation list of 'Heart Study CA' expires in 13 days, on ")
    assert identity.warnings(NOW + 89 * DAY)[0].startswith("the certificate of 'north' expires in 1 day, on ")
    assert identity.warnings(NOW + 90 * DAY)[0].startswith("the certificate of 'north' expires today, on ")
    assert identity.warnings(NOW + 91 * DAY)[0].startswith("the certificate of 'north' expired on ")
    assert "create a new CA in time" in identity.warnings(NOW + 5 * 365 * DAY - 20 * DAY)[1]
    short = enrolled(authority, tmp_path / "south", "south", days=6)
    assert short.warnings(NOW + 3 * DAY) == []
    assert "expires in 1 day" in short.warnings(NOW + 4 * DAY + timedelta(minutes=10))[0]
