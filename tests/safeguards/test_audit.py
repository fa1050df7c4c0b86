from __future__ import annotations

import json
import os
import stat
from datetime import UTC, datetime, timedelta, timezone
from itertools import count

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fedslim.data import ItemSecret, TransactionDatabase
from fedslim.errors import ConfigurationError, DataError, ParameterError, WriteError
from fedslim.network.in_process import FrameSent, MemoryFederation
from fedslim.protocol import framing, messages as m
from fedslim.protocol.member import MemberInput
from fedslim.protocol.server import ServerSession
from fedslim.safeguards import audit
from fedslim.safeguards.audit import AuditLog, statistics_in, summarise
from fedslim.settings.federation_file import write_template

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
RUN = bytes(range(16))
PEER = "fed.example.org:7443"
FIELDS = {
    *("time", "kind", "bytes", "bytes_before_compression", "statistics", "labels", "masked", "variant", "round"),
    *("run", "peer"),
}


def vector(*numbers):
    return m.Vector.of(np.array(numbers, np.int64))


MESSAGES = [
    (m.Join(1, "0.1", bytes(32), bytes(8), b"", bytes(48), 3, [], b"", b"", b"", 0, 0), 3, 0),
    (m.Join(1, "0.1", bytes(32), bytes(8), b"d" * 32, b"", 3, [], b"", b"", b"", 0, 0), 0, 0),
    (m.Join(1, "0.1", bytes(32), bytes(8), b"", bytes(32), 2, ["rash", "fever"], b"", b"", b"", 0, 0), 2, 2),
    (m.Confirm(0, b"signature"), 0, 0),
    (m.Masked(7, 0, vector(1, 2, 3, 4)), 4, 0),
    (m.Usages(7, vector(5, 6, 7)), 3, 0),
    (m.Candidates(7, vector(1, 2), vector(3, 4), vector(5, 6)), 2, 0),
    (m.Evaluated(7, vector(1, 2), vector(3, 4), vector(5, 6)), 4, 0),
    (m.SupportCounts(7, vector(1), vector(9)), 1, 0),
    (m.Structure(7, vector(1, 2), vector(3, 4)), 2, 0),
    (m.Ready(7, False, b""), 1, 0),
    (m.Labels(7, 0, bytes(40)), 0, 0),
    (m.Heard(), 0, 0),
    (m.Abort("rash is in 17 transactions"), 0, 0),
]


def opened(path, variant="x", **other):
    who = {"member": "north", "federation": "hospitals", "federation_id": "ab" * 16, "masks": True}
    return AuditLog(path, variant, **{**who, **other})


def record(log, message=MESSAGES[4][0], **other):
    how = {"now": NOW, "run": RUN, "peer": PEER}
    log.record(message, framing.to_bytes(message), **{**how, **other})


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.jsonl"


# -- what is written -------------------------------------------------------------------------------------------------


def test_every_kind_of_message_is_tried():
    assert {type(message).__name__ for message, _, _ in MESSAGES} == set(audit.KINDS)


@pytest.mark.parametrize(("message", "statistics", "labels"), MESSAGES)
def test_a_line_says_how_much_and_never_what(path, message, statistics, labels):
    with opened(path) as log:
        record(log, message)
    header, line = lines(path)
    assert header == {
        "format": "fedslim-audit",
        "version": 1,
        "member": "north",
        "federation": "hospitals",
        "federation_id": "ab" * 16,
    }
    frame = framing.to_bytes(message)
    assert line == {
        "time": "2026-03-01T12:30:00.000000Z",
        "kind": type(message).__name__,
        "bytes": len(frame.data),
        "bytes_before_compression": frame.plain,
        "statistics": statistics,
        "labels": labels,
        "masked": isinstance(message, m.Masked),
        "variant": "x",
        "round": getattr(message, "round", None),
        "run": RUN.hex(),
        "peer": PEER,
        **({"sealed": 40} if isinstance(message, m.Labels) else {}),
    }
    assert statistics_in(message) == statistics
    assert not [word for word in ("rash", "fever", "17") if word in path.read_text()]


@pytest.mark.parametrize(("variant", "masks", "masked"), [("x", True, True), ("sa", False, False), ("so", True, False)])
def test_words_without_masks_are_not_called_masked(path, variant, masks, masked):
    with opened(path, variant, masks=masks) as log:
        record(log)
    assert lines(path)[1]["masked"] is masked


