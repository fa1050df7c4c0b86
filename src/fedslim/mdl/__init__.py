"""The MDL room: objective, code table, covers, the search, the estimator. It knows nothing of messages or clients."""
