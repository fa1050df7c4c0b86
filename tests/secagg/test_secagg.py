from __future__ import annotations

import math
import random
from hashlib import sha256
from itertools import combinations

import numpy as np
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from hypothesis import given, settings, strategies as st

from fedslim.errors import KeyAgreementError, MaskReuseError, RingError
from fedslim.secagg import aes
from fedslim.secagg.keys import AgreementKey, PairSecret
from fedslim.secagg.masking import Masker, MaskLabel, counters, place as place_of
from fedslim.secagg.ring import MAX_BITS, NARROW, Ring, Sketch, put_rows, words_of_rows

RUN = b"run 1"


def federation(n, seed=0, run=RUN, purpose="test"):
    rng = random.Random(seed)
    names = [f"member-{k}" for k in range(n)]
    keys = {name: AgreementKey.from_random(rng.randbytes(32)) for name in names}
    return {
        own: Masker(
            own,
            {peer: keys[own].agree(own, peer, keys[peer].public, run=run) for peer in names if peer != own},
            purpose=purpose,
        )
        for own in names
    }


def added(masked):
    return np.sum([np.frombuffer(data, "<u8") for data in masked], axis=0, dtype=np.uint64)


# -- the ring -----------------------------------------------------------------------------------------------------


def packed(ring, values):
    values = np.asarray(values, np.int64)
    words = np.zeros(ring.words(len(values)), np.uint64)
    ring.put(words, np.arange(len(values), dtype=np.int32), values, length=len(values))
    return words


@given(st.integers(0, 2**54))
def test_the_ring_for_a_bound_is_the_smallest_that_holds_it(bound):
    ring = Ring.for_sums_up_to(bound)
    assert bound < 1 << ring.bits
    assert ring.bits == 1 or bound >= 1 << (ring.bits - 1)


@given(st.data())
def test_sums_of_packed_vectors_are_packed_sums(data):
    """Compare both kernels with a twin: the counts are the digits of a word in base 2^k."""
    bound = data.draw(st.integers(0, 2**40))
    ring = Ring.for_sums_up_to(bound)
    length = data.draw(st.integers(0, 30))
    first = data.draw(st.lists(st.integers(0, bound), min_size=length, max_size=length))
    second = [data.draw(st.integers(0, bound - value)) for value in first]
    words = packed(ring, first) + packed(ring, second)
    sums = [a + b for a, b in zip(first, second, strict=True)]
    per_word = 64 // ring.bits
    groups = [sums[k : k + per_word] for k in range(0, length, per_word)]
    assert words.tolist() == [sum(c << (ring.bits * k) for k, c in enumerate(group)) for group in groups]
    assert ring.read(words, length=length).tolist() == sums


@given(st.data())
def test_a_count_that_does_not_fit_wraps_around_in_its_own_bits(data):
    """No error is raised and no other count changes; the sum is read modulo 2^bits."""
    bits = data.draw(st.integers(1, MAX_BITS))
    ring = Ring(bits, (1 << bits) - 1)
    counts = data.draw(st.lists(st.integers(-(2**62), 2**62), max_size=12))
    others = data.draw(st.lists(st.integers(0, ring.bound), min_size=len(counts), max_size=len(counts)))
    wrapped = [count % (1 << bits) for count in counts]
    assert packed(ring, counts).tolist() == packed(ring, wrapped).tolist()
    assert ring.read(packed(ring, counts), length=len(counts)).tolist() == wrapped
    # Together with another member's, as long as the sums fit.
    rest = [min(other, ring.bound - own) for other, own in zip(others, wrapped, strict=True)]
    together = [own + other for own, other in zip(wrapped, rest, strict=True)]
    assert ring.read(packed(ring, counts) + packed(ring, rest), length=len(counts)).tolist() == together


@pytest.mark.parametrize(("value", "read"), [(-1, 127), (101, 101), (127, 127), (2**40 + 120, 120)])
def test_a_value_beyond_the_bound_is_put_in_and_noticed_when_the_sum_is_read(value, read):
    """The reader raises the error, because a member that refuses to answer would reveal that its count is large."""
    ring = Ring.for_sums_up_to(100)
    words = packed(ring, [5, value])
    assert Ring(7, 127).read(words, length=2).tolist() == [5, read]
    with pytest.raises(RingError, match="a sum exceeds its bound of 100"):
        ring.read(words, length=2)


