"""Run the protocol or the search over other engines. Each is an optional extra, imported by one module only."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fedslim.errors import MissingExtraError

_NAMES = {"nvflare": "NVFlare", "ray": "Ray"}


def engine(name: str) -> Any:
    """Return the module that imports this engine."""
    require(name)
    return import_module(f"fedslim.engines.{name}")


def require(name: str) -> None:
    """Raise `MissingExtraError`, which says how to install it, if an engine is not installed."""
    if find_spec(name) is None:
        raise MissingExtraError(f"{_NAMES[name]} is not installed: pip install 'fedslim[{name}]'")
