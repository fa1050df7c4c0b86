"""Attack 1, critical, by the server: roster splitting.

Nothing bound the roster's vocabulary across members. The server padded it with made-up ids, high ones for the victim
and low ones for everybody else: items got disjoint numbers, masks still cancelled, and every "sum" was one member's
count. On the old code all 76 supports of the victim were read exactly, over TLS, unnoticed.
"""

from __future__ import annotations

import asyncio

import msgspec
import numpy as np
import pytest
from liar import MEMBERS, Liar, Loopback

from fedslim.data.vocabulary import Vocabulary
from fedslim.errors import RingError, UntrustedError
from fedslim.protocol import messages as m
from fedslim.protocol.roster import roster_digest
from fedslim.protocol.sums import add_up
from fedslim.protocol.wire_types import ID_BYTES
from fedslim.secagg.ring import Ring
from wire import Line, databases, inputs_of

VICTIM = MEMBERS[0]


def split(ids: bytes) -> list[bytes]:
    return [ids[k : k + ID_BYTES] for k in range(0, len(ids), ID_BYTES)]


def padded(union: list[bytes], *, victim: bool) -> bytes:
    """Pad the union with as many unused ids: the victim's items get low numbers, those of the others high ones."""
    spare = range(len(union))
    if victim:
        return b"".join([*union, *(b"\xff" * 12 + k.to_bytes(4, "big") for k in spare)])
    return b"".join([*(bytes(12) + k.to_bytes(4, "big") for k in spare), *union])


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    return Loopback(tmp_path_factory.mktemp("liar") / "trust", MEMBERS)


async def invited(liar):
    """Let all members join, send them rosters with different vocabularies, and return what they signed."""
    liar.start(agreed=False)
    joins = await liar.gather()
    union = sorted({one for join in joins.values() for one in split(join.ids)})
    for name in MEMBERS:
        await liar.say(name, liar.roster(ids=padded(union, victim=name == VICTIM)))
    return [(await liar.hear(name)).signature for name in MEMBERS]


def test_members_that_were_shown_different_vocabularies_answer_nothing(federation):
    async def attack():
        async with Liar(federation) as liar:
            signatures = await invited(liar)
            for name in MEMBERS:
                await liar.say(name, m.Confirmed(0, signatures), m.Ask(0, 0, [], [m.WantSupports()]))
            errors = [await liar.failure(name) for name in MEMBERS]
            return errors, liar.answers()

    errors, answers = asyncio.run(attack())
    assert all(isinstance(error, UntrustedError) for error in errors)
    assert not answers


def test_a_question_before_the_signatures_is_not_answered(federation):
    async def attack():
        async with Liar(federation) as liar:
            await invited(liar)
            for name in MEMBERS:
                await liar.say(name, m.Ask(0, 0, [], [m.WantSupports()]))
            errors = [await liar.failure(name) for name in MEMBERS]
            return errors, liar.answers()

    errors, answers = asyncio.run(attack())
    assert all("waiting for the others to confirm" in str(error) for error in errors)
    assert not answers


@pytest.mark.parametrize("forged", ["own", "none", "noise", "few"])
def test_signatures_that_the_server_makes_up_are_worth_nothing(federation, forged):
    """The server may send a member's own signature for the others, none, noise, or too few."""

    async def attack():
        async with Liar(federation) as liar:
            signatures = await invited(liar)
            sent = {
                "own": [signatures[0]] * 3,
                "none": [b""] * 3,
                "noise": [bytes(64)] * 3,
                "few": signatures[:1],
            }[forged]
            await liar.say(VICTIM, m.Confirmed(0, sent), m.Ask(0, 0, [], [m.WantSupports()]))
            return await liar.failure(VICTIM), liar.answers()

    error, answers = asyncio.run(attack())
    assert error is not None
    assert not answers


