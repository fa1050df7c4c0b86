"""Kernels that find their arrays in an array table.

Passing forty arrays to a kernel takes five microseconds for unpacking Python objects, longer than many questions take
to answer. So a state writes the addresses of its arrays into a table once, one row for each array, and these kernels
read them from there. Only `ArrayTable` writes the table, and it keeps the arrays alive.

The transactions may come from several databases, in which they are counted apart.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, get_type_hints

import numpy as np
from numba import types
from numba.extending import intrinsic
from numba.np import arrayobj
from numba.np.numpy_support import as_dtype

from fedslim._jit import inlined, inner, njit
from fedslim.mdl.kernels import counting, cover, insertion, removal
from fedslim.mdl.kernels.arrays import Covers, Elements, Lists, State, Vertical, Work
from fedslim.mdl.kernels.cover import NONE

if TYPE_CHECKING:
    from fedslim.mdl.questions import Changes

COLUMNS = 3
"""Numbers in a row: the address of an array, its length, and how many columns it has. A flag has only the first."""


class Field(NamedTuple):
    """One field of a group of arrays, and its row in the table."""

    name: str
    row: int
    type: Any  # the numba type
    columns: int | None = None  # None if the number of columns is not constant

    def describe(self, value: Any) -> tuple[int, int, int]:
        """Return the row of this array or flag; raise TypeError if the array is not what the field declares."""
        if self.type is types.boolean:
            return int(value), 0, 0
        columns = value.shape[1] if value.ndim > 1 else 1
        if (
            value.dtype != as_dtype(self.type.dtype)
            or value.ndim != self.type.ndim
            or not value.flags.c_contiguous
            or self.columns not in {None, columns}
        ):
            expected = f"{self.type} with {self.columns} columns" if self.columns else f"{self.type}"
            msg = f"{self.name} must be {expected}, not {value.dtype} of shape {value.shape}, strides {value.strides}"
            raise TypeError(msg)
        return value.ctypes.data, len(value), columns


_rows = count()
LAYOUT: dict[type, list[Field]] = {
    group: [
        Field(f"{group.__name__}.{name}", next(_rows), *hint.__metadata__)
        for name, hint in get_type_hints(group, include_extras=True).items()
    ]
    for group in (Elements, Lists, Covers, Vertical, Work)
}
ROWS = next(_rows)


class ArrayTable:
    """The groups of arrays, and `rows` with the address of each array. Only `use` replaces a group."""

    elements: Elements
    lists: Lists
    covers: Covers
    vertical: Vertical
    work: Work

    def __init__(self, elements: Elements, lists: Lists, covers: Covers, vertical: Vertical, work: Work) -> None:
        self.rows = np.zeros((ROWS, COLUMNS), np.int64)
        for group in (elements, lists, covers, vertical, work):
            self.use(group)

    def use(self, group: Elements | Lists | Covers | Vertical | Work) -> None:
        """Replace the group of the same kind; if an array is not what the group declares, raise TypeError instead."""
        kind = type(group)
        fields = LAYOUT[kind]
        rows = [field.describe(value) for field, value in zip(fields, group, strict=True)]
        self.rows[fields[0].row : fields[-1].row + 1] = rows
        setattr(self, kind.__name__.lower(), group)


def _make_reader(group: type) -> Any:
    """Make the function with which kernels read a group of arrays from the table."""
    fields = LAYOUT[group]
    group_type = types.NamedTuple([field.type for field in fields], group)

    @intrinsic
    def read(_typing: Any, table: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            numbers = arrayobj.make_array(table)(context, builder, args[0]).data

            def constant(number: int) -> Any:
                return context.get_constant(types.intp, number)

            def read_field(field: Field) -> Any:
                begin = COLUMNS * field.row
                address, length, columns = (
                    builder.load(builder.gep(numbers, [constant(begin + k)])) for k in range(COLUMNS)
                )
                if field.type is types.boolean:
                    return builder.icmp_unsigned("!=", address, constant(0))
                array = arrayobj.make_array(field.type)(context, builder)
                size = constant(field.type.dtype.bitwidth // 8)
                shape, strides = [length], [size]
                if field.type.ndim > 1:
                    # The compiler unrolls loops over a constant number of columns.
                    columns = columns if field.columns is None else constant(field.columns)
                    shape, strides = [length, columns], [builder.mul(size, columns), size]
                pointer = builder.inttoptr(address, array.data.type)
                arrayobj.populate_array(array, pointer, shape, strides, size, meminfo=None)
                return array._getvalue()  # noqa: SLF001  # numba has no public way to get it

            return context.make_tuple(builder, group_type, [read_field(field) for field in fields])

        return group_type(table), generate

    return read


_elements, _lists, _covers, _vertical, _work = map(_make_reader, LAYOUT)


@inlined
def _state(table: np.ndarray) -> State:
    return State(_elements(table), _lists(table), _covers(table), _work(table))


@inlined
def _reset(n_touched: int, work: Work) -> None:
    for k in range(n_touched):
        work.lost[work.touched[k]] = work.won[work.touched[k]] = 0


@inner
def _hand_over(
    n_touched: int,
    begin: int,
    ends: np.ndarray,
    slots: np.ndarray,
    lost: np.ndarray,
    won: np.ndarray,
    covers: Covers,
    work: Work,
) -> int:
    """Write the touched slots and their counts from `begin` on, and reset them for the next trial; return the new end.

    Those of database p end at ends[p].
    """
    parts, capacity = len(ends), len(covers.usage)
    for p in range(parts):
        ends[p] = 0
    if parts > 1:
        for k in range(n_touched):
            ends[work.touched[k] // capacity] += 1
    end = begin
    for p in range(parts):  # where those of p begin, which moves on to where they end
        n = ends[p]
        ends[p] = end
        end += n
    for k in range(n_touched):
        s = np.int64(work.touched[k])
        p = s // capacity if parts > 1 else NONE
        place = ends[p]
        slots[place], lost[place], won[place] = s - p * capacity, work.lost[s], work.won[s]
        ends[p] += 1
    _reset(n_touched, work)
    return begin + n_touched


@njit
def add_to_lists(table: np.ndarray, z: int) -> None:
    """See `counting.add_to_lists`."""
    counting.add_to_lists(z, _elements(table), _lists(table))


@njit
def take_from_lists(table: np.ndarray, z: int) -> None:
    """See `counting.take_from_lists`."""
    counting.take_from_lists(z, _elements(table), _lists(table))


@njit
def co_usages(table: np.ndarray, xs: np.ndarray, ends: np.ndarray, slots: np.ndarray, counts: np.ndarray) -> int:
    """Count the co-usages of several elements: those of xs[r] in database p of n end at ends[r * n + p].

    Return how many rows there was room for.
    """
    covers, work = _covers(table), _work(table)
    end, n = NONE, work.group_count.shape[1]
    for r in range(len(xs)):
        if end + min(len(work.touched), covers.usage[xs[r]] * len(work.free)) > len(slots):
            return r
        n_touched = counting.co_usage(np.int64(xs[r]), covers, work)
        # Nothing is lost, so one array serves both counts.
        end = _hand_over(n_touched, end, ends[r * n : r * n + n], slots, counts, counts, covers, work)
    return len(xs)


@njit
def entries(table: np.ndarray, xs: np.ndarray, ends: np.ndarray, others: np.ndarray, found: np.ndarray) -> None:
    """Count the co-usages of xs[r] with the others before ends[r]; `found` has a row for each database."""
    covers, work = _covers(table), _work(table)
    k, capacity = NONE, len(covers.usage)
    for r in range(len(xs)):
        n_touched = counting.co_usage(np.int64(xs[r]), covers, work)
        while k < ends[r]:
            for p in range(len(found)):
                found[p, k] = work.won[p * capacity + others[k]]
            k += 1
        _reset(n_touched, work)


@njit
def try_insert(table: np.ndarray, z: int, room: Changes) -> None:
    """See `insertion.try_insert`; what `z` touches in database p goes into the room for trial p."""
    state = _state(table)
    n_touched = insertion.try_insert(z, _vertical(table), state)
    _, slots, lost, won = room
    own = room.ends[: state.work.group_count.shape[1]]
    _hand_over(n_touched, NONE, own, slots, lost, won, state.covers, state.work)


@njit
def try_removals(table: np.ndarray, zs: np.ndarray, room: Changes) -> int:
    """See `removal.try_remove`, for several elements: what zs[r] touches in database p of n is trial r * n + p.

    Return how many elements there was room for.
    """
    state, (ends, slots, lost, won) = _state(table), room
    end, n = NONE, state.work.group_count.shape[1]
    for r in range(len(zs)):
        if end + len(state.work.touched) > len(slots):
            return r
        n_touched = removal.try_remove(np.int64(zs[r]), state)
        own = ends[r * n : r * n + n]
        end = _hand_over(n_touched, end, own, slots, lost, won, state.covers, state.work)
    return len(zs)


@inlined
def _make_room(changes: Changes, covers: Covers, work: Work) -> bool:
    """Make room for every transaction list that will grow; return False, and do nothing, if the pool is too small."""
    n_touched = wanted = NONE
    slots, won = changes.slots, changes.won
    for k in range(len(slots)):
        if won[k] > 0:
            n_touched = cover.touch(np.int64(slots[k]), n_touched, work)
            work.won[slots[k]] += won[k]
    for k in range(n_touched):
        s = np.int64(work.touched[k])
        length = covers.usage[s] + work.won[s]
        if length > covers.room[s]:
            wanted += length + length // 4 + 8
    enough = covers.pool_end[0] + wanted <= len(covers.tids)
    for k in range(n_touched):
        s = np.int64(work.touched[k])
        length = covers.usage[s] + work.won[s]
        if enough and length > covers.room[s]:
            begin, end = covers.tid_start[s], covers.pool_end[0]
            for j in range(covers.usage[s]):
                covers.tids[end + j] = covers.tids[begin + j]
            covers.tid_start[s] = end
            covers.room[s] = length + length // 4 + 8
            covers.pool_end[0] = end + covers.room[s]
    _reset(n_touched, work)
    return enough


@inlined
def _count_apart(changes: Changes, usages: np.ndarray) -> None:
    """Correct the usages in each database, where there are several."""
    k = NONE
    for p in range(usages.shape[1]):
        while k < changes.ends[p]:
            usages[changes.slots[k], p] += changes.won[k] - changes.lost[k]
            k += 1


@njit
def insert(table: np.ndarray, z: int, stamp: int, changes: Changes, usages: np.ndarray) -> bool:
    """See `insertion.insert`; return False, and do nothing, if the pool has too little room for what the trial found.

    `usages` has a column for each database, but none if there is only one.
    """
    state = _state(table)
    if not _make_room(changes, state.covers, state.work):
        return False
    _reset(insertion.insert(z, stamp, state), state.work)
    _count_apart(changes, usages)
    return True


@njit
def remove(table: np.ndarray, z: int, stamp: int, changes: Changes, usages: np.ndarray) -> bool:
    """See `removal.remove`, and `insert` for the rest."""
    state = _state(table)
    if not _make_room(changes, state.covers, state.work):
        return False
    _reset(removal.remove(z, stamp, state), state.work)
    _count_apart(changes, usages)
    return True
