"""Who a party is, and whom it trusts: its certificate and key, and the certificate and revocation list of its CA.

TLS verifies certificates itself (`tls.py`); this module is for certificates in messages. Both apply the same rules: a
certificate has one name and one role, is signed directly by the CA, is within its validity period, and is not on a
current revocation list.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding

from fedslim.data.textstream import is_file, real_path
from fedslim.errors import CertificateError, ParameterError, UntrustedError
from fedslim.trust import certificates, keys
from fedslim.trust.certificates import UNREADABLE, Host, Role, format_time, name_of, role_of, whole

MAX_CERTIFICATE = 4096
"""Bytes of a certificate in a message. A member's has about 400; a server's, with its hosts, is sent in TLS only."""


@dataclass(frozen=True, slots=True, repr=False)
class TrustStore:
    """A CA's certificate and its revocation list, both checked on creation."""

    authority: x509.Certificate
    revocations: x509.CertificateRevocationList

    def __post_init__(self) -> None:
        check_authority(self.authority)
        if not signed_by(self.revocations, self.authority):
            raise CertificateError(f"the revocation list is not signed by {self.name!r}; get the crl.pem of that CA")

    @property
    def name(self) -> str:
        """The name of the CA."""
        return name_of(self.authority)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the CA's certificate, for people to compare."""
        return certificates.fingerprint_of(self.authority)

    @property
    def number(self) -> int:
        """The number of the revocation list; newer lists have higher numbers."""
        try:
            return self.revocations.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
        except (*UNREADABLE, x509.ExtensionNotFound):
            return -1  # the oldest

    def renewed(self, revocations: bytes, where: object = "the revocation list") -> TrustStore:
        """Return the same trust with a newer list, from any source: only the CA's signature matters.

        An older list is refused: it would restore revoked certificates.
        """
        found = certificates.read_list(revocations, where)
        if not signed_by(found, self.authority):
            msg = f"{where}: this revocation list is not signed by {self.name!r}; get the crl.pem of that CA"
            raise CertificateError(msg)
        newer = TrustStore(self.authority, found)
        if newer.number < self.number:
            raise CertificateError(
                f"{where}: this is list number {newer.number}, but number {self.number} is already installed; get "
                "the newest crl.pem"
            )
        return newer

    def check(self, certificate: x509.Certificate, role: Role, now: datetime) -> str:
        """Verify a certificate and return the name of its holder."""
        if not signed_by(certificate, self.authority):
            raise UntrustedError(f"a certificate is not signed by {self.name!r}; its holder must not take part")
        try:
            name, actual = name_of(certificate), role_of(certificate)
        except CertificateError as error:
            raise UntrustedError(str(error)) from None
        if actual is not role:
            raise UntrustedError(
                f"the certificate of {name!r} is for a {actual.value}, but it is used as a {role.value}; it is refused"
            )
        moment, last = whole(now), ends(self.revocations)
        for what, one in ((repr(name), certificate), (f"the CA {self.name!r}", self.authority)):
            if moment < one.not_valid_before_utc:
                raise UntrustedError(
                    f"the certificate of {what} is not valid before {format_time(one.not_valid_before_utc)}, but the "
                    f"time here is {format_time(moment)}; check the clocks"
                )
            if moment > one.not_valid_after_utc:
                ended = format_time(one.not_valid_after_utc)
                raise UntrustedError(f"the certificate of {what} expired on {ended}; have it renewed")
        if moment > last:
            msg = f"the revocation list expired on {format_time(last)}; get a new crl.pem from {self.name!r}"
            raise UntrustedError(msg)
        if self.revocations.get_revoked_certificate_by_serial_number(certificate.serial_number) is not None:
            msg = f"the certificate of {name!r} was revoked by {self.name!r}; its holder must not take part"
            raise UntrustedError(msg)
        return name

    def verify(
        self, statement: Statement, certificate: bytes, signature: bytes, *, members: Collection[str], now: datetime
    ) -> None:
        """Verify that the member in a statement signed it; certificate (DER) and signature are as received.

        Only `members` may sign: the CA may have signed certificates for other federations too.
        """
        if statement.name not in members:
            raise UntrustedError(f"{statement.name!r} is not a member of this federation; its signature is refused")
        if len(certificate) > MAX_CERTIFICATE:
            raise UntrustedError(
                f"the certificate sent for {statement.name!r} has {len(certificate):,} bytes, more than the limit of "
                f"{MAX_CERTIFICATE:,}; it is refused"
            )
        try:
            received = x509.load_der_x509_certificate(certificate)
        except UNREADABLE:
            msg = f"the certificate sent for {statement.name!r} cannot be read; the run must stop"
            raise UntrustedError(msg) from None
        name = self.check(received, Role.MEMBER, now)
        if name != statement.name:
            msg = f"the certificate sent for {statement.name!r} belongs to {name!r}; it is refused as an impersonation"
            raise UntrustedError(msg)
        try:
            public_key(received).verify(signature, statement.encoded)
        except InvalidSignature:
            raise UntrustedError(
                f"the signature of {statement.name!r} does not match this {statement.what}; the server, or somebody "
                "in between, may have replaced it, so the run must stop"
            ) from None


