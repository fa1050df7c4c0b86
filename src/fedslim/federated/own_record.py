"""A run record for one member, or for one table: what its owner may know. Nothing of it is sent.

record = member_record(file, "north", received.table, kept, database, audit=audit, command=command, …)
record = with_table_alone(record, received.table, mine(database).table)
record = mined_record(table, "visits.csv", "fedslim mine visits.csv")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from fedslim.federated.records import AloneRecord, HistoryStep, MemberRecord, OwnRecord, RunRecord, settings_of, stamp
from fedslim.metrics import differences, supports_in
from fedslim.metrics.labelled import usages
from fedslim.safeguards.audit_summary import summarise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from fedslim.data import TransactionDatabase
    from fedslim.federated.records import Figure
    from fedslim.mdl.codetable import CodeTable
    from fedslim.settings.federation_file import FederationFile


def member_record(  # noqa: PLR0913  # keyword-only
    file: FederationFile,
    name: str,
    table: CodeTable,
    kept: CodeTable,
    database: TransactionDatabase,
    *,
    ending: str,
    rounds: int,
    audit: Path,
    command: str,
) -> RunRecord:
    """Return the record of a member, without what it finds alone.

    `table` is the code table that it received, and `kept` the same as its policy lets it be stored.
    """
    sent = summarise(audit)
    federation = file.federation
    own = _own(name, table, database, common=federation.variant != "so")
    return RunRecord(
        kind="member",
        data=federation.name,
        variant=federation.variant,
        command=command,
        settings=settings_of(file),
        figures={**_figures(table), "rounds": rounds, "bytes_up": sent.total.bytes, "ending": ending},
        history=[],
        traffic=[],
        members=[MemberRecord(each, own.transactions if each == name else None) for each in federation.members],
        own=msgspec.structs.replace(own, sent=sent.by_kind),
        **stamp(kept),
    )


def _own(name: str, table: CodeTable, database: TransactionDatabase, *, common: bool) -> OwnRecord:
    """Count at the member; in so, its table has no counts of the others to compare with."""
    from fedslim.mdl.covering import Covering  # noqa: PLC0415  # loads the kernels

    supports = supports_in(database, [frozenset(row.labels) for row in table.itemsets])
    covering = Covering(table)
    _, elements = covering.cover(covering.known(database)[0])
    used = np.bincount(elements, minlength=len(table))[: len(table)].tolist()
    others = table.transactions - len(database)
    there = [max(0, row.support - here) for row, here in zip(table.itemsets, supports, strict=True)]
    # The supports in the table were rounded down, by less than its min_count.
    tests = differences(supports, len(database), there, others, slack=table.min_count - 1) if common else None
    return OwnRecord(name, len(database), supports, used, tests, {})


def with_table_alone(record: RunRecord, table: CodeTable, alone: CodeTable) -> RunRecord:
    """Return a member's record with what it finds alone; `table` is the table of the run, with the member's labels."""
    assert record.own is not None  # noqa: S101  # it is a member's record
    name, found = record.own.member, usages(alone)
    known = [frozenset(row.labels) in found for row in table.itemsets]
    beside = AloneRecord(len(alone), alone.compression.L_percent)
    members = [msgspec.structs.replace(each, alone=beside if each.name == name else None) for each in record.members]
    own = msgspec.structs.replace(record.own, found_alone=known)
    more = {"not_found_alone": known.count(False), "alone_itemsets": len(alone)}
    return msgspec.structs.replace(record, own=own, members=members, figures={**record.figures, **more})


def mined_record(
    table: CodeTable,
    data: str,
    command: str = "",
    *,
    history: Sequence[HistoryStep] = (),
    figures: Mapping[str, Figure] | None = None,
) -> RunRecord:
    """Return a record of a table that was mined in one place."""
    return RunRecord(
        kind="mined",
        data=data,
        variant="slim",
        command=command,
        settings={},
        figures={**_figures(table), **(figures or {})},
        history=list(history),
        traffic=[],
        members=[],
        **stamp(table),
    )


def _figures(table: CodeTable) -> dict[str, Figure]:
    c = table.compression
    counts = {"transactions": table.transactions, "items": len(table.vocabulary), "itemsets": len(table)}
    return {**counts, "bits_total": c.after.total, "L_percent": c.L_percent, "L_data_percent": c.L_data_percent}
