"""Packages whose names are imported on first use, so that loading one does not load numba, numpy or scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def names_of(
    package: str, homes: dict[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package; `homes` has the names it offers, by their modules."""
    home = {name: module for module, names in homes.items() for name in names}

    def find(name: str) -> Any:
        if name in home:
            return getattr(import_module(f"{package}.{home[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find, lambda: sorted(home), sorted(home)
