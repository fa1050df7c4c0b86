from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from fedslim import simulate as exported
from fedslim.cli.commands.simulate import MAX_MEMBERS, Scheme, Variant
from fedslim.data import TransactionDatabase, builtin_database, iid, load
from fedslim.errors import ParameterError
from fedslim.federated import SCHEMES, divide, simulate, simulation as room
from fedslim.federated.accounting import Account
from fedslim.federated.simulation import named_databases
from fedslim.mdl import CodeTable, mine
from fedslim.mdl.driver import Stop
from fedslim.mdl.policy import WIDTH
from fedslim.network.in_process import FrameSent
from fedslim.protocol import wire_types
from fedslim.protocol.variant import VARIANTS

SMALL = TransactionDatabase.from_transactions([["a", "b", "c"], ["a", "b"], ["c", "d"], ["d"], []] * 6)


@pytest.fixture(scope="module")
def ionosphere(public_data):
    return load("ionosphere", folder=public_data)


def test_the_command_knows_what_the_rooms_know():
    assert (tuple(Variant), tuple(Scheme), MAX_MEMBERS) == (tuple(VARIANTS), SCHEMES, wire_types.MAX_MEMBERS)
    assert exported is simulate


COMPILED_AFTER_PREPARING = """
import sys
from fedslim import _jit
from fedslim.data import load
from fedslim.federated import divide
from fedslim.federated.simulation import prepare, simulate

def compiled():
    return {(kernel.__name__, signature) for kernel in _jit._kernels for signature in kernel.signatures}

variant, folder = sys.argv[1:]
prepare(variant)
before = compiled()
partition = divide(load("ionosphere", folder=folder), members=3)
for masking in (True, False):
    simulate(partition, variant=variant, masking=masking)
print(sorted({name for name, _ in compiled() - before}))
"""


