"""The kernels for what trials change, beside slow twins."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from fedslim.mdl.kernels import changes

SLOTS = 8
COUNTS = st.integers(0, 9)
CHANGE = st.dictionaries(st.integers(0, SLOTS - 1), st.tuples(COUNTS, COUNTS))


def flat(change):
    """Slots, lost and won of a change {slot: (lost, won)}."""
    slots = np.array(list(change), np.int32)
    lost, won = (np.array([pair[k] for pair in change.values()], np.int64) for k in (0, 1))
    return slots, lost, won


@given(CHANGE, st.integers(0, SLOTS), st.integers(0, 20))
def test_a_change_is_scaled_to_the_uses_of_its_element(change, pivot, uses):
    lost, won = np.empty((2, len(change)), np.int64)
    changes.scale(*flat(change), pivot, uses, lost, won)
    before = max(1, sum(change.get(pivot, (0, 0))))
    assert list(zip(lost.tolist(), won.tolist(), strict=True)) == [
        (a * uses // before, b * uses // before) for a, b in change.values()
    ]


@given(CHANGE, st.lists(st.integers(0, 9), min_size=SLOTS, max_size=SLOTS))
def test_a_change_is_applied_to_usages(change, usages):
    then = np.array(usages, np.int64)
    more, born = changes.apply(*flat(change), then)
    expected = [n + change.get(s, (0, 0))[1] - change.get(s, (0, 0))[0] for s, n in enumerate(usages)]
    assert then.tolist() == expected
    assert more == sum(expected) - sum(usages)
    assert born == sum(map(bool, expected)) - sum(map(bool, usages))


@given(
    st.dictionaries(st.integers(-1, SLOTS), st.tuples(COUNTS, COUNTS)),
    st.lists(st.integers(0, 12), min_size=SLOTS, max_size=SLOTS),
    st.sets(st.integers(0, SLOTS - 1)),
    st.booleans(),
)
def test_only_a_possible_change_happens(change, usages, dead, stays):
    alive = np.array([s not in dead for s in range(SLOTS)])
    then = np.array(usages, np.int64)
    wanted = {s: usages[s] + won - lost if 0 <= s < SLOTS else -1 for s, (lost, won) in change.items()}
    possible = all(0 <= uses <= 12 for uses in wanted.values()) and not dead & set(wanted)
    assert changes.follow(*flat(change), then, alive, 12, stays) == possible
    happens = wanted if possible and stays else {}
    assert then.tolist() == [happens.get(s, usages[s]) for s in range(SLOTS)]


@given(
    st.lists(CHANGE, min_size=1, max_size=4),
    st.lists(CHANGE, max_size=4),
    st.integers(0, 3),
    st.sampled_from([0, 0, 0, 1]),
)
def test_what_is_read_is_added_to_what_was_expected(true, expected, trial, too_few):
    """The sums differ from what was expected; the difference may be impossible."""
    expected = expected[: len(true)]
    guess = [flat(change) for change in expected]
    ends = np.cumsum([len(slots) for slots, _, _ in guess]).astype(np.int64)
    columns = [
        np.concatenate(column) if guess else np.zeros(0, np.int32 if k == 0 else np.int64)
        for k, column in enumerate(zip(*guess, strict=True) if guess else [()] * 3)
    ]
    different = {}
    for r, change in enumerate(true):
        known = expected[r] if r < len(expected) else {}
        for s in range(SLOTS):
            for side in (0, 1):
                more = change.get(s, (0, 0))[side] - known.get(s, (0, 0))[side]
                if more:
                    different[2 * (r * SLOTS + s) + side] = more
    trial = trial % len(true)
    if too_few:
        place = 2 * trial * SLOTS
        known = expected[trial].get(0, (0, 0))[0] if trial < len(expected) else 0
        different[place] = -known - 1
    places = np.array(sorted(different), np.int32)
    counts = np.array([different[place] for place in sorted(different)], np.int64)
    most, at, entries = len(places) + len(columns[0]), np.zeros(SLOTS, np.int32), np.empty(len(true), np.int64)
    found = np.empty(len(true), np.int64), np.empty(most, np.int32), *np.empty((2, most), np.int64)
    possible = changes.put_together(places, counts, 2 * SLOTS, ends, *columns, at, *found, entries)
    assert possible == (not too_few)
    assert not at.any()
    assert entries.tolist() == [sum(p // (2 * SLOTS) == r for p in different) for r in range(len(true))]
    if possible:
        begin = 0
        for end, change in zip(found[0].tolist(), true, strict=True):
            read = {int(s): (int(a), int(b)) for s, a, b in zip(*(part[begin:end] for part in found[1:]), strict=True)}
            assert read == {s: pair for s, pair in change.items() if any(pair)}
            begin = end
