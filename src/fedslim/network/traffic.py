"""Count the traffic of a run: rounds, and bytes by message kind and direction, before and after compression."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec import Struct

Direction = Literal["up", "down"]  # Up: from a member to the server. Down: from the server to a member.


class Traffic(Struct, frozen=True, array_like=True):
    """A number of messages, their bytes as sent (including framing), and their bytes before compression."""

    messages: int = 0
    sent: int = 0
    plain: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.messages + other.messages, self.sent + other.sent, self.plain + other.plain)


NONE = Traffic()
Messages = dict[tuple[str, Direction], Traffic]
"""By kind and direction."""


@dataclass(slots=True)
class Communication:
    """The traffic of a run; equality does not depend on the order of `add` calls."""

    rounds: int = 0
    traffic: Messages = field(default_factory=dict)

    def add(self, kind: str, direction: Direction, *, plain: int, sent: int, messages: int = 1) -> None:
        """Add messages of one kind: in total, `plain` bytes before compression and `sent` bytes as sent."""
        self.traffic[kind, direction] = self.traffic.get((kind, direction), NONE) + Traffic(messages, sent, plain)

    def end_round(self) -> None:
        """Count one more round (R in the paper)."""
        self.rounds += 1

    def total(self, *, direction: Direction | None = None) -> Traffic:
        """Return the total traffic, optionally of one direction."""
        return sum((row for (_, way), row in self.traffic.items() if direction in {None, way}), NONE)

    @property
    def bytes_up(self) -> int:
        """Bytes sent from members to the server."""
        return self.total(direction="up").sent

    @property
    def bytes_down(self) -> int:
        """Bytes sent from the server to members."""
        return self.total(direction="down").sent

    @property
    def bytes_total(self) -> int:
        """Bytes sent in both directions (BT in the paper)."""
        return self.total().sent

    def as_dict(self) -> dict[str, Any]:
        """Return all totals, and a row for each kind and direction in alphabetical order."""
        totals = {"total": self.total(), "up": self.total(direction="up"), "down": self.total(direction="down")}
        return {
            "rounds": self.rounds,
            "messages": totals["total"].messages,
            **{f"bytes_{name}": total.sent for name, total in totals.items()},
            **{f"bytes_{name}_uncompressed": total.plain for name, total in totals.items()},
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
