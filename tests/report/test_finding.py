from __future__ import annotations

import pytest

from fedslim.errors import InputError
from fedslim.federated.records import save_run
from fedslim.report.finding import find_records, record_files


def test_records_are_found_in_files_folders_and_below(records, tmp_path):
    x, sa, so = records
    save_run(x, tmp_path / "runs" / "a" / "run.json")
    save_run(sa, tmp_path / "runs" / "cell-10.json")
    save_run(so, tmp_path / "runs" / "cell-2.json")
    (tmp_path / "runs" / "other.json").write_text('{"format": "fedslim-code-table"}')
    (tmp_path / "runs" / "broken.json").write_text("{")
    assert [found.variant for found in find_records([tmp_path / "runs"])] == ["x", "so", "sa"]
    assert [found.variant for found in find_records([tmp_path / "runs" / "a"])] == ["x"]
    assert [found.variant for found in find_records([tmp_path / "runs" / "cell-2.json"])] == ["so"]


def test_a_record_that_is_named_twice_is_there_once(records, tmp_path):
    save_run(records[0], tmp_path / "a" / "run.json")
    assert record_files([tmp_path / "a", tmp_path / "a" / "run.json", tmp_path]) == [tmp_path / "a" / "run.json"]


def test_a_folder_without_records_is_refused(tmp_path):
    with pytest.raises(InputError, match="there is no record of a run in this folder or below it") as error:
        find_records([tmp_path])
    assert str(tmp_path) in str(error.value)
    assert "a member has a table, codetable.json, and no record" in str(error.value)
