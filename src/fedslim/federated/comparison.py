"""Compare a federation's code table with that of all data in one place, and with what each member finds alone.

This is separate from the simulation, so that it does not add to a federation's time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedslim.data import TransactionDatabase
from fedslim.federated.simulation import Simulation
from fedslim.mdl.codetable import CodeTable
from fedslim.mdl.driver import Stop
from fedslim.mdl.mining import mine
from fedslim.mdl.policy import WIDTH
from fedslim.metrics import DiscoveryGap, Fidelity, discovery_gap, fidelity
from fedslim.metrics.gap import GapItemset
from fedslim.metrics.reference import LabelledTable, ratio

FIGURES = ("f1", "precision", "recall", "wr50", "wr100", "rho", "gap", "gap_recovered", "grr")
"""The figures that a comparison adds to the record of a simulation."""


NOT_COMPARED: dict[str, None] = dict.fromkeys(FIGURES)  # the figures of a simulation that was not compared


@dataclass(frozen=True, slots=True)
class MinedAlone:
    """The tables that members find alone, and what they miss of a reference; the same for all variants."""

    reference: LabelledTable
    local_tables: tuple[CodeTable, ...]
    gap: DiscoveryGap


@dataclass(frozen=True, slots=True)
class Comparison(MinedAlone):
    """Agreement with the reference, the discovery gap, and how much of it the federation recovered.

    `recovered` has the itemsets of the gap that the federation found, by descending usage in the reference.
    """

    fidelity: Fidelity
    recovered: tuple[GapItemset, ...]

    @property
    def grr(self) -> float:
        """GRR = |G ∩ B| / |G|; 1 if the gap is empty."""
        return ratio(len(self.recovered), len(self.gap))

    def as_dict(self) -> dict[str, Any]:
        """Return all figures by name, ready for JSON."""
        recovery = {"gap": len(self.gap), "gap_recovered": len(self.recovered), "grr": self.grr}
        found = {**self.fidelity.as_dict(), **recovery}
        return {name: found[name] for name in FIGURES}


def mine_alone(  # noqa: PLR0913  # keyword-only options of the search
    databases: Sequence[TransactionDatabase],
    reference: LabelledTable | None = None,
    *,
    width: int = WIDTH,
    effort: int = 1,
    seed: int = 0,
    stop: Stop | None = None,
) -> MinedAlone | None:
    """Mine each member's data alone.

    Args:
        databases: The members' databases.
        reference: The table to compare with; by default, that of all data in one place.
        width: How many candidates each step of the search tries.
        effort: How hard to search.
        seed: The seed of the local search, from effort 3 on.
        stop: If asked to stop, mining ends.

    Returns:
        The members' tables and the discovery gap; None if mining was stopped.
    """
    stop = stop or Stop()
    how: dict[str, Any] = {"width": width, "effort": effort, "seed": seed, "stop": stop}
    if reference is None:
        reference = mine(TransactionDatabase.joined(databases), **how).table
    local_tables = []
    for database in databases:
        if stop.asked:
            return None
        local_tables.append(mine(database, **how).table)
    if stop.asked:
        return None
    return MinedAlone(reference, tuple(local_tables), discovery_gap(reference, local_tables, databases))


def compare(
    simulation: Simulation,
    reference: LabelledTable | None = None,
    *,
    alone: MinedAlone | None = None,
    stop: Stop | None = None,
) -> Comparison | None:
    """Compare a federation's table with a reference and with what each member finds alone.

    Args:
        simulation: The simulation to compare.
        reference: The table to compare with; by default, that of all data in one place, mined with the same width,
            effort and seed.
        alone: The result of `mine_alone`, if it is known already.
        stop: If asked to stop, the comparison ends.

    Returns:
        The comparison; None if it was stopped.

    Examples:
        >>> from fedslim.data import builtin_members
        >>> from fedslim.federated import compare, simulate
        >>> compared = compare(simulate(dict(builtin_members("encounters"))))
        >>> compared.fidelity.f1, compared.grr
        (1.0, 1.0)
    """
    databases = tuple(simulation.databases.values())
    how = {name: getattr(simulation.options, name) for name in ("width", "effort", "seed")}
    alone = alone or mine_alone(databases, reference, **how, stop=stop)
    if alone is None:
        return None
    found = fidelity(alone.reference, simulation.table), alone.gap.recovered_by(simulation.table)
    return Comparison(alone.reference, alone.local_tables, alone.gap, *found)
