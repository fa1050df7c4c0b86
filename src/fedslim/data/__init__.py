"""The data room: the transaction database, and everything that makes one. It knows nothing of code tables."""

from __future__ import annotations

from fedslim.data.database import TransactionDatabase

__all__ = ["TransactionDatabase"]
