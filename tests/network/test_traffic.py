from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedslim.errors import ParameterError
from fedslim.network.traffic import Communication, Traffic

MESSAGES = st.lists(
    st.tuples(
        st.sampled_from(["usages", "candidates", "index"]),
        st.sampled_from(["up", "down"]),
        st.integers(0, 9999),
        st.integers(0, 9999),
    )
)


def account(messages):
    said = Communication()
    for kind, direction, plain, sent in messages:
        said.add(kind, direction, plain=plain, sent=sent)
    return said


def test_an_account_by_hand():
    said = Communication()
    said.add("usages", "up", plain=800, sent=310)
    said.add("usages", "up", plain=200, sent=90)
    said.add("candidate", "down", plain=40, sent=48, messages=10)
    said.end_round()
    said.end_round()
    assert (said.rounds, said.bytes_total, said.bytes_up, said.bytes_down) == (2, 448, 400, 48)
    assert said.total(kind="usages") == Traffic(messages=2, sent=400, plain=1000)
    assert said.total(kind="usages", direction="down") == Traffic()
    assert said.as_dict() == {
        "rounds": 2,
        "messages": 12,
        "bytes_total": 448,
        "bytes_up": 400,
        "bytes_down": 48,
        "bytes_total_uncompressed": 1040,
        "bytes_up_uncompressed": 1000,
        "bytes_down_uncompressed": 40,
        "by_kind": [
            {"kind": "candidate", "direction": "down", "messages": 10, "bytes": 48, "bytes_uncompressed": 40},
            {"kind": "usages", "direction": "up", "messages": 2, "bytes": 400, "bytes_uncompressed": 1000},
        ],
    }


def test_silence_costs_nothing():
    said = Communication()
    assert said.bytes_total == said.rounds == 0
    assert said.as_dict()["by_kind"] == []


@given(MESSAGES)
def test_the_sums_equal_their_naive_twin(messages):
    said = account(messages)
    assert said.bytes_total == said.bytes_up + said.bytes_down == sum(sent for *_, sent in messages)
    assert said.bytes_up == sum(sent for _, direction, _, sent in messages if direction == "up")
    assert said.total().plain == sum(plain for *_, plain, _ in messages)
    assert said.total().messages == len(messages)
    assert sum(row["bytes"] for row in said.as_dict()["by_kind"]) == said.bytes_total


@given(MESSAGES, st.randoms(use_true_random=False))
def test_the_order_of_messages_does_not_matter(messages, random):
    shuffled = messages[:]
    random.shuffle(shuffled)
    one, other = account(messages), account(shuffled)
    assert one == other
    assert json.dumps(one.as_dict()) == json.dumps(other.as_dict())


@pytest.mark.parametrize("direction", ["sideways", "", None])
def test_a_direction_that_is_none_is_refused(direction):
    with pytest.raises(ParameterError, match=r"it is 'up' .* or 'down'"):
        Communication().add("usages", direction, plain=1, sent=1)


@pytest.mark.parametrize("field", ["plain", "sent", "messages"])
@pytest.mark.parametrize("number", [-1, 1.5, True, None])
def test_a_number_that_is_none_is_refused(field, number):
    said = Communication()
    with pytest.raises(ParameterError, match=f"{field} is {number}; give a whole number"):
        said.add("usages", "up", **{"plain": 1, "sent": 1, field: number})
    assert said == Communication()
