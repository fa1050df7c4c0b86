"""Kernels for packed counts and for sketches of sparse vectors.

All arithmetic is modulo 2^64: the sum of packed vectors is the packed vector of the sums, masked or not.
"""

from __future__ import annotations

import numpy as np

from fedslim._jit import inlined, njit

WORD = np.int64(64)
TABLES = np.int64(4)
"""Each entry of a sketch is in one cell of each table. With three tables two of a hundred entries too often share all
their cells; four need fewer cells in all for the few hundred entries that are usual."""

ID_BITS = np.uint64(24)
NARROW_BITS = np.uint64(20)
"""A cell of one word has the value in so many bits, then place and hash; a multiple of 2^k leaves k bits of the hash
unknown, so the value has no more bits than the hash."""
CHECK_WORDS = 2
ONE, ZERO = np.uint64(1), np.uint64(0)
LARGEST_VALUE = np.uint64(1 << 40)


@njit
def read_lanes(words: np.ndarray, bits: int, counts: np.ndarray) -> bool:
    """Unpack counts; return False if an unused bit is set, which means an overflow."""
    per_word = WORD // bits
    mask = (ONE << np.uint64(bits)) - ONE
    place = np.int64(0)
    for w in range(len(words)):
        rest = words[w]
        for _ in range(min(per_word, len(counts) - place)):
            counts[place] = np.int64(rest & mask)
            rest >>= np.uint64(bits)
            place += 1
        if rest != ZERO:
            return False
    return True