def check_authority(certificate: x509.Certificate, where: str = "") -> None:
    """Check that a certificate is that of a CA; `where` begins the message."""
    try:
        extensions = certificate.extensions
        constraints = extensions.get_extension_for_class(x509.BasicConstraints).value
        usage = extensions.get_extension_for_class(x509.KeyUsage).value
        fine = constraints.ca and usage.key_cert_sign and usage.crl_sign
    except (*UNREADABLE, x509.ExtensionNotFound):
        fine = False
    if not fine or not signed_by(certificate, certificate):
        msg = "this is not the certificate of a CA, signed by itself; give the ca.pem that `fedslim ca init` made"
        raise CertificateError(where + msg)


def signed_by(thing: x509.Certificate | x509.CertificateRevocationList, authority: x509.Certificate) -> bool:
    """Return whether the CA signed a certificate or a revocation list directly."""
    try:
        key = public_key(authority)
        if isinstance(thing, x509.Certificate):
            thing.verify_directly_issued_by(authority)
            return True
        return thing.issuer == authority.subject and thing.is_signature_valid(key)
    except (*UNREADABLE, InvalidSignature, CertificateError):
        return False


def public_key(certificate: x509.Certificate) -> Ed25519PublicKey:
    """Return the public key of a certificate."""
    key = certificate.public_key()
    if not isinstance(key, Ed25519PublicKey):
        raise CertificateError("the key of a certificate is not an Ed25519 key; create a new one with `fedslim enroll`")
    return key


def ends(revocations: x509.CertificateRevocationList) -> datetime:
    """Return when a list expires; one without an expiry date has expired already."""
    return revocations.next_update_utc or revocations.last_update_utc


# -- what members sign for each other ---------------------------------------------------------------------------------

LABEL = b"fedslim statement v1: "


@dataclass(frozen=True, slots=True)
class Statement:
    """Data that a member signs, with its purpose, its federation and the member's name.

    With the id of one run as `federation`, a statement cannot be replayed in another run.
    The same key also signs TLS handshakes and certificate requests. Those start with 64 spaces and with 0x30, a
    statement with its label, so that none of them can be mistaken for another.
    """

    what: str
    federation: bytes
    name: str
    data: bytes

    def __post_init__(self) -> None:
        certificates.checked_name(self.name)
        if not self.federation:
            msg = "federation: the id of the federation is empty, and a statement needs it; give the federation's id"
            raise ParameterError(msg)

    @property
    def encoded(self) -> bytes:
        """The bytes to sign: each part with its length in front, so that different statements have different bytes."""
        parts = (self.what.encode(), self.federation, self.name.encode(), self.data)
        return LABEL + b"".join(len(part).to_bytes(4, "little") + part for part in parts)


# -- a party with its key ---------------------------------------------------------------------------------------------

KEY, CERTIFICATE, AUTHORITY, REVOCATIONS = "key.pem", "certificate.pem", "ca.pem", "crl.pem"

DERIVED_LABEL = b"fedslim derived key v1: "

