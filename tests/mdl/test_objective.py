from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from twin import estimated_gain

from fedslim.data import load
from fedslim.mdl.kernels.ranking import log2_count
from fedslim.mdl.objective import (
    code_length,
    description_length,
    log2,
    log2_table,
    standard_length,
    standard_lengths,
)

ST_BITS = {
    "ionosphere": 81_629.718,
    "chess": 687_119.829,
    "mushroom": 1_111_287.361,
    "pendigits": 1_140_795.143,
    "letter": 1_980_243.908,
    "adult": 3_569_723.715,
    "connect": 17_774_813.593,
}


@pytest.mark.parametrize(("name", "bits"), ST_BITS.items())
def test_standard_code_table_has_the_known_length(public_data, name, bits):
    db = load(name, folder=public_data)
    lengths = standard_lengths(db.supports)
    assert description_length(db.supports.tolist(), lengths).data == pytest.approx(bits, abs=0.001)


@given(st.integers(1, 2**40))
def test_log2_is_within_the_last_bits_of_the_true_one(count):
    assert log2(count) == pytest.approx(math.log2(count), rel=4e-16, abs=4e-16)


def test_log2_of_a_power_of_two_is_exact():
    assert [log2(2**k) for k in range(60)] == list(range(60))


def test_the_table_the_function_and_the_kernel_agree_to_the_last_bit():
    table = log2_table(70_000)
    counts = range(70_001)
    assert table.tolist() == [log2(count) for count in counts]
    assert table.tolist() == [log2_count.py_func(count) for count in counts]


def test_log2_of_nothing_is_nothing_by_convention():
    assert log2(0) == 0.0
    assert log2_table(0).tolist() == [0.0]


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=40), st.randoms())
def test_a_description_length_does_not_depend_on_the_order_of_the_table(usages, rng):
    standard = [float(rng.randint(0, 10**6)) / 977 for _ in usages]
    shuffled = list(range(len(usages)))
    rng.shuffle(shuffled)
    bits = description_length(usages, standard)
    assert bits == description_length([usages[k] for k in shuffled], [standard[k] for k in shuffled])


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=40))
def test_the_data_cost_their_usages_times_their_code_lengths(usages):
    """The two forms of the sum round differently, by the last bits of U·log2 U."""
    total = sum(usages)
    bits = description_length(usages, [0.0] * len(usages))
    last_bits = 2.0**-46 * total * log2(total) + 1e-12
    assert bits.data == pytest.approx(sum(u * code_length(u, total) for u in usages), rel=0, abs=last_bits)
    assert bits.model == pytest.approx(sum(code_length(u, total) for u in usages), rel=1e-9, abs=1e-9)


@given(st.data())
def test_an_estimate_is_the_true_change_where_nothing_else_changes(data):
    """Take usages as they are, join two of them, and compare with the lengths before and after."""
    usages = data.draw(st.lists(st.integers(1, 500), min_size=2, max_size=12))
    c = data.draw(st.integers(1, min(usages[0], usages[1])))
    standard = [float(k + 3) for k in range(len(usages))]
    before = description_length(usages, standard).total
    after_usages = [usages[0] - c, usages[1] - c, *usages[2:], c]
    after = description_length(after_usages, [*standard, standard[0] + standard[1]]).total
    gain = estimated_gain(usages[0], usages[1], c, sum(usages), len(usages), standard[0], standard[1])
    assert gain == pytest.approx(before - after, abs=1e-7)


@given(
    st.integers(1, 1000),
    st.integers(1, 1000),
    st.data(),
    st.floats(0, 50),
    st.floats(0, 50),
    st.floats(0, 1),
)
def test_an_estimate_does_not_depend_on_which_parent_comes_first(x, y, data, st_x, st_y, charge):
    c = data.draw(st.integers(1, min(x, y)))
    one = estimated_gain(x, y, c, x + y + 10, 5, st_x, st_y, charge)
    assert one == estimated_gain(y, x, c, x + y + 10, 5, st_y, st_x, charge)


def test_items_that_never_occur_cost_nothing():
    assert standard_lengths([4, 0, 4]) == [1.0, 0.0, 1.0]
    assert standard_length((0, 2), [1.0, 0.0, 1.0]) == 2.0
    assert description_length([0, 0], [0.0, 0.0]).total == 0.0
    assert standard_lengths(np.zeros(2, np.int64)) == [0.0, 0.0]
