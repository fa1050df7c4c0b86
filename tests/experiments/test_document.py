from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from fedslim.errors import InputError
from fedslim.experiments.declarations import EXPERIMENTS
from fedslim.experiments.running import run_cells
from fedslim.experiments.store import Store

_spec = importlib.util.spec_from_file_location("results", Path(__file__).parents[2] / "bench" / "results.py")
room = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(room)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("results"))
    for cell in EXPERIMENTS["iid"].cells(["encounters"]):
        run_cells([cell], store)
    return store


@pytest.fixture
def small(monkeypatch):
    experiments = {name: replace(EXPERIMENTS[name], datasets=("encounters",)) for name in ("iid", "gap", "noniid")}
    monkeypatch.setattr(room, "EXPERIMENTS", experiments)


@pytest.mark.usefixtures("small")
def test_the_document_has_a_section_for_what_was_run(store, tmp_path):
    for name in ("iid", "gap"):
        (tmp_path / f"{name}.md").write_text(f"What people say of {name}.\n")
    text = room.document(store, tmp_path)
    assert text.count("\n## ") == 2  # nothing of noniid was run
    for name in ("iid", "gap"):
        assert f"What people say of {name}." in text
        assert f"fedslim experiment run {name}" in text
    assert "| encounters | X, width 1 | ours | 57.41 |" in text
    assert "| encounters | X, width 8 | ours | 57.42 |" in text
    assert "4 records, " in text  # each is in two experiments
    assert room.document(store, tmp_path) == text


@pytest.mark.usefixtures("small")
def test_a_missing_paragraph_is_named(store, tmp_path):
    with pytest.raises(InputError, match=r"iid\.md"):
        room.document(store, tmp_path)


def test_without_records_there_is_no_document(tmp_path):
    with pytest.raises(InputError, match="there are no records"):
        room.document(Store(tmp_path), tmp_path)


def test_a_bar_in_a_cell_is_no_end_of_it():
    text = room.as_markdown(room.ResultTable(["a|b", "c"], 1, [["x|y", "1"]]))
    assert text.splitlines() == ["| a\\|b | c |", "| --- | ---: |", "| x\\|y | 1 |"]