@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_is_left_to_compile_when_the_clock_starts(variant, public_data):
    """In a separate process: in this one, other tests have compiled kernels already."""
    command = [sys.executable, "-c", COMPILED_AFTER_PREPARING, variant, str(public_data)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_history_ends_with_the_run(monkeypatch):
    """Both use one clock, which does not count the time to prepare the members."""
    real = room.MemberInput

    def slow(*given):
        time.sleep(0.3)
        return real(*given)

    monkeypatch.setattr(room, "MemberInput", slow)
    found = simulate(iid(SMALL, 2, seed=0))
    assert 0 < found.history[-1].seconds <= found.seconds


# -- x is mining in one place ----------------------------------------------------------------------------------------


def test_hospitals_find_together_what_one_place_finds(simulation):
    mined = mine(builtin_database())
    assert simulation.table == mined.table
    assert simulation.tally.candidates == mined.tally.candidates
    assert (simulation.converged, simulation.ending) == (True, "converged")


@pytest.mark.parametrize("members", [1, 2, 10])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_however_the_data_are_dealt_out(ionosphere, scheme, members):
    table = mine(ionosphere).table
    partition = divide(ionosphere, scheme, members=members, table=table)
    assert simulate(partition).table == table


def test_masks_change_nothing_but_bytes():
    masked, plain = simulate([SMALL, SMALL]), simulate([SMALL, SMALL], masking=False)
    assert masked.table == plain.table == mine(TransactionDatabase.joined([SMALL, SMALL])).table
    assert (masked.options.masked, plain.options.masked) == (True, False)


def test_the_seed_decides_the_bytes_and_not_the_table(monkeypatch):
    lines = []

    class Listening(Account):
        def __call__(self, event):
            if isinstance(event, FrameSent):
                lines[-1].append(event.data)
            super().__call__(event)

    monkeypatch.setattr("fedslim.federated.simulation.Account", Listening)
    found = []
    for seed in (1, 1, 2):
        lines.append([])
        found.append(simulate([SMALL, SMALL, SMALL], seed=seed))
    one, same, other = found
    assert one.communication == same.communication
    assert one.table == other.table
    assert lines[0] == lines[1] != lines[2]


def test_members_may_have_no_transactions_and_no_items():
    empty = SMALL.take([])
    assert simulate([SMALL, empty]).table == mine(SMALL).table
    nothing = TransactionDatabase.from_transactions([[], []])
    assert len(simulate([nothing, nothing]).table) == 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_one_member_alone_finds_what_mining_finds(variant):
    simulation = simulate([SMALL], variant=variant)
    assert simulation.options.width == (WIDTH if variant == "x" else 1)
    assert simulation.table == mine(SMALL, width=simulation.options.width).table


@pytest.mark.parametrize("width", [1, 3, WIDTH])
def test_x_finds_what_one_place_finds_with_the_same_width(databases, width):
    simulation = simulate(databases, width=width)
    assert simulation.as_dict()["width"] == width
    assert simulation.table == mine(TransactionDatabase.joined(list(databases.values())), width=width).table


def test_x_finds_what_one_place_finds_with_the_same_effort(databases, monkeypatch):
    monkeypatch.setattr("fedslim.mdl.effort.ITERATIONS", 2)
    monkeypatch.setattr("fedslim.mdl.effort.FIRST_ROUNDS", 1)
    monkeypatch.setattr("fedslim.mdl.effort.STARTS", 2)
    simulation = simulate(databases, effort=3, seed=6)
    assert simulation.as_dict()["effort"] == 3
    whole = TransactionDatabase.joined(list(databases.values()))
    assert simulation.table == mine(whole, effort=3, seed=6, threads=1).table


# -- the end ---------------------------------------------------------------------------------------------------------


def check(table: CodeTable, path):
    """The file format checks what a valid code table is."""
    table.save(path)
    assert CodeTable.load(path) == table


def test_out_of_rounds_is_the_best_so_far(databases, simulation, tmp_path):
    short = simulate(databases, max_rounds=40)
    assert (short.ending, short.converged) == ("out of rounds", False)
    assert 40 <= short.communication.rounds <= 42  # the supports of what was found are asked for at the end
    assert 0 < len(short.table) < len(simulation.table)
    assert simulation.table.compression.L_percent < short.table.compression.L_percent < 100
    check(short.table, tmp_path / "table.json")


@pytest.mark.parametrize("rounds", [1, 2, 3, 40])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_handful_of_rounds_is_a_valid_table_too(databases, variant, rounds, tmp_path):
    short = simulate(databases, variant=variant, max_rounds=rounds)
    assert short.table.transactions == 5000
    check(short.table, tmp_path / "table.json")


@pytest.mark.parametrize("variant", VARIANTS)
def test_out_of_time_is_the_best_so_far(databases, variant, tmp_path):
    short = simulate(databases, variant=variant, max_time=1e-9)
    assert short.ending == "out of time"
    check(short.table, tmp_path / "table.json")


@pytest.mark.parametrize("variant", VARIANTS)
def test_whoever_asks_for_the_end_gets_the_best_so_far(databases, variant, tmp_path):
    stop = Stop()
    short = simulate(databases, variant=variant, stop=stop, on_progress=lambda *_: stop.ask())
    assert short.ending == "interrupted"
    check(short.table, tmp_path / "table.json")


# -- figures ---------------------------------------------------------------------------------------------------------


def test_every_figure_has_its_plain_name(simulation):
    record = json.loads(json.dumps(simulation.as_dict(), allow_nan=False))
    promised = {
        *("variant", "members", "bits_total", "bits_data", "bits_model", "L_percent", "L_data_percent", "itemsets"),
        *("candidates", "rounds", "bytes_total", "bytes_up", "bytes_down", "seconds", "converged"),
    }
    assert promised <= record.keys()
    assert record["bytes_total"] == record["bytes_up"] + record["bytes_down"] > 0
    assert record["bytes_total"] == sum(row["bytes"] for row in record["by_kind"])
    assert {row["kind"] for row in record["by_kind"]} >= {
        "Join",
        "Roster",
        "Confirm",
        "Confirmed",
        "Ask",
        "Masked",
        "Finish",
    }
    assert record["bits_total"] == pytest.approx(record["bits_data"] + record["bits_model"])
    assert (record["members"], record["partition"]) == (6, None)
    assert record["sizes"]["Northgate"] == 910


def test_a_partition_is_told_with_labels():
    database = builtin_database()
    record = simulate(divide(database, "support-skew", members=3, min_dominant=4), max_rounds=1).as_dict()
    dealt = record["partition"]
    assert (dealt["scheme"], dealt["seed"], dealt["parameters"]["min_size"]) == ("support-skew", 0, 4)
    assert all(set(itemset) <= set(database.vocabulary) for hand in dealt["dominant"] for itemset in hand)
    assert list(record["sizes"]) == ["member-1", "member-2", "member-3"]


def test_progress_comes_with_what_was_said(databases):
    seen = []
    simulate(
        databases, on_progress=lambda progress, said: seen.append((progress.itemsets, said.rounds, said.bytes_total))
    )
    assert seen
    assert seen == sorted(seen, key=lambda row: row[1:])


# -- parameters ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"variant": "y"}, "there is no variant 'y'; choose one of x, sa, so"),
        ({"masking": 1}, "masking must be True or False, not 1"),
        ({"max_time": 0}, "max_time must be a positive number of seconds or None, not 0"),
        ({"max_time": float("nan")}, "max_time must be a positive number of seconds or None, not nan"),
        ({"max_rounds": 0}, "max_rounds must be a whole number of at least 1 or None, not 0"),
        ({"max_rounds": 2.0}, "max_rounds must be a whole number of at least 1 or None, not 2.0"),
        ({"width": 0}, "width must be a whole number from 1 to 64, not 0; 1 is SLIM as published"),
        ({"width": "8"}, "width must be a whole number from 1 to 64, not '8'; 1 is SLIM as published"),
        (
            {"variant": "so", "width": 2},
            "width is for variant x only; so follows the paper, which tries one candidate in each step; leave it out",
        ),
        ({"effort": 0}, "effort must be a whole number from 1 to 8, not 0"),
        ({"effort": True}, "effort must be a whole number from 1 to 8, not True"),
        (
            {"variant": "sa", "effort": 2},
            "effort is for variant x only; sa follows the paper, which has one greedy search; leave it out",
        ),
        ({"seed": -1}, "seed must be a whole number from 0 to 9223372036854775807, not -1"),
    ],
)
def test_parameters_that_make_no_sense(given, told):
    with pytest.raises(ParameterError) as caught:
        simulate([SMALL], **given)
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("databases", "told"),
    [
        ([], "there are 0 members; a federation has 1 to 4096"),
        ([[["a"]]], "the data of member-1 are of type list; give a TransactionDatabase for each member"),
        ({7: SMALL}, "the name of a member is 7; give a string"),
        ({"": SMALL}, "the name of a member is ''; give a string"),
        (
            {"a": SMALL, "b": TransactionDatabase.from_transactions([["z"]])},
            "a and b have different vocabularies; create their databases together",
        ),
    ],
)
def test_members_that_cannot_be_used(databases, told):
    with pytest.raises(ParameterError) as caught:
        simulate(databases)
    assert str(caught.value).startswith(told)


