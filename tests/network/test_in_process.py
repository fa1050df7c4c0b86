"""A federation in one process: accounting, endings, and what a failing member sends."""

from __future__ import annotations

import zlib
from dataclasses import replace
from itertools import count

import pytest
from federation import skewed

from fedslim.data import TransactionDatabase, builtin_members
from fedslim.errors import DataError, FedslimError, FrameError, ProtocolError, RunError
from fedslim.federated import simulate
from fedslim.mdl import mine
from fedslim.network import in_process as memory
from fedslim.network.in_process import MemoryFederation
from fedslim.protocol import messages as m
from fedslim.protocol.member import MemberSession
from fedslim.protocol.outcome import code_table
from wire import (
    FIGURE,
    VARIANTS,
    Line,
    Recorder,
    databases,
    entropy_of,
    inputs_of,
    of_numbers,
    recorded,
    server_for,
    table_of,
)


@pytest.fixture(scope="module")
def named():
    return of_numbers(skewed(7, 20, 3, 150), 20)


# -- accounting ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_byte_that_passes_is_counted_once(monkeypatch, named, variant):
    passed = []

    def tapped(read):
        def reading(data):
            passed.append(len(data) + 4)
            return read(data)

        return reading

    for name in ("from_member", "from_server"):
        monkeypatch.setattr(memory.framing, name, tapped(getattr(memory.framing, name)))
    _, _, seen = recorded(named, variant)
    frames = seen.frames
    decoded = {(frame.direction, id(frame.data)): frame.sent for frame in frames}  # once for all its receivers
    assert sorted(decoded.values()) == sorted(passed)
    for frame in frames:
        assert frame.sent == len(frame.data) == 4 + int.from_bytes(frame.data[:4], "big")
        assert frame.plain == 4 + len(zlib.decompress(frame.data[4:]))


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_round_is_counted_once(named, variant):
    federation, _, seen = recorded(named, variant)
    numbers = [passed.number for passed in seen.rounds]
    assert numbers == list(range(federation.server.rounds))
    asked = {}
    for frame, message in zip(seen.frames, seen.messages(), strict=True):
        number = getattr(message, "round", None)
        if number is not None:
            asked.setdefault((number, frame.direction), []).append(frame.member)
    for number in numbers:
        assert sorted(asked[number, "down"]) == sorted(asked[number, "up"])
        assert len(set(asked[number, "down"])) == len(asked[number, "down"])
    assert {number for number, _ in asked} == set(numbers)
    everybody = {"x", "sa"}
    if variant in everybody:
        assert all(len(asked[number, "up"]) == len(named) for number in numbers)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_simulation_says_what_was_recorded(named, variant):
    """Kinds, rounds and sizes; names, and so rosters, are the same length."""
    _, outcome, seen = recorded(named, variant)
    simulation = simulate(named, variant=variant)
    said = simulation.communication
    assert simulation.table == table_of(outcome, named)
    assert said.rounds == len(seen.rounds)
    for direction in ("up", "down"):
        own = [frame for frame in seen.frames if frame.direction == direction]
        assert said.total(direction=direction).messages == len(own)
        assert said.total(direction=direction).plain == sum(frame.plain for frame in own)


# -- determinism -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_equal_seeds_are_equal_bytes(named, variant):
    one, same, other = (recorded(named, variant, seed=seed)[1:] for seed in (1, 1, 2))
    assert one[1].events == same[1].events
    assert one[0] == same[0]
    assert one[0].table == other[0].table
    keys = ([f.data for f in seen.frames if f.kind == "Join"] for _, seen in (one, other))
    assert next(keys) != next(keys)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_names_of_members_decide_nothing(named, variant):
    renamed = dict(zip(["zeta", "alpha", "my"], named.values(), strict=True))
    assert recorded(renamed, variant)[1].table == recorded(named, variant)[1].table


@pytest.mark.parametrize("settled", [{}, {"effort": 2}, {"min_count": 5, "min_members_with": 2}], ids=str)
def test_members_that_share_work_send_what_they_send_alone(monkeypatch, named, settled):
    together = recorded(named, "x", **settled)[2].events
    monkeypatch.setattr(MemberSession, "share_work", lambda *_: None)
    assert recorded(named, "x", **settled)[2].events == together


# -- the end ---------------------------------------------------------------------------------------------------------


