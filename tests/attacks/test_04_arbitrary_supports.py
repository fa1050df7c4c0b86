"""Attack 4, high, by the server: legal questions yield whole records.

Supports of arbitrary itemsets could be asked for: 416 rounds over 4 x 100 transactions gave 107 complete, true records.
Members enforced neither `max_itemset_size` nor `max_rounds`.
"""

from __future__ import annotations

import msgspec
import pytest

from fedslim.errors import ProtocolError
from fedslim.protocol import messages as m
from fedslim.protocol.messages import ROUNDS_TO_FINISH, Want
from wire import Line, of_numbers, sprinkled

ITEMS = 12


def four_members(**settled):
    """Four members that have confirmed the roster and sent their supports, and a server that may send anything."""
    line = Line(of_numbers(sprinkled(3, ITEMS, 4, 400, noise=0.15), ITEMS), "x", **settled).begin()
    while not any(isinstance(message, m.Masked) for _, message in line.said):
        line.step(down=lambda _, message: message)
        if len(line.queue) == 4 and all(isinstance(message, m.Masked) for _, message in line.queue):
            break
    return line.members


def ask(members, number, *wants, moves=()):
    return [member.receive(m.Ask(number, 0, list(moves), list(wants))) for member in members.values()]


def tried(slot, parents, *, keep=True):
    return m.WantInsertions([m.NewUnion(slot, parents, 5, keep)], [], 9, 0)


def test_no_message_can_name_an_itemset():
    """Messages can refer only to elements of the code table, by slot, and to unions of two of them."""
    for kind in (*Want.__args__, m.NewUnion):
        assert not {"items", "itemsets", "itemset"} & set(kind.__struct_fields__)


def test_the_support_of_a_union_is_told_only_where_it_was_agreed_that_supports_decide():
    members = four_members()
    with pytest.raises(ProtocolError, match="support of a candidate"):
        ask(members, 1, m.WantUnionSupport((0, 1), 40))
    assert len(ask(four_members(min_support=2), 1, m.WantUnionSupport((0, 1), 40))) == 4


def test_supports_of_the_table_are_told_once_and_end_the_search():
    members = four_members()
    ask(members, 1, m.WantFinal(40))
    for number, (wants, moves) in enumerate(
        [
            ([m.WantRows([0], b"\x08")], ()),
            ([tried(ITEMS, (0, 1))], ()),
            ([m.WantFinal(40)], [m.InsertUnion(ITEMS, (0, 1), 5)]),
            ([m.WantSupports()], ()),
        ],
        2,
    ):
        member = next(iter(four_members().values()))
        member.receive(m.Ask(1, 0, [], [m.WantFinal(40)]))
        with pytest.raises(ProtocolError, match="after the search"):
            member.receive(m.Ask(number, 0, list(moves), list(wants)))


def test_an_itemset_longer_than_agreed_is_not_tried():
    members = four_members(max_itemset_size=2)
    ask(members, 1, tried(ITEMS, (0, 1)))
    with pytest.raises(ProtocolError, match="2 were agreed on"):
        ask(members, 2, tried(ITEMS + 1, (ITEMS, 2), keep=False))


def test_a_member_counts_the_rounds_itself():
    members = four_members(max_rounds=5)
    member = next(iter(members.values()))
    questions = [m.Ask(number, 0, [], [m.WantRows([0], b"\x08")]) for number in range(1, 100)]
    for question in questions[: 5 + ROUNDS_TO_FINISH - 1]:
        member.receive(question)
    with pytest.raises(ProtocolError, match="5 were agreed on"):
        member.receive(questions[5 + ROUNDS_TO_FINISH])


def test_a_member_does_not_believe_limits_that_the_server_announces():
    line = Line(of_numbers(sprinkled(3, ITEMS, 4, 400), ITEMS), "x", max_rounds=5).begin()

    def generous(_, message):
        if isinstance(message, m.Roster):
            settings = msgspec.structs.replace(message.settings, max_rounds=None, max_itemset_size=None)
            return msgspec.structs.replace(message, settings=settings)
        return message

    with pytest.raises(ProtocolError, match="announced max_rounds"):
        line.run(down=generous)
