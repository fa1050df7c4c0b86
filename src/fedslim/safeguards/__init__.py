"""What stands between a member's data and a federation: guard, ledger, back-off after refusals, audit log."""