@given(st.data())
def test_rows_are_vectors_after_each_other_and_wrap_around_each_in_its_own_bits(data):
    """Compare the kernel for several rows with one call per row."""
    length = data.draw(st.integers(1, 20))
    widths = data.draw(st.lists(st.integers(1, MAX_BITS), min_size=1, max_size=5))
    entries = st.dictionaries(st.integers(0, length - 1), st.integers(0, 2**62), max_size=6)
    rows = [data.draw(entries) for _ in widths]
    words = np.zeros(words_of_rows(widths, length), np.uint64)
    places = np.array([place for row in rows for place in row], np.int32)
    counts = np.array([count for row in rows for count in row.values()], np.int64)
    ends = np.cumsum([len(row) for row in rows])
    put_rows(words[None], np.array(widths, np.uint8), ends, places, counts, length=length)
    alone = [
        packed(Ring(bits, 0), [row.get(k, 0) for k in range(length)]) for bits, row in zip(widths, rows, strict=True)
    ]
    assert words.tolist() == np.concatenate(alone).tolist()


@pytest.mark.parametrize("place", [-1, 3, 2**30])
def test_a_place_outside_the_vector_is_refused(place):
    ring = Ring.for_sums_up_to(100)
    one = np.array([place], np.int32), np.array([1])
    with pytest.raises(RingError, match=f"place {place} is out of range"):
        ring.put(np.zeros(1, np.uint64), *one, length=3)
    with pytest.raises(RingError, match=f"place {place} is out of range"):
        put_rows(np.zeros((1, 1), np.uint64), np.array([ring.bits], np.uint8), np.array([1]), *one, length=3)


@pytest.mark.parametrize("words", [[101], [1 << 63], [5 | 1 << 14], [0, 0]])
def test_a_sum_beyond_the_bound_is_refused(words):
    """In the bits of a count, in unused bits, after the last place, or in an extra word."""
    with pytest.raises(RingError, match=r"a sum exceeds its bound|take 1 words"):
        Ring.for_sums_up_to(100).read(np.array(words, np.uint64), length=2)


def test_a_ring_too_small_for_its_bound_cannot_be_made():
    for ring in ((8, 256), (0, 0), (57, 1), (7, -1)):
        with pytest.raises(RingError):
            Ring(*ring)
    with pytest.raises(RingError, match="cannot be negative"):
        Ring.for_sums_up_to(-1)
    with pytest.raises(RingError, match="1 to 56 bits"):
        Ring.for_sums_up_to(2**60)