EARLY = timedelta(days=30)  # warn at most this long before the expiry, and only in the last third of the lifetime


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Identity:
    """A member or a server with the key to prove its name. `repr` shows neither the key nor the passphrase."""

    name: str
    role: Role
    certificate: x509.Certificate
    trust: TrustStore
    folder: Path
    _key: Ed25519PrivateKey
    _passphrase: str | None

    def __repr__(self) -> str:
        return f"Identity({self.name!r}, {self.role.value}, until {format_time(self.expires)})"

    @classmethod
    def load(cls, folder: str | os.PathLike[str], passphrase: str | None = None) -> Identity:
        """Load an identity that `fedslim enroll` created and installed, from its folder.

        Whether the certificate is currently valid is checked when it is used, not here.
        """
        folder = real_path(folder)
        key_file, own = folder / KEY, folder / CERTIFICATE
        if is_file(key_file) and not is_file(own):
            raise CertificateError(
                f"{own}: no such file, so the certificate is not installed yet; have the request signed "
                "by the CA, and install its reply with `fedslim enroll install`"
            )
        certificate = certificates.read_certificate(keys.read_public(own), own)
        trust = read_trust(folder)
        if not signed_by(certificate, trust.authority):
            raise CertificateError(f"{own}: not signed by {trust.name!r} ({folder / AUTHORITY}); install it again")
        key = keys.read_key(key_file, passphrase)
        if key.public_key() != public_key(certificate):
            raise CertificateError(f"{own}: this certificate does not belong to {key_file}; install it again")
        return cls(name_of(certificate), role_of(certificate), certificate, trust, folder, key, passphrase)

    @property
    def expires(self) -> datetime:
        """When the certificate expires."""
        return self.certificate.not_valid_after_utc

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The host names and addresses of a server; a member has none."""
        return certificates.hosts_of(self.certificate)

    @property
    def certificate_der(self) -> bytes:
        """The certificate as it is sent in messages."""
        return self.certificate.public_bytes(Encoding.DER)

    def check(self, now: datetime) -> None:
        """Check that others would accept this identity now: valid, not revoked, and our revocation list is current."""
        self.trust.check(self.certificate, self.role, now)

    def warnings(self, now: datetime) -> list[str]:
        """Return a sentence, with what to do, for everything that has expired or soon will."""
        ours, ca, theirs, listed = self.certificate, self.trust.name, self.trust.authority, self.trust.revocations
        found = []
        if listed.get_revoked_certificate_by_serial_number(ours.serial_number) is not None:
            found += [f"the certificate of {self.name!r} was revoked by {ca!r}; ask the CA operator why"]
        renew = f"renew it with `fedslim enroll renew {self.folder}`"
        again = "create a new CA in time, and enroll everybody with it"
        newest = "get the newest crl.pem from the CA and install it with `fedslim enroll install`"
        spans = (
            (f"the certificate of {self.name!r}", ours.not_valid_before_utc, ours.not_valid_after_utc, renew),
            (f"the certificate of the CA {ca!r}", theirs.not_valid_before_utc, theirs.not_valid_after_utc, again),
            (f"the revocation list of {ca!r}", listed.last_update_utc, ends(listed), newest),
        )
        return found + [warning for span in spans if (warning := expiry_warning(*span, now=now))]

    def sign(self, statement: Statement) -> bytes:
        """Sign a statement in this party's name; others verify it with `TrustStore.verify`."""
        if statement.name != self.name:
            raise ParameterError(f"{self.name!r} cannot sign a statement of {statement.name!r}")
        return self._key.sign(statement.encoded)

    def derived_key(self, purpose: str) -> bytes:
        """Derive a secret key for one purpose from the private key; never log or send it."""
        made = HKDF(hashes.SHA256(), 32, salt=None, info=DERIVED_LABEL + purpose.encode())
        return made.derive(self._key.private_bytes_raw())


def expiry_warning(what: str, start: datetime, end: datetime, remedy: str, *, now: datetime) -> str | None:
    """Return a warning if something has expired or soon will."""
    left = end - whole(now)
    if left < timedelta(0):
        return f"{what} expired on {format_time(end)}; {remedy}"
    if left < min((end - start) / 3, EARLY):
        days = "today" if left.days == 0 else "in 1 day" if left.days == 1 else f"in {left.days} days"
        return f"{what} expires {days}, on {format_time(end)}; {remedy}"
    return None


def read_trust(folder: str | os.PathLike[str]) -> TrustStore:
    """Read the CA certificate and revocation list of an identity; this needs no key."""
    trusted, listed = real_path(folder) / AUTHORITY, real_path(folder) / REVOCATIONS
    authority = certificates.read_certificate(keys.read_trusted(trusted, "the trusted CA"), trusted)
    revocations = certificates.read_list(keys.read_public(listed, keys.MAX_LIST), listed)
    try:
        return TrustStore(authority, revocations)
    except CertificateError as error:
        raise CertificateError(f"{trusted}: {error}") from None
