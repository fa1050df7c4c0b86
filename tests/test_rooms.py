from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_every_room_imports_only_the_rooms_above_it():
    code = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_importing_fedslim_loads_nothing_heavy():
    code = "import fedslim, sys; print([m for m in ('numpy', 'numba', 'sklearn', 'scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
