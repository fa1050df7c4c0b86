from __future__ import annotations

import os
import re
import stat
import subprocess
import sys

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fedslim.errors import JournalError, ParameterError, WriteError
from fedslim.network import journal as journals
from fedslim.network.journal import (
    HEAD_BYTES,
    LENGTH_BYTES,
    MAGIC,
    BackRecord,
    EpochRecord,
    HeardRecord,
    Journal,
    RoundRecord,
    encode_record,
    messages_in,
    read_server_records,
)
from fedslim.network.traffic import Traffic
from fedslim.protocol import messages as m
from fedslim.protocol.positions import ServerRecords

HEADER = {"run": "0123", "members": ["a", "b"]}
KEY, OTHER_KEY = bytes(range(32)), bytes(32)


def written(path, *records, key=KEY):
    journal = Journal.create(path, HEADER, key=key)
    for record in records:
        journal.append(record)
    journal.close()
    return path


def reopened(path, *, key=KEY):
    return Journal.reopen(path, key=key)


def records_in(path):
    journal, _, records, _ = reopened(path)
    journal.close()
    return records


def parts_of(path):
    """Return the bytes of each record with its head."""
    data, at, parts = path.read_bytes(), len(MAGIC), []
    while at < len(data):
        end = at + HEAD_BYTES + int.from_bytes(data[at : at + LENGTH_BYTES], "big")
        parts.append(data[at:end])
        at = end
    return parts


def refused(path, why):
    """Tell whether the journal is refused with this message, and not changed."""
    before = path.read_bytes()
    with pytest.raises(JournalError, match=re.escape(str(path)) + ": " + why):
        reopened(path)
    assert path.read_bytes() == before
    return True


def goes_on_after(path, data, expected):
    """Check that the journal is cut to the expected records and can be continued."""
    path.write_bytes(data)
    assert Journal.read(path, key=KEY) == expected
    assert path.read_bytes() == data
    journal, _, records, cut = reopened(path)
    good = len(MAGIC) + len(parts_of(path)[0]) + sum(HEAD_BYTES + len(record) for record in records)
    assert path.read_bytes() == data[:good]
    assert cut == len(data) - good
    journal.append(b"again")
    journal.close()
    assert records == expected
    assert records_in(path) == [*expected, b"again"]


@given(records=st.lists(st.binary(max_size=300), max_size=8))
@settings(max_examples=50)
def test_what_is_written_comes_back_and_goes_on(tmp_path_factory, records):
    path = written(tmp_path_factory.mktemp("j") / "run.journal", *records)
    journal, header, back, cut = reopened(path)
    assert (header, back, cut) == (HEADER, records, 0)
    journal.append(b"more")
    journal.close()
    assert records_in(path) == [*records, b"more"]


# -- a damaged end ----------------------------------------------------------------------------------------------------


def test_a_torn_last_record_is_cut_off_wherever_it_was_torn(tmp_path):
    whole = written(tmp_path / "whole", b"first", b"second record").read_bytes()
    start = len(written(tmp_path / "shorter", b"first").read_bytes())
    for length in range(start, len(whole)):
        goes_on_after(tmp_path / "torn", whole[:length], [b"first"])


@pytest.mark.parametrize("zeros", [1, HEAD_BYTES, HEAD_BYTES + 1, 100_000])
def test_zeros_after_the_last_record_are_cut_off(tmp_path, zeros):
    whole = written(tmp_path / "whole", b"first", b"second").read_bytes()
    goes_on_after(tmp_path / "filled", whole + bytes(zeros), [b"first", b"second"])


def test_a_record_that_was_written_in_part_and_filled_with_zeros_is_cut_off(tmp_path):
    whole = written(tmp_path / "whole", b"first", b"second record").read_bytes()
    start = len(written(tmp_path / "shorter", b"first").read_bytes())
    for length in range(start, len(whole)):
        for more in (0, 50, 5000):
            filled = whole[:length] + bytes(len(whole) - length + more)
            goes_on_after(tmp_path / "filled", filled, [b"first"])


def test_a_garbled_end_is_cut_off(tmp_path):
    path = written(tmp_path / "whole", b"first", b"second", b"third")
    whole, (_, _, second, third) = path.read_bytes(), parts_of(path)
    for at in range(len(whole) - len(second) - len(third), len(whole), 3):
        goes_on_after(
            tmp_path / "garbled",
            whole[:at] + b"\xa5" * (len(whole) - at),
            [b"first"] + [b"second"] * (at >= len(whole) - len(third)),
        )


# -- damage in the middle, and forgery --------------------------------------------------------------------------------


