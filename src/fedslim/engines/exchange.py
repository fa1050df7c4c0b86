"""Run the server's session over an engine that calls its sites and collects one reply from each.

    exchange = Exchange(session, call, …)
    outcome = exchange.run()

`call` delivers a frame to each of some members and returns their replies, or why there is none. All decisions about the
run are made by the session.

Calls are short, however long an answer takes: a site that is still computing replies that it is working and is called
again. So a call without a reply means that the site is gone, which engines do not report. A member whose call fails is
disconnected, and is asked to join again until the grace is over.
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

JOIN = b""  # delivered in place of a frame: join, or join again
WORKING = b"\0"
"""As a reply: the answer is not ready yet. Delivered in place of a frame: ask for that answer again."""

PATIENCE = 5.0  # seconds after which a site that is still computing replies `WORKING`
MAX_CALL_SECONDS = 20.0
"""Maximum seconds for a call. A site replies sooner, if only that it is working; otherwise it is gone."""

TRY_EVERY = 1.0  # seconds between two attempts to reach a disconnected member


class Broken(RunError):  # noqa: N818  # not necessarily an error
    """Raised by `call` when the engine ends the run: no member can be reached any more."""

    def __init__(self, reason: str, unanswered: Iterable[str]) -> None:
        super().__init__(reason)
        self.unanswered = frozenset(unanswered)


class Collected(NamedTuple):
    """The results of calls: for each member a reply (empty if none was due), or why there is none."""

    replies: Mapping[str, bytes]
    failures: Mapping[str, str]


class Exchange:
    """Runs a server session over calls."""

    def __init__(  # noqa: PLR0913  # its parts
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
        self._asked = dict.fromkeys(session.members, clock())  # when each was last sent a new frame
        self._away: dict[str, tuple[float, str]] = {}  # since when, and why
        self.untold: set[str] = set()  # members that were not told how the run ended
        self._outcome: Outcome | None = None
        self._failed: Failed | None = None

    def run(self) -> Outcome:
        """Run to the end.

        Raises:
            RunError: A member could not continue or stayed away; `session.best()` has the best result so far.
        """
        try:
            while any(self._outbox.values()) or self._away:
                self._step()
        except Broken as error:
            # An engine that notices a dead site first ends the run without naming the site.
            self.untold = set(self.session.members)
            missing = ", ".join(sorted(error.unanswered | self._away.keys()))
            raise RunError(f"{error}; no answer from {missing}" if missing else str(error)) from None
        if self._outcome is None:
            waiting = ", ".join(self.session.waiting_for()) or "nobody"
            raise RunError(self._failed.reason if self._failed else f"the run stalled while waiting for {waiting}")
        return self._outcome

    def _step(self) -> None:
        """Deliver the next frame of each member and handle the replies."""
        frames = {name: queue.popleft() for name, queue in self._outbox.items() if queue}
        within = min(self._answer, MAX_CALL_SECONDS)
        if not frames:
            # All other members are waiting for the disconnected ones.
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
        """Call a working member again, unless its time is over."""
        if self._clock() - self._asked[name] < self._answer:
            self._outbox[name].appendleft(WORKING)
        else:
            self._miss(name, f"no answer within {self._answer:g} s")

    def _receive(self, name: str, data: bytes) -> None:
        most = self.session.max_bytes(name)
        try:
            if len(data) > framing.PREFIX_BYTES + framing.packed_at_most(most):
                msg = f"a frame of {len(data)} bytes is longer than any message that member {name!r} may send now"
                raise FrameError(msg)
            message = framing.from_member(memoryview(data)[framing.PREFIX_BYTES :], most)
            self._account(type(message).__name__, "up", name, data)
            self._act(self.session.receive(name, message, self._clock()))
        except ProtocolError as error:
            if self.session.over:
                return  # it was sent the end and the reason; replying to its reply would never stop
            # Nobody can fix the site while the job runs: end the run instead of waiting.
            self._outbox[name].append(framing.to_bytes(m.Abort(str(error)[:2000])).data)
            self._act(self.session.lose(name, f"member {name!r}: {error}"))

    def _miss(self, name: str, why: str) -> None:
        if self.session.over:
            self.untold.add(name)
            return
        if name not in self._away:
            logger.warning("%s disconnected: %s", name, why)
            self._away[name] = (self._clock(), why)
        self._outbox[name].clear()
        self._act(self.session.disconnect(name))

    def _give_up(self) -> None:
        """Give up on members that were away for too long; if the run is to stop, on all that are away."""
        stopping = self._stopping()
        if stopping:
            self.session.stop()
        for name, (since, why) in self._away.items():
            if stopping:
                self._act(self.session.lose(name, f"stopped while waiting for {name!r}"))
            elif self._clock() - since >= self._grace:
                self._act(self.session.lose(name, f"member {name!r} stayed away for {self._grace:g} s: {why}"))
        if self.session.over:
            self.untold |= self._away.keys()
            self._away.clear()

    # -- outputs of the session ---------------------------------------------------------------------------------

    def _act(self, outputs: list[ServerOutput]) -> None:
        for output in outputs:
            match output:
                case Send(to, message):
                    frame = framing.to_bytes(message)
                    for name in to:
                        self._account(type(message).__name__, "down", name, frame.data, frame.plain)
                        self._outbox[name].append(frame.data)
                        if isinstance(message, m.Finish) and not self.session.over:
                            self._outbox[name].append(JOIN)  # it had missed the end of the preparation
                case RoundEnded(number, kind):
                    self._trace(RoundPassed(number, kind))
                case Began():
                    logger.info("all members are connected")
                case Resumed(number):
                    logger.info("all members are connected again; repeating round %s", number)
                case Failed():
                    self._failed = output
                case Ended(outcome):
                    self._outcome = outcome

    def _account(self, kind: str, direction: str, name: str, data: bytes, plain: int | None = None) -> None:
        self._trace(FrameSent(kind, direction, name, len(data), plain or len(data), data))  # type: ignore[arg-type]
