"""X is mining in one place, byte for byte; SA and SO are the federations that the engine's tests know."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from federation import Federation, dense, rows, skewed
from hypothesis import example, given, settings, strategies as st

from fedslim.algorithm1.search import Algorithm1Search
from fedslim.data import TransactionDatabase, Vocabulary, load
from fedslim.data.partition import PAPER_UNEVEN_SIZES
from fedslim.data.vocabulary import over
from fedslim.federated import SCHEMES, divide, simulate
from fedslim.mdl import mine
from fedslim.mdl.bounded_ranking import BoundedRanking
from fedslim.mdl.policy import Policy
from fedslim.protocol import messages as m, x, x_sizes
from wire import SECRET, of_numbers, recorded, sprinkled, table_of

SETS = ("chess", "mushroom", "ionosphere", "adult")
MEMBERS = (1, 2, 10, 128)


def file_of(table, folder, name):
    path = folder / f"{name}.json"
    table.save(path)
    return path.read_bytes()


# -- x on public data ------------------------------------------------------------------------------------------------

FAST = {("ionosphere", members, scheme) for members in (2, 10) for scheme in SCHEMES} | {("chess", 2, "iid")}
ALL = [
    (name, members, scheme)
    for name in SETS
    for members in MEMBERS
    for scheme in SCHEMES
    if scheme != "paper-sizes" or members <= len(PAPER_UNEVEN_SIZES)
]


@pytest.fixture(scope="module")
def mined(public_data):
    known = {}

    def of(name, least=1):
        if (name, least) not in known:
            database = load(name, folder=public_data)
            known[name, least] = database, mine(database, min_count=least)
        return known[name, least]

    return of


def check_public(mined, name, members, scheme, folder, least=1):
    database, plain = mined(name)
    _, alone = mined(name, least)
    together = simulate(divide(database, scheme, members=members, table=plain.table), min_count=least)
    assert file_of(together.table, folder, "together") == file_of(alone.table, folder, "alone")
    assert (together.tally.candidates, together.tally.accepted) == (alone.tally.candidates, alone.tally.accepted)


@pytest.mark.parametrize(("name", "members", "scheme"), sorted(FAST))
def test_x_writes_the_file_that_mine_writes(mined, name, members, scheme, tmp_path):
    check_public(mined, name, members, scheme, tmp_path)


@pytest.mark.parametrize("least", [5, 10])
@pytest.mark.parametrize(("name", "members", "scheme"), [("ionosphere", 2, "iid"), ("chess", 10, "support-skew")])
def test_x_writes_the_file_that_mine_writes_with_a_smallest_count(mined, name, members, scheme, least, tmp_path):
    check_public(mined, name, members, scheme, tmp_path, least)


@pytest.mark.slow
@pytest.mark.parametrize("least", [5, 10])
@pytest.mark.parametrize(("name", "members", "scheme"), [case for case in ALL if case[1] > 1])
def test_also_with_a_smallest_count_for_any_number_of_members(mined, name, members, scheme, least, tmp_path):
    check_public(mined, name, members, scheme, tmp_path, least)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "members", "scheme"), [case for case in ALL if case not in FAST])
def test_x_writes_the_file_that_mine_writes_for_any_number_of_members(mined, name, members, scheme, tmp_path):
    check_public(mined, name, members, scheme, tmp_path)


# -- x on random data ------------------------------------------------------------------------------------------------


def dealt(data, members, seed):
    """Deal rows to members, from evenly to all for one; some get nothing."""
    rng = random.Random(seed)
    weights = [rng.choice([0, 0.1, 1, 5]) for _ in range(members - 1)] + [1]
    parts = [[] for _ in range(members)]
    for row in data:
        rng.choices(parts, weights)[0].append(row)
    return parts


def check_x(parts, n_items, policy=None, **chosen):
    named = of_numbers(parts, n_items)
    policy = policy or Policy()
    _, outcome, seen = recorded(named, "x", policy=policy, **chosen)
    alone = mine(
        TransactionDatabase.joined(list(named.values())),
        pruning=policy.pruning,
        order=policy.order,
        max_itemset_size=policy.max_itemset_size,
        min_support=policy.min_support,
        min_count=policy.min_count,
    )
    # A federation's table does not name its order; the entries show it.
    assert replace(table_of(outcome, named), order=policy.order) == alone.table
    assert (outcome.tally.candidates, outcome.tally.accepted) == (alone.tally.candidates, alone.tally.accepted)
    return seen


@given(data=rows(max_items=14, max_transactions=60), members=st.integers(1, 6), seed=st.integers(0, 1 << 30))
@settings(max_examples=60)
def test_x_finds_what_one_place_finds(data, members, seed):
    found, n_items = data
    check_x(dealt(found, members, seed), n_items)


policies = st.builds(
    Policy,
    pruning=st.booleans(),
    order=st.sampled_from(["usage", "support"]),
    max_itemset_size=st.sampled_from([None, 2, 3, 5]),
    min_support=st.sampled_from([1, 2, 5]),
    min_count=st.sampled_from([1, 2, 3, 5]),
)


def test_x_finds_it_where_what_enters_leaves_others_without_use():
    """And a removal tried at the same time would bring one back."""
    check_x(dealt(dense(71, 8, 400), 2, 71), 8, Policy(max_itemset_size=5))


@pytest.mark.parametrize("least", [2, 3, 5])
@given(data=rows(max_items=14, max_transactions=60), members=st.integers(1, 5), seed=st.integers(0, 1 << 30))
@settings(max_examples=30)
def test_x_finds_what_one_place_finds_with_a_smallest_count(least, data, members, seed):
    found, n_items = data
    check_x(dealt(found, members, seed), n_items, Policy(min_count=least))


TAKEN_BACK = [(67, 2), (67, 3), (67, 5), (85, 3), (85, 5), (53, 5), (8, 8), (76, 8)]
"""Seeds of dense data with a min_count where entering itemsets make others rare, whose removal costs too much."""


@pytest.mark.parametrize(("seed", "least"), TAKEN_BACK)
def test_x_finds_it_where_steps_are_taken_back(seed, least):
    """At all members, too: itemsets that had to be removed return to their slots."""
    seen = check_x(dealt(dense(seed, 14, 120), 3, seed), 14, Policy(min_count=least))
    assert any(isinstance(move, m.RestoreElement) for ask in seen.messages("down", "Ask", "s000") for move in ask.moves)


@pytest.mark.parametrize("least", [2, 3, 5])
def test_x_drops_rare_items_at_all_members_before_anything_else(least):
    """Also items that are rare only in the sum; dropped items are in no answer any more."""
    parts = sprinkled(6, 40, 3, 60, noise=0.03)
    seen = check_x(parts, 40, Policy(min_count=least))
    supports = [sum(item in row for part in parts for row in part) for item in range(40)]
    rare = [item for item, support in enumerate(supports) if 0 < support < least]
    assert rare
    _, second, *later = seen.messages("down", "Ask", "s000")
    (drop,) = second.moves
    assert drop.items.values().tolist() == rare
    assert not any(isinstance(move, m.DropItems) for ask in later for move in ask.moves)


@given(policy=policies, seed=st.integers(0, 1 << 30), members=st.integers(1, 4))
@settings(max_examples=60)
def test_x_finds_it_under_every_policy(policy, seed, members):
    check_x(dealt(dense(seed, 12, 50), members, seed), 12, policy)


@given(seed=st.integers(0, 1 << 30), members=st.integers(1, 5), n_items=st.integers(300, 900))
@settings(max_examples=15)
def test_x_finds_it_in_wide_vocabularies(seed, members, n_items):
    parts = sprinkled(seed, n_items, members, 40, patterns=8, noise=0.004)
    check_x(parts, n_items)


def test_wide_vocabularies_are_asked_for_in_sketches():
    seen = check_x(sprinkled(3, 6000, 3, 80, patterns=12, noise=0.0008), 6000)
    kinds = {type(want) for ask in seen.messages("down", "Ask", "s000") for want in ask.wants}
    assert kinds >= {m.WantSparseRow, m.WantRows, m.WantInsertions}


@example(seed=17183666, members=1, wide=False, least=5)  # an itemset that had lost all its uses wins a few back
@given(seed=st.integers(0, 1 << 30), members=st.integers(1, 4), wide=st.booleans(), least=st.sampled_from([1, 1, 2, 5]))
@settings(max_examples=25)
def test_sketches_that_are_too_small_cost_rounds_and_nothing_else(seed, members, wide, least):
    """Every trial is expected to change one element, and every row to be empty."""
    n_items = 700 if wide else 12
    parts = (
        sprinkled(seed, n_items, members, 40, patterns=6, noise=0.004)
        if wide
        else dealt(dense(seed, n_items, 50), members, seed)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(x_sizes, "entries_of", lambda _guesses: 1)
        patch.setattr(x_sizes, "Sketch", TooSmall)
        if wide:
            patch.setattr(x_sizes.Sizes, "ask_rows", sparse_rows)
        check_x(parts, n_items, Policy(min_count=least))


class TooSmall(x_sizes.Sketch):
    """One cell per table where few entries are expected, so that two entries are too many."""

    @classmethod
    def for_entries(cls, entries, universe, *, seed=0, wide=False):
        return cls(max(1, entries // 3), universe, seed, wide)


def sparse_rows(_sizes, slots, usages, _length, seed):
    return [x_sizes.Asked(m.WantSparseRow(s, 1, seed), (u,)) for s, u in zip(slots, usages, strict=True)]


def test_sketches_for_large_counts_make_no_difference(monkeypatch):
    """Cells have two words if counts do not fit into one."""
    parts = sprinkled(3, 900, 3, 80, patterns=12, noise=0.004)
    narrow = check_x(parts, 900)
    monkeypatch.setattr(x, "NARROW", 5)
    wide = check_x(parts, 900)
    wants = [want for ask in wide.messages("down", "Ask", "s000") for want in ask.wants]
    assert all(want.wide for want in wants if isinstance(want, m.WantSparseRow | m.WantInsertions | m.WantRemovals))
    assert len(wide.rounds) == len(narrow.rounds)


def test_failed_sketches_are_asked_for_again(monkeypatch):
    plain = check_x(dealt(dense(5, 12, 60), 3, 5), 12)
    monkeypatch.setattr(x_sizes, "entries_of", lambda _guesses: 1)
    monkeypatch.setattr(x_sizes, "Sketch", TooSmall)
    again = check_x(dealt(dense(5, 12, 60), 3, 5), 12)
    assert len(again.rounds) > len(plain.rounds)


@pytest.mark.parametrize("readable", [True, False])
def test_rows_may_be_asked_for_together_with_candidates(readable, monkeypatch):
    """If a row cannot be read, the candidates that have entered after it are undone, and asked about again."""
    monkeypatch.setattr(BoundedRanking, "is_complete", lambda _ranking, _slot: False)  # so rows are asked for whole
    if not readable:
        monkeypatch.setattr(x_sizes.Sizes, "ask_rows", sparse_rows)
    seen = check_x(dealt(dense(11, 48, 150), 3, 11), 48)
    asks = seen.messages("down", "Ask", "s000")
    kinds = [{type(want) for want in ask.wants} for ask in asks]
    assert {m.WantRows, m.WantInsertions} in kinds
    if not readable:
        again = kinds.index({m.WantSparseRow, m.WantInsertions}) + 1
        assert kinds[again] == {m.WantRows, m.WantInsertions}
        assert any(isinstance(move, m.RemoveElement) for move in asks[again].moves)


@pytest.mark.slow
@given(seed=st.integers(0, 1 << 30), members=st.integers(1, 40), n_items=st.integers(8, 120), policy=policies)
@settings(max_examples=150)
def test_x_finds_it_in_larger_data(seed, members, n_items, policy):
    check_x(dealt(dense(seed, n_items, 400), members, seed), n_items, policy)


@pytest.mark.parametrize("agreed", [True, False])
def test_every_member_is_given_the_table_in_its_own_labels(agreed):
    """Without an agreed vocabulary items are in the order of their ids, as in one place with the same vocabulary."""
    named = of_numbers(dealt(dense(4, 12, 80), 3, 4), 12)
    federation, _, _ = recorded(named, "x", agreed=agreed)
    joined = TransactionDatabase.joined(list(named.values()))
    ids = Vocabulary.of(joined.vocabulary, SECRET)
    alone = mine(over(joined, ids if agreed else Vocabulary.merge(ids), SECRET))
    for member in federation.members.values():
        assert member.received.ending == "converged"
        assert member.received.table == alone.table


def test_items_that_a_member_does_not_have_are_called_by_their_ids():
    parts = {"one": ["abc"] * 5 + ["ab"] * 3, "other": ["cd"] * 4 + ["cde"] * 3}
    named = {name: TransactionDatabase.from_transactions([list(r) for r in rows]) for name, rows in parts.items()}
    federation, _, _ = recorded(named, "x", agreed=False)
    tables = {name: member.received.table for name, member in federation.members.items()}
    for name, table in tables.items():
        own = set(named[name].vocabulary)
        assert own < set(table.vocabulary)
        assert all(
            label in own or label in {f"#{SECRET.id_of(x).hex()}" for x in "abcde"} for label in table.vocabulary
        )
    assert tables["one"].found == tables["other"].found


# -- x, and what may be published ------------------------------------------------------------------------------------


def covered(itemsets, part):
    """The slow oracle: the usage of each itemset if rows are covered in this order."""
    usages = [0] * len(itemsets)
    for row in part:
        left = set(row)
        for k, itemset in enumerate(itemsets):
            if left >= set(itemset):
                usages[k] += 1
                left -= set(itemset)
    return usages


def check_table(table, parts, n_items, least=1, members=1):
    """Covering all members' rows with the table gives its counts, and nothing in it is too rare."""
    rows_ = [row for part in parts for row in part]
    itemsets = [element.items for element in table.itemsets]
    by_member = [covered(itemsets, part) for part in parts]
    usages = [sum(own) for own in zip(*by_member, strict=True)]
    assert [element.usage for element in table.itemsets] == usages
    assert all(usage >= least for usage in usages)
    assert all(sum(own[k] > 0 for own in by_member) >= members for k in range(len(itemsets)))
    for element in table.itemsets:
        support = sum(set(element.items) <= set(row) for row in rows_)
        beyond = element.support - element.usage
        assert beyond % least == 0
        assert 0 <= support - element.support < least
    supports = [sum(i in row for row in rows_) for i in range(n_items)]
    spelled = list(supports)
    for itemset, usage in zip(itemsets, usages, strict=True):
        for i in itemset:
            spelled[i] -= usage
    at_members = [sum(any(i in row for row in part) for part in parts) for i in range(n_items)]
    hidden = [u if u < least or at < members else 0 for u, at in zip(spelled, at_members, strict=True)]
    assert table.usages.values().tolist() == [u - h for u, h in zip(spelled, hidden, strict=True)]
    assert table.supports.values().tolist() == [s - h for s, h in zip(supports, hidden, strict=True)]
    assert table.other == sum(hidden) - sum(hidden) % least
    assert (table.transactions, table.min_count) == (len(rows_), least)


