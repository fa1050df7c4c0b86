"""Fields of different widths, against an obvious twin in whole numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fedslim.errors import RingError
from fedslim.secagg import kernels
from fedslim.secagg.ring import MAX_BITS, Fields

fields = st.lists(st.integers(1, MAX_BITS).flatmap(lambda w: st.tuples(st.just(w), st.integers(0, (1 << w) - 1))))


def placed(widths):
    """The twin: the word and first bit of each field."""
    places, word, end = [], 0, 0
    for width in widths:
        if end + width > 64:
            word, end = word + 1, 0
        places.append((word, end))
        end += width
    return places


@given(fields, st.integers(1, 4))
def test_fields_are_where_the_twin_puts_them_and_sums_are_read_back(chosen, members):
    widths = [width for width, _ in chosen]
    places = placed(widths)
    layout = Fields(np.array(widths, np.uint8))
    assert layout.words == (places[-1][0] + 1 if places else 0)
    # Each member has a share of the sum, so that no field overflows.
    shares = [[total // members + (k < total % members) for _, total in chosen] for k in range(members)]
    summed = np.zeros(layout.words, np.uint64)
    for share in shares:
        words = np.zeros(layout.words, np.uint64)
        layout.put(words[None], np.array([share], np.int64))
        expected = [0] * layout.words
        for (word, first), count in zip(places, share, strict=True):
            expected[word] |= count << first
        assert words.tolist() == expected
        summed += words
    assert layout.read(summed).tolist() == [total for _, total in chosen]


@given(st.integers(1, MAX_BITS - 1), st.integers(0, 1 << 60))
def test_a_count_that_does_not_fit_wraps_around(width, count):
    layout = Fields(np.array([width, 8], np.uint8))
    words = np.zeros(layout.words, np.uint64)
    layout.put(words[None], np.array([[count, 5]], np.int64))
    assert layout.read(words).tolist() == [count % (1 << width), 5]


@pytest.mark.parametrize("width", [0, MAX_BITS + 1, 255])
def test_a_field_has_a_width_that_is_possible(width):
    with pytest.raises(RingError, match="1 to 56 bits"):
        Fields(np.array([8, width], np.uint8))


# -- numbers as bytes -------------------------------------------------------------------------------------------------


def as_bytes(number):
    """The twin: seven bits in each byte, the lowest first."""
    return bytes([number]) if number < 128 else bytes([128 + number % 128]) + as_bytes(number // 128)


@given(st.lists(st.integers(0, (1 << 28) - 1) | st.integers(0, 200)))
def test_numbers_are_written_as_bytes_and_read_again(numbers):
    data, steps = np.empty(4 * len(numbers), np.uint8), np.empty(4 * len(numbers), np.int64)
    n = kernels.write_steps(np.array(numbers, np.int64), data)
    assert data[:n].tobytes() == b"".join(map(as_bytes, numbers))
    n = kernels.read_steps(np.frombuffer(data[:n].tobytes(), np.uint8), 4, steps)
    assert steps[:n].tolist() == numbers


@given(st.binary(max_size=12) | st.lists(st.sampled_from([0, 1, 127, 128, 255]), max_size=12).map(bytes))
def test_bytes_that_are_no_numbers_are_told(data):
    groups, own = [], []
    for byte in data:
        own.append(byte % 128)
        if byte < 128:
            groups.append(own)
            own = []
    steps = np.empty(len(data), np.int64)
    n = kernels.read_steps(np.frombuffer(data, np.uint8), 4, steps)
    if own or any(len(group) > 4 for group in groups):
        assert n == -1
    else:
        assert steps[:n].tolist() == [sum(part << 7 * k for k, part in enumerate(group)) for group in groups]
