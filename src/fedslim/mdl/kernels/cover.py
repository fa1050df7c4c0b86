"""Covers kept up to date: what changes when an itemset is inserted or removed, and who is covered together.

The cover of a transaction depends on nothing but the transaction and the table. Inserting Z at its place in the
cover order leaves everything earlier as it was; Z is used where all its items are covered by *later* elements.
Those elements break, their other items become free, and an element can be used anew only if it contains a free
item: that is what keeps a change local.
"""

from __future__ import annotations

import numpy as np

from fedslim.mdl.kernels._jit import inlined, inner, njit
from fedslim.mdl.kernels.arrays import GROUP_PLACES, NO_ELEMENT, NO_GROUP, WORDS, Covers, Elements, Lists, Vertical, Work

EMPTY = np.uint64(0)
BIT = np.uint64(1)

# Typed constants: numba compiles a function anew for a literal 0, 1 or True.
NONE = np.int64(0)
ONCE = np.int64(1)
NOT = np.int64(-1)
TRIAL = np.bool_(False)  # noqa: FBT003  # the two values of `commit`
COMMIT = np.bool_(True)  # noqa: FBT003

UNKNOWN = np.int64(-1)
"""For `_recover`: look through the lists for what fits."""


@njit
def build_lists(order: np.ndarray, elements: Elements, lists: Lists) -> None:
    """Fill `lists` from the slots in cover order."""
    start, key_start, support = lists.start, lists.key_start, lists.support
    start[:] = 0
    key_start[:] = 0
    keys = lists.keys
    for k in range(len(order)):
        s = np.int64(order[k])
        key = np.int64(elements.items[elements.start[s]])
        for j in range(elements.start[s], elements.start[s] + elements.size[s]):
            item = np.int64(elements.items[j])
            start[item + 1] += 1
            if support[item] < support[key]:
                key = item
        keys[k] = key
        key_start[key + 1] += 1
    for i in range(1, len(start)):
        start[i] += start[i - 1]
        key_start[i] += key_start[i - 1]
    # start[i] is now where item i begins; use it as the write position, then shift it back.
    for k in range(len(order)):
        s = np.int64(order[k])
        for j in range(elements.start[s], elements.start[s] + elements.size[s]):
            item = np.int64(elements.items[j])
            lists.slots[start[item]] = s
            start[item] += 1
        lists.key_slots[key_start[keys[k]]] = s
        key_start[keys[k]] += 1
    for i in range(len(start) - 1, 0, -1):
        start[i] = start[i - 1]
        key_start[i] = key_start[i - 1]
    start[0] = 0
    key_start[0] = 0


@njit
def singleton_tids(offsets: np.ndarray, items: np.ndarray, position: np.ndarray, tids: np.ndarray) -> None:
    """Fill the transaction lists of the singletons; position[i] is where item i's list begins, and then where it ends."""
    for t in range(len(offsets) - 1):
        for j in range(offsets[t], offsets[t + 1]):
            item = np.int64(items[j])
            tids[position[item]] = t
            position[item] += 1


@inlined
def _touch(s: int, n_touched: int, work: Work) -> int:
    if work.lost[s] == 0 and work.won[s] == 0:
        work.touched[n_touched] = s
        return n_touched + 1
    return n_touched


@inlined
def _lose(s: int, times: int, n_touched: int, work: Work) -> int:
    n = _touch(s, n_touched, work)
    work.lost[s] += times
    return n


@inlined
def _win(s: int, times: int, t: int, commit: bool, n_touched: int, covers: Covers, work: Work) -> int:
    n = _touch(s, n_touched, work)
    work.won[s] += times
    if commit:
        # The list has room: the caller made it from the trial's counts.
        covers.tids[covers.tid_start[s] + covers.usage[s]] = t
        covers.usage[s] += 1
    return n


@inlined
def _mark(z: int, value: int, elements: Elements, work: Work) -> None:
    for j in range(elements.start[z], elements.start[z] + elements.size[z]):
        work.marked[elements.items[j]] = value


