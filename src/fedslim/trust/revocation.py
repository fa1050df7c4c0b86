"""A revocation list that may be replaced while a server runs: it is read again when its file has changed.

listed = RevocationWatch(identity, context)
listed.look()                # before each handshake; costs one look at the file's date
listed.trust                 # with the newest list
listed.check(connection)     # raises UntrustedError if it is not good any more
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
    """The list in an identity's folder, for a TLS context in use."""

    def __init__(self, identity: Identity, context: ssl.SSLContext) -> None:
        self.trust: TrustStore = identity.trust
        self._path = identity.files.revocations
        self._context = context
        self._seen: tuple[int, ...] | None = None  # the file as it was read last; it may be newer than the identity

    def look(self) -> None:
        """Take a list that is new; one that is not usable is logged once, and the one known before stays."""
        try:
            found = self._path.stat()
        except OSError:
            return  # it is being replaced, or gone: what is known still counts
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            newer = self.trust.renewed(read_public(self._path, MAX_LIST), self._path)
        except FedslimError as error:
            logger.warning("the new revocation list is not used, and list %s stays: %s", self.trust.number, error)
            return
        if newer.number > self.trust.number:
            refresh(self._context, newer)
            self.trust = newer
            logger.info("revocation list %s counts from now on", newer.number)

    def check(self, connection: TlsPeer) -> None:
        """Check a member's certificate on a line that was made earlier, with what is known now.

        Raises:
            UntrustedError: It was revoked meanwhile, or has expired.
        """
        shown = connection.getpeercert(binary_form=True)
        assert isinstance(shown, bytes)  # noqa: S101  # there is no line without one
        self.trust.check(x509.load_der_x509_certificate(shown), Role.MEMBER, datetime.now(UTC))
