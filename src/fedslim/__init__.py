"""fedslim: find the few itemsets that compress your data best, even across silos that may not share data."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())  # a library leaves it to the program what to show

if TYPE_CHECKING:
    from fedslim.data import TransactionDatabase
    from fedslim.engines.rows import mine_on_ray
    from fedslim.federated import FedSlim, simulate
    from fedslim.mdl import CodeTable, Slim
    from fedslim.uses import SlimClassifier, SlimOutlierDetector

__all__ = [
    "CodeTable",
    "FedSlim",
    "Slim",
    "SlimClassifier",
    "SlimOutlierDetector",
    "TransactionDatabase",
    "__version__",
    "mine_on_ray",
    "simulate",
]

# Imported on first use, so that `fedslim --help` and `import fedslim` do not load numba, numpy or scikit-learn.
_HOME = {
    "CodeTable": "fedslim.mdl",
    "FedSlim": "fedslim.federated",
    "Slim": "fedslim.mdl",
    "SlimClassifier": "fedslim.uses",
    "SlimOutlierDetector": "fedslim.uses",
    "TransactionDatabase": "fedslim.data",
    "mine_on_ray": "fedslim.engines.rows",
    "simulate": "fedslim.federated",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'fedslim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
