"""The inner loops, on typed arrays, compiled by numba. Their slow twins are in the tests."""
