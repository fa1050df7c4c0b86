from __future__ import annotations

from fractions import Fraction
from math import comb

import pytest
from hypothesis import given, settings, strategies as st

from fedslim.errors import ParameterError
from fedslim.metrics import differences

SITES = (
    st.integers(1, 25)
    .flatmap(lambda n: st.tuples(st.just(n), st.integers(1, 40)))
    .flatmap(
        lambda sizes: st.tuples(
            st.just(sizes),
            st.lists(st.tuples(st.integers(0, sizes[0]), st.integers(0, sizes[1])), min_size=1, max_size=6),
        )
    )
)


def exact_p(a, n, b, m):
    """Fisher's two-sided p: the sum over all tables with these margins that are no more probable."""
    weights = [comb(n, k) * comb(m, a + b - k) for k in range(max(0, a + b - m), min(n, a + b) + 1)]
    mine = comb(n, a) * comb(m, b)
    return Fraction(sum(w for w in weights if w <= mine), sum(weights))


def corrected(p):
    """Benjamini and Hochberg: the smallest false discovery rate at which each would be called different."""
    return [min(1, *(len(p) * level / sum(other <= level for other in p) for level in p if level >= own)) for own in p]


@settings(max_examples=60)
@given(SITES)
def test_p_and_q_are_those_of_the_textbook(drawn):
    (n, m), counts = drawn
    found = differences([a for a, _ in counts], n, [b for _, b in counts], m)
    p = [exact_p(a, n, b, m) for a, b in counts]
    assert [each.p for each in found] == pytest.approx([float(x) for x in p], rel=1e-6)
    assert [each.q for each in found] == pytest.approx([float(x) for x in corrected(p)], rel=1e-6)
    assert [each.ratio for each in found] == [None if not b else pytest.approx(a * m / (b * n)) for a, b in counts]


def test_counts_that_were_rounded_down_do_not_make_a_difference():
    sure, within = differences([10, 10], 100, [300, 86], 1000, slack=19)
    assert sure.significant
    assert (within.p, within.ratio) == (1.0, 1.0)
    assert differences([10], 100, [86], 1000)[0].p < 1
    assert differences([0], 10, [0], 20, slack=4)[0].p == 1.0
    assert differences([], 10, [], 20) == []


@pytest.mark.parametrize("wrong", [([1], 2, [1, 2], 3), ([3], 2, [1], 3), ([1], 2, [-1], 3), ([1], 2, [4], 3)])
def test_impossible_counts_are_refused(wrong):
    with pytest.raises(ParameterError, match="support here and there"):
        differences(*wrong)
