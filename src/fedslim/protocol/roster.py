"""What members confirm before they answer anything: a digest of the roster that they received.

    digest = roster_digest(roster, vocabulary=digest_of_ids, fingerprint=secret.fingerprint)
    signature = trust.sign_roster(digest)                       # to the server, and from there to all members
    trust.check_roster(name, digest, certificate, signature)    # what each of the others signed

Without this a server could send members different rosters, say vocabularies in which one member's items have their own
numbers, and read "sums" that are one member's counts. Signatures prevent that before the first answer. Secrets are
derived from the digest as well, so that the masks of members with different rosters do not cancel.
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
    """Return a hash of everything that must be the same for all members.

    Args:
        roster: The roster as received, or with updates applied.
        vocabulary: The digest of the item ids in the order of their numbers, agreed or from the roster.
        fingerprint: The fingerprint of the members' secret.
    """
    content = (roster.run, roster.epoch, roster.next_round, roster.settings, roster.members, roster.keys)
    return sha256(LABEL + msgspec.msgpack.encode((content, vocabulary, fingerprint))).digest()


def apply_update(roster: m.Roster, update: m.RosterUpdate) -> m.Roster:
    """Return the roster of the next epoch; raise IndexError for a place that is not in the roster."""
    keys, certificates = list(roster.keys), list(roster.certificates)
    for seat in update.seats:
        keys[seat.place], certificates[seat.place] = seat.key, seat.certificate
    return msgspec.structs.replace(
        roster, epoch=update.epoch, next_round=update.next_round, keys=keys, certificates=certificates
    )


class KeyCheck(Protocol):
    """Checks members' signatures: see `fedslim.trust`."""

    def check(self, name: str, key: bytes, certificate: bytes, signature: bytes) -> None:
        """Raise `UntrustedError` unless this agreement key belongs to that member."""

    def check_roster(self, name: str, digest: bytes, certificate: bytes, signature: bytes) -> None:
        """Raise `UntrustedError` unless that member has confirmed this roster."""


class RosterSigner(KeyCheck, Protocol):
    """Checks signatures, and signs for a member."""

    @property
    def certificate(self) -> bytes:
        """The member's own certificate."""

    def sign(self, key: bytes) -> bytes:
        """Sign the member's agreement key."""

    def sign_roster(self, digest: bytes) -> bytes:
        """Sign the digest of the roster that the member received."""


class Unsigned:
    """No signatures, for runs in one process: the digest itself stands for the signature."""

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
            raise UntrustedError(f"member {name!r} was sent another roster than this one; the run must not continue")
