"""What a server's run came to and what it cost, whichever transport or engine carried it.

account = Account(session)
account(event)                                   # a trace of the transport's
served = served_by(session, outcome, account, lost=None)
save_served(served, file, folder)                # codetable.json, run.json, history.json
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fedslim import __version__
from fedslim.data.atomic import make_folder_for, replacing
from fedslim.metrics import Communication
from fedslim.protocol.outcome import code_table
from fedslim.transport.memory import FrameSent, RoundPassed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from fedslim.errors import RunError
    from fedslim.mdl.codetable import CodeTable
    from fedslim.protocol import messages as m
    from fedslim.protocol.outcome import Outcome
    from fedslim.protocol.server import ServerSession
    from fedslim.transport.config import FederationFile
    from fedslim.transport.memory import Trace

CODE_TABLE, RECORD, HISTORY = "codetable.json", "run.json", "history.json"
"""What a server leaves in its folder."""


@dataclass(frozen=True, slots=True)
class Served:
    """What a server's run came to."""

    table: CodeTable
    outcome: Outcome
    communication: Communication
    seconds: float
    history: tuple[dict[str, Any], ...]
    lost: RunError | None  # why the run ended early, with the best so far

    def as_dict(self, file: FederationFile) -> dict[str, Any]:
        """The run record: what was run, with what, how it went."""
        c = self.table.compression
        return {
            "version": __version__,
            "federation": file.federation.name,
            "federation_id": file.federation.id,
            "digest": file.digest().hex(),
            "variant": file.federation.variant,
            "members": list(file.federation.members),
            "clients": len(file.federation.members),
            "transactions": self.table.transactions,
            "items": len(self.table.vocabulary),
            "bits_total": c.after.total,
            "bits_data": c.after.data,
            "bits_model": c.after.model,
            "L_percent": c.L_percent,
            "L_data_percent": c.L_data_percent,
            "itemsets": len(self.table),
            "candidates": self.outcome.tally.candidates,
            "ending": self.outcome.ending,
            "reason": None if self.lost is None else str(self.lost),
            "converged": self.outcome.converged,
            "seconds": self.seconds,
            **self.communication.as_dict(),
        }


class Account:
    """Takes the traces of a transport and keeps the books: traffic, and a step of history where the table changes."""

    def __init__(self, session: ServerSession, on_round: Callable[[], None] | None = None) -> None:
        self.communication = Communication()
        self.history: list[dict[str, Any]] = []
        self._session, self._on_round = session, on_round
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the account was opened."""
        return time.monotonic() - self._began

    def __call__(self, event: Trace) -> None:
        """Enter one trace."""
        if isinstance(event, FrameSent):
            self.communication.add(event.kind, event.direction, plain=event.plain, sent=event.sent)
        elif isinstance(event, RoundPassed):
            self.communication.end_round()
            self._remember(event)
            if self._on_round is not None:
                self._on_round()

    def _remember(self, passed: RoundPassed) -> None:
        variant = self._session.variant
        if variant is None or not variant.supports:
            return
        search = variant.search
        if self.history and self.history[-1]["bits_total"] == search.bits_now:
            return
        self.history.append(
            {
                "round": passed.number,
                "seconds": self.seconds,
                "itemsets": search.itemsets,
                "bits_total": search.bits_now,
                "L_percent": 100.0 * search.bits_now / (search.bits_standard.total or 1.0),
                "bytes_total": self.communication.bytes_total,
            }
        )


def served_by(session: ServerSession, outcome: Outcome, account: Account, lost: RunError | None) -> Served:
    """What a session came to, with what the server may call the items."""
    table = table_at_server(session, outcome)
    return Served(table, outcome, account.communication, account.seconds, tuple(account.history), lost)


def table_at_server(session: ServerSession, outcome: Outcome) -> CodeTable:
    """The table with labels, where members share them; else with ids; else with numbers."""
    labels = session.labels or tuple("#" + i.hex() for i in session.ids) or _numbers(outcome.table)
    return code_table(outcome.table, labels)


def _numbers(table: m.Table) -> tuple[str, ...]:
    """What the server calls items whose ids it was never told: the members know which they are."""
    return tuple(f"item {number}" for number in range(table.usages.length))


def save_served(
    served: Served, file: FederationFile, folder: Path, more: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Save what a server leaves; `more` goes into the record of the run.

    Raises:
        WriteError: It cannot be written.
    """
    make_folder_for(folder / CODE_TABLE)
    served.table.save(folder / CODE_TABLE)
    write_record({**served.as_dict(file), **more}, folder / RECORD)
    write_record({"history": list(served.history)}, folder / HISTORY)


def write_record(record: dict[str, Any], path: Path) -> None:
    """Write one JSON object, which appears whole or not at all."""
    with replacing(path) as (stream, _):
        stream.write((json.dumps(record, indent=2, allow_nan=False) + "\n").encode())
