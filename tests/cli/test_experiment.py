from __future__ import annotations

import json

import pytest

from fedslim.experiments.declarations import EXPERIMENTS

SMALL = ("--datasets", "encounters", "--variants", "x,so")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return tmp_path_factory.mktemp("results")


def test_the_list_says_what_each_asks(fedslim):
    ran = fedslim("experiment", "list")
    assert [line.split()[0] for line in ran.out.splitlines()[1:]] == list(EXPERIMENTS)
    told = json.loads(fedslim("experiment", "list", "--json").out)
    assert [each["name"] for each in told["experiments"]] == list(EXPERIMENTS)


def test_from_nothing_to_a_table_and_again_without_running(fedslim, results):
    ran = fedslim("experiment", "run", "iid", *SMALL, "--jobs", 2, "--results", results)
    assert ran.code == 0
    assert "encounters.iid-10.seed0.x-width-1: L% 57.41, F1 1.000" in ran.err
    assert "encounters.iid-10.seed0.x-width-8: L% 57.42, F1 1.000" in ran.err
    assert [line.split()[:3] for line in ran.out.splitlines()[3:]] == [
        ["encounters", "one", "place,"],
        ["encounters", "X,", "width"],
        ["encounters", "one", "place,"],
        ["encounters", "X,", "width"],
        ["encounters", "SO", "ours"],
    ]
    again = fedslim("experiment", "run", "iid", *SMALL, "--results", results)
    assert (again.out, again.err) == (ran.out, "")
    assert fedslim("experiment", "show", "iid", *SMALL, "--results", results).out == ran.out


def test_what_was_not_run_is_said(fedslim, results):
    fedslim("experiment", "run", "iid", *SMALL, "--results", results)
    shown = fedslim("experiment", "show", "iid", "--datasets", "encounters", "--results", results)
    assert "not run" in shown.out
    cells = json.loads(
        fedslim("experiment", "show", "iid", "--datasets", "encounters", "--results", results, "--json").out
    )
    assert {cell["variant"]: cell["state"] for cell in cells["cells"]} == {"sa": "not run", "so": "done", "x": "done"}


def test_a_failed_cell_is_told_and_the_exit_code_says_so(fedslim, tmp_path):
    """Three transactions cannot be divided among ten members."""
    ran = fedslim(
        "experiment", "run", "iid", "--datasets", "encounters,wide-sparse:3", "--variants", "x", "--results", tmp_path
    )
    assert ran.code == 1
    assert "2 cells of 4 failed" in ran.err
    assert [line.split() for line in ran.out.splitlines()][-1] == ["wide-sparse:3", "X,", "width", "8", "failed"]
    assert "fedslim: wide-sparse:3, X, width 1: failed: the database has too few transactions for 10 members" in ran.err
    assert "57.41" in ran.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "nonsense"), "nonsense"),
        (("run", "iid", "--datasets", "chezz"), "there is no data set named 'chezz'"),
        (("run", "iid", "--datasets", " , "), "there are no names"),
        (("run", "iid", "--variants", "x,z"), "'z' is not a variant"),
        (("run", "iid", "--jobs", "0"), "out of range"),
        (("run", "iid", "--seeds", "0"), "out of range"),
        (("run", "iid", "--references", "/nowhere/at/all"), "the folder does not exist"),
        (("run", "iid", "--datasets", "accidents-like:0"), "there is no data set named 'accidents-like:0'"),
        (("run", "iid", "--datasets", f"accidents-like:{'9' * 5000}"), "there is no data set named"),
        (
            ("run", "iid", "--datasets", "encounters,chess", "--from", "/nowhere"),
            "chess is left out: ",
        ),
        (("run", "iid", *SMALL, "--results", "/proc/nowhere"), "--results /proc/nowhere: records cannot be written"),
        (("show", "iid", "--datasets", "chezz"), "there is no data set named 'chezz'"),
    ],
)
def test_bad_input_is_one_clear_line(fedslim, arguments, said):
    ran = fedslim("experiment", *arguments)
    assert ran.code == 2
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_a_file_in_the_place_of_results(fedslim, tmp_path):
    place = tmp_path / "results"
    place.write_text("mine")
    ran = fedslim("experiment", "run", "iid", *SMALL, "--results", place)
    assert (ran.code, place.read_text()) == (2, "mine")
    assert "this is a file" in ran.only_line


