"""Sign agreement keys with a site's NVFlare startup kit, so that the server cannot replace them.

NVFlare's provisioning gives every site a key, and a certificate of the project's root CA with the site's name. Members
sign the same statements as over fedslim's own transport (`trust/identity.py`), but with NVFlare's RSA keys and
without a revocation list. Whoever provisions the project can impersonate any site.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID

from fedslim.data.textstream import is_file, told_as_data_errors
from fedslim.errors import CertificateError, UntrustedError
from fedslim.federated.sessions import KeyTrust, MemberTrust
from fedslim.settings.federation_file import FederationFile
from fedslim.trust.identity import Statement

KEY, CERTIFICATE, ROOT = "client.key", "client.crt", "rootCA.pem"

PURPOSE = b"\0fedslim over NVFlare: "
"""A prefix of signed data. NVFlare signs with the same key, among others text that the server chooses; that text begins
with the name of the site, and no name begins with a zero byte."""

SHORTEST_KEY = 2048
_SHA = hashes.SHA256()
_PADDING = PSS(MGF1(_SHA), PSS.DIGEST_LENGTH)
_UNREADABLE = (ValueError, TypeError, UnsupportedAlgorithm, x509.DuplicateExtension)


def kit_check(folder: Path, file: FederationFile) -> KeyTrust | None:
    """Return what a server believes: the root CA of its startup kit; None if there is none, as in the simulator.

    The server checks members' keys before the others do, so that a bad key affects only its own member.
    """
    if not is_file(folder / ROOT):
        return None
    return KeyTrust(file, partial(_verify, file.federation.members, _certificate(folder / ROOT)))


def kit_trust(folder: Path, file: FederationFile, name: str) -> MemberTrust:
    """Return what signs with a site's startup kit, and checks the signatures of others."""
    root, own = _certificate(folder / ROOT), _certificate(folder / CERTIFICATE)
    try:
        key = load_pem_private_key(_content(folder / KEY), None)
    except _UNREADABLE:
        msg = f"{folder / KEY}: this is not a private key without a passphrase; provision the site again"
        raise CertificateError(msg) from None
    if not isinstance(key, RSAPrivateKey) or key.public_key() != own.public_key():
        msg = f"{folder / KEY}: this is not the RSA key of {CERTIFICATE}; provision the site again"
        raise CertificateError(msg)

    def sign(statement: Statement) -> bytes:
        return key.sign(PURPOSE + statement.encoded, _PADDING, _SHA)

    verify = partial(_verify, file.federation.members, root)
    made = MemberTrust(file, verify, name, own.public_bytes(Encoding.DER), sign)
    try:
        made.check("roster", name, b"", made.certificate, made.sign("roster", b""))
    except UntrustedError as error:
        raise CertificateError(f"{folder}: other members would refuse this startup kit: {error}") from None
    return made


def _verify(
    members: Sequence[str], root: x509.Certificate, statement: Statement, certificate: bytes, signature: bytes
) -> None:
    """Check that a member has signed a statement, and that its certificate is valid."""
    name = statement.name
    if name not in members:
        raise UntrustedError(f"{name!r} is not a member of this federation; its signature is not accepted")
    try:
        presented = x509.load_der_x509_certificate(certificate)
        presented.verify_directly_issued_by(root)
        public = presented.public_key()
    except (*_UNREADABLE, InvalidSignature):
        msg = f"the certificate sent for {name!r} was not issued by this NVFlare project's root CA"
        raise UntrustedError(msg) from None
    named = [attribute.value for attribute in presented.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if named != [name]:
        msg = f"the certificate sent for {name!r} belongs to {', '.join(map(repr, named))}; it is refused"
        raise UntrustedError(msg)
    now = datetime.now(UTC)
    for what, one in ((f"the certificate of {name!r}", presented), ("the certificate of the root CA", root)):
        if not one.not_valid_before_utc <= now <= one.not_valid_after_utc:
            msg = f"{what} has expired or is not valid yet; check the clocks, or provision the site again"
            raise UntrustedError(msg)
    if not isinstance(public, RSAPublicKey) or public.key_size < SHORTEST_KEY:
        msg = f"the certificate of {name!r} has no RSA key of at least {SHORTEST_KEY} bits; it is refused"
        raise UntrustedError(msg)
    try:
        public.verify(signature, PURPOSE + statement.encoded, _PADDING, _SHA)
    except InvalidSignature:
        raise UntrustedError(
            f"the signature of {name!r} does not match this {statement.what}, member and federation; it may have "
            "been replaced on the way, or the members have different federation files, so the run must not go on"
        ) from None


def _content(path: Path) -> bytes:
    with told_as_data_errors(path):
        return path.read_bytes()


def _certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(_content(path))
    except _UNREADABLE:
        msg = f"{path}: this file has no certificate, or a damaged one; provision the site again"
        raise CertificateError(msg) from None
