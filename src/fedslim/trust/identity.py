"""The identity of a party: its name, certificate and key, and the CA that it trusts.

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
from fedslim.trust.names import format_time, whole

if TYPE_CHECKING:
    import os
    from datetime import datetime
    from pathlib import Path

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from fedslim.trust.anchor import Statement
    from fedslim.trust.names import Host, Role

KEY, CERTIFICATE, AUTHORITY, REVOCATIONS = "key.pem", "certificate.pem", "ca.pem", "crl.pem"

DERIVED_BYTES = 32
DERIVED_LABEL = b"fedslim derived key v1: "

EARLY = timedelta(days=30)
"""Warn at most this long before the expiry, and only in the last third of the lifetime."""


@dataclass(frozen=True, slots=True)
class Files:
    """The files of an identity."""

    key: Path
    certificate: Path
    authority: Path
    revocations: Path

    @classmethod
    def within(cls, folder: str | os.PathLike[str]) -> Files:
        """Return the files in a folder made by `fedslim enroll`."""
        folder = real_path(folder)
        return cls(folder / KEY, folder / CERTIFICATE, folder / AUTHORITY, folder / REVOCATIONS)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Identity:
    """A member or a server with the key to prove its name. `repr` shows neither the key nor the passphrase."""

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
        """Load an identity that `fedslim enroll` created and installed.

        Whether the certificate is currently valid is checked when it is used, not here.

        Args:
            source: A folder, or the individual files.
            passphrase: The passphrase of the key, if it has one.

        Raises:
            CertificateError: A file is missing, damaged or of another identity, or other users may read the key.
        """
        files = source if isinstance(source, Files) else Files.within(source)
        if is_file(files.key) and not is_file(files.certificate):
            msg = (
                f"{files.certificate}: no such file, so the certificate is not installed yet; have the request signed "
                "by the CA, and install its reply with `fedslim enroll install`"
            )
            raise CertificateError(msg)
        certificate = read_certificate(read_public(files.certificate), files.certificate)
        trust = read_trust(files)
        if not signed_by(certificate, trust.authority):
            msg = f"{files.certificate}: not signed by {trust.name!r} ({files.authority}); install it again"
            raise CertificateError(msg)
        key = read_key(files.key, passphrase)
        if key.public_key() != public_key(certificate):
            msg = f"{files.certificate}: this certificate does not belong to {files.key}; install it again"
            raise CertificateError(msg)
        return cls(name_of(certificate), role_of(certificate), certificate, trust, files, key, passphrase)

    @property
    def expires(self) -> datetime:
        """When the certificate expires."""
        return self.certificate.not_valid_after_utc

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The host names and addresses of a server; a member has none."""
        return hosts_of(self.certificate)

    @property
    def certificate_der(self) -> bytes:
        """The certificate as it is sent in messages."""
        return self.certificate.public_bytes(Encoding.DER)

    def check(self, now: datetime) -> None:
        """Check that others would accept this identity now.

        Raises:
            UntrustedError: The certificate is expired, not valid yet or revoked, or our revocation list has expired.
        """
        self.trust.check(self.certificate, self.role, now)

    def warnings(self, now: datetime) -> list[str]:
        """Return a sentence, with what to do, for everything that has expired or soon will."""
        renew = f"renew it with `fedslim enroll renew {self.files.key.parent}`"
        ours, theirs, listed = self.certificate, self.trust.authority, self.trust.revocations
        spans = (
            (f"the certificate of {self.name!r}", ours.not_valid_before_utc, ours.not_valid_after_utc, renew),
            (
                f"the certificate of the CA {self.trust.name!r}",
                theirs.not_valid_before_utc,
                theirs.not_valid_after_utc,
                "create a new CA in time, and enroll everybody with it",
            ),
            (
                f"the revocation list of {self.trust.name!r}",
                listed.last_update_utc,
                ends(listed),
                "get the newest crl.pem from the CA and install it with `fedslim enroll install`",
            ),
        )
        found = [sentence for span in spans if (sentence := expiry_warning(*span, now=now)) is not None]
        if listed.get_revoked_certificate_by_serial_number(ours.serial_number) is not None:
            found.insert(
                0, f"the certificate of {self.name!r} was revoked by {self.trust.name!r}; ask the CA operator why"
            )
        return found

    def sign(self, statement: Statement) -> bytes:
        """Sign a statement in this party's name; others verify it with `TrustStore.verify`.

        Raises:
            ParameterError: The statement is in another party's name.
        """
        if statement.name != self.name:
            msg = f"{self.name!r} cannot sign a statement of {statement.name!r}"
            raise ParameterError(msg)
        return self._key.sign(statement.encoded)

    def derived_key(self, purpose: str) -> bytes:
        """Derive a secret key for one purpose from the private key; never log or send it."""
        made = HKDF(hashes.SHA256(), DERIVED_BYTES, salt=None, info=DERIVED_LABEL + purpose.encode())
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


def read_trust(source: str | os.PathLike[str] | Files) -> TrustStore:
    """Read the CA certificate and revocation list of an identity; this needs no key.

    Raises:
        CertificateError: A file is missing or damaged, or other users may change it.
    """
    files = source if isinstance(source, Files) else Files.within(source)
    authority = read_certificate(read_trusted(files.authority, "the trusted CA"), files.authority)
    revocations = read_list(read_public(files.revocations, MAX_LIST), files.revocations)
    try:
        return TrustStore(authority, revocations)
    except CertificateError as error:
        msg = f"{files.authority}: {error}"
        raise CertificateError(msg) from None
