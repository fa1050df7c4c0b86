"""Server and members over a network or in one process: frames, connections, journals. It decides nothing."""
