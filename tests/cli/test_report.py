from __future__ import annotations

import json
import shutil

import pytest

from fedslim.cli import main
from fedslim.federated.records import load_run


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("simulated") / "run"
    assert main(["simulate", "encounters", "--members", "3", "--variant", "so", "--out", str(folder), "--quiet"]) == 0
    return folder


@pytest.fixture
def run(simulated, tmp_path):
    """A run's folder."""
    return shutil.copytree(simulated, tmp_path / "run")


def test_a_run_becomes_a_page_beside_it(fedslim, run):
    for place in (run, run / "run.json"):
        ran = fedslim("report", place)
        assert (ran.code, ran.out, ran.err) == (0, f"{run / 'report.html'}\n", "")
        assert "<title>encounters · fedslim</title>" in (run / "report.html").read_text()
        (run / "report.html").unlink()


def test_several_runs_become_one_page(fedslim, run, tmp_path, monkeypatch):
    fedslim("simulate", "encounters", "--members", 3, "--out", tmp_path / "other", "--quiet")
    monkeypatch.chdir(tmp_path)
    assert fedslim("report", run, tmp_path / "other", "--title", "Both <b>").out == "report.html\n"
    assert "<h1>Both &lt;b&gt;</h1>" in (tmp_path / "report.html").read_text()
    page = tmp_path / "new" / "folder" / "page.html"
    assert fedslim("report", tmp_path, "--out", page).code == 0
    assert "2 runs" in page.read_text()


@pytest.mark.parametrize("command", ["report", "show"])
def test_what_has_no_record_is_refused(fedslim, tmp_path, command):
    ran = fedslim(command, tmp_path)
    assert ran.code == 2
    assert f"{tmp_path}: no run record in this folder or below it" in ran.only_line
    assert fedslim(command, tmp_path / "nowhere").code == 2
    assert list(tmp_path.iterdir()) == []


def test_the_record_is_not_replaced(fedslim, run):
    ran = fedslim("report", run, "--out", run / "run.json")
    assert ran.code == 2
    assert "this is the record of a run and would be overwritten" in ran.only_line
    assert load_run(run).variant == "so"


def test_a_run_on_the_terminal(fedslim, run):
    for place in (run, run / "run.json"):
        ran = fedslim("show", place, "--top", 3)
        assert (ran.code, ran.err) == (0, "")
        table, gap, traffic, databases, facts = (part.splitlines() for part in ran.out.split("\n\n"))
        assert len(table) == 4
        titles = "usage members support at each member found together, by no member alone"
        assert gap[0].split() == titles.split()
        assert traffic[0].split()[:3] == ["direction", "messages", "sent"]
        assert [line.split()[-1] for line in databases[1:]] == ["member-1", "member-2", "member-3"]
        told = {line.split()[0]: line.split(maxsplit=1)[1] for line in facts}
        assert told["variant"].startswith("so, ")
        assert told["progress"].startswith("L% 100.00 █")
        assert "matched" in told["agreement"]
        assert "of the gap" in told["gap"]
        assert told["command"] == "fedslim simulate encounters --variant so --members 3"


def test_a_run_as_json(fedslim, run):
    shown = json.loads(fedslim("show", run, "--json", "--top", 1).out)
    record = load_run(run)
    assert shown["file"] == str(run)
    assert (shown["figures"], shown["command"]) == (record.figures, record.command)
    assert len(shown["top"]) == 1
    assert len(shown["gap"]) == record.figures["gap"]


@pytest.mark.usefixtures("run")
def test_several_runs_on_the_terminal(fedslim, tmp_path):
    fedslim("simulate", "encounters", "--members", 4, "--no-compare", "--out", tmp_path / "other", "--quiet")
    rows = fedslim("show", tmp_path).out.splitlines()
    assert rows[0].split()[:2] == ["L%", "itemsets"]
    assert [row.split("  ")[-1] for row in rows[1:]] == ["so · 3 members", "x · 4 members"]
    assert len(json.loads(fedslim("show", tmp_path, "--json").out)["runs"]) == 2


def test_reports_need_no_engine(run, loaded_by):
    assert loaded_by("show", run) & {"numba", "llvmlite", "sklearn", "scipy"} == set()
    assert loaded_by("report", run) & {"numba", "llvmlite", "sklearn", "scipy", "rich"} == set()


def test_an_experiment_is_reported_by_its_name(fedslim, tmp_path):
    results, out = tmp_path / "results", tmp_path / "page.html"
    fedslim("experiment", "run", "iid", "--datasets", "encounters", "--variants", "x,so", "--results", results)
    ran = fedslim("report", "iid", "--results", results, "--out", out)
    assert (ran.code, ran.out) == (0, f"{out}\n")
    page = out.read_text("utf-8")
    assert "<title>Ten members of equal size, IID" in page
    none = fedslim("report", "noniid", "--results", results, "--out", tmp_path / "none.html")
    assert (none.code, (tmp_path / "none.html").exists()) == (2, False)
    assert "has no records of noniid" in none.only_line


def test_a_second_run_does_not_replace_the_first(fedslim, run):
    fedslim("report", run)
    first = load_run(run)
    ran = fedslim("simulate", "encounters", "--members", 2, "--no-compare", "--out", run, "--quiet")
    assert (ran.code, str(run / "earlier" / "1") in ran.err) == (0, True)
    assert load_run(run / "earlier" / "1") == first
    assert (run / "earlier" / "1" / "report.html").exists()
    assert not (run / "report.html").exists()
    assert len(fedslim("show", run.parent).out.split("\n\n")) > 1  # one run, not a list of two


def test_a_table_becomes_a_page(fedslim, tmp_path):
    table, page = tmp_path / "table.json", tmp_path / "mined.html"
    ran = fedslim("mine", "encounters", "--out", table, "--report", page, "--top", 1)
    assert (ran.code, ran.out.splitlines()[-1].split()) == (0, ["report", str(page)])
    mined = shown_in(page)
    assert (mined["runs"][0]["kind"], mined["runs"][0]["command"]) == ("mined", "fedslim mine encounters")
    assert len(mined["runs"][0]["curve"]["percent"]) > 5
    assert len(mined["runs"][0]["rows"]["number"]) == 1000
    assert page.stat().st_mode & 0o077 == 0
    assert fedslim("report", table).out == f"{tmp_path / 'report.html'}\n"
    assert shown_in(tmp_path / "report.html")["runs"][0]["rows"] is None
    fedslim("report", table, "--data", "encounters")
    from_file = shown_in(tmp_path / "report.html")["runs"][0]
    assert (from_file["rows"], from_file["table"]) == (mined["runs"][0]["rows"], mined["runs"][0]["table"])
    refused = fedslim("report", table, "--out", table)
    assert (refused.code, "would be overwritten" in refused.only_line) == (2, True)


def test_rows_of_data_need_one_table(fedslim, run, tmp_path):
    ran = fedslim("report", run, run / "codetable.json", "--data", "encounters", "--out", tmp_path / "page.html")
    assert (ran.code, (tmp_path / "page.html").exists()) == (2, False)
    assert "--data goes with one run or code table" in ran.only_line


def shown_in(page):
    """Return the view in a page."""
    return json.loads(page.read_text("utf-8").partition('id="view">')[2].partition("</script>")[0])
