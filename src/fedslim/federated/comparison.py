"""What a federation's table is worth: beside all data in one place, and beside what each member finds alone.

    compared = compare(simulation)
    compared.fidelity.f1, compared.recovery.grr

Apart from the simulation, so that a federation is timed without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedslim.data import TransactionDatabase
from fedslim.mdl.driver import Stop
from fedslim.mdl.mining import mine
from fedslim.metrics import discovery_gap, fidelity, gap_recovery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedslim.federated.simulation import Simulation
    from fedslim.mdl.codetable import CodeTable
    from fedslim.metrics import DiscoveryGap, Fidelity, GapItemset, GapRecovery
    from fedslim.metrics.labelled import LabelledTable

FIGURES = ("f1", "precision", "recall", "wr50", "wr100", "rho", "gap", "gap_recovered", "grr")
"""The names of what a comparison adds to the record of a simulation."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Agreement with the reference, the gap between it and what the members find alone, and how much was closed.

    `recovered` has the itemsets of the gap that the federation found, by falling usage in the reference.
    """

    reference: LabelledTable
    local_tables: tuple[CodeTable, ...]
    fidelity: Fidelity
    gap: DiscoveryGap
    recovery: GapRecovery
    recovered: tuple[GapItemset, ...]

    def as_dict(self) -> dict[str, Any]:
        """Every figure under its plain name, ready for JSON."""
        told = {**self.fidelity.as_dict(), **self.recovery.as_dict()}
        return {name: told[name] for name in FIGURES}

    def gap_as_dict(self) -> dict[str, Any]:
        """The gap, itemset by itemset, and which of them the federation found."""
        found = {itemset.labels for itemset in self.recovered}
        told = self.gap.as_dict()
        rows = zip(self.gap.itemsets, told["itemsets"], strict=True)
        return {**told, "itemsets": [{**row, "recovered": itemset.labels in found} for itemset, row in rows]}


NOT_COMPARED: dict[str, None] = dict.fromkeys(FIGURES)
"""What stands in the record of a simulation that was not compared with anything."""


@dataclass(frozen=True, slots=True)
class MinedAlone:
    """What each member finds by itself, and what is then missing of a reference: the same for every variant."""

    reference: LabelledTable
    local_tables: tuple[CodeTable, ...]
    gap: DiscoveryGap


def mine_alone(
    databases: Sequence[TransactionDatabase], reference: LabelledTable | None = None, *, stop: Stop | None = None
) -> MinedAlone | None:
    """Mine each member by itself.

    Args:
        databases: Those of the members.
        reference: The table to compare with: the one that mining all data in one place gives, if left out.
        stop: Ends the mining when it is asked to.

    Returns:
        What they find; None if it was stopped.
    """
    stop = stop or Stop()
    if reference is None:
        reference = mine(TransactionDatabase.joined(databases), stop=stop).table
    local_tables = []
    for database in databases:
        if stop.asked:
            return None
        local_tables.append(mine(database, stop=stop).table)
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
    """Compare what a federation found with a reference and with what each member finds alone.

    Args:
        simulation: What to compare.
        reference: The table to compare with: the one that mining all data in one place gives, if left out.
        alone: What the members find by themselves and the reference, if that is known already.
        stop: Ends the comparing when it is asked to.

    Returns:
        The comparison; None if it was stopped.

    Examples:
        >>> from fedslim.data import builtin_members
        >>> from fedslim.federated import compare, simulate
        >>> compared = compare(simulate(dict(builtin_members("encounters"))))
        >>> compared.fidelity.f1, compared.recovery.grr
        (1.0, 1.0)
    """
    alone = alone or mine_alone(tuple(simulation.databases.values()), reference, stop=stop)
    if alone is None:
        return None
    found = {frozenset(row.labels) for row in simulation.table.itemsets}
    return Comparison(
        alone.reference,
        alone.local_tables,
        fidelity(alone.reference, simulation.table),
        alone.gap,
        gap_recovery(alone.gap, simulation.table),
        tuple(itemset for itemset in alone.gap.itemsets if frozenset(itemset.labels) in found),
    )
