"""Create and read requests, certificates and revocation lists; valid names, hosts, roles and times.

There is one CA, without intermediate CAs. A certificate contains a name (its only common name), one role (its only
extended key usage) and, for a server, its hosts; nothing else. Of a request, only the name and the key are copied into
the certificate.

A name appears in certificates, file names, logs and messages. Its alphabet is small, so that no two different names
look alike, and none can be an option, a path or an escape sequence.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import Enum
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple, TypeAlias

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedslim.errors import CertificateError, ParameterError
from fedslim.toml.values import MEMBER, address, is_host_name

MAX_NAME_LENGTH = 63
MAX_HOSTS = 100
MAX_CA_NAME_LENGTH = 64  # the limit of X.509 for a common name
Host: TypeAlias = str | IPv4Address | IPv6Address
Hosts: TypeAlias = Iterable[Host]


# -- names, hosts and roles --------------------------------------------------------------------------------------------


class Role(Enum):
    """What the holder of a certificate may do: answer as a member, or ask as the server, never both."""

    MEMBER = "member"
    SERVER = "server"


def checked_name(name: str, what: str = "name") -> str:
    """Return the name of a member or a server if it is valid."""
    if not MEMBER.fullmatch(name):
        raise ParameterError(
            f"{what}: {name!r:.80} cannot be the name of a member; use 1 to {MAX_NAME_LENGTH} lower-case letters "
            "(a-z), digits and hyphens, without a hyphen at either end, such as hospital-a"
        )
    return name


def checked_ca_name(name: str) -> str:
    """Return the name of a certificate authority if it is valid: printable, without control characters."""
    if not name.strip() or len(name) > MAX_CA_NAME_LENGTH or not (name.isascii() and name.isprintable()):
        raise ParameterError(
            f"name: {name!r:.80} cannot be the name of a certificate authority; use 1 to {MAX_CA_NAME_LENGTH} "
            "printable ASCII characters, such as 'Heart Study CA'"
        )
    return name


def checked_hosts(hosts: Hosts) -> tuple[Host, ...]:
    """Return the host names and addresses for a server's certificate, in the order given, without repeats."""
    found = dict.fromkeys(map(_host, hosts))
    if len(found) > MAX_HOSTS:
        raise ParameterError(f"host: {len(found)} hosts are too many; give at most {MAX_HOSTS}")
    return tuple(found)


def _host(host: Host) -> Host:
    if not isinstance(host, str):
        return host
    if (found := address(host)) is not None:
        if isinstance(found, IPv6Address) and found.scope_id:
            msg = f"host: {host!r:.80} has a zone, which is valid on one machine only; remove the % and what follows it"
            raise ParameterError(msg)
        return found
    if not is_host_name(host):
        raise ParameterError(
            f"host: {host!r:.80} is neither a host name nor an address; give one such as fed.example.org or 10.0.0.7, "
            "without scheme, port or wildcard, and international names in their xn-- form"
        )
    return host.lower()


# -- times as in certificates: UTC, in whole seconds ------------------------------------------------------------------

SLACK = timedelta(minutes=10)
"""Certificates and lists are valid from a little earlier than now, because other clocks may be behind."""


def whole(now: datetime) -> datetime:
    """Convert a time to UTC and whole seconds."""
    if now.tzinfo is None:
        raise ParameterError("now: this time has no time zone; give one in UTC, such as datetime.now(UTC)")
    return now.astimezone(UTC).replace(microsecond=0)


def validity(days: int, most: int) -> timedelta:
    """Convert a lifetime from days."""
    if not 1 <= days <= most:
        raise ParameterError(f"days: {days} is out of range; give 1 to {most:,}")
    return timedelta(days=days)


