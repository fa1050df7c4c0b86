from __future__ import annotations

from dataclasses import replace

import pytest

from fedslim.data import PLANTED, TransactionDatabase, builtin_database
from fedslim.federated import compare, simulate
from fedslim.federated.comparison import FIGURES, NOT_COMPARED
from fedslim.federated.records import simulation_record
from fedslim.mdl import mine
from fedslim.mdl.driver import Stop
from fedslim.metrics.reference import ReferenceItemset, ReferenceTable


@pytest.fixture(scope="module")
def compared(simulation):
    return compare(simulation)


def test_x_agrees_with_one_place_and_recovers_the_whole_gap(compared):
    record = compared.as_dict()
    assert tuple(record) == FIGURES == tuple(NOT_COMPARED)
    assert {
        name: record[name] for name in ("f1", "precision", "recall", "wr50", "wr100", "rho", "grr")
    } == dict.fromkeys(("f1", "precision", "recall", "wr50", "wr100", "rho", "grr"), 1.0)
    assert record["gap_recovered"] == record["gap"] > 0
    assert compared.reference == mine(builtin_database()).table


def test_what_is_spread_thin_over_hospitals_is_found_together_only(compared, databases):
    recovered = {frozenset(itemset.labels): itemset for itemset in compared.recovered}
    for syndrome in (one for one in PLANTED if one.kind == "thin"):
        itemset = recovered[frozenset(syndrome.items)]
        assert len(itemset.supports) == len(databases)
        assert set(itemset.supports) <= {4, 5}


def test_the_gap_is_told_itemset_by_itemset(simulation, compared):
    record = simulation_record(simulation, compared, data="encounters", command="")
    assert record.figures["gap"] == len(record.gap) == len(compared.gap)
    assert sum(member.alone is not None for member in record.members) == 6
    assert all(row.recovered for row in record.gap)
    assert sum(record.gap[0].supports) >= record.gap[0].usage


def test_a_run_cut_short_recovers_less(databases, compared):
    short = compare(simulate(databases, max_rounds=40), compared.reference)
    assert short.fidelity.f1 < 1
    assert len(short.recovered) < len(short.gap) == len(compared.gap)
    assert short.grr == len(short.recovered) / len(short.gap)


def test_one_member_leaves_nothing_to_recover(databases):
    compared = compare(simulate({"north": next(iter(databases.values()))}))
    assert len(compared.gap) == 0
    assert compared.grr == 1


def test_with_a_reference_of_somebody_else(simulation):
    rows = (ReferenceItemset(("fever", "cough"), 9), ReferenceItemset(("no such item", "fever"), 3))
    compared = compare(simulation, ReferenceTable("encounters", "by hand", rows))
    assert compared.fidelity.missed >= 1
    assert frozenset(("no such item", "fever")) in {frozenset(itemset.labels) for itemset in compared.gap.itemsets}


def test_the_tables_compared_are_mined_with_the_width_of_the_run(databases):
    """The variants of the paper try one candidate in each step, as does its reference."""
    members = list(databases.values())
    whole = TransactionDatabase.joined(members)
    simulation = simulate(databases, variant="so", max_rounds=5)
    compared = compare(simulation)
    assert compared.reference == mine(whole, width=1).table != mine(whole).table
    assert compared.local_tables == tuple(mine(database, width=1).table for database in members)
    for effort in (1, 2):
        wide = replace(simulation, options=replace(simulation.options, width=8, effort=effort))
        assert compare(wide).reference == mine(whole, effort=effort).table


def test_comparing_can_be_stopped(simulation):
    stop = Stop()
    stop.ask()
    assert compare(simulation, stop=stop) is None
