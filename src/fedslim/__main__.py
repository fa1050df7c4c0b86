"""`python -m fedslim` is the command `fedslim`."""

from __future__ import annotations

import sys

from fedslim.cli import main

if __name__ == "__main__":
    sys.exit(main())
