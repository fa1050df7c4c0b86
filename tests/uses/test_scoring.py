from __future__ import annotations

from math import log2

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from twin import cover

from fedslim import CodeTable, Slim
from fedslim.data import TransactionDatabase, builtin_database
from fedslim.errors import DataError
from fedslim.mdl import mine
from fedslim.uses import score
from fedslim.uses.scoring import score_chunks

ROWS = st.lists(st.sets(st.integers(0, 9)), min_size=1, max_size=40)


def slow_scores(table: CodeTable, rows):
    """Bits and average bits of the items of rows, as the page on scoring defines them."""
    order = [items for items, _, _, _ in table.found]
    usages = {items: usage for items, usage, _, _ in table.found}
    usages |= {(i,): usage for i, usage in enumerate(table.singleton_usages)}
    total = sum(usages.values()) + len(usages) + 1  # one more for each, and one for unknown items
    bits = {items: log2(total) - log2(usage + 1) for items, usage in usages.items()}
    unknown = log2(total)
    items = range(len(table.vocabulary))
    paid = [sum(u * bits[x] / len(x) for x, u in usages.items() if i in x) for i in items]
    mean = sum(paid) / max(sum(table.supports), 1)
    shares = [(paid[i] + mean) / (table.supports[i] + 1) for i in items]
    index = {label: i for i, label in enumerate(table.vocabulary)}
    found = []
    for row in rows:
        known = frozenset(index[i] for i in row if i in index)
        strange = len(row) - len(known)
        spent = sum(bits[tuple(x)] for x in cover(known, order)) + strange * unknown
        found.append((spent, sum(shares[i] for i in known) + strange * mean))
    return found


@settings(max_examples=30, deadline=None)
@given(ROWS, ROWS)
def test_bits_and_expectation_are_those_of_the_slow_twin(seen, unseen):
    table = mine(TransactionDatabase.from_transactions([[str(i) for i in row] for row in seen])).table
    rows = [[str(i) for i in row] for row in unseen]
    scores = score(table, rows)
    slow = slow_scores(table, rows)
    assert scores.bits.tolist() == pytest.approx([bits for bits, _ in slow])
    assert scores.items_bits.tolist() == pytest.approx([items for _, items in slow])


def test_what_the_mined_rows_take_beyond_expectation_adds_up_to_about_nothing():
    db = builtin_database("encounters")
    scores = score(mine(db).table, db)
    assert abs(scores.beyond.mean()) < 0.01 * scores.bits.mean()


def test_the_score_does_not_depend_on_the_length_of_rows_although_bits_do():
    db = builtin_database("encounters")
    scores = score(mine(db).table, db)
    assert np.corrcoef(scores.bits, scores.lengths)[0, 1] > 0.7
    assert abs(np.corrcoef(scores.beyond, scores.lengths)[0, 1]) < 1e-9
    assert (np.diff(scores.beyond[scores.ranking]) <= 0).all()


def test_chunks_change_nothing_to_the_last_bit():
    db = builtin_database("encounters")
    table = mine(db).table
    whole = score(table, db)
    parts = score_chunks(table, [db.take(np.arange(t, min(t + 777, len(db)))) for t in range(0, len(db), 777)])
    assert whole.bits.tolist() == parts.bits.tolist()
    assert whole.beyond.tolist() == parts.beyond.tolist()


def test_a_loaded_table_covers_scores_and_reconstructs_as_before(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {"age": [20 + i % 50 for i in range(200)], "city": ["Bonn", "Ulm"] * 100, "x": [None, 1] * 100}
    )
    slim = Slim().fit(frame)
    slim.table_.save(tmp_path / "table.json")
    table = CodeTable.load(tmp_path / "table.json")
    unseen = pd.DataFrame({"x": [None], "city": ["Bonn"], "age": [99]})
    assert table.encoding == slim.encoding_
    assert table.code_lengths(frame).tolist() == slim.code_lengths(frame).tolist()
    assert table.code_lengths(unseen).tolist() == slim.code_lengths(unseen).tolist()
    assert list(table.reconstruct(table.transform(frame))) == list(slim.reconstruct(slim.transform(frame)))
    table.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "table.json").read_bytes()


def test_nothing_to_score_is_said():
    with pytest.raises(DataError, match="no rows to score"):
        score_chunks(mine(builtin_database("encounters")).table, [])
