"""Describe where figures were measured: the machine, and the versions of Python and the computing packages."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from functools import cache
from pathlib import Path
from typing import Any

COMPUTING = ("fedslim", "numpy", "numba", "llvmlite")


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that figures may depend on."""
    found = {"python": platform.python_version()}
    for name in COMPUTING:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:  # run from the source tree
            continue
    return found


@cache
def machine() -> dict[str, Any]:
    """Return processor, cores, memory and system; nothing that identifies the machine or its owner."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    found = {"cpu": model, "cores": os.cpu_count(), "system": platform.system()}
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found["memory_gb"] = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)
    return found
