"""Create the sessions of a federation from its federation file, for any transport; its timeouts, and who signs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from fedslim.data import TransactionDatabase
from fedslim.data.vocabulary import ItemSecret, Vocabulary
from fedslim.network.connection import Patience
from fedslim.protocol.member import MemberInput, MemberSession
from fedslim.protocol.preparation import Preparation
from fedslim.protocol.prepare import Site
from fedslim.protocol.roster import KeyCheck, RosterSigner, Signed
from fedslim.protocol.server import ServerSession
from fedslim.settings.federation_file import FederationFile
from fedslim.trust.identity import Identity, Statement, TrustStore

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


@dataclass(frozen=True)
class KeyTrust:
    """Checks members' agreement keys and roster signatures for one federation, at the server and at each member.

    `verify` raises unless the member of a statement has signed it with the key of this certificate.
    """

    file: FederationFile
    verify: Callable[[Statement, bytes, bytes], None]

    @cached_property
    def federation(self) -> bytes:
        """What signatures are for; it includes the digest: one for another federation file is not accepted."""
        return bytes.fromhex(self.file.federation.id) + self.file.digest()

    @classmethod
    def of(cls, file: FederationFile, trust: Callable[[], TrustStore]) -> KeyTrust:
        """Return what believes a trust store; `trust` returns it, because the revocation list may be replaced."""
        return cls(file, _verifier(file, trust))

    def check(self, what: Signed, name: str, data: bytes, certificate: bytes, signature: bytes) -> None:
        """See `protocol.roster.KeyCheck`."""
        self.verify(Statement(what, self.federation, name, data), certificate, signature)


@dataclass(frozen=True)
class MemberTrust(KeyTrust):
    """A `KeyTrust` that can also sign, for a member; see `protocol.roster.RosterSigner`."""

    name: str
    certificate: bytes
    signer: Callable[[Statement], bytes]

    @classmethod
    def of_identity(cls, file: FederationFile, identity: Identity) -> MemberTrust:
        """Return what signs with the key of an identity, and believes what this believes."""
        verify = _verifier(file, lambda: identity.trust)
        return cls(file, verify, identity.name, identity.certificate_der, identity.sign)

    def sign(self, what: Signed, data: bytes) -> bytes:
        """See `protocol.roster.RosterSigner`."""
        return self.signer(Statement(what, self.federation, self.name, data))


def _verifier(file: FederationFile, trust: Callable[[], TrustStore]) -> Callable[[Statement, bytes, bytes], None]:
    members = file.federation.members
    return lambda *signed: trust().verify(*signed, members=members, now=datetime.now(UTC))
