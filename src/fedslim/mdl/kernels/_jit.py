"""`njit` as all kernels use it: compiled once and cached, free of the GIL, strict floating point."""

from __future__ import annotations

import numba

# No parallel=True (it does not go with the cache: two cores are used by two databases in two threads) and no
# fastmath: results must be the same to the last bit on every machine. Without numba's runtime (_nrt) a kernel can
# allocate nothing, but passing arrays around is free: counting references to them took most of the time.
njit = numba.njit(cache=True, nogil=True, _nrt=False)

# For what only kernels call. Every distinct combination of argument types is compiled anew, and compiling is part of
# a user's first minute: callers make their integers int64.
inlined = numba.njit(nogil=True, _nrt=False, forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
inner = numba.njit(nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
