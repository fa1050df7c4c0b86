"""What a member may join with: whatever honest members would refuse is refused at the door, in its own name.

    rules = JoinRules(settings, vocabulary, keys)
    rules.check_key("a", join, joined)          # raises ProtocolError

Whether it comes back to where it was is for the session to say, which knows the rounds.
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
    vocabulary: bytes | None  # the digest that members agreed on, if the server was told; empty: on none
    keys: KeyCheck

    def check_version(self, member: str, join: m.Join) -> None:
        """Whether it speaks as this server does."""
        if join.protocol != m.PROTOCOL:
            msg = (
                f"member {member!r} speaks protocol {join.protocol} (fedslim {join.software}), this server "
                f"{m.PROTOCOL}; install the same version everywhere"
            )
            raise ProtocolError(msg)

    def check_items(self, member: str, join: m.Join, joined: Mapping[str, m.Join]) -> None:
        """Whether its vocabulary is the one agreed on, and that of those who are here."""
        if self.vocabulary is not None and join.digest != self.vocabulary:
            msg = (
                f"member {member!r} has vocabulary {join.digest.hex() or '(none)'}, and this federation agreed on "
                f"{self.vocabulary.hex() or 'none'}; hand it the vocabulary that the others have"
            )
            raise ProtocolError(msg)
        for other, before in joined.items():
            if other == member:
                continue
            if before.fingerprint != join.fingerprint:
                msg = (
                    f"members {other!r} and {member!r} have different secrets, so their items cannot be compared; "
                    "give all members the same one, and its fingerprint into the federation's file"
                )
                raise ProtocolError(msg)
            if _check_agreed(before) != _check_agreed(join):
                msg = (
                    f"members {other!r} and {member!r} do not have the same vocabulary; "
                    "merge them (fedslim vocabulary merge) and hand the result to every member"
                )
                raise ProtocolError(msg)
        # With an agreed vocabulary ids are needed only to say what the labels belong to.
        needed = bool(join.labels) or not join.digest
        if len(join.ids) != ID_BYTES * join.items and (needed or join.ids):
            msg = f"member {member!r} says it knows {join.items} items and names {len(join.ids) / ID_BYTES:g}"
            raise ProtocolError(msg)
        if join.labels and (not self.settings.share_vocabulary or len(join.labels) != join.items):
            msg = f"member {member!r} sent {len(join.labels)} labels, which this run did not ask for or does not need"
            raise ProtocolError(msg)

    def check_key(self, member: str, join: m.Join, joined: Mapping[str, m.Join]) -> None:
        """Whether the others will take its key: one that they refuse would end the run in their name."""
        try:
            self.keys.check(member, join.key, join.certificate, join.signature)
            if self.settings.masked:
                check_usable(member, join.key)
        except (KeyAgreementError, UntrustedError) as error:
            msg = f"member {member!r} joins with a key that nobody would take: {error}"
            raise ProtocolError(msg) from error
        twin = next((name for name, other in joined.items() if name != member and other.key == join.key), None)
        if self.settings.masked and twin is not None:
            msg = f"member {member!r} joins with the key of {twin!r}; it is refused"
            raise ProtocolError(msg)


def _check_agreed(join: m.Join) -> tuple[bytes, int]:
    """What members have in common that agreed on a vocabulary; those that did not may know different items."""
    return join.digest, join.items if join.digest else 0
