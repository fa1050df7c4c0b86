from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st

from fedslim.algorithm1.pairs import PairCounts, PairLedger

ELEMENTS = st.integers(0, 90)  # more than a new ledger has room for
PAIRS = st.frozensets(ELEMENTS, min_size=2, max_size=2).map(lambda pair: tuple(sorted(pair)))
COUNTS = st.dictionaries(PAIRS, st.integers(0, 3), max_size=40)
CHANGES = st.lists(st.tuples(COUNTS, st.sets(st.integers(0, 30), max_size=8)), min_size=1, max_size=12)
MANY = [(dict.fromkeys(((x, y) for y in range(40) for x in range(y)), 1), set())]  # no room for them without growing


def columns(pairs):
    x, y = np.array(sorted(pairs), np.int32).reshape(-1, 2).T
    return x, y


def at(ledger, places):
    return list(zip(*(v.tolist() for v in ledger.at(places)), strict=True))


@given(CHANGES, st.booleans(), st.lists(ELEMENTS, max_size=12))
@settings(max_examples=80, deadline=None)
def test_a_ledger_is_a_dictionary(changes, many, elements):
    ledger, other, twin = PairLedger(), PairLedger(), {}
    for counts, leaving in [*MANY * many, *changes]:
        x, y = columns(counts)
        news = PairCounts(x, y, np.array([counts[pair] for pair in sorted(counts)], np.int64))
        assert ledger.replace(news).tolist() == [twin.get(pair, 0) for pair in sorted(counts)]
        other.replace(news)
        twin = {pair: count for pair, count in {**twin, **counts}.items() if count}
        gone = [pair for k, pair in enumerate(sorted(twin)) if k in leaving]
        places = ledger.places_of(*columns(gone))
        assert ledger.is_place(places)
        ledger.discard(places)
        other.discard(places)
        twin = {pair: count for pair, count in twin.items() if pair not in gone}
        assert (ledger.places_of(*columns(gone)) == -1).all()
        assert not gone or not ledger.is_place(places)
    pairs = {(x, y) for x in range(91) for y in range(x + 1, 91)}
    assert ledger.look_up(*columns(pairs)).tolist() == [twin.get(pair, 0) for pair in sorted(pairs)]
    assert at(ledger, ledger.places_of(*columns(twin))) == sorted(twin)
    # Even if an element is named twice, each pair comes once, in the same order in equal ledgers.
    around = ledger.around(np.array(elements, np.int32))
    assert sorted(at(ledger, around)) == sorted(pair for pair in twin if set(pair) & set(elements))
    assert around.tolist() == other.around(np.array(elements, np.int32)).tolist()
