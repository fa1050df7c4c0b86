"""Labels reach the other members and nobody else, and only those of published items."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, strategies as st
from weather import MEMBERS, Weather

from fedslim.data import TransactionDatabase, Vocabulary
from fedslim.errors import ProtocolError
from fedslim.protocol import messages as m, sealing
from fedslim.protocol.framing import MAX_FRAME
from fedslim.protocol.member import MemberInput
from fedslim.protocol.sealing import label_key, seal, sealed_bytes, unseal
from wire import SECRET, Line, recorded, settings_for

ROWS = {
    "c1": [["nivolumab", "rash"]] * 6 + [["unique-to-c1"]],
    "c2": [["rash", "melanoma"]] * 6 + [["rash"]] * 2,
    "c3": [["ward-4711"]] * 7,
}
PUBLISHED, RARE = {"nivolumab", "rash", "melanoma", "ward-4711"}, "unique-to-c1"


def federation_of(rows=ROWS, *, variant="x", share="members", **settled):
    """Members that know nothing but their own labels, and the vocabulary they agreed on."""
    named = {name: TransactionDatabase.from_transactions(part) for name, part in rows.items()}
    agreed = Vocabulary.merge(*(Vocabulary.of(database.vocabulary, SECRET) for database in named.values()))
    settings = settings_for(variant, share=share, **settled)
    return named, {n: MemberInput(d, tuple(named), settings, SECRET, agreed) for n, d in named.items()}


def run(rows=ROWS, **chosen):
    hooks = {name: chosen.pop(name) for name in ("up", "down") if name in chosen}
    named, inputs = federation_of(rows, **chosen)
    chosen.setdefault("share", "members")
    line = Line(named, chosen.pop("variant", "x"), inputs=inputs, **chosen).begin()
    line.run(**hooks)
    return line


def names_at(line, member):
    table = line.members[member].received.table
    return {label for row in (*table.itemsets, *table.singletons) for label in row.labels}


@pytest.mark.parametrize("variant", ["x", "sa"])
@pytest.mark.parametrize("share", ["members", "server"])
def test_every_member_names_all_items_of_the_table(variant, share):
    line = run(variant=variant, share=share)
    for member in ROWS:
        assert names_at(line, member) == PUBLISHED | {RARE}
    alone = run(variant=variant, share="none")
    assert names_at(alone, "c3") & PUBLISHED == {"ward-4711"}
    assert not any(isinstance(message, (m.AskLabels, m.Labels)) for _, message in alone.sent + alone.said)


def test_so_needs_no_labels_of_others():
    assert not any(isinstance(message, m.AskLabels) for _, message in run(variant="so").sent)


@pytest.mark.parametrize("honest", [True, False])
def test_items_too_rare_to_be_published_stay_unnamed(monkeypatch, honest):
    """Even if a member sends all of its labels: a table has no rare items to name."""
    real = sealing.unsealed_labels

    def everything(*question):
        return real(*question)._replace(labels=tuple(sorted(question[-1])))

    if not honest:
        monkeypatch.setattr("fedslim.protocol.member.unsealed_labels", everything)
    line = run(min_count=5)
    for member in ("c2", "c3"):
        assert names_at(line, member) >= PUBLISHED
        assert RARE not in line.members[member].received.table.vocabulary


def test_no_label_is_in_any_frame_and_all_members_send_equally_much():
    sizes = set()

    def up(_, message):
        if isinstance(message, m.Labels):
            sizes.add(len(message.sealed))
        plain = msgspec.msgpack.encode(message)
        assert not any(label.encode() in plain for label in [*PUBLISHED, RARE])
        return message

    def down(_, message):
        plain = msgspec.msgpack.encode(message)
        assert not any(label.encode() in plain for label in [*PUBLISHED, RARE])
        return message

    line = run(up=up, down=down)
    assert len(sizes) == 1
    assert sizes == {sealed_bytes(line.ended.table, 3)}


def test_a_recorded_federation_sends_one_round_of_labels():
    _, inputs = federation_of()
    named = {name: own.database for name, own in inputs.items()}
    _, outcome, seen = recorded(named, "x", share="members", agreed=False)
    assert [len(reply.sealed) for reply in seen.messages("up", "Labels")] == [len(outcome.labels[0])] * 3
    assert seen.rounds[-1].kind == "labels"


@pytest.mark.parametrize(
    "change",
    [
        lambda labels: [labels[1], labels[0], labels[2]],  # under another name
        lambda labels: [bytes(len(one)) for one in labels],
        lambda labels: [one[:-1] + bytes([one[-1] ^ 1]) for one in labels],
        lambda _: [],
        lambda labels: [b"", *labels[1:]],
    ],
)
def test_a_server_that_changes_sealed_labels_only_keeps_items_unnamed(change):
    def down(_, message):
        if isinstance(message, m.Finish):
            return msgspec.structs.replace(message, labels=tuple(change(message.labels)))
        return message

    line = run(down=down)
    assert "nivolumab" not in names_at(line, "c3")
    assert names_at(line, "c3") >= {"ward-4711"}


def test_labels_are_given_once_for_one_table_and_only_if_agreed():
    line = run()
    question = next(message for _, message in line.sent if isinstance(message, m.AskLabels))

    def stopped(share="members"):
        _, inputs = federation_of(share=share)
        halted = Line({n: o.database for n, o in inputs.items()}, "x", inputs=inputs, share=share).begin()
        while not any(isinstance(message, m.AskLabels) for _, message in halted.sent):
            if not halted.queue:
                return halted.members["c1"]
            halted.step()
        return halted.members["c1"]

    member = stopped()
    with pytest.raises(ProtocolError, match="answered only once"):
        member.receive(question)
    with pytest.raises(ProtocolError, match="after it had asked for labels"):
        member.receive(msgspec.structs.replace(question, round=question.round + 1))
    with pytest.raises(ProtocolError, match="not the table for which"):
        member.receive(m.Finish("converged", msgspec.structs.replace(question.table, transactions=99), (), []))

    def asks(_, message):
        return question if isinstance(message, m.Finish) else message

    with pytest.raises(ProtocolError, match="did not agree to share"):
        run(share="none", down=asks)

    def other(_, message):
        if not isinstance(message, m.AskLabels):
            return message
        return msgspec.structs.replace(message, table=msgspec.structs.replace(message.table, itemsets=[]))

    with pytest.raises(ProtocolError, match="not the table that this member covers with"):
        run(down=other)


def test_a_member_that_sends_another_size_is_named():
    def up(name, message):
        if isinstance(message, m.Labels) and name == "c2":
            return msgspec.structs.replace(message, sealed=message.sealed[:-1])
        return message

    assert "'c2'" in run(up=up).failed.reason


@pytest.mark.parametrize("variant", ["x", "sa"])
@pytest.mark.parametrize("seed", range(2))
def test_labels_survive_faults(variant, seed):
    def at(federation):
        return any(isinstance(message, m.AskLabels) for _, message in federation.down)

    for what in ("line", "kill", "server"):
        federation = Weather(variant, seed, rows=60, share_labels="members")
        parts = {n: TransactionDatabase.from_transactions(list(o.database)) for n, o in federation.inputs.items()}
        federation.inputs = {n: replace(own, database=parts[n]) for n, own in federation.inputs.items()}
        federation.members = {n: type(s)(n, federation.inputs[n]) for n, s in federation.members.items()}
        federation.up = []
        for name in MEMBERS:
            federation.join(name)
        federation.until(at)
        for name in MEMBERS:
            federation.step()
            federation.fault(what, name)
        federation.run(often=0.05, faults=("line", "kill", "server"))
        for member in federation.members.values():
            assert not any(label.startswith("#") for row in member.received.table.singletons for label in row.labels)


# -- the seal itself -------------------------------------------------------------------------------------------------


@given(st.lists(st.text(max_size=30), max_size=20), st.integers(30, 2000))
def test_what_has_room_comes_back_and_the_size_says_nothing(labels, size):
    key = bytes(32)
    sealed = seal(labels, size, key)
    assert len(sealed) == size
    found = unseal(sealed, key)
    assert set(found) <= set(labels)
    room = size - 20 - 5
    if sum(len(label.encode()) + 5 for label in labels) <= room:
        assert sorted(found) == sorted(labels)
    assert unseal(sealed, bytes([1]) * 32) == []


@given(st.binary(max_size=200))
def test_anything_else_opens_to_nothing(data):
    assert unseal(data, bytes(32)) == []


def test_a_key_is_of_one_sender_roster_and_table():
    table = m.PackedTable([], m.Vector(0, 8, b""), m.Vector(0, 8, b""), 1, 1, 0)
    question = m.AskLabels(3, 0, table)
    key = label_key(SECRET, b"roster", "a", question)
    assert key == label_key(SECRET, b"roster", "a", msgspec.structs.replace(question, attempt=4))
    others = [
        label_key(SECRET, b"other", "a", question),
        label_key(SECRET, b"roster", "b", question),
        label_key(SECRET, b"roster", "a", msgspec.structs.replace(question, round=4)),
        label_key(SECRET, b"roster", "a", m.AskLabels(3, 0, msgspec.structs.replace(table, transactions=2))),
    ]
    assert len({key, *others}) == 5
    assert all(sealed_bytes(table, members) * members <= MAX_FRAME // 2 for members in (1, 3, 4096))
