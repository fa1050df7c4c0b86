"""Trust in a CA: its certificate and its revocation list, and how to verify certificates against them.

    trust = TrustStore.of(ca_pem, crl_pem)
    name = trust.check(certificate, Role.MEMBER, now)
    trust.verify(statement, certificate_der, signature, members=members, now=now)

TLS verifies certificates itself (`tls.py`); this module is for certificates in messages. Both apply the same rules: a
certificate has one name and one role, is signed directly by the CA, is within its validity period, and is not on a
current revocation list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fedslim.errors import CertificateError, ParameterError, UntrustedError
from fedslim.trust.certificates import (
    UNREADABLE,
    fingerprint_of,
    name_of,
    read_certificate,
    read_list,
    role_of,
)
from fedslim.trust.names import Role, checked_name, format_time, whole

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime


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
            msg = f"the revocation list is not signed by {self.name!r}; get the crl.pem of that CA"
            raise CertificateError(msg)

    @classmethod
    def of(cls, authority: bytes, revocations: bytes) -> TrustStore:
        """Read both from PEM."""
        return cls(read_certificate(authority, "the CA's certificate"), read_list(revocations, "the revocation list"))

    def __repr__(self) -> str:
        return f"TrustStore({self.name!r}, {self.fingerprint[:16]}…, list {self.number})"

    @property
    def name(self) -> str:
        """The name of the CA."""
        return name_of(self.authority)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the CA's certificate, for people to compare."""
        return fingerprint_of(self.authority)

    @property
    def number(self) -> int:
        """The number of the revocation list; newer lists have higher numbers."""
        return number_of(self.revocations)

    def renewed(self, revocations: bytes, where: object = "the revocation list") -> TrustStore:
        """Return the same trust with a newer list, from any source: only the CA's signature matters.

        Raises:
            CertificateError: The list is not signed by the CA, or is older than the current one, which would restore
                revoked certificates.
        """
        found = read_list(revocations, where)
        if not signed_by(found, self.authority):
            msg = f"{where}: this revocation list is not signed by {self.name!r}; get the crl.pem of that CA"
            raise CertificateError(msg)
        if number_of(found) < self.number:
            msg = (
                f"{where}: this is list number {number_of(found)}, but number {self.number} is already installed; get "
                "the newest crl.pem"
            )
            raise CertificateError(msg)
        return TrustStore(self.authority, found)

    def check(self, certificate: x509.Certificate, role: Role, now: datetime) -> str:
        """Verify a certificate and return the name of its holder.

        Raises:
            UntrustedError: It is not signed by the CA, expired or not valid yet, revoked, or for another role.
        """
        if not signed_by(certificate, self.authority):
            msg = f"a certificate is not signed by {self.name!r}; its holder must not take part"
            raise UntrustedError(msg)
        try:
            name, actual = name_of(certificate), role_of(certificate)
        except CertificateError as error:
            raise UntrustedError(str(error)) from None
        if actual is not role:
            msg = (
                f"the certificate of {name!r} is for a {actual.value}, but it is used as a {role.value}; it is refused"
            )
            raise UntrustedError(msg)
        self._check_time(certificate, f"the certificate of {name!r}", now)
        self._check_time(self.authority, f"the certificate of the CA {self.name!r}", now)
        self._check_revocation(certificate, name, now)
        return name

    def verify(
        self, statement: Statement, certificate: bytes, signature: bytes, *, members: Collection[str], now: datetime
    ) -> None:
        """Verify that the member in a statement signed it.

        Args:
            statement: What was signed, by whom, in which federation.
            certificate: The member's certificate (DER), as received.
            signature: As received.
            members: The members of the federation. The CA may have signed certificates for other federations too.
            now: The current time.

        Raises:
            UntrustedError: The member did not sign it. The message names the member.
        """
        if statement.name not in members:
            msg = f"{statement.name!r} is not a member of this federation; its signature is refused"
            raise UntrustedError(msg)
        if len(certificate) > MAX_CERTIFICATE:
            msg = (
                f"the certificate sent for {statement.name!r} has {len(certificate):,} bytes, more than the limit of "
                f"{MAX_CERTIFICATE:,}; it is refused"
            )
            raise UntrustedError(msg)
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
            msg = (
                f"the signature of {statement.name!r} does not match this {statement.what}; the server, or somebody "
                "in between, may have replaced it, so the run must stop"
            )
            raise UntrustedError(msg) from None

    def _check_time(self, certificate: x509.Certificate, what: str, now: datetime) -> None:
        moment = whole(now)
        if moment < certificate.not_valid_before_utc:
            msg = (
                f"{what} is not valid before {format_time(certificate.not_valid_before_utc)}, but the time here is "
                f"{format_time(moment)}; check the clocks"
            )
            raise UntrustedError(msg)
        if moment > certificate.not_valid_after_utc:
            msg = f"{what} expired on {format_time(certificate.not_valid_after_utc)}; have it renewed"
            raise UntrustedError(msg)

    def _check_revocation(self, certificate: x509.Certificate, name: str, now: datetime) -> None:
        moment, last = whole(now), ends(self.revocations)
        if moment > last:
            msg = f"the revocation list expired on {format_time(last)}; get a new crl.pem from {self.name!r}"
            raise UntrustedError(msg)
        if self.revocations.get_revoked_certificate_by_serial_number(certificate.serial_number) is not None:
            msg = f"the certificate of {name!r} was revoked by {self.name!r}; its holder must not take part"
            raise UntrustedError(msg)