@njit
def put_rows(
    out: np.ndarray,
    base: int,
    bits: np.ndarray,
    length: int,
    ends: np.ndarray,
    places: np.ndarray,
    counts: np.ndarray,
) -> int:
    """Add counts at their places to vectors one after another, each modulo 2^bits with its own number of bits.

    Of each vector there is one for each member, which goes to the member's row of words, from word `base` on. The
    entries of vector v of member p of n end before ends[v * n + p]; each vector starts at a new word. Return the index
    of the first invalid place, or -1.
    """
    k, n = np.int64(0), len(out)
    for r in range(len(ends)):
        width = np.int64(bits[r // n])
        per_word = WORD // width
        mask = (ONE << np.uint64(width)) - ONE
        while k < ends[r]:
            place = np.int64(places[k])
            if place < 0 or place >= length:
                return np.int64(k)
            word = place // per_word
            out[r % n, base + word] += (np.uint64(counts[k]) & mask) << np.uint64(width * (place - word * per_word))
            k += 1
        if r % n == n - 1:
            base += (length + per_word - 1) // per_word
    return np.int64(-1)


@inlined
def _mix(value: np.uint64, seed: np.uint64) -> np.uint64:
    """Hash with the finaliser of splitmix64: every bit of the result depends on every bit of the value."""
    z = (value + ONE) * np.uint64(0x9E3779B97F4A7C15) + seed * np.uint64(0xD1342543DE82EF95)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inlined
def _code(place: np.uint64, seed: np.uint64, size: int) -> np.uint64:
    """Return the place in the low bits and a hash above, which distinguishes one entry from a sum of several.

    If a cell has one word, its lowest bits are those of the sum of values: the code has a 1 there.
    """
    code = (_mix(place, seed ^ np.uint64(0xA5A5A5A5)) << ID_BITS) | place
    return (code << NARROW_BITS) | ONE if size == 1 else code


@inlined
def _value(words: np.ndarray, cell: int, size: int) -> np.uint64:
    """Return the sum of the values in a cell; a negative one is modulo 2^64."""
    if size > 1:
        return words[size * cell + 1]
    unused = np.int64(WORD - np.int64(NARROW_BITS))
    return np.uint64((np.int64(words[cell]) << unused) >> unused)


@inlined
def _cell(hashed: np.uint64, table: int, per_table: int) -> int:
    turned = (hashed >> np.uint64(16 * table)) | (hashed << np.uint64((64 - 16 * table) % 64))
    return table * per_table + np.int64(((turned >> np.uint64(32)) * np.uint64(per_table)) >> np.uint64(32))


@inlined
def _add(out: np.ndarray, per_table: int, size: int, seed: np.uint64, place: np.uint64, value: np.uint64) -> None:
    """Add one entry, or remove it with the negative value modulo 2^64."""
    hashed = _mix(place, seed)
    code = _code(place, seed, size) * value
    for table in range(TABLES):
        cell = _cell(hashed, table, per_table)
        out[size * cell] += code
        if size > 1:
            out[size * cell + 1] += value
    end = size * TABLES * per_table
    out[end] += _mix(place, seed ^ np.uint64(0x3C3C3C3C)) * value
    out[end + 1] += _mix(place, seed ^ np.uint64(0x5A5A5A5A)) * value


@njit
def put_sketch(
    out: np.ndarray,
    per_table: int,
    size: int,
    seed: int,
    universe: int,
    places: np.ndarray,
    counts: np.ndarray,
) -> bool:
    """Add entries to a sketch, whose cells have `size` words; return whether they are valid."""
    for k in range(len(places)):
        place = np.int64(places[k])
        if counts[k] < 0 or place < 0 or place >= universe:
            return False
        if counts[k] != 0:
            _add(out, np.int64(per_table), np.int64(size), np.uint64(seed), np.uint64(place), np.uint64(counts[k]))
    return True


@njit
def put_pairs(
    out: np.ndarray,
    per_table: int,
    size: int,
    seed: int,
    universe: int,
    ends: np.ndarray,
    slots: np.ndarray,
    even: np.ndarray,
    odd: np.ndarray,
) -> bool:
    """The same for several parts of the universe, of equal size: slot s of a part has the places 2s and 2s + 1 in it.

    Each member has a sketch, a row of `out`. The slots of part r of member p of n end before ends[r * n + p].
    """
    k, n = np.int64(0), len(out)
    span = universe // (len(ends) // n)
    for r in range(len(ends)):
        own, first = out[r % n], r // n * span
        while k < ends[r]:
            slot = np.int64(slots[k])
            if even[k] < 0 or odd[k] < 0 or slot < 0 or 2 * slot >= span:
                return False
            for place, count in ((first + 2 * slot, even[k]), (first + 2 * slot + 1, odd[k])):
                if count != 0:
                    _add(own, np.int64(per_table), np.int64(size), np.uint64(seed), np.uint64(place), np.uint64(count))
            k += 1
    return True


@inlined
def _inverse(odd: np.uint64) -> np.uint64:
    """Return 1/odd modulo 2^64 by Newton's iteration: each step doubles the number of correct bits."""
    x = odd * np.uint64(3) ^ np.uint64(2)
    for _ in range(4):
        x *= np.uint64(2) - odd * x
    return x


@inlined
def _alone(words: np.ndarray, cell: int, per_table: int, size: int, seed: np.uint64, universe: np.uint64) -> np.int64:
    """Return the place of the only entry in a cell, or -1 if it has none or several."""
    value, coded = _value(words, cell, size), words[size * cell]
    if value == ZERO or min(value, ZERO - value) >= LARGEST_VALUE:
        return np.int64(-1)
    odd, twos = value, ZERO
    while odd & ONE == ZERO:
        odd >>= ONE
        twos += ONE
    if coded & ((ONE << twos) - ONE) != ZERO:
        return np.int64(-1)
    below = NARROW_BITS if size == 1 else ZERO
    place = (((coded >> twos) * _inverse(odd)) >> below) & ((ONE << ID_BITS) - ONE)
    if place >= universe or _code(place, seed, size) * value != coded:
        return np.int64(-1)
    table = cell // per_table
    if _cell(_mix(place, seed), table, per_table) != cell:
        return np.int64(-1)
    return np.int64(place)


@njit
def read_sketch(
    words: np.ndarray, per_table: int, size: int, seed: int, universe: int, places: np.ndarray, counts: np.ndarray
) -> int:
    """Read and remove the entries of a sketch; return their number, or -1 if there are too many to decode.

    A cell with a single entry reveals it. Removing the entry from its other cells may leave single entries there, and
    so on.
    """
    cells = TABLES * per_table
    found = np.int64(0)
    seed_word = np.uint64(seed)
    progress = True
    while progress:
        progress = False
        for cell in range(cells):
            place = _alone(words, np.int64(cell), np.int64(per_table), np.int64(size), seed_word, np.uint64(universe))
            if place < 0:
                continue
            if found == len(places):
                return np.int64(-1)
            value = _value(words, np.int64(cell), np.int64(size))
            places[found] = place
            counts[found] = np.int64(value)
            found += 1
            _add(words, np.int64(per_table), np.int64(size), seed_word, np.uint64(place), ZERO - value)
            progress = True
    for w in range(len(words)):
        if words[w] != ZERO:
            return np.int64(-1)
    return found


@inlined
def _field(word: int, end: int, width: int) -> tuple[int, int]:
    """Return the word and the first bit of a field, where the one before it ends at bit `end` of its word."""
    if end + width > WORD:
        return word + 1, np.int64(0)
    return word, end


@njit
def put_fields(out: np.ndarray, widths: np.ndarray, counts: np.ndarray) -> None:
    """Write counts into consecutive fields of different widths; a field that does not fit starts a new word.

    Each member has a row of counts and a row of words.
    """
    word, end = np.int64(0), np.int64(0)
    for k in range(len(widths)):
        width = np.int64(widths[k])
        word, first = _field(word, end, width)
        mask = (ONE << np.uint64(width)) - ONE
        for p in range(len(out)):
            out[p, word] |= (np.uint64(counts[p, k]) & mask) << np.uint64(first)
        end = first + width


@njit
def read_fields(words: np.ndarray, widths: np.ndarray, counts: np.ndarray) -> None:
    """Read counts from consecutive fields."""
    word, end = np.int64(0), np.int64(0)
    for k in range(len(widths)):
        width = np.int64(widths[k])
        word, first = _field(word, end, width)
        counts[k] = np.int64((words[word] >> np.uint64(first)) & ((ONE << np.uint64(width)) - ONE))
        end = first + width


@njit
def place_fields(widths: np.ndarray, words: np.ndarray) -> int:
    """Write the word of each field; return how many words there are."""
    word, end = np.int64(-1), WORD
    for k in range(len(widths)):
        width = np.int64(widths[k])
        word, first = _field(word, end, width)
        words[k] = word
        end = first + width
    return word + 1


MORE = np.int64(128)  # in a byte of a number: another one follows


@njit
def write_steps(steps: np.ndarray, data: np.ndarray) -> int:
    """Write numbers, a small one as one byte, so that compression finds the frequent ones; return the bytes written."""
    n = np.int64(0)
    for k in range(len(steps)):
        rest = steps[k]
        while rest >= MORE:
            data[n] = MORE + rest % MORE
            n += 1
            rest //= MORE
        data[n] = rest
        n += 1
    return n


@njit
def read_steps(data: np.ndarray, longest: int, steps: np.ndarray) -> int:
    """Read such numbers; return how many there are, or -1 if one is cut short or has more than `longest` bytes."""
    n, place = np.int64(0), np.int64(0)
    steps[:1] = 0
    for k in range(len(data)):
        byte = np.int64(data[k])
        steps[n] += (byte % MORE) << (7 * place)
        place += 1
        if byte < MORE:
            n, place = n + 1, np.int64(0)
            if n < len(steps):
                steps[n] = 0
        elif place == longest:
            return np.int64(-1)
    return n if place == 0 else np.int64(-1)
