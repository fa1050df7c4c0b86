"""How many questions a session answers, and which tables it accepts at the end."""

from __future__ import annotations

import pytest
from one_member import FIRST, NONE, confirmed, replaced, seated

from fedslim.errors import ProtocolError
from fedslim.protocol import messages as m
from fedslim.protocol.state import SessionState
from fedslim.protocol.wire_types import MAX_COUNT
from wire import FIGURE, VARIANTS, Line, databases, table_of, vector


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_question_that_makes_no_sense_ends_the_session(variant):
    """Part of it may have been carried out, so the session cannot continue."""
    member, roster = seated(variant)
    confirmed(member, roster).receive(FIRST[variant])
    bad = {
        "x": m.Ask(1, 0, [m.InsertUnion(5, (0, 1), 7)], [m.WantRows([99], b"\x08")]),
        "sa": m.AskStructure(1, m.Entered(99, [(0, 1)], 7), NONE),
        "so": m.AskCandidates(1, m.Accept([(0, 99)])),
    }[variant]
    with pytest.raises(ProtocolError, match="refused"):
        member.receive(bad)
    assert member.state is SessionState.FINISHED
    assert member.received is None
    with pytest.raises(ProtocolError, match="while this member was finished"):
        member.receive(bad)


ANY = {
    "x": lambda number: m.Ask(number, 0, [], [m.WantRows([0], b"\x08")]),
    "sa": lambda number: m.AskStructure(number, None, NONE),
    "so": lambda number: m.AskCandidates(number, None),
}
AT_THE_END = {
    "x": lambda number: m.Ask(number, 0, [], [m.WantFinal(40)]),
    "sa": lambda number: m.AskIndexedSupports(number, 0, None, NONE, 40),
    "so": lambda number: m.AskSupports(number, None),
}


@pytest.mark.parametrize("limit", [1, 3, 20])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_member_answers_so_many_rounds_and_then_only_what_ends_the_run(variant, limit):
    member, roster = seated(variant, max_rounds=limit)
    confirmed(member, roster).receive(FIRST[variant])
    most = limit + m.ROUNDS_TO_FINISH
    for number in range(1, most):
        assert member.receive(ANY[variant](number)) is not None
    with pytest.raises(ProtocolError, match=f"another question after {most} rounds; {limit} were agreed on"):
        member.receive(ANY[variant](most))
    assert member.receive(AT_THE_END[variant](most)) is not None
    with pytest.raises(ProtocolError, match="refused"):
        member.receive(ANY[variant](most + 1))


@pytest.mark.parametrize("variant", VARIANTS)
def test_rounds_that_nobody_limited_are_not_counted(variant):
    member, roster = seated(variant)
    confirmed(member, roster).receive(FIRST[variant])
    for number in range(1, 300):
        assert member.receive(ANY[variant](number)) is not None


NOT_OURS = "not the table that this member covers with"
NO_ITEMSET = "not items of the vocabulary in ascending order"


@pytest.mark.parametrize(
    ("variant", "change", "told"),
    [
        *(
            (variant, change, told)
            for variant in ("x", "sa")
            for change, told in (
                (lambda _: {"usages": vector([1])}, "usages of 1 items and supports of 5, but the vocabulary has 5"),
                (lambda _: {"supports": vector([1] * 6)}, "supports of 6, but the vocabulary has 5"),
                (lambda _: {"usages": m.Vector(5, 8, b"")}, "a vector announces 5 numbers"),
                (lambda _: {"transactions": 3}, "do not agree"),
                (lambda _: {"usages": vector([MAX_COUNT] * 5)}, "do not agree"),
                (lambda t: {"supports": vector(t.supports.values() + 1)}, "do not agree"),
                (lambda t: {"itemsets": [replaced(t.itemsets[0], usage=0), *t.itemsets[1:]]}, "do not agree"),
                (lambda t: {"itemsets": [replaced(t.itemsets[0], usage=10), *t.itemsets[1:]]}, "do not agree"),
            )
        ),
        *(
            ("x", change, NOT_OURS)
            for change in (
                lambda _: {"itemsets": []},
                lambda t: {"itemsets": t.itemsets[1:]},
                lambda t: {"itemsets": t.itemsets[::-1]},
                lambda t: {"itemsets": [*t.itemsets, m.PackedElement([0, 1], 0, 0, 0)]},
                lambda t: {"itemsets": [*t.itemsets, t.itemsets[0]]},
                lambda t: {"itemsets": [replaced(t.itemsets[0], entry=3), *t.itemsets[1:]]},
                lambda t: {"itemsets": [replaced(t.itemsets[0], items=[0, 2]), *t.itemsets[1:]]},
            )
        ),
        ("x", lambda _: {"min_count": 2}, r"another min_count \(2\)"),
        *(
            ("sa", change, told)
            for change, told in (
                (lambda _: {"itemsets": [m.PackedElement([0, 5], 1, 1, 1)]}, NO_ITEMSET),
                (lambda _: {"itemsets": [m.PackedElement([1, 0], 1, 1, 1)]}, NO_ITEMSET),
                (lambda _: {"itemsets": [m.PackedElement([1, 1], 1, 1, 1)]}, NO_ITEMSET),
                (lambda _: {"itemsets": [m.PackedElement([1], 1, 1, 1)]}, NO_ITEMSET),
                (lambda _: {"itemsets": []}, "usages and supports of the table do not agree"),
                (lambda t: {"itemsets": [*t.itemsets, m.PackedElement([0, 1], 0, 0, 0)]}, "do not agree"),
                (lambda t: {"itemsets": [*t.itemsets, t.itemsets[0]]}, "do not agree"),
                (lambda _: {"min_count": 3}, "a count below its own min_count 3"),
                (lambda _: {"min_count": 2, "other": 1}, "a count below its own min_count 2"),
            )
        ),
    ],
)
def test_a_member_takes_no_table_that_is_none(variant, change, told):
    inputs = databases(FIGURE)
    honest = Line(inputs, variant).begin().run().table

    def down(_name, message):
        if isinstance(message, m.Finish):
            return m.Finish("converged", replaced(honest, **change(honest)), (), [])
        return message

    with pytest.raises(ProtocolError, match=told):
        Line(inputs, variant).begin().run(down=down)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_server_may_end_a_run_at_any_time(variant):
    member, roster = seated(variant)
    assert confirmed(member, roster).receive(m.Finish("interrupted", None, (), [])) is None
    assert member.received.ending == "interrupted"
    assert (member.received.table is None) == (variant != "so")  # in SO it has its own


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_server_may_give_up_at_any_time_and_end_only_what_has_begun(variant):
    for steps in range(3):
        member, roster = seated(variant)
        confirm = member.receive(roster) if steps else None
        if steps == 2:
            member.receive(m.Confirmed(0, [confirm.signature] * 2))
        else:
            with pytest.raises(ProtocolError, match="sent Finish while this member was"):
                member.receive(m.Finish("converged", None, (), []))
        assert member.receive(m.Abort("no more")) is None
        assert (member.state, member.received.ending) == (SessionState.FINISHED, "ended by the server: no more")


def test_an_honest_server_is_not_refused():
    inputs = databases(FIGURE)
    line = Line(inputs, "x").begin()
    assert line.members["c1"].received is None
    table = table_of(line.run(), inputs)
    assert line.members["c1"].received.table == table