def test_times_are_written_in_utc(path):
    with opened(path) as log:
        record(log, now=datetime(2026, 3, 1, 1, 0, 0, 5, tzinfo=timezone(timedelta(hours=2))))
        with pytest.raises(ParameterError, match="zone"):
            record(log, now=datetime(2026, 3, 1, 1, 0))  # noqa: DTZ001  # refused on purpose
    assert lines(path)[1]["time"] == "2026-02-28T23:00:00.000005Z"
    assert len(lines(path)) == 2


def test_a_run_is_not_known_before_the_server_tells(path):
    with opened(path) as log:
        record(log, m.Confirm(0, b"signature"), run=None)
    assert lines(path)[1]["run"] is None


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_new_log_is_its_owners_alone(path, umask):
    before = os.umask(umask)
    try:
        opened(path).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_every_line_is_there_when_record_returns(path):
    with opened(path) as log:
        for number in range(1, 5):
            record(log)
            assert path.read_bytes().endswith(b"\n")
            assert summarise(path).total.messages == number


def test_the_log_is_added_to(path):
    for variant in ("x", "sa"):
        with opened(path, variant) as log:
            record(log)
    assert [line.get("variant") for line in lines(path)] == [None, "x", "sa"]


def test_the_log_of_a_member_of_a_federation(tmp_path, path):
    file = write_template(
        tmp_path / "f.toml", "hospitals", ["north", "south"], "so", chosen={"items.secret_fingerprint": "0" * 16}
    )
    with AuditLog.of(path, file, "north") as log:
        record(log, MESSAGES[5][0])
    header, line = lines(path)
    assert (header["member"], header["federation_id"]) == ("north", file.federation.id)
    assert (line["variant"], line["masked"]) == ("so", False)
    with pytest.raises(ConfigurationError, match="'west' is not a member"):
        AuditLog.of(tmp_path / "other", file, "west")


@pytest.mark.parametrize("variant", ["x", "sa", "so"])
def test_a_whole_run_leaves_only_the_listed_fields(path, variant):
    words = ["ibuprofen", "rash", "fever", "cough"]
    database = TransactionDatabase.from_transactions([words[:3], words[:2], words[2:], words] * 31)
    secret = ItemSecret.from_random(bytes(32))
    members = ("north", "south")
    log, sent = opened(path, variant), []

    def trace(event):
        if isinstance(event, FrameSent) and (event.direction, event.member) == ("up", "north"):
            message = framing.from_member(event.data[framing.PREFIX_BYTES :])
            run = None if event.kind == "Join" else RUN
            log.record(message, framing.Frame(event.data, event.plain), now=NOW, run=run, peer=PEER)
            sent.append((event.kind, event.sent))

    numbers = count()
    settings = m.Settings(variant, variant != "so", 10_000)
    server = ServerSession(members, settings, run=RUN)
    databases = {name: MemberInput(database, members, settings, secret) for name in members}
    MemoryFederation(server, databases, entropy=lambda size: bytes([next(numbers)]) * size, trace=trace).run()
    log.close()
    _, *told = lines(path)
    assert [(line["kind"], line["bytes"]) for line in told] == sent
    assert all(set(line) == FIELDS for line in told)
    assert {line["peer"] for line in told} | {line["run"] for line in told} == {PEER, RUN.hex(), None}
    text = path.read_text()
    assert not [word for word in words if word in text]
    assert not [i for i in secret.ids_of(words) if i.hex() in text]
    summed = summarise(path)
    assert (summed.total.messages, summed.total.bytes) == (len(sent), sum(size for _, size in sent))
    assert summed.runs == 1
    hidden = summed.by_kind["Masked"].statistics if variant != "so" else 0
    assert summed.total.statistics_masked == hidden


# -- what cannot be written ------------------------------------------------------------------------------------------


def full(monkeypatch, room):
    """Let `room` more bytes through."""
    write = os.write
    left = [room]

    def limited(file, data):
        if not left[0]:
            raise OSError(28, "No space left on device")
        part = data[: left[0]]
        left[0] -= len(part)
        return write(file, part)

    monkeypatch.setattr(os, "write", limited)


@pytest.mark.parametrize("room", [0, 1, 100])
def test_a_full_disk_is_told_before_anything_is_sent(path, monkeypatch, room):
    log = opened(path)
    record(log)
    with monkeypatch.context() as patch:
        full(patch, room)
        with pytest.raises(WriteError, match=r"cannot be written .*nothing more leaves this member"):
            record(log)
    with pytest.raises(WriteError, match="has failed, so nothing may be sent"):
        record(log)
    log.close()
    found = summarise(path)
    assert (found.total.messages, found.torn_end, found.torn_lines) == (1, room > 0, 0)
    with opened(path) as again:
        record(again)
    found = summarise(path)
    assert (found.total.messages, found.torn_end, found.torn_lines) == (2, False, int(room > 0))


