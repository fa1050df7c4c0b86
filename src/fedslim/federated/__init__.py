"""Run and measure whole federations, simulated or over a network.

simulation = simulate(divide(db, "dirichlet", members=10), variant="x")
compare(simulation).as_dict()
FedSlim(variant="x").fit([rows_a, rows_b]).codetable_
"""

from typing import TYPE_CHECKING

from fedslim._lazy import names_of

if TYPE_CHECKING:
    from fedslim.federated.comparison import Comparison as Comparison, compare as compare, mine_alone as mine_alone
    from fedslim.federated.dividing import SCHEMES as SCHEMES, divide as divide
    from fedslim.federated.estimator import FedSlim as FedSlim, FedSlimClassifier as FedSlimClassifier
    from fedslim.federated.simulation import Simulation as Simulation, simulate as simulate

__getattr__, __dir__, __all__ = names_of(  # a simulation does not need scikit-learn
    __name__,
    {
        "comparison": ("Comparison", "compare", "mine_alone"),
        "dividing": ("SCHEMES", "divide"),
        "estimator": ("FedSlim", "FedSlimClassifier"),
        "simulation": ("Simulation", "simulate"),
    },
)
