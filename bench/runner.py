"""Start measured processes one after the other, show their progress, and save their results."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wire import Values

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PEER = ROOT / ".venv-skmine"
REQUIREMENTS = HERE / "skmine-requirements.txt"
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class RunError(Exception):
    """A measured process failed."""


class Runner:
    """Runs workers, and writes the results of each part after every run."""

    def __init__(self, results: Path, data: str | None) -> None:
        self.results = results
        self._environment = dict(os.environ) | dict.fromkeys(ONE_THREAD, "1")
        shared = ROOT.parent / "shared" / "data"
        if data is not None:
            self._environment["FEDSLIM_DATA"] = data
        elif "FEDSLIM_DATA" not in os.environ and shared.is_dir():
            self._environment["FEDSLIM_DATA"] = str(shared)
        self._source = source()
        results.mkdir(parents=True, exist_ok=True)

    # -- processes ----------------------------------------------------------------------------------------------

    def fedslim(self, label: str, task: str, **values: object) -> Values:
        """Run a task of `worker.py` in a new process of this environment."""
        return self.run(label, [sys.executable, str(HERE / "worker.py"), task, json.dumps(values)])

    def federation(self, label: str, task: str, **values: object) -> Values:
        """Run a task of `federation_worker.py` in a new process."""
        return self.run(label, [sys.executable, str(HERE / "federation_worker.py"), task, json.dumps(values)])

    def network(self, label: str, task: str, **values: object) -> Values:
        """Run a task of `network_worker.py` in a new process."""
        return self.run(label, [sys.executable, str(HERE / "network_worker.py"), task, json.dumps(values)])

    def startup(self, label: str, cache: str | None = None) -> Values:
        """Measure the start-up of a new process, with its own kernel cache if one is given."""
        command = [sys.executable, str(HERE / "startup_worker.py"), "startup", "{}"]
        return self.run(label, command, {} if cache is None else {"NUMBA_CACHE_DIR": cache})

    def peer(self, label: str, **values: object) -> Values:
        """Run scikit-mine in a new process of its environment."""
        return self.run(label, [str(peer_python()), str(HERE / "skmine_worker.py"), "mine", json.dumps(values)])

    def run(self, label: str, command: list[str], extra: dict[str, str] | None = None) -> Values:
        """Run a worker to its end, show its progress, and return its result.

        Raises:
            RunError: It ended without a result; the message has the end of its stderr.
        """
        result: Values | None = None
        line = ProgressLine(label)
        with (
            (self.results / "stderr.txt").open("w+") as errors,
            subprocess.Popen(
                command, env=self._environment | (extra or {}), stdout=subprocess.PIPE, stderr=errors, text=True
            ) as process,
        ):
            try:
                for text in process.stdout or ():
                    message = json.loads(text)
                    line.show(message.get("progress", ""))
                    result = message.get("result", result)
            except BaseException:
                process.terminate()
                raise
            finally:
                line.clear()
            code = process.wait()
            if code or result is None:
                errors.seek(0)
                tail = errors.read().strip().splitlines()[-1:] or ["no message"]
                msg = f"{label}: ended with code {code}: {tail[0]}"
                raise RunError(msg)
        return result

    # -- results ------------------------------------------------------------------------------------------------

    def save(self, part: str, values: Values) -> None:
        """Write the results of a part atomically."""
        save_json(self.results / f"{part}.json", values | {"source": self._source, "changed": source() != self._source})

    def saved(self, part: str) -> Values:
        """Return the results of a part if they are of these sources; otherwise nothing."""
        path = self.results / f"{part}.json"
        found: Values = json.loads(path.read_text()) if path.exists() else {}
        return found if found.get("source") == self._source and not found["changed"] else {}

    def begin(self) -> None:
        """Note which sources the next part measures."""
        self._source = source()


class ProgressLine:
    """A progress line on the terminal; without a terminal, a line from time to time."""

    EVERY = 20.0

    def __init__(self, label: str) -> None:
        self._label = label
        self._started = self._shown = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self.show("")

    def show(self, text: str) -> None:
        """Show a text."""
        now = time.monotonic()
        words = f"  {self._label}  {text}".rstrip()
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\033[K{words[:width]}", end="", file=sys.stderr, flush=True)
        elif text and now - self._shown >= self.EVERY:
            self._shown = now
            print(words, file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Remove the line."""
        if self._terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        else:
            print(f"  {self._label}  {time.monotonic() - self._started:.1f} s in all", file=sys.stderr, flush=True)


def source() -> str:
    """Return a short hash of the package's sources, to recognize results of the same code."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def median(runs: Iterable[Values], *keys: str) -> float:
    """Return the median of a nested value over runs."""

    def inside(run: Values) -> float:
        value: Values | float = run
        for key in keys:
            assert isinstance(value, dict)  # noqa: S101  # keys lead to a number
            value = value[key]
        assert not isinstance(value, dict)  # noqa: S101  # as above
        return float(value)

    return statistics.median(inside(run) for run in runs)


def repeated(times: int, run: Callable[[int], Values]) -> list[Values]:
    """Call `run` several times, with the number of the run."""
    return [run(number) for number in range(1, times + 1)]


def save_json(path: Path, values: Values) -> None:
    """Write a JSON file atomically."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(values, indent=1) + "\n")
    partial.replace(path)


# -- the peers' environment --------------------------------------------------------------------------------------------


def peer_python() -> Path:
    """Return the interpreter of the peers' environment."""
    return PEER / "bin" / "python"


def set_up_peer() -> None:
    """Create the peers' environment, or update it to its requirements.

    Raises:
        RunError: It cannot be created, for instance without a network.
    """
    ready, wanted = PEER / ".ready", REQUIREMENTS.read_text()
    if ready.exists() and ready.read_text() == wanted:
        return
    print(f"setting up {PEER.name} (once; a minute or two)", file=sys.stderr)
    install = [str(peer_python()), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", str(PEER)], [*install, "--requirement", str(REQUIREMENTS)]):
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            msg = f"cannot create the environment of scikit-mine: {last}"
            raise RunError(msg)
    ready.write_text(wanted)
