"""Statements that members sign, and their verification."""

from __future__ import annotations

import dataclasses
import hmac
import pickle

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given, strategies as st
from trusting import DAY, NOW, WORDS, enrolled

from fedslim.errors import ParameterError, UntrustedError
from fedslim.secagg.keys import AgreementKey
from fedslim.trust.authority import Authority
from fedslim.trust.certificates import Role, make_certificate
from fedslim.trust.enrolment import make_demo_ca
from fedslim.trust.identity import Identity, Statement

# -- what members sign -----------------------------------------------------------------------------------------------


@pytest.fixture
def signed(trial):
    """An agreement key of `north`, as `south` receives it through the server."""
    north = trial.members[0]
    public = AgreementKey.from_random(bytes(range(32))).public
    statement = Statement("agreement key", b"heart study, run 7", "north", public)
    return statement, north.certificate_der, north.sign(statement)


def verify(trial, statement, certificate, signature, *, members=("north", "south"), now=NOW, trust=None):
    (trust or trial.members[1].trust).verify(statement, certificate, signature, members=members, now=now)


def test_a_signed_key_is_accepted(trial, signed):
    verify(trial, *signed)


def test_a_replaced_key_is_refused(trial, signed):
    statement, certificate, signature = signed
    theirs = AgreementKey.from_random(bytes(32)).public
    for change in ({"data": theirs}, {"federation": b"heart study, run 8"}, {"what": "table"}):
        with pytest.raises(UntrustedError, match=r"the signature of 'north' does not match this .* must stop"):
            verify(trial, dataclasses.replace(statement, **change), certificate, signature)
    for wrong in (b"", signature[:-1], signature + b"x", bytes(64)):
        with pytest.raises(UntrustedError, match="the signature of 'north' does not match this agreement key"):
            verify(trial, statement, certificate, wrong)


def test_nobody_signs_for_another(trial, signed):
    statement, certificate, signature = signed
    south = trial.members[1]
    with pytest.raises(ParameterError, match="'south' cannot sign a statement of 'north'"):
        south.sign(statement)
    with pytest.raises(UntrustedError, match="the certificate sent for 'south' belongs to 'north'"):
        verify(trial, dataclasses.replace(statement, name="south"), certificate, signature)
    ours = south._key.sign(statement.encoded)  # what a dishonest member could do
    with pytest.raises(UntrustedError, match="the certificate sent for 'north' belongs to 'south'"):
        verify(trial, statement, south.certificate_der, ours)
    with pytest.raises(UntrustedError, match="the signature of 'north'"):
        verify(trial, statement, certificate, ours)


def test_a_signer_who_is_not_a_member_is_refused(trial, signed):
    with pytest.raises(UntrustedError, match="'north' is not a member of this federation"):
        verify(trial, *signed, members=("south", "west"))


def test_the_server_does_not_sign_as_a_member(trial):
    statement = Statement("agreement key", b"f", "server", b"key")
    with pytest.raises(UntrustedError, match="'server' is for a server, but it is used as a member"):
        verify(trial, statement, trial.server.certificate_der, trial.server.sign(statement), members=("server",))


def test_revoked_and_expired_signers_are_refused(trial, signed):
    with pytest.raises(UntrustedError, match="the certificate of 'north' expired on"):
        verify(trial, *signed, now=NOW + 31 * DAY)
    with pytest.raises(UntrustedError, match=r"not valid before .* check the clocks"):
        verify(trial, *signed, now=NOW - DAY)
    trial.authority.revoke("north", now=NOW)
    verify(trial, *signed)  # south does not know yet
    newer = trial.members[1].trust.renewed((trial.folder / "ca" / "crl.pem").read_bytes())
    with pytest.raises(UntrustedError, match="the certificate of 'north' was revoked by 'fedslim demo CA"):
        verify(trial, *signed, trust=newer)


