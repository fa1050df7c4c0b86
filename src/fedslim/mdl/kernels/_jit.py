"""`njit` as all kernels use it: compiled once and cached, free of the GIL, strict floating point."""

from __future__ import annotations

import numba

# No parallel=True (it does not go with the cache: two cores are used by two databases in two threads)
# and no fastmath: results must be the same to the last bit on every machine.
njit = numba.njit(cache=True, nogil=True, _nrt=False)
inlined = numba.njit(cache=True, nogil=True, _nrt=False, forceinline=True)
