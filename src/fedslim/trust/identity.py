"""Who we are on the network: a name, the certificate that says so, its key, and whom we believe about others.

identity = Identity.load("hospital-a")
for sentence in identity.warnings(now):
    print(sentence)
signature = identity.sign(Statement.agreement_key(federation, identity.name, public))
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding

from fedslim.data.textstream import is_file, real_path
from fedslim.errors import CertificateError, ParameterError
from fedslim.trust.anchor import TrustStore, ends, public_key, signed_by
from fedslim.trust.certificates import hosts_of, name_of, read_certificate, read_list, role_of
from fedslim.trust.keys import MAX_LIST, read_key, read_public, read_trusted
from fedslim.trust.times import format_time, whole

if TYPE_CHECKING:
    import os
    from datetime import datetime
    from pathlib import Path

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from fedslim.trust.names import Host, Role
    from fedslim.trust.statements import Statement

KEY, CERTIFICATE, AUTHORITY, REVOCATIONS = "key.pem", "certificate.pem", "ca.pem", "crl.pem"

DERIVED_BYTES = 32
DERIVED_LABEL = b"fedslim derived key v1: "

EARLY = timedelta(days=30)
"""Warn no earlier than this before the end, and not before two thirds of the time are over."""


@dataclass(frozen=True, slots=True)
class Files:
    """Where the parts of an identity are."""

    key: Path
    certificate: Path
    authority: Path
    revocations: Path

    @classmethod
    def within(cls, folder: str | os.PathLike[str]) -> Files:
        """As `fedslim enroll` arranges them."""
        folder = real_path(folder)
        return cls(folder / KEY, folder / CERTIFICATE, folder / AUTHORITY, folder / REVOCATIONS)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Identity:
    """A member or a server, able to show that it is the one. Its key and passphrase are never shown."""

    name: str
    role: Role
    certificate: x509.Certificate
    trust: TrustStore
    files: Files
    _key: Ed25519PrivateKey
    _passphrase: str | None

    def __repr__(self) -> str:
        return f"Identity({self.name!r}, {self.role.value}, until {format_time(self.expires)})"

    @classmethod
    def load(cls, source: str | os.PathLike[str] | Files, passphrase: str | None = None) -> Identity:
        """Load what `fedslim enroll` made and installed.

        Args:
            source: A folder, or the files by themselves.
            passphrase: That of the key, if it has one.

        Raises:
            CertificateError: A part is missing or damaged, does not belong to the others, or others may read the key.
                Whether the certificate is still good is a matter of time, and checked when it is used.
        """
        files = source if isinstance(source, Files) else Files.within(source)
        if is_file(files.key) and not is_file(files.certificate):
            msg = (
                f"{files.certificate}: there is no such file, so the certificate has not come yet; have the request "
                "signed by the CA, and install what it sends back with `fedslim enroll install`"
            )
            raise CertificateError(msg)
        certificate = read_certificate(read_public(files.certificate), files.certificate)
        trust = read_trust(files)
        if not signed_by(certificate, trust.authority):
            msg = f"{files.certificate}: this is not signed by {trust.name!r} ({files.authority}); install it again"
            raise CertificateError(msg)
        key = read_key(files.key, passphrase)
        if key.public_key() != public_key(certificate):
            msg = f"{files.certificate}: this certificate is for another key than {files.key}; install it again"
            raise CertificateError(msg)
        return cls(name_of(certificate), role_of(certificate), certificate, trust, files, key, passphrase)

    @property
    def expires(self) -> datetime:
        """When the certificate ends."""
        return self.certificate.not_valid_after_utc

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Under which host names and addresses a server is reached; a member has none."""
        return hosts_of(self.certificate)

    @property
    def certificate_der(self) -> bytes:
        """The certificate as it goes into messages."""
        return self.certificate.public_bytes(Encoding.DER)

    def check(self, now: datetime) -> None:
        """Check that others would believe us now.

        Raises:
            UntrustedError: The certificate is not in time, or revoked, or our revocation list is too old.
        """
        self.trust.check(self.certificate, self.role, now)

    def warnings(self, now: datetime) -> list[str]:
        """What will end soon, or has ended, in sentences that say what to do; nothing if all is well."""
        renew = f"renew it with `fedslim enroll renew {self.files.key.parent}`"
        ours, theirs, listed = self.certificate, self.trust.authority, self.trust.revocations
        spans = (
            (f"the certificate of {self.name!r}", ours.not_valid_before_utc, ours.not_valid_after_utc, renew),
            (
                f"the certificate of the CA {self.trust.name!r}",
                theirs.not_valid_before_utc,
                theirs.not_valid_after_utc,
                "make a new CA in time, and enrol everybody with it",
            ),
            (
                f"the revocation list of {self.trust.name!r}",
                listed.last_update_utc,
                ends(listed),
                "get the newest crl.pem from the CA and install it with `fedslim enroll install`",
            ),
        )
        told = [sentence for span in spans if (sentence := expiry_warning(*span, now=now)) is not None]
        if listed.get_revoked_certificate_by_serial_number(ours.serial_number) is not None:
            told.insert(
                0, f"the certificate of {self.name!r} was revoked by {self.trust.name!r}; ask the CA's keeper why"
            )
        return told

    def sign(self, statement: Statement) -> bytes:
        """Sign a statement of our own; others check it with `TrustStore.verify`.

        Raises:
            ParameterError: It is about somebody else.
        """
        if statement.name != self.name:
            msg = f"{self.name!r} cannot sign a statement of {statement.name!r}"
            raise ParameterError(msg)
        return self._key.sign(statement.encoded)

    def derived_key(self, purpose: str) -> bytes:
        """A secret key for one purpose that only the owner of the private key can make; never log or send it."""
        made = HKDF(hashes.SHA256(), DERIVED_BYTES, salt=None, info=DERIVED_LABEL + purpose.encode())
        return made.derive(self._key.private_bytes_raw())


def expiry_warning(what: str, start: datetime, end: datetime, remedy: str, *, now: datetime) -> str | None:
    """A warning if something ends soon or has ended."""
    left = end - whole(now)
    if left < timedelta(0):
        return f"{what} has ended on {format_time(end)}; {remedy}"
    if left < min((end - start) / 3, EARLY):
        days = "today" if left.days == 0 else "in 1 day" if left.days == 1 else f"in {left.days} days"
        return f"{what} ends {days}, on {format_time(end)}; {remedy}"
    return None


def read_trust(source: str | os.PathLike[str] | Files) -> TrustStore:
    """Whom an identity believes, for which no key is needed.

    Raises:
        CertificateError: The files are not there, damaged, or others may change them.
    """
    files = source if isinstance(source, Files) else Files.within(source)
    authority = read_certificate(read_trusted(files.authority, "whom you trust"), files.authority)
    revocations = read_list(read_public(files.revocations, MAX_LIST), files.revocations)
    try:
        return TrustStore(authority, revocations)
    except CertificateError as error:
        msg = f"{files.authority}: {error}"
        raise CertificateError(msg) from None
