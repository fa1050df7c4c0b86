"""A member that sends anything: the run ends cleanly for all members, or with a valid table."""

from __future__ import annotations

import random
from collections import deque

import msgspec
import numpy as np
import pytest
from hypothesis import given, strategies as st

from fedslim.algorithm1 import so
from fedslim.errors import FedslimError, ProtocolError
from fedslim.mdl.kernels.bounds import Fetched
from fedslim.mdl.questions import Change, SlotCounts
from fedslim.network.journal import RoundRecord, encode_record, read_server_records
from fedslim.protocol import messages as m, roster
from fedslim.protocol.events import NewEpoch, RoundEnded
from fedslim.protocol.outcome import code_table
from fedslim.protocol.server import ServerSession
from fedslim.protocol.state import MemberState
from fedslim.protocol.wire_types import MAX_COUNT
from fedslim.protocol.x_queries import Shape, entries_of, read, sketch_of
from fedslim.protocol.x_sizes import Asked, enlarge
from fedslim.secagg.keys import AgreementKey
from fedslim.secagg.ring import Fields, Ring, Sketch, words_of_rows
from wire import FIGURE, SECRET, VARIANTS, Line, databases, of_numbers, server_for, sprinkled, vector

N_ITEMS = 10
MEMBERS = ("s000", "s001", "s002")
LIAR = "s001"


class Misled(Line):
    """Members that get nonsense from a misled server give up, as a driver would make them."""

    refused = 0
    journal = ()

    def take(self, outputs, down=None):
        for output in outputs:
            if isinstance(output, RoundEnded):
                self.journal += (encode_record(RoundRecord(output.number, 0.0, output.replies, output.ending)),)
            try:
                super().take([output], down)
            except FedslimError:
                name = self.sent[-1][0]
                self.queue.append((name, m.Abort("it cannot go on")))
                # Later messages are dropped here, for the run is over anyway.

    def step(self, up=None, down=None):
        name, message = self.queue[0]
        try:
            super().step(up, down)
        except ProtocolError:
            self.refused += 1
            if self.server.over:
                return
            # It was refused, and the session is unchanged: now send the honest message.
            self.take(self.server.receive(name, message, self.now), down)


def play(variant, lie, *, seed=1, rounds=60, most=1 << 20, parts=None, **settled):
    """A run in which one member's messages pass through `lie`, with the question and the member that answered it."""
    named = of_numbers(parts or sprinkled(seed, N_ITEMS, 3, 60, noise=0.15), N_ITEMS)
    line = Misled(named, variant, most=most, max_rounds=rounds, **settled).begin()
    asked = {}

    def up(name, message):
        return lie(asked.get(name), message, line.members[name]) if name == LIAR else message

    def down(name, message):
        asked[name] = message
        if isinstance(message, m.Ask):
            line.members[name].slots_before = slots_of(line.members[name])
        return message

    line.run(up, down)
    assert line.server.over
    assert (line.ended is None) != (line.failed is None)
    if line.ended is not None:
        code_table(line.ended.table, [str(i) for i in range(N_ITEMS)])  # it is a valid table, if not a true one
    return line


# -- single lies -----------------------------------------------------------------------------------------------------


def instead(kind, make, *, nth=0):
    """Replace the nth message of a kind."""
    seen = 0

    def lie(ask, message, _member):
        nonlocal seen
        if type(message) is kind:
            seen += 1
            if seen == nth + 1:
                return make(ask, message)
        return message

    return lie


def with_(**fields):
    return lambda _ask, message: msgspec.structs.replace(message, **fields)


