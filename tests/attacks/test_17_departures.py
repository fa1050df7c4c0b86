"""A server that makes members leave a federation, keeps those that left, or subtracts what they had counted."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from fedslim.data import ItemSecret
from fedslim.data.frames import dataframe_table
from fedslim.errors import LedgerError, ProtocolError, UntrustedError
from fedslim.protocol import messages as m
from fedslim.protocol.member import MemberInput, MemberSession
from fedslim.protocol.preparation import MAX_ROUNDS, Outline
from fedslim.protocol.prepare import FIRST_SKETCH, Site
from fedslim.protocol.roster import Unsigned
from fedslim.protocol.sums import add_up
from fedslim.safeguards.guard import Guard
from fedslim.schema import Schema, conform
from fedslim.secagg.id_sketch import IdSketch
from fedslim.settings.federation_file import write_template
from fedslim.settings.policy import MemberPolicy

SECRET = ItemSecret.from_random(bytes(32))
SCHEMA = Schema.of({"columns": {"c": {"kind": "categorical"}}})
ROWS = {"a": "uv", "b": "uv", "c": "uvuvw", "d": "vx"}
SETTINGS = m.Settings(
    "prepare", True, 1 << 20, max_rounds=MAX_ROUNDS, schema=SCHEMA.digest(), outline=str(Outline.of(SCHEMA))
)
RUN = b"one run for ever"


def site(name):
    return conform(SCHEMA, dataframe_table(pd.DataFrame({"c": list(ROWS[name])})))


def flags(values):
    return m.Vector.of(np.array(values, np.int64))


class LyingServer:
    """Prepares with real sessions of members, up to the sum of the sketches, and then says what it likes."""

    def __init__(self, min_overlap, entropy=1):
        names = tuple(ROWS)
        self.sessions = {
            name: MemberSession(
                name, MemberInput.preparing(Site(SCHEMA, site(name), SECRET, min_overlap), names, SETTINGS, Unsigned())
            )
            for name in names
        }
        joins = [one.join(bytes([entropy, k] * 16)) for k, one in enumerate(self.sessions.values())]
        roster = m.Roster(RUN, SETTINGS, list(names), [one.key for one in joins], b"", 0, [b""] * len(names), 0)
        signatures = [one.receive(roster).signature for one in self.sessions.values()]
        question = m.AskPreparation(0, 0, flags([]), m.WantItems(flags([]), FIRST_SKETCH))
        for one in self.sessions.values():
            one.receive(m.Confirmed(0, signatures))
        replies = {name: one.receive(question) for name, one in self.sessions.items()}
        sketch = IdSketch.for_entries(FIRST_SKETCH)
        self.found = sketch.read(add_up(replies, sketch.words))
        self.honest = [members > 1 for members in self.found.values()]

    def ready(self, name, shared):
        question = m.AskPreparation(1, 0, flags([]), m.WantReady(b"".join(self.found), flags(shared)))
        return self.sessions[name].receive(question)

    def finish(self, name, **left):
        self.sessions[name].receive(m.Finish("converged", None, (), [m.Departure(*one) for one in left.items()]))


def test_a_member_that_was_told_other_flags_than_the_others_cannot_be_left_out():
    """Its signature is real, but it signed what it was told. Otherwise the server could choose who leaves."""
    server = LyingServer(min_overlap=0.5)
    assert not any(server.ready(name, server.honest).leaves for name in "abc")
    left = server.ready("d", [False] * len(server.honest))
    assert left.leaves
    for name in "abc":
        with pytest.raises(UntrustedError, match="'d'"):
            server.finish(name, d=left.signature)


def test_a_departure_holds_for_one_preparation_even_if_run_and_data_are_the_same():
    before = LyingServer(min_overlap=0.7, entropy=1)
    old = before.ready("d", before.honest)
    assert old.leaves
    now = LyingServer(min_overlap=0.5, entropy=2)  # d has changed its policy, and stays
    assert not any(now.ready(name, now.honest).leaves for name in "abcd")
    with pytest.raises(UntrustedError, match="'d'"):
        now.finish("a", d=old.signature)


def test_a_member_that_left_does_not_go_on_if_the_server_passes_over_it():
    server = LyingServer(min_overlap=0.7)
    left = {name: server.ready(name, server.honest) for name in "abcd"}
    assert [name for name, one in left.items() if one.leaves] == ["d"]
    with pytest.raises(ProtocolError, match="had not left"):
        server.finish("d")
    server.finish("a", d=left["d"].signature)
    assert list(server.sessions["a"].received.preparation.left) == ["d"]


# -- a member's own side ---------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    chosen = {
        "items.secret_fingerprint": SECRET.fingerprint,
        "schema.digest": SCHEMA.digest().hex(),
        "schema.outline": str(Outline.of(SCHEMA)),
        "schema.on_departure": "continue",
    }
    return write_template(tmp_path / "federation.toml", "attacked", tuple(ROWS), "x", chosen=chosen)


def guard_of(folder, file):
    guard = Guard(MemberPolicy.find(folder), file, now=lambda: datetime(2026, 11, 18, tzinfo=UTC))
    guard.admit(site("a"))
    return guard


def test_a_departure_does_not_permit_the_difference_to_an_earlier_search(tmp_path, file):
    """The file permits a search without d after a preparation with d: but the result of a, b, c, d is known already."""
    guard = guard_of(tmp_path, file)
    guard.answering(b"preparation 1", preparing=True)
    guard.answering(b"search 1")
    again = guard_of(tmp_path, file)
    again.answering(b"preparation 2", preparing=True)
    with pytest.raises(LedgerError, match="'d' alone"):
        again.without(file.without(["d"])).admit(site("a"))


def test_departures_do_not_add_up(tmp_path, file):
    """After a search of a, b, c none of a, b, d is answered, nor one of all four."""
    guard = guard_of(tmp_path, file)
    guard.answering(b"preparation 1", preparing=True)
    smaller = guard.without(file.without(["d"]))
    smaller.admit(site("a"))
    smaller.answering(b"search 1")
    with pytest.raises(LedgerError, match="'d' alone"):
        guard_of(tmp_path, file)
    again = guard.without(file.without(["c"]))
    with pytest.raises(LedgerError, match="minus those of"):
        again.admit(site("a"))
    assert not guard.ledger.entries().allowed
