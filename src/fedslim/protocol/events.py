"""What sessions tell whoever drives them: messages to send, and what happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fedslim.mdl.codetable import CodeTable
    from fedslim.protocol.messages import FromMember, FromServer
    from fedslim.protocol.outcome import Ending, Outcome


@dataclass(frozen=True, slots=True)
class Send:
    """A message of the server's, the same for all these members."""

    to: tuple[str, ...]
    message: FromServer


@dataclass(frozen=True, slots=True)
class NewEpoch:
    """Everybody is here, and is about to be sent the roster of this epoch; whoever resumes the run must know it."""

    number: int


@dataclass(frozen=True, slots=True)
class Began:
    """Everybody is here and has confirmed the roster."""

    members: tuple[str, ...]
    items: int


@dataclass(frozen=True, slots=True)
class RoundEnded:
    """Everybody who was asked has answered so; whoever wants to resume the run later keeps that, before going on."""

    number: int
    kind: str
    replies: Mapping[str, FromMember]
    ending: Ending | None = None  # why the run comes to its end from here on, if it does: decided with this round


@dataclass(frozen=True, slots=True)
class Waiting:
    """A member is away, and the run waits for it."""

    member: str


@dataclass(frozen=True, slots=True)
class Resumed:
    """Everybody is back, and the round that was going on is asked again."""

    number: int


@dataclass(frozen=True, slots=True)
class WentBack:
    """A member has lost its last records, so everybody goes back to this round; whoever resumes the run must know."""

    number: int
    member: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The run is over, and this came of it."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Failed:
    """The run ended early because of a member; what had been reached is in the session's `best()`."""

    reason: str
    member: str | None


@dataclass(frozen=True, slots=True)
class Received:
    """At a member: the run is over; the table, in the member's own labels: that of all, or in SO its own."""

    ending: str
    table: CodeTable | None


ServerOutput = Send | NewEpoch | Began | RoundEnded | Waiting | Resumed | WentBack | Ended | Failed