HUGE = vector([MAX_COUNT])
LIES = [
    ("so", m.Usages, with_(counts=vector([]))),
    ("so", m.Usages, with_(counts=vector([1] * N_ITEMS))),
    ("so", m.Usages, with_(counts=vector([1] * (N_ITEMS + 2)))),
    ("so", m.Usages, with_(counts=vector([MAX_COUNT] * (N_ITEMS + 1)))),
    ("so", m.Usages, with_(counts=vector([99] * N_ITEMS + [0]))),
    ("so", m.Usages, with_(counts=m.Vector(N_ITEMS + 1, 8, b""))),
    ("so", m.Candidates, with_(x=vector([0]))),
    ("so", m.Candidates, with_(counts=vector([]))),
    ("so", m.Candidates, with_(x=vector([0]), y=vector([N_ITEMS]), counts=vector([1]))),
    ("so", m.Candidates, with_(x=vector([0]), y=vector([1 << 52]), counts=vector([1]))),
    ("so", m.Candidates, with_(x=vector([3]), y=vector([3]), counts=vector([1]))),
    ("so", m.Candidates, with_(x=vector([0]), y=vector([1]), counts=HUGE)),
    ("so", m.Candidates, with_(x=vector([0]), y=vector([1]), counts=vector([179]))),
    ("so", m.Candidates, with_(x=m.Vector(1 << 26, 8, b""), y=m.Vector(1 << 26, 8, b""))),
    (
        "so",
        m.Candidates,
        with_(x=vector([0] * 1000), y=vector([1] * 1000), counts=vector([1] * 1000)),
    ),
    ("so", m.Evaluated, with_(slots=vector([0]))),
    ("so", m.Evaluated, with_(slots=vector([99]), lost=vector([1]), won=vector([0]))),
    ("so", m.Evaluated, with_(slots=vector([1 << 52]), lost=vector([1]), won=vector([0]))),
    ("so", m.Evaluated, with_(slots=vector([0]), lost=HUGE, won=vector([0]))),
    ("so", m.Evaluated, with_(slots=vector([0]), lost=vector([0]), won=HUGE)),
    ("so", m.Evaluated, with_(slots=vector([0, 0]), lost=vector([40, 40]), won=vector([0, 0]))),
    ("so", m.SupportCounts, with_(counts=vector([]))),
    ("so", m.SupportCounts, with_(slots=vector([0, 1]), counts=vector([1]))),
    ("so", m.SupportCounts, with_(slots=vector([0, 0]), counts=vector([1, 1]))),
    ("so", m.SupportCounts, with_(slots=vector([500]), counts=vector([1]))),
    ("so", m.SupportCounts, with_(slots=vector([0]), counts=HUGE)),
    ("sa", m.Structure, with_(x=vector([0]), y=vector([]))),
    ("sa", m.Structure, with_(x=vector([1]), y=vector([0]))),
    ("sa", m.Structure, with_(x=vector([1]), y=vector([1]))),
    ("sa", m.Structure, with_(x=vector([0]), y=vector([N_ITEMS + 500]))),
    ("sa", m.Structure, with_(x=vector([0]), y=vector([1 << 52]))),
    ("sa", m.Structure, with_(x=m.Vector(1 << 26, 8, b""), y=m.Vector(1 << 26, 8, b""))),
    ("sa", m.Structure, with_(x=vector([0] * 2000), y=vector([1] * 2000))),
    *(
        (variant, m.Masked, lie)
        for variant in ("x", "sa")
        for lie in (
            with_(words=vector([])),
            with_(words=m.Vector(1, 64, bytes(8))),
            with_(words=m.Vector(1 << 26, 64, b"")),
            with_(attempt=1),
            lambda _, reply: msgspec.structs.replace(reply, words=msgspec.structs.replace(reply.words, bits=32)),
            lambda _, reply: msgspec.structs.replace(
                reply, words=msgspec.structs.replace(reply.words, data=reply.words.data[:-1])
            ),
            lambda _, reply: msgspec.structs.replace(
                reply, words=msgspec.structs.replace(reply.words, data=bytes(len(reply.words.data)))
            ),
        )
    ),
]


ONCE = (m.Usages, m.SupportCounts)