# -- sparse sums --------------------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(st.data())
def test_a_sketch_gives_back_the_sum_or_nothing(data):
    """Entries of members share some places and not others; the twin is a dictionary."""
    universe = data.draw(st.sampled_from([1, 5, 60, 20_000, 2**24]))
    seed = data.draw(st.integers(0, 2**32))
    wide = data.draw(st.booleans())
    sketch = Sketch.for_entries(data.draw(st.integers(0, 12)), universe, seed=seed, wide=wide)
    count = st.integers(0, 2**20 if wide else NARROW // 4) | st.sampled_from([2**k for k in range(17)])
    entries = st.dictionaries(st.integers(0, universe - 1), count, max_size=12)
    members = data.draw(st.lists(entries, min_size=1, max_size=4))
    words = np.zeros(sketch.words, np.uint64)
    twin: dict[int, int] = {}
    for own in members:
        sketch.put(words, np.array(list(own), np.int32), np.array(list(own.values()), np.int64))
        for place, count in own.items():
            twin[place] = twin.get(place, 0) + count
    found = sketch.read(words)
    if found is not None:
        assert dict(zip(*(part.tolist() for part in found), strict=True)) == {k: v for k, v in twin.items() if v}


def sparse(most):
    return st.dictionaries(st.integers(0, 999), st.integers(0, most), max_size=30)


@given(st.data(), st.booleans())
def test_the_difference_of_two_sketches_is_the_sketch_of_what_was_not_expected(data, wide):
    counts, expected = (data.draw(sparse(1 << 39 if wide else NARROW)) for _ in range(2))
    off = {place: counts.get(place, 0) - expected.get(place, 0) for place in counts.keys() | expected.keys()}
    off = {place: count for place, count in off.items() if count}
    sketch = Sketch.for_entries(2 * len(off) + 8, 1000, seed=3, wide=wide)
    both = np.zeros((2, sketch.words), np.uint64)
    for words, own in zip(both, (counts, expected), strict=True):
        sketch.put(words, np.array(list(own), np.int32), np.array(list(own.values()), np.int64))
    found = sketch.read(both[0] - both[1])
    assert found is None or dict(zip(*[column.tolist() for column in found], strict=True)) == off
    assert off or found is not None


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("entries", [0, 1, 3, 8, 20, 100, 1000])
def test_a_sketch_nearly_always_holds_what_it_is_made_for(entries, wide):
    rng = np.random.default_rng(entries)
    lost = 0
    for seed in range(200):
        sketch = Sketch.for_entries(entries, 50_000, seed=seed, wide=wide)
        words = np.zeros(sketch.words, np.uint64)
        places = np.sort(rng.choice(50_000, entries, replace=False)).astype(np.int32)
        counts = rng.integers(1, 1 << 39 if wide else NARROW, entries)
        sketch.put(words, places, counts)
        found = sketch.read(words)
        if found is None:
            lost += 1
            continue
        assert found[0].tolist() == places.tolist()
        assert found[1].tolist() == counts.tolist()
    assert lost <= 30


@pytest.mark.parametrize("wide", [False, True])
def test_every_count_can_be_read_from_a_cell_of_its_own(wide):
    """A multiple of a power of two leaves fewer bits to recognise it by."""
    sketch = Sketch(1, 2**24, 5, wide)
    most = 2**40 - 1 if wide else NARROW
    for count in [most, *[c for k in range(40) for c in (2**k, 3 * 2**k) if c <= most]]:
        words = np.zeros(sketch.words, np.uint64)
        sketch.put(words, np.array([2**24 - 1], np.int32), np.array([count]))
        for sign in (1, -1):
            places, counts = sketch.read(words if sign > 0 else np.uint64(0) - words)
            assert (places.tolist(), counts.tolist()) == ([2**24 - 1], [sign * count])


def test_too_many_entries_and_noise_are_noticed():
    rng = np.random.default_rng(1)
    sketch = Sketch.for_entries(5, 10_000)
    words = np.zeros(sketch.words, np.uint64)
    sketch.put(words, np.arange(500, dtype=np.int32), np.ones(500, np.int64))
    assert sketch.read(words) is None
    for _ in range(2000):
        assert sketch.read(rng.integers(0, 2**64, sketch.words, np.uint64)) is None


def test_what_does_not_fit_a_sketch_is_refused():
    sketch = Sketch.for_entries(5, 100)
    words = np.zeros(sketch.words, np.uint64)
    for place, count in ((-1, 1), (100, 1), (5, -1)):
        with pytest.raises(RingError, match="places below 100"):
            sketch.put(words, np.array([place], np.int32), np.array([count]))
    with pytest.raises(RingError, match="words, not 3"):
        sketch.read(np.zeros(3, np.uint64))
    for wrong in ((0, 5), (5, 0), (5, 2**25), (2**25, 5)):
        with pytest.raises(RingError):
            Sketch(*wrong)


def test_a_place_beyond_the_universe_is_not_read():
    """A member can insert one with a sketch of a larger universe; the reader would access memory out of bounds."""
    ours, theirs = Sketch(8, 100, 7), Sketch(8, 1000, 7)
    for place in (100, 101, 999):
        words = np.zeros(ours.words, np.uint64)
        theirs.put(words, np.array([place], np.int32), np.array([3]))
        assert theirs.read(words) is not None
        assert ours.read(words) is None


# -- agreement ----------------------------------------------------------------------------------------------------


def test_both_sides_agree_and_everything_else_makes_another_secret():
    a, b, c = (AgreementKey.from_random(bytes([k]) * 32) for k in (1, 2, 3))
    secret = a.agree("a", "b", b.public, run=RUN)
    assert secret == b.agree("b", "a", a.public, run=RUN)
    assert secret != a.agree("a", "b", b.public, run=b"run 2")
    assert secret != a.agree("a", "b2", b.public, run=RUN)
    assert secret != a.agree("a", "b", c.public, run=RUN)


def test_names_cannot_be_shifted_into_each_other():
    a, b = (AgreementKey.from_random(bytes([k]) * 32) for k in (1, 2))
    assert a.agree("ab", "c", b.public, run=RUN) != a.agree("a", "bc", b.public, run=RUN)


def test_nor_into_a_key_that_looks_like_a_name():
    """Keys are encoded between the names, and an attacker can choose any bytes for a key."""
    own, theirs = AgreementKey.from_random(bytes(range(32))), b"a" * 32
    assert own.agree("ab", "0", theirs, run=b"run") != own.agree("b", "0a", theirs, run=b"run")


@pytest.mark.parametrize("key", [b"", b"short", bytes(32), (1).to_bytes(32, "little"), bytes(33)])
def test_weak_and_malformed_keys_are_refused(key):
    with pytest.raises(KeyAgreementError, match="'b' is not a usable X25519 public key"):
        AgreementKey.from_random(b"x" * 32).agree("a", "b", key, run=RUN)


def test_nobody_agrees_with_itself():
    a = AgreementKey.from_random(b"x" * 32)
    for peer, public in (("a", AgreementKey.from_random(b"y" * 32).public), ("b", a.public)):
        with pytest.raises(KeyAgreementError, match="with itself"):
            a.agree("a", peer, public, run=RUN)
    with pytest.raises(KeyAgreementError, match="with itself"):
        Masker("a", {"a": PairSecret(bytes(32))}, purpose="test")


def test_too_little_entropy_is_refused():
    with pytest.raises(KeyAgreementError, match="32 random bytes, not 16"):
        AgreementKey.from_random(bytes(16))


def test_a_secret_does_not_show_itself():
    assert "abc" not in repr(PairSecret(b"abc"))


def test_public_keys_follow_the_published_vector():
    """RFC 7748, section 6.1: Bob's keys."""
    private = "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"
    public = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
    assert AgreementKey.from_random(bytes.fromhex(private)).public.hex() == public


# -- masking and summing --------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.integers(0, 40), st.data())
def test_the_sum_of_masked_vectors_is_the_sum_of_the_vectors(n, length, data):
    bound = data.draw(st.sampled_from([7, 300, 70_000, 2**30]))
    ring = Ring.for_sums_up_to(bound)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    vectors = rng.integers(0, bound // n + 1, (n, length))
    maskers = federation(n)
    label = MaskLabel(data.draw(st.integers(0, 40)), data.draw(st.integers(0, 2)))
    masked = [m.mask(packed(ring, v), label, about=b"") for v, m in zip(vectors, maskers.values(), strict=True)]
    assert ring.read(added(masked), length=length).tolist() == vectors.sum(axis=0).tolist()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 1500), st.binary(max_size=9)), max_size=20)
)
def test_a_mask_is_the_key_stream_that_label_and_question_name(steps):
    """Compare with the library's AES-CTR, label by label."""
    a, b = (AgreementKey.from_random(bytes([k]) * 32) for k in (1, 2))
    secret = a.agree("a", "b", b.public, run=RUN)
    key = HKDFExpand(hashes.SHA256(), 16, b"fedslim secure aggregation v1: masks for test").derive(secret.key)
    masker = Masker("a", {"b": secret}, purpose="test")
    number = 0
    for ahead, attempt, length, about in steps:
        number += ahead + 1
        named = number.to_bytes(6, "big") + attempt.to_bytes(2, "big")
        counter = sha256(named + about).digest()[:12] + bytes(4)
        stream = Cipher(algorithms.AES128(key), modes.CTR(counter)).encryptor().update(bytes(8 * length))
        assert masker.mask(np.zeros(length, np.uint64), MaskLabel(number, attempt), about=about) == stream