def format_time(moment: datetime) -> str:
    """Format a time for people."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


# -- creating ----------------------------------------------------------------------------------------------------------

USES = {Role.MEMBER: ExtendedKeyUsageOID.CLIENT_AUTH, Role.SERVER: ExtendedKeyUsageOID.SERVER_AUTH}

# What `cryptography` raises for malformed input.
UNREADABLE = (ValueError, TypeError, UnsupportedAlgorithm, x509.DuplicateExtension, x509.UnsupportedGeneralNameType)


def make_request(key: Ed25519PrivateKey, name: str, hosts: Iterable[Host] = ()) -> x509.CertificateSigningRequest:
    """Create a request to certify a name for this key; the hosts are a proposal that the CA may override."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(_subject(name))
    if alternatives := list(map(_alternative, hosts)):
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return builder.sign(key, None)


def make_authority(key: Ed25519PrivateKey, name: str, start: datetime, end: datetime) -> x509.Certificate:
    """Create the self-signed certificate of a CA. It may sign members and servers, but no other CA."""
    critical = x509.BasicConstraints(ca=True, path_length=0), _usage(authority=True)
    return _certificate(_subject(name), key, (name, key.public_key()), (start, end), critical).sign(key, None)


def make_certificate(
    authority: x509.Certificate,
    signer: Ed25519PrivateKey,
    holder: tuple[str, Ed25519PublicKey],
    purpose: tuple[Role, tuple[Host, ...]],
    lifetime: tuple[datetime, datetime],
) -> x509.Certificate:
    """Create a certificate for the name and key of a holder, for one role and a lifetime."""
    role, hosts = purpose
    use = x509.ExtendedKeyUsage([USES[role]])
    critical = x509.BasicConstraints(ca=False, path_length=None), _usage(authority=False), use
    builder = _certificate(authority.subject, signer, holder, lifetime, critical)
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName(list(map(_alternative, hosts))), critical=False)
    return builder.sign(signer, None)


def _certificate(
    issuer: x509.Name,
    signer: Ed25519PrivateKey,
    holder: tuple[str, Ed25519PublicKey],
    lifetime: tuple[datetime, datetime],
    critical: Iterable[x509.ExtensionType],
) -> x509.CertificateBuilder:
    name, public = holder
    builder = x509.CertificateBuilder().subject_name(_subject(name)).issuer_name(issuer).public_key(public)
    builder = builder.not_valid_before(lifetime[0]).not_valid_after(lifetime[1])
    builder = builder.serial_number(x509.random_serial_number())
    for extension in critical:
        builder = builder.add_extension(extension, critical=True)
    ours, theirs = x509.SubjectKeyIdentifier, x509.AuthorityKeyIdentifier
    builder = builder.add_extension(ours.from_public_key(public), critical=False)
    return builder.add_extension(theirs.from_issuer_public_key(signer.public_key()), critical=False)


def make_list(
    authority: x509.Certificate,
    signer: Ed25519PrivateKey,
    number: int,
    revocations: Iterable[tuple[int, datetime, bool]],
    lifetime: tuple[datetime, datetime],
) -> x509.CertificateRevocationList:
    """Create the list of all revoked certificates: of each its serial number, when, and whether it was superseded."""
    builder = x509.CertificateRevocationListBuilder().issuer_name(authority.subject)
    builder = builder.last_update(lifetime[0]).next_update(lifetime[1])
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    for extension in (x509.CRLNumber(number), issuer):
        builder = builder.add_extension(extension, critical=False)
    for serial, moment, superseded in revocations:
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(moment)
        if superseded:
            entry = entry.add_extension(x509.CRLReason(x509.ReasonFlags.superseded), critical=False)
        builder = builder.add_revoked_certificate(entry.build())
    return builder.sign(signer, None)


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(host: Host) -> x509.GeneralName:
    return x509.DNSName(host) if isinstance(host, str) else x509.IPAddress(host)


def _usage(*, authority: bool) -> x509.KeyUsage:
    encipherment = ("key_encipherment", "data_encipherment", "key_agreement", "encipher_only", "decipher_only")
    never = dict.fromkeys(("content_commitment", *encipherment), False)
    return x509.KeyUsage(digital_signature=not authority, key_cert_sign=authority, crl_sign=authority, **never)


class Request(NamedTuple):
    """The content of a request with a valid signature."""

    name: str
    public: Ed25519PublicKey
    hosts: tuple[Host, ...]
    where: object  # what to call it in messages


