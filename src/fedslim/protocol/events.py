"""What sessions tell whoever drives them: messages to send, and what happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedslim.mdl.codetable import CodeTable
    from fedslim.protocol.messages import FromServer
    from fedslim.protocol.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Send:
    """A message of the server's, the same for all these members."""

    to: tuple[str, ...]
    message: FromServer


@dataclass(frozen=True, slots=True)
class Began:
    """Everybody is here and ready."""

    members: tuple[str, ...]
    items: int


@dataclass(frozen=True, slots=True)
class RoundEnded:
    """Everybody who was asked has answered."""

    number: int
    kind: str


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
    """At a client: the run is over; the table, in the client's own labels, where the variant lets it know one."""

    ending: str
    table: CodeTable | None


ServerOutput = Send | Began | RoundEnded | Ended | Failed
