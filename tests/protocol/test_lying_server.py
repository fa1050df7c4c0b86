"""A server that says what it likes: a client refuses, and no question leads its kernels out of their arrays."""

from __future__ import annotations

import random
import sys
import tracemalloc
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedslim.data import ItemSecret, Vocabulary
from fedslim.errors import FedslimError, ProtocolError, RingError, SecureAggregationError
from fedslim.protocol import messages as m
from fedslim.protocol.client import ClientSession, Site
from fedslim.protocol.legality import ClientState
from fedslim.protocol.variant import client_side
from fedslim.secagg import AgreementKey

sys.path.insert(0, str(Path(__file__).parent))
from wire import FIGURE, MOST, RUN, SECRET, VARIANTS, Line, databases, of_numbers, sites_of, sprinkled, table_of

LAST = m.MOST_SLOTS - 1
N_ITEMS = 9


def side(variant, seed=1, n_items=N_ITEMS, transactions=50):
    """One client's side, alone with the server."""
    (database,) = of_numbers([sprinkled(seed, n_items, 1, transactions, noise=0.2)[0]], n_items).values()
    return client_side(m.Settings(variant, True, MOST), database), database


def check_covers(state, database):
    """Every transaction is covered, exactly, by elements of the table."""
    for t in range(database.transactions):
        slots = state.cover(t)
        items = [i for s in slots for i in state.table.items_of(s)]
        begin, end = database.offsets[t : t + 2]
        assert sorted(items) == database.items[begin:end].tolist()


def vector(values):
    return m.Vector.of(np.array(values, np.int64))


# -- x ---------------------------------------------------------------------------------------------------------------


def asked(*wants, moves=(), number=0):
    return m.Ask(number, 0, list(moves), list(wants))


BAD_WANTS = [
    m.WantSupports(1),
    m.WantSupports(57),
    m.WantSupports(64),
    m.WantSupportOf([[0, 1], [1, 0]], 40),
    m.WantSupportOf([[0, N_ITEMS]], 40),
    m.WantSupportOf([[0, 0]], 40),
    m.WantSupportOf([[0, 1]], 57),
    m.WantRows([N_ITEMS], b"\x28", N_ITEMS),
    m.WantRows([LAST], b"\x28", LAST),
    m.WantRows([0], b"\x00", N_ITEMS),
    m.WantRows([0], b"\x39", N_ITEMS),
    m.WantRows([0], b"\xff", N_ITEMS),
    m.WantRows([0], b"\x28\x28", N_ITEMS),
    m.WantRows([0, 1], b"\x28", N_ITEMS),
    m.WantRows([0], b"\x01", N_ITEMS),
    m.WantRows([0], b"\x28", 0),
    m.WantRows([0], b"\x28", 1),
    m.WantRows([0] * 4096, b"\x38" * 4096, LAST),
    m.WantSparseRow(N_ITEMS, N_ITEMS, 9, 0),
    m.WantSparseRow(0, N_ITEMS, 0, 0),
    m.WantSparseRow(0, 0, 9, 0),
    m.WantSparseRow(0, 1, 9, 0),
    m.WantSparseRow(0, LAST, LAST, 0),
    m.WantInsertion(N_ITEMS + 1, [0, 1], 5, N_ITEMS + 1, 9, 0, keep=False),
    m.WantInsertion(0, [0, 1], 5, N_ITEMS + 1, 9, 0, keep=False),
    m.WantInsertion(N_ITEMS, [1, 0], 5, N_ITEMS + 1, 9, 0, keep=True),
    m.WantInsertion(N_ITEMS, [0, 0], 5, N_ITEMS + 1, 9, 0, keep=True),
    m.WantInsertion(N_ITEMS, [0, N_ITEMS], 5, N_ITEMS + 1, 9, 0, keep=True),
    m.WantInsertion(N_ITEMS, [0, m.MOST_ITEMS - 1], 5, N_ITEMS + 1, 9, 0, keep=True),
    m.WantInsertion(N_ITEMS, [0, 1], 5, 0, 9, 0, keep=True),
    m.WantInsertion(N_ITEMS, [0, 1], 5, 1, 9, 0, keep=True),
    m.WantInsertion(N_ITEMS, [0, 1], 5, N_ITEMS + 1, 0, 0, keep=True),
    m.WantInsertion(N_ITEMS, [0, 1], 5, LAST, LAST, 0, keep=True),
    m.WantRemovals([0], N_ITEMS, 9, 0),
    m.WantRemovals([N_ITEMS], N_ITEMS + 1, 9, 0),
    m.WantRemovals([LAST], LAST, 9, 0),
    m.WantRemovals([N_ITEMS] * 64, LAST, 9, 0),
]
BAD_MOVES = [
    m.Insert(N_ITEMS + 1, [0, 1], 5),
    m.Insert(0, [0, 1], 5),
    m.Insert(LAST, [0, 1], 5),
    m.Insert(N_ITEMS, [1, 0], 5),
    m.Insert(N_ITEMS, [0, N_ITEMS], 5),
    m.Remove(0),
    m.Remove(N_ITEMS),
    m.Remove(LAST),
]


