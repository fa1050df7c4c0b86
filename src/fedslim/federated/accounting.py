"""Collect the results and costs of a server's run, over whichever transport or engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from fedslim.errors import RunError
from fedslim.federated.folder import set_aside
from fedslim.federated.records import (
    Figure,
    HistoryStep,
    KindTraffic,
    MemberRecord,
    RunRecord,
    save_run,
    settings_of,
    stamp,
)
from fedslim.mdl.codetable import CodeTable
from fedslim.mdl.objective import percent_of_standard
from fedslim.mdl.steps import Tally
from fedslim.network.in_process import FrameSent, Trace
from fedslim.network.journal import RoundRecord
from fedslim.network.traffic import Communication
from fedslim.protocol.outcome import Ending, Outcome, code_table

if TYPE_CHECKING:
    from fedslim.protocol.server import ServerSession
    from fedslim.settings.federation_file import FederationFile

CODE_TABLE, RECORD = "codetable.json", "run.json"  # the result files in a server's run folder


def table_figures(table: CodeTable) -> dict[str, Figure]:
    """Return the figures of a code table by name."""
    c = table.compression
    return {
        "transactions": table.transactions,
        "items": len(table.vocabulary),
        "bits_total": c.after.total,
        "bits_data": c.after.data,
        "bits_model": c.after.model,
        "L_percent": c.L_percent,
        "L_data_percent": c.L_data_percent,
        "itemsets": len(table),
    }


@dataclass(frozen=True, slots=True)
class RunResult:
    """The code table of a run, how the search ended, and its costs.

    `seconds` is the time of the federation alone. `member_usages` is known only if the variant shows it to the server.
    """

    table: CodeTable
    tally: Tally
    ending: Ending
    communication: Communication
    seconds: float
    history: tuple[HistoryStep, ...] = field(repr=False)
    member_usages: Mapping[str, Sequence[int]] | None = field(repr=False)

    @property
    def converged(self) -> bool:
        """Whether the search ended by itself, not because of a limit or a stop."""
        return self.ending == "converged"

    def figures(self, members: int) -> dict[str, Any]:
        """Return the results and costs of a run of so many members by name, ready for JSON."""
        return {
            "members": members,
            **table_figures(self.table),
            "candidates": self.tally.candidates,
            "seconds": self.seconds,
            "converged": self.converged,
            "ending": self.ending,
            **self.communication.as_dict(),
        }


class Account:
    """Collects traffic from the traces of a transport, and a history of the rounds that changed the table."""

    def __init__(self, session: ServerSession, on_round: Callable[[], None] | None = None) -> None:
        self.communication = Communication()
        self.history: list[HistoryStep] = []
        self._session, self._on_round = session, on_round
        self._began = time.monotonic()
        self._before = 0.0  # the seconds before a restart
        self._bits: float | None = None  # of the last step of the history, not rounded

    @property
    def seconds(self) -> float:
        """The seconds since this object was created, plus those before a restart."""
        return self._before + time.monotonic() - self._began

    def __call__(self, event: Trace) -> None:
        """Account for one trace."""
        if isinstance(event, FrameSent):
            self.communication.add(event.kind, event.direction, plain=event.plain, sent=event.sent)
            return
        self.communication.end_round()
        self._remember(event.number, self.seconds, self.communication.bytes_total)
        if self._on_round is not None:
            self._on_round()

    def passed_before(self, record: RoundRecord) -> None:
        """Count a replayed round, and go on from the costs that were recorded when it ended."""
        self.communication.end_round()
        self.communication.traffic |= record.traffic
        self._before = record.seconds
        self._remember(record.number, record.seconds, self.communication.bytes_total)

    def _remember(self, number: int, seconds: float, sent: int) -> None:
        """Add a step to the history if the round changed the table."""
        variant = self._session.variant
        if variant is None or not variant.supports:
            return
        search = variant.search
        bits = search.bits_now
        if self._bits == bits:
            return
        self._bits = bits
        percent = percent_of_standard(bits, search.bits_standard.total)
        if self._session.settings.min_count > 1:
            # Exact bits depend on withheld counts, which could be found by trial and error.
            bits, percent = float(f"{bits:.2g}"), float(round(percent))
        self.history.append(HistoryStep(number, seconds, search.itemsets, bits, percent, sent))


# -- results of a server -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Served(RunResult):
    """The results and costs of a server's run."""

    lost: RunError | None  # why the run ended early, with the best table so far
    untold: tuple[str, ...]  # members that may not know how it ended

    def as_dict(self, file: FederationFile) -> dict[str, Any]:
        """Return all figures by name, ready for JSON."""
        reason = None if self.lost is None else str(self.lost)
        return {**self.figures(len(file.federation.members)), "reason": reason, "not_told": list(self.untold)}


def served_by(
    session: ServerSession, outcome: Outcome, account: Account, lost: RunError | None, untold: tuple[str, ...] = ()
) -> Served:
    """Return the results of a session, with items named as the server knows them."""
    costs = account.communication, account.seconds, tuple(account.history)
    found = table_at_server(session, outcome), outcome.tally, outcome.ending
    return Served(*found, *costs, outcome.member_usages, lost, untold)


def table_at_server(session: ServerSession, outcome: Outcome) -> CodeTable:
    """Return the table with labels if members share them, otherwise with ids if known, otherwise with numbers."""
    return code_table(outcome.table, names_at_server(session, outcome.table.usages.length))


def names_at_server(session: ServerSession, items: int) -> tuple[str, ...]:
    """Return what the server calls its items: by labels, ids or numbers."""
    known = session.gathering
    ids = tuple("#" + i.hex() for i in known.ids)
    return known.labels or ids or tuple(f"item {number}" for number in range(items))


def save_served(
    served: Served, file: FederationFile, folder: Path, command: str, more: Mapping[str, Any] | None = None
) -> None:
    """Save the table and a record with what the server saw, readable by their owner only.

    `command` runs it again; `more` is added to the figures of the run record.
    """
    found = {**served.as_dict(file), **(more or {})}
    traffic, untold = found.pop("by_kind"), found.pop("not_told")
    seen, federation = served.member_usages or {}, file.federation
    record = RunRecord(
        kind="server",
        data=federation.name,
        variant=federation.variant,
        command=command,
        settings={**settings_of(file), "not_told": untold},
        traffic=msgspec.convert(traffic, list[KindTraffic]),
        figures=found,
        history=list(served.history),
        members=[MemberRecord(name, usages=list(seen[name]) if name in seen else None) for name in federation.members],
        **stamp(served.table),
    )
    save_results(served.table, record, folder)


def save_results(table: CodeTable, record: RunRecord, folder: Path) -> None:
    """Save the results of a server or member in its run folder; those of an earlier run are set aside."""
    set_aside(folder)
    table.save(folder / CODE_TABLE, private=True)
    save_run(record, folder / RECORD, private=True)
