"""Mining by MDL: objective, code table, covers, search, estimator. Nothing here knows about messages or members."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedslim.mdl.codetable import CodeTable
    from fedslim.mdl.estimator import Slim
    from fedslim.mdl.mining import Mined, mine

__all__ = ["CodeTable", "Mined", "Slim", "mine"]

# Imported on first use: reading a code table needs no numba, and mining one needs no scikit-learn.
_HOME = {"CodeTable": "codetable", "Mined": "mining", "mine": "mining", "Slim": "estimator"}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"fedslim.mdl.{_HOME[name]}"), name)
    raise AttributeError(f"module 'fedslim.mdl' has no attribute {name!r}")
