"""Decorators for kernels: compiled once and cached, without the GIL, with strict floating point."""

from __future__ import annotations

import os
import subprocess
import sys
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


# -- other processes -------------------------------------------------------------------------------------------------

HELPER = "fedslim.algorithm1.precompile"
MAX_SECONDS = 120.0  # to wait for a process: if it hangs, this one compiles

_helpers: dict[str, subprocess.Popen[bytes]] = {}  # the processes that compile groups of kernels, by group


def _start_helpers(groups: tuple[str, ...]) -> None:
    """Start a process for each group if that can help: an idle core and a cache are needed."""
    if idle_cores() < 1 or not kernels_are_kept() or not sys.executable:
        return
    quiet = subprocess.DEVNULL
    with suppress(OSError):  # they are optional
        for group in groups:
            if group not in _helpers:
                command = [sys.executable, "-P", "-m", HELPER, group]
                _helpers[group] = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)  # noqa: S603  # ourselves


def idle_cores() -> int:
    """Return the number of idle cores; on a busy machine, a second process would slow this one down."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        running = int(Path("/proc/loadavg").read_text("ascii").split()[3].partition("/")[0])  # including this process
    except (OSError, ValueError, IndexError):  # not available on some systems
        running = 1
    return usable - running


@contextmanager
def helped_with(*groups: str) -> Iterator[None]:
    """If the block compiles anything, let other processes compile these groups of `precompile.py`.

    Numba compiles one function at a time in a process, so another one uses another core.
    """
    try:
        with event.install_listener("numba:compile", _First(lambda: _start_helpers(groups))):
            yield
    finally:
        for group in groups:
            if (process := _helpers.pop(group, None)) is not None:
                process.kill()
                process.wait()


def wait_for(group: str) -> None:
    """Wait until the process that compiles a group, if there is one, has ended, or takes too long."""
    with suppress(subprocess.TimeoutExpired):
        if (process := _helpers.get(group)) is not None:
            process.wait(MAX_SECONDS)


# For functions that only kernels call. Every combination of argument types is compiled separately, and compilation
# delays the first run: callers convert their integers to int64.
INNER = OPTIONS | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

inner = numba.njit(**INNER)
inlined = numba.njit(forceinline=True, **INNER)