@pytest.mark.parametrize("room", [0, 10])
def test_a_log_that_could_not_be_begun_can_be_begun_later(path, monkeypatch, room):
    with monkeypatch.context() as patch:
        full(patch, room)
        with pytest.raises(WriteError, match="cannot be written"):
            opened(path)
    assert path.read_bytes() == b""
    with opened(path) as log:
        record(log)
    assert summarise(path).total.messages == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")  # noqa: PTH110
def test_devices_are_no_logs():
    with pytest.raises(DataError, match="not a regular file"):
        opened("/dev/full")


def test_a_closed_log_takes_nothing(path):
    log = opened(path)
    log.close()
    log.close()
    with pytest.raises(WriteError, match="is closed"):
        record(log)


def test_places_that_cannot_be(tmp_path):
    with pytest.raises(DataError, match="this is a folder"):
        opened(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match="cannot create its folder"):
        opened(tmp_path / "file" / "a")
    with pytest.raises(WriteError, match="cannot be opened"):
        opened(tmp_path / ("x" * 300))


def test_one_program_at_a_time(path):
    with opened(path), pytest.raises(DataError, match="another process is writing"):
        opened(path)
    opened(path).close()


@pytest.mark.parametrize("other", [{"member": "south"}, {"federation": "shops"}, {"federation_id": "cd" * 16}])
def test_a_log_of_somebody_else_is_refused_and_kept(path, other):
    opened(path).close()
    before = path.read_bytes()
    with pytest.raises(DataError, match="this is the audit log of 'north' in the federation 'hospitals'"):
        opened(path, **other)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"1 2 3\n", b"\n", b"{}\n", b'{"format":"fedslim-vocabulary"}\n', b"\xff" * 9000])
def test_a_file_that_is_no_log_is_refused_and_kept(path, content):
    path.write_bytes(content)
    with pytest.raises(DataError, match="line 1 is not the header"):
        opened(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "wrong",
    [{"member": ""}, {"member": "x" * 201}, {"federation": "\ud800"}, {"federation_id": "zz"}],
)
def test_a_header_that_could_not_be_read_back_is_not_written(path, wrong):
    with pytest.raises(ParameterError, match="cannot hold this line"):
        opened(path, **wrong)
    assert not path.exists()


@pytest.mark.parametrize("wrong", [{"peer": ""}, {"peer": "\ud800"}, {"run": b"short"}])
def test_a_line_that_could_not_be_read_back_is_not_written(path, wrong):
    with opened(path) as log:
        with pytest.raises(ParameterError, match="cannot hold this line"):
            record(log, **wrong)
        record(log)
    assert summarise(path).total.messages == 1


# -- what is cut off -------------------------------------------------------------------------------------------------


@pytest.fixture
def three(path):
    """A log of three messages."""
    with opened(path) as log:
        for number in range(3):
            record(log, m.Masked(number, 0, vector(1)))
    return path


def test_a_log_may_be_cut_off_at_any_byte_and_be_written_on(three):
    data = three.read_bytes()
    first, last = data.index(b"\n"), data.rindex(b"\n", 0, -1) + 1
    for end in [first, first + 1, *range(last, len(data))]:
        three.write_bytes(data[:end])
        found = summarise(three)
        assert found.torn_end == (last < end < len(data) - 1)
        before = found.total.messages
        with opened(three) as log:
            record(log)
        after = summarise(three)
        assert (after.total.messages, after.torn_end, after.torn_lines) == (before + 1, False, int(found.torn_end))


def test_a_mark_may_be_cut_off_as_well(three):
    data = three.read_bytes()[:-20]
    for end in range(len(audit.TORN) + 1):
        three.write_bytes(data + audit.TORN[:end])
        with opened(three) as log:
            record(log)
        found = summarise(three)
        assert (found.total.messages, found.torn_lines, found.torn_end) == (3, 1, False)


def test_a_long_end_without_lines_is_not_written_on(three):
    three.write_bytes(three.read_bytes() + bytes(5000))
    with pytest.raises(DataError, match="the last line is not an audit log entry"):
        opened(three)
    with pytest.raises(DataError, match="line 5 is not an audit log entry"):
        summarise(three)


