"""How a run went: where it stood whenever its table had changed.

history = History(said)
history.note(session, round_number)   # after every round
history.steps[-1]["L_percent"]
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedslim.metrics import Communication
    from fedslim.protocol.server import ServerSession


class History:
    """The steps of one run, on the server's side."""

    def __init__(self, said: Communication) -> None:
        self.steps: list[dict[str, Any]] = []
        self.began = time.monotonic()
        self._said = said

    def note(self, session: ServerSession, number: int) -> None:
        """Write down where the search stands after a round, if its table has changed."""
        variant = session.variant
        if variant is None or not variant.supports:
            return
        search = variant.search
        if self.steps and self.steps[-1]["bits_total"] == search.bits_now:
            return
        self.steps.append(
            {
                "round": number,
                "seconds": time.monotonic() - self.began,
                "itemsets": search.itemsets,
                "bits_total": search.bits_now,
                "L_percent": 100.0 * search.bits_now / (search.bits_standard.total or 1.0),
                "bytes_total": self._said.bytes_total,
            }
        )
