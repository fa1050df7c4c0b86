"""Bytes that are not a message are refused at little cost."""

from __future__ import annotations

import random
import tracemalloc
import zlib

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fedslim.errors import FrameError, ProtocolError
from fedslim.network.in_process import FrameSent
from fedslim.protocol import framing, messages as m
from fedslim.protocol.framing import MAX_FRAME, MAX_PLAIN, from_member, from_server, length_of, to_bytes
from fedslim.protocol.wire_types import MAX_COUNT
from wire import FIGURE, VARIANTS, databases, decoded, recorded

READERS = [from_member, from_server]


@pytest.fixture(scope="module")
def frames():
    """Every frame of a run of each variant, and of every kind, without repeats."""
    seen = {}
    for variant in VARIANTS:
        _, _, recorder = recorded(databases(FIGURE), variant, share="members")
        seen |= {frame.data: frame for frame in recorder.frames}
    # And the messages that only a member that comes back causes.
    update = m.RosterUpdate(3, [m.Seat(1, bytes(range(32)), b"a certificate")], 5)
    frame = to_bytes(update)
    seen[frame.data] = FrameSent("RosterUpdate", "down", "c1", len(frame.data), frame.plain, frame.data)
    return list(seen.values())


def packed(value):
    """Any value as the bytes of a frame after its prefix."""
    return zlib.compress(msgspec.msgpack.encode(value), 1)


def reader(frame):
    return from_member if frame.direction == "up" else from_server


def body(frame):
    return frame.data[framing.PREFIX_BYTES :]


# -- what is sent is what is read ------------------------------------------------------------------------------------


def test_every_message_of_a_run_survives_the_line(frames):
    kinds = set()
    for frame in frames:
        message = decoded(frame)
        again = to_bytes(message)
        assert (again.data, again.plain) == (frame.data, frame.plain)
        assert length_of(frame.data[:4]) == len(frame.data) - 4
        assert type(message).__name__ == frame.kind
        kinds.add(frame.kind)
    every = {kind.__name__ for kind in (*m.FromMember.__args__, *m.FromServer.__args__)}
    assert kinds == every - {"Abort", "Heard", "AskPreparation", "Ready"}  # only on a network, or in a preparation


def test_masked_words_are_not_compressed_in_vain():
    words = m.Masked(3, 0, m.Vector(1000, 64, random.Random(1).randbytes(8000)))
    frame = to_bytes(words)
    assert frame.plain < len(frame.data) < frame.plain + 32


def test_masked_words_of_every_length_are_read_again_and_fit_what_is_expected_of_them():
    """The server reads no more than `packed_at_most` of what a member may say."""
    rng = random.Random(9)
    for length in (*range(70), *rng.sample(range(70, 25_000), 100), 1 << 17):
        message = m.Masked(0, 0, m.Vector(length, 64, rng.randbytes(8 * length)))
        frame = to_bytes(message)
        assert from_member(body(frame)) == message
        assert len(body(frame)) <= framing.packed_at_most(frame.plain - framing.PREFIX_BYTES)


