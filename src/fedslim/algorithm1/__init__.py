"""The paper's Algorithm 1 and the two variants built on it: SA and SO. SLIM and X do not need this package."""
