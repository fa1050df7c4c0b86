"""What each itemset of a table is worth: the additional bits that the data would take without it.

worth(database, table)[k]   # the worth of table.itemsets[k]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedslim.mdl.cover_state import CoverState
from fedslim.mdl.kernels.gain import bits_after
from fedslim.mdl.objective import log2_table, standard_length

if TYPE_CHECKING:
    from fedslim.data import TransactionDatabase
    from fedslim.mdl.codetable import CodeTable


def worth(database: TransactionDatabase, table: CodeTable) -> list[float]:
    """Return ΔL of each itemset in cover order: L(D, CT without it) − L(D, CT), with new covers.

    The table must have been mined from this database; otherwise its usages do not match the covers.
    """
    state = CoverState(database)
    slots = []
    for items, _, _, entry in table.found:
        slot = state.table.next_slot()
        state.insert(slot, items, entry)
        slots.append(slot)
    standard = np.zeros(state.table.capacity)
    standard[: database.n_items] = table.standard_lengths
    for slot, (items, _, _, _) in zip(slots, table.found, strict=True):
        standard[slot] = standard_length(items, table.standard_lengths)
    usages = state.usages
    total, in_use = int(usages.sum()), int(np.count_nonzero(usages))
    logs = log2_table(total)
    return [
        bits_after(usages[change.slots], change.won - change.lost, standard[change.slots], total, in_use, logs)
        for change in state.try_removals(tuple(slots))
    ]
