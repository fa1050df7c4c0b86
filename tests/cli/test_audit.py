from __future__ import annotations

import json
from datetime import UTC, datetime

import numpy as np
import pytest

from fedslim.protocol import framing, messages as m
from fedslim.safeguards.audit import AuditLog


@pytest.fixture
def log(tmp_path):
    """A log of four messages in one run."""
    path = tmp_path / "audit.jsonl"
    numbers = m.Vector.of(np.arange(1000, 1010))
    said = [m.Join(1, "0.1", bytes(32), bytes(8), b"", bytes(32), 2, [], b"", b"", b"", 0, 0), m.Confirm(0, b"signed")]
    said += [m.Masked(0, 0, numbers), m.Structure(1, numbers, numbers)]
    who = {"member": "north", "federation": "hospitals", "federation_id": "ab" * 16, "masks": True}
    with AuditLog(path, "sa", **who) as written:
        for minute, message in enumerate(said):
            now = datetime(2026, 3, 1, 12, minute, tzinfo=UTC)
            run = None if isinstance(message, m.Join) else b"r" * 16
            written.record(message, framing.to_bytes(message), now=now, run=run, peer="fed.example.org:7443")
    return path


def test_what_left_the_member(fedslim, log):
    ran = fedslim("audit", log)
    assert (ran.code, ran.err) == (0, "")
    kinds, runs, told = ran.out.split("\n\n")
    rows = {row[0]: row[1:] for row in map(str.split, kinds.splitlines())}
    assert rows["kind"] == ["messages", "bytes", "uncompressed", "statistics", "masked", "labels"]
    assert list(rows)[1:] == ["Join", "Confirm", "Masked", "Structure", "all"]
    assert (rows["Masked"][0], rows["Masked"][3:]) == ("1", ["10", "10", "0"])
    assert (rows["Structure"][0], rows["Structure"][3:]) == ("1", ["10", "0", "0"])
    assert (rows["all"][0], rows["all"][3:]) == ("4", ["22", "10", "0"])
    assert runs.splitlines()[1].split()[-2:] == ["sa", "2026-03-01T12:01:00.000000Z"]
    facts = dict(line.split(maxsplit=1) for line in told.splitlines())
    assert facts["member"] == "north"
    assert facts["federation"] == f"hospitals ({'ab' * 16})"
    assert (facts["from"], facts["to"]) == ("2026-03-01T12:00:00.000000Z", "2026-03-01T12:03:00.000000Z")
    assert facts["sent"].startswith("4 messages, ")
    assert facts["sent"].endswith("to fed.example.org:7443")
    assert facts["statistics"] == "10 masked, 12 unmasked"
    assert facts["runs"] == "1"
    assert not [number for number in range(1000, 1010) if str(number) in ran.out.replace(str(log), "")]


def test_sealed_labels_are_counted_where_there_are_any(fedslim, log):
    message = m.Labels(2, 0, bytes(2048))
    who = {"member": "north", "federation": "hospitals", "federation_id": "ab" * 16, "masks": True}
    with AuditLog(log, "sa", **who) as written:
        now = datetime(2026, 3, 1, 13, tzinfo=UTC)
        written.record(message, framing.to_bytes(message), now=now, run=b"r" * 16, peer="fed.example.org:7443")
    kinds, runs, told = fedslim("audit", log).out.split("\n\n")
    rows = {row[0]: row[1:] for row in map(str.split, kinds.splitlines())}
    assert rows["kind"][-2:] == ["labels", "sealed"]
    assert [rows[kind][-2:] for kind in ("Join", "Labels", "all")] == [["0", "0"], ["0", "2,048"], ["0", "2,048"]]
    assert runs.splitlines()[1].split()[-3:] == ["2,048", "sa", "2026-03-01T12:01:00.000000Z"]
    assert "labels      0, and 2.05 kB sealed\n" in told
    assert json.loads(fedslim("audit", log, "--json").out)["total"]["sealed"] == 2048


def test_as_json(fedslim, log):
    record = json.loads(fedslim("audit", log, "--json").out)
    assert (record["file"], record["member"], record["runs"]) == (str(log), "north", 1)
    assert record["by_kind"]["Masked"]["statistics_masked"] == 10
    assert [run["messages"] for run in record["latest_runs"]] == [3]
    assert record["torn_end"] is False


@pytest.mark.parametrize("json_too", [[], ["--json"]])
def test_a_line_that_was_cut_off_is_told(fedslim, log, json_too):
    log.write_bytes(log.read_bytes()[:-9])
    ran = fedslim("audit", log, *json_too)
    assert ran.code == 0
    assert ran.only_line == f"fedslim: warning: {log}: the last line is incomplete and is not counted"


def test_lines_that_were_cut_off_earlier_are_told(fedslim, log):
    log.write_bytes(log.read_bytes()[:-9] + b'{"torn":true}\n')
    ran = fedslim("audit", log)
    assert (ran.code, ran.err) == (0, "")
    assert "incomplete  1 line, not counted\n" in ran.out


def test_an_empty_log(fedslim, log):
    log.write_bytes(log.read_bytes().partition(b"\n")[0])
    ran = fedslim("audit", log)
    assert ran.code == 0
    assert "this member has sent nothing" in ran.out


def test_what_is_no_log(fedslim, log, baskets):
    ran = fedslim("audit", baskets)
    assert (ran.code, ran.out) == (2, "")
    assert f"{baskets}: line 1 is not the header" in ran.only_line
    log.write_bytes(log.read_bytes().replace(b"Masked", b"Other", 1))
    ran = fedslim("audit", log)
    assert (ran.code, ran.out) == (2, "")
    assert f"{log}: line 4 is not an audit log entry" in ran.only_line