@pytest.mark.parametrize("variant", ["x", "sa"])
def test_even_with_signatures_that_are_believed_a_split_roster_gives_noise(variant):
    """Within one process members sign nothing, so a server can claim that all of them saw the same roster."""
    named = databases({"a": ["abc"] * 40 + ["ab"] * 7, "b": ["abd"] * 50, "c": ["bcd"] * 30 + ["d"]})
    inputs = inputs_of(named, variant, agreed=False)
    line = Line(named, variant, inputs=inputs).begin()
    joins = dict(line.queue)
    union = sorted({one for join in joins.values() for one in split(join.ids)})
    replies = {}
    for name, member in line.members.items():
        ids = padded(union, victim=name == "a")
        roster = m.Roster(
            bytes(16),
            inputs["a"].settings,
            list(named),
            [joins[n].key for n in named],
            ids,
            0,
            [b""] * 3,
            0,
        )
        member.receive(roster)
        vocabulary = Vocabulary(tuple(split(ids)), inputs["a"].secret.fingerprint)
        digest = roster_digest(roster, vocabulary=vocabulary.digest, fingerprint=inputs["a"].fingerprint)
        member.receive(m.Confirmed(0, [digest] * 3))
        ask = m.Ask(0, 0, [], [m.WantSupports()]) if variant == "x" else m.AskIndexedUsages(0, 0)
        replies[name] = member.receive(ask)
    ring = Ring.for_sums_up_to(inputs["a"].settings.max_transactions)
    length = 2 * len(union) + 1
    words = add_up(replies, ring.words(length))
    with pytest.raises(RingError):
        ring.read(words, length=length)
    honest = Ring(ring.bits, (1 << ring.bits) - 1)
    packed = np.zeros(honest.words(length), np.uint64)
    truth = dict(zip(inputs["a"].secret.ids_of(named["a"].vocabulary), named["a"].supports.tolist(), strict=True))
    places = np.arange(len(union), dtype=np.int32)
    honest.put(packed, places, np.array([truth[one] for one in union], np.int64), length=length)
    agree = np.count_nonzero(words[: len(union) // 2] == packed[: len(union) // 2])
    assert agree == 0


def test_the_same_run_with_one_roster_for_all_is_answered(federation):
    """Shows that the tests above fail for the right reason."""

    async def attack():
        async with Liar(federation) as liar:
            liar.start(agreed=False)
            joins = await liar.gather()
            ids = b"".join(sorted({one for join in joins.values() for one in split(join.ids)}))
            for name in MEMBERS:
                await liar.say(name, liar.roster(ids=ids))
            signatures = [(await liar.hear(name)).signature for name in MEMBERS]
            for name in MEMBERS:
                await liar.say(name, m.Confirmed(0, signatures), m.Ask(0, 0, [], [m.WantSupports()]))
            return {name: await liar.hear(name) for name in MEMBERS}, len(ids) // ID_BYTES

    replies, items = asyncio.run(attack())
    ring = Ring.for_sums_up_to(federation.file.limits.max_transactions)
    sums = ring.read(add_up(replies, ring.words(items + 1)), length=items + 1)
    assert int(sums[-1]) == federation.database.transactions


@pytest.mark.parametrize(
    "change",
    [
        {"run": b"another run, yes"},
        {"epoch": 7},
        {"keys": "swapped"},
    ],
    ids=["run", "epoch", "keys"],
)
def test_any_difference_between_rosters_is_noticed(federation, change):
    async def attack():
        async with Liar(federation) as liar:
            liar.start()
            await liar.gather()
            honest = liar.roster()
            other = msgspec.structs.replace(honest, **change) if change.get("keys") is None else honest
            if change.get("keys") == "swapped":
                other = msgspec.structs.replace(honest, keys=[honest.keys[0], honest.keys[2], honest.keys[1]])
            await liar.say("a", other)
            await liar.say("b", honest)
            await liar.say("c", honest)
            heard = [await liar.hear(name) for name in MEMBERS]
            signatures = [getattr(message, "signature", b"") for message in heard]
            for name in MEMBERS:
                await liar.say(name, m.Confirmed(heard[0].epoch if name == "a" else 0, signatures))
                await liar.say(name, m.Ask(0, honest.epoch, [], [m.WantSupports()]))
            errors = [await liar.failure(name) for name in MEMBERS]
            return errors, liar.answers()

    errors, answers = asyncio.run(attack())
    assert all(error is not None for error in errors)
    assert not answers