def test_damage_before_the_end_costs_what_follows_it(tmp_path):
    """When the power failed, a disk may have written a later page before an earlier one."""
    path = written(tmp_path / "run.journal", b"first", b"second", b"third")
    data = bytearray(path.read_bytes())
    data[data.index(b"second")] ^= 1
    goes_on_after(path, bytes(data), [b"first"])


def test_records_cannot_be_dropped_reordered_or_repeated(tmp_path):
    """A misplaced record is not accepted, nor are those after it."""
    path = written(tmp_path / "run.journal", b"first", b"second", b"third", b"fourth")
    head, first, second, third, fourth = parts_of(path)
    for forged, left in (
        ([head, second, third, fourth], []),
        ([head, second, first, third, fourth], []),
        ([head, first, first, second, third, fourth], [b"first"]),
        ([head, first, second, first, second, third, fourth], [b"first", b"second"]),
        ([head, first, third], [b"first"]),
        ([head, first, second, second], [b"first", b"second"]),
    ):
        goes_on_after(path, MAGIC + b"".join(forged), left)


def test_records_cannot_be_moved_between_journals_of_one_party(tmp_path):
    """Not even if both have the same content: each has its own id."""
    one, other = (written(tmp_path / name, b"first", b"second", b"third") for name in ("one", "other"))
    mine, theirs = parts_of(one), parts_of(other)
    goes_on_after(one, MAGIC + b"".join([mine[0], theirs[1], *mine[2:]]), [])
    goes_on_after(one, MAGIC + b"".join([*mine[:2], *theirs[2:3]]), [b"first"])
    goes_on_after(one, MAGIC + b"".join([*mine[:3], theirs[3]]), [b"first", b"second"])


NOT_OURS = "this journal was altered, or was not written by this party with its present key; .*: move it away"


def test_a_journal_of_another_key_is_refused(tmp_path):
    assert refused(written(tmp_path / "run.journal", b"first", key=OTHER_KEY), NOT_OURS)


def test_records_of_another_key_are_not_believed(tmp_path):
    path = written(tmp_path / "run.journal", b"first", b"second")
    head, first, _ = parts_of(path)
    mac = journals._mac(OTHER_KEY, first[LENGTH_BYTES:HEAD_BYTES], b"forged")
    forged = len(b"forged").to_bytes(LENGTH_BYTES, "big") + mac + b"forged"
    goes_on_after(path, MAGIC + head + first + forged, [b"first"])


def test_a_header_that_was_altered_is_refused(tmp_path):
    path = written(tmp_path / "run.journal", b"first")
    data = bytearray(path.read_bytes())
    for at in (len(MAGIC) + LENGTH_BYTES, data.index(b"0123")):
        altered = bytearray(data)
        altered[at] ^= 1
        path.write_bytes(altered)
        assert refused(path, NOT_OURS)


@pytest.mark.parametrize("key", [b"", bytes(31), bytes(33)])
def test_a_key_that_is_none_is_refused(tmp_path, key):
    with pytest.raises(ParameterError, match=rf"key has {len(key)} bytes; a journal needs 32"):
        Journal.create(tmp_path / "run.journal", HEADER, key=key)
    assert not (tmp_path / "run.journal").exists()


@pytest.mark.parametrize("content", [b"fedslim table", b"PK\3\4 something else entirely"])
def test_a_foreign_file_is_refused_by_name(tmp_path, content):
    path = tmp_path / "other"
    path.write_bytes(content)
    assert refused(path, "this is not a journal of fedslim")


@pytest.mark.parametrize("version", [1, 2, 9])
def test_a_journal_of_another_version_is_refused_by_name(tmp_path, version):
    path = tmp_path / "run.journal"
    path.write_bytes(written(tmp_path / "new", b"first").read_bytes().replace(b"journal 3", b"journal %d" % version))
    assert refused(path, f"this journal has format {version}, and this fedslim uses format 3")


def test_a_journal_that_is_there_is_not_overwritten(tmp_path):
    path = written(tmp_path / "run.journal", b"first")
    with pytest.raises(JournalError, match="continue that run with --resume"):
        Journal.create(path, HEADER, key=KEY)
    assert records_in(path) == [b"first"]


def test_there_must_be_something_to_continue(tmp_path):
    with pytest.raises(JournalError, match="missing: the journal cannot be opened: No such file"):
        reopened(tmp_path / "missing")


def test_a_journal_without_its_header_is_moved_away(tmp_path):
    """Older versions left one on a full disk, and a disk may lie; nothing was recorded in it."""
    path = tmp_path / "torn"
    torn = written(path).read_bytes()
    for data in (b"", torn[:5], torn[: len(MAGIC)], torn[:-1], bytes(1000), MAGIC + bytes(1000)):
        path.write_bytes(data)
        assert reopened(path) is None
        assert path.with_name("torn.old").read_bytes() == data
        assert not path.exists()


