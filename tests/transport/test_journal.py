from __future__ import annotations

import contextlib
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedslim.errors import JournalError, WriteError
from fedslim.protocol import messages as m
from fedslim.transport.journal import Journal
from fedslim.transport.recording import (
    Figures,
    Sum,
    heard_in,
    heard_record,
    round_record,
    rounds_of,
    told,
    told_record,
)

HEADER = {"run": "0123", "members": ["a", "b"]}


def written(path, *records):
    journal = Journal.create(path, HEADER)
    for record in records:
        journal.append(record)
    journal.close()
    return path


def records_in(path):
    journal, _, records = Journal.reopen(path)
    journal.close()
    return records


@given(records=st.lists(st.binary(max_size=300), max_size=8))
@settings(max_examples=50)
def test_what_is_written_comes_back_and_goes_on(tmp_path_factory, records):
    path = written(tmp_path_factory.mktemp("j") / "run.journal", *records)
    journal, header, back = Journal.reopen(path)
    assert (header, back) == (HEADER, records)
    journal.append(b"more")
    journal.close()
    assert records_in(path) == [*records, b"more"]


def test_a_torn_last_record_is_cut_off_wherever_it_was_torn(tmp_path):
    whole = written(tmp_path / "whole", b"first", b"second record").read_bytes()
    start = len(written(tmp_path / "shorter", b"first").read_bytes())
    for length in range(start, len(whole)):
        path = tmp_path / f"torn-{length}"
        path.write_bytes(whole[:length])
        journal, _, records = Journal.reopen(path)
        journal.append(b"again")
        journal.close()
        assert records == [b"first"]
        assert records_in(path) == [b"first", b"again"]


def test_damage_before_the_end_is_refused_by_name(tmp_path):
    path = written(tmp_path / "run.journal", b"first", b"second", b"third")
    data = bytearray(path.read_bytes())
    data[data.index(b"second")] ^= 1
    path.write_bytes(data)
    with pytest.raises(JournalError, match=r"run\.journal: record 2 of the journal is damaged"):
        Journal.reopen(path)


