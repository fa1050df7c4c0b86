"""Updating covers: what the insertion and the removal of an itemset have in common.

The cover of a transaction depends only on the transaction and the table. A change leaves everything earlier in the
cover order as it was. Where items become free, an element can be newly used only if it contains a free item: that
keeps a change local.
"""

from __future__ import annotations

import numpy as np

from fedslim._jit import inlined, inner
from fedslim.mdl.kernels.arrays import WORDS, Covers, Elements, Lists, State, Work

EMPTY = np.uint64(0)
BIT = np.uint64(1)

# Typed constants: numba compiles a function again for a literal 0, 1 or True.
NONE = np.int64(0)
ONCE = np.int64(1)
NOT = np.int64(-1)
TRIAL = np.bool_(False)  # the two values of `commit`
COMMIT = np.bool_(True)

UNKNOWN = np.int64(-1)  # for `recover`: the elements that fit are not known, search the lists


@inlined
def part_of(t: int, covers: Covers) -> int:
    """Return the number of the database that a transaction comes from."""
    return NONE if len(covers.part) == 0 else np.int64(covers.part[t])


@inlined
def counts_of(t: int, covers: Covers) -> int:
    """Return where the counts of that database begin in `lost` and `won`."""
    return NONE if len(covers.part) == 0 else covers.part[t] * len(covers.usage)


@inlined
def touch(s: int, n_touched: int, work: Work) -> int:
    """Add `s` to the touched slots if it is not among them; return their number."""
    if work.lost[s] == 0 and work.won[s] == 0:
        work.touched[n_touched] = s
        return n_touched + 1
    return n_touched


@inlined
def lose(s: int, times: int, n_touched: int, work: Work) -> int:
    """Count `times` covers that lose `s`."""
    n = touch(s, n_touched, work)
    work.lost[s] += times
    return n


@inlined
def win(s: int, at: int, times: int, t: int, commit: bool, n_touched: int, covers: Covers, work: Work) -> int:
    """Count `times` covers that win `s`, in the counts from `at` on; with `commit`, add transaction `t` to its list."""
    n = touch(at + s, n_touched, work)
    work.won[at + s] += times
    if commit:
        # The list has room: the caller has made it, by the counts of the trial.
        covers.tids[covers.tid_start[s] + covers.usage[s]] = t
        covers.usage[s] += 1
    return n


@inlined
def mark(z: int, value: int, elements: Elements, work: Work) -> None:
    """Set the mark of every item of `z`."""
    for j in range(elements.start[z], elements.start[z] + elements.size[z]):
        work.marked[elements.items[j]] = value


@inlined
def first_at(start: np.ndarray, slots: np.ndarray, item: int, rank: np.ndarray, from_rank: int) -> int:
    """Return the first position in the list of `item` whose element has at least the rank `from_rank`."""
    low = start[item]
    high = start[item + 1]
    while low < high:
        middle = (low + high) >> 1
        if rank[slots[middle]] < from_rank:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def contains(s: int, item: int, elements: Elements) -> bool:
    """Return whether an item is in an element."""
    for j in range(elements.start[s], elements.start[s] + elements.size[s]):
        if elements.items[j] == item:
            return True
    return False


@inlined
def overlap(a: int, b: int, elements: Elements) -> bool:
    """Return whether two elements share an item."""
    common = EMPTY
    for w in range(WORDS):
        common |= elements.mask[a, w] & elements.mask[b, w]
    if common == EMPTY or elements.exact:
        return common != EMPTY
    for j in range(elements.start[a], elements.start[a] + elements.size[a]):
        if contains(b, np.int64(elements.items[j]), elements):
            return True
    return False


@inlined
def fits(s: int, n_alive: int, n_free: int, elements: Elements, work: Work) -> bool:
    """Return whether `s` can be used: all its items are free or in elements after it, and at least one is free."""
    rank, mask = elements.rank, elements.mask
    if elements.exact:
        common = missing = EMPTY
        for w in range(WORDS):
            common |= mask[s, w] & work.free_mask[w]
            missing |= mask[s, w] & ~work.available[w]
        if common == EMPTY or missing != EMPTY:
            return False
        for k in range(n_alive):
            if rank[work.alive[k]] <= rank[s] and overlap(np.int64(work.alive[k]), s, elements):
                return False
        return True
    any_free = False
    for j in range(elements.start[s], elements.start[s] + elements.size[s]):
        item = np.int64(elements.items[j])
        found = False
        for k in range(n_free):
            if work.free[k] == item:
                found = True
                any_free = True
                break
        for k in range(n_alive):
            if found:
                break
            found = rank[work.alive[k]] > rank[s] and contains(np.int64(work.alive[k]), item, elements)
        if not found:
            return False
    return any_free


