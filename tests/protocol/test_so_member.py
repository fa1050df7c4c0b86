"""What a member refuses and survives in SO."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings, strategies as st
from one_member import LAST, N_ITEMS, check_covers, side

from fedslim.errors import ProtocolError
from fedslim.protocol import messages as m


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
    check_covers(local.state, database)


def test_so_refuses_to_insert_what_it_has_not_proposed():
    variant, _ = side("so")
    for pairs in ([(0, 0)], [(N_ITEMS, 0)], [(LAST, LAST)], [(LAST, 0), (0, LAST)]):
        with pytest.raises(ProtocolError, match="accepted an itemset that this member has not proposed; it is refused"):
            variant.answer(m.AskCandidates(0, m.Accept(pairs)))
        with pytest.raises(ProtocolError, match="has not proposed"):
            variant.answer(m.AskSupports(0, m.Accept(pairs)))
        assert variant.answer(m.Evaluate(0, pairs)).slots.length == 0


def test_so_refuses_pairs_that_make_different_itemsets():
    variant, _ = side("so")
    news = variant.answer(m.AskCandidates(0, None))
    pairs = list(zip(news.x.values().tolist(), news.y.values().tolist(), strict=True))[:2]
    for ask in (m.Evaluate(1, pairs), m.AskCandidates(1, m.Accept(pairs))):
        with pytest.raises(ProtocolError, match="pairs that do not have one union"):
            variant.answer(ask)
