from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from fedslim.errors import InputError
from fedslim.experiments.declarations import EXPERIMENTS, PAPER, Cell, FigureColumn, Setting
from fedslim.experiments.running import CellState, Runner, _at_budgets, run_cells
from fedslim.experiments.store import Store
from fedslim.experiments.tables import (
    CellOutcome,
    _difference,
    tabulate,
    tabulate_references,
)
from fedslim.mdl import mine

LARGE = "accidents-like:20000"
CELLS = [Cell("encounters", Setting(members=3), 0, variant) for variant in ("sa", "so", "x")]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A store with three cells, run in this process, and the messages of the run."""
    store = Store(tmp_path_factory.mktemp("results"))
    said = []
    run_cells(CELLS, store, tell=lambda cell, state, doing: said.append((cell.key, state, doing)))
    return store, said


def test_each_cell_has_a_record_that_says_everything(ran):
    store, said = ran
    assert [key for key, state, _ in said if state == "done"] == [cell.key for cell in CELLS]
    for cell in CELLS:
        record = store.load(cell)
        assert record.settings["cell"] == cell.as_dict()
        assert record.settings["seed"] == cell.seed
        assert record.settings["width"] == cell.width == 1
        assert record.command == cell.command
        assert {"python", "numpy", "numba", "fedslim"} <= record.versions.keys()
        assert record.machine["cores"] >= 1
        assert record.history
        assert record.figures["L_percent_at_1.000"] == pytest.approx(record.figures["L_percent"], abs=1e-9)
        assert record.figures["L_percent_at_0.010"] >= record.figures["L_percent_at_0.333"]


def test_x_recovers_the_whole_gap_and_equals_one_place(ran):
    record = ran[0].load(CELLS[2])
    assert (record.figures["equal"], record.figures["grr"], record.figures["f1"]) == (True, 1.0, 1.0)
    assert record.figures["gap"] > 0


def test_wide_cells_are_compared_with_one_place_of_the_same_width(tmp_path):
    from fedslim.data import load

    store, cell = Store(tmp_path), Cell("encounters", Setting("support-skew", 3, 2), 0, "x", 8)
    narrow = Cell("encounters", cell.setting, 0, "x")
    run_cells([cell], store)
    run_cells([narrow], store)
    wide, plain = store.load(cell), store.load(narrow)
    assert (wide.settings["width"], plain.settings["width"]) == (8, 1)
    for record in (wide, plain):
        assert record.code_table == mine(load("encounters"), width=record.settings["width"]).table
        assert (record.figures["equal"], record.figures["f1"]) == (True, 1.0)
    assert wide.settings["partition"] == plain.settings["partition"]
    assert [row[1] for row in tabulate(EXPERIMENTS["iid"], [narrow, cell], store).rows] == [
        *("one place, width 1", "X, width 1", "one place, width 8", "X, width 8")
    ]


def test_a_cell_that_fails_does_not_stop_the_rest(tmp_path):
    store = Store(tmp_path)
    good, bad = Cell("encounters", Setting(members=2), 0, "x"), Cell("encounters", Setting(members=2), 0, "y")
    said = []
    run_cells([bad, good], store, tell=lambda cell, state, _: said.append((cell.variant, state)))
    assert ("y", "failed") in said
    assert ("x", "done") in said
    assert "there is no variant 'y'" in store.look(bad)
    assert not isinstance(store.look(good), str)
    assert store.load(bad) is None


def test_data_that_cannot_be_dealt_out_fail_every_cell_of_the_group(tmp_path):
    store = Store(tmp_path)
    cells = [Cell("encounters", Setting(members=100_000), 0, variant) for variant in ("sa", "x")]
    run_cells(cells, store)
    assert all("100000" in store.look(cell).replace(",", "") for cell in cells)


def test_a_cell_that_failed_is_forgotten_when_it_succeeds(ran, tmp_path):
    record = ran[0].load(CELLS[0])
    store = Store(tmp_path)
    store.fail(CELLS[0], "no luck")
    assert store.look(CELLS[0]) == "no luck"
    store.save(CELLS[0], record)
    assert not isinstance(store.look(CELLS[0]), str)
    assert [path.name for path in tmp_path.iterdir()] == [f"{CELLS[0].key}.json"]


def test_a_record_of_another_cell_is_refused(ran, tmp_path):
    store = Store(tmp_path)
    store.save(CELLS[1], ran[0].load(CELLS[0]))
    with pytest.raises(InputError, match="another cell"):
        store.load(CELLS[1])


def test_reference_tables_are_compared_with(tmp_path):
    store = Store(tmp_path / "results")
    folder = tmp_path / "reference"
    folder.mkdir()
    table = {"dataset": "encounters", "system": "s", "itemsets": [{"items": ["fever", "cough"], "usage": 3}]}
    (folder / "encounters.other.json").write_text(json.dumps(table))
    run_cells(CELLS[2:], store, references=str(folder))
    assert [agreement.reference for agreement in store.load(CELLS[2]).agreements] == ["centralised", "other"]
    assert [row[:3] for row in tabulate_references(CELLS[2:], store).rows] == [["encounters", "other", "X, width 1"]]


# -- processes -------------------------------------------------------------------------------------------------------


def test_cells_are_run_by_processes_and_kept(tmp_path):
    store = Store(tmp_path)
    other = Cell("encounters", Setting(members=2), 1, "so")
    said = []
    state = Runner(store).run([*CELLS[1:], other], jobs=2, tell=lambda _, text: said.append(text))
    assert (state.done, state.failed, state.kept) == (3, 0, 0)
    assert sum(text is not None for text in said) == 3
    before = {cell: store.path(cell).stat().st_mtime_ns for cell in (*CELLS[1:], other)}
    again = Runner(store).run([*CELLS[1:], other])
    assert (again.done, again.kept) == (0, 3)
    assert before == {cell: store.path(cell).stat().st_mtime_ns for cell in before}


def test_a_process_that_is_killed_fails_its_cells_and_only_those(tmp_path, monkeypatch):
    store = Store(tmp_path)
    doomed = Cell("accidents-like:3000", Setting(members=2), 0, "x")
    killed = []

    real = Runner._start

    def start(runner, cells):
        process = real(runner, cells)
        if cells[0] == doomed:
            process.kill()
            killed.append(process)
        return process

    monkeypatch.setattr(Runner, "_start", start)
    state = Runner(store).run([doomed, CELLS[1]])
    assert killed
    assert (state.done, state.failed) == (1, 1)
    assert store.look(doomed).endswith("was killed by signal 9")
    assert store.load(CELLS[1]) is not None


def test_the_others_of_a_killed_process_are_run_by_another(tmp_path, monkeypatch):
    store = Store(tmp_path)
    real = Runner._start
    started = []

    def start(runner, cells):
        process = real(runner, cells)
        started.append([cell.variant for cell in cells])
        if len(started) == 1:
            process.kill()
        return process

    monkeypatch.setattr(Runner, "_start", start)
    said = []
    state = Runner(store).run(CELLS, tell=lambda _, text: said.append(text))
    assert started == [["sa", "so", "x"], ["so", "x"]]
    assert (state.done, state.failed) == (2, 1)
    assert [store.done(cell) for cell in CELLS] == [False, True, True]
    assert sum("was killed by signal 9" in (text or "") for text in said) == 1


def test_the_last_words_of_a_process_that_died_are_kept(tmp_path, monkeypatch):
    program = "import os, sys; print('cannot map segment', file=sys.stderr, flush=True); os.abort()"
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda command, **how: popen([command[0], "-c", program], **how))
    store = Store(tmp_path)
    assert Runner(store).run(CELLS[1:2]).failed == 1
    assert store.look(CELLS[1]).splitlines() == ["cannot map segment", "its process was killed by signal 6"]


def test_a_record_of_data_that_have_changed_is_run_again(ran, tmp_path):
    store = Store(tmp_path)
    record = ran[0].load(CELLS[1])
    store.save(CELLS[1], record)
    assert Runner(store).run(CELLS[1:2]).kept == 1
    settings = {**record.settings, "data_digest": "0" * 64}
    store.save(CELLS[1], msgspec.structs.replace(record, settings=settings))
    said = []
    state = Runner(store).run(CELLS[1:2], tell=lambda _, text: said.append(text))
    assert (state.kept, state.done) == (0, 1)
    assert any(text and text.startswith(f"{CELLS[1].key}: the data have changed") for text in said)
    assert store.load(CELLS[1]).settings == record.settings


def test_a_runner_does_not_load_what_lies_about(tmp_path, monkeypatch):
    for name in ("msgspec", "random", "signal"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('this is not {name}')")
    monkeypatch.chdir(tmp_path)
    assert Runner(Store(tmp_path / "results")).run(CELLS[1:2]).done == 1


def test_a_damaged_record_is_run_again(ran, tmp_path):
    store = Store(tmp_path)
    store.save(CELLS[1], ran[0].load(CELLS[1]))
    whole = store.path(CELLS[1]).read_bytes()
    for torn in (b"", whole[: len(whole) // 2]):
        store.path(CELLS[1]).write_bytes(torn)
        assert not store.done(CELLS[1])
        table = tabulate(EXPERIMENTS["uneven"], CELLS[1:2], store)
        assert [row[3] for row in table.rows] == ["failed"]
        assert f"failed: {store.path(CELLS[1])}" in table.remarks[-1]
    assert Runner(store).run(CELLS[1:2]).done == 1
    assert store.done(CELLS[1])


def test_references_that_come_later_are_added(ran, tmp_path):
    store, folder = Store(tmp_path / "results"), tmp_path / "reference"
    store.save(CELLS[2], ran[0].load(CELLS[2]))
    folder.mkdir()
    table = {"dataset": "encounters", "system": "s", "itemsets": [{"items": ["fever", "cough"], "usage": 3}]}
    (folder / "encounters.other.json").write_text(json.dumps(table))
    assert Runner(store, references=folder).run(CELLS[2:]).kept == 1
    record = store.load(CELLS[2])
    assert [agreement.reference for agreement in record.agreements] == ["centralised", "other"]
    assert record.figures == ran[0].load(CELLS[2]).figures


def test_kill_9_loses_only_what_was_running(tmp_path):
    """The worker processes exit too."""
    arguments = [
        "experiment",
        "run",
        "iid",
        "--datasets",
        "encounters,accidents-like:20000",
        "--results",
        str(tmp_path),
    ]
    command = [sys.executable, "-m", "fedslim", *arguments]
    runner = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    lines = []
    for line in runner.stderr:
        lines.append(line)
        if sum("GRR" in each for each in lines) == 4:  # the summary of a finished cell
            break
    time.sleep(1.0)  # the fifth cell is running now
    workers = children(runner.pid)
    assert workers
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()
    runner.stderr.close()
    deadline = time.monotonic() + 30
    while any(alive(pid) for pid in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    store = Store(tmp_path)
    done = EXPERIMENTS["iid"].cells(["encounters"])
    assert all(store.load(cell) is not None for cell in done)
    assert not any(store.done(cell) for cell in EXPERIMENTS["iid"].cells([LARGE]))
    again = Runner(store).run(done)
    assert again.kept == 4


def children(pid):
    """Of all threads of a process."""
    lists = (thread / "children" for thread in Path(f"/proc/{pid}/task").iterdir())
    return [int(child) for children in lists for child in children.read_text("ascii").split()]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


# -- tables ----------------------------------------------------------------------------------------------------------


def test_a_table_says_what_is_missing_and_what_failed(tmp_path):
    store = Store(tmp_path)
    cells = EXPERIMENTS["iid"].cells(["chess"])
    store.fail(cells[0], "Traceback\nValueError: no luck")
    table = tabulate(EXPERIMENTS["iid"], cells, store)
    assert [row[2] for row in table.rows] == ["failed", *["not run"] * 3]
    assert table.remarks[-1] == "chess, SA: failed: no luck"


def test_one_place_comes_first_whichever_variant_was_run(ran):
    table = tabulate(EXPERIMENTS["iid"], [CELLS[0], *CELLS[1:]], ran[0])
    assert table.rows[0][1] == "one place, width 1"
    missing = Cell("encounters", CELLS[1].setting, 9, "sa")
    table = tabulate(EXPERIMENTS["iid"], [missing, CELLS[1]], ran[0])
    assert [row[1:3] for row in table.rows] == [["one place, width 1", "ours"], ["SA", "not run"], ["SO", "ours"]]


def test_a_difference_is_that_of_the_figures_shown(ran, monkeypatch):
    """Two seeds may have 259 and 260 itemsets: the table shows 260, so its difference from 255 is 5."""
    store = ran[0]
    monkeypatch.setattr(CellOutcome, "mean", lambda _self, name: 259.5 if name == "itemsets" else 1.0)
    cell = Cell("ionosphere", Setting(), 0, "sa")
    monkeypatch.setattr(Store, "look", lambda _self, _cell: ran[0].load(CELLS[1]))
    rows = tabulate(EXPERIMENTS["iid"], [cell], store).rows
    assert [row[4] for row in rows[-3:]] == ["260", "255", "+5"]


def test_seeds_are_averaged_and_the_table_says_so(tmp_path):
    store = Store(tmp_path)
    cells = [Cell("encounters", Setting(members=2), seed, "so") for seed in (0, 1)]
    for cell in cells:
        run_cells([cell], store)
    values = [store.load(cell).figures["L_percent"] for cell in cells]
    assert values[0] != values[1]
    table = tabulate(EXPERIMENTS["iid"], cells, store)
    assert table.rows[-1][3] == f"{sum(values) / 2:.2f}"
    mean = "figures are means over 2 seeds if all of them were run"
    assert mean in table.remarks
    store.path(cells[1]).unlink()
    table = tabulate(EXPERIMENTS["iid"], cells, store)
    assert mean not in table.remarks
    assert "encounters, 2 members, SO: 1 of 2 seeds" in table.remarks
    assert tabulate(EXPERIMENTS["iid"], cells, Store(tmp_path / "none")).remarks == []


def test_stand_ins_and_other_versions_are_remarked_upon(ran, tmp_path):
    store = Store(tmp_path)
    cell = Cell("accidents_head", Setting("dirichlet"), 0, "so")
    record = ran[0].load(CELLS[1])
    settings, versions = record.settings | {"cell": cell.as_dict()}, record.versions | {"fedslim": "0.0.1"}
    store.save(cell, msgspec.structs.replace(record, settings=settings, versions=versions))
    remarks = tabulate(EXPERIMENTS["uneven"], [cell], store).remarks
    assert any(remark.startswith("accidents_head replaces Accidents") for remark in remarks)
    assert any(re.match(r"accidents_head, dirichlet, SO: .* fedslim 0\.0\.1", remark) for remark in remarks)


def test_a_table_has_ours_the_papers_and_the_difference(ran, monkeypatch):
    store, _ = ran
    experiment = EXPERIMENTS["iid"]
    beside = {"L_percent": 60.0, "bytes_total": 1e9, "itemsets": 135, "f1": 0.5}
    monkeypatch.setitem(PAPER, ("iid", "encounters", str(CELLS[1].setting), "so"), beside)
    table = tabulate(experiment, CELLS, store)
    by_row = {(row[1], row[2]): dict(zip(table.head, row, strict=True)) for row in table.rows}
    figures = store.load(CELLS[1]).figures
    assert by_row["SO", "ours"]["L%"] == f"{figures['L_percent']:.2f}"
    assert by_row["", "paper"]["L%"] == "60.00"
    assert by_row["", "difference"]["L%"] == f"{figures['L_percent'] - 60:+.2f}".replace("-", "−")
    assert by_row["", "difference"]["BT"].endswith("× less")
    assert by_row["", "difference"]["R"] == ""
    assert by_row["one place, width 1", "ours"]["F1"] == "–"
    assert {len(row) for row in table.rows} == {len(table.head)}


def test_a_budget_is_a_part_of_the_seconds_of_the_run():
    steps = [(1.0, 80.0), (10.0, 70.0), (33.0, 60.0), (100.0, 50.0)]
    history = [SimpleNamespace(seconds=seconds, L_percent=percent) for seconds, percent in steps]
    found = _at_budgets(SimpleNamespace(history=history, seconds=100.0))
    assert found == {
        "L_percent_at_0.010": 80.0,  # reached exactly at the end of the budget
        "L_percent_at_0.030": 80.0,
        "L_percent_at_0.100": 70.0,
        "L_percent_at_0.333": 60.0,
        "L_percent_at_1.000": 50.0,
    }
    assert _at_budgets(SimpleNamespace(history=history, seconds=99.0))["L_percent_at_0.010"] == 100.0


def test_the_time_left_is_that_of_the_cells_that_are_to_be_run():
    """Of ten cells, four were kept and two ran in ten seconds, so four are left."""
    state = CellState(10, done=1, kept=4, failed=1, began=time.monotonic() - 10.0)
    assert 1.5 < state.remaining / state.seconds < 2.5
    assert CellState(10, kept=4).remaining is None


def test_bytes_are_compared_by_how_many_times():
    column = FigureColumn("bytes_total", "BT", 0, "bytes")
    found = [
        _difference(column, ours, papers) for ours, papers in ((10.0, 40.0), (400.0, 10.0), (5.0, 5.0), (0.0, 5.0))
    ]
    assert found == ["4.0× less", "40× more", "1.0× less", ""]
    assert _difference(FigureColumn("f1", "F1", 2), 0.5, 0.75) == "−0.25"
