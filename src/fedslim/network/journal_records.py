"""The records of a journal: the server keeps its rounds, a member keeps the messages it received.

Each round includes the costs of the run so far, so that they survive the process that counted them.

Of masked answers the server keeps only the sum, which is all it can read anyway: in a replay, one member answers with
the sum and the others with zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np

from fedslim.errors import JournalError
from fedslim.network.traffic import Messages  # noqa: TC001  # msgspec needs it at run time
from fedslim.protocol import messages as m
from fedslim.protocol.outcome import Ending  # noqa: TC001  # msgspec needs it at run time
from fedslim.protocol.positions import ServerRecords

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fedslim.protocol.variant import Replies


class RoundRecord(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="round"):
    """The replies of one round, the time in seconds at which it ended, and why the search was to stop then, if so.

    `seconds` and `traffic` are the costs of the run so far, including those before a restart.
    """

    number: int
    elapsed: float
    replies: dict[str, m.FromMember]
    ending: Ending | None
    seconds: float
    traffic: Messages


class HeardRecord(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="heard"):
    """A member has acknowledged the end of the run."""

    member: str


class EpochRecord(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="epoch"):
    """A roster of a new epoch is about to be sent; `furthest` is the last round that any member had reached."""

    epoch: Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)]
    furthest: Annotated[int, msgspec.Meta(ge=0)] = 0


class BackRecord(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="back"):
    """All members go back to this round: it and the later ones are repeated."""

    number: Annotated[int, msgspec.Meta(ge=0)]


encode_record = msgspec.msgpack.Encoder().encode
"""Encode a record of the server, or a message that a member received."""
_kept = msgspec.msgpack.Decoder(RoundRecord | HeardRecord | EpochRecord | BackRecord)
_told = msgspec.msgpack.Decoder(m.FromServer)


def round_record(  # noqa: PLR0913, PLR0917  # the fields of a record
    number: int,
    elapsed: float,
    replies: Mapping[str, m.FromMember],
    ending: Ending | None = None,
    seconds: float = 0.0,
    traffic: Messages | None = None,
) -> bytes:
    """Encode a round of the server."""
    kept = dict(replies)
    if all(isinstance(reply, m.Masked) for reply in kept.values()):
        first, *others = kept
        one: m.Masked = kept[first]  # type: ignore[assignment]
        total = np.zeros(one.words.length, np.uint64)
        for reply in kept.values():
            total += np.frombuffer(reply.words.data, "<u8")  # type: ignore[union-attr]
        vector = m.Vector(one.words.length, one.words.bits, total.astype("<u8").tobytes())
        zeros = m.Vector(one.words.length, one.words.bits, b"")
        kept = {first: msgspec.structs.replace(one, words=vector)}
        kept |= {name: msgspec.structs.replace(one, words=zeros) for name in others}
    return encode_record(RoundRecord(number, elapsed, kept, ending, seconds, traffic or {}))


def read_server_records(records: Iterable[bytes], name: str) -> ServerRecords:
    """Read a server's journal, whose rounds are `RoundRecord`s; errors name it."""
    found = ServerRecords()
    rounds = found.rounds
    for number, record in enumerate(records):
        match _decode(_kept, "round", record, number, name):
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
                    msg = f"{name}: expected {expected}, found round {kept.number}; the journal cannot be resumed"
                    raise JournalError(msg)
                replies: Replies = {who: _whole(reply) for who, reply in kept.replies.items()}
                rounds.append(msgspec.structs.replace(kept, replies=replies))
                if kept.ending is not None:
                    found.endings[kept.number] = kept.ending
    return found


def _decode(decoder: msgspec.msgpack.Decoder[Any], what: str, record: bytes, number: int, name: str) -> Any:
    try:
        return decoder.decode(record)
    except (ValueError, msgspec.MsgspecError) as error:
        msg = f"{name}: record {number} is not a {what} of this version: {error}; the journal cannot be resumed"
        raise JournalError(msg) from error


def _whole(reply: m.FromMember) -> m.FromMember:
    if isinstance(reply, m.Masked) and reply.words.length and not reply.words.data:
        words = msgspec.structs.replace(reply.words, data=bytes(8 * reply.words.length))
        return msgspec.structs.replace(reply, words=words)
    return reply


def messages_in(records: Iterable[bytes], name: str) -> Iterator[m.FromServer]:
    """Yield the messages that a member received, in order."""
    for number, record in enumerate(records):
        yield _decode(_told, "message", record, number, name)