def allocated(act):
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("want", BAD_WANTS, ids=lambda want: repr(want)[:60])
def test_x_refuses_questions_that_make_no_sense(want):
    variant, database = side("x")

    def refused():
        with pytest.raises((ProtocolError, RingError)):
            variant.answer(asked(want))

    assert allocated(refused) < 1 << 20
    check_covers(variant._state, database)


@pytest.mark.parametrize("move", BAD_MOVES, ids=repr)
def test_x_refuses_moves_that_make_no_sense(move):
    variant, database = side("x")
    with pytest.raises(ProtocolError, match="it is refused"):
        variant.answer(asked(m.WantSupports(40), moves=[move]))
    check_covers(variant._state, database)


def test_x_refuses_more_than_an_answer_can_hold():
    """Each question could be answered; all together could not, and it is noticed on the way."""
    variant, _ = side("x")
    half = m.WantSparseRow(0, N_ITEMS, 800_000, 0)

    def refused():
        with pytest.raises(ProtocolError, match=r"asked for \d+ words; an answer has at most"):
            variant.answer(asked(*[half] * 4096))

    assert allocated(refused) < 1 << 27


def some_want(rng, table):
    """A question near the edge of what makes sense."""
    slot = rng.choice([0, N_ITEMS - 1, N_ITEMS, table.free_slot, table.free_slot + 1, rng.randrange(40), LAST])
    fresh = rng.choice([table.free_slot] * 6 + [slot])
    length = rng.choice([0, 1, N_ITEMS, N_ITEMS + 1, table.free_slot + 1, 40, 64, 200, LAST])
    bits = rng.choice([1, 2, 5, 8, 40, 56, 57, 64])
    cells = rng.choice([0, 1, 2, 7, 30, 1000, LAST])
    seed = rng.choice([0, 1, 1 << 53, rng.getrandbits(50)])
    size = rng.choice([2, 2, 3, 5, N_ITEMS])
    items = sorted(rng.sample(range(N_ITEMS), size))
    if rng.random() < 0.1:
        items = [rng.choice([*range(N_ITEMS), N_ITEMS, m.MOST_ITEMS - 1]) for _ in range(size)]
    entry = rng.choice([0, 1, 5, 1 << 53])
    alive = [*table.itemsets, *range(N_ITEMS)]
    slots = [rng.choice([slot, *alive]) for _ in range(rng.randint(1, 6))]
    widths = bytes(rng.choice([8, 8, 8, bits, 0, 255]) for _ in slots)
    return rng.choice(
        [
            m.WantSupports(bits),
            m.WantSupportOf([items], bits),
            m.WantRows(slots, widths if rng.random() < 0.9 else widths[1:] or b"\x01", length),
            m.WantRows(rng.choices(alive, k=4), bytes([8] * 4), max(length, 64)),
            m.WantSparseRow(slot, length, cells, seed),
            m.WantInsertion(fresh, items, entry, length, cells, seed, rng.random() < 0.5),
            m.WantInsertion(table.free_slot, items, entry, 64, 30, seed, keep=True),
            m.WantRemovals(slots, length, cells, seed),
            m.WantRemovals([s for s in slots if s in table.itemsets] or [slot], 64, 30, seed),
        ]
    )