def check_end(federation, outcome, named, variant, tmp_path):
    """Check that the table is valid, no worse than the standard one, and known to members if the variant allows."""
    table = table_of(outcome, named)
    table.save(tmp_path / "table.json")
    assert type(table).load(tmp_path / "table.json") == table
    assert table.transactions == sum(map(len, named.values()))
    assert table.compression.after.total <= table.compression.before.total
    for member in federation.members.values():
        assert member.received.ending == outcome.ending
        assert (member.received.table == table) == (variant != "so")
    assert federation.server.over
    return table


@pytest.mark.parametrize("variant", VARIANTS)
def test_any_number_of_rounds_is_enough_for_a_table(named, variant, tmp_path):
    _, converged, _ = recorded(named, variant)
    before = float("inf")
    for rounds in (*range(1, 12), 20, 40):
        federation, outcome, _ = recorded(named, variant, max_rounds=rounds)
        table = check_end(federation, outcome, named, variant, tmp_path)
        assert outcome.ending in {"out of rounds", "converged"}
        assert rounds <= federation.server.rounds + 1 if outcome.ending != "converged" else True
        assert federation.server.rounds <= rounds + 3
        assert table.compression.after.total <= before
        before = table.compression.after.total
    assert code_table(converged.table, [str(i) for i in range(20)]).compression.after.total <= before


@pytest.mark.parametrize("seconds", [0.5, 4.5, 33.0])
@pytest.mark.parametrize("variant", VARIANTS)
def test_out_of_time_is_the_best_so_far(named, variant, seconds, tmp_path):
    """With a clock that advances by a second at each look."""
    ticks = count()
    federation, outcome, _ = recorded(named, variant, max_time=seconds, clock=lambda: float(next(ticks)))
    assert outcome.ending == "out of time"
    check_end(federation, outcome, named, variant, tmp_path)
    frozen, converged, _ = recorded(named, variant, max_time=seconds, clock=lambda: 7.0)
    assert converged.ending == "converged"
    check_end(frozen, converged, named, variant, tmp_path)


@pytest.mark.parametrize("after", [1, 2, 5, 8])
@pytest.mark.parametrize("variant", VARIANTS)
def test_whoever_stops_the_server_gets_the_best_so_far(named, variant, after, tmp_path):
    left = count()
    federation, outcome, _ = recorded(
        named, variant, between=lambda server: server.stop() if next(left) + 1 == after else None
    )
    assert outcome.ending == "interrupted"
    check_end(federation, outcome, named, variant, tmp_path)
    assert after <= federation.server.rounds <= after + 3


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_server_that_is_stopped_before_it_began_still_has_the_standard_table(named, variant, tmp_path):
    server = server_for(named, variant)
    server.stop()
    federation = MemoryFederation(server, inputs_of(named, variant), entropy=entropy_of(0))
    outcome = federation.run()
    assert (outcome.ending, outcome.table.itemsets) == ("interrupted", [])
    check_end(federation, outcome, named, variant, tmp_path)


def test_a_run_that_is_not_stopped_converges(named, tmp_path):
    for variant in VARIANTS:
        federation, outcome, _ = recorded(named, variant)
        assert outcome.ending == "converged"
        table = check_end(federation, outcome, named, variant, tmp_path)
        if variant == "x":
            assert table == mine(TransactionDatabase.joined(list(named.values()))).table


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_hospitals_may_be_stopped_at_any_round(variant, tmp_path):
    named = dict(builtin_members())
    for rounds in (1, 3, 10, 30, 100, 300):
        federation, outcome, _ = recorded(named, variant, max_rounds=rounds)
        check_end(federation, outcome, named, variant, tmp_path)


# -- a failing member ------------------------------------------------------------------------------------------------


def failing(inputs, variant="x", server=None, named=None):
    """Run until a member fails; return the trace and the member's error."""
    seen = Recorder()
    named = named or databases(FIGURE)
    federation = MemoryFederation(server or server_for(named, variant), inputs, entropy=entropy_of(0), trace=seen)
    with pytest.raises(FedslimError) as caught:
        federation.run()
    return seen.messages("up", "Abort"), caught.value