def shrunk(itemsets, parts, least, members):
    """The slow oracle: remove all itemsets that are too rare or used by too few, until all others may stay."""
    while True:
        by_member = [covered(itemsets, part) for part in parts]
        fine = [
            sum(own[k] for own in by_member) >= least and sum(own[k] > 0 for own in by_member) >= members
            for k in range(len(itemsets))
        ]
        if all(fine):
            return itemsets
        itemsets = [itemset for itemset, stays in zip(itemsets, fine, strict=True) if stays]


def check_members_with(parts, n_items, least, members, **chosen):
    """Compare with a run without the limit; return its itemsets, and those that are left."""
    named = of_numbers(parts, n_items)
    _, whole, _ = recorded(named, "x", min_count=least, **chosen)
    federation, outcome, seen = recorded(named, "x", min_count=least, min_members_with=members, **chosen)
    found = [element.items for element in whole.table.itemsets]
    left = [element.items for element in outcome.table.itemsets]
    assert left == shrunk(found, parts, least, members)
    check_table(outcome.table, parts, n_items, least, members)
    entries = {tuple(element.items): element.entry for element in whole.table.itemsets}
    assert [e.entry for e in outcome.table.itemsets] == [entries[tuple(e.items)] for e in outcome.table.itemsets]
    for member in federation.members.values():
        assert member.received.table == table_of(outcome, named)
    return found, left, seen