@inlined
def take_in(s: int, n_fitting: int, rank: np.ndarray, fitting: np.ndarray) -> int:
    """Insert `s` into `fitting` at its place in the cover order."""
    k = n_fitting
    while k > 0 and rank[fitting[k - 1]] > rank[s]:
        fitting[k] = fitting[k - 1]
        k -= 1
    fitting[k] = s
    return n_fitting + 1


@inlined
def within_available(s: int, mask: np.ndarray, work: Work) -> bool:
    """Return whether the mask of `s` has only available items."""
    missing = EMPTY
    for w in range(WORDS):
        missing |= mask[s, w] & ~work.available[w]
    return missing == EMPTY


@inlined
def collect_key(item: int, from_rank: int, n_fitting: int, elements: Elements, lists: Lists, work: Work) -> int:
    """Add to `fitting` the elements with the key `item` whose masks are within `available`."""
    for j in range(lists.key_start[item + 1] - 1, lists.key_start[item] - 1, -1):
        s = np.int64(lists.key_slots[j])
        if elements.rank[s] < from_rank:
            break
        if within_available(s, elements.mask, work):
            n_fitting = take_in(s, n_fitting, elements.rank, work.fitting)
    return n_fitting


@inner
def collect(
    from_rank: int, n_alive: int, n_free: int, n_fitting: int, elements: Elements, lists: Lists, work: Work
) -> int:
    """Add to `fitting`, in cover order, the elements from rank `from_rank` on that consist of available items."""
    for k in range(n_free):
        n_fitting = collect_key(np.int64(work.free[k]), from_rank, n_fitting, elements, lists, work)
    for k in range(n_alive):
        s = np.int64(work.alive[k])
        for j in range(elements.start[s], elements.start[s] + elements.size[s]):
            n_fitting = collect_key(np.int64(elements.items[j]), from_rank, n_fitting, elements, lists, work)
    return n_fitting


@inlined
def set_available(n_alive: int, mask: np.ndarray, work: Work) -> None:
    """Make `available` from `free_mask` and the elements that may still break."""
    for w in range(WORDS):
        work.available[w] = work.free_mask[w]
    for k in range(n_alive):
        for w in range(WORDS):
            work.available[w] |= mask[work.alive[k], w]


@inlined
def take_out(best: int, n_free: int, elements: Elements, work: Work) -> int:
    """Remove the items of `best` from `free` and the masks; return how many are left.

    Where items share bits, the masks stay as they are: a mask may have bits too many, but never too few.
    """
    mask, free = elements.mask, work.free
    still = NONE
    if elements.exact:
        for w in range(WORDS):
            work.free_mask[w] &= ~mask[best, w]
            work.available[w] &= ~mask[best, w]
        for k in range(n_free):
            item = np.int64(free[k])
            if (mask[best, item >> 6] >> np.uint64(item & 63)) & BIT == EMPTY:
                free[still] = item
                still += 1
        return still
    for k in range(n_free):
        if not contains(best, np.int64(free[k]), elements):
            free[still] = free[k]
            still += 1
    return still


