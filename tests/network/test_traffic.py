from __future__ import annotations

import json

from hypothesis import given, strategies as st

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
    traffic = Communication()
    for kind, direction, plain, sent in messages:
        traffic.add(kind, direction, plain=plain, sent=sent)
    return traffic


def test_an_account_by_hand():
    traffic = Communication()
    traffic.add("usages", "up", plain=800, sent=310)
    traffic.add("usages", "up", plain=200, sent=90)
    traffic.add("candidate", "down", plain=40, sent=48, messages=10)
    traffic.end_round()
    traffic.end_round()
    assert (traffic.rounds, traffic.bytes_total, traffic.bytes_up, traffic.bytes_down) == (2, 448, 400, 48)
    assert traffic.total(direction="up") == Traffic(messages=2, sent=400, plain=1000)
    assert traffic.as_dict() == {
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
    traffic = Communication()
    assert traffic.bytes_total == traffic.rounds == 0
    assert traffic.as_dict()["by_kind"] == []


@given(MESSAGES)
def test_the_sums_equal_their_naive_twin(messages):
    traffic = account(messages)
    assert traffic.bytes_total == traffic.bytes_up + traffic.bytes_down == sum(sent for *_, sent in messages)
    assert traffic.bytes_up == sum(sent for _, direction, _, sent in messages if direction == "up")
    assert traffic.total().plain == sum(plain for *_, plain, _ in messages)
    assert traffic.total().messages == len(messages)
    assert sum(row["bytes"] for row in traffic.as_dict()["by_kind"]) == traffic.bytes_total


@given(MESSAGES, st.randoms(use_true_random=False))
def test_the_order_of_messages_does_not_matter(messages, random):
    shuffled = messages[:]
    random.shuffle(shuffled)
    one, other = account(messages), account(shuffled)
    assert one == other
    assert json.dumps(one.as_dict()) == json.dumps(other.as_dict())
