"""A server that uses preparations to count values of its choice, or leaves a member out of the search."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from fedslim.data import ItemSecret
from fedslim.data.frames import dataframe_table
from fedslim.errors import LedgerError, PolicyError, ProtocolError, RunError
from fedslim.protocol import messages as m
from fedslim.protocol.member import MemberInput, MemberSession
from fedslim.protocol.preparation import Outline
from fedslim.protocol.prepare import Site
from fedslim.protocol.roster import Unsigned
from fedslim.safeguards.guard import Guard
from fedslim.safeguards.ledger import MAX_PREPARATIONS, AnswerLedger, Snapshot
from fedslim.schema import Agreed, Schema, conform
from fedslim.settings.new_federation import write_template
from fedslim.settings.policy import MemberPolicy

SECRET = ItemSecret.from_random(bytes(32))
SCHEMA = Schema.of({"columns": {"age": {"kind": "numeric", "bins": 3, "resolution": 5}}})
MEMBERS = ("a", "b", "c", "d")
NOW = datetime(2026, 11, 18, tzinfo=UTC)


def site(seed=0):
    return conform(SCHEMA, dataframe_table(pd.DataFrame({"age": np.random.default_rng(seed).integers(20, 90, 50)})))


@pytest.fixture
def file(tmp_path, request):
    chosen = {
        "items.secret_fingerprint": SECRET.fingerprint,
        "schema.digest": SCHEMA.digest().hex(),
        "schema.outline": str(Outline.of(SCHEMA)),
        "schema.on_departure": getattr(request, "param", "continue"),
    }
    return write_template(tmp_path / "federation.toml", "attacked", MEMBERS, "x", chosen=chosen)


def test_a_member_prepares_only_a_few_times_on_the_same_data(tmp_path, file):
    """In each preparation the server may zoom into other values; with enough of them it has the whole distribution."""
    ledger, snapshot = AnswerLedger(tmp_path / "ledger.json"), Snapshot.of(site())
    for number in range(MAX_PREPARATIONS):
        ledger.record(file, snapshot, bytes([number] * 16), now=NOW, preparing=True)
        ledger.record(file, snapshot, bytes([number] * 16), now=NOW, preparing=True)  # it came back: the same run
    with pytest.raises(LedgerError, match="--preparation"):
        ledger.record(file, snapshot, b"\xff" * 16, now=NOW, preparing=True)
    with pytest.raises(LedgerError, match="--preparation"):  # it is told before it connects
        ledger.check(file, snapshot, preparing=True)
    assert ledger.check(file, snapshot) == []
    ledger.record(file, snapshot, b"\xfe" * 16, now=NOW)  # a search from a kept preparation is no further one
    ledger.record(file, Snapshot.of(site(1)), b"\xfd" * 16, now=NOW, preparing=True)  # other data
    ledger.allow(file, "all members agreed", now=NOW)
    ledger.check(file, snapshot, preparing=True)
    ledger.record(file, snapshot, b"\xff" * 16, now=NOW, preparing=True)


def test_other_cuts_do_not_make_other_data():
    """Otherwise a server that announces other cuts would evade the ledger."""
    first, second = site(), site()
    assert Snapshot.of(first) == Snapshot.of(second)
    cut = [first.items(Agreed({"age": cuts})) for cuts in ((40.0,), (60.0,))]
    assert Snapshot.of(cut[0]) != Snapshot.of(cut[1])


def test_a_roster_without_a_member_is_refused_unless_that_member_has_left(file):
    database = site().items(Agreed({"age": (50.0,)}))
    session = MemberSession("a", MemberInput(database, MEMBERS, file.settings(b"digest"), SECRET))
    key = session.join(bytes(32)).key
    roster = m.Roster(bytes(16), file.settings(b"digest"), ["a", "b", "c"], [key] * 3, b"", 0, [b""] * 3, 0)
    with pytest.raises(ProtocolError, match="this member agreed to 'a', 'b', 'c', 'd'"):
        session.receive(roster)


def test_those_that_stay_must_be_enough_for_the_policy(tmp_path, file):
    smaller = file.without(["d"])
    assert smaller.federation.members == ("a", "b", "c")
    assert smaller.digest() != file.digest()
    guard = Guard(MemberPolicy.find(tmp_path), file)
    guard.without(smaller, "d left")
    assert AnswerLedger(tmp_path / "ledger.json").is_allowed(smaller)
    with pytest.raises(PolicyError, match="min_members"):
        guard.without(file.without(["c", "d"]), "c and d left")
    with pytest.raises(RunError, match="too few"):
        file.without(["b", "c", "d"])


@pytest.mark.parametrize("file", ["stop"], indirect=True)
def test_by_default_the_others_stop(file):
    with pytest.raises(RunError, match="'d' left after the preparation"):
        file.without(["d"])


def test_a_server_that_claims_that_a_member_left_needs_its_signature(file):
    own = MemberInput.preparing(Site(SCHEMA, site(), SECRET), MEMBERS, file.preparing(), Unsigned())
    session = MemberSession("a", own)
    session.join(bytes(32))
    with pytest.raises(ProtocolError, match="Finish while this member was waiting for the roster"):
        session.receive(m.Finish("converged", None, (), [m.Departure("d", b"forged")]))
