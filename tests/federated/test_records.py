from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from fedslim.data import builtin_members
from fedslim.errors import InputError
from fedslim.federated import compare, simulate
from fedslim.federated.records import load_run, save_run, simulation_record
from fedslim.report.view import view


@pytest.fixture(scope="module", params=["x", "sa", "so"])
def ran(request):
    simulation = simulate(dict(builtin_members("encounters")), variant=request.param)
    compared = compare(simulation)
    return simulation, compared, simulation_record(simulation, compared, data="encounters", command="fedslim demo")


def test_a_record_is_read_as_it_was_written(ran, tmp_path):
    simulation, _, record = ran
    save_run(record, tmp_path / "deep" / "run.json")
    for place in (tmp_path / "deep", tmp_path / "deep" / "run.json"):
        read = load_run(place)
        assert read.code_table == simulation.table
        for name in set(record.__struct_fields__) - {"table"}:
            assert getattr(read, name) == getattr(record, name)


def test_figures_are_those_of_the_table(ran):
    simulation, _, record = ran
    c, f = simulation.table.compression, record.figures
    assert (f["bits_total"], f["bits_data"], f["bits_model"]) == (c.after.total, c.after.data, c.after.model)
    assert (f["L_percent"], f["L_data_percent"]) == (c.L_percent, c.L_data_percent)
    assert c.after.data != c.after.model
    assert (f["itemsets"], f["items"]) == (len(simulation.table), len(simulation.table.vocabulary))
    assert (f["members"], f["transactions"]) == (len(record.members), simulation.table.transactions)
    assert (f["rounds"], f["bytes_total"]) == (simulation.communication.rounds, simulation.communication.bytes_total)


def test_only_so_shows_what_is_used_where(ran):
    simulation, _, record = ran
    for member in record.members:
        assert (member.usages is not None) == (simulation.variant == "so")
    if simulation.variant == "so":
        sums = [sum(column) for column in zip(*(member.usages for member in record.members), strict=True)]
        assert sums == [row.usage for row in simulation.table.itemsets]


def test_the_history_ends_at_the_table_that_was_found(ran):
    simulation, _, record = ran
    steps = record.history
    assert steps[0].L_percent == 100.0
    assert steps[-1].L_percent == pytest.approx(simulation.table.compression.L_percent, abs=1e-9)
    for name in ("round", "seconds", "bytes_total"):
        values = [getattr(step, name) for step in steps]
        assert values == sorted(values)
    assert steps[-1].round <= simulation.communication.rounds
    assert steps[-1].bytes_total <= simulation.communication.bytes_total


def test_agreement_and_gap_say_what_the_comparison_says(ran):
    _, compared, record = ran
    (agreement,) = record.agreements
    f = compared.fidelity
    assert sum(usage is not None for usage in agreement.usages) == f.matched
    assert agreement.usages.count(None) == f.extra
    assert len(agreement.missed) == f.missed
    assert len(record.gap) == len(compared.gap)
    assert sum(row.recovered for row in record.gap) == len(compared.recovered)
    assert all(len(row.supports) == len(record.members) for row in record.gap)
    assert [member.alone.itemsets for member in record.members] == [len(table) for table in compared.local_tables]


def test_a_record_without_a_comparison(ran):
    simulation, _, _ = ran
    record = simulation_record(simulation, None, data="d", command="c")
    assert (record.agreements, record.gap, {member.alone for member in record.members}) == ([], None, {None})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: r | {"format": "other"}, "its format is 'other'"),
        (lambda r: r | {"version": 1}, "version 1"),
        (lambda r: r | {"history": [{}]}, "history"),
        (lambda r: r | {"unknown": 1}, "unknown"),
        (lambda r: r | {"table": {}}, "not a code table"),
        (lambda r: r | {"variant": "y"}, "variant"),
        (lambda r: r | {"figures": r["figures"] | {"candidates": "many"}}, "figures.candidates"),
        (lambda r: r | {"figures": r["figures"] | {"rounds": True}}, "figures.rounds"),
        (lambda r: r | {"settings": {"partition": "iid"}}, "settings.partition"),
        (lambda r: r | {"settings": {"partition": {"parameters": []}}}, "settings.partition"),
        (lambda r: r | {"history": [r["history"][0] | {"L_percent": -1e308}]}, "history"),
        (lambda r: r | {"members": [{"name": "a", "usages": [1]}]}, "usages for the"),
        (lambda r: r | {"members": r["members"][1:]}, "supports for"),
        (lambda r: {k: v for k, v in r.items() if k != "figures"}, "figures"),
    ],
)
def test_what_is_no_record_is_refused_by_name(ran, tmp_path, change, said):
    path = tmp_path / "run.json"
    path.write_bytes(msgspec.json.encode(change(json.loads(msgspec.json.encode(ran[2])))))
    with pytest.raises(InputError, match=said) as error:
        load_run(path)
    assert str(path) in str(error.value)


def test_no_file_and_torn_files(ran, tmp_path):
    with pytest.raises(InputError, match="check the path"):
        load_run(tmp_path)
    whole = msgspec.json.encode(ran[2])
    (tmp_path / "run.json").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="not a valid run record"):
        load_run(tmp_path)


def test_a_notebook_shows_the_essentials(ran):
    simulation, compared, record = ran
    for shown in (simulation._repr_html_(), record._repr_html_()):
        assert f"<tr><th>variant</th><td>{simulation.variant}</td></tr>" in shown
        assert f"{len(simulation.table):,} itemsets, 20 shown, L% = " in shown
        assert "<script" not in shown
    assert f"{len(compared.recovered)} of {len(compared.gap)}" in record._repr_html_()


def test_a_notebook_takes_no_markup_from_names(ran):
    simulation, _, _ = ran
    hostile = simulation_record(simulation, None, data="d", command="<img src=x onerror=alert(1)>")
    assert "<img" not in hostile._repr_html_()
    turned = simulation_record(simulation, None, data="d", command="\u202ex\x1b[2J\x00")
    assert not {"\u202e", "\x1b", "\x00"} & set(turned._repr_html_())


PIECES = [b"", b'"', b"null", b"-1", b"1e999", b"[", b"}", b"\xff", b"\\ud800", b"9" * 30]


@given(st.data())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_mangled_bytes_are_refused_or_read_but_never_break(ran, tmp_path, data):
    whole = bytearray(msgspec.json.encode(ran[2]))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(whole) - 1))
        piece = data.draw(st.sampled_from(PIECES))
        whole[place : place + data.draw(st.integers(0, 8))] = piece
    path = tmp_path / "run.json"
    path.write_bytes(bytes(whole))
    try:
        read = load_run(path)
    except InputError as error:
        assert str(path) in str(error)  # noqa: PT017  # most are refused, and what is read is what it says
        return
    (shown,) = view([read]).runs
    assert shown.table.total == len(read.code_table) == len(shown.table.items)
    save_run(read, path)
    again = load_run(path)
    assert (again, again.code_table) == (msgspec.structs.replace(read, table=again.table), read.code_table)