def test_an_itemset_that_one_member_uses_is_not_published():
    both = [{4, 5}] * 12
    parts = [[{0, 1}] * 20 + both, [{2, 3}] * 20 + both]
    found, left, seen = check_members_with(parts, 6, 1, 2)
    assert sorted(found) == [[0, 1], [2, 3], [4, 5]]
    assert left == [[4, 5]]
    # Items that only one member has are merged.
    (finish,) = seen.messages("down", "Finish", "s000")
    assert finish.table.supports.values().tolist() == [0, 0, 0, 0, 24, 24]
    assert finish.table.other == 80
    # The remaining itemsets are counted again: usages may have changed.
    *_, last, again = seen.messages("down", "Ask", "s000")
    assert [type(want) for ask in (last, again) for want in ask.wants] == [m.WantFinal] * 2
    assert [type(move) for move in again.moves] == [m.RemoveElement] * 2


def test_what_stays_is_covered_anew_with_what_is_left():
    """One member uses {0, 1, 2}; once it is removed, {0, 1} is used there instead."""
    parts = [[{0, 1, 2}] * 20 + [{0, 1}] * 3, [{0, 1}] * 12 + [{2, 5}] * 9]
    found, left, seen = check_members_with(parts, 6, 1, 2)
    assert [0, 1, 2] in found
    assert left == [[0, 1]]
    assert len(seen.messages("down", "Finish", "s000")[0].table.itemsets) == 1


