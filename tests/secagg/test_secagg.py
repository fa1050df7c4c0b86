from __future__ import annotations

import math
import random
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedslim.errors import KeyAgreementError, MaskReuseError, MembershipError, RingError
from fedslim.secagg import AgreementKey, MaskedSum, Masker, MaskLabel, PairSecret, Ring

RUN = b"run 1"


def federation(n, seed=0, run=RUN):
    rng = random.Random(seed)
    names = [f"site-{k}" for k in range(n)]
    keys = {name: AgreementKey.from_random(rng.randbytes(32)) for name in names}
    return {
        own: Masker(
            own, {peer: keys[own].agree(own, peer, keys[peer].public, run=run) for peer in names if peer != own}
        )
        for own in names
    }


# -- the ring -----------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**54), st.booleans())
def test_the_ring_for_a_bound_is_the_smallest_that_holds_it(bound, signed):
    ring = Ring.for_sums_up_to(bound, signed=signed)
    assert bound < ring.modulus >> signed
    assert ring.width == 1 or bound >= (1 << 8 * (ring.width - 1)) >> signed


@given(st.data())
def test_values_go_into_the_ring_and_come_back(data):
    bound = data.draw(st.integers(0, 2**40))
    signed = data.draw(st.booleans())
    ring = Ring.for_sums_up_to(bound, signed=signed)
    values = np.array(data.draw(st.lists(st.integers(-bound if signed else 0, bound), max_size=20)), np.int64)
    packed = ring.pack(ring.of(values))
    assert len(packed) == ring.width * len(values)
    assert ring.to_counts(ring.unpack(packed, len(values))).tolist() == values.tolist()


@pytest.mark.parametrize("value", [-1, 101, 2**40])
def test_a_value_beyond_the_bound_is_refused(value):
    with pytest.raises(RingError, match="not between 0 and 100"):
        Ring.for_sums_up_to(100).of(np.array([5, value]))


def test_a_sum_beyond_the_bound_is_refused():
    ring = Ring.for_sums_up_to(100)
    with pytest.raises(RingError, match="a sum left its bound"):
        ring.to_counts(np.array([101], np.uint32))
    with pytest.raises(RingError, match="a sum left its bound"):
        Ring.for_sums_up_to(100, signed=True).to_counts(np.array([140], np.uint32))


def test_a_ring_too_small_for_its_bound_cannot_be_made():
    for ring in ((1, 256), (1, 128, True), (0, 0), (8, 1)):
        with pytest.raises(RingError):
            Ring(*ring)
    with pytest.raises(RingError, match="cannot be negative"):
        Ring.for_sums_up_to(-1)
    with pytest.raises(RingError, match="1 to 7 bytes"):
        Ring.for_sums_up_to(2**60)


@given(st.binary(max_size=40), st.integers(0, 12))
def test_a_vector_of_another_length_is_refused(data, length):
    ring = Ring.for_sums_up_to(70_000)
    if len(data) == length * ring.width:
        assert ring.unpack(data, length).shape == (length,)
        return
    with pytest.raises(RingError, match="bytes, not"):
        ring.unpack(data, length)


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
        Masker("a", {"a": PairSecret(bytes(32))})


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


@settings(max_examples=60)
@given(st.integers(1, 6), st.integers(0, 40), st.data())
def test_the_sum_of_masked_vectors_is_the_sum_of_the_vectors(n, length, data):
    signed = data.draw(st.booleans())
    bound = data.draw(st.sampled_from([7, 300, 70_000, 2**30]))
    ring = Ring.for_sums_up_to(bound, signed=signed)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    each = bound // n
    vectors = rng.integers(-each if signed else 0, each + 1, (n, length))
    maskers = federation(n)
    total = MaskedSum(maskers, length=length, ring=ring)
    for values, (name, masker) in zip(vectors, maskers.items(), strict=True):
        total.add(name, masker.mask(values, ring, MaskLabel(3, 1)))
    assert total.counts().tolist() == vectors.sum(axis=0).tolist()


