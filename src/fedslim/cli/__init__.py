"""The command line: arguments, progress and exit codes. The other packages do the work.

Nothing here imports numpy or numba before a command needs them, so that `--help` is fast.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]

INTERRUPTED = 130  # the exit code that shells give to a program ended by Ctrl-C


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. The default arguments are those of the process."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        from fedslim.cli.app import run

        return run(given)
    except KeyboardInterrupt:
        print("fedslim: interrupted", file=sys.stderr)  # noqa: T201  # Ctrl-C may come before `say` is imported
        return INTERRUPTED
