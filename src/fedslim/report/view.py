"""What a report shows, as plain data: made of the records of runs, and nothing in it is computed anew.

    shown = view(records)
    shown.runs[0].lead, shown.runs[0].table.usage, shown.overview[0].cells

The page, the terminal and whatever else shows runs say the same, because all of them say what is here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import msgspec

from fedslim import __version__
from fedslim.errors import InputError
from fedslim.format import brief
from fedslim.report import captions as phrases
from fedslim.report.captions import Fact  # noqa: TC001  # msgspec looks at the types of fields
from fedslim.report.naming import names, scheme_of, title_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fedslim.federated.records import Agreement, GapRow, HistoryStep, RunRecord
    from fedslim.mdl.codetable import CodeTable, Element

MAX_POINTS = 400
"""Points of a curve: more than there are pixels for."""

MAX_ROWS = 5_000
"""Itemsets of one run."""

ALL_ROWS = 60_000
"""Itemsets of all runs together, so that the page of a large experiment stays one that a browser opens at once."""

FEWEST_ROWS = 200
"""And yet so many of each run."""


class Curve(msgspec.Struct, frozen=True):
    """How the compression went; a column for each quantity."""

    rounds: list[int]
    bytes: list[int]
    seconds: list[float]
    itemsets: list[int]
    percent: list[float]


class TableView(msgspec.Struct, frozen=True):
    """The code table, a column for each quantity, what saves most first. Items are places in the run's labels.

    `alone` says whether no member finds the itemset by itself, where that is known. `members` has the usages at each
    member, where the variant shows them to the server.
    """

    total: int
    items: list[list[int]]
    usage: list[int]
    support: list[int]
    code_length: list[float]
    bits_saved: list[float]
    alone: list[bool] | None
    members: list[list[int]] | None


class GapView(msgspec.Struct, frozen=True):
    """The itemsets of the reference that no member finds alone, with their support at each member."""

    total: int
    recovered: int
    items: list[list[int]]
    usage: list[int]
    supports: list[list[int]]
    found: list[bool]


class AgreementView(msgspec.Struct, frozen=True):
    """The table beside a reference: `usages` are those there of the itemsets shown, none for the extra ones."""

    reference: str
    figures: list[Fact]
    matched: int
    missed: int
    extra: int
    differing: int  # of the matched, those that are used more often here, or less
    usages: list[int | None]
    missed_items: list[list[int]]
    missed_usage: list[int]


class TrafficView(msgspec.Struct, frozen=True):
    """The messages of one kind that went one way."""

    kind: str
    meaning: str
    direction: Literal["up", "down"]
    messages: int
    bytes: int
    bytes_uncompressed: int


class MemberView(msgspec.Struct, frozen=True):
    """One member: its size, what it finds alone, and how many of the codes used are its own where that is known."""

    name: str
    transactions: int | None
    itemsets: int | None
    percent: float | None
    used: int | None
    codes: int | None


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    name: str
    data: str
    variant: str
    meaning: str
    lead: str
    headline: list[Fact]
    curve: Curve
    labels: list[str]
    table: TableView
    gap: GapView | None
    agreements: list[AgreementView]
    traffic: list[TrafficView]
    members: list[MemberView]
    usages_note: str
    configuration: list[Fact]
    command: str


class ViewRow(msgspec.Struct, frozen=True):
    """A run in the table of all runs."""

    name: str
    cells: list[str]
    values: list[float | None]  # the same to be sorted by


class ReportView(msgspec.Struct, frozen=True):
    """A whole report."""

    title: str
    subtitle: str
    remarks: list[str]  # on what is not here
    version: str
    columns: list[str]
    overview: list[ViewRow]
    runs: list[RunView]


def view(records: Sequence[RunRecord], *, title: str | None = None, remarks: Sequence[str] = ()) -> ReportView:
    """What a report of these runs shows.

    Args:
        records: One run, or several: the variants on the same data, or the cells of an experiment.
        title: What stands above it; made of the data's names if left out.
        remarks: What a reader should know about runs that are not here.

    Raises:
        InputError: There is no run.
    """
    if not records:
        msg = "there is no run to report; name a folder that `fedslim simulate --out` has written"
        raise InputError(msg)
    records = _in_order(records)
    most = max(FEWEST_ROWS, min(MAX_ROWS, ALL_ROWS // len(records)))
    called = names(records)
    tables = [record.code_table for record in records]
    return ReportView(
        title=title or title_of(records),
        subtitle=phrases.subtitle(records),
        remarks=list(remarks),
        version=__version__,
        columns=list(phrases.COLUMNS),
        overview=[
            ViewRow(name, phrases.cells(record, table), phrases.values(record, table))
            for name, record, table in zip(called, records, tables, strict=True)
        ],
        runs=[_run(name, record, table, most) for name, record, table in zip(called, records, tables, strict=True)],
    )


def _in_order(records: Sequence[RunRecord]) -> list[RunRecord]:
    """The runs of a data set together, then those dealt out alike, the smaller federations first, and x, sa, so."""
    data = list(dict.fromkeys(record.data for record in records))
    variants = list(phrases.MEANING)
    dealt = list(dict.fromkeys(map(scheme_of, records)))
    return sorted(
        records,
        key=lambda r: (data.index(r.data), dealt.index(scheme_of(r)), len(r.members), variants.index(r.variant)),
    )


def _run(name: str, record: RunRecord, table: CodeTable, most: int) -> RunView:
    labels = _Labels(table.vocabulary)
    place = {row.items: number for number, row in enumerate(table.itemsets)}
    shown = table.top(most)
    places = [place[row.items] for row in shown]  # in cover order, as the record has them
    return RunView(
        name=name,
        data=record.data,
        variant=record.variant,
        meaning=phrases.MEANING[record.variant],
        lead=phrases.lead(record, table),
        headline=phrases.headline(record, table),
        curve=_curve(record.history),
        table=_table(record, table, shown, places, labels),
        gap=None if record.gap is None else _gap(record.gap, labels, most),
        agreements=[_agreement(each, table, places, labels, most) for each in record.agreements],
        traffic=[
            TrafficView(row.kind, phrases.KINDS.get(row.kind, ""), *msgspec.structs.astuple(row)[1:])
            for row in sorted(record.traffic, key=lambda row: (-row.bytes, row.kind))
        ],
        members=_members(record),
        usages_note=phrases.usages_note(record),
        configuration=phrases.configuration(record),
        command=record.command,
        labels=list(brief(labels.all)),  # last: it has grown by what only others found
    )


class _Labels:
    """Items as places in one list of labels, which a page has once."""

    def __init__(self, vocabulary: Iterable[str]) -> None:
        self.all = list(vocabulary)
        self._place = {label: number for number, label in enumerate(self.all)}

    def places(self, labels: Iterable[str]) -> list[int]:
        """In the order of the vocabulary; a reference of another program may have items that we do not know."""
        for label in labels:
            if label not in self._place:
                self._place[label] = len(self.all)
                self.all.append(label)
        return sorted(self._place[label] for label in labels)


def _curve(history: Sequence[HistoryStep]) -> Curve:
    steps = _thin_out([step for step in history if math.isfinite(step.L_percent)])
    return Curve(
        [step.round for step in steps],
        [step.bytes_total for step in steps],
        [round(step.seconds, 4) for step in steps],
        [step.itemsets for step in steps],
        [round(step.L_percent, 4) for step in steps],
    )


def _thin_out(steps: list[HistoryStep]) -> list[HistoryStep]:
    """Steps at even distances, the first and the last among them."""
    last = len(steps) - 1
    if last < MAX_POINTS:
        return steps
    return [steps[round(k * last / (MAX_POINTS - 1))] for k in range(MAX_POINTS)]


def _table(
    record: RunRecord, table: CodeTable, shown: Sequence[Element], places: Sequence[int], labels: _Labels
) -> TableView:
    gap = None if record.gap is None else {frozenset(row.items) for row in record.gap}
    usages = [member.usages for member in record.members if member.usages is not None]
    return TableView(
        total=len(table),
        items=[labels.places(row.labels) for row in shown],
        usage=[row.usage for row in shown],
        support=[row.support for row in shown],
        code_length=[round(row.code_length, 3) for row in shown],
        bits_saved=[round(row.bits_saved, 2) for row in shown],
        alone=None if gap is None else [frozenset(row.labels) in gap for row in shown],
        members=[[at[k] for at in usages] for k in places] if usages and len(usages) == len(record.members) else None,
    )


def _gap(rows: Sequence[GapRow], labels: _Labels, most: int) -> GapView:
    shown = rows[:most]
    return GapView(
        total=len(rows),
        recovered=sum(row.recovered for row in rows),
        items=[labels.places(row.items) for row in shown],
        usage=[row.usage for row in shown],
        supports=[row.supports for row in shown],
        found=[row.recovered for row in shown],
    )


def _agreement(
    agreement: Agreement, table: CodeTable, places: Sequence[int], labels: _Labels, most: int
) -> AgreementView:
    extra = agreement.usages.count(None)
    missed = agreement.missed[:most]
    return AgreementView(
        reference=phrases.reference(agreement.reference),
        figures=phrases.agreement(agreement),
        matched=len(agreement.usages) - extra,
        missed=len(agreement.missed),
        extra=extra,
        differing=sum(
            there is not None and there != row.usage
            for there, row in zip(agreement.usages, table.itemsets, strict=True)
        ),
        usages=[agreement.usages[k] for k in places],
        missed_items=[labels.places(row.items) for row in missed],
        missed_usage=[row.usage for row in missed],
    )


def _members(record: RunRecord) -> list[MemberView]:
    return [
        MemberView(
            member.name,
            member.transactions,
            None if member.alone is None else member.alone.itemsets,
            None if member.alone is None else member.alone.L_percent,
            None if member.usages is None else sum(usage > 0 for usage in member.usages),
            None if member.usages is None else sum(member.usages),
        )
        for member in record.members
    ]
