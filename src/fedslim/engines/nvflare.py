"""NVFlare (2.9, Collab API): frames are arguments and results of calls that its server makes to its sites.

The job (`job.py`) names two classes of this file. NVFlare creates one object of each for the duration of a job: at the
server, and in a separate process at every site. Members' names are those of NVFlare's sites, from their certificates.
All decisions are made elsewhere: by the sessions, and by the file that says what a site allows.

This is the only module that imports nvflare: `pip install 'fedslim[nvflare]'`.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import sys
import traceback
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from nvflare.collab import collab
from nvflare.fuel.flare_api.flare_api import new_secure_session

from fedslim.engines.job import FEDERATION, RESERVED
from fedslim.engines.member import SiteMember
from fedslim.engines.server import Broken, Collected, Serving
from fedslim.engines.startup_kit import kit_check
from fedslim.errors import RunError
from fedslim.federated.folder import find_preparation
from fedslim.format import printable
from fedslim.protocol.member import CANNOT
from fedslim.settings.federation_file import FederationFile

RESULTS = "fedslim"  # the results folder in the job's folder at the server; it is part of a downloaded job

STOP_TOPIC, STATUS_TOPIC = "fedslim.stop", "fedslim.status"
"""Commands to a running job: `fedslim nvflare stop` and `fedslim nvflare status`."""

ABORTED = "the job was aborted"


class EscapedRelay(logging.Handler):
    """Passes log records of fedslim on to NVFlare's handlers, escaped, because they may quote a peer."""

    def emit(self, record: logging.LogRecord) -> None:
        """Pass on a record."""
        escaped = copy.copy(record)
        escaped.msg, escaped.args = printable(record.getMessage()), ()
        logging.getLogger().handle(escaped)


def _set_up_logs() -> None:
    """Relay the log records of the engines, and silence NVFlare's: it writes several lines for each of many calls."""
    ours, relay = logging.getLogger("fedslim"), EscapedRelay()
    relay.addFilter(logging.Filter("fedslim.engines"))  # others may name data, and NVFlare's logs go to the server
    ours.handlers, ours.propagate = [relay], False
    for name in ("nvflare.collab.api.group", "nvflare.collab.runtime.cell_dispatcher"):
        logging.getLogger(name).setLevel(logging.WARNING)


class FedslimServer:
    """Runs the session at the server, with calls to the sites."""

    @collab.main  # type: ignore[untyped-decorator]
    def run(self) -> None:
        """Serve one run. If it ends early, raise the reason, so that NVFlare shows the job as failed."""
        _set_up_logs()
        context, workspace = collab.fl_ctx, collab.workspace
        job = context.get_job_id()
        config = Path(workspace.get_app_config_dir(job))
        file = FederationFile.read(config / FEDERATION)
        keys = partial(kit_check, Path(workspace.get_startup_kit_dir()))
        kept = find_preparation(None, file, config)
        serving = Serving(file, Path(workspace.get_run_dir(job)) / RESULTS, keys=keys, kept=kept)
        _commands(context.get_engine(), serving)
        serving.serve(_call)


def _call(frames: Mapping[str, bytes], within: float) -> Collected:
    """Deliver each frame to its member and collect the replies; members with equal frames are called together."""
    alike: dict[bytes, list[str]] = {}
    for name, frame in frames.items():
        alike.setdefault(frame, []).append(name)
    replies: dict[str, bytes] = {}
    failures: dict[str, str] = {}
    # Not blocking, so that all are called at once; calls that are pending when a job is aborted end with a failure.
    calls = [collab.get_clients(names)(blocking=False, timeout=within).answer(frame) for frame, names in alike.items()]
    for results in calls:
        for name, reply in results:
            if isinstance(reply, bytes):
                replies[name] = reply
            else:
                failures[name] = f"it answered with {type(reply).__name__}, not with a frame"
        failures |= {name: str(getattr(error, "cause", error))[:500] for name, error in results.failures.items()}
    if collab.is_aborted:
        raise Broken(ABORTED, frames.keys() - replies.keys())
    return Collected(replies, failures)


def _commands(engine: Any, serving: Serving) -> None:
    """Let an admin ask for the status of the run, or end it with the best table so far."""

    def stop(*_: Any) -> dict[str, Any]:
        serving.stop()
        return {"stopping": True}

    register = getattr(engine, "register_app_command", None)  # not in the simulator
    if register is not None:
        register(STATUS_TOPIC, lambda *_: serving.status())
        register(STOP_TOPIC, stop)


class FedslimMember:
    """Passes frames between the server and the member at a site."""

    def __init__(self, preparation: str = "") -> None:
        self._member: SiteMember | None = None
        self._preparation = preparation

    @collab.init  # type: ignore[untyped-decorator]
    def begin(self) -> None:
        """Locate the site's files; they are read when the server asks the site to join."""
        _set_up_logs()
        workspace = collab.workspace
        self._member = SiteMember(
            Path(workspace.get_site_config_dir()),
            collab.site_name,
            kit=Path(workspace.get_startup_kit_dir()),
            job=collab.fl_ctx.get_job_id(),
            preparation=self._preparation,
        )

    @collab.publish  # type: ignore[untyped-decorator]
    def answer(self, frame: bytes) -> bytes:
        """Answer a frame of the server; refuse other callers, because other sites could call this too."""
        member = self._member
        if collab.caller != RESERVED or not isinstance(frame, bytes) or member is None:
            raise PermissionError(f"only the server may call this, not {collab.caller}")
        try:
            return member.answer(frame)
        except Exception:  # noqa: BLE001  # no details may leave the site
            # NVFlare would send the message to the server, and it may name data or folders.
            member.note(traceback.format_exc())
        raise RuntimeError(CANNOT)

    @collab.final  # type: ignore[untyped-decorator]
    def end(self) -> None:
        """Close the member when the job is over, however it ended."""
        if self._member is not None:
            self._member.close()


def ask_job(kit: Path, job: str, topic: str) -> dict[str, Any]:
    """Send a command to a running job, as the admin with this startup kit."""
    user = kit.absolute().name
    try:
        with contextlib.redirect_stdout(sys.stderr):  # NVFlare prints that it connects
            session = new_secure_session(user, str(kit.absolute()))
            try:
                found: dict[str, Any] = session.do_app_command(job, topic, {})
            finally:
                session.close()
    except Exception as error:
        msg = f"job {job} does not answer {user!r}: {error}; check with `nvflare job list` that it is running"
        raise RunError(msg) from error
    return found
