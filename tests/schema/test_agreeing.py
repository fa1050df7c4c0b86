from __future__ import annotations

import math

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from fedslim.data.discretise import interval_labels
from fedslim.data.frames import dataframe_table
from fedslim.schema import Agreed, Schema, agree, conform, cut_ranks, keep_categories, round_cuts

numbers = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 1.5, -7.25, math.inf, -math.inf, 1e308, -1e308, 5e-324, 0.1, 0.30000000000000004]),
    st.floats(allow_nan=False),
    st.integers(-3, 3).map(float),
)
columns = st.lists(st.one_of(st.none(), numbers), min_size=1, max_size=60)
resolutions = st.sampled_from([None, 0.1, 1.0, 5.0, 1000.0, 1e-9])


def schema(**more):
    rule = {name: value for name, value in more.items() if value is not None}
    return Schema.of({"columns": {"v": {"kind": "numeric", **rule}, "c": {"kind": "categorical", "cap": 2}}})


def frame(values, categories):
    return pd.DataFrame({"v": pd.Series(values, dtype=float), "c": pd.Series(categories, dtype=object)})


@given(st.data(), st.integers(2, 12), resolutions)
def test_any_split_of_the_rows_agrees_on_what_all_rows_give(data, bins, resolution):
    values = data.draw(columns)
    categories = data.draw(
        st.lists(st.sampled_from(["a", "B", "b", "ü", None, "?"]), min_size=len(values), max_size=len(values))
    )
    member = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(values), max_size=len(values))))
    agreed_on, whole = schema(bins=bins, resolution=resolution), frame(values, categories)
    sites = [
        conform(agreed_on, dataframe_table(whole[member == number])) for number in range(4) if (member == number).any()
    ]
    one = conform(agreed_on, dataframe_table(whole))

    agreed = agree(agreed_on, sites)

    assert agreed == agree(agreed_on, [one])
    assert msgspec.convert(agreed.to_dict(), Agreed) == agreed
    together = iter(one.items(agreed))
    rows = {number: iter(site.items(agreed)) for number, site in zip(sorted(set(member.tolist())), sites, strict=True)}
    assert all(set(next(rows[number])) == set(row) for number, row in zip(member.tolist(), together, strict=True))


@given(st.lists(numbers, min_size=1, max_size=80), st.integers(2, 12), resolutions)
def test_cuts_are_ascending_finite_and_fewer_than_bins(values, bins, resolution):
    rule = schema(bins=bins, resolution=resolution).columns["v"]
    ordered = np.sort(np.array(values) + 0.0)
    ranks = cut_ranks(len(ordered), bins)
    cuts = round_cuts(ordered[np.array(ranks, int) - 1].tolist(), rule)

    assert all(1 < rank <= len(values) for rank in ranks)
    assert len(ranks) == len(set(ranks)) < bins
    assert list(cuts) == sorted(set(cuts))
    assert len(cuts) < bins
    assert all(map(math.isfinite, cuts))
    labels = interval_labels(cuts)
    assert len(set(labels)) == len(labels) == len(cuts) + 1


@given(st.integers(0, 2000), st.integers(2, 20))
def test_without_ties_intervals_differ_by_at_most_one_row(n, bins):
    ranks = cut_ranks(n, bins)
    sizes = np.diff([1, *ranks, n + 1])
    assert n < bins or (len(sizes) == bins and sizes.max() - sizes.min() <= 1)


def test_a_value_with_many_rows_fills_an_interval_by_itself():
    values = [0.0] * 60 + list(range(1, 41))
    agreed_on = schema(bins=5)
    site = conform(agreed_on, dataframe_table(frame(values, ["a"] * 100)))
    database = site.items(agree(agreed_on, [site]))
    supports = dict(zip(database.vocabulary, database.supports.tolist(), strict=True))
    assert supports["v=0"] == 60
    assert sum(count for label, count in supports.items() if label.startswith("v=")) == 100


@pytest.mark.parametrize(
    ("value", "step", "rounded"), [(0.25, 0.1, 0.2), (0.35, 0.1, 0.4), (-7.5, 5, -10), (1e300, 0.1, 1e300), (2.5, 1, 2)]
)
def test_cuts_are_rounded_in_decimals_half_to_even(value, step, rounded):
    assert round_cuts([value], schema(resolution=step).columns["v"]) == (rounded,)


@given(st.dictionaries(st.text(max_size=3), st.integers(1, 5), max_size=12), st.integers(1, 6))
def test_kept_categories_depend_on_counts_only(counts, cap):
    kept = set(keep_categories(counts, cap))
    assert len(kept) <= cap
    assert kept == {f for f in counts if f in set(keep_categories(dict(reversed(counts.items())), cap))}
    lost = [count for name, count in counts.items() if name not in kept]
    assert all(counts[name] > max(lost, default=0) for name in kept)
    ids = keep_categories({name.encode(): count for name, count in counts.items()}, cap)
    assert {name.decode() for name in ids} == kept
