"""What sessions report to their driver: messages to send, and events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fedslim.mdl.codetable import CodeTable
    from fedslim.protocol.messages import FromMember, FromServer
    from fedslim.protocol.outcome import Ending, Outcome
    from fedslim.protocol.preparation import Preparation
    from fedslim.protocol.prepare import Overlap


class Send(NamedTuple):
    """A message from the server, the same for all these members."""

    to: tuple[str, ...]
    message: FromServer


class NewEpoch(NamedTuple):
    """All members have joined and will be sent the roster of this epoch; journal the epoch to be able to resume."""

    number: int


class Began(NamedTuple):
    """All members have joined and confirmed the roster."""

    members: tuple[str, ...]
    items: int


class RoundEnded(NamedTuple):
    """All members that were asked have answered; journal the replies before going on, to be able to resume."""

    number: int
    kind: str
    replies: Mapping[str, FromMember]
    ending: Ending | None = None  # why the search stops after this round, if it does


class Resumed(NamedTuple):
    """All members are back, and the interrupted round is asked again."""

    number: int


class WentBack(NamedTuple):
    """A member has lost its last records, so all members go back to this round; journal it to be able to resume."""

    number: int
    member: str


class Ended(NamedTuple):
    """The run is over, with this outcome."""

    outcome: Outcome


class Failed(NamedTuple):
    """The run ended early, usually because of a member; the session's `best()` has the best table so far."""

    reason: str
    member: str | None


class Received(NamedTuple):
    """At a member: the run is over. The table has the member's labels; in SO it is the member's own table.

    A preparation has its outcome instead, and how much the member shares with others.
    """

    ending: str
    table: CodeTable | None
    preparation: Preparation | None = None
    overlap: Overlap | None = None


ServerOutput = Send | NewEpoch | Began | RoundEnded | Resumed | WentBack | Ended | Failed
