"""Mutual TLS 1.3 between the server and the members of one federation, with certificates from its CA.

No other CA is trusted, not even those of the operating system. The peer's certificate must be within its validity
period, not revoked, and for the right role; a server's must have the host name that the member connects to. Sessions
are not resumed, because that would skip the check of certificates.
"""

from __future__ import annotations

import logging
import ssl
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from fedslim.errors import CertificateError, FedslimError, UntrustedError
from fedslim.trust.certificates import UNREADABLE, Role, name_of, pem, role_of
from fedslim.trust.identity import CERTIFICATE, KEY, REVOCATIONS, Identity, TrustStore
from fedslim.trust.keys import MAX_LIST, read_public

TlsPeer = ssl.SSLObject | ssl.SSLSocket

logger = logging.getLogger(__name__)


def server_context(identity: Identity, *, now: datetime) -> ssl.SSLContext:
    """Create the context of a server, which accepts only members with a certificate from its CA."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, identity, Role.SERVER, now)
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    return context


def client_context(identity: Identity, *, now: datetime) -> ssl.SSLContext:
    """Create the context of a member, which accepts only a server with a certificate from its CA for that host."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, identity, Role.MEMBER, now)
    context.check_hostname = True
    context.hostname_checks_common_name = False
    return context


def _context(protocol: int, identity: Identity, role: Role, now: datetime) -> ssl.SSLContext:
    if identity.role is not role:
        raise CertificateError(
            f"{identity.folder / CERTIFICATE}: {identity.name!r} is signed as a {identity.role.value}, but this needs "
            f"a {role.value}; have its request signed with `fedslim ca sign --role {role.value}`"
        )
    trust = identity.trust
    trust.check(identity.certificate, role, now)
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF | ssl.VERIFY_X509_STRICT
    context.load_verify_locations(cadata=pem(trust.authority).decode())
    refresh(context, trust)
    # Without a password OpenSSL would prompt on the terminal; an empty one makes it fail instead.
    passphrase = identity._passphrase or ""  # noqa: SLF001  # same package
    certificate, key = identity.folder / CERTIFICATE, identity.folder / KEY
    try:
        context.load_cert_chain(certificate, key, password=passphrase)
    except (OSError, ValueError):  # an SSLError is an OSError
        msg = f"{key}: TLS cannot use this key with {certificate}; load the identity again"
        raise CertificateError(msg) from None
    return context


def refresh(context: ssl.SSLContext, trust: TrustStore) -> None:
    """Give a context in use a newer revocation list; it applies from the next handshake."""
    with tempfile.TemporaryDirectory(prefix="fedslim-") as folder:
        path = Path(folder) / "crl.pem"  # Python can load lists only from files; the list is not secret
        path.write_bytes(pem(trust.revocations))
        context.load_verify_locations(cafile=path)


def peer_name(connection: TlsPeer) -> str:
    """Return the name of the peer, from the certificate that TLS has verified, with one of our contexts."""
    if connection.context.verify_mode is not ssl.CERT_REQUIRED or connection.version() != "TLSv1.3":
        msg = "this connection does not verify certificates with TLS 1.3, so the peer is unknown; it is refused"
        raise UntrustedError(msg)
    if not connection.server_side and not (connection.context.check_hostname and connection.server_hostname):
        # Up to 3.13, Python lets a client leave out the host name (wrap_bio) and then checks none.
        msg = "this connection does not check the server's host name, so the peer is unknown; it is refused"
        raise UntrustedError(msg)
    try:
        received = connection.getpeercert(binary_form=True)
    except ValueError:  # before the handshake
        received = None
    if not isinstance(received, bytes):
        raise UntrustedError("the peer sent no certificate; it is refused")
    expected = Role.MEMBER if connection.server_side else Role.SERVER
    try:
        certificate = x509.load_der_x509_certificate(received)
        name, role = name_of(certificate), role_of(certificate)
    except (*UNREADABLE, CertificateError):
        raise UntrustedError("the peer's certificate was not made by fedslim; it is refused") from None
    if role is not expected:
        msg = f"the certificate of {name!r} is for a {role.value}, but it is used as a {expected.value}; it is refused"
        raise UntrustedError(msg)
    return name