def test_a_member_whose_data_do_not_fit_the_vocabulary_says_nothing_at_all():
    """The agreed vocabulary lacks an item of the second member, which notices before it joins."""
    named = databases(FIGURE)
    inputs = inputs_of(named)
    odd = TransactionDatabase.from_transactions([["a", "rare-disease"]])
    inputs["c2"] = replace(inputs["c2"], database=odd)
    seen = Recorder()
    with pytest.raises(DataError, match="rare-disease"):
        MemoryFederation(server_for(named, "x"), inputs, entropy=entropy_of(0), trace=seen)
    assert not seen.frames


def test_a_members_own_error_stays_with_it(monkeypatch):
    def broken(*_):
        msg = "rare-disease is in 5 transactions"
        raise DataError(msg)

    monkeypatch.setattr("fedslim.protocol.x_member.XMembers._supports", broken)
    (abort, *_), error = failing(inputs_of(databases(FIGURE)))
    assert "rare-disease" in str(error)
    assert abort.reason == "it cannot go on; its own log says why"


def test_a_count_that_does_not_fit_is_wrong_in_the_sum_and_refused_by_nobody(monkeypatch):
    """A run for at most 10 transactions has members with more: their counts wrap around."""
    monkeypatch.setattr("fedslim.protocol.member.MemberInput.__post_init__", lambda _: None)
    named = databases(FIGURE)
    seen = Recorder()
    server = server_for(named, "x", most=3)
    federation = MemoryFederation(server, inputs_of(named, most=3), entropy=entropy_of(0), trace=seen)
    with pytest.raises(RunError, match="the round cannot be used"):
        federation.run()
    assert not seen.messages("up", "Abort")
    assert len(seen.messages("up", "Masked")) == len(named)


def test_what_a_member_says_of_the_servers_messages_is_told():
    inputs = inputs_of(databases(FIGURE), "sa")
    (abort,), error = failing(inputs)
    assert isinstance(error, ProtocolError)
    assert abort.reason.startswith("the server announced variant = 'x', and this member agreed to 'sa'")


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_refusal_of_a_question_says_what_a_member_has(variant):
    """Reasons that are sent contain no labels or counts of the member, only what the server sent itself."""
    bad = {
        "x": [
            m.Ask(1, 0, [m.RemoveElement(77)], [m.WantRows([0], b"\x08")]),
            m.Ask(1, 0, [], [m.WantRows([77], b"\x08")]),
            m.Ask(1, 0, [], [m.WantUnionSupport((77, 78), 40)]),
            m.Ask(1, 0, [], [m.WantInsertions([m.NewUnion(5, (0, 77), 79, True)], [], 9, 0)]),
            m.Ask(1, 0, [], [m.WantInsertions([m.NewUnion(5, (0, 1), 79, False)], [77], 9, 0)]),
            m.Ask(
                1,
                0,
                [],
                [m.WantEntries(m.Vector(1, 8, b"\x4d"), m.Vector(1, 8, b"\x01"), b"\x01", b"\x04")],
            ),
        ],
        "sa": [
            m.AskStructure(1, m.Entered(77, [(77, 78)], 79), m.Vector(0, 8, b"")),
            m.AskEvaluation(1, 0, m.Entered(5, [(0, 1), (0, 2), (1, 3)], 7), 40),
        ],
        "so": [m.Evaluate(1, [(0, 1), (0, 2), (1, 3)]), m.AskCandidates(1, m.Accept([(77, 78)]))],
    }[variant]
    for message in bad:
        line = Line(databases(FIGURE), variant).begin()
        while not line.members["c1"].position:
            line.step()
        with pytest.raises(ProtocolError) as refused:
            line.members["c1"].receive(message)
        said = str(refused.value)
        digits = set("".join(c if c.isdigit() else " " for c in said).split())
        assert digits <= {
            "77",
            "78",
            "79",
            "4",
            "5",
            "6",
        }  # from the question, and the number of elements, which all know


def test_a_run_of_which_nothing_comes_says_who_is_missing():
    named = databases(FIGURE)
    inputs = {"c1": inputs_of(named)["c1"]}
    with pytest.raises(RunError, match=r"no answer from .*c2"):
        MemoryFederation(server_for(named, "x"), inputs, entropy=entropy_of(0)).run()


def test_an_answer_that_is_too_large_is_an_error_of_the_member(monkeypatch):
    monkeypatch.setattr(memory.framing, "MAX_FRAME", 100)
    with pytest.raises(FrameError, match="The data are too wide for one message"):
        recorded(databases(FIGURE), "x")
