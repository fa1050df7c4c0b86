"""The command line: arguments, progress and exit codes. Everything else is done by the rooms above.

    fedslim mine encounters --out table.json
    fedslim show table.json
    fedslim report run/
    fedslim data list
    fedslim vocabulary make shop.csv --secret members.secret --out shop.json
    fedslim enroll --name hospital-a
    fedslim ca sign hospital-a.csr

Nothing here loads numpy or numba before a command needs them, so that `--help` answers at once.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

INTERRUPTED = 130
"""What shells say of a program that Ctrl-C ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give back its exit code; the arguments are the program's if left out."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        from fedslim.cli.app import run

        return run(given)
    except KeyboardInterrupt:
        print("fedslim: interrupted", file=sys.stderr)  # noqa: T201  # the one line that is said
        return INTERRUPTED