@pytest.mark.parametrize(
    ("number", "nth"),
    [(k, nth) for k, (_, kind, _) in enumerate(LIES) for nth in (0, 1, 3) if not nth or kind not in ONCE],
)
def test_one_lie_ends_the_run_for_all(number, nth):
    variant, kind, make = LIES[number]
    lied = []

    def counted(ask, message):
        lied.append(make(ask, message))
        return lied[-1]

    line = play(variant, instead(kind, counted, nth=nth))
    harmless = line.ended is not None
    # A lie that could be true of the member's own data cannot be detected.
    assert lied
    if not harmless:
        assert line.failed.reason.startswith(("the round cannot be used: ", "member "))
        told = [c.received.ending for name, c in line.members.items() if c.received is not None and name != LIAR]
        assert all(ending.startswith("ended by the server: ") for ending in told)
    elif kind is m.Masked and not line.refused:
        pytest.fail("a masked answer that is none was added up")


@pytest.mark.parametrize("words", [vector([]), m.Vector(1 << 26, 64, b""), m.Vector(1, 64, bytes(8))])
def test_a_server_can_go_on_from_before_a_round_that_cannot_be_used(words):
    line = play("x", instead(m.Masked, with_(words=words), nth=3))
    assert line.failed.reason.startswith("the round cannot be used: ")
    again = ServerSession(line.server.members, line.server.settings, run=bytes(16))
    again.replay(read_server_records(line.journal, "journal"), N_ITEMS, 0.0)
    assert (again.rounds, len(line.journal)) == (4, 3)


@pytest.mark.parametrize("pair", [(1, 0), (1, 1), (7, 2)])
@pytest.mark.parametrize("nth", [0, 1])
def test_sa_takes_no_pair_in_the_wrong_order(pair, nth):
    """In the index it would be a different pair than in the right order."""
    x, y = (vector([end]) for end in pair)
    line = play("sa", instead(m.Structure, with_(x=x, y=y), nth=nth))
    assert line.failed is not None
    assert repr(LIAR) in line.failed.reason


def test_counts_too_large_for_memory_end_the_run():
    """Up to `max_transactions`; an honest federation does not come near."""

    def lie(_ask, message, _member):
        if isinstance(message, m.Usages):
            return m.Usages(message.round, vector([1 << 47] * (N_ITEMS + 1)))
        return message

    line = play("so", lie, most=1 << 48)
    assert line.failed.reason == "the round cannot be used: its counts are too large for the server's memory"


# -- lies that fit the question, so that they are added up ------------------------------------------------------------


def slots_of(member):
    """How many slots have been used in a member's table."""
    return N_ITEMS if member._variant is None else member._variant._members._state.table.fresh_slot


def slots_for(ask, slots):
    """How many slots the table has had when each want of X is answered; `slots` are those before the question."""
    slots = max([slots, *[move.slot + 1 for move in ask.moves if isinstance(move, m.InsertUnion)]])
    for want in ask.wants:
        yield slots
        if isinstance(want, m.WantInsertions):
            slots = max([slots, *[new.slot + 1 for new in want.new if new.keep]])


def parts_of(want, member, length):
    """For one want of X that this member has just answered: its words, and a function that adds a lie."""
    table, most = member._variant._members._state.table, member._own.settings.max_transactions
    match want:
        case m.WantSupports():
            ring = Ring.for_sums_up_to(most)
            return ring.words(table.n_items + 1), ("lanes", ring.bits, table.n_items + 1)
        case m.WantUnionSupport(_, bits):
            return 1, ("lanes", bits, 1)
        case m.WantFinal(bits):
            return Ring(bits, (1 << bits) - 1).words(2 * len(table)), ("lanes", bits, 2 * len(table))
        case m.WantRows(_, bits):
            return words_of_rows(bits, length), ("lanes", bits[0], length)
        case m.WantSparseRow(_, cells, seed):
            sketch = Sketch(cells, length, seed, want.wide)
        case m.WantEntries():
            found = entries_of(want, length)
            return found.fields.words, ("fields", found.widths, None)
        case m.WantInsertions(new):
            sketch = Sketch(
                want.cells, 2 * len(new) * max([length, *[one.slot + 1 for one in new]]), want.seed, want.wide
            )
        case m.WantRemovals(slots, cells, seed):
            sketch = Sketch(cells, 2 * length * len(slots), seed, want.wide)
    return sketch.words, ("sketch", sketch, None)


