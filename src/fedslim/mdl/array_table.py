"""Holds the arrays of one state, and the table in which kernels find them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedslim.mdl.kernels.array_table import COLUMNS, LAYOUT, ROWS

if TYPE_CHECKING:
    from fedslim.mdl.kernels.arrays import Covers, Elements, Lists, Vertical, Work


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
        """Replace the group of the same kind.

        Raises:
            TypeError: An array is not what the group declares; the table is unchanged.
        """
        kind = type(group)
        fields = LAYOUT[kind]
        rows = [field.describe(value) for field, value in zip(fields, group, strict=True)]
        self.rows[fields[0].row : fields[-1].row + 1] = rows
        setattr(self, kind.__name__.lower(), group)
