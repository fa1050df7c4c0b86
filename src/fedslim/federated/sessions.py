"""Create the sessions of a federation from its federation file, for any transport, and its timeouts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedslim.data.vocabulary import Vocabulary
from fedslim.network.timeouts import Patience
from fedslim.protocol.member import MemberInput, MemberSession
from fedslim.protocol.server import ServerSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fedslim.data import TransactionDatabase
    from fedslim.data.vocabulary import ItemSecret
    from fedslim.protocol.positions import Kept
    from fedslim.protocol.preparation import Preparation
    from fedslim.protocol.roster import KeyCheck, RosterSigner
    from fedslim.settings.federation_file import FederationFile

MIN_FAREWELL = 5.0
"""Minimum seconds that members have to acknowledge the end of the run, however short the grace is."""


def make_server_session(
    file: FederationFile,
    *,
    run: bytes,
    keys: KeyCheck | None,
    history: Callable[[], Iterable[Kept]] | None = None,  # see `ServerSession`
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
    database: TransactionDatabase,
    *,
    secret: ItemSecret,
    vocabulary: Vocabulary | None,
    trust: RosterSigner,
    prepared: bytes = b"",
) -> MemberSession:
    """Return a member's session of one search; `prepared` is the digest of its preparation."""
    own = MemberInput(database, file.federation.members, file.settings(prepared), secret, vocabulary, trust=trust)
    return MemberSession(name, own)


def patience(file: FederationFile) -> Patience:
    """Return the timeouts of a federation file."""
    waits = file.timeouts
    return Patience(
        answer=waits.answer,
        grace=waits.grace,
        farewell=max(waits.grace, MIN_FAREWELL),
        connect=waits.connect,
        keepalive=waits.keepalive,
    )
