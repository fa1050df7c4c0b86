"""Run and measure whole federations, simulated or over a network.

simulation = simulate(divide(db, "dirichlet", members=10), variant="x")
compare(simulation).as_dict()
FedSlim(variant="x").fit([rows_a, rows_b]).codetable_
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedslim.federated.comparison import Comparison, compare, mine_alone
    from fedslim.federated.dividing import SCHEMES, divide
    from fedslim.federated.estimator import FedSlim, FedSlimClassifier
    from fedslim.federated.simulation import Simulation, simulate

__all__ = [
    "SCHEMES",
    "Comparison",
    "FedSlim",
    "FedSlimClassifier",
    "Simulation",
    "compare",
    "divide",
    "mine_alone",
    "simulate",
]

# Imported on first use: a simulation does not need scikit-learn.
_HOMES = {
    "comparison": ("Comparison", "compare", "mine_alone"),
    "dividing": ("SCHEMES", "divide"),
    "estimator": ("FedSlim", "FedSlimClassifier"),
    "simulation": ("Simulation", "simulate"),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"fedslim.federated.{module}"), name)
    raise AttributeError(f"module 'fedslim.federated' has no attribute {name!r}")
