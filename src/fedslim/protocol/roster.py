"""What members confirm before they answer anything: a digest of the roster that they received.

Without this a server could send members different rosters, say vocabularies in which one member's items have their own
numbers, and read "sums" that are one member's counts. Signatures prevent that before the first answer. Secrets are
derived from the digest as well, so that the masks of members with different rosters do not cancel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Literal, Protocol

import msgspec

from fedslim.data.vocabulary import Vocabulary
from fedslim.errors import KeyAgreementError, ProtocolError, UntrustedError
from fedslim.protocol import messages as m
from fedslim.protocol.events import NewEpoch, Send
from fedslim.protocol.wire_types import ID_BYTES, MAX_ITEMS, split_ids
from fedslim.secagg.keys import check_usable

LABEL = b"fedslim roster v1"


def roster_digest(roster: m.Roster, *, vocabulary: bytes, fingerprint: bytes) -> bytes:
    """Return a hash of everything that must be the same for all members.

    `vocabulary` is the digest of the item ids in the order of their numbers, `fingerprint` that of the members' secret.
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


Signed = Literal["agreement key", "roster"]
"""What members sign: their key for a run, and the digest of the roster that they received."""


class KeyCheck(Protocol):
    """Checks members' signatures: see `fedslim.trust`."""

    def check(self, what: Signed, name: str, data: bytes, certificate: bytes, signature: bytes) -> None:
        """Raise `UntrustedError` unless that member has signed this."""


class RosterSigner(KeyCheck, Protocol):
    """Checks signatures, and signs for a member."""

    @property
    def certificate(self) -> bytes:
        """The member's own certificate."""

    def sign(self, what: Signed, data: bytes) -> bytes:
        """Sign this in the member's name."""


class Unsigned:
    """No signatures, for runs in one process: the digest of a roster itself stands for the signature."""

    certificate = b""

    def sign(self, what: Signed, data: bytes) -> bytes:
        """See `RosterSigner`."""
        return data if what == "roster" else b""

    def check(self, what: Signed, name: str, data: bytes, certificate: bytes, signature: bytes) -> None:  # noqa: ARG002
        """See `RosterSigner`."""
        if what == "roster" and signature != data:
            raise UntrustedError(f"member {name!r} was sent another roster than this one; the run must not continue")


# -- at the server ---------------------------------------------------------------------------------------------------

MAX_EPOCHS = 1 << 16
MAX_LOST_EPOCHS = 16
"""How many epochs a member may be ahead of a server that was killed and may have lost its last records."""


