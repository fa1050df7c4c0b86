"""Decorators for kernels: compiled once and cached, without the GIL, with strict floating point."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba
from numba.core import event
from numba.core.caching import NullCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def _newest_source() -> float:
    """Return the time of the last change of any source that a compiled kernel may contain."""
    here = Path(__file__).parent
    sources = [here / "_jit.py", here / "mdl/objective.py", *here.glob("*/kernels.py"), *here.glob("*/kernels/*.py")]
    return max(path.stat().st_mtime for path in sources)


_NEWEST = _newest_source()
_checked: set[Path] = set()


def _drop_stale(folder: Path) -> None:
    """Remove cached kernels that are older than any source they may contain.

    numba checks only the file of a cached function, not the files of the functions it calls, and it cannot read an
    index that refers to a class that was renamed.
    """
    if folder in _checked:
        return
    _checked.add(folder)
    for cached in folder.glob("*.nb[ci]"):
        # Another process may be doing the same, or the folder may not be writable.
        with suppress(OSError):
            if cached.stat().st_mtime < _NEWEST:
                cached.unlink()


# No parallel=True, which does not work with the cache (two databases in two threads use two cores instead), and no
# fastmath, because results must be identical to the last bit on every machine. Without numba's runtime (_nrt) a kernel
# cannot allocate, but passing arrays is free: counting references took most of the time.
OPTIONS: dict[str, Any] = {"nogil": True, "_nrt": False}

_kernels: list[Any] = []


def njit(function: Callable[..., Any]) -> Any:
    """Compile a kernel on first use, and cache it on disk if possible."""
    try:
        kernel = numba.njit(cache=True, **OPTIONS)(function)
        _drop_stale(Path(kernel._cache.cache_path))  # noqa: SLF001  # next to the source, or in the user's cache
    except RuntimeError:  # numba found no writable folder
        kernel = numba.njit(**OPTIONS)(function)
    _kernels.append(kernel)
    return kernel


def forget_caches() -> None:
    """Stop using the cache of compiled kernels, after it has failed."""
    for kernel in _kernels:
        kernel._cache = NullCache()  # noqa: SLF001  # numba has no public way to disable a cache


def kernels_are_kept() -> bool:
    """Return whether compiled kernels are cached."""
    return any(not isinstance(kernel._cache, NullCache) for kernel in _kernels)  # noqa: SLF001


class _First(event.Listener):
    """Calls a function when the first kernel is compiled; loading one from the cache does not count."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act: Callable[[], None] | None = act

    def on_start(self, event: Any) -> None:
        del event
        act, self._act = self._act, None
        if act is not None:
            act()

    def on_end(self, event: Any) -> None:
        """Do nothing: only the start matters."""


@contextmanager
def at_first_compilation(act: Callable[[bool], None]) -> Iterator[None]:
    """Call `act` once, before the block compiles its first kernel that is not in the cache.

    Its argument is True if this process has found no kernel in the cache, so probably none was ever compiled here.
    """
    with event.install_listener("numba:compile", _First(lambda: act(not any(k.signatures for k in _kernels)))):
        yield


# -- a second process ------------------------------------------------------------------------------------------------

HELPER = "fedslim.algorithm1.precompile"
MAX_SECONDS = 120.0
"""Maximum seconds to wait for the second process."""


class _Helper:
    """A second process that compiles groups of kernels, and reports each group when it is done."""

    def __init__(self, groups: tuple[str, ...]) -> None:
        self._groups = groups
        self._process: subprocess.Popen[str] | None = None
        self._done: set[str] = set()
        self._reading = threading.Lock()

    def start(self) -> None:
        """Start the process if it can help: an idle core and a cache are needed."""
        if idle_cores() < 1 or not kernels_are_kept() or not sys.executable:
            return
        quiet = subprocess.DEVNULL
        command = [sys.executable, "-P", "-m", HELPER, *self._groups]
        with suppress(OSError):  # it is optional
            self._process = subprocess.Popen(command, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, text=True)  # noqa: S603  # ourselves

    def wait_for(self, group: str) -> None:
        """Wait until the process has compiled a group, has ended, or takes too long."""
        with self._reading:
            if self._process is None or self._process.stdout is None:
                return
            timeout = threading.Timer(MAX_SECONDS, self._process.kill)  # if it hangs, this process compiles
            timeout.start()
            try:
                while group in self._groups and group not in self._done and (line := self._process.stdout.readline()):
                    self._done.add(line.strip())
            finally:
                timeout.cancel()

    def end(self) -> None:
        """Kill the process if it is still running."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


def idle_cores() -> int:
    """Return the number of idle cores; on a busy machine, a second process would slow this one down."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        running = int(Path("/proc/loadavg").read_text("ascii").split()[3].partition("/")[0])  # including this process
    except (OSError, ValueError, IndexError):  # not available on some systems
        running = 1
    return usable - running


_helper: _Helper | None = None


@contextmanager
def helped_with(*groups: str) -> Iterator[None]:
    """If the block compiles anything, let a second process compile these groups of `precompile.py`.

    Numba compiles one function at a time in a process, so a second one uses another core. Nested blocks share the
    process of the outer one.
    """
    global _helper  # noqa: PLW0603  # one per process
    if _helper is not None:
        yield
        return
    _helper = helper = _Helper(groups)
    try:
        with event.install_listener("numba:compile", _First(helper.start)):
            yield
    finally:
        _helper = None
        helper.end()


def wait_for(group: str) -> None:
    """Wait until the second process, if there is one, has compiled and cached a group."""
    if _helper is not None:
        _helper.wait_for(group)


# For functions that only kernels call. Every combination of argument types is compiled separately, and compilation
# delays the first run: callers convert their integers to int64.
INNER = OPTIONS | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

inner = numba.njit(**INNER)
inlined = numba.njit(forceinline=True, **INNER)