def some_move(rng, table):
    slot = rng.choice([*table.itemsets, *table.itemsets, 0, N_ITEMS, table.free_slot, LAST])
    items = sorted(rng.sample(range(N_ITEMS), rng.choice([2, 3, N_ITEMS])))
    return rng.choice(
        [m.Remove(slot), m.Insert(rng.choice([table.free_slot, slot]), items, rng.choice([0, 9, 1 << 53]))]
    )


def test_x_takes_no_itemset_twice():
    """Removing one of the two would take the other out of the order: the covers would have what the table has not."""
    variant, _ = side("x")
    variant.answer(asked(m.WantSupports(40), moves=[m.Insert(N_ITEMS, [0, 1], 9)]))
    for entry in (9, 5):
        for want in (
            asked(m.WantSupports(40), moves=[m.Insert(N_ITEMS + 1, [0, 1], entry)], number=1),
            asked(m.WantInsertion(N_ITEMS + 1, [0, 1], entry, N_ITEMS + 2, 9, 0, keep=True), number=1),
        ):
            with pytest.raises(ProtocolError, match="in it already"):
                variant.answer(want)


@given(st.integers(0, 1 << 60))
@example(20349)
@settings(max_examples=120)
def test_x_survives_whatever_is_asked(seed):
    """Dozens of questions one after the other, some of them answered: the covers stay covers."""
    rng = random.Random(seed)
    variant, database = side("x", seed=rng.randrange(20))
    table = variant._state.table
    answered = 0
    for number in range(50):
        moves = [some_move(rng, table) for _ in range(rng.choice([0, 0, 0, 1, 2]))]
        try:
            reply = variant.answer(asked(some_want(rng, table), moves=moves, number=number))
        except (ProtocolError, SecureAggregationError):
            continue
        answered += 1
        assert reply.words.dtype == np.uint64
    assert answered
    check_covers(variant._state, database)


# -- so --------------------------------------------------------------------------------------------------------------


@given(st.integers(0, 1 << 60))
@settings(max_examples=120)
def test_so_survives_whatever_is_asked(seed):
    rng = random.Random(seed)
    variant, database = side("so", seed=rng.randrange(20))
    local = variant._local
    news = variant.answer(m.AskCandidates(0, None))
    known = list(zip(news.x.values().tolist(), news.y.values().tolist(), strict=True))
    for number in range(40):
        slot = rng.choice([0, N_ITEMS, local.next_slot, LAST, *local.slots])
        pairs = [rng.choice([*known[:5], (slot, 1), (slot, slot), (1, 0)]) for _ in range(rng.choice([1, 1, 1, 2, 9]))]
        ask = rng.choice(
            [
                m.AskUsages(number),
                m.AskCandidates(number, rng.choice([None, m.Accept(pairs)])),
                m.Evaluate(number, pairs),
                m.AskSupports(number, rng.choice([None, m.Accept(pairs)])),
            ]
        )
        try:
            reply = variant.answer(ask)
        except ProtocolError:
            continue
        if isinstance(reply, m.Candidates):
            known = [*zip(reply.x.values().tolist(), reply.y.values().tolist(), strict=True), *known]
    check_covers(local._state, database)


def test_so_refuses_to_insert_what_it_has_not_proposed():
    variant, _ = side("so")
    for pairs in ([(0, 0)], [(N_ITEMS, 0)], [(LAST, LAST)], [(LAST, 0), (0, LAST)]):
        with pytest.raises(ProtocolError, match="accepted an itemset that this client has not proposed; it is refused"):
            variant.answer(m.AskCandidates(0, m.Accept(pairs)))
        with pytest.raises(ProtocolError, match="has not proposed"):
            variant.answer(m.AskSupports(0, m.Accept(pairs)))
        assert variant.answer(m.Evaluate(0, pairs)).slots.length == 0


