"""X is mining in one place, byte for byte; SA and SO are the federations that the engine's tests know."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedslim.data import PAPER_UNEVEN_SIZES, TransactionDatabase, Vocabulary, load
from fedslim.data.vocabulary import over
from fedslim.federated import SCHEMES, divide, simulate
from fedslim.mdl import mine
from fedslim.mdl.merged import MergedSearch
from fedslim.mdl.policy import Policy
from fedslim.protocol import messages as m
from fedslim.protocol import wants

sys.path.insert(0, str(Path(__file__).parents[1] / "mdl"))
sys.path.insert(0, str(Path(__file__).parent))
from federation import Federation, dense, rows, skewed

from wire import SECRET, of_numbers, recorded, sprinkled, table_of

SETS = ("chess", "mushroom", "ionosphere", "adult")
CLIENTS = (1, 2, 10, 128)


def file_of(table, folder, name):
    path = folder / f"{name}.json"
    table.save(path)
    return path.read_bytes()


# -- x on public data ------------------------------------------------------------------------------------------------

FAST = {("ionosphere", clients, scheme) for clients in (2, 10) for scheme in SCHEMES} | {("chess", 2, "iid")}
ALL = [
    (name, clients, scheme)
    for name in SETS
    for clients in CLIENTS
    for scheme in SCHEMES
    if scheme != "paper-sizes" or clients <= len(PAPER_UNEVEN_SIZES)
]


@pytest.fixture(scope="module")
def mined(public_data):
    known = {}

    def of(name):
        if name not in known:
            database = load(name, folder=public_data)
            known[name] = database, mine(database)
        return known[name]

    return of


def check_public(mined, name, clients, scheme, folder):
    database, alone = mined(name)
    together = simulate(divide(database, scheme, clients=clients, table=alone.table))
    assert file_of(together.table, folder, "together") == file_of(alone.table, folder, "alone")
    assert (together.tally.candidates, together.tally.accepted) == (alone.tally.candidates, alone.tally.accepted)


@pytest.mark.parametrize(("name", "clients", "scheme"), sorted(FAST))
def test_x_writes_the_file_that_mine_writes(mined, name, clients, scheme, tmp_path):
    check_public(mined, name, clients, scheme, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "clients", "scheme"), [case for case in ALL if case not in FAST])
def test_x_writes_the_file_that_mine_writes_for_any_number_of_clients(mined, name, clients, scheme, tmp_path):
    check_public(mined, name, clients, scheme, tmp_path)


# -- x on random data ------------------------------------------------------------------------------------------------


def dealt(data, clients, seed):
    """Anything from an even hand to all for one; some get nothing."""
    rng = random.Random(seed)
    weights = [rng.choice([0, 0.1, 1, 5]) for _ in range(clients - 1)] + [1]
    parts = [[] for _ in range(clients)]
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
    )
    # A federation's table does not say by what it was ordered; the entries do.
    assert replace(table_of(outcome, named), order=policy.order) == alone.table
    assert (outcome.tally.candidates, outcome.tally.accepted) == (alone.tally.candidates, alone.tally.accepted)
    return seen


@given(data=rows(max_items=14, max_transactions=60), clients=st.integers(1, 6), seed=st.integers(0, 1 << 30))
@settings(max_examples=60)
def test_x_finds_what_one_place_finds(data, clients, seed):
    found, n_items = data
    check_x(dealt(found, clients, seed), n_items)


policies = st.builds(
    Policy,
    pruning=st.booleans(),
    order=st.sampled_from(["usage", "support"]),
    max_itemset_size=st.sampled_from([None, 2, 3, 5]),
    min_support=st.sampled_from([1, 2, 5]),
)


def test_x_finds_it_where_what_enters_leaves_others_without_use():
    """And a removal that is tried in the same breath would bring one back."""
    check_x(dealt(dense(71, 8, 400), 2, 71), 8, Policy(max_itemset_size=5))


@given(policy=policies, seed=st.integers(0, 1 << 30), clients=st.integers(1, 4))
@settings(max_examples=40)
def test_x_finds_it_under_every_policy(policy, seed, clients):
    check_x(dealt(dense(seed, 12, 50), clients, seed), 12, policy)


@given(seed=st.integers(0, 1 << 30), clients=st.integers(1, 5), n_items=st.integers(300, 900))
@settings(max_examples=15)
def test_x_finds_it_in_wide_vocabularies(seed, clients, n_items):
    parts = sprinkled(seed, n_items, clients, 40, patterns=8, noise=0.004)
    check_x(parts, n_items)


def test_wide_vocabularies_are_asked_for_in_sketches():
    seen = check_x(sprinkled(3, 6000, 3, 80, patterns=12, noise=0.0008), 6000)
    kinds = {type(want) for ask in seen.messages("down", "Ask", "s000") for want in ask.wants}
    assert kinds >= {m.WantSparseRow, m.WantRows, m.WantInsertion}


@given(seed=st.integers(0, 1 << 30), clients=st.integers(1, 4), wide=st.booleans())
@settings(max_examples=25)
def test_sketches_that_are_too_small_cost_rounds_and_nothing_else(seed, clients, wide):
    """Every trial is guessed to change one element, and every row to have been empty when it was last seen."""
    n_items = 700 if wide else 12
    parts = (
        sprinkled(seed, n_items, clients, 40, patterns=6, noise=0.004)
        if wide
        else dealt(dense(seed, n_items, 50), clients, seed)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wants.Guess, "guess", lambda _self, _trials=1: 1)
        patch.setattr(wants, "Sketch", TooSmall)
        if wide:
            patch.setattr(wants.Sizes, "rows_for", sparse_rows)
        check_x(parts, n_items)


class TooSmall(wants.Sketch):
    """One cell in a table for few entries; so two entries are one too many."""

    @classmethod
    def for_entries(cls, entries, universe, *, seed=0):
        return cls(max(1, entries // 3), universe, seed)


def sparse_rows(sizes, slots, usages, length):
    return [wants.SparseRow(s, u, length, 1, sizes) for s, u in zip(slots, usages, strict=True)]


def test_failed_sketches_are_asked_for_again(monkeypatch):
    plain = check_x(dealt(dense(5, 12, 60), 3, 5), 12)
    monkeypatch.setattr(wants.Guess, "guess", lambda _self, _trials=1: 1)
    monkeypatch.setattr(wants, "Sketch", TooSmall)
    again = check_x(dealt(dense(5, 12, 60), 3, 5), 12)
    assert len(again.rounds) > len(plain.rounds)


@pytest.mark.slow
@given(seed=st.integers(0, 1 << 30), clients=st.integers(1, 40), n_items=st.integers(8, 120), policy=policies)
@settings(max_examples=150)
def test_x_finds_it_in_larger_data(seed, clients, n_items, policy):
    check_x(dealt(dense(seed, n_items, 400), clients, seed), n_items, policy)


@pytest.mark.parametrize("agreed", [True, False])
def test_every_member_is_given_the_table_in_its_own_labels(agreed):
    """Without an agreed vocabulary items are in the order of their ids, as in one place with the same vocabulary."""
    named = of_numbers(dealt(dense(4, 12, 80), 3, 4), 12)
    federation, _, _ = recorded(named, "x", agreed=agreed)
    joined = TransactionDatabase.joined(list(named.values()))
    ids = Vocabulary.of(joined.vocabulary, SECRET)
    alone = mine(over(joined, ids if agreed else Vocabulary.merge(ids), SECRET))
    for client in federation.clients.values():
        assert client.received.ending == "converged"
        assert client.received.table == alone.table


def test_items_that_a_member_does_not_have_are_called_by_their_ids():
    parts = {"one": ["abc"] * 5 + ["ab"] * 3, "other": ["cd"] * 4 + ["cde"] * 3}
    named = {name: TransactionDatabase.from_transactions([list(r) for r in rows]) for name, rows in parts.items()}
    federation, _, _ = recorded(named, "x", agreed=False)
    tables = {name: client.received.table for name, client in federation.clients.items()}
    for name, table in tables.items():
        own = set(named[name].vocabulary)
        assert own < set(table.vocabulary)
        assert all(
            label in own or label in {f"#{SECRET.id_of(x).hex()}" for x in "abcde"} for label in table.vocabulary
        )
    assert tables["one"].found == tables["other"].found


# -- sa and so -------------------------------------------------------------------------------------------------------


def numbered(partition):
    return {f"s{k:03}": part for k, part in enumerate(partition.parts)}


def check_published(variant, named):
    """Through messages, and with plain sums in memory."""
    _, outcome, _ = recorded(named, variant)
    n_items = next(iter(named.values())).n_items
    search = MergedSearch(n_items)
    federation = Federation(list(named.values()), "sum" if variant == "sa" else "own")
    run = search.run()
    question = next(run)
    try:
        while True:
            question = run.send(question.put_to(federation))
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
@given(data=rows(max_items=12, max_transactions=60), clients=st.integers(1, 5), seed=st.integers(0, 1 << 30))
@settings(max_examples=40)
def test_through_messages_the_published_variants_are_what_they_are_in_memory(variant, data, clients, seed):
    found, n_items = data
    check_published(variant, of_numbers(dealt(found, clients, seed), n_items))


@pytest.mark.parametrize("variant", ["sa", "so"])
@given(seed=st.integers(0, 1 << 30))
@example(seed=33554432)  # a pair that nobody uses, and that somebody uses again in the next step
@settings(max_examples=40)
def test_also_where_clients_differ(variant, seed):
    """And the supports that come with the result are counted by all (SA), or by those who have the itemset (SO)."""
    named = of_numbers(skewed(seed, 14, 4, 30), 14)
    federation, table = check_published(variant, named)
    for element in table.itemsets:
        items = tuple(element.items)
        owners = [
            member.local
            for member in federation.members
            if variant == "sa" or items in map(member.local.items_of, member.local.slots)
        ]
        assert element.support == sum(local.support(items) for local in owners)


@pytest.mark.parametrize("variant", ["sa", "so"])
@pytest.mark.parametrize("clients", [2])
def test_also_on_public_data(mined, variant, clients):
    database, _ = mined("ionosphere")
    check_published(variant, numbered(divide(database, clients=clients, seed=1)))


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["sa", "so"])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ["chess", "mushroom", "ionosphere"])
def test_also_on_larger_public_data_however_it_is_dealt_out(mined, variant, scheme, name):
    database, alone = mined(name)
    check_published(variant, numbered(divide(database, scheme, clients=10, table=alone.table)))