KEYS = st.lists(st.binary(min_size=16, max_size=16), max_size=5)

with_aes = pytest.mark.skipif(not aes.AT_ONCE, reason="kernels cannot use AES instructions here")


@pytest.mark.parametrize("streams", [aes.LibraryStreams, pytest.param(aes.HardwareStreams, marks=with_aes)])
@settings(deadline=None)
@given(KEYS, KEYS, st.binary(min_size=12, max_size=12), st.integers(0, 5), st.integers(0, 2**64 - 1))
def test_many_key_streams_at_once_are_those_of_the_library_one_by_one(streams, added, subtracted, start, steps, word):
    """The library's AES-CTR is the twin of the kernels for round keys and streams."""
    length = steps * aes.WORDS_IN_STEP
    total = np.full(length, word, np.uint64)
    streams(added, subtracted).apply(total, counters(start, steps * aes.BLOCKS_IN_STEP))
    expected = [word] * length
    for sign, keys in ((1, added), (-1, subtracted)):
        for key in keys:
            stream = Cipher(algorithms.AES128(key), modes.CTR(start + bytes(4))).encryptor().update(bytes(8 * length))
            words = np.frombuffer(stream, "<u8").tolist()
            expected = [(e + sign * w) % 2**64 for e, w in zip(expected, words, strict=True)]
    assert total.tolist() == expected


@with_aes
def test_a_processor_with_wrong_instructions_masks_nothing(monkeypatch):
    monkeypatch.setattr(aes, "apply_streams", lambda *_: None)
    with pytest.raises(KeyAgreementError, match="nothing is sent"):
        aes.HardwareStreams([bytes(16)], [])


