"""Protect a member's data in a federation: guard, ledger, back-off after refusals, audit log."""
