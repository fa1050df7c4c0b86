"""How hard the search looks: each effort includes the runs of the lower ones, and the best table wins.

    1  the plain greedy search, which takes the first candidate that compresses better
    2  the same, polished: it then tries candidates with an optimistic estimate, and tests each itemset again
    3  also with optimistic estimates from the start
    4  also with the best of several candidates at each step

Polishing starts where the plain greedy search ends and takes only improvements, so a higher effort never ends worse
than a lower one. The cheapest run comes first, because of time limits. docs/explanation/decisions has the measurements.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fedslim.errors import ParameterError
from fedslim.mdl.objective import EXACT, Charge

if TYPE_CHECKING:
    from fedslim.mdl.policy import Policy

HALF = Charge(0.5, 0.5)
CHEAPER = Charge(1.0, 0.0)
FREE = Charge(0.0, 0.0)

HIGHEST_EFFORT = 4


def policies(plain: Policy, effort: int) -> list[Policy]:
    """Return the policies of the runs that make up an effort, cheapest first."""
    if isinstance(effort, bool) or effort not in range(1, HIGHEST_EFFORT + 1):
        msg = f"effort must be a whole number from 1 to {HIGHEST_EFFORT}, not {effort!r}; 1 is the plain greedy search"
        raise ParameterError(msg)
    if effort == 1:
        return [plain]

    def polished(*charges: Charge) -> Policy:
        return replace(plain, charges=charges, sweep=True)

    runs = [
        [polished(EXACT, FREE)],
        [polished(CHEAPER, FREE), polished(FREE)],
        [
            polished(EXACT, FREE, look_ahead=10),
            polished(CHEAPER, FREE, look_ahead=10),
            polished(FREE, look_ahead=50),
        ],
    ]
    return [policy for level in runs[: effort - 1] for policy in level]
