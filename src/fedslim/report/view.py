"""The content of a report as plain data, taken from run records.

The HTML page and the terminal both render this view, so they show the same figures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fedslim import __version__
from fedslim.errors import InputError
from fedslim.experiments.tables import ResultTable  # msgspec reads field types at run time
from fedslim.federated.records import Agreement, GapRow, HistoryStep, KindTraffic, OwnRecord, RunRecord
from fedslim.format import brief
from fedslim.mdl.codetable import CodeTable, Element
from fedslim.report import captions
from fedslim.report.captions import Fact
from fedslim.report.feed import MAX_POINTS
from fedslim.report.rows import RowsView

MAX_ROWS = 5_000  # maximum itemsets per run
ALL_ROWS = 60_000
"""Target for the itemsets of all runs together, so that a browser opens the page of a large experiment quickly."""

FEWEST_ROWS = 200  # itemsets that every run may show, even if the total then exceeds `ALL_ROWS`


class Curve(msgspec.Struct, frozen=True):
    """The compression over a run, one list per quantity."""

    rounds: list[int]
    bytes: list[int]
    seconds: list[float]
    itemsets: list[int]
    percent: list[float]


class TableView(msgspec.Struct, frozen=True):
    """The code table, one list per quantity, sorted by bits saved. Items are indices into the run's labels.

    `alone` tells which itemsets no member finds alone (at a member: which this one does not), if known. `members` has
    the usages at each member, if the variant reveals them to the server.
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
    """The discovery gap: the reference's itemsets that no member finds alone, with their support at each member."""

    total: int
    recovered: int
    items: list[list[int]]
    usage: list[int]
    supports: list[list[int]]
    found: list[bool]


class AgreementView(msgspec.Struct, frozen=True):
    """The code table compared with a reference; `usages` are the reference's, None for itemsets it does not have."""

    reference: str
    figures: list[Fact]
    matched: int
    missed: int
    extra: int
    differing: int  # matched itemsets whose usages differ
    usages: list[int | None]
    missed_items: list[list[int]]
    missed_usage: list[int]


class MemberView(msgspec.Struct, frozen=True):
    """One member: its size, what it finds alone, and its share of the usages, if known."""

    name: str
    transactions: int | None
    itemsets: int | None
    percent: float | None
    used: int | None
    codes: int | None


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `unnamed` has the items without a label; the supports and usages of items follow the labels."""

    kind: str
    name: str
    data: str
    variant: str
    meaning: str
    lead: str
    headline: list[Fact]
    curve: Curve
    transactions: int
    labels: list[str]
    unnamed: list[int]
    item_support: list[int]
    item_usage: list[int]
    table: TableView
    own: OwnRecord | None  # its lists follow the rows of the table
    rows: RowsView | None
    gap: GapView | None
    agreements: list[AgreementView]
    traffic: list[KindTraffic]
    members: list[MemberView]
    usages_note: str
    knowledge: list[Fact]
    configuration: list[Fact]
    command: str


class ViewRow(msgspec.Struct, frozen=True):
    """One run in the overview of all runs."""

    name: str
    cells: list[str]
    values: list[float | None]  # the cells as numbers, for sorting


class ReportView(msgspec.Struct, frozen=True):
    """A whole report."""

    title: str
    subtitle: str
    remarks: list[str]  # about runs that were left out
    version: str
    columns: list[str]
    overview: list[ViewRow]
    runs: list[RunView]
    failed: list[Fact]
    figures: list[tuple[str, ResultTable]]  # by the titles of experiments


def view(  # noqa: PLR0913  # keyword-only
    records: Sequence[RunRecord],
    *,
    title: str | None = None,
    remarks: Sequence[str] = (),
    failed: Sequence[Fact] = (),
    figures: Sequence[tuple[str, ResultTable]] = (),
    rows: RowsView | None = None,
    named: Mapping[str, str] | None = None,
) -> ReportView:
    """Build the view of one run or several: variants on the same data, or the cells of an experiment.

    `remarks` are about runs that were left out, `failed` has cells that failed, with the reason, `figures` those of the
    paper beside ours, `rows` those of the data of a single run, and `named` what to call items instead of their labels.
    """
    if not records:
        raise InputError("no run to report; name a folder written by `fedslim simulate --out`")
    records = _in_order(records)
    most = max(FEWEST_ROWS, min(MAX_ROWS, ALL_ROWS // len(records)))
    runs = list(zip(captions.names(records), records, [record.code_table for record in records], strict=True))
    cells = [captions.cells(record, table) for _, record, table in runs]
    known = [k for k, column in enumerate(zip(*cells, strict=True)) if any(value is not None for _, value in column)]
    return ReportView(
        title=title or captions.title_of(records),
        subtitle=captions.subtitle(records),
        remarks=list(remarks),
        version=__version__,
        columns=[captions.COLUMNS[k] for k in known],
        overview=[
            ViewRow(name, [row[k][0] for k in known], [row[k][1] for k in known])
            for (name, *_), row in zip(runs, cells, strict=True)
        ],
        runs=[_run(*run, most, named or {}, rows=rows) for run in runs],
        failed=list(failed),
        figures=list(figures),
    )


def _in_order(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Sort runs by data set, partition scheme, number of members and variant (x, sa, so)."""
    data = list(dict.fromkeys(record.data for record in records))
    variants = list(captions.MEANING)
    schemes = list(dict.fromkeys(map(captions.scheme_of, records)))

    def place(r: RunRecord) -> tuple[int, ...]:
        return data.index(r.data), schemes.index(captions.scheme_of(r)), len(r.members), variants.index(r.variant)

    return sorted(records, key=place)