def test_with_more_members_than_there_are_nothing_but_items_is_published():
    parts = dealt(dense(3, 10, 80), 3, 3)
    found, left, _ = check_members_with(parts, 10, 1, 4)
    assert found
    assert not left


@given(
    seed=st.integers(0, 1 << 30),
    holders=st.integers(1, 5),
    members=st.integers(2, 4),
    least=st.sampled_from([1, 2, 3, 5]),
    uneven=st.booleans(),
)
@settings(max_examples=50)
def test_what_too_few_members_use_leaves_the_table_until_all_of_it_may_stay(seed, holders, members, least, uneven):
    parts = skewed(seed, 12, holders, 30) if uneven else dealt(dense(seed, 12, 60), holders, seed)
    check_members_with(parts, 12, least, members)


@given(policy=policies, seed=st.integers(0, 1 << 30), members=st.sampled_from([2, 3]))
@settings(max_examples=30)
def test_also_under_every_policy(policy, seed, members):
    parts = skewed(seed, 12, 3, 40)
    check_members_with(parts, 12, policy.min_count, members, policy=policy)


@pytest.mark.parametrize("members", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize(
    ("seed", "least"),
    [(0, 2), (67, 2), *(pytest.param(*case, marks=pytest.mark.slow) for case in [(0, 1), (1, 5), (8, 8), (76, 8)])],
)
def test_a_run_that_is_stopped_at_any_round_has_a_table_that_may_be_published(seed, least, members):
    """All members undo unfinished steps."""
    parts = dealt(dense(seed, 14, 120), 3, seed) if (seed, least) in TAKEN_BACK else skewed(seed, 10, 3, 40)
    n_items = 14 if (seed, least) in TAKEN_BACK else 10
    named = of_numbers(parts, n_items)
    _, converged, seen = recorded(named, "x", min_count=least, min_members_with=members)
    last = max(ask.round for ask in seen.messages("down", "Ask") if not isinstance(ask.wants[0], m.WantFinal))
    assert last > 8
    for stop in range(1, last + 1):
        _, outcome, _ = recorded(named, "x", min_count=least, min_members_with=members, max_rounds=stop)
        assert outcome.ending == "out of rounds"
        check_table(outcome.table, parts, n_items, least, members)
    _, outcome, _ = recorded(named, "x", min_count=least, min_members_with=members, max_rounds=last + 2)
    assert (outcome.ending, outcome.table) == ("converged", converged.table)


# -- sa and so -------------------------------------------------------------------------------------------------------


def numbered(partition):
    return {f"s{k:03}": part for k, part in enumerate(partition.parts)}


def check_published(variant, named):
    """Compare a run through messages with plain sums in memory."""
    _, outcome, _ = recorded(named, variant)
    n_items = next(iter(named.values())).n_items
    search = Algorithm1Search(n_items)
    federation = Federation(list(named.values()), "sum" if variant == "sa" else "own")
    run = search.run()
    question = next(run)
    try:
        while True:
            question = run.send(federation.answer(question))
    except StopIteration as end:
        result = end.value
    table = outcome.table
    found = [(tuple(e.items), e.usage, e.entry) for e in table.itemsets]
    assert found == [(e.items, e.usage, e.entry) for e in result.entries if len(e.items) > 1]
    usages = {e.items[0]: e.usage for e in result.entries if len(e.items) == 1}
    assert table.usages.values().tolist() == [usages.get(i, 0) for i in range(n_items)]
    assert outcome.tally == search.tally
    return federation, table


@pytest.mark.parametrize("variant", ["sa", "so"])
@given(data=rows(max_items=12, max_transactions=60), members=st.integers(1, 5), seed=st.integers(0, 1 << 30))
@settings(max_examples=40)
def test_through_messages_the_published_variants_are_what_they_are_in_memory(variant, data, members, seed):
    found, n_items = data
    check_published(variant, of_numbers(dealt(found, members, seed), n_items))


@pytest.mark.parametrize("variant", ["sa", "so"])
@given(seed=st.integers(0, 1 << 30))
@example(seed=33554432)  # a pair that no member uses, and that one uses again in the next step
@settings(max_examples=40)
def test_also_where_members_differ(variant, seed):
    """All members count the supports of the result (SA), or those that have the itemset (SO)."""
    named = of_numbers(skewed(seed, 14, 4, 30), 14)
    federation, table = check_published(variant, named)
    for element in table.itemsets:
        items = tuple(element.items)
        owners = [
            member.local
            for member in federation.members
            if variant == "sa" or items in map(member.local.state.table.items_of, member.local.slots)
        ]
        assert element.support == sum(local.state.support(items) for local in owners)


@pytest.mark.parametrize("variant", ["sa", "so"])
@pytest.mark.parametrize("members", [2])
def test_also_on_public_data(mined, variant, members):
    database, _ = mined("ionosphere")
    check_published(variant, numbered(divide(database, members=members, seed=1)))


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["sa", "so"])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ["chess", "mushroom", "ionosphere"])
def test_also_on_larger_public_data_however_it_is_dealt_out(mined, variant, scheme, name):
    database, alone = mined(name)
    check_published(variant, numbered(divide(database, scheme, members=10, table=alone.table)))
