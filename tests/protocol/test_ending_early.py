"""A server that is killed while it ends a run early keeps its decision."""

from __future__ import annotations

import pytest
from weather import Weather

from fedslim.network.journal import Journal

STOP_AT = 9
LIMITS = {"interrupted": {}, "out of rounds": {"max_rounds": STOP_AT}, "out of time": {"max_time": 100.0}}


def stopped_early(variant, ending, kill_after=None):
    """A run that ends early; its server is killed once its journal has `kill_after` more rounds."""
    federation = Weather(variant, 8, **LIMITS[ending])
    while federation.outcome is None:
        if len(federation.rounds) == STOP_AT - 1:
            # A restored server knows neither; only its journal does.
            federation.now = 1000.0 if ending == "out of time" else 0.0
            if ending == "interrupted":
                federation.server.stop()
        if kill_after is not None and len(federation.rounds) == STOP_AT + kill_after:
            federation.now, kill_after = 0.0, None
            federation.fault("server", None)
        else:
            federation.step()
    return federation


@pytest.mark.parametrize("ending", LIMITS)
@pytest.mark.parametrize("variant", ["x", "sa", "so"])
def test_a_server_killed_in_its_closing_rounds_ends_as_it_had_decided(calm, variant, ending):
    expected = stopped_early(variant, ending)
    assert expected.outcome.ending == ending
    assert expected.outcome.table != calm[variant].table
    for kill_after in range(len(expected.rounds) - STOP_AT):
        again = stopped_early(variant, ending, kill_after)
        assert (again.outcome, len(again.rounds)) == (expected.outcome, len(expected.rounds))


@pytest.mark.parametrize("variant", ["x", "sa", "so"])
def test_a_decision_that_was_torn_was_not_made(calm, variant, tmp_path):
    """Nothing had followed from it: the run continues, or ends there when it is stopped again."""
    expected = stopped_early(variant, "interrupted")
    whole = Journal.create(tmp_path / "whole", {}, key=bytes(32))
    for record in expected.journal[:STOP_AT]:
        whole.append(record)
    whole.close()
    data = (tmp_path / "whole").read_bytes()
    for number, again in enumerate((False, True)):
        path = tmp_path / f"torn-{number}"
        path.write_bytes(data[:-3])
        journal, _, records, _ = Journal.reopen(path, key=bytes(32))
        journal.close()
        assert records == expected.journal[: STOP_AT - 1]
        federation = Weather(variant, 8)
        while len(federation.rounds) < STOP_AT - 1:
            federation.step()
        federation.journal = list(records)
        federation.fault("server", None)
        if again:
            federation.server.stop()
        federation.run()
        assert federation.outcome == (expected.outcome if again else calm[variant])