def lying_about(rng, ask, message, member):
    """A wrong answer in the right form."""
    words = np.frombuffer(message.words.data, "<u8").copy()
    begin = 0
    chosen = rng.randrange(len(ask.wants))
    for k, (want, slots) in enumerate(zip(ask.wants, slots_for(ask, member.slots_before), strict=True)):
        length, (how, what, size) = parts_of(want, member, slots)
        part = words[begin : begin + length]
        if k == chosen and how == "lanes":
            lie = np.zeros(length, np.uint64)
            place = np.array([rng.randrange(size)], np.int32)
            most = (1 << what) - 1
            count = np.array([rng.choice([1, 2, 5, 40, most]) & most], np.int64)
            Ring(what, most).put(lie, place, count, length=size)
            part += lie if rng.random() < 0.7 else np.uint64(0) - lie
        elif k == chosen and how == "fields":
            lie = np.zeros(length, np.uint64)
            most = (1 << what.astype(np.int64)) - 1
            counts = np.array([rng.choice([0, 1, 2, 5, 40, full]) & full for full in most.tolist()], np.int64)
            Fields(what).put(lie[None], counts[None])
            part += lie if rng.random() < 0.7 else np.uint64(0) - lie
        elif k == chosen:
            lie = np.zeros(length, np.uint64)
            for _ in range(rng.choice([1, 1, 2, 200])):
                place = np.array([rng.randrange(what.universe)], np.int32)
                what.put(lie, place, np.array([rng.choice([1, 3, 50, 1 << 39])], np.int64))
            part += lie if rng.random() < 0.7 else np.uint64(0) - lie
        begin += length
    assert begin == len(words)
    return msgspec.structs.replace(message, words=m.Vector(len(words), 64, words.tobytes()))


@given(st.integers(0, 1 << 60))
def test_x_comes_to_an_end_whatever_is_added(seed):
    rng = random.Random(seed)
    rate = rng.choice([0.03, 0.1, 0.5, 1.0])

    def lie(ask, message, member):
        if not isinstance(message, m.Masked) or rng.random() > rate:
            return message
        if rng.random() < 0.1:  # noise, as from masks that do not cancel
            return msgspec.structs.replace(
                message, words=m.Vector(message.words.length, 64, rng.randbytes(len(message.words.data)))
            )
        return lying_about(rng, ask, message, member)

    play("x", lie, seed=seed % 7, min_support=rng.choice([1, 1, 2]), min_count=rng.choice([1, 1, 4]))


@pytest.mark.parametrize("count", [1, 50, 1 << 39])
@pytest.mark.parametrize("seed", range(4))
def test_x_comes_to_an_end_in_a_wide_vocabulary_too(seed, count):
    """Where rows are sketched: only the known usages bound the counts in a sketch."""
    rng = random.Random(seed)
    named = of_numbers(sprinkled(seed, 6000, 3, 80, patterns=12, noise=0.0008), 6000)
    line = Misled(named, "x", max_rounds=40).begin()
    asked, lies = {}, []

    def up(name, message):
        sketched = (
            name == LIAR
            and isinstance(message, m.Masked)
            and any(isinstance(want, m.WantSparseRow) for want in asked[name].wants)
        )
        if not sketched:
            return message
        words = np.frombuffer(message.words.data, "<u8").copy()
        begin = 0
        member = line.members[name]
        for want, slots in zip(asked[name].wants, slots_for(asked[name], member.slots_before), strict=True):
            length, (_, sketch, _) = parts_of(want, member, slots)
            if isinstance(want, m.WantSparseRow):
                place = np.array([rng.randrange(sketch.universe)], np.int32)
                sketch.put(words[begin : begin + length], place, np.array([count], np.int64))
                lies.append(want)
            begin += length
        return msgspec.structs.replace(message, words=m.Vector(len(words), 64, words.tobytes()))

    def down(name, message):
        asked[name] = message
        if isinstance(message, m.Ask):
            line.members[name].slots_before = slots_of(line.members[name])
        return message

    line.run(up, down)
    assert line.server.over
    assert lies


