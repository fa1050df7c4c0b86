"""`njit` as all kernels use it: compiled once and cached, free of the GIL, strict floating point."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numba


def _drop_stale_cache() -> None:
    """Remove compiled kernels that are older than any source they may contain.

    numba compares a cached function with the file it stands in, not with the files of the functions it calls. That is
    enough for an installed package, whose files all change at once, and a trap for whoever edits one of them.
    """
    here = Path(__file__).parent
    newest = max(path.stat().st_mtime for path in [*here.glob("*.py"), here.parent / "objective.py"])
    for cached in (here / "__pycache__").glob("*.nb[ci]"):
        if cached.stat().st_mtime < newest:
            cached.unlink(missing_ok=True)


_drop_stale_cache()

# No parallel=True (it does not go with the cache: two cores are used by two databases in two threads) and no
# fastmath: results must be the same to the last bit on every machine. Without numba's runtime (_nrt) a kernel can
# allocate nothing, but passing arrays around is free: counting references to them took most of the time.
OPTIONS: dict[str, Any] = {"nogil": True, "_nrt": False}

njit = numba.njit(cache=True, **OPTIONS)

# For what only kernels call. Every distinct combination of argument types is compiled anew, and compiling is part of
# a user's first minute: callers make their integers int64.
INNER = OPTIONS | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

inner = numba.njit(**INNER)
inlined = numba.njit(forceinline=True, **INNER)
