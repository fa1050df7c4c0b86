"""Run a whole federation in one process, with the same messages and bytes as on a network.

Every message is encoded as a frame and decoded from it, with the limits that apply on a network. What the server sends
to several members is decoded once: messages cannot be changed, and members keep every question. Members share the work
that is the same for all of them; each masks its own answers.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import Any, NamedTuple

from fedslim.errors import FedslimError, RunError
from fedslim.network.traffic import Direction
from fedslim.protocol import framing, messages as m
from fedslim.protocol.events import Failed, RoundEnded, Send, ServerOutput
from fedslim.protocol.member import MemberInput, MemberSession, farewell
from fedslim.protocol.outcome import Outcome
from fedslim.protocol.server import ServerSession


class FrameSent(NamedTuple):
    """Trace: a frame was sent; `sent` and `plain` are its bytes after and before compression."""

    kind: str
    direction: Direction
    member: str
    sent: int
    plain: int
    data: bytes

    @classmethod
    def of(cls, message: m.Message, direction: Direction, member: str, frame: framing.Frame) -> FrameSent:
        """Return the trace of a message."""
        return cls(type(message).__name__, direction, member, len(frame.data), frame.plain, frame.data)


Trace = FrameSent | RoundEnded


@dataclass(eq=False)
class MemoryFederation:
    """A server session and the sessions of all members, connected by queues."""

    server: ServerSession
    inputs: InitVar[Mapping[str, MemberInput]]
    _: KW_ONLY
    entropy: Callable[[int], bytes]
    trace: Callable[[Trace], None] = lambda _event: None
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self, inputs: Mapping[str, MemberInput]) -> None:
        self.members = {name: MemberSession(name, own) for name, own in inputs.items()}
        self._failed: str | None = None  # why
        self._shared: dict[str, Any] = {}
        self._inbox: deque[tuple[str, bytes]] = deque()

    def run(self, between: Callable[[], None] | None = None) -> Outcome:
        """Run to the end and call `between` after every round; raise `RunError` if a member could not continue."""
        for name, member in self.members.items():
            self._up(name, member.join(self.entropy(32)))
        while self._inbox:
            name, data = self._inbox.popleft()
            message = framing.from_member(data[framing.PREFIX_BYTES :])
            for output in self.server.receive(name, message, self.clock()):
                self._act(output)
                if between is not None and isinstance(output, RoundEnded):
                    between()
        if self.server.outcome is None:
            raise RunError(self._failed or f"no answer from {', '.join(self.server.waiting_for())}")
        return self.server.outcome

    def _act(self, output: ServerOutput) -> None:
        match output:
            case Send(to, message):
                if isinstance(message, m.Confirmed):
                    for member in self.members.values():
                        member.share_work(self._shared)
                frame = framing.to_bytes(message)
                received = framing.from_server(frame.data[framing.PREFIX_BYTES :])
                for name in to:
                    self.trace(FrameSent.of(message, "down", name, frame))
                    self._deliver(name, received)
            case RoundEnded():
                self.trace(output)
            case Failed(reason):
                self._failed = reason

    def _deliver(self, name: str, message: m.FromServer) -> None:
        try:
            reply = self.members[name].receive(message)
        except FedslimError as error:
            self._up(name, farewell(error))
            raise
        if reply is not None:
            self._up(name, reply)

    def _up(self, name: str, message: m.FromMember) -> None:
        frame = framing.to_bytes(message)
        self.trace(FrameSent.of(message, "up", name, frame))
        self._inbox.append((name, frame.data))