# -- permissions ------------------------------------------------------------------------------------------------------

posix = pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")


def test_only_the_owner_can_read_a_journal(tmp_path):
    assert written(tmp_path / "run.journal").stat().st_mode & 0o077 == 0


@posix
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_journal_that_others_may_change_is_refused(tmp_path, mode):
    path = written(tmp_path / "run.journal", b"first")
    path.chmod(mode)
    told = rf"others may change this file \(permissions {mode:03o}\), .* run `chmod 600 {re.escape(str(path))}`"
    assert refused(path, told)
    path.chmod(0o644)  # others may read it
    assert records_in(path) == [b"first"]


@posix
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give a file away")
def test_a_journal_of_somebody_else_is_refused(tmp_path):
    path = written(tmp_path / "run.journal", b"first")
    os.chown(path, 12345, -1)
    assert refused(path, "this file belongs to user 12345, not to you")


@posix
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_in_which_others_may_replace_a_journal_is_refused(tmp_path, mode):
    folder = tmp_path / "run"
    folder.mkdir()
    path = written(folder / "run.journal", b"first")
    folder.chmod(mode)
    told = rf"others may replace files in its folder \(permissions {mode:03o}\).* run `chmod go-w {folder}`"
    assert refused(path, told)
    with pytest.raises(JournalError, match=told):
        Journal.create(folder / "another", HEADER, key=KEY)
    assert not (folder / "another").exists()
    folder.chmod(mode | stat.S_ISVTX)  # like /tmp: users cannot replace files of others
    assert records_in(path) == [b"first"]


@posix
def test_the_folder_that_counts_is_that_of_the_file_not_of_a_link(tmp_path):
    (tmp_path / "open").mkdir()
    path = written(tmp_path / "open" / "run.journal", b"first")
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "open").chmod(0o777)
    assert refused(tmp_path / "link", "others may replace files in its folder")


# -- a full disk ------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="there are no limits of this kind on Windows")
def test_a_disk_that_is_full_when_a_journal_is_begun_leaves_nothing(tmp_path):
    """In a separate process with a small limit on file sizes."""
    program = """if True:
        import resource, signal, sys
        from pathlib import Path
        from fedslim.errors import WriteError
        from fedslim.network.journal import Journal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20))
        try:
            Journal.create(Path(sys.argv[1]), {}, key=bytes(32))
        except WriteError as error:
            sys.exit(0 if sys.argv[1] in str(error) else 3)
        sys.exit(4)  # it did not notice
    """
    done = subprocess.run([sys.executable, "-B", "-c", program, str(tmp_path / "run.journal")], check=False)
    assert done.returncode == 0
    assert list(tmp_path.iterdir()) == []
    assert records_in(written(tmp_path / "run.journal", b"first")) == [b"first"]


def test_a_journal_is_on_the_disk_when_it_says_so(tmp_path, monkeypatch):
    """With its header on creation, at once when asked to, and otherwise after a while."""
    forced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (forced.append("fsync"), real(fd)))
    monkeypatch.setattr(journals, "_to_disk", lambda _: forced.append("journal"))
    journal = Journal.create(tmp_path / "run.journal", HEADER, key=KEY)
    assert forced == ["fsync", "fsync"]  # the file, and then the folder that has its name
    journal.append(b"first")
    assert len(forced) == 2
    journal.sync()
    assert forced[2:] == ["journal"]
    monkeypatch.setattr(journals, "SYNC_EVERY", 0.0)
    journal.append(b"second")
    assert forced[3:] == ["journal"]
    journal.close()
    assert forced[4:] == ["journal"]


