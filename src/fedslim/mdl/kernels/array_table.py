"""Kernels that find their arrays in an address book.

Handing forty arrays to a kernel takes longer than many a question takes to answer: five microseconds of looking at
Python objects. So a state writes down once where its arrays are, in an array of numbers, and the kernels here read it
from there. The book belongs to whoever keeps the arrays alive: see `mdl/array_table.py`, the only one who writes it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic
from numba.np import arrayobj
from numba.np.numpy_support import from_dtype

from fedslim._jit import inlined, inner, njit
from fedslim.mdl.kernels import counting, insertion, removal
from fedslim.mdl.kernels.arrays import WORDS, Covers, Elements, Lists, Vertical, Work
from fedslim.mdl.kernels.cover import NONE, NOT

LINE = 3
"""Numbers for each array: its address, its length, and how many columns it has."""

ELEMENTS, LISTS, COVERS, VERTICAL, WORK = 0, 6, 12, 20, 24
LINES = WORK + 24


def _reader(dtype: type, dimensions: int = 1, columns: int | None = None) -> Any:
    """A function for kernels: the array on a line of the book."""
    element = from_dtype(np.dtype(dtype))
    array_type = types.Array(element, dimensions, "C")
    width = np.dtype(dtype).itemsize

    @intrinsic
    def read(_context: Any, _address: Any, _length: Any, _columns: Any) -> Any:
        def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            address, length, n_columns = args
            array = arrayobj.make_array(array_type)(context, builder)
            pointer = builder.inttoptr(address, context.get_data_type(element).as_pointer())
            size = context.get_constant(types.intp, width)
            if dimensions == 1:
                shape, strides = [length], [size]
            else:
                # A constant number of columns lets the compiler lay loops over them out flat.
                n_columns = n_columns if columns is None else context.get_constant(types.intp, columns)
                shape, strides = [length, n_columns], [builder.mul(size, n_columns), size]
            arrayobj.populate_array(array, pointer, shape, strides, size, meminfo=None)
            return array._getvalue()  # noqa: SLF001  # numba's own way of handing out what it made

        return array_type(types.int64, types.int64, types.int64), codegen

    return read


_i32, _i64, _u8, _u64 = (_reader(t) for t in (np.int32, np.int64, np.uint8, np.uint64))
_u64_table, _masks = _reader(np.uint64, 2), _reader(np.uint64, 2, WORDS)


@inlined
def _at(book: np.ndarray, line: int) -> tuple[int, int, int]:
    return book[LINE * line], book[LINE * line + 1], book[LINE * line + 2]


@inlined
def _elements(book: np.ndarray) -> Elements:
    k = ELEMENTS
    return Elements(
        _i32(*_at(book, k)),
        _i32(*_at(book, k + 1)),
        _i64(*_at(book, k + 2)),
        _i32(*_at(book, k + 3)),
        _masks(*_at(book, k + 4)),
        book[LINE * (k + 5)] != 0,
    )


@inlined
def _lists(book: np.ndarray) -> Lists:
    k = LISTS
    return Lists(
        _i64(*_at(book, k)),
        _i32(*_at(book, k + 1)),
        _i64(*_at(book, k + 2)),
        _i32(*_at(book, k + 3)),
        _i32(*_at(book, k + 4)),
        _i64(*_at(book, k + 5)),
    )


@inlined
def _covers(book: np.ndarray) -> Covers:
    k = COVERS
    return Covers(
        _i64(*_at(book, k)),
        _i32(*_at(book, k + 1)),
        _i32(*_at(book, k + 2)),
        _i64(*_at(book, k + 3)),
        _i64(*_at(book, k + 4)),
        _i64(*_at(book, k + 5)),
        _i32(*_at(book, k + 6)),
        _i64(*_at(book, k + 7)),
    )


@inlined
def _vertical(book: np.ndarray) -> Vertical:
    k = VERTICAL
    return Vertical(
        _i64(*_at(book, k)), _u64_table(*_at(book, k + 1)), _i64(*_at(book, k + 2)), _i32(*_at(book, k + 3))
    )


@inlined
def _work(book: np.ndarray) -> Work:
    k = WORK
    return Work(
        _i64(*_at(book, k)),
        _i64(*_at(book, k + 1)),
        _i32(*_at(book, k + 2)),
        _i64(*_at(book, k + 3)),
        _u8(*_at(book, k + 4)),
        _i64(*_at(book, k + 5)),
        _i32(*_at(book, k + 6)),
        _i32(*_at(book, k + 7)),
        _i64(*_at(book, k + 8)),
        _i32(*_at(book, k + 9)),
        _i32(*_at(book, k + 10)),
        _i32(*_at(book, k + 11)),
        _u64(*_at(book, k + 12)),
        _i32(*_at(book, k + 13)),
        _i64(*_at(book, k + 14)),
        _i32(*_at(book, k + 15)),
        _i32(*_at(book, k + 16)),
        _i32(*_at(book, k + 17)),
        _i32(*_at(book, k + 18)),
        _u64(*_at(book, k + 19)),
        _u64(*_at(book, k + 20)),
        _i64(*_at(book, k + 21)),
        _i64(*_at(book, k + 22)),
        _i64(*_at(book, k + 23)),
    )


@inner
def _hand_over(n_touched: int, work: Work) -> None:
    """Put what was counted beside the touched slots, and clean up for the next count."""
    for k in range(n_touched):
        s = np.int64(work.touched[k])
        work.lost_of[k] = work.lost[s]
        work.won_of[k] = work.won[s]
        work.lost[s] = 0
        work.won[s] = 0


@njit
def add_to_lists(book: np.ndarray, z: int) -> None:
    """See `counting.add_to_lists`."""
    counting.add_to_lists(z, _elements(book), _lists(book))


@njit
def take_from_lists(book: np.ndarray, z: int) -> None:
    """See `counting.take_from_lists`."""
    counting.take_from_lists(z, _elements(book), _lists(book))


@njit
def co_usages(book: np.ndarray, xs: np.ndarray, ends: np.ndarray, slots: np.ndarray, counts: np.ndarray) -> int:
    """`counting.co_usage` of several elements: the entries of row r end at ends[r].

    Returns how many rows there was room for.
    """
    covers, work = _covers(book), _work(book)
    end = NONE
    for r in range(len(xs)):
        if end + min(len(work.touched), covers.usage[xs[r]] * len(work.free)) > len(slots):
            return r
        n = counting.co_usage(np.int64(xs[r]), covers, work)
        for k in range(n):
            slots[end + k] = work.touched[k]
            counts[end + k] = work.row[k]
        end += n
        ends[r] = end
    return len(xs)


@njit
def try_insert(book: np.ndarray, z: int) -> int:
    """See `insertion.try_insert`; `lost_of` and `won_of` belong to the touched slots."""
    work = _work(book)
    n_touched = insertion.try_insert(z, _elements(book), _lists(book), _covers(book), _vertical(book), work)
    _hand_over(n_touched, work)
    return n_touched


@njit
def try_remove(book: np.ndarray, z: int) -> int:
    """See `removal.try_remove`; `lost_of` and `won_of` belong to the touched slots."""
    work = _work(book)
    n_touched = removal.try_remove(z, _elements(book), _lists(book), _covers(book), work)
    _hand_over(n_touched, work)
    return n_touched


@inlined
def _make_room(slots: np.ndarray, won: np.ndarray, covers: Covers) -> bool:
    """See that every transaction list that will grow has the room to; False, and nothing done, if the pool is full."""
    wanted = NONE
    for k in range(len(slots)):
        length = covers.usage[slots[k]] + won[k]
        if length > covers.room[slots[k]]:
            wanted += length + length // 4 + 8
    if covers.pool_end[0] + wanted > len(covers.tids):
        return False
    if wanted > 0:
        for k in range(len(slots)):
            s = np.int64(slots[k])
            length = covers.usage[s] + won[k]
            if length > covers.room[s]:
                begin, end = covers.tid_start[s], covers.pool_end[0]
                for j in range(covers.usage[s]):
                    covers.tids[end + j] = covers.tids[begin + j]
                covers.tid_start[s] = end
                covers.room[s] = length + length // 4 + 8
                covers.pool_end[0] = end + covers.room[s]
    return True


@njit
def insert(book: np.ndarray, z: int, stamp: int, slots: np.ndarray, won: np.ndarray) -> int:
    """See `insertion.insert`; -1, and nothing done, if the pool has too little room for what the trial said."""
    covers, work = _covers(book), _work(book)
    if not _make_room(slots, won, covers):
        return NOT
    n_touched = insertion.insert(z, work.n_hits[0], stamp, _elements(book), _lists(book), covers, work)
    _hand_over(n_touched, work)
    return NONE


@njit
def remove(book: np.ndarray, z: int, stamp: int, slots: np.ndarray, won: np.ndarray) -> int:
    """See `removal.remove`; -1, and nothing done, if the pool has too little room for what the trial said."""
    covers, work = _covers(book), _work(book)
    if not _make_room(slots, won, covers):
        return NOT
    n_touched = removal.remove(z, stamp, _elements(book), _lists(book), covers, work)
    _hand_over(n_touched, work)
    return NONE
