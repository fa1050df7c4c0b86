"""What sessions keep of a run, as records of a journal: the server its rounds, a member what it was told.

With each round go the figures of the run up to it, so that they are not lost with the process that counted them.

Of masked answers the server keeps the sum, which is all it can read in them anyway: played back, one member has said
the sum and the others nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
import numpy as np

from fedslim.errors import JournalError
from fedslim.network.traffic import Direction  # noqa: TC001  # msgspec reads it when the program runs
from fedslim.protocol import messages as m
from fedslim.protocol.outcome import Ending  # noqa: TC001  # msgspec reads it when the program runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fedslim.network.traffic import Communication
    from fedslim.protocol.variant import Replies


class Sum(NamedTuple):
    """All messages of one kind in one direction."""

    kind: str
    direction: Direction
    messages: int
    sent: int
    plain: int


class Figures(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a run has cost its server so far, in all its lives."""

    seconds: float = 0.0
    traffic: list[Sum] = []

    @property
    def sent(self) -> int:
        """Bytes on the line, both ways."""
        return sum(one.sent for one in self.traffic)


class RoundRecord(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="round"):
    """The replies of one round, how many seconds into the run it ended, whether the search was told to stop then."""

    number: int
    elapsed: float
    replies: dict[str, m.FromMember]
    ending: Ending | None
    figures: Figures


class HeardRecord(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="heard"):
    """A member has said that it was told the end."""

    member: str


class EpochRecord(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="epoch"):
    """A new roster, of this epoch, is about to be sent. Members may have been further before they had to go back."""

    epoch: Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)]
    furthest: Annotated[int, msgspec.Meta(ge=0)] = 0


class BackRecord(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="back"):
    """Everybody goes back to this round: what was kept of it and of later ones is played again."""

    number: Annotated[int, msgspec.Meta(ge=0)]


Record = RoundRecord | HeardRecord | EpochRecord | BackRecord

_encoder = msgspec.msgpack.Encoder()
_kept = msgspec.msgpack.Decoder(Record)
_told = msgspec.msgpack.Decoder(m.FromServer)


NOTHING = Figures()


def figures_of(seconds: float, communication: Communication) -> Figures:
    """What a run has cost so far."""
    traffic = communication.traffic.items()
    return Figures(seconds, [Sum(*key, one.messages, one.sent, one.plain) for key, one in traffic])


def round_record(
    number: int,
    elapsed: float,
    replies: Mapping[str, m.FromMember],
    ending: Ending | None = None,
    figures: Figures = NOTHING,
) -> bytes:
    """A round of the server's."""
    kept = dict(replies)
    if all(isinstance(reply, m.Masked) for reply in kept.values()):
        first, *others = kept
        one: m.Masked = kept[first]  # type: ignore[assignment]
        total = np.zeros(one.words.length, np.uint64)
        for reply in kept.values():
            total += np.frombuffer(reply.words.data, "<u8")  # type: ignore[union-attr]
        vector = m.Vector(one.words.length, one.words.bits, total.astype("<u8").tobytes())
        nothing = m.Vector(one.words.length, one.words.bits, b"")
        kept = {first: msgspec.structs.replace(one, words=vector)}
        kept |= {name: msgspec.structs.replace(one, words=nothing) for name in others}
    return _encoder.encode(RoundRecord(number, elapsed, kept, ending, figures))


def heard_record(member: str) -> bytes:
    """A member has heard the end."""
    return _encoder.encode(HeardRecord(member))


def epoch_record(number: int, furthest: int = 0) -> bytes:
    """A new epoch begins, when members had been so far."""
    return _encoder.encode(EpochRecord(number, furthest))


def back_record(number: int) -> bytes:
    """Everybody goes back to a round."""
    return _encoder.encode(BackRecord(number))


@dataclass(slots=True)
class ServerRecords:
    """What a server's journal has."""

    rounds: list[RoundRecord] = field(default_factory=list)
    """In order; of those that were played again, the last time."""
    epoch: int = 0
    """The last one; a journal begins in the first."""
    furthest: int = 0
    """How far members had been before they had to go back."""
    endings: dict[int, Ending] = field(default_factory=dict)
    """What was decided with which round, also where everybody went back and has not come there again."""
    retreats: int = 0
    """How often everybody went back."""
    heard: set[str] = field(default_factory=set)
    """Who had heard the end."""


def read_server_records(records: Iterable[bytes], name: str) -> ServerRecords:
    """Read a server's journal.

    Raises:
        JournalError: A record is not what it should be; the message names the journal.
    """
    found = ServerRecords()
    rounds = found.rounds
    for number, record in enumerate(records):
        match _decode(record, number, name):
            case EpochRecord(epoch, furthest):
                found.epoch, found.furthest = max(found.epoch, epoch), max(found.furthest, furthest)
            case BackRecord(back_to):
                found.retreats += 1
                del rounds[back_to:]
            case HeardRecord(member):
                found.heard.add(member)
            case RoundRecord() as kept:
                if kept.number != len(rounds) or found.heard:
                    expected = "the end" if found.heard else f"round {len(rounds)}"
                    msg = f"{name}: expected {expected}, found round {kept.number}; the journal is not continued"
                    raise JournalError(msg)
                replies: Replies = {who: _whole(reply) for who, reply in kept.replies.items()}
                rounds.append(msgspec.structs.replace(kept, replies=replies))
                if kept.ending is not None:
                    found.endings[kept.number] = kept.ending
    return found


def _decode(record: bytes, number: int, name: str) -> Record:
    try:
        kept: Record = _kept.decode(record)
    except ValueError as error:  # msgspec's, and texts that are none
        msg = f"{name}: record {number} is no round of this version: {error}; the journal is not continued"
        raise JournalError(msg) from error
    return kept


def _whole(reply: m.FromMember) -> m.FromMember:
    if isinstance(reply, m.Masked) and reply.words.length and not reply.words.data:
        words = msgspec.structs.replace(reply.words, data=bytes(8 * reply.words.length))
        return msgspec.structs.replace(reply, words=words)
    return reply


def told_record(message: m.FromServer) -> bytes:
    """Something that a member was told."""
    return _encoder.encode(message)


def messages_in(records: Iterable[bytes], name: str) -> Iterator[m.FromServer]:
    """What a member was told, in order."""
    for number, record in enumerate(records):
        try:
            message: m.FromServer = _told.decode(record)
        except ValueError as error:  # msgspec's, and texts that are none
            msg = f"{name}: record {number} is no message of this version: {error}; the journal is not continued"
            raise JournalError(msg) from error
        yield message
