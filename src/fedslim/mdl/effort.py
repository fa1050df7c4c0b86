"""How hard the search looks: each effort does what the one below does, and continues from there.

    1  one greedy search
    2  greedy searches of several widths; the best table is polished
    3  a local search from there on, and with each further effort one of four times as many iterations

Without an effort, a time limit is used up in the same order. docs/explanation/decisions has the measurements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fedslim.errors import ParameterError
from fedslim.mdl.continued import itemsets_of
from fedslim.mdl.local_search import Segment
from fedslim.mdl.objective import EXACT, Charge
from fedslim.mdl.policy import HIGHEST_EFFORT
from fedslim.mdl.ruins import Experience
from fedslim.mdl.tasks import Greedy, Local

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from fedslim.mdl.local_search import Patch
    from fedslim.mdl.policy import Policy
    from fedslim.mdl.steps import SearchResult
    from fedslim.mdl.tasks import Task, TaskOutcome

FREE = Charge(0.0, 0.0)

WIDTHS = (1, 4, 6, 8, 10, 12, 16, 32)
"""Widths of the greedy searches, besides the policy's own. Because of 1, no table is worse than SLIM's as published."""

CHAINS = 2
"""How many local searches run side by side. They are part of the result, so this does not depend on the machine."""

ITERATIONS = 400
"""After as many iterations the chains meet, and all continue from the best table."""

FIRST_ROUNDS, MORE_ROUNDS = 1, 4
"""How many times the chains meet at effort 3, and how many times more often with each further effort."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What an effort does."""

    several: bool  # whether to try several widths, and to polish the best table
    rounds: int | None = 0  # how many times the chains of a local search run until they meet; None: until stopped

    @property
    def most_tasks(self) -> float:
        """How many tasks it has at most."""
        rounds = math.inf if self.rounds is None else self.rounds
        return 2 + len(WIDTHS) + CHAINS * rounds if self.several else 1


def plan(effort: int | None, *, limited: bool) -> Plan:
    """Return what an effort does; without one, a limited time is used up, and otherwise the effort is 1."""
    if effort is None:
        return Plan(several=True, rounds=None) if limited else Plan(several=False)
    if isinstance(effort, bool) or effort not in range(1, HIGHEST_EFFORT + 1):
        msg = f"effort must be a whole number from 1 to {HIGHEST_EFFORT} or None, not {effort!r}"
        raise ParameterError(msg)
    local = effort - 3
    return Plan(several=effort > 1, rounds=FIRST_ROUNDS * MORE_ROUNDS**local if local >= 0 else 0)


def parts(policy: Policy, plan: Plan, seed: int) -> Generator[Sequence[Task], Sequence[TaskOutcome], None]:
    """Yield the tasks of each part of a plan, and expect their outcomes: the tasks of the next part depend on them."""
    best = best_of((yield [Greedy(policy)]))
    if not plan.several:
        return
    best = best_of((yield [Greedy(replace(policy, width=w)) for w in WIDTHS if w != policy.width]), best)
    polish = replace(policy, charges=(EXACT, FREE), sweep=True)
    best = best_of((yield [Greedy(polish, itemsets_of(best))]), best)
    patches: tuple[Patch, ...] = ()
    experience, number = Experience(), 0
    while number != plan.rounds and (start := itemsets_of(best)):
        segment = Segment(start, ITERATIONS, patches, experience)
        outcomes = yield [Local(policy, segment, (seed, number, chain)) for chain in range(CHAINS)]
        winner = min(outcomes, key=lambda o: o.bits)
        best = best_of(outcomes, best)
        # What the others have found may be an improvement of the best table, too.
        patches = tuple([p for o in outcomes if o is not winner for p in o.patches])
        experience = Experience.mean([o.experience for o in outcomes])
        number += 1


def best_of(outcomes: Sequence[TaskOutcome], best: SearchResult | None = None) -> SearchResult:
    """Return the best of the results, the one before included; of equal ones the first."""
    before = [] if best is None else [best]
    return min([*before, *[o.result for o in outcomes]], key=lambda result: result.bits.total)
