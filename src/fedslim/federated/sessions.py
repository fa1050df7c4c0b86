"""Create the sessions of a federation from its federation file, for any transport."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedslim.protocol.member import MemberInput, MemberSession
from fedslim.protocol.server import ServerSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fedslim.data import TransactionDatabase
    from fedslim.data.vocabulary import ItemSecret, Vocabulary
    from fedslim.protocol.positions import Kept
    from fedslim.protocol.roster import KeyCheck, RosterSigner
    from fedslim.settings.federation_file import FederationFile


def make_server_session(
    file: FederationFile,
    *,
    run: bytes,
    keys: KeyCheck | None,
    history: Callable[[], Iterable[Kept]] | None = None,  # see `ServerSession`
) -> ServerSession:
    """Return the server's session of one run."""
    return ServerSession(
        file.federation.members,
        file.settings(),
        run=run,
        max_time=file.limits.max_time,
        keys=keys,
        vocabulary=bytes.fromhex(file.items.vocabulary_digest or ""),
        history=history,
    )


def make_member_session(  # noqa: PLR0913  # keyword-only
    file: FederationFile,
    name: str,
    database: TransactionDatabase,
    *,
    secret: ItemSecret,
    vocabulary: Vocabulary | None,
    trust: RosterSigner,
) -> MemberSession:
    """Return a member's session of one run."""
    own = MemberInput(database, file.federation.members, file.settings(), secret, vocabulary, trust=trust)
    return MemberSession(name, own)
