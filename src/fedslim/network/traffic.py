"""What a run said: bytes by kind of message and direction, before and after compression, and rounds.

    said = Communication()
    said.add("usages", "up", plain=800, sent=310)
    said.end_round()
    said.bytes_total, said.as_dict()

It only adds up; whoever moves the messages feeds it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from fedslim.errors import ParameterError

Direction = Literal["up", "down"]
"""Up is from a member to the server."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Messages, their bytes as they crossed the line (framing included), and their bytes before compression."""

    messages: int = 0
    sent: int = 0
    plain: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.messages + other.messages, self.sent + other.sent, self.plain + other.plain)


@dataclass(slots=True)
class Communication:
    """An account of traffic; equal accounts are equal, in whatever order they were fed."""

    rounds: int = 0
    traffic: dict[tuple[str, Direction], Traffic] = field(default_factory=dict)

    def add(self, kind: str, direction: Direction, *, plain: int, sent: int, messages: int = 1) -> None:
        """Account for messages of one kind: `plain` bytes before compression, `sent` on the line, all together."""
        if direction not in get_args(Direction):
            msg = f"the direction is {direction!r}; it is 'up' (to the server) or 'down' (to a member)"
            raise ParameterError(msg)
        for what, number in (("plain", plain), ("sent", sent), ("messages", messages)):
            if isinstance(number, bool) or not isinstance(number, int) or number < 0:
                msg = f"{what} is {number!r}; give a whole number from 0 up"
                raise ParameterError(msg)
        self.traffic[kind, direction] = self.traffic.get((kind, direction), Traffic()) + Traffic(messages, sent, plain)

    def end_round(self) -> None:
        """Count one more round, R of the paper."""
        self.rounds += 1

    def total(self, *, kind: str | None = None, direction: Direction | None = None) -> Traffic:
        """The traffic of a kind, of a direction, of both, or all of it."""
        chosen = (
            traffic
            for (its_kind, its_direction), traffic in self.traffic.items()
            if kind in {None, its_kind} and direction in {None, its_direction}
        )
        return sum(chosen, Traffic())

    @property
    def bytes_up(self) -> int:
        """Bytes on the line from members to the server."""
        return self.total(direction="up").sent

    @property
    def bytes_down(self) -> int:
        """Bytes on the line from the server to members."""
        return self.total(direction="down").sent

    @property
    def bytes_total(self) -> int:
        """BT of the paper."""
        return self.total().sent

    def as_dict(self) -> dict[str, Any]:
        """All figures, and a row for each kind and direction in alphabetical order."""
        return {
            "rounds": self.rounds,
            "messages": self.total().messages,
            "bytes_total": self.bytes_total,
            "bytes_up": self.bytes_up,
            "bytes_down": self.bytes_down,
            "bytes_total_uncompressed": self.total().plain,
            "bytes_up_uncompressed": self.total(direction="up").plain,
            "bytes_down_uncompressed": self.total(direction="down").plain,
            "by_kind": [
                {
                    "kind": kind,
                    "direction": direction,
                    "messages": traffic.messages,
                    "bytes": traffic.sent,
                    "bytes_uncompressed": traffic.plain,
                }
                for (kind, direction), traffic in sorted(self.traffic.items(), key=lambda entry: entry[0])
            ],
        }