# -- what went wrong ------------------------------------------------------------------------------------------------

# By OpenSSL's error numbers (x509_vfy.h), which are stable; its messages are not.
_VERIFYING = dict.fromkeys((18, 19, 20, 21), "its certificate is not signed by the CA of this federation") | {
    3: "we have no revocation list of its CA; install the CA's crl.pem",
    9: "its certificate is not valid yet; check the clocks on both sides",
    10: "its certificate has expired; it must be renewed",
    11: "our revocation list is not valid yet; check our clock",
    12: "our revocation list has expired; install the newest crl.pem of the CA",
    23: "its certificate was revoked",
    26: "its certificate is for the other role: a member cannot act as a server, nor a server as a member",
    62: "its certificate is for other host names; connect to one of those, or add this name to it (--host)",
    64: "its certificate is for other addresses; connect to one of those, or add this address to it (--host)",
    79: "the certificate of its CA is not valid for signing",
}

# By the ends of OpenSSL's reason codes: what we refuse, and the alerts with which the peer refuses us.
_REASONS = {
    "ALERT_UNKNOWN_CA": "it does not trust our CA; our federations differ",
    "ALERT_CERTIFICATE_REVOKED": "it says that our certificate was revoked",
    "ALERT_CERTIFICATE_EXPIRED": "it says that our certificate, or its revocation list, has expired; renew it",
    "ALERT_CERTIFICATE_REQUIRED": "it requires a certificate, and we sent none",
    "ALERT_CERTIFICATE_UNKNOWN": "it does not accept our certificate",
    "ALERT_BAD_CERTIFICATE": "it does not accept our certificate; check the clocks on both sides",
    "ALERT_UNSUPPORTED_CERTIFICATE": "it says that our certificate is for the other role",
    "ALERT_PROTOCOL_VERSION": "it does not speak TLS 1.3",
    "UNSUPPORTED_PROTOCOL": "it does not speak TLS 1.3",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it sent no certificate; members need one from the CA of this federation",
    "WRONG_VERSION_NUMBER": "it does not speak TLS at all",
    "HTTP_REQUEST": "it does not speak TLS at all",
}


def explain(error: ssl.SSLError, peer: str) -> UntrustedError:
    """Return an error that explains a failed handshake and says what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = _VERIFYING.get(error.verify_code, f"its certificate is not acceptable ({error.verify_message})")
    else:
        reason = error.reason or ""
        why = next((text for end, text in _REASONS.items() if reason.endswith(end)), f"TLS failed ({reason or error})")
    return UntrustedError(f"{peer} is refused, or refuses us: {why}")


# -- a list that is replaced while a server runs ----------------------------------------------------------------------


class RevocationWatch:
    """Keeps a TLS context up to date with the revocation list in an identity's folder.

    Call `look` before each handshake: it costs one `stat`.
    """

    def __init__(self, identity: Identity, context: ssl.SSLContext) -> None:
        self.trust: TrustStore = identity.trust
        self._path = identity.folder / REVOCATIONS
        self._context = context
        self._seen: tuple[int, ...] | None = None  # the file's stamp when last read; it may be newer than the identity

    def look(self) -> None:
        """Load the list if its file has changed; if the new list is unusable, log that once and keep the old one."""
        try:
            found = self._path.stat()
        except OSError:
            return  # it is being replaced, or was removed: the known list stays
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            newer = self.trust.renewed(read_public(self._path, MAX_LIST), self._path)
        except FedslimError as error:
            logger.warning("ignored the new revocation list and kept list %s: %s", self.trust.number, error)
            return
        if newer.number > self.trust.number:
            refresh(self._context, newer)
            self.trust = newer
            logger.info("now using revocation list %s", newer.number)

    def check(self, connection: TlsPeer) -> None:
        """Check the member's certificate of an open connection against the newest list."""
        certificate = connection.getpeercert(binary_form=True)
        assert isinstance(certificate, bytes)  # noqa: S101  # the handshake requires one
        self.trust.check(x509.load_der_x509_certificate(certificate), Role.MEMBER, datetime.now(UTC))
