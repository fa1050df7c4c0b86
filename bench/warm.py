"""Compile every kernel: the engine's own warm-up, and a small run that also removes, rejects and compacts."""

from __future__ import annotations

from fedslim.data import load
from fedslim.mdl.mining import mine, prepare
from wire import Clock, Values


def every_kernel() -> Values:
    """Use every kernel once, and return how long that took."""
    database = load("encounters")
    clock = Clock()
    prepare()
    mine(database, threads=1)
    return clock.read()
