"""What a member refuses and survives in SA."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from one_member import LAST, N_ITEMS, NONE, allocated, check_covers, side

from fedslim.errors import ProtocolError, RingError, SecureAggregationError
from fedslim.protocol import messages as m
from fedslim.secagg.ring import Ring
from wire import vector


def begun(seed=1):
    """An SA member whose index has all its own pairs in it."""
    variant, database = side("sa", seed)
    variant.answer(m.AskIndexedUsages(0, 0))
    named = variant.answer(m.AskStructure(1, None, NONE))
    keys = sorted(zip(named.x.values().tolist(), named.y.values().tolist(), strict=True))
    x, y = zip(*keys, strict=True)
    variant.answer(m.AskIndexed(2, 0, vector(x), vector(y), vector([]), 40))
    return variant, database, keys


@pytest.mark.parametrize(
    "ask",
    [
        m.AskIndexedUsages(3, 0),
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
        m.AskIndexed(3, 0, NONE, NONE, vector([0]), 57),
        m.AskIndexed(3, 0, NONE, NONE, vector([0]), 64),
        m.AskStructure(3, None, m.Vector(3, 8, b"")),
        m.AskEvaluation(3, 0, m.Entered(N_ITEMS, [(0, 1)], 5), 57),
        m.AskEvaluation(3, 0, m.Entered(N_ITEMS, [(0, 1)], 5), 64),
        m.AskEvaluation(3, 0, m.Entered(0, [(0, 1)], 5), 40),
        m.AskEvaluation(3, 0, m.Entered(N_ITEMS - 1, [(0, 1)], 5), 40),
        m.AskEvaluation(3, 0, m.Entered(N_ITEMS + 1, [(0, 1)], 5), 40),
        m.AskEvaluation(3, 0, m.Entered(LAST, [(0, 1)], 5), 40),
        m.AskEvaluation(3, 0, m.Entered(N_ITEMS, [(0, 0)], 5), 40),
        m.AskEvaluation(3, 0, m.Entered(N_ITEMS, [(0, N_ITEMS)], 5), 40),
        m.AskEvaluation(3, 0, m.Entered(N_ITEMS, [(LAST, LAST)], 5), 40),
        m.AskEvaluation(3, 0, m.Entered(N_ITEMS, [(0, 1), (0, 2)], 5), 40),
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
        m.AskIndexedSupports(3, 0, None, vector([0]), 57),
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
    check_covers(variant._local.state, database)


def test_sa_refuses_pairs_that_the_index_has_and_pairs_named_twice():
    variant, _, keys = begun()
    (x, y), *_ = keys
    with pytest.raises(ProtocolError, match="name pairs or elements twice"):
        variant.answer(m.AskIndexed(3, 0, vector([x]), vector([y]), NONE, 40))
    variant, _ = side("sa")
    variant.answer(m.AskIndexedUsages(0, 0))
    with pytest.raises(ProtocolError, match="not pairs of elements in ascending order"):
        variant.answer(m.AskIndexed(3, 0, vector([0, 0]), vector([1, 1]), NONE, 40))


def test_sa_refuses_a_number_for_two_itemsets():
    variant, _, keys = begun()
    one, other = keys[:2]
    variant.answer(m.AskStructure(3, m.Entered(N_ITEMS, [one], 5), NONE))
    with pytest.raises(ProtocolError, match=f"gave the number {N_ITEMS} to two itemsets"):
        variant.answer(m.AskStructure(4, m.Entered(N_ITEMS, [other], 5), NONE))


SA_QUESTIONS = [
    m.AskIndexedUsages(3, 0),
    m.AskStructure(3, None, NONE),
    m.AskIndexed(3, 0, NONE, NONE, NONE, 40),
    m.AskEvaluation(3, 0, m.Entered(N_ITEMS, [(0, 1)], 5), 40),
    m.AskIndexedSupports(3, 0, None, NONE, 40),
]
ANOTHER_TIME = "when the search never does"


@pytest.mark.parametrize("ask", SA_QUESTIONS, ids=lambda ask: type(ask).__name__)
def test_sa_is_asked_for_usages_first_and_for_supports_last(ask):
    first = isinstance(ask, m.AskIndexedUsages)
    variant, _ = side("sa")
    if first:
        variant.answer(ask)
    for question in SA_QUESTIONS if first else [ask]:
        if first is isinstance(question, m.AskIndexedUsages):
            with pytest.raises(ProtocolError, match=ANOTHER_TIME):
                variant.answer(question)
    variant, _, _ = begun()
    variant.answer(m.AskIndexedSupports(3, 0, None, NONE, 40))
    with pytest.raises(ProtocolError, match=ANOTHER_TIME):
        variant.answer(ask)


def test_sa_does_not_say_by_a_refusal_how_large_a_count_is():
    """As in X: counts that do not fit wrap around."""
    (wide, database, keys), (narrow, _, _) = begun(), begun()
    ring = Ring(40, (1 << 40) - 1)
    for bits in (1, 2, 3):
        few = Ring(bits, (1 << bits) - 1)
        asks = [
            (m.AskIndexed(3, 0, NONE, NONE, vector(range(N_ITEMS)), bits), len(keys)),
            (m.AskEvaluation(3, 0, m.Entered(N_ITEMS, [keys[0]], 9), bits), 2 * (N_ITEMS + 1)),
        ]
        for ask, length in asks:
            counts = ring.read(wide.answer(msgspec.structs.replace(ask, bits=40)).words, length=length)
            assert counts.max() >= 1 << bits
            assert few.read(narrow.answer(ask).words, length=length).tolist() == (counts % (1 << bits)).tolist()
    supports = database.supports
    assert supports.max() > 3
    words = narrow.answer(m.AskIndexedSupports(9, 0, None, vector(range(N_ITEMS)), 2)).words
    assert Ring(2, 3).read(words, length=N_ITEMS).tolist() == (supports % 4).tolist()


@given(st.integers(0, 1 << 60))
@settings(max_examples=120)
def test_sa_survives_whatever_is_asked(seed):
    rng = random.Random(seed)
    variant, database, keys = begun(rng.randrange(20))
    answered = 0
    for number in range(3, 45):
        known = variant._known
        some = rng.choice([0, 1, N_ITEMS - 1, N_ITEMS, known - 1, known, known + 1, LAST])
        pairs = [rng.choice([*keys, *keys, (0, some), (some, some)]) for _ in range(rng.choice([1, 1, 1, 2, 5]))]
        entered = m.Entered(rng.choice([known, known, known, some]), pairs, rng.choice([0, 4, 1 << 53]))
        bits = rng.choice([1, 4, 40, 40, 40, 56, 57, 64])
        pool = [0, 1, 2, known - 1, known, 300]
        x, y, elements, gone = (sorted(rng.choices(pool, k=rng.choice([0, 0, 1, 2]))) for _ in range(4))
        asks = [
            m.AskIndexedUsages(number, 0),
            m.AskStructure(number, rng.choice([None, entered]), vector(gone)),
            m.AskIndexed(number, 0, vector(x), vector(y), vector(elements), bits),
            m.AskIndexed(number, 0, NONE, NONE, vector(sorted(set(elements))), bits),
            m.AskEvaluation(number, 0, entered, bits),
        ]
        if number > 40:  # nothing may follow it once it is answered
            asks = [m.AskIndexedSupports(number, 0, rng.choice([None, entered]), vector(elements), bits)]
        try:
            variant.answer(rng.choice(asks))
        except (ProtocolError, SecureAggregationError):
            continue
        answered += 1
    assert answered
    check_covers(variant._local.state, database)