def test_a_message_that_is_too_large_is_not_sent():
    with pytest.raises(FrameError, match=r"a Masked message has \d+ bytes, \d+ compressed, but at most"):
        to_bytes(m.Masked(0, 0, m.Vector(MAX_FRAME // 8, 64, bytes(MAX_FRAME))))


# -- lengths ---------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=8))
@settings(max_examples=500)
def test_a_length_is_allowed_or_refused(prefix):
    number = int.from_bytes(prefix, "big")
    if len(prefix) == 4 and 0 < number <= MAX_FRAME:
        assert length_of(prefix) == number
    else:
        with pytest.raises(FrameError):
            length_of(prefix)


@pytest.mark.parametrize("length", [0, MAX_FRAME + 1, 1 << 31, (1 << 32) - 1])
def test_a_length_that_makes_no_sense_is_refused_before_anything_is_read(length):
    with pytest.raises(FrameError, match=f"a frame claims to have {length} bytes; 1 to {MAX_FRAME} are allowed"):
        length_of(length.to_bytes(4, "big"))
    assert length_of(MAX_FRAME.to_bytes(4, "big")) == MAX_FRAME


# -- damage ----------------------------------------------------------------------------------------------------------


def test_every_truncation_of_every_frame_is_refused(frames):
    for frame in frames:
        data = body(frame)
        for length in range(len(data)):
            with pytest.raises(FrameError):
                reader(frame)(data[:length])


def test_anything_behind_the_end_is_refused(frames):
    for frame in frames:
        for more in (b"\0", b"x", body(frame), bytes(5000)):
            with pytest.raises(FrameError, match="cut short or has extra bytes after its end"):
                reader(frame)(body(frame) + more)


def test_every_flipped_bit_is_noticed(frames):
    """By the checksum of zlib; if a flipped bit does not affect it, the message is the same."""
    same = 0
    for frame in frames[::3]:
        for k in range(8 * len(body(frame))):
            data = bytearray(body(frame))
            data[k >> 3] ^= 1 << (k & 7)
            try:
                assert reader(frame)(bytes(data)) == decoded(frame)
                same += 1
            except FrameError:
                pass
    assert same < 500


@given(st.binary(max_size=400), st.sampled_from(READERS))
@settings(max_examples=1000)
def test_random_bytes_are_refused(data, read):
    with pytest.raises(FrameError, match=f"a frame of {len(data)} bytes"):
        read(data)


@given(st.binary(max_size=200), st.sampled_from(READERS))
@settings(max_examples=1000)
def test_random_bytes_in_a_sound_wrapping_are_refused(data, read):
    with pytest.raises(FrameError, match="holds no message we know"):
        read(zlib.compress(data))


TAGS = [kind.__name__ for kind in (*m.FromMember.__args__, *m.FromServer.__args__)]


def anything(rng, depth=0):  # noqa: PLR0911  # one for each type
    """A random value of a random type, usually small."""
    kind = rng.randrange(9 if depth < 4 else 6)
    if kind < 2:
        return rng.choice([0, 1, 2, 5, 8, 64, -1, 1 << 22, 1 << 53, (1 << 64) - 1, rng.getrandbits(20)])
    if kind == 2:
        return rng.randbytes(rng.choice([0, 1, 16, 32]))
    if kind == 3:
        return rng.choice([None, True, False, 0.5])
    if kind == 4:
        return rng.choice(["", "x", "so", *TAGS])
    if kind == 5:
        return [rng.randrange(3), rng.choice([8, 64]), rng.randbytes(rng.choice([0, 1, 2, 8]))]
    if kind == 6:
        return {rng.choice("abc"): anything(rng, depth + 1)}
    return [anything(rng, depth + 1) for _ in range(rng.randrange(5))]


@given(st.integers(0, 1 << 60))
@settings(max_examples=150)
def test_what_decodes_keeps_its_own_bounds(seed):
    """Well-formed values with a known tag are nearly always refused; the others are valid messages."""
    rng = random.Random(seed)
    for tag in TAGS:
        for read in READERS:
            try:
                message = read(packed([tag, *(anything(rng) for _ in range(rng.randrange(8)))]))
            except FrameError:
                continue
            assert type(message).__name__ == tag
            assert read(to_bytes(message).data[4:]) == message


def test_real_messages_with_one_field_changed_are_refused_or_are_messages():
    """Every field of every message of a run gets every odd value."""
    odd = [None, True, -1, 1 << 22, 1 << 53, (1 << 53) + 1, (1 << 64) - 1, "x", b"x", [], [[]], {}, 0.5, [1, 2]]
    cases = taken = 0
    seen = set()
    for variant in VARIANTS:
        _, _, recorder = recorded(databases(FIGURE), variant, share="members")
        for frame in recorder.frames:
            if frame.kind in seen and frame.kind != "Ask":
                continue
            seen.add(frame.kind)
            raw = msgspec.msgpack.decode(zlib.decompress(body(frame)))
            for path in paths(raw):
                for value in odd:
                    cases += 1
                    try:
                        message = reader(frame)(packed(changed(raw, path, value)))
                    except FrameError:
                        continue
                    taken += 1
                    assert reader(frame)(to_bytes(message).data[4:]) == message
            for grown in ([*raw, None], [*raw, 0], raw[:-1]):
                if len(raw) > 1:
                    with pytest.raises(FrameError):
                        reader(frame)(packed(grown))
    assert cases > 3000
    assert 0 < taken < cases / 2


def paths(value, prefix=()):
    if isinstance(value, list):
        for k, part in enumerate(value[:12]):
            yield (*prefix, k)
            yield from paths(part, (*prefix, k))


def changed(value, path, new):
    if not path:
        return new
    copy = list(value)
    copy[path[0]] = changed(copy[path[0]], path[1:], new)
    return copy


@pytest.mark.parametrize(
    "value",
    [
        ["Nonsense"],
        ["Ready", 1],
        ["Confirm", 1, b"", 2],
        ["Confirm", 1],
        ["Confirm"],
        ["Confirm", 1 << 16, b""],
        ["Confirm", -1, b""],
        ["Confirm", 0, bytes(1025)],
        ["Confirm", 0, "x"],
        {"type": "Confirm"},
        ["Join"],
        "Confirm",
        7,
        None,
        [],
        [["Confirm", 0, b""]],
        ["Confirmed", 0, [b""]],  # only a server may send it
        ["Masked", -1, 0, [0, 64, b""]],
        ["Masked", 1 << 47, 0, [0, 64, b""]],
        ["Masked", 0, 1 << 16, [0, 64, b""]],
        ["Masked", 0, 0, [0, 65, b""]],
        ["Masked", 0, 0, [0, 0, b""]],
        ["Masked", 0, 0, [(1 << 26) + 1, 8, b""]],
        ["Masked", 0, 0, [1, 8, "x"]],
        ["Masked", 0.0, 0, [0, 64, b""]],
        ["Abort", "x" * 2001],
        ["Join", 1, "0", bytes(31), b"", b"", b"", 0, [], b"", b"", b"", 0, 0],
        ["Join", 1, "0", bytes(32), bytes(17), b"", b"", 0, [], b"", b"", b"", 0, 0],
        ["Join", 1, "0", bytes(32), b"", b"", b"", (1 << 20) + 1, [], b"", b"", b"", 0, 0],
        ["Join", 1, "x" * 41, bytes(32), b"", b"", b"", 0, [], b"", b"", b"", 0, 0],
        ["Join", 1, "0", bytes(32), b"", b"", b"", 0, [], b"", b"", b"", 1 << 16, 0],
        ["Join", 1, "0", bytes(32), b"", b"", 0, [], b"", b"", b"", 0, 0],  # of the protocol before
    ],
)
def test_messages_of_members_out_of_their_bounds_are_refused(value):
    with pytest.raises(FrameError, match="holds no message we know"):
        from_member(packed(value))


def roster(**changes):
    """The values of a roster, in their order."""
    settings = ["x", True, 1, "none", None, True, "usage", None, 1, 1, 1]
    fields = {
        "run": bytes(16),
        "settings": settings,
        "members": ["a"],
        "keys": [bytes(32)],
        "ids": b"",
        "epoch": 0,
        "certificates": [b""],
        "next_round": 0,
    }
    return ["Roster", *(fields | changes).values()]


def test_a_roster_within_its_bounds_is_taken():
    assert from_server(packed(roster())).settings == m.Settings("x", True, 1)


@pytest.mark.parametrize(
    "value",
    [
        ["Masked", 0, 0, [0, 64, b""]],  # only a member may send it
        ["Ask", 0, 0, [], []],
        ["Ask", 0, 0, [], [["WantSupports", 5]]],
        ["Ask", 0, 0, [], [["Insert", 5, [0, 1], 1]]],
        ["Ask", 0, 0, [["WantSupports"]], [["WantSupports"]]],
        ["Ask", 0, 0, [["Insert", 5, [0], 1]], [["WantSupports"]]],
        ["Ask", 0, 0, [["Insert", 5, [0, 1, 2], 1]], [["WantSupports"]]],
        ["Ask", 0, 0, [["Insert", 1 << 22, [0, 1], 1]], [["WantSupports"]]],
        ["Ask", 0, 0, [["Insert", 5, [0, 1 << 22], 1]], [["WantSupports"]]],
        ["Ask", 0, 0, [["Insert", 5, [0, -1], 1]], [["WantSupports"]]],
        ["Ask", 0, 0, [["Insert", 5, [0, 1], (1 << 53) + 1]], [["WantSupports"]]],
        ["Ask", 0, 0, [["Restore", 1 << 22]], [["WantSupports"]]],
        ["Ask", 0, 0, [["Restore", 5, [0, 1], 1]], [["WantSupports"]]],
        ["Ask", 0, 0, [["Remove", -1]], [["WantSupports"]]],
        ["Ask", 0, 0, [["Drop", [0, 1]]], [["WantSupports"]]],
        ["Ask", 0, 0, [["Drop", [1, 65, b""]]], [["WantSupports"]]],
        ["Ask", 0, 0, [["Remove", 5]] * ((1 << 18) + 1), [["WantFinal", 5]]],
        ["Ask", 0, 0, [], [["WantFinal", 5]] * 4097],
        ["Ask", 0, 0, [], [["WantFinal", 0]]],
        ["Ask", 0, 0, [], [["WantFinal", 65]]],
        ["Ask", 0, 0, [], [["WantUnionSupport", [0, 1, 2], 5]]],
        ["Ask", 0, 0, [], [["WantUnionSupport", [0, 1], 0]]],
        ["Ask", 0, 0, [], [["WantUnionSupport", [0, 1], 65]]],
        ["Ask", 0, 0, [], [["WantSupportOf", [[0, 1]], 5]]],
        ["Ask", 0, 0, [], [["WantRows", [], b""]]],
        ["Ask", 0, 0, [], [["WantRows", [0], b"\x05", 5]]],
        ["Ask", 0, 0, [], [["WantRows", [0] * 4097, bytes(4097)]]],
        ["Ask", 0, 0, [], [["WantRemovals", [5] * 129, 5, 0]]],
        ["Ask", 0, 0, [], [["WantRemovals", [], 5, 0]]],
        ["Ask", 0, 0, [], [["WantSparseRow", 0, 1 << 22, 0]]],
        ["Ask", 0, 0, [], [["WantInsertions", [], [], 5, 0]]],
        ["Ask", 0, 0, [], [["WantInsertions", [[5, [0, 1], 1, 1]], [], 5, 0]]],
        ["Ask", 0, 0, [], [["WantInsertions", [[5, [0, 1], 1]], [], 5, 0]]],
        ["Ask", 0, 0, [], [["WantInsertions", [[5, [0], 1, True]], [], 5, 0]]],
        ["Ask", 0, 0, [], [["WantInsertions", [[1 << 22, [0, 1], 1, True]], [], 5, 0]]],
        ["Ask", 0, 0, [], [["WantInsertions", [[5, [0, 1], (1 << 53) + 1, True]], [], 5, 0]]],
        ["Ask", 0, 0, [], [["WantInsertions", [[5, [0, 1], 1, True]] * 65, [], 5, 0]]],
        ["Ask", 0, 0, [], [["WantInsertions", [[5, [0, 1], 1, True]], [5] * 129, 5, 0]]],
        ["Ask", 0, 0, [], [["WantInsertions", [[5, [0, 1], 1, True]], [-1], 5, 0]]],
        ["Ask", 0, 0, [], [["WantInsertions", [[5, [0, 1], 1, True]], [], 1 << 22, 0]]],
        ["Ask", 0, 0, [], [["WantEntries", [1, 8, b"\x01"], [1, 8, b"\x01"], [1, 8, b"\x01"]]]],
        ["Ask", 0, 0, [], [["WantEntries", 0, [1, 8, b"\x01"], [1, 8, b"\x01"], b"\x01"]]],
        ["Ask", 0, 0, [], [["WantEntries", *[[1, 65, b"\x01"]] * 3, b"\x01"]]],
        ["Ask", 0, 0, [], [["WantEntries", *[[(1 << 26) + 1, 8, b"\x01"]] * 3, b"\x01"]]],
        ["Ask", 0, 0, [], [["WantEntries", *[[1, 8, b"\x01"]] * 3, bytes((1 << 26) + 1)]]],
        ["Ask", 0, 0, [], [["WantEntries", *[[1, 8, b"\x01"]] * 3, b"\x01", 0]]],
        ["Evaluate", 0, []],
        ["Evaluate", 0, [[0]]],
        ["Evaluate", 0, [[0, 1, 2]]],
        ["Evaluate", 0, [[0, 1]] * 4097],
        roster(run=bytes(15)),
        roster(settings=["x", True, 0]),
        roster(settings=["x", 1, 1]),
        roster(settings=["x", True, (1 << 48) + 1]),
        roster(settings=["x" * 21, True, 1]),
        roster(settings=["x", True, 1, False, 0]),
        roster(settings=["x", True, 1, False, None, True, "usage", 0]),
        roster(settings=["x", True, 1, False, None, True, "usage", None, 0]),
        roster(settings=["x", True, 1, False, None, True, "usage", None, 1, 0]),
        roster(settings=["x", True, 1, False, None, True, "usage", None, 1, 1, 0]),
        roster(settings=["x", True, 1, False, None, True, "usage", None, 1, 1, 1, 0]),
        roster(settings=["x", True, 1, False, None, True, "usage", None, 1, 1, 1, 65]),
        roster(settings=["x", True, 1, False, None, True, "usage", None, 1, 1, 1, 8, 0]),
        roster(settings=["x", True, 1, False, None, True, "usage", None, 1, 1, 1, 8, 9]),
        roster(settings=["x", True, 1, False, None, True, "usage", None, 1, 1, 1, 8, 1, -1]),
        roster(settings=["x", True, 1, False, None, True, "usage", None, 1, 1, 1, 8, 1, 1 << 63]),
        roster(settings=["x", True, 1, False, None, True, "usage", None, 1, 1, 1, 8, 1, 0, 0]),
        roster(members=[], keys=[]),
        roster(members=[""]),
        roster(members=["x" * 201]),
        roster(keys=[bytes(31)]),
        roster(certificates=[bytes(8193)]),
        roster(epoch=1 << 16),
        [*roster(), [b""]],  # signatures, as of the protocol before
        ["RosterUpdate", 1 << 16, []],
        ["RosterUpdate", 1, [[4096, bytes(32), b""]]],
        ["RosterUpdate", 1, [[-1, bytes(32), b""]]],
        ["RosterUpdate", 1, [[0, bytes(31), b""]]],
        ["RosterUpdate", 1, [[0, bytes(32)]]],
        ["RosterUpdate", 1, [[0, bytes(32), bytes(8193)]]],
        ["RosterUpdate", 1, [[0, bytes(32), b""]] * 4097],
        ["Confirmed", 0, [bytes(1025)]],
        ["Confirmed", 0, [b""] * 4097],
        ["Confirmed", 1 << 16, []],
        ["Confirmed", 0],
    ],
)
def test_messages_of_a_server_out_of_their_bounds_are_refused(value):
    with pytest.raises(FrameError, match="holds no message we know"):
        from_server(packed(value))


# -- size ------------------------------------------------------------------------------------------------------------


def memory_of(act):
    """The peak of allocated bytes."""
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def bomb(size):
    packer = zlib.compressobj(1)
    parts = [packer.compress(bytes(1 << 22)) for _ in range(size >> 22)]
    return b"".join([*parts, packer.flush()])


@pytest.mark.parametrize("read", READERS)
def test_what_would_unpack_to_more_than_allowed_is_not_unpacked(read):
    data = bomb(3 * MAX_PLAIN)
    assert len(data) < MAX_FRAME / 30

    def refused():
        with pytest.raises(FrameError, match="larger than allowed"):
            read(data)

    assert memory_of(refused) < 2.5 * MAX_PLAIN


@pytest.mark.parametrize(
    "head",
    [
        b"\xdd\xff\xff\xff\xff",  # a list of 4 G values
        b"\xdf\xff\xff\xff\xff",  # a dictionary
        b"\xc6\xff\xff\xff\xff",  # bytes
        b"\xdb\xff\xff\xff\xff",  # a text
        b"\xc9\xff\xff\xff\xff\x01",  # an extension
        b"\x95\xa6Masked\x00\x00\x93\x00\x40\xc6\xff\xff\xff\xff",
        b"\x92\xa3Ask\x00\x00\xdd\xff\xff\xff\xff",
        b"\x95\xa3Ask\x00\x00\xdd\x00\x00\x0f\xff",
        b"\x98\xa4Join\x01\xa10\xc4\x20" + bytes(32) + b"\xc4\x00\xc4\x00\x00\xdd\xff\xff\xff\xff",
    ],
)
@pytest.mark.parametrize("read", READERS)
def test_nothing_is_allocated_that_is_only_claimed(head, read):
    def refused():
        with pytest.raises(FrameError):
            read(zlib.compress(head))

    assert memory_of(refused) < 1 << 20


@pytest.mark.parametrize("depth", [100, 10_000, 1_000_000])
@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa1x", b"\x92\xa3Ask"])
@pytest.mark.parametrize("read", READERS)
def test_lists_in_lists_are_no_way_to_the_end_of_the_stack(depth, opening, read):
    with pytest.raises(FrameError):
        read(zlib.compress(opening * depth + b"\xc0"))


# -- vectors ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, MAX_COUNT), max_size=30))
def test_a_vector_gives_back_what_was_put_in(numbers):
    vector = m.Vector.of(np.array(numbers, np.int64))
    assert vector.values().tolist() == numbers
    assert vector.bits == min(w for w in (8, 16, 32, 64) if max(numbers, default=0) >> w == 0)


@given(st.integers(0, 1 << 26), st.integers(1, 64), st.binary(max_size=64), st.integers(0, 1 << 53))
@settings(max_examples=500)
def test_a_vector_that_is_not_what_it_says_is_refused(length, bits, data, most):
    vector = m.Vector(length, bits, data)
    try:
        numbers = vector.values(most)
    except ProtocolError:
        return
    assert len(numbers) == length
    assert all(0 <= number <= most for number in numbers.tolist())


@pytest.mark.parametrize(
    ("vector", "told"),
    [
        (m.Vector(2, 8, b"x"), "announces 2 numbers of 8 bits, but has 1 bytes"),
        (m.Vector(1, 8, b"xx"), "announces 1 numbers of 8 bits, but has 2 bytes"),
        (m.Vector(8, 1, b"x"), "announces 8 numbers of 1 bits, but has 1 bytes"),
        (m.Vector(1, 64, b"\xff" * 8), "holds the number 18446744073709551615; at most 9007199254740992"),
    ],
)
def test_vectors_that_are_refused_say_why(vector, told):
    with pytest.raises(ProtocolError, match=told):
        vector.values()


def test_a_message_may_unpack_to_what_its_sender_may_say_and_no_further():
    """A frame could hold 128 MB of zeros."""
    message = m.Masked(0, 0, m.Vector(1 << 14, 64, bytes(1 << 17)))
    plain = framing.to_bytes(message).plain - framing.PREFIX_BYTES
    data = zlib.compress(msgspec.msgpack.encode(message), 9)
    assert framing.from_member(data, plain) == message
    with pytest.raises(FrameError, match="larger than allowed"):
        framing.from_member(data, plain - 1)