def read_request(data: bytes, where: object) -> Request:
    """Read a request and check that its sender has the key."""
    try:
        request = x509.load_pem_x509_csr(data)
        public = request.public_key()
        subject = list(request.subject)
    except UNREADABLE:
        msg = f"{where}: this is not a certificate request; give the .csr file that `fedslim enroll` made"
        raise CertificateError(msg) from None
    if not isinstance(public, Ed25519PublicKey):
        msg = f"{where}: the key of this request is not an Ed25519 key; ask for one made with `fedslim enroll`"
        raise CertificateError(msg)
    try:
        valid = request.is_signature_valid
    except (*UNREADABLE, InvalidSignature):
        valid = False
    if not valid:
        raise CertificateError(
            f"{where}: the signature of this request is not valid: it was changed in transit, or its sender does not "
            "have the key; do not sign it, and ask for it again"
        )
    name = subject[0].value if len(subject) == 1 and subject[0].oid == NameOID.COMMON_NAME else None
    if not isinstance(name, str):
        raise CertificateError(
            f"{where}: a request must contain one common name and nothing else; ask for one made with `fedslim enroll`"
        )
    try:
        hosts = hosts_of(request)
    except UNREADABLE:
        hosts = ()  # other extensions are ignored, whether readable or not
    try:
        return Request(checked_name(name), public, hosts, where)
    except ParameterError as error:
        raise CertificateError(f"{where}: {error}") from None


def read_certificate(data: bytes, where: object) -> x509.Certificate:
    """Read the first certificate of a PEM file."""
    return read_certificates(data, where)[0]


def read_certificates(data: bytes, where: object) -> list[x509.Certificate]:
    """Read all certificates of a PEM file, which must have at least one."""
    try:
        return x509.load_pem_x509_certificates(data)
    except UNREADABLE:
        msg = f"{where}: this file contains no certificate, or is damaged; give the .pem file that the CA sent"
        raise CertificateError(msg) from None


def read_list(data: bytes, where: object) -> x509.CertificateRevocationList:
    """Read the revocation list of a PEM file."""
    try:
        return x509.load_pem_x509_crl(data)
    except UNREADABLE:
        msg = f"{where}: this file contains no revocation list, or is damaged; give the crl.pem of the CA"
        raise CertificateError(msg) from None


def has_list(data: bytes) -> bool:
    """Return whether a PEM file has the header of a revocation list."""
    return b"-----BEGIN X509 CRL-----" in data


def pem(thing: x509.Certificate | x509.CertificateSigningRequest | x509.CertificateRevocationList) -> bytes:
    """Encode as PEM."""
    return thing.public_bytes(Encoding.PEM)


def fingerprint_of(certificate: x509.Certificate) -> str:
    """Return the fingerprint for people to compare: `openssl x509 -fingerprint -sha256`, without the colons."""
    return certificate.fingerprint(hashes.SHA256()).hex()


# Use the following only on certificates whose signature has been verified: the content is assumed to be the CA's.


def name_of(certificate: x509.Certificate) -> str:
    """Return the name in a certificate."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if len(names) != 1 or not isinstance(names[0].value, str):
        raise CertificateError("a certificate does not have exactly one name; request a new one with `fedslim enroll`")
    return names[0].value


def role_of(certificate: x509.Certificate) -> Role:
    """Return the role in a certificate."""
    try:
        extensions = certificate.extensions
        uses = list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
        authority = extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        signs = extensions.get_extension_for_class(x509.KeyUsage).value.digital_signature
    except (*UNREADABLE, x509.ExtensionNotFound):
        uses, authority, signs = [], False, False
    role = next((role for role, use in USES.items() if uses == [use]), None)
    if role is None or authority or not signs:
        msg = "a certificate is neither a member's nor a server's; have one signed with `fedslim ca sign`"
        raise CertificateError(msg)
    return role


def hosts_of(thing: x509.Certificate | x509.CertificateSigningRequest) -> tuple[Host, ...]:
    """Return the host names and addresses in a certificate, or in a request, whose content is not trusted."""
    try:
        names = thing.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return checked_hosts(
        [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]
    )
