"""Serve a run at an engine's server, over calls to its sites, from the federation file to the results.

`call` delivers a frame to each of some members and returns their replies, or why there is none. Calls are short,
however long an answer takes: a site that is still computing replies that it is working and is called again. So a call
without a reply means that the site is gone, which engines do not report. A member whose call fails is disconnected, and
is asked to join again until the grace is over. All decisions about the run are made by the session.

During the run, `status.json` has its progress and `best.json` the best table so far; creating a file `stop` ends the
run after the current round. The results are codetable.json and run.json, as those of `fedslim server`, and with a
schema preparation.json, from which another job can start.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fedslim.data.atomic import make_folder_for, write_whole
from fedslim.errors import FedslimError, FrameError, ProtocolError, RunError
from fedslim.federated.accounting import Account, Served, save_served, served_by, table_at_server
from fedslim.federated.folder import keep_preparation
from fedslim.federated.sessions import make_server_session
from fedslim.federated.simulation import prepare
from fedslim.mdl.driver import Stop
from fedslim.network.in_process import FrameSent, Trace
from fedslim.network.status import of_session
from fedslim.protocol import framing, messages as m
from fedslim.protocol.events import Began, Failed, Resumed, RoundEnded, Send, ServerOutput
from fedslim.protocol.outcome import Outcome
from fedslim.protocol.preparation import Preparation
from fedslim.protocol.roster import KeyCheck
from fedslim.protocol.server import ServerSession
from fedslim.settings.federation_file import FederationFile

Call = Callable[[Mapping[str, bytes], float], "Collected"]  # the frame of each member, and seconds

logger = logging.getLogger(__name__)

AGAIN = "fedslim nvflare export FEDERATION.toml --out JOB, and submit that"
STATUS, BEST, STOP = "status.json", "best.json", "stop"
PROGRESS = "round %(rounds)s: %(itemsets)s itemsets, L%% %(L_percent).2f, %(bytes_up)s bytes up, %(bytes_down)s down"
STATUS_EVERY, SAY_EVERY = 0.5, 5.0
"""Seconds between two updates of the status, and between two log lines and updates of the best table."""

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


@dataclass(eq=False)
class Exchange:
    """Runs a server session over calls; `answer` and `grace` are in seconds, as in the federation file."""

    session: ServerSession
    call: Call
    trace: Callable[[Trace], None]
    stopping: Callable[[], bool]
    answer: float
    grace: float

    def __post_init__(self) -> None:
        members = self.session.members
        self._outbox: dict[str, deque[bytes]] = {name: deque([JOIN]) for name in members}
        self._asked = dict.fromkeys(members, time.monotonic())  # when each was last sent a new frame
        self._away: dict[str, tuple[float, str]] = {}  # since when, and why
        self.untold: set[str] = set()  # members that were not told how the run ended
        self._failed = ""  # why the run ended early

    def run(self) -> Outcome:
        """Run to the end; raise `RunError` if a member could not continue or stayed away. Then see `session.best()`."""
        try:
            while any(self._outbox.values()) or self._away:
                self._step()
        except Broken as error:
            # An engine that notices a dead site first ends the run without naming the site.
            self.untold = set(self.session.members)
            missing = ", ".join(sorted(error.unanswered | self._away.keys()))
            raise RunError(f"{error}; no answer from {missing}" if missing else str(error)) from None
        if self.session.outcome is None:
            waiting = ", ".join(self.session.waiting_for()) or "nobody"
            raise RunError(self._failed or f"the run stalled while waiting for {waiting}")
        return self.session.outcome

    def _step(self) -> None:
        """Deliver the next frame of each member and handle the replies."""
        frames = {name: queue.popleft() for name, queue in self._outbox.items() if queue}
        within = min(self.answer, MAX_CALL_SECONDS)
        if not frames:
            # All other members are waiting for the disconnected ones.
            time.sleep(TRY_EVERY)
            frames = dict.fromkeys(self._away, JOIN)
            left = min(since for since, _ in self._away.values()) + self.grace - time.monotonic()
            within = min(within, max(TRY_EVERY, left))
        self._asked |= {name: time.monotonic() for name, frame in frames.items() if frame != WORKING}
        collected = self.call(frames, within)
        for name, data in collected.replies.items():
            if data != WORKING:
                self._away.pop(name, None)
                if data:
                    self._receive(name, data)
            elif time.monotonic() - self._asked[name] < self.answer:
                self._outbox[name].appendleft(WORKING)
            else:
                self._miss(name, f"no answer within {self.answer:g} s")
        for name, why in collected.failures.items():
            self._miss(name, why)
        self._give_up()

    def _receive(self, name: str, data: bytes) -> None:
        most = self.session.max_bytes(name)
        try:
            if len(data) > framing.PREFIX_BYTES + framing.packed_at_most(most):
                msg = f"a frame of {len(data)} bytes is longer than any message that member {name!r} may send now"
                raise FrameError(msg)
            message = framing.from_member(memoryview(data)[framing.PREFIX_BYTES :], most)
            self.trace(FrameSent.of(message, "up", name, framing.Frame(data, len(data))))
            self._act(self.session.receive(name, message, time.monotonic()))
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
            self._away[name] = (time.monotonic(), why)
        self._outbox[name].clear()
        self.session.disconnect(name)

    def _give_up(self) -> None:
        """Give up on members that were away for too long; if the run is to stop, on all that are away."""
        stopping = self.stopping()
        if stopping:
            self.session.stop()
        for name, (since, why) in self._away.items():
            if stopping:
                self._act(self.session.lose(name, f"stopped while waiting for {name!r}"))
            elif time.monotonic() - since >= self.grace:
                self._act(self.session.lose(name, f"member {name!r} stayed away for {self.grace:g} s: {why}"))
        if self.session.over:
            self.untold |= self._away.keys()
            self._away.clear()

    def _act(self, outputs: list[ServerOutput]) -> None:
        for output in outputs:
            match output:
                case Send(to, message):
                    frame = framing.to_bytes(message)
                    for name in to:
                        self.trace(FrameSent.of(message, "down", name, frame))
                        self._outbox[name].append(frame.data)
                        if isinstance(message, m.Finish) and not self.session.over:
                            self._outbox[name].append(JOIN)  # it had missed the end of the preparation
                case RoundEnded():
                    self.trace(output)
                case Began():
                    logger.info("all members are connected")
                case Resumed(number):
                    logger.info("all members are connected again; repeating round %s", number)
                case Failed(reason):
                    self._failed = reason


class Serving:
    """Serves one run of a federation over an engine's calls."""

    def __init__(
        self,
        file: FederationFile,
        folder: Path,
        *,
        keys: Callable[[FederationFile], KeyCheck | None] = lambda _file: None,
        kept: Preparation | None = None,
    ) -> None:
        self._file, self._folder, self._keys, self._kept = file, folder, keys, kept
        self._stop = Stop()
        self._begin()
        self._first: float | None = None  # when the first round ended
        self._last = 0.0
        self._next_status = self._next_line = 0.0

    def _begin(self) -> None:
        """Begin the preparation, or the search if there is nothing to prepare; members that left are not in it."""
        file = self._file if self._kept is None else self._file.without(self._kept.left)
        self._session = make_server_session(file, run=os.urandom(16), keys=self._keys(file), prepared=self._kept)
        self._account = Account(self._session)

    def stop(self) -> None:
        """End the run before the next round with the best table so far; can be called from any thread."""
        self._stop.ask()

    def status(self) -> dict[str, Any]:
        """Return the status of the run, as an admin may see it."""
        session, said = self._session, self._account.communication
        search = None if session.variant is None else session.variant.search
        return {
            **of_session(session),
            "rounds": said.rounds,  # ended rounds, as in the log
            "members": {name: session.state_of(name).value for name in session.members},
            "accepted": 0 if search is None else search.tally.accepted,
            "candidates": 0 if search is None else search.tally.candidates,
            "bytes_up": said.bytes_up,
            "bytes_down": said.bytes_down,
            "seconds": self._account.seconds,
            "reason": None,
        }

    def serve(self, call: Call) -> Served:
        """Serve until the run is over, and save its results; if it ends early, save the best table so far and raise."""
        make_folder_for(self._folder / STATUS)
        prepare(self._file.federation.variant)
        logger.info("waiting for %s", ", ".join(self._session.members))
        if self._kept is not None:
            keep_preparation(self._kept, self._file, self._folder)
        outcome, lost, untold = self._run(call)
        if (prepared := outcome.preparation) is not None:
            self._kept = prepared
            logger.info("the preparation is complete: %s items", len(prepared.ids))
            for name in prepared.left:
                logger.warning("%s left after the preparation, sharing too little with the others", name)
            try:
                self._begin()
            except RunError as error:  # the others do not go on without them
                self._write_status(str(error))
                raise
            keep_preparation(prepared, self._file, self._folder)
            outcome, lost, untold = self._run(call)
        served = self._save(outcome, lost, untold)
        if lost is not None:
            raise lost
        return served

    def _run(self, call: Call) -> tuple[Outcome, RunError | None, tuple[str, ...]]:
        """Run one session; return its outcome or the best table so far, why it ended early, and who was not told."""
        waits = self._file.timeouts
        exchange = Exchange(self._session, call, self._trace, self._stopping, waits.answer, waits.grace)
        try:
            outcome, lost = exchange.run(), None
        except RunError as error:
            best = self._session.best()  # none in a preparation
            if best is None:
                self._write_status(str(error))
                raise
            outcome, lost = best, error
        return outcome, lost, tuple(sorted(exchange.untold))

    def _save(self, outcome: Outcome, lost: RunError | None, untold: tuple[str, ...]) -> Served:
        served = served_by(self._session, outcome, self._account, lost, untold)
        running = self._last - self._first if self._first is not None else 0.0
        more = {"seconds_in_rounds": running, **{f"tally_{name}": n for name, n in asdict(outcome.tally).items()}}
        save_served(served, self._file, self._folder, AGAIN, more)
        (self._folder / BEST).unlink(missing_ok=True)
        self._write_status(None if lost is None else str(lost))
        table, costs = served.table, served.communication
        about = outcome.ending, len(table), table.compression.L_percent, costs.rounds, costs.bytes_total
        logger.info("%s: %s itemsets, L%% %.2f, %s rounds, %s bytes; saved in %s", *about, self._folder)
        return served

    def _stopping(self) -> bool:
        return self._stop.asked or (self._folder / STOP).exists()

    def _trace(self, event: Trace) -> None:
        self._account(event)
        if isinstance(event, RoundEnded):
            self._last = time.monotonic()
            if self._first is None:
                self._first = self._last
            if self._last >= self._next_status:
                self._report()

    def _report(self) -> None:
        self._next_status = self._last + STATUS_EVERY
        try:
            self._write_status(None)
            best = self._session.best() if self._last >= self._next_line else None
            if best is not None:
                self._next_line = self._last + SAY_EVERY
                table_at_server(self._session, best).save(self._folder / BEST, private=True)
                logger.info(PROGRESS, self.status())
        except FedslimError as error:
            logger.warning("the progress of the run could not be saved: %s", error)  # no reason to end the run

    def _write_status(self, reason: str | None) -> None:
        status = json.dumps(self.status() | {"reason": reason}, indent=2, allow_nan=False)
        write_whole(self._folder / STATUS, f"{status}\n".encode())