def test_so_refuses_pairs_that_make_different_itemsets():
    variant, _ = side("so")
    news = variant.answer(m.AskCandidates(0, None))
    pairs = list(zip(news.x.values().tolist(), news.y.values().tolist(), strict=True))[:2]
    for ask in (m.Evaluate(1, pairs), m.AskCandidates(1, m.Accept(pairs))):
        with pytest.raises(ProtocolError, match="joined pairs that do not make one itemset; it is refused"):
            variant.answer(ask)


# -- sa --------------------------------------------------------------------------------------------------------------


def begun(seed=1):
    """An SA client whose index has all its own pairs in it."""
    variant, database = side("sa", seed)
    variant.answer(m.AskIndexedUsages(0, 0, 40))
    named = variant.answer(m.AskStructure(1, None, NONE))
    keys = sorted(zip(named.x.values().tolist(), named.y.values().tolist(), strict=True))
    x, y = zip(*keys, strict=True)
    variant.answer(m.AskIndexed(2, 0, vector(x), vector(y), vector([]), 40))
    return variant, database, keys


NONE = vector([])


@pytest.mark.parametrize(
    "ask",
    [
        m.AskIndexedUsages(3, 0, 57),
        m.AskIndexedUsages(3, 0, 1),
        m.AskStructure(3, None, vector([5, 5])),
        m.AskStructure(3, None, vector([1 << 40])),
        m.AskStructure(3, None, vector([100_000])),
        m.AskIndexed(3, 0, vector([0]), NONE, NONE, 40),
        m.AskIndexed(3, 0, vector([1]), vector([0]), NONE, 40),
        m.AskIndexed(3, 0, vector([1]), vector([1]), NONE, 40),
        m.AskIndexed(3, 0, vector([0]), vector([N_ITEMS]), NONE, 40),
        m.AskIndexed(3, 0, vector([0]), vector([1 << 40]), NONE, 40),
        m.AskIndexed(3, 0, NONE, NONE, vector([N_ITEMS]), 40),
        m.AskIndexed(3, 0, NONE, NONE, vector([0] * 100_000), 40),
        m.AskIndexed(3, 0, NONE, NONE, vector([1, 0]), 40),
        m.AskIndexed(3, 0, NONE, NONE, vector([0, 1]), 1),
        m.AskIndexed(3, 0, NONE, NONE, vector([0]), 64),
        m.AskStructure(3, None, m.Vector(3, 8, b"")),
        m.AskEvaluation(3, 0, m.Entered(N_ITEMS, [(0, 1)], 5), LAST, 56),
        m.AskEvaluation(3, 0, m.Entered(N_ITEMS, [(0, 1)], 5), N_ITEMS + 2, 40),
        m.AskEvaluation(3, 0, m.Entered(N_ITEMS, [(0, 1)], 5), 0, 40),
        m.AskEvaluation(3, 0, m.Entered(N_ITEMS, [(0, 1)], 5), N_ITEMS + 1, 1),
        m.AskEvaluation(3, 0, m.Entered(N_ITEMS, [(0, 1)], 5), N_ITEMS + 1, 64),
        m.AskEvaluation(3, 0, m.Entered(LAST, [(0, 1)], 5), N_ITEMS + 1, 40),
        m.AskEvaluation(3, 0, m.Entered(N_ITEMS, [(0, 1), (0, 2)], 5), N_ITEMS + 1, 40),
        m.AskStructure(3, m.Entered(0, [(0, 1)], 5), NONE),
        m.AskStructure(3, m.Entered(N_ITEMS - 1, [(0, 1)], 5), NONE),
        m.AskStructure(3, m.Entered(N_ITEMS + 1, [(0, 1)], 5), NONE),
        m.AskStructure(3, m.Entered(LAST, [(0, 1)], 5), NONE),
        m.AskStructure(3, m.Entered(N_ITEMS, [(0, N_ITEMS)], 5), NONE),
        m.AskStructure(3, m.Entered(N_ITEMS, [(0, 0)], 5), NONE),
        m.AskStructure(3, m.Entered(N_ITEMS, [(0, 1), (0, 2)], 5), NONE),
        m.AskStructure(3, m.Entered(N_ITEMS, [(LAST, LAST)], 5), NONE),
        m.AskIndexedSupports(3, 0, None, vector([N_ITEMS]), 40),
        m.AskIndexedSupports(3, 0, None, vector([0] * (N_ITEMS + 1)), 40),
        m.AskIndexedSupports(3, 0, None, vector([0]), 1),
        m.AskIndexedSupports(3, 0, m.Entered(0, [(0, 1)], 5), NONE, 40),
    ],
    ids=lambda ask: repr(ask)[:70],
)
def test_sa_refuses_questions_that_make_no_sense(ask):
    variant, database, _ = begun()

    def refused():
        with pytest.raises((ProtocolError, RingError)):
            variant.answer(ask)

    assert allocated(refused) < 1 << 23
    check_covers(variant._local._state, database)