def _run(  # noqa: PLR0913  # keyword-only
    name: str, record: RunRecord, table: CodeTable, most: int, named: Mapping[str, str], *, rows: RowsView | None
) -> RunView:
    labels = _Labels(table.vocabulary)
    place = {row.items: number for number, row in enumerate(table.itemsets)}
    shown = table.top(most)
    places = [place[row.items] for row in shown]  # positions in cover order, as in the record
    called = [named.get(label, label) for label in table.vocabulary]
    unnamed = [number for number, label in enumerate(called) if captions.is_unnamed(label, record.kind)]
    return RunView(
        kind=record.kind,
        name=name,
        data=record.data,
        variant=record.variant,
        meaning=captions.MEANING[record.variant],
        lead=captions.lead(record, table, len(unnamed)),
        headline=captions.headline(record, table),
        curve=_curve(record.history),
        transactions=table.transactions,
        unnamed=unnamed,
        item_support=list(table.supports),
        item_usage=list(table.singleton_usages),
        table=_table(record, table, shown, places, labels),
        own=None if record.own is None else _own(record.own, places),
        rows=rows,
        gap=None if record.gap is None else _gap(record.gap, labels, most),
        agreements=[_agreement(agreement, table, places, labels, most) for agreement in record.agreements],
        traffic=sorted(record.traffic, key=lambda row: (-row.bytes, row.kind)),
        members=_members(record),
        usages_note=captions.usages_note(record),
        knowledge=captions.knowledge(record, table),
        configuration=captions.configuration(record),
        command=record.command,
        labels=list(brief([named.get(label, label) for label in labels.all])),  # last: gap and agreements may add some
    )


class _Labels:
    """Maps items to indices into one list of labels, so that the page holds each label once."""

    def __init__(self, vocabulary: Iterable[str]) -> None:
        self.all = list(vocabulary)
        self._place = {label: number for number, label in enumerate(self.all)}

    def places(self, labels: Iterable[str]) -> list[int]:
        """Return indices in vocabulary order; a reference made by another program may have unknown items."""
        for label in labels:
            if label not in self._place:
                self._place[label] = len(self.all)
                self.all.append(label)
        return sorted(self._place[label] for label in labels)


def _curve(history: Sequence[HistoryStep]) -> Curve:
    """Return at most `MAX_POINTS` evenly spaced steps, including the first and the last."""
    steps = [step for step in history if math.isfinite(step.L_percent)]
    last = len(steps) - 1
    if last >= MAX_POINTS:
        steps = [steps[round(k * last / (MAX_POINTS - 1))] for k in range(MAX_POINTS)]
    return Curve(
        [step.round for step in steps],
        [step.bytes_total for step in steps],
        [round(step.seconds, 4) for step in steps],
        [step.itemsets for step in steps],
        [round(step.L_percent, 4) for step in steps],
    )


def _table(
    record: RunRecord, table: CodeTable, shown: Sequence[Element], places: Sequence[int], labels: _Labels
) -> TableView:
    gap = None if record.gap is None else {frozenset(row.items) for row in record.gap}
    known = None if record.own is None else record.own.found_alone
    alone = None if gap is None else [frozenset(row.labels) in gap for row in shown]
    usages = [member.usages for member in record.members if member.usages is not None]
    return TableView(
        total=len(table),
        items=[labels.places(row.labels) for row in shown],
        usage=[row.usage for row in shown],
        support=[row.support for row in shown],
        code_length=[round(row.code_length, 3) for row in shown],
        bits_saved=[round(row.bits_saved, 2) for row in shown],
        alone=alone if known is None else [not known[k] for k in places],
        members=[[at[k] for at in usages] for k in places] if usages and len(usages) == len(record.members) else None,
    )


def _own(own: OwnRecord, places: Sequence[int]) -> OwnRecord:
    """Return the record with its lists in the order of the rows of `TableView`, which has `found_alone`."""
    tests = None if own.differences is None else [own.differences[k] for k in places]
    counts = {"usages": [own.usages[k] for k in places], "supports": [own.supports[k] for k in places]}
    return msgspec.structs.replace(own, **counts, differences=tests, found_alone=None)


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
        reference=captions.reference(agreement.reference),
        figures=captions.agreement(agreement),
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
    own = record.own
    return [
        MemberView(
            member.name,
            member.transactions,
            None if alone is None else alone.itemsets,
            None if alone is None else alone.L_percent,
            None if member.usages is None else sum(usage > 0 for usage in member.usages),
            None if member.usages is None else sum(member.usages),
        )
        for member in record.members
        for alone in [own.alone if own is not None and own.member == member.name else member.alone]
    ]
