"""Attack 3: the difference of two results.

Attacker: the server, or any member that keeps its results. The result of a run with a, b, c, d less that of a run with
a, b, c is d's exact supports and size; with one patient added between two runs, the difference is that patient.

Before: members answered any roster that matched the file, any number of times. No protocol can prevent subtracting
published sums, so each member now records with which members it has answered on which data, and refuses a set that
differs by one. If the data have changed, it warns.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import numpy as np
import pytest

from fedslim.data import TransactionDatabase, load
from fedslim.data.partition import iid
from fedslim.data.vocabulary import ItemSecret, Vocabulary
from fedslim.errors import LedgerError
from fedslim.federated import simulate
from fedslim.federated.deployment import DeployedMember
from fedslim.federated.loopback import HOST, Loopback
from fedslim.federated.simulation import prepare
from fedslim.safeguards.guard import Guard
from fedslim.safeguards.ledger import Snapshot
from fedslim.settings.federation_file import FederationFile, write_template
from fedslim.settings.policy import MemberPolicy
from fedslim.trust.identity import Identity

FOUR, THREE = ("a", "b", "c", "d"), ("a", "b", "c")
PATIENCE = 120.0


@pytest.fixture(scope="module")
def inputs():
    prepare("x")
    return dict(zip(FOUR, iid(load("encounters").take(range(800)), 4, seed=0).parts, strict=True))


def test_the_difference_of_two_results_is_one_members_counts(inputs):
    four = simulate(inputs).table
    three = simulate({name: inputs[name] for name in THREE}).table
    assert np.array_equal(np.array(four.supports) - np.array(three.supports), inputs["d"].supports)
    assert four.transactions - three.transactions == len(inputs["d"])


def added(inputs, patient):
    """Return the same members, with one more transaction at a."""
    rows = [*inputs["a"], patient]
    return inputs | {"a": TransactionDatabase.from_transactions(rows, vocabulary=inputs["a"].vocabulary)}


def test_the_difference_of_two_results_is_one_patient_and_that_is_warned_of(inputs, tmp_path):
    patient = inputs["b"].transaction(0)
    before, after = simulate(inputs).table, simulate(added(inputs, patient)).table
    changed = np.flatnonzero(np.array(after.supports) - np.array(before.supports))
    assert {after.vocabulary[item] for item in changed} == set(patient)

    chosen = {"items.vocabulary_digest": "0" * 64}
    file = write_template(tmp_path / "f.toml", "study", FOUR, chosen=chosen)
    guard = Guard(MemberPolicy.find(tmp_path), file)
    assert guard.admit(inputs["a"]) == []
    guard.answering(bytes(16))
    (warning,) = guard.admit(added(inputs, patient)["a"])
    assert "(200 transactions on " in warning
    assert ", 201 now): subtracting the two results" in warning


# -- real processes ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def answered(inputs, tmp_path_factory):
    """Four members that have completed a run as processes over TLS, and the file of the federation without d."""
    four = Loopback.make(tmp_path_factory.mktemp("four"), inputs)
    four.run()
    agreed = FederationFile.read(four.file)
    four.file.rename(four.folder / "four.toml")
    for who in ("server", *FOUR):
        four.out(who).rename(four.folder / f"before-{who}")  # a folder has one run
    three = Loopback(four.folder, {name: inputs[name] for name in THREE}, four.port)
    chosen = {f"items.{key}": getattr(agreed.items, key) for key in ("vocabulary_digest", "secret_fingerprint")}
    chosen |= {"limits.min_count": 1, "limits.min_members_with": 1, "federation.id": agreed.federation.id}
    write_template(three.file, "loopback", THREE, host=HOST, port=four.port, chosen=chosen)
    yield three
    three.close()


def identity_of(loopback, name):
    return Identity.load(loopback.folder / "trust" / name)


@pytest.mark.parametrize("name", ["a", *(pytest.param(name, marks=pytest.mark.slow) for name in THREE[1:])])
def test_every_member_refuses_the_second_set_before_it_connects(answered, name):
    process = answered.start_member(name)
    assert process.wait(PATIENCE) == 2  # which the unit does not start again
    said = answered.said(name).splitlines()[-1]
    assert "this member answered 'a', 'b', 'c', 'd' on the same data" in said
    assert "reveal the counts of 'd' alone" in said
    assert f"`fedslim ledger allow {answered.file} --identity {answered.folder / 'trust' / name}`" in said


def test_so_does_a_member_in_a_program_of_its_own(answered, inputs, tmp_path):
    file = FederationFile.read(answered.file)
    secret = ItemSecret.read(answered.folder / "secret.txt")
    vocabulary = Vocabulary.read(answered.folder / "vocabulary.json")
    own = identity_of(answered, "a")
    guard = Guard(MemberPolicy.find(answered.folder / "trust" / "a"), file)
    with pytest.raises(LedgerError, match="the counts of 'd' alone"):
        DeployedMember(file, own, inputs["a"], secret, vocabulary, tmp_path, audit=None, guard=guard)


def test_another_order_of_the_rows_is_no_way_around_it(inputs):
    rows = list(inputs["a"])
    turned = TransactionDatabase.from_transactions(rows[::-1], vocabulary=sorted(inputs["a"].vocabulary))
    assert Snapshot.of(turned) == Snapshot.of(inputs["a"])


@pytest.mark.slow  # tests/cli/test_ledger.py has the commands
def test_what_was_answered_can_be_read_and_an_operator_can_allow_more(answered, inputs):
    """Runs last because it changes the ledgers: then the three may mine together, and the reason is recorded."""

    def fedslim(*arguments):
        command = [sys.executable, "-m", "fedslim", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    trust = answered.folder / "trust"
    assert "a, b, c, d" in fedslim("ledger", "show", "--identity", trust / "b")
    for name in THREE:
        fedslim("ledger", "allow", answered.file, "--identity", trust / name, "--reason", "d agrees")
    result = answered.run()
    assert result.table == simulate({name: inputs[name] for name in THREE}).table
    said = fedslim("ledger", "show", "--identity", trust / "b")
    assert f"a, b, c, on {datetime.now(UTC):%Y-%m-%d}" in said
    assert "d agrees" in said
    assert "together reveal the counts of 'd' alone" in said