def test_sa_refuses_pairs_that_the_index_has_and_pairs_named_twice():
    variant, _, keys = begun()
    (x, y), *_ = keys
    with pytest.raises(ProtocolError, match="name pairs or elements twice"):
        variant.answer(m.AskIndexed(3, 0, vector([x]), vector([y]), NONE, 40))
    variant, _ = side("sa")
    with pytest.raises(ProtocolError, match="no pairs of elements in ascending order"):
        variant.answer(m.AskIndexed(3, 0, vector([0, 0]), vector([1, 1]), NONE, 40))


def test_sa_refuses_a_number_for_two_itemsets():
    variant, _, keys = begun()
    one, other = keys[:2]
    variant.answer(m.AskStructure(3, m.Entered(N_ITEMS, [one], 5), NONE))
    with pytest.raises(ProtocolError, match=f"gave the number {N_ITEMS} to two itemsets"):
        variant.answer(m.AskStructure(4, m.Entered(N_ITEMS, [other], 5), NONE))


@given(st.integers(0, 1 << 60))
@settings(max_examples=120)
def test_sa_survives_whatever_is_asked(seed):
    rng = random.Random(seed)
    variant, database, keys = begun(rng.randrange(20))
    for number in range(3, 45):
        known = variant._known
        some = rng.choice([0, 1, N_ITEMS - 1, N_ITEMS, known - 1, known, known + 1, LAST])
        pairs = [rng.choice([*keys, *keys, (0, some), (some, some)]) for _ in range(rng.choice([1, 1, 1, 2, 5]))]
        entered = m.Entered(rng.choice([known, known, known, some]), pairs, rng.choice([0, 4, 1 << 53]))
        bits = rng.choice([1, 4, 40, 40, 40, 56, 57, 64])
        pool = [0, 1, 2, known - 1, known, 300]
        x, y, elements, gone = (sorted(rng.choices(pool, k=rng.choice([0, 0, 1, 2]))) for _ in range(4))
        ask = rng.choice(
            [
                m.AskIndexedUsages(number, 0, bits),
                m.AskStructure(number, rng.choice([None, entered]), vector(gone)),
                m.AskIndexed(number, 0, vector(x), vector(y), vector(elements), bits),
                m.AskIndexed(number, 0, NONE, NONE, vector(sorted(set(elements))), bits),
                m.AskEvaluation(number, 0, entered, rng.choice([0, known, known + 1, LAST]), bits),
                m.AskIndexedSupports(number, 0, rng.choice([None, entered]), vector(elements), bits),
            ]
        )
        try:
            variant.answer(ask)
        except (ProtocolError, SecureAggregationError):
            continue
    check_covers(variant._local._state, database)


# -- a session: what it agreed to ------------------------------------------------------------------------------------