@inlined
def _first_at(start: np.ndarray, slots: np.ndarray, item: int, rank: np.ndarray, from_rank: int) -> int:
    """The first position in the list of `item` whose element has at least the rank `from_rank`."""
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
def _contains(s: int, item: int, elements: Elements) -> bool:
    for j in range(elements.start[s], elements.start[s] + elements.size[s]):
        if elements.items[j] == item:
            return True
    return False


@inlined
def _overlap(a: int, b: int, elements: Elements) -> bool:
    """Whether two elements share an item."""
    common = EMPTY
    for w in range(WORDS):
        common |= elements.mask[a, w] & elements.mask[b, w]
    if common == EMPTY or elements.exact:
        return common != EMPTY
    for j in range(elements.start[a], elements.start[a] + elements.size[a]):
        if _contains(b, np.int64(elements.items[j]), elements):
            return True
    return False


@inlined
def _fits(s: int, n_alive: int, n_free: int, elements: Elements, work: Work) -> bool:
    """Whether `s` can be used: all its items free or in elements after it, at least one of them free."""
    rank, mask = elements.rank, elements.mask
    if elements.exact:
        common = EMPTY
        missing = EMPTY
        for w in range(WORDS):
            common |= mask[s, w] & work.free_mask[w]
            missing |= mask[s, w] & ~work.available[w]
        if common == EMPTY or missing != EMPTY:
            return False
        for k in range(n_alive):
            if rank[work.alive[k]] <= rank[s] and _overlap(np.int64(work.alive[k]), s, elements):
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
            found = rank[work.alive[k]] > rank[s] and _contains(np.int64(work.alive[k]), item, elements)
        if not found:
            return False
    return any_free


@inlined
def _take_in(s: int, n_fitting: int, rank: np.ndarray, fitting: np.ndarray) -> int:
    """Put `s` into `fitting` at its place in the cover order."""
    k = n_fitting
    while k > 0 and rank[fitting[k - 1]] > rank[s]:
        fitting[k] = fitting[k - 1]
        k -= 1
    fitting[k] = s
    return n_fitting + 1


@inlined
def _within_available(s: int, mask: np.ndarray, work: Work) -> bool:
    missing = EMPTY
    for w in range(WORDS):
        missing |= mask[s, w] & ~work.available[w]
    return missing == EMPTY


@inlined
def _collect_key(item: int, from_rank: int, n_fitting: int, elements: Elements, lists: Lists, work: Work) -> int:
    """Add to `fitting` the elements with the key `item` whose masks are within `available`."""
    for j in range(lists.key_start[item + 1] - 1, lists.key_start[item] - 1, -1):
        s = np.int64(lists.key_slots[j])
        if elements.rank[s] < from_rank:
            break
        if _within_available(s, elements.mask, work):
            n_fitting = _take_in(s, n_fitting, elements.rank, work.fitting)
    return n_fitting


@inner
def _collect(
    from_rank: int, n_alive: int, n_free: int, n_fitting: int, elements: Elements, lists: Lists, work: Work
) -> int:
    """Put all elements of rank `from_rank` on that the available items can make into `fitting`, in cover order."""
    for k in range(n_free):
        n_fitting = _collect_key(np.int64(work.free[k]), from_rank, n_fitting, elements, lists, work)
    for k in range(n_alive):
        s = np.int64(work.alive[k])
        for j in range(elements.start[s], elements.start[s] + elements.size[s]):
            n_fitting = _collect_key(np.int64(elements.items[j]), from_rank, n_fitting, elements, lists, work)
    return n_fitting


@inlined
def _set_available(n_alive: int, mask: np.ndarray, work: Work) -> None:
    """Make `available` from `free_mask` and the elements that may still break."""
    for w in range(WORDS):
        work.available[w] = work.free_mask[w]
    for k in range(n_alive):
        for w in range(WORDS):
            work.available[w] |= mask[work.alive[k], w]