def test_divide_tells_what_it_cannot_do():
    with pytest.raises(
        ParameterError, match="there is no partition 'even'; choose one of iid, dirichlet, paper-sizes, support-skew"
    ):
        divide(SMALL, "even")
    with pytest.raises(ParameterError, match="too few transactions for 31 members"):
        divide(SMALL, "support-skew", members=31)
    assert divide(SMALL, members=3).sizes == iid(SMALL, 3).sizes
    assert divide(SMALL, "support-skew", members=1, min_dominant=2).scheme == "support-skew"  # mines by itself


def test_members_without_names_are_in_order_as_texts_too():
    """The server sorts members by their names."""
    named = named_databases([SMALL] * 12)
    assert list(named) == sorted(named)
    assert {"member-01", "member-12"} <= named.keys()


def test_the_least_size_of_dominant_itemsets_is_that_asked_for():
    database = load("encounters").take(range(300))
    found = {least: divide(database, "support-skew", members=2, min_dominant=least) for least in (2, 4)}
    for least, partition in found.items():
        assert min(len(itemset) for hand in partition.dominant for itemset in hand) >= least
    assert min(len(itemset) for hand in found[2].dominant for itemset in hand) < 4


def test_a_partition_does_not_depend_on_the_width():
    """Dominant itemsets are those of SLIM as published, as in the paper."""
    database = load("encounters")
    tables = [mine(database, width=width).table for width in (1, WIDTH)]
    how = {"scheme": "support-skew", "members": 2, "min_dominant": 2}
    plain, *others = (divide(database, **how, table=table).dominant for table in (None, *tables))
    assert [dominant == plain for dominant in others] == [True, False]


def test_sums_are_masked_unless_somebody_says_otherwise():
    assert simulate([SMALL] * 2, max_rounds=1).options.masked


def test_the_history_tells_no_exact_bits_where_counts_are_withheld():
    """They depend on the counts, which could be found by trial and error."""
    databases = iid(load("encounters").take(range(300)), 3, seed=0)
    for least in (1, 5):
        steps = simulate(databases, min_count=least, max_rounds=40).history
        exact = [
            step
            for step in steps
            if step.bits_total != float(f"{step.bits_total:.2g}") or step.L_percent != round(step.L_percent)
        ]
        assert len(steps) > 1
        assert bool(exact) == (least == 1)