# -- what is damaged -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line.replace(b'"masked":true', b'"masked":1'),
        lambda line: line.replace(b'"x"', b'"y"'),
        lambda line: line.replace(b"Masked", b"Unmasked"),
        lambda line: line.replace(b'"bytes":', b'"bytes":-'),
        lambda line: line.replace(b"}", b',"count":17}'),
        lambda line: line.replace(b'"labels":0,', b""),
        lambda line: line.replace(b"2026-", b"26-"),
        lambda line: line.replace(RUN.hex().encode(), b"zz"),
        lambda line: line[: len(line) // 2],
        lambda _: b"",
        lambda _: b"[" * 3000,
        lambda _: b"\xff",
        lambda _: b"x" * 10_000,
    ],
)
def test_a_changed_line_is_told_by_its_number_and_not_quoted(three, change):
    rows = three.read_bytes().splitlines()
    assert change(rows[2]) != rows[2]
    rows[2] = change(rows[2])
    three.write_bytes(b"\n".join(rows) + b"\n")
    with pytest.raises(DataError) as raised:
        summarise(three)
    assert str(raised.value).startswith(f"{three}: line 3 is not an audit log entry")
    assert "17" not in str(raised.value).removeprefix(str(three))


def test_a_log_of_a_later_version_is_told(path):
    opened(path).close()
    path.write_bytes(path.read_bytes().replace(b'"version":1', b'"version":2'))
    for use in (summarise, opened):
        with pytest.raises(DataError, match="version 2, and this fedslim reads version 1"):
            use(path)


@pytest.mark.parametrize("content", [b"", b"\n", b"[]", b"x" * 10_000, b"\xff\n"])
def test_what_is_no_log_is_told(path, content):
    path.write_bytes(content)
    with pytest.raises(DataError, match="line 1 is not the header"):
        summarise(path)


@given(st.data())
def test_whatever_happens_to_a_log_there_is_a_summary_or_our_error(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("log") / "audit.jsonl"
    with opened(path) as log:
        record(log)
        record(log)
    content = path.read_bytes()
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, min(len(content), start + 5)))
    path.write_bytes(content[:start] + data.draw(st.binary(max_size=4)) + content[end:])
    try:
        assert summarise(path).total.messages <= 2
    except DataError as error:
        assert str(error).startswith(f"{path}: ")  # noqa: PT017  # both outcomes are fine
    try:
        opened(path).close()
    except DataError as error:
        assert str(error).startswith(f"{path}: ")  # noqa: PT017  # both outcomes are fine


# -- summaries -------------------------------------------------------------------------------------------------------


def test_a_summary_adds_up(path):
    with opened(path, "sa") as log:
        record(log, MESSAGES[2][0], run=None, now=NOW - timedelta(hours=1))
        record(log, m.Masked(0, 0, vector(1, 2)))
        record(log, m.Structure(1, vector(1), vector(2)), now=NOW + timedelta(hours=1))
        record(log, m.Masked(0, 0, vector(1)), run=bytes(16), peer="elsewhere")
    found = summarise(path)
    assert (found.member, found.federation, found.federation_id) == ("north", "hospitals", "ab" * 16)
    assert (found.first, found.last) == ("2026-03-01T11:30:00.000000Z", "2026-03-01T13:30:00.000000Z")
    assert {kind: amount.messages for kind, amount in found.by_kind.items()} == {"Join": 1, "Masked": 2, "Structure": 1}
    assert (found.total.statistics, found.total.statistics_masked, found.total.labels) == (6, 3, 2)
    assert found.peers == [PEER, "elsewhere"]
    assert [(run.run, run.messages) for run in found.latest_runs] == [(RUN.hex(), 2), (bytes(16).hex(), 1)]
    assert json.loads(json.dumps(found.as_dict()))["total"]["bytes"] == found.total.bytes


def test_sealed_labels_count_by_their_bytes(path):
    with opened(path) as log:
        for size in (1024, 2048):
            record(log, m.Labels(7, 0, bytes(size)))
        record(log)
    found = summarise(path)
    assert (found.total.labels, found.total.sealed) == (0, 3072)
    assert {kind: amount.sealed for kind, amount in found.by_kind.items()} == {"Labels": 3072, "Masked": 0}
    assert [run.sealed for run in found.latest_runs] == [3072]


def test_a_summary_does_not_grow_with_the_log(path):
    with opened(path) as log:
        for number in range(100):
            record(log, run=number.to_bytes(16), peer=f"peer-{number}")
    found = summarise(path)
    assert (found.runs, len(found.latest_runs), len(found.peers), found.more_peers) == (100, 20, 20, True)
    assert found.latest_runs[-1].run == (99).to_bytes(16).hex()


def test_a_log_with_nothing_in_it(path):
    opened(path).close()
    found = summarise(path)
    assert (found.total.messages, found.first, found.last, found.runs) == (0, None, None, 0)
