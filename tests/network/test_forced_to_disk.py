"""Files that must survive a power cut are forced to the disk after they are written and before they are visible."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from trusting import NOW

from fedslim.data.atomic import write_whole
from fedslim.network import journal as room
from fedslim.network.journal import Journal
from fedslim.trust.authority import Authority

KEY = bytes(range(32))


@pytest.fixture
def steps(monkeypatch):
    """Record what happens to files: their size when forced to the disk, and where they are moved."""
    seen = []

    def spy(where, name, note):
        real = getattr(where, name)

        def done(*given, **how):
            seen.append(note(*given))
            return real(*given, **how)

        monkeypatch.setattr(where, name, done)

    def forced(descriptor):
        found = os.fstat(descriptor)
        return ("forced", "names" if stat.S_ISDIR(found.st_mode) else found.st_size)

    for name in ("fsync", "fdatasync"):
        spy(os, name, forced)
    spy(Path, "replace", lambda _path, target: ("moved", Path(target).name))
    return seen


def test_a_file_is_forced_whole_before_it_takes_its_place(tmp_path, steps):
    write_whole(tmp_path / "ledger.json", b"12345")
    assert steps == [("forced", 5), ("moved", "ledger.json"), ("forced", "names")]


def test_the_book_of_a_ca_is_forced_before_it_takes_its_place(tmp_path, steps):
    authority = Authority.create(tmp_path / "ca", "Heart Study CA", now=NOW)
    steps.clear()
    authority.renew_list(now=NOW)
    at = steps.index(("moved", "ledger.json"))
    assert steps[at - 1] == ("forced", (authority.folder / "ledger.json").stat().st_size)
    assert steps[at + 1] == ("forced", "names")
    assert at < steps.index(("moved", "crl.pem"))  # an unregistered certificate could not be revoked


def test_a_journal_is_forced_now_and_then_and_at_its_end(tmp_path, steps, monkeypatch):
    path = tmp_path / "member.journal"
    journal = Journal.create(path, {"run": "1"}, key=KEY)
    steps.clear()
    journal.append(b"soon after")
    assert steps == []  # each would take longer than the answer of a round
    monkeypatch.setattr(room, "SYNC_EVERY", 0.0)
    journal.append(b"later")
    assert steps == [("forced", path.stat().st_size)]
    monkeypatch.setattr(room, "SYNC_EVERY", 1e9)
    journal.append(b"last")
    journal.close()
    assert steps[1:] == [("forced", path.stat().st_size)]
