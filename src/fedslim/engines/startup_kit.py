"""Agreement keys signed with a site's NVFlare startup kit, so that the server can carry them and make none.

    trust = KitTrust.load(startup_folder, file, "north")

NVFlare's provisioning gives every site a key and a certificate of the project's root CA, with the site's name in it.
What is signed is what members sign among themselves on our own transport (`trust/statements.py`); only the
kind of key is NVFlare's (RSA) and there is no revocation list. Whoever provisions the project can be any site.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID

from fedslim.data.textstream import is_file, told_as_data_errors
from fedslim.errors import CertificateError, UntrustedError
from fedslim.trust import Statement

if TYPE_CHECKING:
    from pathlib import Path

    from fedslim.settings.federation_file import FederationFile

KEY, CERTIFICATE, ROOT = "client.key", "client.crt", "rootCA.pem"

PURPOSE = b"\0fedslim over NVFlare: "
"""In front of what is signed. NVFlare signs with the same key, among others texts that the server chooses; those begin
with the name of the site, and no name begins with a zero byte."""

SHORTEST_KEY = 2048
_SHA = hashes.SHA256()
_PADDING = PSS(MGF1(_SHA), PSS.DIGEST_LENGTH)
_UNREADABLE = (ValueError, TypeError, UnsupportedAlgorithm, x509.DuplicateExtension)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class KitCheck:
    """Checks members' agreement keys; at the server as the members will, so that a bad one ends nobody else's part."""

    members: tuple[str, ...]
    federation: bytes
    root: x509.Certificate

    @classmethod
    def read(cls, folder: Path, file: FederationFile) -> KitCheck | None:
        """What a server's startup kit can check; nothing where there is none, as in the simulator."""
        if not is_file(folder / ROOT):
            return None
        return cls(file.federation.members, _federation(file), _certificate(folder / ROOT))

    def check(self, name: str, key: bytes, certificate: bytes, signature: bytes) -> None:
        """See `protocol.roster.KeyCheck`."""
        self._check(Statement.agreement_key(self.federation, name, key), certificate, signature)

    def check_roster(self, name: str, digest: bytes, certificate: bytes, signature: bytes) -> None:
        """See `protocol.roster.KeyCheck`."""
        self._check(Statement.roster(self.federation, name, digest), certificate, signature)

    def _check(self, statement: Statement, certificate: bytes, signature: bytes) -> None:
        """Check that a member has signed this.

        Raises:
            UntrustedError: It cannot be shown to have.
        """
        name = statement.name
        if name not in self.members:
            msg = f"{name!r} is not a member of this federation; what it signed does not count"
            raise UntrustedError(msg)
        try:
            shown = x509.load_der_x509_certificate(certificate)
            shown.verify_directly_issued_by(self.root)
            public = shown.public_key()
        except (*_UNREADABLE, InvalidSignature):
            msg = f"what was sent as the certificate of {name!r} is not one of this NVFlare project's root CA"
            raise UntrustedError(msg) from None
        named = [attribute.value for attribute in shown.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        if named != [name]:
            msg = f"the certificate sent for {name!r} is that of {', '.join(map(repr, named))}; it is refused"
            raise UntrustedError(msg)
        now = datetime.now(UTC)
        for what, one in ((f"the certificate of {name!r}", shown), ("the certificate of the root CA", self.root)):
            if not one.not_valid_before_utc <= now <= one.not_valid_after_utc:
                msg = f"{what} is not in time; check the clocks, or have the site provisioned again"
                raise UntrustedError(msg)
        if not isinstance(public, RSAPublicKey) or public.key_size < SHORTEST_KEY:
            msg = f"the certificate of {name!r} has no RSA key of {SHORTEST_KEY} bits or more; it is refused"
            raise UntrustedError(msg)
        try:
            public.verify(signature, PURPOSE + statement.encoded, _PADDING, _SHA)
        except InvalidSignature:
            msg = (
                f"the signature of {name!r} is not on this {statement.what}, member and federation; somebody in "
                "between may have replaced it, or the members have different files, so the run must not go on"
            )
            raise UntrustedError(msg) from None


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class KitTrust(KitCheck):
    """Signs for this site, and checks what the others signed: see `protocol.roster.Trust`."""

    name: str
    own: x509.Certificate
    _key: RSAPrivateKey

    @classmethod
    def load(cls, folder: Path, file: FederationFile, name: str) -> KitTrust:
        """Load a site's startup kit.

        Raises:
            CertificateError: A file of it is not there, or cannot be used.
        """
        root, own = _certificate(folder / ROOT), _certificate(folder / CERTIFICATE)
        try:
            key = load_pem_private_key(_content(folder / KEY), None)
        except _UNREADABLE:
            msg = f"{folder / KEY}: this is no private key of a startup kit; it must not have a passphrase"
            raise CertificateError(msg) from None
        if not isinstance(key, RSAPrivateKey) or key.public_key() != own.public_key():
            msg = f"{folder / KEY}: this is not the RSA key of the certificate beside it; provision the site again"
            raise CertificateError(msg)
        made = cls(file.federation.members, _federation(file), root, name, own, key)
        try:
            made.check(name, b"", made.certificate, made.sign(b""))
        except UntrustedError as error:
            msg = f"{folder}: the others would not believe this startup kit: {error}"
            raise CertificateError(msg) from None
        return made

    @property
    def certificate(self) -> bytes:
        """The site's own, as it goes into messages."""
        return self.own.public_bytes(Encoding.DER)

    def sign(self, key: bytes) -> bytes:
        """A signature of the site's agreement key."""
        return self._signed(Statement.agreement_key(self.federation, self.name, key))

    def sign_roster(self, digest: bytes) -> bytes:
        """A signature of the roster that the site was shown."""
        return self._signed(Statement.roster(self.federation, self.name, digest))

    def _signed(self, statement: Statement) -> bytes:
        return self._key.sign(PURPOSE + statement.encoded, _PADDING, _SHA)


def _federation(file: FederationFile) -> bytes:
    """Whoever has another file speaks of another federation: nobody believes its keys."""
    return bytes.fromhex(file.federation.id) + file.digest()


def _content(path: Path) -> bytes:
    with told_as_data_errors(path):
        return path.read_bytes()


def _certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(_content(path))
    except _UNREADABLE:
        msg = f"{path}: there is no certificate in this file, or it is damaged; provision the site again"
        raise CertificateError(msg) from None
