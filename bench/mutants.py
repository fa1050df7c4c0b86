"""Check that a test catches each deliberate mistake in tests/mutants.toml.

    python bench/mutants.py                          # all of tests/mutants.toml; takes an hour
    python bench/mutants.py --room transport --room mdl
    python bench/mutants.py --only 12 --only 40 --wide

Each mistake is made in a copy of src, never in the tree itself, so there is nothing to restore. Then `caught`, the test
known to fail, runs against that copy; with --wide, all of `tests`, the files in which a test should fail. The exit code
is 1 if a mistake survives that has no explanation (`because`).
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tests" / "mutants.toml"
PATIENCE = 900.0
"""Time limit in seconds for the tests of one mistake; a mistake that makes them hang counts as caught."""
FAILED = 1
"""pytest's exit code if tests fail; other codes mean that it could not run them."""


class Mutant(NamedTuple):
    """A mistake: a replacement of text in a file."""

    number: int
    room: str
    file: str
    mistake: str
    old: str
    new: str
    tests: str  # where a test should fail: paths below tests/, optionally with -k
    caught: str = ""  # a test that does fail
    because: str = ""  # why no test can fail

    @classmethod
    def all(cls) -> list[Mutant]:
        """Return all mistakes of the list, in order."""
        found = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]
        return [cls(number, each["file"].split("/")[0], **each) for number, each in enumerate(found)]

    def applied(self, source: Path) -> None:
        """Make the mistake in a copy of the sources."""
        path = source / "fedslim" / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            msg = f"{self.number}: {self.file} has {text.count(self.old)} places like this, not one:\n{self.old}"
            raise SystemExit(msg)
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")

    def selection(self, *, wide: bool) -> list[str]:
        """Return the arguments for pytest."""
        chosen = self.tests if wide or not self.caught else self.caught
        return [f"tests/{part}" if ".py" in part else part for part in shlex.split(chosen)]


def fate(mutant: Mutant, python: str, *, wide: bool) -> tuple[str, str]:
    """Return the outcome of a mistake, and the test that failed."""
    with tempfile.TemporaryDirectory(prefix="fedslim-mutant-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source)  # with compiled kernels, which are looked at again where they change
        mutant.applied(source)
        command = [python, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *mutant.selection(wide=wide)]
        environment = os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            ran = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
            )
        except subprocess.TimeoutExpired:
            return "caught", "it hangs"
    lines = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED tests", "ERROR tests"))]
    if lines:
        return "caught", lines[0].split(" ", 1)[1].split(" - ")[0]
    if ran.returncode == FAILED or ran.returncode < 0:
        return "caught", "?" if ran.returncode == FAILED else "it crashes"
    return ("survived", "") if ran.returncode == 0 else ("not run", ran.stdout[-500:] + ran.stderr[-500:])


def main() -> int:
    """Try the mistakes one after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--room", action="append", help="only this room")
    parser.add_argument("--only", action="append", type=int, metavar="N", help="only the mistake with this number")
    parser.add_argument("--wide", action="store_true", help="run the whole files, not only the test known to fail")
    parser.add_argument("--python", default=sys.executable, help="interpreter of an environment with the test tools")
    chosen = parser.parse_args()
    fates: Counter[str] = Counter()
    for mutant in Mutant.all():
        if (chosen.room and mutant.room not in chosen.room) or (chosen.only and mutant.number not in chosen.only):
            continue
        what, test = fate(mutant, chosen.python, wide=chosen.wide)
        if what == "survived" and mutant.because:
            what = "explained"
        fates[what] += 1
        print(f"{mutant.number:3} {what:9} {mutant.file}: {mutant.mistake}  {test}", flush=True)
    print(", ".join(f"{number} {what}" for what, number in sorted(fates.items())))
    return int(set(fates) - {"caught", "explained"} != set())


if __name__ == "__main__":
    sys.exit(main())