@inlined
def _take_out(best: int, n_free: int, elements: Elements, work: Work) -> int:
    """Take the items of `best` out of `free` and the masks; returns how many are left.

    Where items share bits, the masks keep them: a mask may promise too much, but never too little.
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
        if not _contains(best, np.int64(free[k]), elements):
            free[still] = free[k]
            still += 1
    return still


@inner
def _recover(
    t: int,
    from_rank: int,
    n_alive: int,
    n_free: int,
    n_kept: int,
    n_fitting: int,
    times: int,
    commit: bool,
    n_touched: int,
    elements: Elements,
    lists: Lists,
    covers: Covers,
    work: Work,
) -> int:
    """Cover the items in `free` with elements of rank `from_rank` on, and write the cover if `commit`.

    Everything counts `times` times: for all transactions of a group (and once where it is carried out).

    The caller has set `free_mask`. A newly used element breaks those of the elements in `alive` that it overlaps: all of them come after it. What
    breaks frees only items that were available before, so one look through the lists finds all that can ever fit.
    A caller that knows all elements with a free item that fit says so with `n_fitting` (otherwise UNKNOWN); should
    something break, its items need a look of their own.
    """
    rank, mask, size, start, items = elements.rank, elements.mask, elements.size, elements.start, elements.items
    alive, free, kept, fitting = work.alive, work.free, work.kept, work.fitting
    complete = n_fitting == UNKNOWN
    if n_free > 0:
        _set_available(n_alive, mask, work)
    if complete:
        n_fitting = NONE
        if n_free > 0:
            n_fitting = _collect(from_rank, n_alive, n_free, NONE, elements, lists, work)
    f = NONE
    while f < n_fitting and n_free > 0:
        best = np.int64(fitting[f])
        f += 1
        if not _fits(best, n_alive, n_free, elements, work):
            continue
        n_touched = _win(best, times, t, commit, n_touched, covers, work)
        kept[n_kept] = best
        n_kept += 1
        outside = False
        still = NONE
        for k in range(n_alive):
            s = np.int64(alive[k])
            if _overlap(s, best, elements):
                n_touched = _lose(s, times, n_touched, work)
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
        n_free = _take_out(best, n_free, elements, work)
        if outside and not complete:
            complete = True
            f = NONE
            n_fitting = _collect(np.int64(rank[best]) + 1, n_alive, n_free, NONE, elements, lists, work)
    for k in range(n_free):
        n_touched = _win(np.int64(free[k]), times, t, commit, n_touched, covers, work)
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
def _cheapest_item(z: int, elements: Elements, lists: Lists, usage: np.ndarray) -> int:
    """The item of `z` that elements after `z` cover in the fewest transactions: where to look for uses of `z`."""
    best = NOT
    best_count = NONE
    for j in range(elements.start[z], elements.start[z] + elements.size[z]):
        item = np.int64(elements.items[j])
        count = usage[item]
        for k in range(_first_at(lists.start, lists.slots, item, elements.rank, elements.rank[z]), lists.start[item + 1]):
            count += usage[lists.slots[k]]
        if best < 0 or count < best_count:
            best = item
            best_count = count
    return best


@inner
def _insert_into(
    t: int, z: int, commit: bool, n_touched: int, elements: Elements, lists: Lists, covers: Covers, work: Work
) -> int:
    """Use `z` in the cover of `t`; returns the number of touched slots, or -1 if `z` cannot be used there."""
    rank, size, start, items, mask = elements.rank, elements.size, elements.start, elements.items, elements.mask
    base = covers.start[t]
    end = base + 1 + covers.slots[base]
    n_items = len(work.marked)
    n_broken = NONE
    broken_items = NONE
    hits = NONE
    for k in range(base + 1, end):
        s = np.int64(covers.slots[k])
        common = NONE
        if s < n_items:
            # a single item; at first covers are long and have little else
            common += work.marked[s]
        elif rank[s] >= rank[z]:
            shared = EMPTY
            for w in range(WORDS):
                shared |= mask[s, w] & mask[z, w]
            if shared != EMPTY:
                for j in range(start[s], start[s] + size[s]):
                    common += work.marked[items[j]]
        if common > 0:
            work.broken[n_broken] = k
            n_broken += 1
            broken_items += size[s]
            hits += common
            if hits == size[z]:
                break
    if hits != size[z]:
        return NOT
    for b in range(n_broken):
        n_touched = _lose(np.int64(covers.slots[work.broken[b]]), ONCE, n_touched, work)
    n_touched = _win(z, ONCE, t, commit, n_touched, covers, work)
    if broken_items == size[z]:
        # z is exactly a union of what covered it: nothing is freed, so nothing else changes.
        if commit:
            for b in range(n_broken - 1, -1, -1):
                end -= 1
                covers.slots[work.broken[b]] = covers.slots[end]
            covers.slots[end] = z
            covers.slots[base] = end - base
        return n_touched
    n_free = NONE
    n_alive = NONE
    n_kept = ONCE
    work.kept[0] = z
    for w in range(WORDS):
        work.free_mask[w] = EMPTY
    b = NONE
    for k in range(base + 1, end):
        s = np.int64(covers.slots[k])
        if b < n_broken and work.broken[b] == k:
            b += 1
            for j in range(start[s], start[s] + size[s]):
                if work.marked[items[j]] == 0:
                    work.free[n_free] = items[j]
                    n_free += 1
                    for w in range(WORDS):
                        work.free_mask[w] |= mask[items[j], w]
        elif rank[s] < rank[z]:
            work.kept[n_kept] = s
            n_kept += 1
        else:
            work.alive[n_alive] = s
            n_alive += 1
    # From z's own rank on: while z is on trial, the element that z would push back still has that rank.
    return _recover(
        t, np.int64(rank[z]), n_alive, n_free, n_kept, UNKNOWN, ONCE, commit, n_touched, elements, lists, covers, work
    )


@inlined
def _hash_later(t: int, z: int, elements: Elements, covers: Covers) -> np.uint64:
    """A hash of the set of elements in the cover of `t` that come after `z` (z's own bit is not in it)."""
    h = EMPTY
    base = covers.start[t]
    for k in range(base + 1, base + 1 + covers.slots[base]):
        s = np.int64(covers.slots[k])
        if elements.rank[s] >= elements.rank[z] and s != z:
            x = np.uint64(s + 1) * np.uint64(0x9E3779B97F4A7C15)
            x ^= x >> np.uint64(29)
            x *= np.uint64(0xBF58476D1CE4E5B9)
            h ^= x ^ (x >> np.uint64(32))
    return h


@inlined
def _same_later(t: int, u: int, z: int, elements: Elements, covers: Covers) -> bool:
    """Whether the covers of two transactions have the same elements after `z`."""
    surplus = NONE
    base = covers.start[u]
    for k in range(base + 1, base + 1 + covers.slots[base]):
        surplus += elements.rank[covers.slots[k]] >= elements.rank[z]
    base = covers.start[t]
    for k in range(base + 1, base + 1 + covers.slots[base]):
        s = np.int64(covers.slots[k])
        if elements.rank[s] < elements.rank[z]:
            continue
        surplus -= 1
        found = False
        other = np.int64(covers.start[u])
        for j in range(other + 1, other + 1 + covers.slots[other]):
            if covers.slots[j] == s:
                found = True
                break
        if not found:
            return False
    return surplus == 0


@inlined
def _group(t: int, z: int, n_groups: int, elements: Elements, covers: Covers, work: Work) -> tuple[int, int]:
    """The place of the group of `t` and the number of groups: new groups have the count 0.

    What removing `z` does to a cover depends on nothing but the elements in it that come after `z`, and many
    transactions have the same ones. They make a group, and the work is done once for each group. (Insertions need no
    groups: z is nearly always a union of elements, and then there is no work to share.)
    """
    h = _hash_later(t, z, elements, covers)
    place = np.int64(h & np.uint64(GROUP_PLACES - 1))
    while work.group_tid[place] != NO_GROUP:
        if work.group_hash[place] == h and _same_later(t, np.int64(work.group_tid[place]), z, elements, covers):
            return place, n_groups
        place = (place + 1) & (GROUP_PLACES - 1)
    work.group_hash[place] = h
    work.group_tid[place] = t
    work.group_count[place] = 0
    work.groups[n_groups] = place
    return place, n_groups + 1


@inlined
def _gather_probes(z: int, pivot: int, elements: Elements, lists: Lists, vertical: Vertical, work: Work) -> int:
    """Put the bitmap rows of z's other common items into `probes`, rarest first; returns how many there are."""
    probes, support = work.probes, lists.support
    n = NONE
    for j in range(elements.start[z], elements.start[z] + elements.size[z]):
        item = np.int64(elements.items[j])
        if item == pivot or vertical.row[item] < 0:
            continue
        k = n
        while k > 0 and support[probes[k - 1]] > support[item]:
            probes[k] = probes[k - 1]
            k -= 1
        probes[k] = item
        n += 1
    for k in range(n):
        probes[k] = vertical.row[probes[k]]
    return n


@njit
def try_insert(
    z: int, elements: Elements, lists: Lists, covers: Covers, vertical: Vertical, work: Work
) -> int:
    """Count what inserting `z` changes and note in `hits` where it is used; returns the number of touched slots.

    `elements` already holds `z` at its rank; `lists` does not.
    """
    n_touched = NONE
    n_hits = NONE
    _mark(z, ONCE, elements, work)
    pivot = _cheapest_item(z, elements, lists, covers.usage)
    n_probes = _gather_probes(z, pivot, elements, lists, vertical, work)
    first = _first_at(lists.start, lists.slots, pivot, elements.rank, elements.rank[z])
    for k in range(first, lists.start[pivot + 1] + 1):
        s = pivot if k == lists.start[pivot + 1] else np.int64(lists.slots[k])
        for q in range(covers.tid_start[s], covers.tid_start[s] + covers.usage[s]):
            t = np.int64(covers.tids[q])
            # Most transactions seen here do not even contain z; a few bits tell that before the cover is looked at.
            bit = np.uint64(t & 63)
            inside = BIT
            for p in range(n_probes):
                inside = (vertical.bitmaps[work.probes[p], t >> 6] >> bit) & BIT
                if inside == EMPTY:
                    break
            if inside == EMPTY:
                continue
            after = _insert_into(t, z, TRIAL, n_touched, elements, lists, covers, work)
            if after >= 0:
                n_touched = after
                work.hits[n_hits] = t
                n_hits += 1
    _mark(z, NONE, elements, work)
    return n_touched


@njit
def insert(z: int, n_hits: int, stamp: int, elements: Elements, lists: Lists, covers: Covers, work: Work) -> int:
    """Carry out what was just tried; returns the number of touched slots."""
    n_touched = NONE
    _mark(z, ONCE, elements, work)
    for k in range(n_hits):
        t = np.int64(work.hits[k])
        n_touched = _insert_into(t, z, COMMIT, n_touched, elements, lists, covers, work)
        covers.changed[t] = stamp
    _mark(z, NONE, elements, work)
    _forget(z, n_touched, stamp, elements, covers, work)
    return n_touched


@inner
def _sort_out(z: int, elements: Elements, lists: Lists, work: Work) -> int:
    """Sort out which elements could take over from `z`: those that come after it and share an item with it.

    The ones within z go to `inside` and fit always. Each other one goes into the bucket of its rarest item outside z,
    and is looked at only where that item is available. Returns how many are inside.
    """
    rank, start, size, items = elements.rank, elements.start, elements.size, elements.items
    n_inside = NONE
    for i in range(start[z], start[z] + size[z]):
        item = np.int64(items[i])
        for j in range(lists.start[item + 1] - 1, lists.start[item] - 1, -1):
            s = np.int64(lists.slots[j])
            if rank[s] <= rank[z]:
                break
            first = NOT
            key = NOT
            for q in range(start[s], start[s] + size[s]):
                other = np.int64(items[q])
                if work.marked[other] == 0:
                    if key < 0 or lists.support[other] < lists.support[key]:
                        key = other
                elif first < 0:
                    first = other
            if first != item:
                continue  # it was seen in the list of its first item
            if key < 0:
                n_inside = _take_in(s, n_inside, rank, work.inside)
            else:
                work.chain[s] = work.bucket[key]
                work.bucket[key] = s
    return n_inside


@inner
def _clear_buckets(z: int, elements: Elements, lists: Lists, work: Work) -> None:
    for i in range(elements.start[z], elements.start[z] + elements.size[z]):
        item = np.int64(elements.items[i])
        for j in range(lists.start[item + 1] - 1, lists.start[item] - 1, -1):
            s = np.int64(lists.slots[j])
            if elements.rank[s] <= elements.rank[z]:
                break
            for q in range(elements.start[s], elements.start[s] + elements.size[s]):
                work.bucket[elements.items[q]] = NO_ELEMENT


@inlined
def _remove_from(
    t: int,
    z: int,
    times: int,
    commit: bool,
    n_inside: int,
    n_touched: int,
    elements: Elements,
    lists: Lists,
    covers: Covers,
    work: Work,
) -> int:
    """Cover `t` without `z`; returns the number of touched slots."""
    rank, start, size, items = elements.rank, elements.start, elements.size, elements.items
    base = covers.start[t]
    n_kept = NONE
    n_alive = NONE
    for k in range(base + 1, base + 1 + covers.slots[base]):
        s = np.int64(covers.slots[k])
        if rank[s] < rank[z]:
            work.kept[n_kept] = s
            n_kept += 1
        elif s != z:
            work.alive[n_alive] = s
            n_alive += 1
    n_free = NONE
    for j in range(start[z], start[z] + size[z]):
        work.free[n_free] = items[j]
        n_free += 1
    for k in range(n_inside):
        work.fitting[k] = work.inside[k]
    n_fitting = n_inside
    for w in range(WORDS):
        work.free_mask[w] = elements.mask[z, w]
    _set_available(n_alive, elements.mask, work)
    for k in range(n_alive):
        for j in range(start[work.alive[k]], start[work.alive[k]] + size[work.alive[k]]):
            s = np.int64(work.bucket[items[j]])
            while s != NO_ELEMENT:
                if _within_available(s, elements.mask, work):
                    n_fitting = _take_in(s, n_fitting, rank, work.fitting)
                s = np.int64(work.chain[s])
    n_touched = _lose(z, times, n_touched, work)
    return _recover(
        t, np.int64(rank[z]) + 1, n_alive, n_free, n_kept, n_fitting, times, commit, n_touched, elements, lists, covers, work
    )


@inner
def _remove_groups(
    z: int, n_groups: int, n_inside: int, n_touched: int, elements: Elements, lists: Lists, covers: Covers, work: Work
) -> int:
    for k in range(n_groups):
        place = np.int64(work.groups[k])
        t = np.int64(work.group_tid[place])
        work.group_tid[place] = NO_GROUP
        n_touched = _remove_from(
            t, z, work.group_count[place], TRIAL, n_inside, n_touched, elements, lists, covers, work
        )
    return n_touched


@njit
def try_remove(z: int, elements: Elements, lists: Lists, covers: Covers, work: Work) -> int:
    """Count what removing `z` changes; returns the number of touched slots."""
    _mark(z, ONCE, elements, work)
    n_inside = _sort_out(z, elements, lists, work)
    n_touched = NONE
    n_groups = NONE
    for q in range(covers.tid_start[z], covers.tid_start[z] + covers.usage[z]):
        place, n_groups = _group(np.int64(covers.tids[q]), z, n_groups, elements, covers, work)
        work.group_count[place] += 1
        if n_groups == GROUP_PLACES // 2:
            n_touched = _remove_groups(z, n_groups, n_inside, n_touched, elements, lists, covers, work)
            n_groups = NONE
    n_touched = _remove_groups(z, n_groups, n_inside, n_touched, elements, lists, covers, work)
    _clear_buckets(z, elements, lists, work)
    _mark(z, NONE, elements, work)
    return n_touched


@njit
def remove(z: int, stamp: int, elements: Elements, lists: Lists, covers: Covers, work: Work) -> int:
    """Carry out the removal of `z`; returns the number of touched slots."""
    _mark(z, ONCE, elements, work)
    n_inside = _sort_out(z, elements, lists, work)
    n_touched = NONE
    for q in range(covers.tid_start[z], covers.tid_start[z] + covers.usage[z]):
        t = np.int64(covers.tids[q])
        n_touched = _remove_from(t, z, ONCE, COMMIT, n_inside, n_touched, elements, lists, covers, work)
        covers.changed[t] = stamp
    _clear_buckets(z, elements, lists, work)
    _mark(z, NONE, elements, work)
    _forget(z, n_touched, stamp, elements, covers, work)
    return n_touched


@inlined
def _forget(z: int, n_touched: int, stamp: int, elements: Elements, covers: Covers, work: Work) -> None:
    """Strike the transactions that lost an element from that element's list, after `z` was inserted or removed."""
    z_is_in = work.won[z] > 0
    for k in range(n_touched):
        s = np.int64(work.touched[k])
        if work.lost[s] == 0:
            continue
        if work.lost[s] == covers.usage[s]:
            covers.usage[s] = 0
            continue
        # All that changed use z now, so whoever overlaps z is in none of them; otherwise one must look.
        surely_lost = z_is_in and s != z and _overlap(s, z, elements)
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


@njit
def hand_over(n_touched: int, work: Work, slots: np.ndarray, lost: np.ndarray, won: np.ndarray) -> None:
    """Copy what `try_insert`, `insert`, `try_remove`, `remove` counted, and clean up after them."""
    for k in range(n_touched):
        s = np.int64(work.touched[k])
        slots[k] = s
        lost[k] = work.lost[s]
        won[k] = work.won[s]
        work.lost[s] = 0
        work.won[s] = 0


@njit
def co_usage(x: int, covers: Covers, work: Work) -> int:
    """Count how often each element is in a cover together with `x` (x itself included): `touched` and `row` say so."""
    n_touched = NONE
    for q in range(covers.tid_start[x], covers.tid_start[x] + covers.usage[x]):
        base = covers.start[covers.tids[q]]
        for k in range(base + 1, base + 1 + covers.slots[base]):
            s = np.int64(covers.slots[k])
            if work.won[s] == 0:
                work.touched[n_touched] = s
                n_touched += 1
            work.won[s] += 1
    for k in range(n_touched):
        s = np.int64(work.touched[k])
        work.row[k] = work.won[s]
        work.won[s] = 0
    return n_touched


@njit
def move_lists(tid_start: np.ndarray, usage: np.ndarray, new_start: np.ndarray, old: np.ndarray, new: np.ndarray) -> None:
    """Copy every transaction list to its new place in another pool."""
    for s in range(len(usage)):
        for k in range(usage[s]):
            new[new_start[s] + k] = old[tid_start[s] + k]


@njit
def cover_all(
    offsets: np.ndarray, items: np.ndarray, elements: Elements, lists: Lists, work: Work, slots: np.ndarray, ends: np.ndarray
) -> None:
    """The cover of every transaction, from nothing: the slots of transaction t end at ends[t]."""
    end = NONE
    for t in range(len(offsets) - 1):
        n_free = NONE
        for w in range(WORDS):
            work.free_mask[w] = EMPTY
        for j in range(offsets[t], offsets[t + 1]):
            work.free[n_free] = items[j]
            n_free += 1
            for w in range(WORDS):
                work.free_mask[w] |= elements.mask[items[j], w]
        _set_available(NONE, elements.mask, work)
        n_fitting = _collect(NONE, NONE, n_free, NONE, elements, lists, work)
        for f in range(n_fitting):
            s = np.int64(work.fitting[f])
            if n_free == 0:
                break
            if _fits(s, NONE, n_free, elements, work):
                slots[end] = s
                end += 1
                n_free = _take_out(s, n_free, elements, work)
        for k in range(n_free):
            slots[end] = work.free[k]
            end += 1
        ends[t] = end
