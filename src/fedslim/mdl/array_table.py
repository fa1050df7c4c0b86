"""Keeps the arrays of one state, and the address book by which kernels find them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedslim.mdl.kernels import array_table as kernel

if TYPE_CHECKING:
    from fedslim.mdl.kernels.arrays import Covers, Elements, Lists, Vertical, Work


class Book:
    """The groups of arrays, and `lines`: where each array is. Whoever replaces a group says so, and only here."""

    def __init__(self, elements: Elements, lists: Lists, covers: Covers, vertical: Vertical, work: Work) -> None:
        self.lines = np.zeros(kernel.LINE * kernel.LINES, np.int64)
        self.elements, self.lists, self.covers, self.vertical, self.work = elements, lists, covers, vertical, work
        for first, group in (
            (kernel.ELEMENTS, elements),
            (kernel.LISTS, lists),
            (kernel.COVERS, covers),
            (kernel.VERTICAL, vertical),
            (kernel.WORK, work),
        ):
            self._write(first, group)

    def use_elements(self, elements: Elements) -> None:
        """The table has grown."""
        self.elements = elements
        self._write(kernel.ELEMENTS, elements)

    def use_lists(self, lists: Lists) -> None:
        """The lists have grown."""
        self.lists = lists
        self._write(kernel.LISTS, lists)

    def use_covers(self, covers: Covers) -> None:
        """The covers, or their lists of transactions, are elsewhere."""
        self.covers = covers
        self._write(kernel.COVERS, covers)

    def use_work(self, work: Work) -> None:
        """The scratch memory has grown."""
        self.work = work
        self._write(kernel.WORK, work)

    def _write(self, first: int, group: tuple[Any, ...]) -> None:
        for line, array in enumerate(group, first):
            at = slice(kernel.LINE * line, kernel.LINE * (line + 1))
            if isinstance(array, bool):
                self.lines[at] = (array, 0, 0)
                continue
            if not array.flags.c_contiguous:
                msg = "only contiguous arrays can be found by their address"
                raise RuntimeError(msg)
            self.lines[at] = (array.ctypes.data, len(array), array.shape[1] if array.ndim > 1 else 1)