@pytest.mark.parametrize("content", [b"", b"fedslim", b"PK\3\4 something else entirely"])
def test_a_foreign_file_is_refused_by_name(tmp_path, content):
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(JournalError, match="other: this is no journal of ours"):
        Journal.reopen(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("version", [1, 9])
def test_a_journal_of_another_version_is_refused_by_name(tmp_path, version):
    path = tmp_path / "run.journal"
    path.write_bytes(written(tmp_path / "new", b"first").read_bytes().replace(b"journal 2", b"journal %d" % version))
    before = path.read_bytes()
    told = (
        rf"run\.journal: this is a journal of version {version}, and this fedslim writes 2; continue the run with the"
    )
    with pytest.raises(JournalError, match=told):
        Journal.reopen(path)
    assert path.read_bytes() == before


def test_a_journal_that_is_there_is_not_overwritten(tmp_path):
    path = written(tmp_path / "run.journal", b"first")
    with pytest.raises(JournalError, match="continue it with --resume"):
        Journal.create(path, HEADER)
    assert records_in(path) == [b"first"]


def test_only_the_owner_can_read_a_journal(tmp_path):
    assert written(tmp_path / "run.journal").stat().st_mode & 0o077 == 0


def test_there_must_be_something_to_continue(tmp_path):
    with pytest.raises(JournalError, match="no journal to continue"):
        Journal.reopen(tmp_path / "missing")
    torn = written(tmp_path / "torn").read_bytes()
    (tmp_path / "torn").write_bytes(torn[:-1])
    with pytest.raises(JournalError, match="ends within its header"):
        Journal.reopen(tmp_path / "torn")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")  # noqa: PTH110
def test_a_full_disk_is_said_and_loses_nothing_that_was_written(tmp_path, monkeypatch):
    path = written(tmp_path / "run.journal", b"first")
    journal, _, _ = Journal.reopen(path)

    class Full:
        def __init__(self, file):
            self._file = file

        def write(self, data):
            self._file.write(bytes(data[:5]))
            raise OSError(28, "No space left on device")

        def __getattr__(self, name):
            return getattr(self._file, name)

    monkeypatch.setattr(journal, "_file", Full(journal._file))
    with pytest.raises(WriteError, match=r"run\.journal: the journal cannot be written: No space left"):
        journal.append(b"second")
    journal.close()
    assert records_in(path) == [b"first"]


def test_nothing_is_written_after_what_did_not_fit(tmp_path, monkeypatch):
    """A smaller record may fit where a larger one did not; it would stand in the place of the one that is missing."""
    path = written(tmp_path / "run.journal", b"first")
    journal, _, _ = Journal.reopen(path)
    write = journal._file.write

    class Small:
        def write(self, data):
            if len(data) > 100:
                raise OSError(28, "No space left on device")
            return write(data)

        def __getattr__(self, name):
            return getattr(kept, name)

    kept = journal._file
    monkeypatch.setattr(journal, "_file", Small())
    journal.append(b"second")
    with pytest.raises(WriteError, match="No space left"):
        journal.append(bytes(1000))
    with pytest.raises(WriteError, match="No space left"):
        journal.append(b"fourth")
    journal.close()
    assert records_in(path) == [b"first", b"second"]


# -- records --------------------------------------------------------------------------------------------------------


def masked(number, words):
    return m.Masked(number, 0, m.Vector(len(words), 64, np.array(words, "<u8").tobytes()))


def test_of_masked_answers_only_the_sum_is_kept():
    replies = {"a": masked(0, [2**64 - 1, 7]), "b": masked(0, [3, 1]), "c": masked(0, [0, 5])}
    record = round_record(0, 1.5, replies)
    (kept,) = rounds_of([record], "run.journal")
    total = sum(np.frombuffer(reply.words.data, "<u8") for reply in kept.replies.values())
    assert total.tolist() == [2, 13]
    assert set(kept.replies) == set(replies)
    assert kept.elapsed == 1.5
    for reply in replies.values():
        assert reply.words.data not in record


def test_plain_answers_are_kept_as_they_are():
    replies = {"a": m.Usages(0, m.Vector.of(np.arange(3))), "b": m.Usages(0, m.Vector.of(np.arange(9)))}
    (kept,) = rounds_of([round_record(0, 0.0, replies)], "run.journal")
    assert kept.replies == replies
    assert (kept.ending, kept.figures) == (None, Figures())


def test_why_the_run_ends_and_what_it_cost_are_kept():
    figures = Figures(7.5, [Sum("Masked", "up", 3, 300, 400), Sum("Ask", "down", 3, 50, 60)])
    (kept,) = rounds_of([round_record(0, 1.0, {"a": masked(0, [1])}, "out of time", figures)], "run.journal")
    assert (kept.ending, kept.figures, kept.figures.sent) == ("out of time", figures, 350)


def test_what_a_client_was_told_comes_back():
    messages = [m.AskUsages(0), m.AskCandidates(1, m.Accept([(0, 1)]))]
    assert list(told(map(told_record, messages), "journal")) == messages


@given(st.binary(max_size=60))
def test_records_that_are_none_are_refused_by_name(data):
    for read in (rounds_of, told):
        with contextlib.suppress(JournalError):  # and nothing else
            list(read([data], "x.journal"))


def test_who_has_heard_the_end_comes_after_the_rounds():
    records = [round_record(k, 0.0, {"a": masked(k, [1])}) for k in range(2)]
    told_so = [heard_record("a"), heard_record("b")]
    assert heard_in([*records, *told_so], "run.journal") == {"a", "b"}
    assert heard_in(records, "run.journal") == heard_in([], "run.journal") == set()
    assert [kept.number for kept in rounds_of([*records, *told_so], "run.journal")] == [0, 1]
    with pytest.raises(JournalError, match="round 1 stands where round 2 should"):
        list(rounds_of([records[0], told_so[0], records[1]], "run.journal"))


def test_rounds_out_of_order_are_refused():
    with pytest.raises(JournalError, match="round 1 stands where round 0 should"):
        list(rounds_of([round_record(1, 0.0, {"a": masked(1, [1])})], "run.journal"))
