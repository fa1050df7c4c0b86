from __future__ import annotations

import pytest

from fedslim.errors import InputError
from fedslim.federated.records import save_run
from fedslim.report.finding import find_records


def test_records_are_found_in_files_folders_and_below(records, tmp_path):
    x, sa, so = records
    save_run(x, tmp_path / "runs" / "a" / "run.json")
    save_run(sa, tmp_path / "runs" / "cell-10.json")
    save_run(so, tmp_path / "runs" / "cell-2.json")
    (tmp_path / "runs" / "other.json").write_text('{"format": "fedslim-code-table"}')
    (tmp_path / "runs" / "broken.json").write_text("{")
    assert [found.variant for found in find_records([tmp_path / "runs"]).records] == ["x", "so", "sa"]
    assert [found.variant for found in find_records([tmp_path / "runs" / "a"]).records] == ["x"]
    assert [found.variant for found in find_records([tmp_path / "runs" / "cell-2.json"]).records] == ["so"]


def test_a_record_that_is_named_twice_is_there_once(records, tmp_path):
    save_run(records[0], tmp_path / "a" / "run.json")
    found = find_records([tmp_path / "a", tmp_path / "a" / "run.json", tmp_path])
    assert (found.files, len(found.records), found.remarks) == ([tmp_path / "a" / "run.json"], 1, [])
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert len(find_records([tmp_path / "a", tmp_path / "link", tmp_path / "link" / ".." / "a"]).records) == 1


def test_what_cannot_be_used_is_left_out_with_a_word_unless_it_was_named(records, tmp_path):
    save_run(records[0], tmp_path / "cells" / "good.json")
    bad = tmp_path / "cells" / "bad.json"
    bad.write_text('{"format": "fedslim-run", "version": 1}')
    for name in [f"cell-{k:02}" for k in range(12)]:
        (tmp_path / "cells" / f"{name}.failed.txt").write_text("no luck")
    found = find_records([tmp_path / "cells"])
    assert [file.name for file in found.files] == ["good.json"]
    assert found.remarks[0].startswith("left out: bad.json")
    assert found.remarks[1].startswith("left out: 12 failed cells: cell-00, cell-01, ")
    assert found.remarks[1].endswith(", cell-09, …")
    assert find_records([], [tmp_path / "cells" / "good.json", bad]).remarks == found.remarks[:1]
    with pytest.raises(InputError, match=r"bad\.json"):
        find_records([tmp_path / "cells", bad])
    (tmp_path / "cells" / "good.json").unlink()
    with pytest.raises(InputError, match=r"left out: bad\.json"):
        find_records([tmp_path / "cells"])


def test_a_folder_without_records_is_refused(tmp_path):
    with pytest.raises(InputError, match="no run record in this folder or below it") as error:
        find_records([tmp_path])
    assert str(tmp_path) in str(error.value)
    assert "codetable.json" in str(error.value)


def test_a_folder_with_a_classifier_says_how_to_use_it(tmp_path):
    (tmp_path / "classifier.json").write_text("{}")
    with pytest.raises(InputError, match=r"SlimClassifier\.load"):
        find_records([tmp_path])
