"""Serve a run at an engine's server, from the federation file to the results.

    serving = Serving(file, folder)
    served = serving.serve(call)                  # if it ended early, saves the best table so far and raises

During the run, `status.json` has its progress and `best.json` the best table so far; creating a file `stop` ends the
run after the current round. The results are codetable.json and run.json, as those of `fedslim server`, and with a
schema preparation.json, from which another job can start.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fedslim.data.atomic import make_folder_for
from fedslim.engines.exchange import Exchange
from fedslim.errors import FedslimError, RunError
from fedslim.federated.accounting import Account, save_served, served_by, table_at_server, write_record
from fedslim.federated.folder import keep_preparation
from fedslim.federated.sessions import make_server_session
from fedslim.federated.simulation import prepare
from fedslim.mdl.driver import Stop
from fedslim.network.in_process import RoundPassed
from fedslim.network.status import of_session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from fedslim.engines.exchange import Collected
    from fedslim.federated.accounting import Served
    from fedslim.network.in_process import Trace
    from fedslim.protocol.outcome import Outcome
    from fedslim.protocol.preparation import Preparation
    from fedslim.protocol.roster import KeyCheck
    from fedslim.settings.federation_file import FederationFile

logger = logging.getLogger(__name__)

AGAIN = "fedslim nvflare export FEDERATION.toml --out JOB, and submit that"
STATUS, BEST, STOP = "status.json", "best.json", "stop"
STATUS_EVERY, SAY_EVERY = 0.5, 5.0
"""Seconds between two updates of the status, and between two log lines and updates of the best table."""


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

    def serve(self, call: Callable[[Mapping[str, bytes], float], Collected]) -> Served:
        """Serve until the run is over, and save its results.

        Raises:
            RunError: The run ended early, because of a member or an abort. The best table so far is saved.
        """
        make_folder_for(self._folder / STATUS)
        prepare(self._file.federation.variant)
        logger.info("waiting for %s", ", ".join(self._session.members))
        if self._file.prepares and self._kept is None:
            self._prepare(call)
        if self._kept is not None:
            keep_preparation(self._kept, self._file, self._folder)
        exchange = self._exchange(call)
        try:
            outcome, lost = exchange.run(), None
        except RunError as error:
            best = self._session.best()
            if best is None:
                self._write_status(str(error))
                raise
            outcome, lost = best, error
        served = self._save(outcome, lost, tuple(sorted(exchange.untold)))
        if lost is not None:
            raise lost
        return served

    def _exchange(self, call: Callable[[Mapping[str, bytes], float], Collected]) -> Exchange:
        waits = self._file.timeouts
        return Exchange(
            self._session, call, answer=waits.answer, grace=waits.grace, trace=self._trace, stopping=self._stopping
        )

    def _prepare(self, call: Callable[[Mapping[str, bytes], float], Collected]) -> None:
        """Serve the preparation, and go on to the search, without members that left if the file says so."""
        try:
            self._kept = prepared = self._exchange(call).run().preparation
            assert prepared is not None  # noqa: S101  # the session was a preparation
            logger.info("the preparation is complete: %s items", len(prepared.ids))
            for name in prepared.left:
                logger.warning("%s left after the preparation, sharing too little with the others", name)
            self._begin()
        except RunError as error:
            self._write_status(str(error))
            raise

    def _save(self, outcome: Outcome, lost: RunError | None, untold: tuple[str, ...]) -> Served:
        served = served_by(self._session, outcome, self._account, lost, untold)
        running = self._last - self._first if self._first is not None else 0.0
        more = {"seconds_in_rounds": running, **{f"tally_{name}": n for name, n in asdict(outcome.tally).items()}}
        save_served(served, self._file, self._folder, more, command=AGAIN)
        (self._folder / BEST).unlink(missing_ok=True)
        self._write_status(None if lost is None else str(lost))
        logger.info(
            "%s: %s itemsets, L%% %.2f, %s rounds, %s bytes; saved in %s",
            outcome.ending,
            len(served.table),
            served.table.compression.L_percent,
            served.communication.rounds,
            served.communication.bytes_total,
            self._folder,
        )
        return served

    # -- while it runs ------------------------------------------------------------------------------------------

    def _stopping(self) -> bool:
        return self._stop.asked or (self._folder / STOP).exists()

    def _trace(self, event: Trace) -> None:
        self._account(event)
        if isinstance(event, RoundPassed):
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
                status = self.status()
                logger.info(
                    "round %s: %s itemsets, L%% %.2f, %s bytes",
                    status["rounds"],
                    status["itemsets"],
                    status["L_percent"],
                    status["bytes_up"] + status["bytes_down"],
                )
        except FedslimError as error:
            logger.warning("the progress of the run could not be saved: %s", error)  # no reason to end the run

    def _write_status(self, reason: str | None) -> None:
        write_record(self.status() | {"reason": reason}, self._folder / STATUS)
