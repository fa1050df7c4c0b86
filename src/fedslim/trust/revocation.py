"""Reload the revocation list of a running server when its file changes.

listed = RevocationWatch(identity, context)
listed.look()                # before each handshake; costs one `stat` call
listed.trust                 # with the newest list
listed.check(connection)     # raises UntrustedError if the peer's certificate is no longer valid
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cryptography import x509

from fedslim.errors import FedslimError
from fedslim.trust.keys import MAX_LIST, read_public
from fedslim.trust.names import Role
from fedslim.trust.tls import refresh

if TYPE_CHECKING:
    import ssl

    from fedslim.trust.anchor import TrustStore
    from fedslim.trust.identity import Identity
    from fedslim.trust.tls import TlsPeer

logger = logging.getLogger(__name__)


class RevocationWatch:
    """Keeps a TLS context up to date with the revocation list in an identity's folder."""

    def __init__(self, identity: Identity, context: ssl.SSLContext) -> None:
        self.trust: TrustStore = identity.trust
        self._path = identity.files.revocations
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
        """Check the member's certificate of an open connection against the newest list.

        Raises:
            UntrustedError: The certificate was revoked or has expired since the connection was made.
        """
        certificate = connection.getpeercert(binary_form=True)
        assert isinstance(certificate, bytes)  # noqa: S101  # the handshake requires one
        self.trust.check(x509.load_der_x509_certificate(certificate), Role.MEMBER, datetime.now(UTC))
