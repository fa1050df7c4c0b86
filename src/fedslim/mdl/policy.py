"""The policy of a search: what may enter the table, the cover order, and how hard to look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedslim.mdl.objective import EXACT

Order = Literal["usage", "support"]

WIDTH = 8  # the default width; docs/explanation/decisions/wide-steps.md has the measurements

HIGHEST_EFFORT = 8

MAX_WIDTH = 64  # wider steps find worse tables, and in a federation each candidate of a step makes a question longer


@dataclass(frozen=True, slots=True)
class Policy:
    """How a search works. The default is a greedy search that tries several candidates in each step."""

    pruning: bool = True
    order: Order = "usage"
    max_itemset_size: int | None = None
    min_support: int = 1
    min_count: int = 1
    """Items with a smaller support are dropped at the start, and no itemset enters or stays with a smaller usage."""
    charges: tuple[float, ...] = (EXACT,)  # applied one after the other, each until no candidate is accepted
    width: int = WIDTH  # how many candidates each step tries before it ranks again; 1 is SLIM as published
    sweep: bool = False  # whether to try to remove every itemset after convergence, and to continue if that helped
