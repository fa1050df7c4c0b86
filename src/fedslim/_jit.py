"""`njit` as all kernels use it: compiled once and cached, free of the GIL, strict floating point."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba
from numba.core.caching import NullCache

if TYPE_CHECKING:
    from collections.abc import Callable


def _drop_stale_cache() -> None:
    """Remove compiled kernels that are older than any source they may contain.

    numba compares a cached function with the file it stands in, not with the files of the functions it calls. That is
    enough for an installed package, whose files all change at once, and a trap for whoever edits one of them.
    """
    here = Path(__file__).parent
    folders = (here / "mdl" / "kernels", here / "secagg")
    sources = [here / "_jit.py", here / "mdl" / "objective.py", *(p for folder in folders for p in folder.glob("*.py"))]
    newest = max(path.stat().st_mtime for path in sources)
    for cached in (path for folder in folders for path in (folder / "__pycache__").glob("*.nb[ci]")):
        # Another process may be doing the same, and the folder may not be ours: then it is not ours to edit either.
        with suppress(OSError):
            if cached.stat().st_mtime < newest:
                cached.unlink()


_drop_stale_cache()

# No parallel=True (it does not go with the cache: two cores are used by two databases in two threads) and no
# fastmath: results must be the same to the last bit on every machine. Without numba's runtime (_nrt) a kernel can
# allocate nothing, but passing arrays around is free: counting references to them took most of the time.
OPTIONS: dict[str, Any] = {"nogil": True, "_nrt": False}

_kernels: list[Any] = []


def njit(function: Callable[..., Any]) -> Any:
    """Compile a kernel, and keep it for the next process where there is a place to keep it."""
    try:
        kernel = numba.njit(cache=True, **OPTIONS)(function)
    except RuntimeError:  # numba found no folder that it may write to
        kernel = numba.njit(**OPTIONS)(function)
    _kernels.append(kernel)
    return kernel


def forget_caches() -> None:
    """Stop reading and writing compiled kernels: the place for them has failed."""
    for kernel in _kernels:
        kernel._cache = NullCache()  # noqa: SLF001  # numba has no other way to turn a cache off


# For what only kernels call. Every distinct combination of argument types is compiled anew, and compiling is part of
# a user's first minute: callers make their integers int64.
INNER = OPTIONS | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

inner = numba.njit(**INNER)
inlined = numba.njit(forceinline=True, **INNER)