@inner
def recover(
    t: int,
    at: int,
    from_rank: int,
    n_alive: int,
    n_free: int,
    n_kept: int,
    n_fitting: int,
    times: int,
    commit: bool,
    n_touched: int,
    state: State,
) -> int:
    """Cover the items in `free` with elements from rank `from_rank` on, and write the cover if `commit`.

    Every change counts `times` times, for all transactions of a group, in the counts from `at` on; with `commit` it
    counts once, in the first ones.

    The caller has set `free_mask`. A newly used element breaks the elements in `alive` that it overlaps, all of which
    come after it. That frees only items that were available before, so one search of the lists finds all elements that
    can ever fit. A caller that already knows which elements with a free item fit passes their number in `n_fitting`
    (otherwise UNKNOWN) and has set `available`; if an element then breaks, the lists are searched for its items.
    """
    elements, lists, covers, work = state
    rank, mask, size, start, items = elements.rank, elements.mask, elements.size, elements.start, elements.items
    alive, free, kept, fitting = work.alive, work.free, work.kept, work.fitting
    complete = n_fitting == UNKNOWN
    if complete:
        n_fitting = NONE
        if n_free > 0:
            set_available(n_alive, mask, work)
            n_fitting = collect(from_rank, n_alive, n_free, NONE, elements, lists, work)
    f = NONE
    while f < n_fitting and n_free > 0:
        best = np.int64(fitting[f])
        f += 1
        if not fits(best, n_alive, n_free, elements, work):
            continue
        n_touched = win(best, at, times, t, commit, n_touched, covers, work)
        kept[n_kept] = best
        n_kept += 1
        outside, still = False, NONE
        for k in range(n_alive):
            s = np.int64(alive[k])
            if overlap(s, best, elements):
                n_touched = lose(at + s, times, n_touched, work)
                outside |= size[s] > 1
                for w in range(WORDS):
                    work.free_mask[w] |= mask[s, w]
                for j in range(start[s], start[s] + size[s]):
                    free[n_free] = items[j]
                    n_free += 1
            else:
                alive[still] = s
                still += 1
        n_alive = still
        n_free = take_out(best, n_free, elements, work)
        if outside and not complete:
            complete = True
            f = NONE
            n_fitting = collect(np.int64(rank[best]) + 1, n_alive, n_free, NONE, elements, lists, work)
    for k in range(n_free):
        n_touched = win(np.int64(free[k]), at, times, t, commit, n_touched, covers, work)
        kept[n_kept] = free[k]
        n_kept += 1
    if commit:
        base = covers.start[t]
        covers.slots[base] = n_kept + n_alive
        for k in range(n_kept):
            covers.slots[base + 1 + k] = kept[k]
        for k in range(n_alive):
            covers.slots[base + 1 + n_kept + k] = alive[k]
    return n_touched


@inlined
def forget(z: int, n_touched: int, stamp: int, elements: Elements, covers: Covers, work: Work) -> None:
    """Remove transactions that lost an element from the element's list, after `z` was inserted or removed."""
    z_is_in = work.won[z] > 0
    for k in range(n_touched):
        s = np.int64(work.touched[k])
        if work.lost[s] == 0:
            continue
        if work.lost[s] == covers.usage[s]:
            covers.usage[s] = 0
            continue
        # All changed transactions use z now, so an element that overlaps z is in none of them; otherwise check each.
        surely_lost = z_is_in and s != z and overlap(s, z, elements)
        begin = covers.tid_start[s]
        n = NONE
        for q in range(begin, begin + covers.usage[s]):
            t = np.int64(covers.tids[q])
            keep = True
            if covers.changed[t] == stamp:
                keep = False
                if surely_lost:
                    continue
                base = covers.start[t]
                for j in range(base + 1, base + 1 + covers.slots[base]):
                    if covers.slots[j] == s:
                        keep = True
                        break
            if keep:
                covers.tids[begin + n] = t
                n += 1
        covers.usage[s] = n


@inlined
def note_cover(t: int, covers: Covers, work: Work) -> int:
    """Copy the cover of a transaction to `before`, if pairs are kept; return its length."""
    if len(covers.pairs) == 0:
        return NONE
    base = covers.start[t]
    n = np.int64(covers.slots[base])
    for k in range(n):
        work.before[k] = covers.slots[base + 1 + k]
    return n


@inlined
def count_with(s: int, by: int, others: np.ndarray, n: int, pairs: np.ndarray) -> None:
    """Add `by` to the co-usages of `s` with the first `n` of the others."""
    for k in range(n):
        pairs[s, others[k]] += by
        pairs[others[k], s] += by


@inner
def update_pairs(t: int, n_before: int, covers: Covers, work: Work) -> None:
    """Correct the co-usages after a change of the cover of `t`, which had `n_before` elements, now in `before`.

    A pair of elements that stay does not change. So the cost is that of the elements which leave or enter.
    """
    if len(covers.pairs) == 0:
        return
    before, present = work.before, work.present
    base = covers.start[t]
    end = base + 1 + covers.slots[base]
    for k in range(base + 1, end):
        present[covers.slots[k]] = 1
    n_stay = NONE
    for k in range(n_before):
        s = before[k]
        if present[s] == 1:
            present[s] = 0
            before[k] = before[n_stay]
            before[n_stay] = s
            n_stay += 1
    for k in range(n_stay, n_before):
        count_with(np.int64(before[k]), NOT, before, k, covers.pairs)
    n = n_stay
    for k in range(base + 1, end):
        s = covers.slots[k]
        if present[s] == 1:
            present[s] = 0
            count_with(np.int64(s), ONCE, before, n, covers.pairs)
            before[n] = s
            n += 1
