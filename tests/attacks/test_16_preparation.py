"""A server that uses preparations to count values of its choice, or leaves a member out of the search."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime
from types import SimpleNamespace

import msgspec
import numpy as np
import pandas as pd
import pytest

from fedslim.data import ItemSecret
from fedslim.data.frames import dataframe_table
from fedslim.errors import DataError, LedgerError, PolicyError, ProtocolError, RunError
from fedslim.federated.deployment import DeployedMember
from fedslim.federated.folder import find_preparation, keep_preparation
from fedslim.protocol import messages as m
from fedslim.protocol.member import MemberInput, MemberSession
from fedslim.protocol.preparation import Outline, Preparation
from fedslim.protocol.prepare import PrepareMember, Site
from fedslim.protocol.roster import Unsigned
from fedslim.safeguards.guard import Guard
from fedslim.safeguards.ledger import MAX_PREPARATIONS, AnswerLedger, Snapshot
from fedslim.schema import Agreed, Schema, conform
from fedslim.settings.federation_file import write_template
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
        for resumed in (False, True):  # a member that comes back with its journal answers nothing else
            ledger.record(file, snapshot, bytes([number] * 16), now=NOW, preparing=True, resumed=resumed)
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


def test_a_server_that_uses_the_id_of_a_run_again_prepares_no_more_often(tmp_path, file):
    """The server chooses the id, for the search as well; so it does not tell whether a member was asked before."""
    for _ in range(MAX_PREPARATIONS):
        guard = Guard(MemberPolicy.find(tmp_path), file)  # a new run folder, as each week
        guard.admit(site())
        guard.answering(bytes(16), preparing=True)
        guard.answering(bytes(16))
    (found,) = guard.ledger.entries().answers
    assert (found.runs, found.preparations) == (2 * MAX_PREPARATIONS, MAX_PREPARATIONS)
    guard = Guard(MemberPolicy.find(tmp_path), file)
    guard.admit(site())
    with pytest.raises(LedgerError, match="--preparation"):
        guard.answering(bytes(16), preparing=True)


@pytest.mark.parametrize(
    ("statistics", "ids"),
    [
        ([["41.7", "41.8"]], [b"a" * 16]),  # cuts around one patient
        ([["40.0", "45.0", "50.0"]], [b"a" * 16]),  # more than the schema has
        ([["50.0", "40.0"]], [b"a" * 16]),
        ([["1.2.3"]], [b"a" * 16]),
        ([], [b"a" * 16]),
        ([["40.0", "45.0"], ["5.0"]], [b"a" * 16]),
        ([["40.0"]], [b"b" * 16, b"a" * 16]),
        ([["40.0"]], [b"a" * 16, b"a" * 16]),
    ],
)
def test_a_kept_preparation_cannot_have_cuts_that_no_preparation_finds(tmp_path, file, statistics, ids):
    """Somebody sends all members a file to start from; otherwise its cuts would be thresholds of their choice."""
    made = Preparation(run=bytes(16), schema=SCHEMA.digest(), statistics=[["40.0", "45.0"]], kept=[], ids=[b"a" * 16])
    keep_preparation(made, file, tmp_path)
    assert find_preparation(None, file, tmp_path).statistics == made.statistics
    keep_preparation(msgspec.structs.replace(made, statistics=statistics, ids=ids), file, tmp_path)
    with pytest.raises(DataError, match=r"preparation\.json is not a usable preparation"):
        find_preparation(None, file, tmp_path)


def test_a_member_does_not_stop_because_the_server_leaves_out_one_of_its_items(tmp_path):
    """Who stops has the item. With new = "error" only data that came after the preparation are an error."""
    schema = Schema.of({"table": {"new": "error"}, "columns": {"c": {"kind": "categorical"}}})
    made = Preparation(run=bytes(16), schema=schema.digest(), statistics=[], kept=[], ids=[SECRET.id_of("c=u")])
    has, lacks = (conform(schema, dataframe_table(pd.DataFrame({"c": list(text)}))) for text in ("uux", "uuu"))
    assert list(made.database(schema, lacks, SECRET)) == [("c=u",)] * 3
    assert [len(row) for row in made.database(schema, has, SECRET)] == [1, 1, 0]
    with pytest.raises(DataError, match="'c=x' is new since the preparation"):
        made.database(schema, has, SECRET, strict=True)
    chosen = {"schema.digest": schema.digest().hex(), "schema.outline": ""}
    chosen["items.secret_fingerprint"] = SECRET.fingerprint
    file = write_template(tmp_path / "federation.toml", "attacked", MEMBERS, "x", chosen=chosen)
    identity = SimpleNamespace(name="a", certificate_der=b"", sign=None)
    mine = (file, identity, Site(schema, has, SECRET), SECRET, None, tmp_path)
    with pytest.raises(DataError, match="'c=x' is new since the preparation"):
        DeployedMember(*mine, audit=None, kept=made)  # given by the operator
    keep_preparation(made, file, tmp_path)
    assert DeployedMember(*mine, audit=None, kept=made).transactions == 3  # it was killed in the run that found it


def test_a_question_cannot_fill_the_memory_of_a_member():
    """A frame of a few kB unpacks to 64 MB, which must not become a list of 64 million numbers."""
    outline = str(Outline.of(SCHEMA))
    member = PrepareMember(Site(SCHEMA, site(), SECRET), m.Settings("prepare", True, 1 << 20, outline=outline), 3)
    huge = m.Vector(1 << 26, 8, bytes(1 << 26))
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="67108864 numbers"):
            member.answer(m.AskPreparation(0, 0, huge, m.WantValues()))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


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
    guard.without(smaller)
    with pytest.raises(PolicyError, match="min_members"):
        guard.without(file.without(["c", "d"]))
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
