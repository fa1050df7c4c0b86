"""The twin of `algorithm1/kernels/ranking.py`: the gain of an itemset that is the union of several pairs."""

from __future__ import annotations

from dataclasses import dataclass

from fedslim.mdl.objective import estimated_gain, log2


@dataclass(frozen=True, slots=True)
class Joined:
    """Two elements used together: u(X), u(Y), their co-usage, L(X | ST), L(Y | ST)."""

    x: int
    y: int
    together: int
    standard_x: float
    standard_y: float


def estimated_gain_of_union(pairs, usage, total, in_use):
    """Return the bits saved if one itemset, the union of each of these pairs, replaced all their joint uses.

    Where members have different tables, several pairs may have the same union, and it may already have a `usage`: then
    it is not spelled out again. No element is in two of the pairs (its partner is the rest of the union), so the
    changes of the pairs add up. `algorithm1/kernels/ranking.py` has the same sum, term by term.
    """
    if len(pairs) == 1 and usage == 0:
        (p,) = pairs
        return estimated_gain(p.x, p.y, p.together, total, in_use, p.standard_x, p.standard_y)
    c = sum(p.together for p in pairs)
    total_left, in_use_left, usage_then = total - c, in_use, usage + c
    data_then, data_now = usage_then * log2(usage_then), usage * log2(usage)
    codes_then, codes_now = log2(usage_then), log2(usage)
    spelling = 0.0
    if usage == 0:
        in_use_left += 1
        spelling = pairs[0].standard_x + pairs[0].standard_y
    for p in pairs:
        for before, standard in ((p.x, p.standard_x), (p.y, p.standard_y)):
            left = before - p.together
            data_then += left * log2(left)
            data_now += before * log2(before)
            codes_then += log2(left)
            codes_now += log2(before)
            if left == 0:
                in_use_left -= 1
                spelling -= standard
    data = (total * log2(total) - total_left * log2(total_left)) + (data_then - data_now)
    codes = (in_use * log2(total) - in_use_left * log2(total_left)) + (codes_then - codes_now)
    return (data + codes) - spelling
