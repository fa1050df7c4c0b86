"""Create the sessions of a federation from its federation file, for any transport; its timeouts, and who signs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fedslim.data import TransactionDatabase
from fedslim.data.vocabulary import ItemSecret, Vocabulary
from fedslim.network.connection import Patience
from fedslim.protocol.member import MemberInput, MemberSession
from fedslim.protocol.preparation import Preparation
from fedslim.protocol.prepare import Site
from fedslim.protocol.roster import KeyCheck, RosterSigner
from fedslim.protocol.server import ServerSession
from fedslim.trust.identity import Identity, Statement, TrustStore

if TYPE_CHECKING:
    from fedslim.settings.federation_file import FederationFile

MIN_FAREWELL = 5.0  # minimum seconds that members have to acknowledge the end of the run, however short the grace is


def make_server_session(
    file: FederationFile,
    *,
    run: bytes,
    keys: KeyCheck | None,
    history: Callable[[], Iterable[Any]] | None = None,  # see `ServerSession`
    prepared: Preparation | None = None,
) -> ServerSession:
    """Return the server's session of a search, or of the preparation that it needs first."""
    preparing = file.prepares and prepared is None
    vocabulary = bytes.fromhex(file.items.vocabulary_digest or "")
    if file.prepares:
        ids = () if prepared is None else tuple(prepared.ids)
        vocabulary = Vocabulary(ids, file.items.secret_fingerprint or "").digest
    return ServerSession(
        file.federation.members,
        file.preparing() if preparing else file.settings(b"" if prepared is None else prepared.digest()),
        run=run,
        max_time=None if preparing else file.limits.max_time,
        keys=keys,
        vocabulary=vocabulary,
        history=history,
        prepared=prepared,
    )


def make_member_session(  # noqa: PLR0913  # keyword-only
    file: FederationFile,
    name: str,
    data: TransactionDatabase | Site,
    *,
    secret: ItemSecret,
    vocabulary: Vocabulary | None,
    trust: RosterSigner,
    prepared: bytes = b"",
) -> MemberSession:
    """Return a member's session of a preparation, or of a search; `prepared` is the digest of its preparation."""
    members = file.federation.members
    if isinstance(data, Site):
        return MemberSession(name, MemberInput.preparing(data, members, file.preparing(), trust))
    return MemberSession(name, MemberInput(data, members, file.settings(prepared), secret, vocabulary, trust=trust))


def patience(file: FederationFile) -> Patience:
    """Return the timeouts of a federation file."""
    return Patience(**asdict(file.timeouts), farewell=max(file.timeouts.grace, MIN_FAREWELL))


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
