"""Sign and check members' agreement keys and rosters with the certificates of a federation."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fedslim.trust import Statement

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedslim.settings.federation_file import FederationFile
    from fedslim.trust import Identity, TrustStore


class KeyTrust:
    """Checks members' agreement keys and roster signatures for one federation, at the server and at each member."""

    def __init__(self, file: FederationFile, trust: Callable[[], TrustStore]) -> None:
        self._trust = trust  # a function, because the revocation list may be replaced
        self._members = file.federation.members
        # Includes the digest: a key signed for another federation file is not accepted.
        self._federation = bytes.fromhex(file.federation.id) + file.digest()

    def check(self, name: str, key: bytes, certificate: bytes, signature: bytes) -> None:
        """See `protocol.roster.KeyCheck`."""
        self._check(Statement.agreement_key(self._federation, name, key), certificate, signature)

    def check_roster(self, name: str, digest: bytes, certificate: bytes, signature: bytes) -> None:
        """See `protocol.roster.KeyCheck`."""
        self._check(Statement.roster(self._federation, name, digest), certificate, signature)

    def _check(self, statement: Statement, certificate: bytes, signature: bytes) -> None:
        self._trust().verify(statement, certificate, signature, members=self._members, now=datetime.now(UTC))


class MemberTrust(KeyTrust):
    """A `KeyTrust` that can also sign, for a member."""

    def __init__(self, file: FederationFile, identity: Identity) -> None:
        super().__init__(file, lambda: identity.trust)
        self._identity = identity

    @property
    def certificate(self) -> bytes:
        """See `protocol.roster.Trust`."""
        return self._identity.certificate_der

    def sign(self, key: bytes) -> bytes:
        """See `protocol.roster.Trust`."""
        return self._identity.sign(Statement.agreement_key(self._federation, self._identity.name, key))

    def sign_roster(self, digest: bytes) -> bytes:
        """See `protocol.roster.Trust`."""
        return self._identity.sign(Statement.roster(self._federation, self._identity.name, digest))