@given(st.integers(0, 1 << 60))
def test_sa_comes_to_an_end_whatever_is_added(seed):
    rng = random.Random(seed)
    rate = rng.choice([0.05, 0.2, 1.0])

    def lie(ask, message, member):
        if rng.random() > rate:
            return message
        if isinstance(message, m.Structure):
            pairs = {tuple(sorted(rng.sample(range(rng.choice([N_ITEMS, N_ITEMS + 3])), 2))) for _ in range(5)}
            x, y = zip(*pairs, strict=True)
            return m.Structure(message.round, vector(x), vector(y))
        if isinstance(message, m.Masked) and message.words.length:
            words = np.frombuffer(message.words.data, "<u8").copy()
            bits = getattr(ask, "bits", Ring.for_sums_up_to(member._own.settings.max_transactions).bits)
            step = np.uint64(rng.choice([1, 2, 7])) << np.uint64(bits * rng.randrange(64 // bits))
            k = rng.randrange(len(words))
            words[k] = words[k] + step if rng.random() < 0.6 else words[k] - step
            return msgspec.structs.replace(message, words=m.Vector(len(words), 64, words.tobytes()))
        return message

    with np.errstate(over="ignore"):
        play("sa", lie, seed=seed % 7)


@given(st.integers(0, 1 << 60))
def test_so_comes_to_an_end_whatever_is_said(seed):
    rng = random.Random(seed)
    rate = rng.choice([0.05, 0.2, 1.0])

    def some(values):
        changed = values.copy()
        for _ in range(rng.choice([1, 1, 3])):
            if len(changed):
                most = rng.choice([2, 10, 15, 60, MAX_COUNT])
                changed[rng.randrange(len(changed))] = rng.randrange(most)
        if rng.random() < 0.1:
            changed = rng.choice([changed[:-1], np.append(changed, 1), np.append(changed, changed)])
        return m.Vector.of(changed)

    def lie(_ask, message, _member):
        fields = [f for f in message.__struct_fields__ if isinstance(getattr(message, f), m.Vector)]
        if not fields or rng.random() > rate:
            return message
        chosen = rng.sample(fields, rng.randint(1, len(fields)))
        return msgspec.structs.replace(message, **{f: some(getattr(message, f).values()) for f in chosen})

    play("so", lie, seed=seed % 7)


def test_elements_with_an_item_in_common_are_no_candidate():
    """After ab was accepted, a member claims to use it together with a."""

    def lie(_ask, message):
        if isinstance(message, m.Candidates) and message.round > 1:
            return m.Candidates(message.round, vector([0, 1]), vector([5, 5]), vector([4, 4]))
        return message

    line = Misled(databases(FIGURE | {"s001": []}), "so").begin()
    line.run(lambda name, message: lie(None, message) if name == "c1" else message)
    assert "joins elements with an item in common" in line.failed.reason or "contradict" in line.failed.reason


# -- joining ---------------------------------------------------------------------------------------------------------


def joins(**inputs):
    line = Line(databases(FIGURE), "x", **inputs)
    return line.server, line.members["c1"].join(bytes(range(32))), line.members["c2"].join(bytes(range(1, 33)))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"protocol": 1},
            rf"member 'c2' speaks protocol 1 \(fedslim .*\), but this server speaks {m.PROTOCOL}; install",
        ),
        ({"digest": bytes(32)}, "members 'c1' and 'c2' do not have the same vocabulary; merge them"),
        ({"digest": b"", "ids": bytes(80)}, "members 'c1' and 'c2' do not have the same vocabulary"),
        ({"items": 6}, "members 'c1' and 'c2' do not have the same vocabulary"),
        ({"fingerprint": bytes(8)}, "members 'c1' and 'c2' have different secrets, so their items cannot be compared"),
        ({"fingerprint": b""}, "members 'c1' and 'c2' have different secrets"),
        ({"fingerprint": bytes(8), "digest": bytes(32)}, "members 'c1' and 'c2' have different secrets"),
        ({"epoch": 1}, "member 'c2' comes back from epoch 0, but there was none after -1"),
        ({"epoch": 65_535}, "member 'c2' comes back from epoch 65534, but there was none after -1"),
        ({"position": 3}, "member 'c2' comes back from round 3"),
        ({"ids": bytes(16)}, "member 'c2' announced 5 items but sent 1"),
        ({"ids": bytes(17)}, "member 'c2' announced 5 items but sent 1.0625"),
        ({"labels": ["a"] * 5, "ids": bytes(80)}, "member 'c2' sent 5 labels where this run expects 0"),
    ],
)
def test_a_join_that_does_not_fit_is_refused_and_can_be_made_again(change, told):
    server, first, second = joins()
    server.receive("c1", first, 0.0)
    with pytest.raises(ProtocolError, match=told):
        server.receive("c2", msgspec.structs.replace(second, **change), 0.0)
    epoch, roster = server.receive("c2", second, 0.0)
    assert (epoch, type(roster.message)) == (NewEpoch(0), m.Roster)


