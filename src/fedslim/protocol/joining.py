"""What a member may join with: the server refuses what honest members would refuse, and names the member at fault.

    rules = JoinRules(settings, vocabulary, keys)
    rules.check_key("a", join, joined)          # raises ProtocolError

Whether a member comes back at the right round is checked in `positions.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedslim.errors import KeyAgreementError, ProtocolError, UntrustedError
from fedslim.protocol import messages as m
from fedslim.protocol.wire_types import ID_BYTES
from fedslim.secagg import check_usable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fedslim.protocol.roster import KeyCheck


@dataclass(frozen=True, slots=True)
class JoinRules:
    """What all members of a run have in common."""

    settings: m.Settings
    vocabulary: bytes | None  # the agreed digest, empty for no agreed vocabulary, None if the server does not know
    keys: KeyCheck

    def check_version(self, member: str, join: m.Join) -> None:
        """Check that the member has the protocol version of this server."""
        if join.protocol != m.PROTOCOL:
            msg = (
                f"member {member!r} speaks protocol {join.protocol} (fedslim {join.software}), but this server speaks "
                f"{m.PROTOCOL}; install the same version everywhere"
            )
            raise ProtocolError(msg)

    def check_items(self, member: str, join: m.Join, joined: Mapping[str, m.Join]) -> None:
        """Check that the member's vocabulary is the agreed one, and that of the members that have joined."""
        if self.vocabulary is not None and join.digest != self.vocabulary:
            msg = (
                f"member {member!r} has vocabulary {join.digest.hex() or '(none)'}, but this federation agreed on "
                f"{self.vocabulary.hex() or 'none'}; give it the vocabulary of the other members"
            )
            if self.settings.schema:
                kept = "from another preparation than" if self.settings.preparation else "from a preparation, unlike"
                msg = (
                    f"member {member!r} starts {kept} this server; give the server and all members the same "
                    "preparation (--preparation), or none"
                )
            raise ProtocolError(msg)
        for other, before in joined.items():
            if other == member:
                continue
            if before.fingerprint != join.fingerprint:
                msg = (
                    f"members {other!r} and {member!r} have different secrets, so their items cannot be compared; "
                    "give all members the same one, and put its fingerprint into the federation file"
                )
                raise ProtocolError(msg)
            if _check_agreed(before) != _check_agreed(join):
                msg = (
                    f"members {other!r} and {member!r} do not have the same vocabulary; "
                    "merge them (fedslim vocabulary merge) and give the result to every member"
                )
                raise ProtocolError(msg)
        # With an agreed vocabulary, ids are needed only to tell which items the labels belong to.
        needed = bool(join.labels) or not join.digest
        if len(join.ids) != ID_BYTES * join.items and (needed or join.ids):
            msg = f"member {member!r} announced {join.items} items but sent {len(join.ids) / ID_BYTES:g} ids"
            raise ProtocolError(msg)
        if join.labels and (self.settings.share_labels != "server" or len(join.labels) != join.items):
            expected = join.items if self.settings.share_labels == "server" else 0
            msg = f"member {member!r} sent {len(join.labels)} labels where this run expects {expected}"
            raise ProtocolError(msg)

    def check_key(self, member: str, join: m.Join, joined: Mapping[str, m.Join]) -> None:
        """Check that the others will accept the member's key: if they refused it, they would seem to end the run."""
        try:
            self.keys.check(member, join.key, join.certificate, join.signature)
            if self.settings.masked:
                check_usable(member, join.key)
        except (KeyAgreementError, UntrustedError) as error:
            msg = f"member {member!r} joins with a key that no member would accept: {error}"
            raise ProtocolError(msg) from error
        twin = next((name for name, other in joined.items() if name != member and other.key == join.key), None)
        if self.settings.masked and twin is not None:
            msg = f"member {member!r} joins with the key of {twin!r}; it is refused"
            raise ProtocolError(msg)


def _check_agreed(join: m.Join) -> tuple[bytes, int]:
    """Return what must be equal for all members; without an agreed vocabulary they may have different items."""
    return join.digest, join.items if join.digest else 0
