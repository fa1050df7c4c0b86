from __future__ import annotations

from math import inf, log2

import numpy as np
from hypothesis import given, strategies as st

from fedslim.mdl.kernels.ranking import PairRows, drift


def rows_of(upper, dropped, most):
    """One row with these three values."""
    empty = np.zeros(1, np.int64)
    return PairRows(
        upper=np.array([upper]),
        exact=empty.copy(),
        partner=np.zeros(1, np.int32),
        together=empty.copy(),
        stamp=empty.copy(),
        known=np.ones(1, np.uint8),
        most=np.array([most]),
        dropped=np.array([dropped]),
        start=empty.copy(),
        length=empty.copy(),
        partners=np.zeros(1, np.int32),
        counts=np.zeros(1, np.int32),
    )


@given(st.data())
def test_no_gain_rises_more_than_the_bounds(data):
    """Check the part of the gain that depends on U and n, as in docs/explanation/decisions/ranking-bounds.md."""
    c = data.draw(st.integers(1, 40))
    growth = data.draw(st.integers(-1, 1))  # of n, if the pair entered: one element more, and up to two fewer
    small = st.integers(-3, 3)
    before, in_use_before = data.draw(st.integers(110, 400)), data.draw(st.integers(2, 60))
    after = before + data.draw(small | st.integers(-50, 50))
    in_use = max(2, in_use_before + data.draw(small))

    def part(total, n):
        left = total - c
        return total * log2(total) - left * log2(left) + n * log2(total) - (n + growth) * log2(left)

    rows = rows_of(part(before, in_use_before), part(before, in_use_before), c)
    drift(1, rows, before, in_use_before, after, in_use)
    assert part(after, in_use) <= rows.upper[0]
    assert part(after, in_use) <= rows.dropped[0]


def test_what_has_no_bound_gets_none():
    rows = rows_of(-inf, -inf, 3)
    drift(1, rows, 100, 5, 120, 9)
    assert (rows.upper[0], rows.dropped[0]) == (-inf, -inf)
