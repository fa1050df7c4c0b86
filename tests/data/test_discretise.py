from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fedslim.data.discretise import equal_frequency, number_label
from fedslim.data.parsing import check_whole
from fedslim.errors import ParameterError

finite = st.floats(allow_nan=False, allow_infinity=False, width=32)


def cut(values, bins):
    distinct, counts = np.unique(values, return_counts=True)
    intervals = equal_frequency(distinct, counts, bins)
    labels = list(intervals.labels)
    return distinct, counts, np.array([labels.index(intervals.label(value)) for value in distinct.tolist()]), labels


def bounds(label):
    """The bounds that an interval's label names."""
    if label[0] in "<≥":
        return (-np.inf, float(label[1:])) if label[0] == "<" else (float(label[1:]), np.inf)
    low, comma, high = label.strip("[)").partition(", ")
    return float(low), float(high) if comma else np.nextafter(float(low), np.inf)


@given(st.sets(finite, min_size=3, max_size=60), st.integers(2, 10), st.randoms(use_true_random=False))
def test_every_interval_has_a_value_and_a_label_of_its_own_that_holds_it(distinct, bins, random):
    bins = min(bins, len(distinct) - 1)
    column = [value for value in sorted(distinct) for _ in range(random.choice([1, 1, 2, 50]))]

    values, _, interval, labels = cut(np.array(column), bins)

    assert len(set(labels)) == len(labels) == bins
    assert np.all(np.diff(interval) >= 0)
    assert set(interval.tolist()) == set(range(bins))
    for value, place in zip(values, interval, strict=True):
        low, high = bounds(labels[place])
        assert low <= value < high or (low == value and place == bins - 1)


def test_values_without_ties_are_shared_out_evenly():
    *_, interval, labels = cut(np.arange(100), 4)
    assert np.bincount(interval).tolist() == [25, 25, 25, 25]
    assert labels == ["<25", "[25, 50)", "[50, 75)", "≥75"]


def test_a_heavy_value_fills_one_interval_and_costs_no_other():
    _, counts, interval, labels = cut(np.array([0] * 900 + list(range(1, 101))), 5)
    assert labels == ["<1", "[1, 26)", "[26, 51)", "[51, 76)", "≥76"]
    assert np.bincount(interval, counts).tolist() == [900, 25, 25, 25, 25]


def test_bounds_of_fractions_are_written_with_the_digits_that_matter():
    *_, labels = cut(np.array([0.1, 0.2, 0.1 + 0.2, 0.4123456789, 0.5, 0.6]), 3)
    assert labels == ["<0.3", "[0.3, 0.5)", "≥0.5"]


def test_infinite_values_have_a_place():
    *_, labels = cut(np.array([-np.inf, 1.0, 2.0, np.inf]), 2)
    assert labels == ["<2", "≥2"]


@pytest.mark.parametrize(
    ("value", "label"),
    [(3, "3"), (3.0, "3"), (np.float64(2.5), "2.5"), (np.uint64(2**64 - 1), str(2**64 - 1)), (1e300, "1e+300")],
)
def test_numbers_are_written_as_people_do(value, label):
    assert number_label(value) == label


@pytest.mark.parametrize("bins", [1, 0, -3, 2.5, "ten", True])
def test_bins_that_make_no_sense_are_refused(bins):
    with pytest.raises(ParameterError, match=r"bins is .*; give a whole number of at least 2"):
        check_whole("bins", bins, 2)