def test_two_members_do_not_have_one_key():
    """A member with another's key would cancel its masks; with its own key it has none."""
    server, first, second = joins()
    server.receive("c1", first, 0.0)
    with pytest.raises(ProtocolError, match=r"'c2' .*'c1'"):
        server.receive("c2", msgspec.structs.replace(second, key=first.key), 0.0)
    server.receive("c2", second, 0.0)
    assert server.gathered


def test_whoever_comes_first_does_not_say_what_was_agreed():
    """A server that knows it from the federation file refuses the liar, not the members that join later."""
    server, first, second = joins()
    server.gathering._vocabulary = first.digest
    for digest, ids in ((bytes(32), b""), (b"", bytes(80))):
        with pytest.raises(ProtocolError, match=r"member 'c1' has vocabulary .* but this federation agreed on"):
            server.receive("c1", msgspec.structs.replace(first, digest=digest, ids=ids), 0.0)
    server.receive("c2", second, 0.0)
    epoch, roster = server.receive("c1", first, 0.0)
    assert (epoch, type(roster.message)) == (NewEpoch(0), m.Roster)


@pytest.mark.parametrize(
    "change",
    [
        {"labels": ["a"] * 5, "ids": b""},
        {"labels": ["a"] * 5, "ids": bytes(64)},
        {"labels": ["a"] * 4, "ids": bytes(80)},
        {"labels": ["a"] * 6, "ids": bytes(96)},
    ],
)
def test_labels_come_with_an_id_each_or_not_at_all(change):
    server, first, _ = joins(share="server")
    with pytest.raises(ProtocolError, match=r"member 'c1' (announced|sent) "):
        server.receive("c1", msgspec.structs.replace(first, **change), 0.0)


def test_without_an_agreed_vocabulary_every_item_is_named():
    server = server_for(("c1", "c2"), "x")
    join = m.Join(m.PROTOCOL, "0", bytes(32), bytes(8), b"", bytes(16), 2, [], b"", b"", b"", 0, 0)
    with pytest.raises(ProtocolError, match="member 'c1' announced 2 items but sent 1"):
        server.receive("c1", join, 0.0)