def seated(variant="x", *, share=False, **settled):
    named = databases(FIGURE)
    site = sites_of(named, share_vocabulary=share, **settled)["c1"]
    client = ClientSession("c1", site)
    keys = [client.join(bytes(range(32))).key, AgreementKey.from_random(bytes(31) + b"\7").public]
    return client, m.Roster(RUN, m.Settings(variant, variant != "so", MOST), ["c1", "c2"], keys, b"", 0, [], [])


def replaced(roster, **fields):
    return msgspec.structs.replace(roster, **fields)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda _: {"members": ["c1", "c3"]}, "the server's roster has the members 'c1', 'c3', this site agreed to"),
        (lambda r: {"members": ["c1"], "keys": r.keys[:1]}, "with others it shares nothing"),
        (lambda r: {"members": ["c1", "c2", "c2"], "keys": [*r.keys, r.keys[1]]}, "with others it shares nothing"),
        (lambda _: {"members": ["c2", "c2"]}, "with others it shares nothing"),
        (lambda r: {"keys": r.keys[:1]}, "with others it shares nothing"),
        (lambda r: {"keys": [*r.keys, r.keys[0]]}, "with others it shares nothing"),
        (lambda r: {"keys": r.keys[::-1]}, "another key under this member's name"),
        (lambda r: {"keys": [r.keys[0], r.keys[0]]}, "cannot agree on a secret with itself"),
        (lambda r: {"keys": [r.keys[0], bytes(32)]}, "the key of member 'c2' is not a usable X25519 public key"),
        (lambda _: {"ids": bytes(16)}, "a vocabulary of its own, but one was agreed on"),
        (lambda _: {"settings": m.Settings("x", False, MOST)}, "wants counts without masks in x; this site does not"),
        (lambda _: {"settings": m.Settings("sa", False, MOST)}, "wants counts without masks in sa"),
        (lambda _: {"settings": m.Settings("x", True, 9)}, "for 9 transactions of 2 members, and this site has more"),
        (lambda _: {"settings": m.Settings("x", True, MOST, True)}, "wants the labels of the items; this site does"),
        (lambda _: {"settings": m.Settings("y", True, MOST)}, "announced the variant 'y'; known are x, sa, so"),
        (lambda _: {"settings": m.Settings("", True, MOST)}, "announced the variant ''"),
    ],
)
def test_a_client_takes_no_seat_that_it_did_not_agree_to(change, told):
    client, roster = seated()
    with pytest.raises(FedslimError, match=told):
        client.receive(replaced(roster, **change(roster)))
    assert client.state is ClientState.JOINING
    assert isinstance(client.receive(roster), m.Ready)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_client_runs_only_the_variants_that_it_agreed_to(variant):
    others = tuple(v for v in VARIANTS if v != variant)
    client, roster = seated(variant, variants=others)
    with pytest.raises(ProtocolError, match=f"wants to run {variant}; this site agreed to {', '.join(others)}"):
        client.receive(roster)
    client, roster = seated(variant, variants=(variant,))
    assert isinstance(client.receive(roster), m.Ready)


def test_the_most_transactions_may_be_just_enough():
    client, roster = seated()
    assert isinstance(client.receive(replaced(roster, settings=m.Settings("x", True, 10))), m.Ready)


@pytest.mark.parametrize("ids", [bytes(15), bytes(17), bytes(32), b"\2" * 16 + b"\1" * 16])
def test_a_vocabulary_of_the_servers_must_be_one(ids):
    client = ClientSession("c1", sites_of(databases(FIGURE), agreed=False)["c1"])
    client.join(bytes(range(32)))
    _, roster = seated()
    with pytest.raises(ProtocolError, match="the server's vocabulary"):
        client.receive(replaced(roster, ids=ids))


def test_a_vocabulary_of_the_servers_must_have_the_clients_items():
    client = ClientSession("c1", sites_of(databases(FIGURE), agreed=False)["c1"])
    client.join(bytes(range(32)))
    _, roster = seated()
    with pytest.raises(FedslimError, match="the agreed vocabulary lacks"):
        client.receive(replaced(roster, ids=bytes(16)))


