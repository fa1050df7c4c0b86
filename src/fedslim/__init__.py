"""fedslim: find the few itemsets that compress your data best, even across silos that may not share data."""

import logging
from typing import TYPE_CHECKING

from fedslim._lazy import names_of

__version__ = "0.1.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())  # a library leaves it to the program what to show

if TYPE_CHECKING:
    from fedslim.data import TransactionDatabase as TransactionDatabase
    from fedslim.engines.rows import mine_on_ray as mine_on_ray
    from fedslim.federated import FedSlim as FedSlim, simulate as simulate
    from fedslim.mdl import CodeTable as CodeTable, Slim as Slim
    from fedslim.uses import SlimClassifier as SlimClassifier, SlimOutlierDetector as SlimOutlierDetector

# Imported on first use, so that `fedslim --help` and `import fedslim` do not load numba, numpy or scikit-learn.
__getattr__, __dir__, __all__ = names_of(
    __name__,
    {
        "data": ("TransactionDatabase",),
        "engines.rows": ("mine_on_ray",),
        "federated": ("FedSlim", "simulate"),
        "mdl": ("CodeTable", "Slim"),
        "uses": ("SlimClassifier", "SlimOutlierDetector"),
    },
)
