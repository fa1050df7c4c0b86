"""Compiles a group of kernels in another process while the first one compiles the rest, see `fedslim._jit.helped_with`.

    python -m fedslim.algorithm1.precompile removal

A group has about half of the work, and shares little with the rest. The kernels go into the cache.
"""

from __future__ import annotations

import sys

import numpy as np
from numba import typeof, types

from fedslim.algorithm1.pairs import PairCounts
from fedslim.algorithm1.ranking import NumberedElements, UnionRanking
from fedslim.mdl.kernels import array_table
from fedslim.mdl.objective import log2_table
from fedslim.mdl.questions import flatten

_TABLE, _I32, _I64 = types.int64[:, ::1], types.int32[::1], types.int64[::1]
_CHANGES = typeof(flatten(()))  # type: ignore[no-untyped-call]


def compile_removal() -> None:
    """Compile the removal of an itemset, by signature, because there is no table to remove one from."""
    array_table.try_removals.compile((_TABLE, _I64, _CHANGES))
    array_table.remove.compile((_TABLE, types.int64, types.int64, _CHANGES, types.int64[:, ::1]))
    array_table.take_from_lists.compile((_TABLE, types.int64))


def compile_ranking() -> None:
    """Compile the ranking of the server in SA and SO."""
    elements = NumberedElements(3)
    elements.usage[:3] = 8
    ranking = UnionRanking(elements, log2_table(64))
    pair = np.zeros(1, np.int32), np.ones(1, np.int32)
    ranking.take_in(np.arange(3, dtype=np.int32), PairCounts(*pair, np.full(1, 8)), 24, 3)
    best = ranking.best()
    if best is not None:
        ranking.reject(best)
    elements.add((0, 1))


GROUPS = {"removal": compile_removal, "ranking": compile_ranking}

if __name__ == "__main__":
    GROUPS[sys.argv[1]]()
