"""The worked example of the paper's figure, number by number."""

from __future__ import annotations

import pytest
from twin import estimated_gain

from fedslim.data import TransactionDatabase
from fedslim.mdl.cover_state import CoverState
from fedslim.mdl.objective import description_length, standard_lengths
from fedslim.mdl.policy import Policy
from fedslim.mdl.questions import CoUsages, Insert, TryInsertions
from fedslim.mdl.search import SlimSearch

ROWS = ["abc"] * 3 + ["ae"] * 2 + ["abd"] * 4 + ["ce"]
GAINS = {"ab": 13.82, "bd": 7.43, "ad": 6.14, "bc": -6.21, "ac": -7.00, "ae": -9.14, "ce": -11.18}


@pytest.fixture
def toy():
    return TransactionDatabase.from_transactions([list(row) for row in ROWS])


def test_usages_and_lengths_of_the_standard_code_table(toy):
    usages = toy.supports.tolist()
    bits = description_length(usages, standard_lengths(usages))
    assert usages == [9, 7, 4, 4, 3]
    assert bits.data == pytest.approx(59.446, abs=0.001)
    assert bits.model == pytest.approx(24.424, abs=0.001)
    assert bits.total == pytest.approx(83.871, abs=0.001)


@pytest.mark.parametrize(("pair", "gain"), GAINS.items())
def test_every_estimated_gain(toy, pair, gain):
    state = CoverState(toy)
    x, y = (toy.vocabulary.index(label) for label in pair)
    (row,) = state.co_usages((x,))
    together = dict(zip(row.slots.tolist(), row.counts.tolist(), strict=True))[y]
    usages = toy.supports.tolist()
    lengths = standard_lengths(usages)
    estimate = estimated_gain(usages[x], usages[y], together, 27, 5, lengths[x], lengths[y])
    assert estimate == pytest.approx(gain, abs=0.01)


def test_the_first_step_accepts_ab(toy):
    search = SlimSearch(toy.n_items, Policy())
    state = CoverState(toy)
    run = search.run()
    question = next(run)
    asked = []
    while search.tally.accepted == 0:
        asked.append(question)
        question = run.send(question.put_to(state))
    trial, move = [q for q in asked if isinstance(q, (TryInsertions, Insert))]
    assert [(m.itemset, m.entry) for m in trial.moves] == [((0, 1), 7)]
    assert (move.itemset, move.entry) == ((0, 1), 7)
    assert [q.slots for q in asked if isinstance(q, CoUsages)] == [(0, 1, 2, 3, 4)]
    result = search.result()
    usages = {"".join(toy.vocabulary[i] for i in e.items): e.usage for e in result.entries}
    assert usages == {"ab": 7, "c": 4, "d": 4, "e": 3, "a": 2}
    assert result.bits.data == pytest.approx(44.03, abs=0.01)
    assert result.bits.model == pytest.approx(26.01, abs=0.01)
    assert result.bits.total == pytest.approx(70.05, abs=0.01)
    assert search.bits_now == pytest.approx(result.bits.total, abs=1e-9)