def test_a_disk_that_does_not_take_it_is_said(tmp_path, monkeypatch):
    journal = Journal.create(tmp_path / "run.journal", HEADER, key=KEY)

    def fails(_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(journals, "_to_disk", fails)
    with pytest.raises(WriteError, match=r"run\.journal: the journal cannot be forced to the disk: Input/output error"):
        journal.sync()
    with pytest.raises(WriteError, match="cannot be forced to the disk"):
        journal.append(b"more")
    journal.close()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")  # noqa: PTH110
def test_a_full_disk_is_said_and_loses_nothing_that_was_written(tmp_path, monkeypatch):
    path = written(tmp_path / "run.journal", b"first")
    journal = reopened(path).journal

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
    """A smaller record may fit where a larger one did not, and would take the place of the missing one."""
    path = written(tmp_path / "run.journal", b"first")
    journal = reopened(path).journal
    write = journal._file.write

    class Small:
        def write(self, data):
            if len(data) > 200:
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


def rounds_of(records, name):
    return read_server_records(records, name).rounds


def test_of_masked_answers_only_the_sum_is_kept():
    replies = {"a": masked(0, [2**64 - 1, 7]), "b": masked(0, [3, 1]), "c": masked(0, [0, 5])}
    record = encode_record(RoundRecord(0, 1.5, replies))
    (kept,) = rounds_of([record], "run.journal")
    total = sum(np.frombuffer(reply.words.data, "<u8") for reply in kept.replies.values())
    assert total.tolist() == [2, 13]
    assert set(kept.replies) == set(replies)
    assert kept.elapsed == 1.5
    for reply in replies.values():
        assert reply.words.data not in record


def test_plain_answers_are_kept_as_they_are():
    replies = {"a": m.Usages(0, m.Vector.of(np.arange(3))), "b": m.Usages(0, m.Vector.of(np.arange(9)))}
    (kept,) = rounds_of([encode_record(RoundRecord(0, 0.0, replies))], "run.journal")
    assert kept.replies == replies
    assert (kept.ending, kept.seconds, kept.traffic) == (None, 0.0, {})


def test_why_the_run_ends_and_what_it_cost_are_kept():
    figures = 7.5, {("Masked", "up"): Traffic(3, 300, 400), ("Ask", "down"): Traffic(3, 50, 60)}
    (kept,) = rounds_of(
        [encode_record(RoundRecord(0, 1.0, {"a": masked(0, [1])}, "out of time", *figures))], "run.journal"
    )
    assert (kept.ending, kept.seconds, kept.traffic) == ("out of time", *figures)


def test_what_a_member_was_told_comes_back():
    messages = [m.AskUsages(0), m.AskCandidates(1, m.Accept([(0, 1)]))]
    assert list(messages_in(map(encode_record, messages), "journal")) == messages


@given(st.binary(max_size=60))
def test_records_that_are_none_are_refused_by_name(data):
    for read in (rounds_of, messages_in):
        try:
            found = list(read([data], "x.journal"))
        except JournalError as error:
            assert str(error).startswith("x.journal: ")  # noqa: PT017  # few are none, and those are something
        else:
            assert list(read(map(msgspec.msgpack.encode, found), "x.journal")) == found


@pytest.mark.parametrize("read", [rounds_of, messages_in])
@pytest.mark.parametrize("data", [b"", b"\xff", b"\x90", msgspec.msgpack.encode(["round", 0]), bytes(60)])
def test_bytes_that_are_no_record_are_refused_by_name(read, data):
    with pytest.raises(JournalError, match=r"^x\.journal: record 0 "):
        list(read([data], "x.journal"))


def test_who_has_heard_the_end_comes_after_the_rounds():
    records = [encode_record(RoundRecord(k, 0.0, {"a": masked(k, [1])})) for k in range(2)]
    told_so = [encode_record(HeardRecord("a")), encode_record(HeardRecord("b"))]
    assert read_server_records([*records, *told_so], "run.journal").heard == {"a", "b"}
    assert read_server_records(records, "run.journal").heard == set()
    assert read_server_records([], "run.journal") == ServerRecords()
    assert [kept.number for kept in rounds_of([*records, *told_so], "run.journal")] == [0, 1]
    with pytest.raises(JournalError, match="expected the end, found round 1"):
        list(rounds_of([records[0], told_so[0], records[1]], "run.journal"))


def test_rounds_that_were_played_again_count_once():
    first, second, third = (encode_record(RoundRecord(k, float(k), {"a": masked(k, [k])})) for k in range(3))
    again = encode_record(RoundRecord(1, 9.0, {"a": masked(1, [1])}))
    last = encode_record(RoundRecord(2, 2.0, {"a": masked(2, [2])}, "out of time"))
    epochs = encode_record(EpochRecord(1, 3)), encode_record(EpochRecord(2))
    kept = read_server_records(
        [first, second, last, epochs[0], encode_record(BackRecord(1)), epochs[1], again], "run.journal"
    )
    assert [(one.number, one.elapsed) for one in kept.rounds] == [(0, 0.0), (1, 9.0)]
    assert (kept.retreats, kept.epoch, kept.furthest, kept.endings) == (1, 2, 3, {2: "out of time"})
    with pytest.raises(JournalError, match="expected round 1, found round 2"):
        rounds_of([first, second, encode_record(BackRecord(1)), third], "run.journal")


def test_rounds_out_of_order_are_refused():
    with pytest.raises(JournalError, match="expected round 0, found round 1"):
        list(rounds_of([encode_record(RoundRecord(1, 0.0, {"a": masked(1, [1])}))], "run.journal"))
