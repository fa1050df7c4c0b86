"""The rows of the data that a code table describes worst, with their covers: what is unusual about them.

rows = unusual_rows(table, database)
rows.number[0], rows.excess[0], rows.cover[0]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

if TYPE_CHECKING:
    from fedslim.data import TransactionDatabase
    from fedslim.mdl.codetable import CodeTable

MAX_COVERED = 1_000
"""Maximum rows with their covers in a report."""


class RowsView(msgspec.Struct, frozen=True):
    """Rows, the most unusual first, one list per quantity.

    `excess` is how many bits a row takes beyond those of rows whose single items take as many. `cover` has the items
    (indices into the vocabulary) of each part of the cover, `parts` its bits; `unknown` counts items without a code.
    """

    total: int
    number: list[int]  # counted from 1
    bits: list[float]
    excess: list[float]
    unknown: list[int]
    cover: list[list[list[int]]]
    parts: list[list[float]]


def unusual_rows(table: CodeTable, database: TransactionDatabase) -> RowsView:
    """Return the most unusual rows of a database, at most `MAX_COVERED`."""
    from fedslim.mdl.covering import Covering  # noqa: PLC0415  # loads the kernels

    covering = Covering(table)
    known, strange = covering.known(database)
    ends, elements = covering.cover(known)
    bits = covering.bits(database)
    standard = np.array(table.standard_lengths)
    standard[~np.isfinite(standard)] = 0.0
    alone = np.add.reduceat(np.append(standard[known.items], 0.0), known.offsets[:-1]) * (known.lengths > 0)
    excess = np.zeros_like(bits)
    if len(bits) and np.ptp(alone) > 0:
        excess = bits - np.polyval(np.polyfit(alone, bits, 1), alone)
    chosen = np.lexsort((np.arange(len(bits)), -excess))[:MAX_COVERED].tolist()
    covers = [elements[ends[t - 1] if t else 0 : ends[t]].tolist() for t in chosen]
    return RowsView(
        len(database),
        [t + 1 for t in chosen],
        bits[chosen].round(2).tolist(),
        excess[chosen].round(2).tolist(),
        strange[chosen].tolist(),
        [[list(covering.items_of(element)) for element in cover] for cover in covers],
        [covering.lengths[cover].round(2).tolist() for cover in covers],
    )
