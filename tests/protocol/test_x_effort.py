"""X with an effort: it finds what `mine` finds with the same effort, and members allow what that takes, and no more."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from federation import rows
from hypothesis import given, settings, strategies as st
from one_member import FINAL, FREE, PAIR, ROW, asked, check_covers, dropping, insertion, insertions, searching
from test_exact import dealt
from weather import Weather

from fedslim.data import TransactionDatabase, load
from fedslim.errors import ProtocolError
from fedslim.federated import divide, simulate
from fedslim.mdl import mine
from fedslim.mdl.effort import WIDTHS
from fedslim.mdl.policy import MAX_WIDTH
from fedslim.protocol import messages as m, x_sizes
from wire import of_numbers, recorded, sprinkled, table_of


@pytest.fixture(scope="module", autouse=True)
def _short():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedslim.mdl.effort.ITERATIONS", 4)
        patch.setattr("fedslim.mdl.effort.FIRST_ROUNDS", 2)
        patch.setattr("fedslim.mdl.effort.STARTS", 2)
        patch.setattr("fedslim.mdl.effort.MORE_STARTS", 1)
        yield


# -- the same as in one place ----------------------------------------------------------------------------------------


def check(parts, n_items, effort, least=1, seed=7, **chosen):
    named = of_numbers(parts, n_items)
    _, outcome, seen = recorded(named, "x", effort=effort, min_count=least, searched=seed, **chosen)
    whole = TransactionDatabase.joined(list(named.values()))
    alone = mine(whole, effort=effort, min_count=least, seed=seed, threads=1)
    assert table_of(outcome, named) == alone.table
    assert outcome.ending == "converged"
    done = [(t.candidates, t.accepted, t.pruned) for t in (outcome.tally, alone.tally)]
    assert done[0] == done[1]
    return seen


@given(
    rows(max_items=14, max_transactions=60),
    st.integers(1, 4),
    st.integers(0, 1 << 30),
    st.sampled_from([2, 3]),
    st.sampled_from([1, 5]),
)
@settings(max_examples=15, deadline=None)
def test_x_finds_what_one_place_finds(data, members, seed, effort, least):
    found, n_items = data
    check(dealt(found, members, seed), n_items, effort, least, seed)


@pytest.mark.parametrize("least", [1, 5])
@pytest.mark.parametrize("members", [1, 2, 3, 4])
def test_x_finds_it_where_there_is_more_to_find(members, least):
    seen = check(sprinkled(members, 24, members, 120, patterns=8, noise=0.1), 24, 3, least)
    moves = {type(move) for ask in seen.messages("down", "Ask") for move in ask.moves}
    assert {m.MarkTable, m.GoBackToMark, m.EmptyTable} <= moves


def test_x_finds_it_when_sketches_are_too_small(monkeypatch):
    """Then moves are undone and asked for again, also those that take many itemsets out at once."""
    monkeypatch.setattr(x_sizes, "entries_of", lambda _: 1)
    monkeypatch.setattr("fedslim.protocol.messages.MAX_REMOVALS", 3)
    seen = check(sprinkled(5, 24, 2, 60, patterns=8, noise=0.1), 24, 3)
    wants = [want for ask in seen.messages("down", "Ask") for want in ask.wants]
    assert sum(isinstance(want, m.WantRemovals) and all(want.gone) and len(want.gone) == 3 for want in wants) > 1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "effort"), [("ionosphere", 2), ("ionosphere", 3), ("chess", 3)])
def test_x_writes_what_mine_writes_on_public_data(public_data, name, effort):
    database = load(name, folder=public_data)
    together = simulate(divide(database, "iid", members=3), effort=effort, seed=2)
    assert together.table == mine(database, effort=effort, seed=2).table


# -- stopped and resumed ---------------------------------------------------------------------------------------------


def test_out_of_rounds_it_ends_with_the_best_table_of_all_searches():
    named = of_numbers(sprinkled(3, 24, 2, 80, patterns=8, noise=0.1), 24)
    _, first, seen = recorded(named, "x")
    _, last, all_seen = recorded(named, "x", effort=3)
    bits = [table_of(first, named).compression.after.total]
    for limit in range(len(seen.rounds), len(all_seen.rounds), max(1, len(all_seen.rounds) // 12)):
        federation, outcome, _ = recorded(named, "x", effort=3, max_rounds=limit)
        assert outcome.ending == "out of rounds"
        bits.append(table_of(outcome, named).compression.after.total)
        assert federation.server.variant.search.result().bits.total == pytest.approx(bits[-1])
    bits.append(table_of(last, named).compression.after.total)
    assert all(later <= before + 1e-6 for before, later in pairwise(bits))
    assert bits[-1] < bits[0]


@pytest.fixture(scope="module")
def calm():
    federation = Weather("x", 8, rows=30, effort=3)
    federation.run()
    return federation


@pytest.mark.parametrize("what", ["server", "kill", "server loses power", "member loses power"])
def test_after_a_fault_it_finds_the_same_table(calm, what):
    federation = Weather("x", 8, rows=30, effort=3)
    for tenth in (3, 6, 9):
        federation.until(lambda f, tenth=tenth: len(f.rounds) >= len(calm.rounds) * tenth // 10)
        federation.fault(what, "b")
    federation.run()
    assert federation.outcome == calm.outcome


# -- what a member allows --------------------------------------------------------------------------------------------


OTHERWISE = "otherwise than a search does"
NEVER_THERE = "which was not in the table"
NOT_NOW = "does not do that now"


def again(number=0, slot=PAIR, *, keep=True):
    return insertion(slot, (number, number), keep=keep)


EMPTY, MARK, BACK = m.EmptyTable(), m.MarkTable(), m.GoBackToMark()


def test_an_itemset_that_was_in_the_table_returns_by_its_number():
    variant, database = searching(effort=2)
    variant.answer(asked(insertion(FREE, (2, 3))))
    variant.answer(asked(insertions((PAIR, (1, 1)), (FREE, (0, 0))), moves=[EMPTY]))
    assert variant._members._state.table.itemsets == {PAIR: (2, 3), FREE: (0, 1)}
    check_covers(variant._members._state, database)
    variant.answer(asked(FINAL, moves=[EMPTY, m.InsertUnion(PAIR, (0, 0), 9)]))
    assert variant._members._state.table.itemsets == {PAIR: (0, 1)}


@pytest.mark.parametrize(
    ("message", "told", "effort"),
    [
        (asked(again(1), moves=[EMPTY]), NEVER_THERE, 2),
        (asked(again(PAIR), moves=[EMPTY]), NEVER_THERE, 3),
        (asked(again(keep=False), moves=[EMPTY]), OTHERWISE, 2),
        (asked(*[again()] * (MAX_WIDTH + 1), moves=[EMPTY]), OTHERWISE, 2),
        (asked(ROW, moves=[EMPTY, m.InsertUnion(PAIR, (0, 0), 9)]), OTHERWISE, 2),
        (asked(FINAL, moves=[EMPTY, m.InsertUnion(PAIR, (1, 1), 9)]), NEVER_THERE, 2),
        (asked(FINAL, moves=[EMPTY, *[m.InsertUnion(PAIR, (0, 0), 9)] * 2]), "but slot 10 is next", 2),
        (asked(FINAL, moves=[m.InsertUnion(FREE, (0, 0), 9)]), "in the table already", 2),
        (asked(again(slot=FREE)), "in the table already", 2),
        (asked(again(slot=FREE)), "items in common", 1),
        (asked(ROW, moves=[EMPTY]), NOT_NOW, 1),
        (asked(ROW, moves=[MARK]), NOT_NOW, 1),
        (asked(ROW, moves=[MARK]), NOT_NOW, 2),
        (asked(ROW, moves=[BACK]), NOT_NOW, 3),
        (asked(ROW, moves=[MARK, EMPTY, BACK]), NOT_NOW, 3),
        (asked(ROW, moves=[m.RemoveElement(PAIR), MARK, m.RestoreElement(PAIR)]), "was not removed last", 3),
        (asked(ROW, moves=[MARK, m.RemoveElement(PAIR), BACK, m.RestoreElement(PAIR)]), "was not removed last", 3),
        (asked(m.WantRemovals([PAIR], 9, 0), moves=[EMPTY]), "which is empty", 2),
    ],
    ids=lambda value: repr(value)[:70],
)
def test_a_member_refuses_what_no_search_of_this_effort_does(message, told, effort):
    variant, database = searching(effort=effort)
    with pytest.raises(ProtocolError, match=told):
        variant.answer(message)
    check_covers(variant._members._state, database)


def test_items_are_not_dropped_between_searches():
    variant, _ = searching(pair=False, effort=2, min_count=5)
    with pytest.raises(ProtocolError, match="allowed only once, at the start"):
        variant.answer(asked(ROW, moves=[EMPTY, dropping(4)]))


def test_nothing_but_removals_comes_after_the_search():
    for move in (EMPTY, MARK, BACK, m.InsertUnion(FREE, (0, 0), 9)):
        variant, _ = searching(effort=3)
        variant.answer(asked(FINAL, moves=[MARK]))
        with pytest.raises(ProtocolError, match="after the search"):
            variant.answer(asked(FINAL, moves=[move]))


@pytest.mark.parametrize(("effort", "searches"), [(2, 2 + len(WIDTHS)), (3, 2 + len(WIDTHS) + 2 + 2 * 3)])
def test_a_member_counts_the_searches(effort, searches):
    variant, _ = searching(effort=effort)
    for _ in range(searches):  # one more than there are, for the best table
        variant.answer(asked(ROW, moves=[EMPTY]))
    with pytest.raises(ProtocolError, match=NOT_NOW):
        variant.answer(asked(ROW, moves=[EMPTY]))


@pytest.mark.parametrize(("effort", "most"), [(1, 16), (2, 64)])
def test_a_member_allows_the_widest_step_of_the_effort(effort, most):
    variant, _ = searching(effort=effort)
    few = [insertion(FREE, (2, 3), keep=False)] * most
    variant.answer(asked(*few))
    with pytest.raises(ProtocolError, match=f"of width {most // 2} has at most {most} and 1"):
        variant.answer(asked(*few, insertion(FREE, (2, 3), keep=False)))


def test_going_back_makes_the_covers_what_they_were():
    variant, database = searching(effort=3)
    row = variant.answer(asked(ROW, moves=[MARK]))
    variant.answer(asked(insertion(FREE, (2, 3)), moves=[m.RemoveElement(PAIR), m.RestoreElement(PAIR)]))
    after = variant.answer(asked(ROW, moves=[m.RemoveElement(PAIR), BACK]))
    assert after.words.tolist() == row.words.tolist()
    assert variant._members._state.table.free_slot == FREE
    assert len(variant._members._state.table.itemsets) == 1
    check_covers(variant._members._state, database)


def test_the_settings_say_the_effort_and_the_seed():
    assert m.Settings("x", masked=True, max_transactions=9).effort == 1
    for wrong in ({"effort": 0}, {"effort": 9}, {"seed": -1}, {"seed": 1 << 63}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert([*msgspec.structs.astuple(settings_of(**wrong))], m.Settings)


def settings_of(**chosen):
    return m.Settings("x", masked=True, max_transactions=9, **chosen)
