"""Secure aggregation: exact sums of integer vectors, without revealing any member's vector.

Every member of a round must answer: without one of the vectors the masks do not cancel, and nobody holds shares of
another member's secrets. If a member drops out, `protocol/` asks the round again when it is back. Signatures on the
agreement keys are checked there, too (`protocol/roster.py`).
"""
