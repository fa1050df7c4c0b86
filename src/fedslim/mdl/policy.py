"""The policy of a search: what may enter the table, the cover order, and how hard to look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedslim.mdl.objective import EXACT, Charge

Order = Literal["usage", "support"]


@dataclass(frozen=True, slots=True)
class Policy:
    """How a search works. The default is SLIM's plain greedy search."""

    pruning: bool = True
    order: Order = "usage"
    max_itemset_size: int | None = None
    min_support: int = 1
    min_count: int = 1
    """Items with a smaller support are dropped at the start, and no itemset enters or stays with a smaller usage."""
    charges: tuple[Charge, ...] = (EXACT,)
    """Applied one after the other, each until no candidate is accepted."""
    look_ahead: int = 1
    """How many of the best candidates each step tries; the one that saves most bits wins."""
    sweep: bool = False
    """Whether to try to remove every itemset after convergence, and to continue if that helped."""
