"""The server's session over an engine that calls its sites and collects one reply from each.

    exchange = Exchange(session, call, …)
    outcome = exchange.run()

`call` delivers a frame to each of some members and brings back their replies, and why there is none. Nothing about the
run is decided here: what to send and what replies mean is the session's business.

No call is long, however long an answer takes: a site that computes says that it is working, and is asked again. So a
call that is not answered is a sign that the site is gone, which engines do not tell. A member whose call fails is away;
it is asked to join again until the grace is over, as a line that breaks may be made again.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from fedslim.errors import FrameError, ProtocolError, RunError
from fedslim.network.in_process import FrameSent, RoundPassed
from fedslim.protocol import framing
from fedslim.protocol import messages as m
from fedslim.protocol.events import Began, Ended, Failed, Resumed, RoundEnded, Send

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fedslim.network.in_process import Trace
    from fedslim.protocol.events import ServerOutput
    from fedslim.protocol.outcome import Outcome
    from fedslim.protocol.server import ServerSession

logger = logging.getLogger(__name__)

JOIN = b""
"""Delivered in place of a frame: begin, or begin again, by joining."""

WORKING = b"\0"
"""A reply: the answer is still to come. Delivered in place of a frame: whatever the answer is by now."""

PATIENCE = 5.0
"""Seconds after which a site that is still computing says so."""

MAX_CALL_SECONDS = 20.0
"""Seconds for a call. Sites answer sooner, if only that they are working: one that does not is not there."""

TRY_EVERY = 1.0
"""Seconds between two attempts to reach a member that is away."""


class Broken(RunError):  # noqa: N818  # it may be nobody's error
    """Raised by `call` when the engine ends the run: nothing can be said any more, not even the end."""

    def __init__(self, reason: str, unanswered: Iterable[str]) -> None:
        super().__init__(reason)
        self.unanswered = frozenset(unanswered)


class Collected(NamedTuple):
    """What came of calls: a reply of each member (empty where none was due), or why there is none."""

    replies: Mapping[str, bytes]
    failures: Mapping[str, str]


class Exchange:
    """Runs a session by calls."""

    def __init__(  # noqa: PLR0913  # what a run is made of
        self,
        session: ServerSession,
        call: Callable[[Mapping[str, bytes], float], Collected],
        *,
        answer: float,
        grace: float,
        trace: Callable[[Trace], None],
        stopping: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.session = session
        self._call, self._answer, self._grace = call, answer, grace
        self._trace, self._clock, self._sleep = trace, clock, sleep
        self._stopping = stopping
        self._outbox: dict[str, deque[bytes]] = {name: deque([JOIN]) for name in session.members}
        self._asked = dict.fromkeys(session.members, clock())  # when each was last told something new
        self._away: dict[str, tuple[float, str]] = {}  # since when, and why
        self.untold: set[str] = set()  # who has not heard how it ended
        self._outcome: Outcome | None = None
        self._failed: Failed | None = None

    def run(self) -> Outcome:
        """Run to the end.

        Raises:
            RunError: A member could not go on, or stayed away; what had been reached is in `session.best()`.
        """
        try:
            while any(self._outbox.values()) or self._away:
                self._step()
        except Broken as error:
            # An engine that notices a dead site before we do ends the run without naming it.
            self.untold = set(self.session.members)
            missing = ", ".join(sorted(error.unanswered | self._away.keys()))
            raise RunError(f"{error}; no answer from {missing}" if missing else str(error)) from None
        if self._outcome is None:
            waiting = ", ".join(self.session.waiting_for()) or "nobody"
            raise RunError(self._failed.reason if self._failed else f"nothing more came, waiting for {waiting}")
        return self._outcome

    def _step(self) -> None:
        """Deliver what there is to deliver, one frame to each, and take in the replies."""
        frames = {name: queue.popleft() for name, queue in self._outbox.items() if queue}
        within = min(self._answer, MAX_CALL_SECONDS)
        if not frames:
            # Everybody waits for those who are away.
            self._sleep(TRY_EVERY)
            frames = dict.fromkeys(self._away, JOIN)
            left = min(since for since, _ in self._away.values()) + self._grace - self._clock()
            within = min(within, max(TRY_EVERY, left))
        self._asked |= {name: self._clock() for name, frame in frames.items() if frame != WORKING}
        collected = self._call(frames, within)
        for name, data in collected.replies.items():
            if data == WORKING:
                self._wait(name)
                continue
            self._away.pop(name, None)
            if data:
                self._receive(name, data)
        for name, why in collected.failures.items():
            self._miss(name, why)
        self._give_up()

    def _wait(self, name: str) -> None:
        """It is there and computes; not for ever."""
        if self._clock() - self._asked[name] < self._answer:
            self._outbox[name].appendleft(WORKING)
        else:
            self._miss(name, f"no answer within {self._answer:g} s")

    def _receive(self, name: str, data: bytes) -> None:
        most = self.session.max_bytes(name)
        try:
            if len(data) > framing.PREFIX_BYTES + framing.packed_at_most(most):
                msg = f"a frame of {len(data)} bytes is longer than what member {name!r} may say now"
                raise FrameError(msg)
            message = framing.from_member(memoryview(data)[framing.PREFIX_BYTES :], most)
            self._account(type(message).__name__, "up", name, data)
            self._act(self.session.receive(name, message, self._clock()))
        except ProtocolError as error:
            if self.session.over:
                return  # it has been told that it is over, and why; an answer to its answer would go on for ever
            # There is nobody at the site to mend it while the job runs: better a clear end than a wait.
            self._outbox[name].append(framing.to_bytes(m.Abort(str(error)[:2000])).data)
            self._act(self.session.lose(name, f"member {name!r}: {error}"))

    def _miss(self, name: str, why: str) -> None:
        if self.session.over:
            self.untold.add(name)
            return
        if name not in self._away:
            logger.warning("%s is away: %s", name, why)
            self._away[name] = (self._clock(), why)
        self._outbox[name].clear()
        self._act(self.session.disconnect(name))

    def _give_up(self) -> None:
        """Those who were away for too long are lost; if the run is to end, so are all who are away."""
        stopping = self._stopping()
        if stopping:
            self.session.stop()
        for name, (since, why) in self._away.items():
            if stopping:
                self._act(self.session.lose(name, f"stopped while {name!r} was not here"))
            elif self._clock() - since >= self._grace:
                self._act(self.session.lose(name, f"member {name!r} stayed away for {self._grace:g} s: {why}"))
        if self.session.over:
            self.untold |= self._away.keys()
            self._away.clear()

    # -- what the session says ----------------------------------------------------------------------------------

    def _act(self, outputs: list[ServerOutput]) -> None:
        for output in outputs:
            match output:
                case Send(to, message):
                    frame = framing.to_bytes(message)
                    for name in to:
                        self._account(type(message).__name__, "down", name, frame.data, frame.plain)
                        self._outbox[name].append(frame.data)
                case RoundEnded(number, kind):
                    self._trace(RoundPassed(number, kind))
                case Began():
                    logger.info("everybody is here")
                case Resumed(number):
                    logger.info("everybody is back; round %s is asked again", number)
                case Failed():
                    self._failed = output
                case Ended(outcome):
                    self._outcome = outcome

    def _account(self, kind: str, direction: str, name: str, data: bytes, plain: int | None = None) -> None:
        self._trace(FrameSent(kind, direction, name, len(data), plain or len(data), data))  # type: ignore[arg-type]
