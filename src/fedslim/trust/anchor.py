"""Whom to believe: the authority, and its list of certificates that count no longer.

    trust = TrustStore.of(ca_pem, crl_pem)
    name = trust.check(certificate, Role.MEMBER, now)
    trust.verify(statement, certificate_der, signature, members=members, now=now)

TLS checks certificates by itself (`tls.py`); this is for those that come in messages. Both follow the same rules:
signed by the authority itself, in time, not revoked by a list that is in time too, one name, one role.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fedslim.errors import CertificateError, UntrustedError
from fedslim.trust.certificates import (
    UNREADABLE,
    fingerprint_of,
    name_of,
    read_certificate,
    read_list,
    role_of,
)
from fedslim.trust.names import Role
from fedslim.trust.times import format_time, whole

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from fedslim.trust.statements import Statement

MAX_CERTIFICATE = 4096
"""Bytes of a certificate in a message; ours have some 400, and a server's with all its hosts travels in TLS only."""


@dataclass(frozen=True, slots=True, repr=False)
class TrustStore:
    """An authority's certificate and its revocation list; both are checked when this is made."""

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
        """What the authority is called."""
        return name_of(self.authority)

    @property
    def fingerprint(self) -> str:
        """By which people see that they trust the same authority."""
        return fingerprint_of(self.authority)

    @property
    def number(self) -> int:
        """The number of the revocation list; newer lists have higher ones."""
        return number_of(self.revocations)

    def renewed(self, revocations: bytes, where: object = "the revocation list") -> TrustStore:
        """The same trust with a newer list, which may have come from anybody: the authority's signature counts.

        Raises:
            CertificateError: It is not the authority's, or older than the one we have, which would bring back what
                was revoked since.
        """
        found = read_list(revocations, where)
        if not signed_by(found, self.authority):
            msg = f"{where}: this list is not signed by {self.name!r}; get the crl.pem of that CA"
            raise CertificateError(msg)
        if number_of(found) < self.number:
            msg = f"{where}: this is list {number_of(found)}, and number {self.number} is known; get the newest"
            raise CertificateError(msg)
        return TrustStore(self.authority, found)

    def check(self, certificate: x509.Certificate, role: Role, now: datetime) -> str:
        """Check a certificate and give back whose it is.

        Raises:
            UntrustedError: It is not the authority's, not in time, revoked, or not for this role.
        """
        if not signed_by(certificate, self.authority):
            msg = f"a certificate is not signed by {self.name!r}; the run must not go on with its holder"
            raise UntrustedError(msg)
        try:
            name, actual = name_of(certificate), role_of(certificate)
        except CertificateError as error:
            raise UntrustedError(str(error)) from None
        if actual is not role:
            msg = (
                f"the certificate of {name!r} is for a {actual.value}, and it is used as a {role.value}; it is refused"
            )
            raise UntrustedError(msg)
        self._check_time(certificate, f"the certificate of {name!r}", now)
        self._check_time(self.authority, f"the certificate of the CA {self.name!r}", now)
        self._check_revocation(certificate, name, now)
        return name

    def verify(
        self, statement: Statement, certificate: bytes, signature: bytes, *, members: Collection[str], now: datetime
    ) -> None:
        """Check that a member has said something: the one in the statement, and nobody else.

        Args:
            statement: What is to have been said, by whom, in which federation.
            certificate: The member's certificate (DER), as it came.
            signature: As it came.
            members: Who takes part. The authority may have signed others, for other federations.
            now: The time.

        Raises:
            UntrustedError: It has not. The message names the member.
        """
        if statement.name not in members:
            msg = f"{statement.name!r} is not a member of this federation; what it signed does not count"
            raise UntrustedError(msg)
        if len(certificate) > MAX_CERTIFICATE:
            msg = (
                f"the certificate sent for {statement.name!r} has {len(certificate):,} bytes; none of ours is so large"
            )
            raise UntrustedError(msg)
        try:
            shown_certificate = x509.load_der_x509_certificate(certificate)
        except UNREADABLE:
            msg = f"what was sent as the certificate of {statement.name!r} is none; the run must not go on"
            raise UntrustedError(msg) from None
        name = self.check(shown_certificate, Role.MEMBER, now)
        if name != statement.name:
            msg = f"the certificate sent for {statement.name!r} is that of {name!r}; somebody takes another's place"
            raise UntrustedError(msg)
        try:
            public_key(shown_certificate).verify(signature, statement.encoded)
        except InvalidSignature:
            msg = (
                f"the signature of {statement.name!r} is not on this {statement.what}, member and federation; somebody "
                "in between may have replaced it, so the run must not go on"
            )
            raise UntrustedError(msg) from None

    def _check_time(self, certificate: x509.Certificate, what: str, now: datetime) -> None:
        moment = whole(now)
        if moment < certificate.not_valid_before_utc:
            msg = (
                f"{what} is valid from {format_time(certificate.not_valid_before_utc)} on, and here it is "
                f"{format_time(moment)}; check the clocks"
            )
            raise UntrustedError(msg)
        if moment > certificate.not_valid_after_utc:
            msg = f"{what} has expired on {format_time(certificate.not_valid_after_utc)}; have it renewed"
            raise UntrustedError(msg)

    def _check_revocation(self, certificate: x509.Certificate, name: str, now: datetime) -> None:
        moment, last = whole(now), ends(self.revocations)
        if moment > last:
            msg = (
                f"the revocation list is too old: it ended on {format_time(last)}; get a new crl.pem from {self.name!r}"
            )
            raise UntrustedError(msg)
        if self.revocations.get_revoked_certificate_by_serial_number(certificate.serial_number) is not None:
            msg = f"the certificate of {name!r} was revoked by {self.name!r}; the run must not go on with its holder"
            raise UntrustedError(msg)


def check_authority(certificate: x509.Certificate) -> None:
    """Check that a certificate is that of an authority of ours.

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
        msg = "this is not the certificate of a CA that signs for itself; name the ca.pem that `fedslim ca init` made"
        raise CertificateError(msg)


def signed_by(thing: x509.Certificate | x509.CertificateRevocationList, authority: x509.Certificate) -> bool:
    """Whether the authority itself has signed a certificate or a revocation list."""
    try:
        key = public_key(authority)
        if isinstance(thing, x509.Certificate):
            thing.verify_directly_issued_by(authority)
            return True
        return thing.issuer == authority.subject and thing.is_signature_valid(key)
    except (*UNREADABLE, InvalidSignature, CertificateError):
        return False


def public_key(certificate: x509.Certificate) -> Ed25519PublicKey:
    """The key that a certificate ties to a name."""
    key = certificate.public_key()
    if not isinstance(key, Ed25519PublicKey):
        msg = "the key of a certificate is not Ed25519; have one made with `fedslim enroll`"
        raise CertificateError(msg)
    return key


def number_of(revocations: x509.CertificateRevocationList) -> int:
    """The number of a revocation list; those without are older than all."""
    try:
        return revocations.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    except (*UNREADABLE, x509.ExtensionNotFound):
        return -1


def ends(revocations: x509.CertificateRevocationList) -> datetime:
    """Until when a list is to be believed; one that does not say it is never."""
    return revocations.next_update_utc or revocations.last_update_utc