def test_a_masked_vector_looks_uniform():
    """χ² over byte values of a million masked zeros, for each of three rounds; one in a million would fail."""
    masker = federation(3)["site-0"]
    ring = Ring.for_sums_up_to(60_000)
    for number in range(3):
        data = masker.mask(np.zeros(500_000, np.int64), ring, MaskLabel(number))
        counts = np.bincount(np.frombuffer(data, np.uint8), minlength=256)
        expected = len(data) / 256
        chi2 = float(((counts - expected) ** 2 / expected).sum())
        assert abs(chi2 - 255) < 5 * math.sqrt(2 * 255)


def test_masks_of_different_labels_and_pairs_are_different():
    ring = Ring.for_sums_up_to(60_000)
    zeros = np.zeros(64, np.int64)
    labels = [MaskLabel(0), MaskLabel(0, 1), MaskLabel(0, 1, 1), MaskLabel(1), MaskLabel(2**40, 3)]
    seen = [m.mask(zeros, ring, label) for m in federation(3).values() for label in labels]
    seen += [m.mask(zeros, ring, MaskLabel(0)) for m in federation(3, run=b"run 2").values()]
    assert all(a != b for a, b in combinations(seen, 2))


@pytest.mark.parametrize("again", [MaskLabel(5, 1, 0), MaskLabel(5, 0, 0), MaskLabel(4, 9, 9), MaskLabel(0)])
def test_a_mask_cannot_be_used_twice(again):
    masker = federation(2)["site-0"]
    ring = Ring.for_sums_up_to(9)
    masker.mask(np.array([1]), ring, MaskLabel(5, 1))
    with pytest.raises(MaskReuseError, match="must not be used twice"):
        masker.mask(np.array([2]), ring, again)


def test_stretches_of_key_stream_never_overlap():
    """The counter block is the label and a block number: distinct labels differ before the block number begins."""
    labels = [MaskLabel(r, p, a) for r in (0, 1, 2**47) for p in (0, 1, 2**16 - 1) for a in (0, 1, 2**16 - 1)]
    starts = [label.start() for label in labels]
    assert len({start[:10] for start in starts}) == len(labels)
    assert all(start[10:] == bytes(6) for start in starts)


@pytest.mark.parametrize(
    "label", [{"round": -1}, {"round": 2**48}, {"round": 0, "part": 2**16}, {"round": 0, "attempt": -1}]
)
def test_labels_that_would_wrap_around_are_refused(label):
    with pytest.raises(MaskReuseError, match="must be between"):
        MaskLabel(**label)


def test_a_sum_takes_every_member_exactly_once():
    ring = Ring.for_sums_up_to(10)
    maskers = federation(3)
    data = {name: m.mask(np.array([1, 2]), ring, MaskLabel(0)) for name, m in maskers.items()}
    total = MaskedSum(maskers, length=2, ring=ring)
    total.add("site-0", data["site-0"])
    with pytest.raises(MembershipError, match="'site-0' has answered this round already"):
        total.add("site-0", data["site-0"])
    with pytest.raises(MembershipError, match="'mallory' is not a member"):
        total.add("mallory", data["site-1"])
    with pytest.raises(MembershipError, match="before 'site-1', 'site-2' answered"):
        total.counts()
    with pytest.raises(RingError):
        total.add("site-1", data["site-1"] + b"x")
    assert total.missing == {"site-1", "site-2"}
    total.add("site-1", data["site-1"])
    total.add("site-2", data["site-2"])
    assert total.counts().tolist() == [3, 6]
    with pytest.raises(MembershipError, match="at least one member"):
        MaskedSum([], length=1, ring=ring)


def test_an_answer_to_another_round_does_not_go_unnoticed():
    """Masks that do not cancel leave noise, which is all but surely beyond the bound."""
    ring = Ring.for_sums_up_to(1000)
    maskers = federation(2)
    total = MaskedSum(maskers, length=50, ring=ring)
    total.add("site-0", maskers["site-0"].mask(np.zeros(50, np.int64), ring, MaskLabel(1)))
    total.add("site-1", maskers["site-1"].mask(np.zeros(50, np.int64), ring, MaskLabel(2)))
    with pytest.raises(RingError, match="masks do not cancel"):
        total.counts()
