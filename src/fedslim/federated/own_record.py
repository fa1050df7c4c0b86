"""A run record for one member, or for one table: what its owner may know. Nothing of it is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from fedslim.data import TransactionDatabase
from fedslim.federated.accounting import table_figures
from fedslim.federated.records import (
    AloneRecord,
    Figure,
    HistoryStep,
    MemberRecord,
    OwnRecord,
    RunRecord,
    settings_of,
    stamp,
)
from fedslim.mdl.codetable import CodeTable
from fedslim.metrics import differences
from fedslim.metrics.gap import supports_in
from fedslim.metrics.reference import usages
from fedslim.safeguards.audit import Summary

if TYPE_CHECKING:
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
    sent: Summary,
    command: str,
) -> RunRecord:
    """Return the record of a member, not compared with anything.

    `table` is the code table that it received, `kept` the same as its policy lets it be stored, `sent` what left it.
    """
    from fedslim.mdl.covering import Covering  # noqa: PLC0415  # loads the kernels

    federation, covering = file.federation, Covering(table)
    supports = supports_in(database, [frozenset(row.labels) for row in table.itemsets])
    _, elements = covering.cover(covering.known(database)[0])
    used = np.bincount(elements, minlength=len(table))[: len(table)].tolist()
    return RunRecord(
        kind="member",
        data=federation.name,
        variant=federation.variant,
        command=command,
        settings=settings_of(file),
        figures={**table_figures(table), "rounds": rounds, "bytes_up": sent.total.bytes, "ending": ending},
        history=[],
        traffic=[],
        members=[MemberRecord(each, len(database) if each == name else None) for each in federation.members],
        own=OwnRecord(name, len(database), supports, used, sent.by_kind),
        **stamp(kept),
    )


def compared_record(record: RunRecord, table: CodeTable, alone: CodeTable | None) -> RunRecord:
    """Return a member's record with what is different at the other members, and what the member finds alone.

    `table` is the table of the run, with the member's labels. In so it has no counts of the others to compare with.
    """
    own = record.own
    assert own is not None  # noqa: S101  # it is a member's record
    more: dict[str, Figure] = {}
    if record.variant != "so":
        # Within bounds even if the server lied about the sums. They were rounded down, by less than min_count.
        others, sums = max(0, table.transactions - own.transactions), [row.support for row in table.itemsets]
        there = [min(others, max(0, total - here)) for total, here in zip(sums, own.supports, strict=True)]
        tests = differences(own.supports, own.transactions, there, others, slack=table.min_count - 1)
        own = msgspec.structs.replace(own, differences=tests)
        more["different_here"] = sum(each.significant for each in tests)
    if alone is not None:
        found = usages(alone)
        known = [frozenset(row.labels) in found for row in table.itemsets]
        beside = AloneRecord(len(alone), alone.compression.L_percent)
        own = msgspec.structs.replace(own, found_alone=known, alone=beside)
        more["not_found_alone"] = known.count(False)
    return msgspec.structs.replace(record, own=own, figures={**record.figures, **more})


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
        figures={**table_figures(table), **(figures or {})},
        history=list(history),
        traffic=[],
        members=[],
        **stamp(table),
    )
