"""What trials change: applied to usages; and as X asks for it and reads it: scaled, checked, and put together."""

from __future__ import annotations

import numpy as np

from fedslim._jit import njit


@njit
def scale(
    slots: np.ndarray,
    lost: np.ndarray,
    won: np.ndarray,
    pivot: int,
    uses: int,
    lost_then: np.ndarray,
    won_then: np.ndarray,
) -> None:
    """Put what a change would be if the element that enters or leaves were used so often."""
    before = np.int64(0)
    for k in range(len(slots)):
        if slots[k] == pivot:
            before += lost[k] + won[k]
    before = max(before, np.int64(1))
    for k in range(len(slots)):
        lost_then[k] = lost[k] * uses // before
        won_then[k] = won[k] * uses // before


@njit
def apply(slots: np.ndarray, lost: np.ndarray, won: np.ndarray, usages: np.ndarray) -> tuple[int, int]:
    """Let a change happen to usages; return by how much their sum and the number of those above 0 grow."""
    more = born = np.int64(0)
    for k in range(len(slots)):
        s = np.int64(slots[k])
        more += won[k] - lost[k]
        born -= usages[s] != 0
        usages[s] += won[k] - lost[k]
        born += usages[s] != 0
    return more, born


@njit
def follow(
    slots: np.ndarray,
    lost: np.ndarray,
    won: np.ndarray,
    usages: np.ndarray,
    alive: np.ndarray,
    most: int,
    stays: bool,
) -> bool:
    """Return whether a change is possible: only of elements that are there, to usages between 0 and `most`.

    If it `stays`, let it happen.
    """
    for k in range(len(slots)):
        s = np.int64(slots[k])
        if s < 0 or s >= len(usages) or alive[s] == 0 or not 0 <= usages[s] + won[k] - lost[k] <= most:
            return False
    if stays:
        apply(slots, lost, won, usages)
    return True


@njit
def put_together(
    places: np.ndarray,
    counts: np.ndarray,
    span: int,
    ends: np.ndarray,
    slots: np.ndarray,
    lost: np.ndarray,
    won: np.ndarray,
    at: np.ndarray,
    found_ends: np.ndarray,
    found_slots: np.ndarray,
    found_lost: np.ndarray,
    found_won: np.ndarray,
    different: np.ndarray,
) -> bool:
    """Add what is different from what was expected to it; return whether all sums are possible.

    Trial r has the places from r · span on, two for each slot; what was expected of it ends at ends[r], if at all.
    `different` gets the number of its entries that are not as expected. `at` is scratch memory: zero for each slot.
    """
    n, k, j = np.int64(0), np.int64(0), np.int64(0)
    possible = True
    for r in range(len(found_ends)):
        begin, first = n, np.int64(k)
        while r < len(ends) and j < ends[r]:
            s = np.int64(slots[j])
            if at[s] == 0:
                found_slots[n], found_lost[n], found_won[n] = s, 0, 0
                n += 1
                at[s] = n
            found_lost[at[s] - 1] += lost[j]
            found_won[at[s] - 1] += won[j]
            j += 1
        while k < len(places) and places[k] < (r + 1) * span:
            place = places[k] - r * span
            s = np.int64(place >> 1)
            if at[s] == 0:
                found_slots[n], found_lost[n], found_won[n] = s, 0, 0
                n += 1
                at[s] = n
            if place & 1 == 0:
                found_lost[at[s] - 1] += counts[k]
            else:
                found_won[at[s] - 1] += counts[k]
            k += 1
        different[r] = k - first
        stop, n = n, begin
        for i in range(begin, stop):
            at[found_slots[i]] = 0
            possible &= found_lost[i] >= 0 and found_won[i] >= 0
            if found_lost[i] != 0 or found_won[i] != 0:
                found_slots[n], found_lost[n], found_won[n] = found_slots[i], found_lost[i], found_won[i]
                n += 1
        found_ends[r] = n
    return possible
