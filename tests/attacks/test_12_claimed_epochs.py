"""Attack 12, low, by a member: claimed epochs.

After a restart the server accepted any epoch that a member claimed to have seen. A claim of 65,535 left no epoch for
the next fault, which then ended the run.
"""

from __future__ import annotations

import msgspec
import pytest

from fedslim.errors import ProtocolError
from fedslim.protocol.member import MemberSession
from fedslim.protocol.positions import ServerRecords
from fedslim.protocol.roster import MAX_LOST_EPOCHS
from fedslim.protocol.state import MemberState
from wire import databases, entropy_of, inputs_of, server_for

NAMED = databases({"a": ["abc"] * 4 + ["ab"] * 3, "b": ["abd"] * 5, "c": ["cd"] * 2})


def restarted(epoch):
    """Return a server that was killed in the first round of an epoch."""
    server = server_for(NAMED, "x")
    server.replay(ServerRecords(epoch=epoch), 4, 0.0)
    return server


def join(name, epoch):
    session = MemberSession(name, inputs_of(NAMED)[name])
    return msgspec.structs.replace(session.join(entropy_of(name)(32)), run=b"the run of tests", epoch=epoch, position=1)


@pytest.mark.parametrize("epoch", [65_535, 60_000, 3 + MAX_LOST_EPOCHS + 2])
def test_an_epoch_far_ahead_is_refused_after_a_restart(epoch):
    with pytest.raises(ProtocolError, match="there was none after 3"):
        restarted(3).receive("a", join("a", epoch), 0.0)


@pytest.mark.parametrize("epoch", [1, 3, 4, 3 + MAX_LOST_EPOCHS + 1])
def test_the_epochs_that_a_killed_server_may_have_begun_are_believed(epoch):
    """The records of the latest epochs can be lost in a power failure."""
    server = restarted(3)
    server.receive("a", join("a", epoch), 0.0)
    assert server.state_of("a") is MemberState.SEATED
