"""Labels that members send each other at the end of a run, sealed so that the server only relays them.

The key is derived from the members' secret, the roster that all signed, the sender, and the table asked about: it seals
one message, which opens in no other run. All members send equally many bytes, whatever labels they have.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from msgspec import Meta
from numpy.typing import NDArray

from fedslim.errors import ProtocolError
from fedslim.protocol import messages as m
from fedslim.protocol.framing import MAX_FRAME
from fedslim.protocol.variant import Replies, Round, ServerSide, Situation
from fedslim.protocol.wire_types import MAX_ITEMS, MAX_SEALED, Text

if TYPE_CHECKING:
    from fedslim.data.vocabulary import ItemSecret
    from fedslim.protocol.outcome import Outcome

PURPOSE = b"fedslim labels 1 "
TAG_BYTES, LENGTH_BYTES, WORD_BYTES = 16, 4, 8
BYTES_AT_LEAST, BYTES_PER_ITEM = 1024, 96
MAX_LABEL = 2000
"""Characters of a label, as in all messages (`Text`)."""
PER_LABEL = 5  # the most bytes that msgpack adds to a string or a list
_ONCE = bytes(12)  # a key seals one message only

_decoder = msgspec.msgpack.Decoder(Annotated[list[Text], Meta(max_length=MAX_ITEMS)])


class UnsealedLabels(NamedTuple):
    """An answer that must be sealed before it leaves the member, to this many bytes; the session does that."""

    labels: tuple[str, ...]
    size: int


def published(table: m.PackedTable) -> NDArray[np.int64]:
    """Return the numbers of the items that a table names; rarer ones are merged in it."""
    return np.flatnonzero(table.supports.values())


def sealed_bytes(table: m.PackedTable, members: int) -> int:
    """Return how many bytes of sealed labels each member sends: it depends on nothing but the table."""
    return min(MAX_SEALED, MAX_FRAME // 2 // members, BYTES_AT_LEAST + BYTES_PER_ITEM * len(published(table)))


def label_key(secret: ItemSecret, roster: bytes, sender: str, question: m.AskLabels) -> bytes:
    """Derive the key of one sender's labels."""
    about = msgspec.msgpack.encode(msgspec.structs.replace(question, attempt=0))
    parts = [len(part).to_bytes(8, "big") + part for part in (sender.encode(), about)]
    return HKDF(hashes.SHA256(), 32, salt=roster, info=PURPOSE + b"".join(parts)).derive(secret.key)


def seal(labels: Sequence[str], size: int, key: bytes) -> bytes:
    """Seal labels; if there is no room for all of them, the longest are left out."""
    room = size - TAG_BYTES - LENGTH_BYTES
    chosen = sorted((label for label in labels if len(label) <= MAX_LABEL), key=lambda label: (len(label), label))
    sizes = np.cumsum([len(label.encode()) + PER_LABEL for label in chosen])
    plain = msgspec.msgpack.encode(chosen[: int(np.searchsorted(sizes, room - PER_LABEL, side="right"))])
    padded = len(plain).to_bytes(LENGTH_BYTES, "big") + plain.ljust(room, b"\0")
    return ChaCha20Poly1305(key).encrypt(_ONCE, padded, None)


def unseal(sealed: bytes, key: bytes) -> list[str]:
    """Return the labels; none if the server changed them, or if their sender does not keep to the format."""
    try:
        padded = ChaCha20Poly1305(key).decrypt(_ONCE, sealed, None)
        end = LENGTH_BYTES + int.from_bytes(padded[:LENGTH_BYTES], "big")
        labels: list[str] = _decoder.decode(padded[LENGTH_BYTES:end])
    except (InvalidTag, ValueError, RecursionError):
        return []
    return labels


def unsealed_labels(
    question: m.AskLabels, settings: m.Settings, members: int, labels: Sequence[str], own: Collection[str]
) -> UnsealedLabels:
    """Return a member's answer: those of its `own` labels that name published items."""
    if settings.share_labels == "none":
        raise m.refused("the server asked for labels, which the members did not agree to share")
    ours = tuple(labels[item] for item in published(question.table) if labels[item] in own)
    return UnsealedLabels(ours, sealed_bytes(question.table, members))


def sealed_labels(
    answer: UnsealedLabels, question: m.AskLabels, secret: ItemSecret, roster: bytes, sender: str
) -> m.Labels:
    """Return the answer as it is sent."""
    key = label_key(secret, roster, sender, question)
    return m.Labels(question.round, question.attempt, seal(answer.labels, answer.size, key))


def unsealed(
    finish: m.Finish, question: m.AskLabels, members: Sequence[str], secret: ItemSecret, roster: bytes
) -> Iterator[str]:
    """Yield the labels that the members have sent each other."""
    if finish.table != question.table:
        raise m.refused("the server's result is not the table for which members sent their labels")
    for sender, sealed in zip(members, finish.labels, strict=False):
        yield from unseal(sealed, label_key(secret, roster, sender, question))


def rounds_of(side: ServerSide, situation: Situation) -> Generator[Round, Replies, Outcome]:
    """Run a variant; then, if members share labels and receive the table, let them name its items."""
    outcome = yield from side.run()
    if situation.settings.share_labels == "none" or not side.members_know:
        return outcome
    size = sealed_bytes(outcome.table, len(situation.members))
    question = m.AskLabels(situation.number, 0, outcome.table)
    replies = yield Round(question, m.Labels, "labels", -(-size // WORD_BYTES))
    for member, reply in replies.items():
        if len(reply.sealed) != size:
            raise ProtocolError(f"member {member!r} sent {len(reply.sealed)} bytes of sealed labels instead of {size}")
    return replace(outcome, labels=tuple(replies[member].sealed for member in situation.members))