def test_a_damaged_record_is_named(fedslim, results):
    fedslim("experiment", "run", "iid", *SMALL, "--results", results)
    path = results / "encounters.iid-10.seed0.sa.json"
    path.write_text('{"format": "fedslim-run", "version": 1}')
    ran = fedslim("experiment", "show", "iid", "--datasets", "encounters", "--results", results)
    path.unlink()
    assert ran.code == 0
    assert f"encounters, SA: failed: {path} is not a valid run record" in ran.err


def test_one_damaged_record_keeps_nobody_from_the_others(fedslim, results, tmp_path):
    fedslim("experiment", "run", "iid", *SMALL, "--results", results)
    path = results / "encounters.iid-10.seed0.sa.json"
    record = json.loads((results / "encounters.iid-10.seed0.so.json").read_text("utf-8"))
    record["figures"]["candidates"] = 10**400
    record["settings"]["cell"]["variant"] = record["variant"] = "sa"
    path.write_text(json.dumps(record))
    told = fedslim("experiment", "show", "iid", "--datasets", "encounters", "--results", results, "--json")
    reported = fedslim("report", "iid", "--results", results, "--out", tmp_path / "page.html")
    shown = fedslim("show", results)
    named = fedslim("report", path, "--out", tmp_path / "none.html")
    path.unlink()
    cells = {cell["variant"]: cell for cell in json.loads(told.out)["cells"]}
    assert [cells[variant]["state"] for variant in ("sa", "so", "x")] == ["failed", "done", "done"]
    assert "figures.candidates is too large, which is out of range" in cells["sa"]["failure"]
    for ran in (reported, shown):
        assert ran.code == 0
        assert ran.only_line.startswith(f"fedslim: warning: left out: {path.name} is not a valid run record")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert f'<p class="remark">left out: {path.name} is not a valid run record' in page
    assert (named.code, (tmp_path / "none.html").exists()) == (2, False)


def test_what_is_not_there_is_hinted_at(fedslim, results, tmp_path):
    fedslim("experiment", "run", "iid", *SMALL, "--results", results)
    ran = fedslim("experiment", "show", "iid", "--datasets", "wide-sparse", "--results", results)
    assert (ran.code, "--datasets encounters" in ran.err) == (0, True)
    ran = fedslim("experiment", "show", "iid", *SMALL, "--results", tmp_path / "none")
    assert (ran.code, str(tmp_path / "none") in ran.err, (tmp_path / "none").exists()) == (0, True, False)
    ran = fedslim("show", "iid")
    assert (ran.code, ran.out, "`fedslim experiment show iid`" in ran.only_line) == (2, "", True)


def test_a_reference_that_is_none_is_said_before_anything_is_run(fedslim, tmp_path):
    (tmp_path / "encounters.skm.json").write_text("garbage")
    ran = fedslim("experiment", "run", "iid", *SMALL, "--references", tmp_path, "--results", tmp_path / "results")
    assert (ran.code, (tmp_path / "results").exists()) == (2, False)
    assert "encounters.skm.json" in ran.only_line


def test_failed_cells_are_told_of_in_reports(fedslim, results, tmp_path):
    fedslim("experiment", "run", "iid", *SMALL, "--results", results)
    note = results / "chess.iid-10.seed0.sa.failed.txt"
    note.write_text("no luck\n")
    other = results / "chess.dirichlet-10.seed0.sa.failed.txt"
    other.write_text("no luck\n")
    ran = fedslim("report", "iid", "--results", results, "--out", tmp_path / "page.html")
    everything = fedslim("show", results)
    note.unlink()
    other.unlink()
    assert ran.only_line == "fedslim: warning: left out: 1 failed cell: chess.iid-10.seed0.sa"
    assert "left out: 1 failed cell: chess.iid-10.seed0.sa" in (tmp_path / "page.html").read_text("utf-8")
    assert "2 failed cells" in everything.only_line


def test_a_folder_called_like_an_experiment(fedslim, results, tmp_path, monkeypatch):
    fedslim("experiment", "run", "iid", *SMALL, "--results", results)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "iid").mkdir()
    assert "no run record in this folder" in fedslim("report", "iid").only_line
    assert fedslim("report", "iid", "--results", results, "--out", "page.html").code == 0