def test_more_items_than_possible_end_the_run(monkeypatch):
    monkeypatch.setattr(roster, "MAX_ITEMS", 7)
    server = server_for(("c1", "c2"), "x")
    for name, labels in (("c1", "abcde"), ("c2", "defgh")):
        ids = b"".join(SECRET.ids_of(labels))
        key = AgreementKey.from_random(name.encode() * 16).public
        outputs = server.receive(
            name, m.Join(m.PROTOCOL, "0", key, bytes(8), b"", ids, 5, [], b"", b"", b"", 0, 0), 0.0
        )
    assert outputs[-1].reason == "the members together have 8 items; at most 7 are allowed"
    assert server.over


# -- confirming ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("signature", [b"", bytes(32), bytes(1024)])
def test_whoever_confirms_another_roster_is_refused_in_its_own_name_and_can_confirm_the_right_one(signature):
    """Passed on, it would make the others give up, and they would seem to be at fault."""
    line = Line(databases(FIGURE), "x").begin()
    for _ in range(2):
        line.step()
    confirms = dict(line.queue)
    line.take(line.server.receive("c1", confirms["c1"], 0.0))
    for _ in range(2):
        with pytest.raises(ProtocolError, match="member 'c2' has not confirmed the roster that it was sent"):
            line.server.receive("c2", m.Confirm(0, signature), 0.0)
        assert line.server.state_of("c2") is MemberState.INVITED
    line.queue.popleft()
    assert line.run().ending == "converged"


@pytest.mark.parametrize("epoch", [1, 65_535])
def test_a_confirmation_of_another_epoch_does_not_count(epoch):
    line = Line(databases(FIGURE), "x").begin()
    for _ in range(3):
        line.step()
    ((name, confirm),) = line.queue
    assert line.server.receive(name, m.Confirm(epoch, confirm.signature), 0.0) == []
    assert line.server.state_of(name) is MemberState.INVITED
    assert line.server.rounds == 0
    assert line.run().ending == "converged"


@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_is_asked_before_everybody_has_confirmed(variant):
    line = Line(databases(FIGURE), variant).begin()
    for _ in range(3):
        line.step()
        assert all(isinstance(message, m.Roster) for _, message in line.sent)
    line.step()
    for name in FIGURE:
        roster, everybody, question = (message for who, message in line.sent if who == name)
        assert (type(roster), type(everybody), question.round) == (m.Roster, m.Confirmed, 0)
        said = [message.signature for _, message in line.said if isinstance(message, m.Confirm)]
        assert everybody.signatures == said


@pytest.mark.parametrize("variant", VARIANTS)
def test_without_lies_the_run_converges(variant):
    line = play(variant, lambda _ask, message, _member: message, rounds=100_000)
    assert line.ended.ending == "converged"


# -- impossible sums at the server -----------------------------------------------------------------------------------


def searching():
    """The server's side of X with an itemset in its table; its usages, and a slot that was never used."""
    named = of_numbers(sprinkled(1, N_ITEMS, 3, 60, noise=0.15), N_ITEMS)
    line = Line(named, "x", most=1 << 20).begin()
    while line.server.variant is None or line.server.variant.search.itemsets < 2:
        line.step()
    variant = line.server.variant
    return variant, variant.search.usages, len(np.trim_zeros(variant.search.usages, "b")) + 1


def change(slot, lost, won):
    return Change(np.array([slot], np.int32), np.array([lost], np.int64), np.array([won], np.int64))


def test_x_believes_no_change_of_an_element_that_is_not_there():
    variant, usages, free = searching()
    then = variant._then()
    for slot in (free, len(usages), -1):
        with pytest.raises(ProtocolError, match="contradict"):
            variant._follow(change(slot, 0, 1), then, stays=True)
    then.alive[free] = True
    variant._follow(change(free, 0, 1), then)
    assert then.usages.tolist() == usages.tolist()
    variant._follow(change(free, 0, 1), then, stays=True)
    used = int(np.argmax(usages))
    variant._follow(change(used, 1, 0), then, stays=True)
    assert (then.usages[free], then.usages[used]) == (1, usages[used] - 1)
    for lost, won in ((int(usages[used]), 0), (0, variant._most + 1)):
        with pytest.raises(ProtocolError, match="contradict"):
            variant._follow(change(used, lost, won), then)


