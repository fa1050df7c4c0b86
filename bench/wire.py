"""Messages from a measured process to the one that started it: JSON objects, one per line of stdout.

Import only the standard library here: the peers' environment has no fedslim.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Values = dict[str, Any]

PROGRESS_EVERY = 0.5
"""Seconds between progress messages of a process."""


class Clock:
    """Wall time and CPU time (of all threads) since creation or restart."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Restart from zero."""
        self._cpu = time.process_time()
        self._wall = time.perf_counter()

    def read(self) -> Values:
        """Return the seconds so far."""
        wall = time.perf_counter() - self._wall
        return {"wall": wall, "cpu": time.process_time() - self._cpu}


class Teller:
    """Reports progress, but not too often."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, text: str) -> None:
        """Report, unless the last report was too recent."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PROGRESS_EVERY
            _say({"progress": text})


def serve(tasks: dict[str, Callable[..., Values]]) -> None:
    """Run the task given on the command line, with its arguments as a JSON object, and print its result."""
    try:
        result = tasks[sys.argv[1]](**json.loads(sys.argv[2]))
    except KeyboardInterrupt:
        sys.exit(130)
    _say({"result": {**result, "peak_mb": peak_mb()}})


def peak_mb() -> float:
    """Return the peak resident size of this process, in MB (10^6 bytes)."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def _say(message: Values) -> None:
    print(json.dumps(message), flush=True)
