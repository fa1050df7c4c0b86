"""What members confirm before they answer anything: a digest of all that they were shown.

    digest = roster_digest(roster, vocabulary=digest_of_ids, fingerprint=secret.fingerprint)
    signature = trust.sign_roster(digest)                       # to the server, and from there to all members
    trust.check_roster(name, digest, certificate, signature)    # what each of the others signed

Without this a server could show members different rosters, say vocabularies in which the items of one member have
numbers of their own, and read "sums" that are one member's counts. Signatures stop it before the first answer. Secrets
are derived from the digest as well, so that members that saw different things have masks that do not cancel.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

import msgspec

from fedslim.errors import UntrustedError

if TYPE_CHECKING:
    from fedslim.protocol import messages as m

LABEL = b"fedslim roster v1"


def roster_digest(roster: m.Roster, *, vocabulary: bytes, fingerprint: bytes) -> bytes:
    """A hash of everything that must be the same for all members.

    Args:
        roster: As it was shown, or put together from updates.
        vocabulary: The digest of the item ids in the order of their numbers: of those agreed on, or of those shown.
        fingerprint: That of the secret which ids are made with.
    """
    shown = (roster.run, roster.epoch, roster.next_round, roster.settings, roster.members, roster.keys)
    return sha256(LABEL + msgspec.msgpack.encode((shown, vocabulary, fingerprint))).digest()


def apply_update(roster: m.Roster, update: m.RosterUpdate) -> m.Roster:
    """The roster of the next epoch. A place that is not in the roster raises IndexError."""
    keys, certificates = list(roster.keys), list(roster.certificates)
    for seat in update.seats:
        keys[seat.place], certificates[seat.place] = seat.key, seat.certificate
    return msgspec.structs.replace(
        roster, epoch=update.epoch, next_round=update.next_round, keys=keys, certificates=certificates
    )


class KeyCheck(Protocol):
    """Checks what members sign: see `transport/trust`."""

    def check(self, name: str, key: bytes, certificate: bytes, signature: bytes) -> None:
        """Raise `UntrustedError` unless this agreement key is that member's."""

    def check_roster(self, name: str, digest: bytes, certificate: bytes, signature: bytes) -> None:
        """Raise `UntrustedError` unless that member has confirmed this roster."""


class RosterSigner(KeyCheck, Protocol):
    """The same at a member, which signs as well."""

    @property
    def certificate(self) -> bytes:
        """The member's own."""

    def sign(self, key: bytes) -> bytes:
        """A signature of the member's agreement key."""

    def sign_roster(self, digest: bytes) -> bytes:
        """A signature of the roster that the member was shown."""


class Unsigned:
    """For one process, where there is nobody to protect from: members say what they saw, and prove nothing."""

    certificate = b""

    def sign(self, key: bytes) -> bytes:  # noqa: ARG002
        """See `RosterSigner`."""
        return b""

    def sign_roster(self, digest: bytes) -> bytes:
        """See `RosterSigner`."""
        return digest

    def check(self, name: str, key: bytes, certificate: bytes, signature: bytes) -> None:
        """See `RosterSigner`."""

    def check_roster(self, name: str, digest: bytes, certificate: bytes, signature: bytes) -> None:  # noqa: ARG002
        """See `RosterSigner`."""
        if signature != digest:
            msg = f"member {name!r} was shown another roster than this one; the run must not go on"
            raise UntrustedError(msg)
