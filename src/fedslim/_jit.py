"""`njit` as all kernels use it: compiled once and cached, free of the GIL, strict floating point."""

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
    """When any source was last changed that a compiled kernel may contain."""
    here = Path(__file__).parent
    sources = [here / "_jit.py", here / "mdl/objective.py", *here.glob("*/kernels.py"), *here.glob("*/kernels/*.py")]
    return max(path.stat().st_mtime for path in sources)


_NEWEST = _newest_source()
_checked: set[Path] = set()


def _drop_stale(folder: Path) -> None:
    """Remove compiled kernels from a cache that are older than any source they may contain.

    numba compares a cached function with the file it stands in, not with the files of the functions it calls, and
    cannot even read an index that speaks of a class which has been renamed since.
    """
    if folder in _checked:
        return
    _checked.add(folder)
    for cached in folder.glob("*.nb[ci]"):
        # Another process may be doing the same, and the folder may not be ours: then it is not ours to edit either.
        with suppress(OSError):
            if cached.stat().st_mtime < _NEWEST:
                cached.unlink()


# No parallel=True (it does not go with the cache: two cores are used by two databases in two threads) and no
# fastmath: results must be the same to the last bit on every machine. Without numba's runtime (_nrt) a kernel can
# allocate nothing, but passing arrays around is free: counting references to them took most of the time.
OPTIONS: dict[str, Any] = {"nogil": True, "_nrt": False}

_kernels: list[Any] = []


def njit(function: Callable[..., Any]) -> Any:
    """Compile a kernel, and keep it for the next process where there is a place to keep it."""
    try:
        kernel = numba.njit(cache=True, **OPTIONS)(function)
        _drop_stale(Path(kernel._cache.cache_path))  # noqa: SLF001  # beside the source, or among the user's files
    except RuntimeError:  # numba found no folder that it may write to
        kernel = numba.njit(**OPTIONS)(function)
    _kernels.append(kernel)
    return kernel


def forget_caches() -> None:
    """Stop reading and writing compiled kernels: the place for them has failed."""
    for kernel in _kernels:
        kernel._cache = NullCache()  # noqa: SLF001  # numba has no other way to turn a cache off


def kernels_are_kept() -> bool:
    """Whether there is a place to keep compiled kernels in."""
    return any(not isinstance(kernel._cache, NullCache) for kernel in _kernels)  # noqa: SLF001


class _First(event.Listener):
    """Calls a function when the first kernel is compiled. One that is in the cache is not compiled."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act: Callable[[], None] | None = act

    def on_start(self, event: Any) -> None:
        del event
        act, self._act = self._act, None
        if act is not None:
            act()

    def on_end(self, event: Any) -> None:
        """Nothing: the first one has begun."""


@contextmanager
def at_first_compilation(act: Callable[[bool], None]) -> Iterator[None]:
    """Call `act` should the block come to a kernel that is not in the cache; once, before it is compiled.

    It is told whether this process has found no other kernel in the cache either: then none was ever compiled here.
    """
    with event.install_listener("numba:compile", _First(lambda: act(not any(k.signatures for k in _kernels)))):
        yield


# -- a second process ------------------------------------------------------------------------------------------------

HELPER = "fedslim.algorithm1.precompile"
MAX_SECONDS = 120.0
"""Seconds to wait for it."""


class _Helper:
    """A second process that compiles groups of kernels, once it is started; each group is told when it is done."""

    def __init__(self, groups: tuple[str, ...]) -> None:
        self._groups = groups
        self._process: subprocess.Popen[str] | None = None
        self._done: set[str] = set()
        self._reading = threading.Lock()

    def start(self) -> None:
        """Start it, if it could be of use."""
        if idle_cores() < 1 or not kernels_are_kept() or not sys.executable:
            return
        quiet = subprocess.DEVNULL
        command = [sys.executable, "-P", "-m", HELPER, *self._groups]
        with suppress(OSError):  # we can do without
            self._process = subprocess.Popen(command, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, text=True)  # noqa: S603  # ourselves

    def wait_for(self, group: str) -> None:
        """Wait until it has compiled a group, or will not."""
        with self._reading:
            if self._process is None or self._process.stdout is None:
                return
            patience = threading.Timer(
                MAX_SECONDS, self._process.kill
            )  # one that hangs is not waited for: we compile then
            patience.start()
            try:
                while group in self._groups and group not in self._done and (line := self._process.stdout.readline()):
                    self._done.add(line.strip())
            finally:
                patience.cancel()

    def end(self) -> None:
        """Leave nothing behind."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


def idle_cores() -> int:
    """How many cores have nothing to do, this process apart: on a busy machine a second one would be in its way."""
    ours = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        running = int(Path("/proc/loadavg").read_text("ascii").split()[3].partition("/")[0])  # now, this one included
    except (OSError, ValueError, IndexError):  # some systems do not say
        running = 1
    return ours - running


_helper: _Helper | None = None


@contextmanager
def helped_with(*groups: str) -> Iterator[None]:
    """Have a second process compile these groups of `precompile.py`, should the block have anything to compile.

    Numba compiles one function at a time in a process, and cores are many. Inside another such block, its process is
    the one.
    """
    global _helper  # noqa: PLW0603  # one for the process
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
    """Wait for what a second process compiles, if one does: it is in the cache then."""
    if _helper is not None:
        _helper.wait_for(group)


# For what only kernels call. Every distinct combination of argument types is compiled anew, and compiling is part of
# a user's first minute: callers make their integers int64.
INNER = OPTIONS | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

inner = numba.njit(**INNER)
inlined = numba.njit(forceinline=True, **INNER)
