"""How the search goes about it: what may enter the table, in which order it covers, how hard to look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedslim.mdl.objective import EXACT, Charge

Order = Literal["usage", "support"]


@dataclass(frozen=True, slots=True)
class Policy:
    """How the search goes about it. The default is SLIM's plain greedy."""

    pruning: bool = True
    order: Order = "usage"
    max_itemset_size: int | None = None
    min_support: int = 1
    min_count: int = 1
    """Items of fewer transactions are dropped at the start, and no itemset enters or stays with a smaller usage."""
    charges: tuple[Charge, ...] = (EXACT,)
    """One after the other, each until nothing is accepted any more."""
    look_ahead: int = 1
    """How many of the best candidates are tried for each step; the best true gain wins."""
    sweep: bool = False
    """Whether to try to remove every element after convergence, and to go on if that helped."""