@pytest.mark.parametrize(
    ("machine", "features", "blocks"),
    [
        ("x86_64", "+aes,+avx2", 1),
        ("AMD64", "+aes,+avx2,+vaes", 2),
        ("x86_64", "+aes,+avx2,+avx512f,+vaes", 4),
        ("x86_64", "-aes,+avx512f,-vaes", 0),
        ("x86_64", "", 0),
        ("aarch64", "+aes", 0),
    ],
)
def test_kernels_use_the_instructions_that_they_may(monkeypatch, machine, features, blocks):
    monkeypatch.setattr(aes.numba.config, "CPU_FEATURES", features)
    monkeypatch.setattr(aes.platform, "machine", lambda: machine)
    assert aes.blocks_at_once() == blocks


def test_members_that_were_asked_different_things_give_noise():
    ring = Ring.for_sums_up_to(1000)
    maskers = federation(3)
    zeros = packed(ring, [0] * 50)
    asked = {name: b"another" if name == "member-1" else b"the same" for name in maskers}
    total = added([masker.mask(zeros, MaskLabel(1), about=asked[name]) for name, masker in maskers.items()])
    with pytest.raises(RingError, match="masks do not cancel"):
        ring.read(total, length=50)


def test_a_masked_vector_looks_uniform():
    """χ² over byte values of a million masked zeros, for each of three rounds; one in a million would fail."""
    masker = federation(3)["member-0"]
    for number in range(3):
        data = masker.mask(np.zeros(125_000, np.uint64), MaskLabel(number), about=b"")
        counts = np.bincount(np.frombuffer(data, np.uint8), minlength=256)
        expected = len(data) / 256
        chi2 = float(((counts - expected) ** 2 / expected).sum())
        assert abs(chi2 - 255) < 5 * math.sqrt(2 * 255)


def test_masks_of_different_labels_pairs_runs_and_purposes_are_different():
    zeros = np.zeros(64, np.uint64)
    labels = [MaskLabel(0), MaskLabel(0, 1), MaskLabel(0, 2), MaskLabel(1), MaskLabel(2**40)]
    seen = [m.mask(zeros, label, about=b"") for m in federation(3).values() for label in labels]
    seen += [m.mask(zeros, MaskLabel(0), about=b"") for m in federation(3, run=b"run 2").values()]
    seen += [m.mask(zeros, MaskLabel(0), about=b"") for m in federation(3, purpose="other").values()]
    assert all(a != b for a, b in combinations(seen, 2))


@pytest.mark.parametrize("again", [MaskLabel(5, 1), MaskLabel(5), MaskLabel(4, 9), MaskLabel(0)])
def test_a_mask_cannot_be_used_twice(again):
    masker = federation(2)["member-0"]
    masker.mask(np.ones(1, np.uint64), MaskLabel(5, attempt=1), about=b"")
    with pytest.raises(MaskReuseError, match="must not be used twice"):
        masker.mask(np.ones(1, np.uint64), again, about=b"")


def test_a_round_can_be_repeated_as_another_attempt():
    masker = federation(2)["member-0"]
    first, again = (masker.mask(np.ones(3, np.uint64), MaskLabel(5, attempt), about=b"") for attempt in (0, 1))
    assert first != again


def test_stretches_of_key_stream_never_overlap():
    """A key stream starts at a hash of label and question, so different ones differ before the block number."""
    labels = [MaskLabel(r, a) for r in (0, 1, 2**47) for a in (0, 1, 2**16 - 1)]
    starts = [place_of(label, about) for label in labels for about in (b"", b"x")]
    assert len(set(starts)) == 2 * len(labels)
    several = counters(bytes(range(12)), 3)
    assert [several[k : k + 16] for k in range(0, 48, 16)] == [
        bytes(range(12)) + block.to_bytes(4, "big") for block in (0, 1, 2)
    ]


@pytest.mark.parametrize("label", [(-1, 0), (2**48, 0), (0, -1), (0, 2**16)])
def test_labels_that_would_wrap_around_are_refused(label):
    with pytest.raises(MaskReuseError, match="out of range"):
        MaskLabel(*label)


def test_an_answer_to_another_round_does_not_go_unnoticed():
    """Masks that do not cancel leave noise, which almost certainly exceeds the bound."""
    ring = Ring.for_sums_up_to(1000)
    maskers = federation(2)
    zeros = packed(ring, [0] * 50)
    total = added([masker.mask(zeros, MaskLabel(k), about=b"") for k, masker in enumerate(maskers.values())])
    with pytest.raises(RingError, match="masks do not cancel"):
        ring.read(total, length=50)