def test_a_site_that_uses_another_secret_does_not_take_part():
    named = databases(FIGURE)
    other = ItemSecret.from_random(bytes(32))
    site = Site(named["c1"], ("c1", "c2"), other, Vocabulary.of(named["c1"].vocabulary, SECRET))
    client = ClientSession("c1", site)
    client.join(bytes(range(32)))
    _, roster = seated()
    with pytest.raises(FedslimError, match="secret"):
        client.receive(roster)


def test_whoever_is_not_among_its_own_members_cannot_begin():
    with pytest.raises(FedslimError, match="'c9' is not among the members 'c1', 'c2'"):
        ClientSession("c9", sites_of(databases(FIGURE))["c1"])


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_question_that_makes_no_sense_ends_the_session(variant):
    """Part of it may have been carried out: there is no going on from there."""
    client, roster = seated(variant)
    client.receive(roster)
    bad = {
        "x": m.Ask(0, 0, [m.Insert(5, [0, 1], 7)], [m.WantRows([99], b"\x08", 99)]),
        "sa": m.AskStructure(0, m.Entered(99, [(0, 1)], 7), NONE),
        "so": m.AskCandidates(0, m.Accept([(0, 99)])),
    }[variant]
    with pytest.raises(ProtocolError, match="refused"):
        client.receive(bad)
    assert client.state is ClientState.FINISHED
    assert client.received is None
    with pytest.raises(ProtocolError, match="while this client was finished"):
        client.receive(bad)


# -- the table at the end --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda _: {"usages": vector([1])}, "usages of 1 items and supports of 5 came where there are 5"),
        (lambda _: {"supports": vector([1] * 6)}, "usages of 5 items and supports of 6 came where there are 5"),
        (lambda _: {"usages": m.Vector(5, 8, b"")}, "a vector says 5 numbers"),
        (lambda _: {"itemsets": [m.Element([0, 5], 1, 1, 1)]}, "not items of the vocabulary in ascending order"),
        (lambda _: {"itemsets": [m.Element([1, 0], 1, 1, 1)]}, "not items of the vocabulary in ascending order"),
        (lambda _: {"itemsets": [m.Element([1, 1], 1, 1, 1)]}, "not items of the vocabulary in ascending order"),
        (lambda _: {"itemsets": [m.Element([1], 1, 1, 1)]}, "not items of the vocabulary in ascending order"),
        (lambda _: {"itemsets": []}, "usages and supports of the table do not agree"),
        (lambda t: {"itemsets": [*t.itemsets, m.Element([0, 1], 0, 0, 0)]}, "do not agree"),
        (lambda t: {"itemsets": [*t.itemsets, t.itemsets[0]]}, "do not agree"),
        (lambda _: {"transactions": 3}, "do not agree"),
        (lambda _: {"usages": vector([m.MOST_COUNT] * 5)}, "do not agree"),
    ],
)
def test_a_client_takes_no_table_that_is_none(change, told):
    sites = databases(FIGURE)
    honest = Line(sites, "x").begin().run().table

    def down(_name, message):
        if isinstance(message, m.Finish):
            return m.Finish("converged", replaced(honest, **change(honest)))
        return message

    with pytest.raises(ProtocolError, match=told):
        Line(sites, "x").begin().run(down=down)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_server_may_end_a_run_at_any_time(variant):
    client, roster = seated(variant)
    client.receive(roster)
    assert client.receive(m.Finish("interrupted", None)) is None
    assert client.received.ending == "interrupted"
    assert (client.received.table is None) == (variant != "so")  # in so it has its own


def test_an_honest_server_is_not_refused():
    sites = databases(FIGURE)
    line = Line(sites, "x").begin()
    assert line.clients["c1"].received is None
    table = table_of(line.run(), sites)
    assert line.clients["c1"].received.table == table