class Gathering:
    """How members gather at the server: who has joined, the roster of the current epoch, and who confirmed it.

    A member is checked (`check`) and takes its `seat`. Once none is missing, `invite` begins a new epoch, and once all
    have confirmed it, `confirmed` has all signatures. The session passes the number of the next round.
    """

    def __init__(
        self,
        members: tuple[str, ...],
        settings: m.Settings,
        run: bytes,
        *,
        keys: KeyCheck | None = None,
        vocabulary: bytes | None = None,
    ) -> None:
        self.members, self.settings, self.run = members, settings, run
        self.epoch = -1  # that of the last roster
        self.items = 0
        self.ids: tuple[bytes, ...] = ()  # by item number; empty unless members send them
        self.labels: tuple[str, ...] = ()  # by item number; empty unless members share them with the server
        self._keys = keys or Unsigned()
        self._vocabulary = vocabulary  # the agreed digest, empty for no agreed one, None if the server does not know
        self._joined: dict[str, m.Join] = {}
        self._lost_epochs = 0  # how many epochs may have followed the last known one
        self._roster: m.Roster | None = None
        self._digest = b""  # of that roster
        self._hold_roster: set[str] = set()  # members that have it and need only an update next time
        self._signatures: dict[str, bytes] = {}  # of that roster

    @property
    def agreed(self) -> bool:
        """Whether a member that has joined has an agreed vocabulary."""
        return any(join.digest for join in self._joined.values())

    def _next_epoch(self) -> int:
        return max(self.epoch + 1, *(join.epoch for join in self._joined.values()))

    @property
    def exhausted(self) -> bool:
        """Whether the limit of epochs is reached."""
        return self._next_epoch() >= MAX_EPOCHS

    def resume(self, items: int, epoch: int) -> None:
        """Continue where a server was killed."""
        self.items, self.epoch, self._lost_epochs = items, epoch, MAX_LOST_EPOCHS

    def name_items(self, ids: bytes, labels: Sequence[str]) -> None:
        """Set the ids and labels known before the server was killed; members send them again."""
        self.ids, self.labels = split_ids(ids), tuple(labels)

    # -- joining ------------------------------------------------------------------------------------------------

    def check(self, member: str, join: m.Join) -> None:
        """Check a member's `Join`: refuse here what honest members would refuse, so that the error names this member.

        Whether it comes back at the right round is checked in `positions.py`.
        """
        if join.protocol != m.PROTOCOL:
            raise ProtocolError(
                f"member {member!r} speaks protocol {join.protocol} (fedslim {join.software}), but this server speaks "
                f"{m.PROTOCOL}; install the same version everywhere"
            )
        self._check_items(member, join)
        if join.epoch > self.epoch + self._lost_epochs + 1:
            msg = f"member {member!r} comes back from epoch {join.epoch - 1}, but there was none after {self.epoch}"
            raise ProtocolError(msg)
        self._check_key(member, join)

    def _check_items(self, member: str, join: m.Join) -> None:
        """Check that the member's vocabulary is the agreed one, and that of the members that have joined."""
        if self._vocabulary is not None and join.digest != self._vocabulary:
            msg = (
                f"member {member!r} has vocabulary {join.digest.hex() or '(none)'}, but this federation agreed on "
                f"{self._vocabulary.hex() or 'none'}; give it the vocabulary of the other members"
            )
            if self.settings.schema:
                kept = "from another preparation than" if self.settings.preparation else "from a preparation, unlike"
                msg = (
                    f"member {member!r} starts {kept} this server; give the server and all members the same "
                    "preparation (--preparation), or none"
                )
            raise ProtocolError(msg)
        for other, before in self._joined.items():
            if other == member:
                continue
            if before.fingerprint != join.fingerprint:
                raise ProtocolError(
                    f"members {other!r} and {member!r} have different secrets, so their items cannot be compared; "
                    "give all members the same one, and put its fingerprint into the federation file"
                )
            # Without an agreed vocabulary they may have different items.
            if before.digest != join.digest or (join.digest and before.items != join.items):
                raise ProtocolError(
                    f"members {other!r} and {member!r} do not have the same vocabulary; "
                    "merge them (fedslim vocabulary merge) and give the result to every member"
                )
        # With an agreed vocabulary, ids are needed only to tell which items the labels belong to.
        needed = bool(join.labels) or not join.digest
        if len(join.ids) != ID_BYTES * join.items and (needed or join.ids):
            msg = f"member {member!r} announced {join.items} items but sent {len(join.ids) / ID_BYTES:g} ids"
            raise ProtocolError(msg)
        if join.labels and (self.settings.share_labels != "server" or len(join.labels) != join.items):
            expected = join.items if self.settings.share_labels == "server" else 0
            raise ProtocolError(f"member {member!r} sent {len(join.labels)} labels where this run expects {expected}")

    def _check_key(self, member: str, join: m.Join) -> None:
        """Check that the others will accept the member's key: if they refused it, they would seem to end the run."""
        try:
            self._keys.check("agreement key", member, join.key, join.certificate, join.signature)
            if self.settings.masked:
                check_usable(member, join.key)
        except (KeyAgreementError, UntrustedError) as error:
            raise ProtocolError(f"member {member!r} joins with a key that no member would accept: {error}") from error
        twin = next((name for name, other in self._joined.items() if name != member and other.key == join.key), None)
        if self.settings.masked and twin is not None:
            raise m.refused(f"member {member!r} joins with the key of {twin!r}")

    def seat(self, member: str, join: m.Join) -> None:
        """Add a member whose `Join` was checked."""
        self._joined[member] = join

    def leave(self, member: str) -> None:
        """Note that a member disconnected; before the first roster, forget its `Join`."""
        self._hold_roster.discard(member)
        if self.epoch < 0:
            self._joined.pop(member, None)

    # -- the roster ---------------------------------------------------------------------------------------------

    def invite(self, number: int) -> list[NewEpoch | Send]:
        """Begin a new epoch with this round: send all members the roster, or its changes.

        `ProtocolError` means that the members are not compatible; the run must end.
        """
        joins = self._joined.values()
        epoch = self._next_epoch()
        some = next(iter(joins))
        union: tuple[bytes, ...] = ()
        if not some.digest:
            union = tuple(sorted({i for join in joins for i in split_ids(join.ids)}))
            if len(union) > MAX_ITEMS:
                raise ProtocolError(f"the members together have {len(union)} items; at most {MAX_ITEMS} are allowed")
        items = some.items if some.digest else len(union)
        if epoch > 0 and items != self.items:
            raise ProtocolError(f"the members have {items} items now, but had {self.items} when the run began")
        self.epoch, self._lost_epochs, self.items = epoch, 0, items
        self.ids = union or split_ids(some.ids) or self.ids
        self._take_labels(joins)
        before, seated = self._roster, [self._joined[member] for member in self.members]
        keys, certificates = [join.key for join in seated], [join.certificate for join in seated]
        members, ids = list(self.members), b"".join(union)
        self._roster = m.Roster(self.run, self.settings, members, keys, ids, epoch, certificates, number)
        vocabulary = some.digest or Vocabulary(union, some.fingerprint.hex()).digest
        self._digest = roster_digest(self._roster, vocabulary=vocabulary, fingerprint=some.fingerprint)
        self._signatures = {}
        return [NewEpoch(epoch), *self._sends(self._roster, before)]

    def _sends(self, roster: m.Roster, before: m.Roster | None) -> list[Send]:
        """Return the roster for members that have none, and its changes for the others."""
        old = tuple(member for member in self.members if member in self._hold_roster)
        new = tuple(member for member in self.members if member not in self._hold_roster)
        self._hold_roster = set(self.members)
        sends = [Send(new, roster)] if new else []
        if old and before is not None:
            seats = [
                m.Seat(place, key, roster.certificates[place])
                for place, (key, known) in enumerate(zip(roster.keys, before.keys, strict=True))
                if key != known
            ]
            sends.append(Send(old, m.RosterUpdate(roster.epoch, seats, roster.next_round)))
        return sends

    def confirm(self, member: str, confirm: m.Confirm) -> None:
        """Record that a member confirmed the roster; check its signature as the other members will."""
        try:
            certificate = self._joined[member].certificate
            self._keys.check("roster", member, self._digest, certificate, confirm.signature)
        except UntrustedError as error:
            raise ProtocolError(f"member {member!r} has not confirmed the roster that it was sent: {error}") from error
        self._signatures[member] = confirm.signature

    def confirmed(self) -> Send:
        """Return the signatures of all members, addressed to all members."""
        return Send(self.members, m.Confirmed(self.epoch, [self._signatures[member] for member in self.members]))

    def _take_labels(self, joins: Iterable[m.Join]) -> None:
        """Set the labels by item number where members share them; an item without one is called by its id."""
        known: dict[bytes, str] = {}
        for join in joins:
            if join.labels:
                known.update(zip(split_ids(join.ids), join.labels, strict=True))
        if known:
            self.labels = tuple(known.get(i, "#" + i.hex()) for i in self.ids)
