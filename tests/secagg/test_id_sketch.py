"""The union of ids from a sum of sketches."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fedslim.secagg.id_sketch import MAX_MEMBERS, IdSketch


@settings(max_examples=30)
@given(st.integers(0, 200), st.integers(1, 12), st.randoms(use_true_random=False))
def test_a_sum_of_sketches_has_the_union_and_how_many_have_each(ids, members, chance):
    every = [chance.randbytes(16) for _ in range(ids)]
    sketch, held = IdSketch.for_entries(max(ids, 1)), Counter()
    total = np.zeros(sketch.words, np.uint64)
    for _ in range(members):
        own = [one for one in every if chance.random() < 0.6]
        held.update(own)
        total += sketch.words_of(own)
    found = sketch.read(total)
    assert found is None or found == dict(held)  # it may be too small, but is never wrong
    larger = IdSketch.for_entries(4 * max(ids, 1) + 50)
    assert larger.read(
        sum((larger.words_of([one]) * np.uint64(n) for one, n in held.items()), larger.words_of([]))
    ) == (dict(sorted(held.items())))


@pytest.mark.parametrize("one", [bytes(16), b"\xff" * 16, bytes(range(16))])
def test_no_sum_over_the_most_members_overflows(one):
    sketch = IdSketch.for_entries(1)
    assert sketch.read(sketch.words_of([one]) * np.uint64(MAX_MEMBERS)) == {one: MAX_MEMBERS}


def test_too_many_ids_and_noise_are_not_read():
    chance = random.Random(3)
    sketch = IdSketch.for_entries(50)
    assert sketch.read(sketch.words_of([chance.randbytes(16) for _ in range(200)])) is None
    assert sketch.read(np.frombuffer(chance.randbytes(8 * sketch.words), np.uint64)) is None