def test_an_old_revocation_list_is_not_enough(authority, tmp_path):
    identity = enrolled(authority, tmp_path / "north", "north", days=300)
    identity.check(NOW + 90 * DAY)
    with pytest.raises(UntrustedError, match=r"the revocation list expired on .* get a new crl\.pem"):
        identity.check(NOW + 91 * DAY)


def test_certificates_of_others_are_refused(trial, signed, authority, tmp_path):
    statement = signed[0]
    stranger = enrolled(authority, tmp_path / "north", "north")
    with pytest.raises(UntrustedError, match="is not signed by 'fedslim demo CA"):
        verify(trial, statement, stranger.certificate_der, stranger.sign(statement))
    # A member that signs certificates, in the name of the CA or in its own.
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
def test_bytes_that_are_not_a_certificate_are_refused(trial_of_all, junk):
    statement = Statement("agreement key", b"f", "north", b"k")
    with pytest.raises(UntrustedError, match="the certificate sent for 'north' cannot be read"):
        verify(trial_of_all, statement, junk, bytes(64))
    with pytest.raises(UntrustedError, match="more than the limit of 4,096"):
        verify(trial_of_all, statement, bytes(4097), bytes(64))


@pytest.fixture(scope="module")
def trial_of_all(tmp_path_factory):
    return make_demo_ca(tmp_path_factory.mktemp("all") / "try", ["north", "south"], now=NOW)


def test_statements_say_what_they_are_for():
    encoded = Statement("agreement key", b"ab", "c", b"d").encoded
    assert encoded.startswith(b"fedslim statement v1: ")
    assert encoded != Statement("agreement key", b"a", "c", b"d").encoded
    parts = [("a", b"bc"), ("ab", b"c")]
    assert len({Statement("agreement key", b"f", name, data).encoded for name, data in parts}) == 2
    with pytest.raises(ParameterError, match="federation: "):
        Statement("agreement key", b"", "c", b"d")


def test_nothing_secret_is_shown(trial):
    identity = trial.members[0]
    hidden = identity._key.private_bytes_raw().hex()
    identity = dataclasses.replace(identity, _passphrase=WORDS)
    shown = f"{identity!r} {identity} {trial!r} {identity.trust!r} {identity.folder!r} {vars(trial.authority)}"
    assert WORDS not in shown
    assert hidden not in shown
    assert repr(identity).startswith("Identity('north', member, until ")
    with pytest.raises(TypeError):
        pickle.dumps(identity)


# -- derived keys ------------------------------------------------------------------------------------------------------


def test_each_party_derives_a_key_of_its_own_for_each_purpose(trial):
    north, south = trial.members
    again = Identity.load(trial.folder / "north")
    keys = {who.derived_key(what) for who in (north, south, again) for what in ("one journal", "another")}
    assert len(keys) == 4
    assert {len(key) for key in keys} == {32}
    assert again.derived_key("another") == north.derived_key("another")


def test_a_derived_key_does_not_reveal_the_private_one(trial):
    north = trial.members[0]
    raw = north._key.private_bytes_raw()
    derived = north.derived_key("one journal")
    assert derived != raw
    assert derived.hex() not in repr(north)
    # RFC 5869 with our label, so that other implementations can derive the same key.
    extracted = hmac.digest(bytes(32), raw, "sha256")
    assert derived == hmac.digest(extracted, b"fedslim derived key v1: one journal\x01", "sha256")


def test_a_certificate_does_not_outlive_its_authority(tmp_path):
    """The CA signs no such certificate, but somebody with its key could."""
    authority = Authority.create(tmp_path / "ca", now=NOW, days=10)
    identity = enrolled(authority, tmp_path / "north", "north")
    own = Ed25519PrivateKey.generate()
    outlives = make_certificate(
        authority.certificate, authority._key, ("north", own.public_key()), (Role.MEMBER, ()), (NOW, NOW + 30 * DAY)
    )
    assert identity.trust.check(outlives, Role.MEMBER, NOW + 9 * DAY) == "north"
    with pytest.raises(UntrustedError, match="the certificate of the CA"):
        identity.trust.check(outlives, Role.MEMBER, NOW + 11 * DAY)
