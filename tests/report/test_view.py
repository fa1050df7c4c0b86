from __future__ import annotations

import re
from importlib.resources import files
from typing import get_args

import msgspec
import pytest

from fedslim.errors import InputError
from fedslim.protocol import messages
from fedslim.protocol.variant import VARIANTS
from fedslim.report import captions, view as room
from fedslim.report.view import view


def test_a_view_says_what_the_record_says(records):
    shown = view(records)
    assert [run.name for run in shown.runs] == ["x", "sa", "so"]
    assert shown.title == "encounters"
    for record, run in zip(records, shown.runs, strict=True):
        table = record.code_table
        top = table.top()
        assert [[run.labels[item] for item in items] for items in run.table.items] == [list(row.labels) for row in top]
        assert run.table.usage == [row.usage for row in top]
        assert run.table.bits_saved == [round(row.bits_saved, 2) for row in top]
        assert run.curve.percent[-1] == pytest.approx(table.compression.L_percent, abs=1e-3)
        assert (run.gap.total, run.gap.recovered) == (record.figures["gap"], record.figures["gap_recovered"])
        assert sum(run.table.alone) == run.gap.recovered
        assert [row.bytes for row in run.traffic] == sorted((row.bytes for row in record.traffic), reverse=True)
        assert run.command == record.command


def test_usages_and_agreements_follow_the_rows(records):
    for record, run in zip(records, view(records).runs, strict=True):
        place = {row.labels: k for k, row in enumerate(record.code_table.itemsets)}
        places = [place[tuple(run.labels[item] for item in items)] for items in run.table.items]
        assert run.agreements[0].usages == [record.agreements[0].usages[k] for k in places]
        figures = record.agreements[0].figures
        shown = run.agreements[0]
        assert (shown.matched, shown.missed, shown.extra) == (figures["matched"], figures["missed"], figures["extra"])
        if record.variant == "so":
            assert [sum(at) for at in run.table.members] == run.table.usage
            assert run.members[0].codes == sum(record.members[0].usages)
        else:
            assert run.table.members is None
            assert "masked sums" in run.usages_note


def test_runs_are_called_by_what_tells_them_apart(records):
    x = records[0]
    other = msgspec.structs.replace(x, data="wards")
    seeded = msgspec.structs.replace(x, settings={**x.settings, "seed": 7})
    assert [run.name for run in view([x]).runs] == ["x"]
    assert [run.name for run in view([x, other]).runs] == ["encounters · x", "wards · x"]
    assert [run.name for run in view([x, seeded]).runs] == ["x · seed 0", "x · seed 7"]
    assert [run.name for run in view([x, x]).runs] == ["x · 1", "x · 2"]
    narrow = msgspec.structs.replace(x, settings={**x.settings, "width": 1})
    assert [run.name for run in view([x, narrow]).runs] == ["x · width 8", "x · width 1"]
    assert [run.name for run in view(records).runs] == ["x", "sa", "so"]  # the others have no choice
    assert view([x, other], title="Wards").title == "Wards"
    assert view([msgspec.structs.replace(x, data="/data/of/wards.csv.gz")]).title == "wards.csv.gz"
    assert view([msgspec.structs.replace(x, data="a/b")]).title == "a/b"


def test_the_lead_summarises_the_run(records):
    lead = view(records).runs[0].lead
    assert lead.startswith("6 members with 5,000 transactions found 140 itemsets together")
    assert "57.4 % of the bits" in lead
    assert "72 itemsets are found by no member alone; mining together found all of them" in lead


def test_a_record_with_nothing_in_it_can_be_shown(bare):
    (run,) = view([bare]).runs
    assert (run.gap, run.agreements, run.members, run.curve.rounds) == (None, [], [], [])
    assert view([bare]).columns == ["L%", "itemsets"]  # the only ones that it has figures for


def test_figures_that_one_run_lacks_are_dashes_beside_those_of_others(bare, records):
    shown = view([records[0], bare])
    assert shown.columns[2:4] == ["F1", "found by no member alone"]
    assert next(row for row in shown.overview if row.values[2] is None).cells[2:] == ["–"] * 5


def test_large_runs_are_cut_and_say_so(hostile, monkeypatch):
    monkeypatch.setattr(room, "MAX_ROWS", 250)
    (run,) = view([hostile]).runs
    assert (len(run.table.items), run.table.total) == (250, 2000)
    assert (len(run.gap.items), run.gap.total) == (250, 300)
    assert len(run.curve.rounds) == room.MAX_POINTS
    assert (run.curve.rounds[0], run.curve.rounds[-1]) == (1, 1499)


def test_a_page_of_many_runs_has_fewer_rows_of_each(hostile):
    runs = view([hostile] * 100).runs
    assert {len(run.table.items) for run in runs} == {600}


def test_a_view_needs_a_run():
    with pytest.raises(InputError, match="no run to report"):
        view([])


def test_every_variant_and_message_has_its_words():
    assert set(captions.MEANING) == {*VARIANTS, "slim"}
    assert set(captions.KNOWN) == set(VARIANTS)
    sent = {
        name
        for name, kind in vars(messages).items()
        if isinstance(kind, type) and issubclass(kind, messages.Message) and not kind.__subclasses__()
    }
    parts = (messages.Want, messages.Move, messages.PreparationWant)
    within = {kind.__name__ for part in parts for kind in get_args(part)}
    words = files("fedslim.report").joinpath("static", "kinds.js").read_text()
    assert set(re.findall(r"^  (\w+): \"", words, re.MULTILINE)) == sent - within


def test_runs_are_sorted_by_numbers_not_by_their_words(records):
    """477 kB is less than 2.99 MB."""
    for record, row in zip(records, view(records).overview, strict=True):
        values = dict(zip(view(records).columns, row.values, strict=True))
        assert values["sent"] == record.figures["bytes_total"]
        assert values["time"] == record.figures["seconds"]
        assert values["rounds"] == record.figures["rounds"]


def test_what_is_counted_is_counted_before_it_is_cut(records, monkeypatch):
    whole = view(records)
    monkeypatch.setattr(room, "MAX_ROWS", 10)
    monkeypatch.setattr(room, "FEWEST_ROWS", 10)
    for full, cut in zip(whole.runs, view(records).runs, strict=True):
        assert len(cut.table.items) == 10
        (one,), (other,) = full.agreements, cut.agreements
        assert (one.matched, one.extra, one.differing) == (other.matched, other.extra, other.differing)
    assert whole.runs[0].agreements[0].differing == 0 < whole.runs[1].agreements[0].differing


def test_what_was_recovered_is_counted_before_the_list_is_cut(hostile, monkeypatch):
    whole = view([hostile]).runs[0].gap
    assert 10 < whole.recovered < whole.total == len(whole.items)
    monkeypatch.setattr(room, "MAX_ROWS", 10)
    monkeypatch.setattr(room, "FEWEST_ROWS", 10)
    cut = view([hostile]).runs[0].gap
    assert (cut.total, cut.recovered) == (whole.total, whole.recovered)
    assert (len(cut.items), len(cut.usage), len(cut.supports), len(cut.found)) == (10, 10, 10, 10)