def check_authority(certificate: x509.Certificate) -> None:
    """Check that a certificate is that of a CA.

    Raises:
        CertificateError: It is not.
    """
    try:
        extensions = certificate.extensions
        constraints = extensions.get_extension_for_class(x509.BasicConstraints).value
        usage = extensions.get_extension_for_class(x509.KeyUsage).value
        fine = constraints.ca and usage.key_cert_sign and usage.crl_sign
    except (*UNREADABLE, x509.ExtensionNotFound):
        fine = False
    if not fine or not signed_by(certificate, certificate):
        msg = "this is not the certificate of a CA, signed by itself; give the ca.pem that `fedslim ca init` made"
        raise CertificateError(msg)


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
        msg = "the key of a certificate is not an Ed25519 key; create a new one with `fedslim enroll`"
        raise CertificateError(msg)
    return key


def number_of(revocations: x509.CertificateRevocationList) -> int:
    """Return the number of a revocation list; one without a number counts as the oldest."""
    try:
        return revocations.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    except (*UNREADABLE, x509.ExtensionNotFound):
        return -1


def ends(revocations: x509.CertificateRevocationList) -> datetime:
    """Return when a list expires; one without an expiry date has expired already."""
    return revocations.next_update_utc or revocations.last_update_utc


# -- what members sign for each other ---------------------------------------------------------------------------------

LABEL = b"fedslim statement v1: "
AGREEMENT_KEY = "agreement key"
ROSTER = "roster"


@dataclass(frozen=True, slots=True)
class Statement:
    """Data that a member signs, with its purpose, its federation and the member's name.

    The same key also signs TLS handshakes and certificate requests. Those start with 64 spaces and with 0x30, a
    statement with its label, so that none of them can be mistaken for another.
    """

    what: str
    federation: bytes
    name: str
    data: bytes

    def __post_init__(self) -> None:
        checked_name(self.name)
        if not self.federation:
            msg = "federation: the id of the federation is empty, and a statement needs it; give the federation's id"
            raise ParameterError(msg)

    @classmethod
    def agreement_key(cls, federation: bytes, name: str, public: bytes) -> Statement:
        """State the member's X25519 key for secure aggregation.

        Args:
            federation: The id of the federation, or better of one run: then the statement cannot be replayed in
                another run.
            name: The member.
            public: The public key, or other bytes that the member commits to.
        """
        return cls(AGREEMENT_KEY, federation, name, public)

    @classmethod
    def roster(cls, federation: bytes, name: str, digest: bytes) -> Statement:
        """State the digest of what the member received before a run, or a new epoch of it, started."""
        return cls(ROSTER, federation, name, digest)

    @property
    def encoded(self) -> bytes:
        """The bytes to sign: each part with its length in front, so that different statements have different bytes."""
        parts = (self.what.encode(), self.federation, self.name.encode(), self.data)
        return LABEL + b"".join(len(part).to_bytes(4, "little") + part for part in parts)