def test_x_believes_no_pair_that_is_used_more_often_than_either_element():
    variant, usages, _ = searching()
    often, rarely = int(np.argmax(usages)), int(np.flatnonzero(usages == usages[usages > 0].min())[0])
    assert usages[often] > usages[rarely]
    most = int(usages[rarely])

    def row(of, other, count):
        return {of: SlotCounts(np.array([other], np.int32), np.array([count]))}

    for of, other in ((often, rarely), (rarely, often)):
        variant._put_rows(row(of, other, most))
        with pytest.raises(ProtocolError, match="contradict"):
            variant._put_rows(row(of, other, most + 1))


def test_x_believes_no_row_that_contradicts_what_is_known():
    """What is known is subtracted from a sketch before it is read: nothing may be left of it, or be missing."""
    want, shape = m.WantSparseRow(0, 9, 0), Shape(items=4, max_transactions=9, members=0, slots=4)
    sketch = sketch_of(want, shape)
    known = np.array([9, 5, 0, 0])

    def row(*counts):
        words = np.zeros(sketch.words, np.uint64)
        sketch.put(words, np.arange(4, dtype=np.int32), np.array(counts))
        return read(want, shape, words, (), known.copy())[0]

    assert dict(zip(*(part.tolist() for part in row(9, 5, 3, 0)), strict=True)) == {0: 9, 1: 5, 2: 3}
    for counts in ((9, 6, 3, 0), (9, 4, 3, 0), (0, 5, 3, 0)):
        with pytest.raises(ProtocolError, match="contradict"):
            row(*counts)


def test_x_believes_no_count_above_what_is_known_about_the_pair():
    variant, usages, _ = searching()
    ranking = variant._ranking
    slot = next(s for s in np.flatnonzero(usages).tolist() if ranking.is_complete(s))
    others = np.array([s for s in np.flatnonzero(usages).tolist() if s != slot], np.int32)
    most, _ = ranking.known(slot, others)
    assert (most < np.minimum(usages[others], usages[slot])).any()
    rows, room = (np.array([slot]), np.array([len(others)]), others), np.full(len(others), 1 << 20)
    words = np.arange(len(others))
    assert variant._rows_of((slot,), deque([Fetched(*rows, most, room, words)])) == (None,)
    for k in range(len(others)):
        counts = most + (np.arange(len(others)) == k)
        with pytest.raises(ProtocolError, match="contradict"):
            variant._rows_of((slot,), deque([Fetched(*rows, counts, room, words)]))


def test_sketches_do_not_grow_for_sums_that_nobody_can_read():
    """A sketch with room for more entries than places fails only if a member lies."""

    def more(entries):
        asked = Asked(m.WantRemovals([10], 9, 0), entries=entries)
        return enlarge(asked, Shape(items=10, max_transactions=9, members=0, slots=10), 1).entries

    assert [more(entries) for entries in (5, 15, 45, 60)] == [15, 45, 135, 180]
    for entries in (61, 135, 1 << 20):
        with pytest.raises(ProtocolError, match="contradict"):
            more(entries)


def test_so_takes_no_more_pairs_than_there_are():
    def reply(pairs):
        x, y = zip(*pairs, strict=True)
        return m.Candidates(0, vector(x), vector(y), vector([1] * len(pairs)))

    pairs = [(0, 1), (0, 2), (1, 2)]
    assert len(so.SoMemberState(3).take_in(reply(pairs), 9).counts) == 3
    with pytest.raises(ProtocolError):
        so.SoMemberState(3).take_in(reply([*pairs, (1, 0)]), 9)
