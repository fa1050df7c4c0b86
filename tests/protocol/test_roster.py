from __future__ import annotations

import msgspec
import pytest

from fedslim.protocol import messages as m
from fedslim.protocol.roster import roster_digest

SETTINGS = m.Settings("x", True, 1000)
ROSTER = m.Roster(bytes(16), SETTINGS, ["a", "b"], [bytes(32), b"k" * 32], b"", 0, [b"", b""], 0)
SHOWN = {"roster": ROSTER, "vocabulary": b"v" * 32, "fingerprint": b"f" * 8}


def other(**fields):
    return {"roster": msgspec.structs.replace(ROSTER, **fields)}


@pytest.mark.parametrize(
    "change",
    [
        other(run=b"r" * 16),
        other(epoch=1),
        other(next_round=1),
        other(members=["a", "c"]),
        other(members=["b", "a"]),
        other(keys=[b"k" * 32, bytes(32)]),
        *(
            other(settings=msgspec.structs.replace(SETTINGS, **{name: value}))
            for name, value in {
                "variant": "sa",
                "masked": False,
                "max_transactions": 1001,
                "share_labels": "members",
                "max_rounds": 9,
                "pruning": False,
                "max_itemset_size": 9,
                "min_support": 9,
                "min_count": 9,
                "min_members_with": 2,
                "width": 9,
            }.items()
        ),
        {"vocabulary": b"w" * 32},
        {"fingerprint": b"g" * 8},
    ],
)
def test_whoever_is_shown_something_else_signs_something_else(change):
    def digest(roster, **shown):
        return roster_digest(roster, **shown)

    assert digest(**SHOWN) == digest(**SHOWN)
    assert digest(**SHOWN | change) != digest(**SHOWN)
