"""The layout of answers in X: which words answer a want, how a member fills them, how the server reads their sum.

A want is the message itself. An answer is either one sketch or packed vectors, one after the other. Their sizes depend
on the want and on the `Shape`, which server and members know alike. To add a want, give it a case in `sketch_of` or
`vectors_of`, and in `pack` and `read` if its counts need special treatment.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedslim.errors import ProtocolError
from fedslim.mdl import questions as q
from fedslim.mdl.kernels import changes
from fedslim.mdl.kernels.bounds import BoundedRows
from fedslim.protocol import messages as m
from fedslim.protocol.sums import SUMS_CONTRADICT, check_words
from fedslim.secagg import kernels
from fedslim.secagg.ring import MAX_BITS, Fields, Ring, Sketch, Words, put_rows, words_of_rows

Sketched = m.WantSparseRow | m.WantInsertions | m.WantRemovals
Packed = m.WantSupports | m.WantUnionSupport | m.WantRows | m.WantFinal

KINDS: dict[type[m.Want], str] = {
    m.WantSupports: "supports",
    m.WantUnionSupport: "supports",
    m.WantRows: "rows",
    m.WantSparseRow: "rows",
    m.WantEntries: "rows",
    m.WantInsertions: "insertion",
    m.WantRemovals: "removals",
    m.WantFinal: "supports",
}
"""What is asked, for logs and reports."""


MAX_ENTRIES = 1 << 21
"""The most bytes for entries of rows in one question, at least one for each; a search asks for a few thousand."""

MAX_STEP_BYTES = 4
"""A step takes up to four bytes, of seven bits each, and a bit that is set if more follow."""

WIDEST = 15
"""The code of the widest field of an entry, `MAX_BITS`; other codes are half the number of bits."""


class Shape(NamedTuple):
    """What the layout of an answer depends on, besides the want."""

    items: int
    max_transactions: int
    members: int  # 0 if `min_members_with` is 1: then nobody counts how many members have an itemset
    slots: int  # every slot used so far is below it
    itemsets: int = 0  # number of itemsets in the table

    @classmethod
    def at_start(cls, settings: m.Settings, items: int, members: int) -> Shape:
        """Return the shape while the table has no itemsets."""
        return cls(items, settings.max_transactions, members if settings.min_members_with > 1 else 0, items)


class FinalCounts(NamedTuple):
    """The usage and support of each itemset in cover order, how many members use it, and how many have each item."""

    usages: NDArray[np.int64]
    supports: NDArray[np.int64]
    members: NDArray[np.int64] | None = None  # not asked for if `min_members_with` is 1
    members_with_item: NDArray[np.int64] | None = None


def bits_for(bound: int) -> int:
    """Return how many bits a packed count takes whose sum has this bound."""
    return Ring.for_sums_up_to(bound).bits


def sketch_of(want: Sketched, shape: Shape) -> Sketch:
    """Return the sketch that answers a want. Changes have two places for each slot: lost (even) and won (odd)."""
    match want:
        case m.WantInsertions(new):
            places = 2 * _slots_with(new, shape) * len(new)
        case m.WantRemovals(slots):
            places = 2 * shape.slots * len(slots)
        case m.WantSparseRow():
            places = shape.slots
    return Sketch(want.cells, places, want.seed, want.wide)


def vectors_of(want: Packed, shape: Shape) -> list[tuple[int, int]]:
    """Return the packed vectors that answer a want: for each, the bits of a count and the number of counts."""
    match want:
        case m.WantSupports():
            return [(bits_for(shape.max_transactions), shape.items + 1)]
        case m.WantUnionSupport(_, bits):
            return [(bits, 1)]
        case m.WantRows(_, widths):
            return [(bits, shape.slots) for bits in widths]
        case m.WantFinal(bits):
            members = [(bits_for(shape.members), shape.itemsets + shape.items)] if shape.members else []
            return [(bits, 2 * shape.itemsets), *members]


class AskedEntries(NamedTuple):
    """Entries of some rows of the pair matrix: those of rows[r] end before ends[r]."""

    rows: NDArray[np.int64]
    ends: NDArray[np.int64]
    others: NDArray[np.int64]
    widths: NDArray[np.uint8]  # the bits of each count
    fields: Fields  # the layout of the counts


def want_entries(asked: BoundedRows) -> m.WantEntries:
    """Return the want for the entries of some rows."""
    sizes = asked.ends.copy()
    sizes[1:] -= asked.ends[:-1]
    begins, others = asked.ends - sizes, asked.others.astype(np.int64)
    steps = others.copy()
    steps[1:] -= others[:-1]
    there = sizes > 0
    steps[begins[there]] = others[begins[there]]
    written = np.empty(MAX_STEP_BYTES * len(steps), np.uint8)
    # The width is a multiple of two bits, so that four bits are enough to name it.
    code = np.minimum((np.frexp(asked.counts.astype(np.float64))[1] + 1) // 2, WIDEST)
    code = np.maximum(code, 1).astype(np.uint8)
    pairs = np.append(code, np.zeros(len(code) & 1, np.uint8)).reshape(-1, 2)
    return m.WantEntries(
        m.Vector.of(asked.slots[there]),
        m.Vector.of(sizes[there]),
        written[: kernels.write_steps(steps, written)].tobytes(),
        (pairs[:, 0] | pairs[:, 1] << 4).astype(np.uint8).tobytes(),
    )


def _read_steps(data: bytes) -> NDArray[np.int64]:
    """Read numbers that `write_steps` has written; raise `ProtocolError` if one is cut short or too long."""
    steps = np.empty(len(data), np.int64)
    n = kernels.read_steps(np.frombuffer(data, np.uint8), MAX_STEP_BYTES, steps)
    if n <= 0:
        raise ProtocolError("the server asks for entries of rows in a form that is not valid; it is refused")
    return steps[:n]


@lru_cache(maxsize=8)
def entries_of(want: m.WantEntries, slots: int) -> AskedEntries:
    """Return what a want asks for; raise `ProtocolError` if it is not well-formed."""
    # Before any memory is allocated: a step may be 0, so a hostile server could repeat an entry millions of times.
    if max(want.rows.length, want.sizes.length) > slots or len(want.steps) > MAX_ENTRIES:
        msg = f"the server asks for {len(want.steps)} entries of {want.rows.length} rows, too many; it is refused"
        raise ProtocolError(msg)
    rows, sizes, steps = want.rows.values(slots - 1), want.sizes.values(slots), _read_steps(want.steps)
    ends = np.cumsum(sizes)
    named = 2 * len(want.widths) - len(steps) in {0, 1}
    if not len(rows) or len(rows) != len(sizes) or ends[-1] != len(steps) or not named:
        raise ProtocolError("the server asks for entries of rows in a form that is not valid; it is refused")
    codes = np.frombuffer(want.widths, np.uint8)
    codes = np.stack((codes & WIDEST, codes >> 4), axis=1).reshape(-1)[: len(steps)]
    widths = np.where(codes == WIDEST, MAX_BITS, 2 * codes).astype(np.uint8)
    sums = np.cumsum(steps)
    others = sums - np.repeat(np.concatenate(([0], sums))[np.concatenate(([0], ends[:-1]))], sizes)
    if (sizes == 0).any() or (codes == 0).any() or others.max() >= slots:
        raise ProtocolError("the server asks for entries of rows that do not exist; it is refused")
    return AskedEntries(rows, ends, others, widths, Fields(widths))


def words_of(want: m.Want, shape: Shape) -> int:
    """Return how many words of an answer belong to this want."""
    if isinstance(want, m.WantEntries):
        return entries_of(want, shape.slots).fields.words
    if isinstance(want, Sketched):
        return sketch_of(want, shape).words
    return sum([words_of_rows((bits,), length) for bits, length in vectors_of(want, shape)])


def pack(want: m.Want, shape: Shape, members: int, counted: Any) -> Words:
    """Pack the counts of some members into a row of words for each.

    Vectors come in a list, with a row for each member; all else as `PartedCovers` makes it, rows in batches.
    """
    length = words_of(want, shape)
    check_words(length)
    words = np.zeros((members, length), np.uint64)
    match want:
        case m.WantRows(_, bits):
            widths, done, begin = np.frombuffer(bits, np.uint8), 0, 0
            for ends, others, counts in counted:
                some = widths[done : done + len(ends) // members]
                put_rows(words, some, ends, others, counts, length=shape.slots, begin=begin)
                done += len(some)
                begin += words_of_rows(some.tolist(), shape.slots)
        case m.WantEntries():
            entries_of(want, shape.slots).fields.put(words, counted)
        case m.WantSparseRow():
            ends, others, counts = counted
            sketch = sketch_of(want, shape)
            for own, begin, end in zip(words, [0, *ends], ends, strict=False):
                sketch.put(own, others[begin:end], counts[begin:end])
        case m.WantInsertions() | m.WantRemovals():
            sketch_of(want, shape).put_pairs(words, *counted)
        case _:
            begin = 0
            for (width, size), counts in zip(vectors_of(want, shape), counted, strict=True):
                ring, places = Ring(width, (1 << width) - 1), np.arange(size, dtype=np.int32)
                for row, of_one in zip(words, counts, strict=True):
                    ring.put(row[begin:], places, of_one, length=size)
                begin += ring.words(size)
    return words


def read(
    want: m.WantSparseRow | m.WantEntries | Packed, shape: Shape, words: Words, bounds: Sequence[int], known: Any = ()
) -> Any:
    """Read the sum of all answers, except changes; return None if a sketch was too small.

    `bounds` has a proven bound of the sums for each packed vector, `known` the counts of a sparse row that are known,
    and 0 for all other slots: only the others need room in the sketch.
    """
    if isinstance(want, m.WantSparseRow):
        return _read_row(want, sketch_of(want, shape), words, known)
    if isinstance(want, m.WantEntries):
        return entries_of(want, shape.slots).fields.read(words)
    vectors: list[Any] = []
    begin = 0
    for (bits, length), bound in zip(vectors_of(want, shape), bounds, strict=True):
        ring = Ring(bits, bound)
        end = begin + ring.words(length)
        counts = ring.read(words[begin:end], length=length)
        vectors.append(_nonzero(counts) if isinstance(want, m.WantRows) else counts)
        begin = end
    match want:
        case m.WantRows(slots):
            return dict(zip(slots, vectors, strict=True))
        case m.WantFinal():
            split = shape.itemsets
            return FinalCounts(*(half for vector in vectors for half in (vector[:split], vector[split:])))
        case m.WantUnionSupport():
            return int(vectors[0][0])
    return vectors[0]


def _nonzero(counts: NDArray[np.int64]) -> q.SlotCounts:
    slots = np.flatnonzero(counts)
    return q.SlotCounts(slots.astype(np.int32), counts[slots])


def _read_row(
    want: m.WantSparseRow, sketch: Sketch, words: Words, known: NDArray[np.int64]
) -> dict[int, q.SlotCounts] | None:
    hidden = np.zeros(len(words), np.uint64)
    sketch.put(hidden, *_nonzero(known))
    if (found := sketch.read(words - hidden)) is None:
        return None
    if (found[1] < 0).any() or known[found[0]].any():
        raise ProtocolError(SUMS_CONTRADICT)
    known[found[0]] = found[1]
    return {want.slot: _nonzero(known)}


def read_changes(
    want: m.WantInsertions | m.WantRemovals, shape: Shape, words: Words, expected: Sequence[q.Change] = ()
) -> tuple[tuple[q.Change, ...] | None, list[int]]:
    """Read the sum of changes, given what is expected of each; also return how many entries of each are different.

    Only those need room in the sketch. If it was too small, return None.
    """
    sketch, guess = sketch_of(want, shape), q.flatten(expected)
    hidden = np.zeros(len(words), np.uint64)
    sketch.put_pairs(hidden[None], *guess)
    found = sketch.read(words - hidden)
    if found is None:
        return None, []
    trials = len(want.new) if isinstance(want, m.WantInsertions) else len(want.slots)
    span, most = sketch.universe // trials, len(found[0]) + len(guess.slots)
    at, different = np.zeros(span // 2, np.int32), np.empty(trials, np.int64)
    read = q.Changes(np.empty(trials, np.int64), np.empty(most, np.int32), *np.empty((2, most), np.int64))
    if not changes.put_together(*found, span, *guess, at, *read, different):
        raise ProtocolError(SUMS_CONTRADICT)
    return read.each(), different.tolist()


def _slots_with(new: Sequence[m.NewUnion], shape: Shape) -> int:
    """Return how many slots the table has with these itemsets."""
    return max(shape.slots, *[one.slot + 1 for one in new])
