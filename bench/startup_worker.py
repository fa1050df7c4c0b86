"""Measure what precedes mining: imports, and kernels compiled or loaded from the cache (NUMBA_CACHE_DIR)."""

from __future__ import annotations

from wire import Clock, Values, serve


def startup() -> Values:
    """Time both in a new process."""
    clock = Clock()
    import fedslim.mdl.mining  # noqa: F401, PLC0415  # the import is measured

    imported = clock.read()
    from warm import every_kernel  # noqa: PLC0415  # imports what is measured above

    first, again = every_kernel(), every_kernel()
    kernels = {kind: first[kind] - again[kind] for kind in first}
    return {"import": imported, "kernels": kernels}


if __name__ == "__main__":
    serve({"startup": startup})
