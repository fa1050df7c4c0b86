"""What sessions report to their driver: messages to send, and events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fedslim.mdl.codetable import CodeTable
    from fedslim.protocol.messages import FromMember, FromServer
    from fedslim.protocol.outcome import Ending, Outcome
    from fedslim.protocol.preparation import Preparation
    from fedslim.protocol.prepare import Overlap


@dataclass(frozen=True, slots=True)
class Send:
    """A message from the server, the same for all these members."""

    to: tuple[str, ...]
    message: FromServer


@dataclass(frozen=True, slots=True)
class NewEpoch:
    """All members have joined and will be sent the roster of this epoch; journal the epoch to be able to resume."""

    number: int


@dataclass(frozen=True, slots=True)
class Began:
    """All members have joined and confirmed the roster."""

    members: tuple[str, ...]
    items: int


@dataclass(frozen=True, slots=True)
class RoundEnded:
    """All members that were asked have answered; journal the replies before going on, to be able to resume."""

    number: int
    kind: str
    replies: Mapping[str, FromMember]
    ending: Ending | None = None  # why the search stops after this round, if it does


@dataclass(frozen=True, slots=True)
class Waiting:
    """A member has disconnected, and the run waits for it."""

    member: str


@dataclass(frozen=True, slots=True)
class Resumed:
    """All members are back, and the interrupted round is asked again."""

    number: int


@dataclass(frozen=True, slots=True)
class WentBack:
    """A member has lost its last records, so all members go back to this round; journal it to be able to resume."""

    number: int
    member: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The run is over, with this outcome."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Failed:
    """The run ended early, usually because of a member; the session's `best()` has the best table so far."""

    reason: str
    member: str | None


@dataclass(frozen=True, slots=True)
class Received:
    """At a member: the run is over. The table has the member's labels; in SO it is the member's own table.

    A preparation has its outcome instead, and how much the member shares with others.
    """

    ending: str
    table: CodeTable | None
    preparation: Preparation | None = None
    overlap: Overlap | None = None


ServerOutput = Send | NewEpoch | Began | RoundEnded | Waiting | Resumed | WentBack | Ended | Failed
