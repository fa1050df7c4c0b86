"""A federation in NVFlare's simulator: a process for the server and one for each site, on this machine.

    simulation = simulate({"north": db_a, "south": db_b}, variant="x")

It is run from the same kind of files as a deployed one: a site's file for each, the federation's file, a job. There are
no startup kits in the simulator, so agreement keys are not signed, as in our own simulation in one process.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from fedslim.data import ItemSecret, Vocabulary
from fedslim.data.fimi import write_fimi
from fedslim.data.partition import Partition
from fedslim.engines import require_nvflare
from fedslim.engines.job import ALLOWED, AT_SERVER, AT_SITE, DEFAULT_RESOURCES, FEDERATION, write_job
from fedslim.engines.server import STATUS, STOP
from fedslim.errors import ParameterError, RunError
from fedslim.federated.accounting import CODE_TABLE, RECORD
from fedslim.federated.records import load_run
from fedslim.federated.simulation import UNMASKED, Simulation, check_run, check_smallest, named_databases
from fedslim.mdl.codetable import CodeTable
from fedslim.mdl.driver import Progress, Stop
from fedslim.mdl.steps import Tally
from fedslim.network.traffic import Communication
from fedslim.settings.federation_file import LARGEST, write_template
from fedslim.settings.policy import FILE as POLICY
from fedslim.settings.policy import write_policy
from fedslim.settings.site_file import write_site_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fedslim.data import TransactionDatabase
    from fedslim.federated.records import RunRecord
    from fedslim.federated.simulation import Databases, OnProgress
    from fedslim.settings.federation_file import FederationFile

SIMULATOR = "nvflare.private.fed.app.simulator.simulator"
JOB_ID = "simulate_job"
RESULTS = "fedslim"
LOOK_EVERY = 0.2
GRACE = 30.0
LAST_WORDS = 15
ATTEMPTS = 3
"""To start the simulator. On a busy machine somebody else may get a port that it chose, and then a site is missing."""

SYNC = 60.0


class EndedEarly(RunError):  # noqa: N818  # there is a result
    """A run that lost a site; the best so far is in it."""

    def __init__(self, reason: str, simulation: Simulation) -> None:
        super().__init__(reason)
        self.simulation = simulation


def simulate(  # noqa: PLR0913  # as `federated.simulate`
    databases: Databases,
    *,
    variant: str = "x",
    max_time: float | None = None,
    max_rounds: int | None = None,
    min_count: int = 1,
    min_members_with: int = 1,
    seed: int = 0,
    stop: Stop | None = None,
    on_progress: OnProgress | None = None,
    folder: Path | None = None,
    grace: float = GRACE,
) -> Simulation:
    """Run a federation in NVFlare's simulator: see `federated.simulate`.

    Args:
        databases: As there.
        variant: As there.
        max_time: As there.
        max_rounds: As there.
        min_count: As there.
        min_members_with: As there.
        seed: That of the partition, for the record: keys and masks are random here.
        stop: As there.
        on_progress: As there.
        folder: Where everything is written, logs included; by default a folder that is removed in the end.
        grace: Seconds for a site that does not answer to come back.

    Raises:
        MissingExtraError: NVFlare is not installed.
        EndedEarly: The run ended early, with what it has of the best so far; the message names the site.
        RunError: There is nothing yet that it could have; the message may have the simulator's last words.
    """
    require_nvflare()
    named = named_databases(databases)
    check_run(variant, True, max_time, max_rounds, seed)  # masks are never left out here
    if len(named) == 1:
        msg = "a federation over NVFlare has two sites or more"
        raise ParameterError(msg)
    check_smallest(variant, len(named), min_count, min_members_with)
    limits = {
        "limits.max_time": max_time,
        "limits.max_rounds": max_rounds,
        "limits.min_count": min_count,
        "limits.min_members_with": min_members_with,
        "timeouts.grace": grace,
    }
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedslim-nvflare-")))
        prepare_folder(folder, named, variant, {k: v for k, v in limits.items() if v is not None})
        results = run_simulator(folder, list(named), stop or Stop(), on_progress)
        vocabulary = next(iter(named.values())).vocabulary
        names = {f"item {number}": label for number, label in enumerate(vocabulary)}
        table = CodeTable.load(results / CODE_TABLE).renamed(names)
        record = load_run(results / RECORD)
    told: dict[str, Any] = dict(record.figures)
    simulation = Simulation(
        variant,
        variant not in UNMASKED,
        named,
        table,
        Tally(**{each.name: told[f"tally_{each.name}"] for each in fields(Tally)}),
        told["ending"],
        _communication(record),
        told["seconds_in_rounds"],
        seed,
        max_time,
        max_rounds,
        min_members_with,
        {one.name: one.usages for one in record.members if one.usages is not None} or None,
        tuple(map(msgspec.structs.asdict, record.history)),
        databases if isinstance(databases, Partition) else None,
    )
    if told["reason"] is not None:
        raise EndedEarly(told["reason"], simulation)
    return simulation


def prepare_folder(
    folder: Path, databases: Mapping[str, TransactionDatabase], variant: str, chosen: Mapping[str, Any]
) -> FederationFile:
    """Write what everybody has: the federation's file, the job, and each site's own file, secret and data.

    The data are written with numbers for labels, and the agreed vocabulary has them in the order of the data: so the
    table is that of all data in one place, and no label is lost on the way.
    """
    own = folder / "sites"
    own.mkdir(parents=True)
    secret = ItemSecret.from_random(os.urandom(32))
    secret.write(own / "members.secret")
    items = len(next(iter(databases.values())).vocabulary)
    numbers = tuple(map(str, range(items)))
    agreed = Vocabulary.of(numbers, secret)
    agreed.write(own / "agreed.json")
    given = {
        "items.vocabulary_digest": agreed.digest.hex(),
        "limits.min_count": 1,  # as in our own simulation: the table of all data in one place
        "limits.min_members_with": 1,
        "limits.max_rounds": LARGEST,
        **chosen,
    }
    file = write_template(folder / FEDERATION, "simulation", list(databases), variant, chosen=given)
    write_job(file, folder / "job", sync=SYNC)
    local = folder / "workspace" / "local"  # NVFlare copies it to every site
    local.mkdir(parents=True)
    allowed = json.dumps({"format_version": 2, ALLOWED: [*AT_SERVER, *AT_SITE]})
    (local / DEFAULT_RESOURCES).write_text(allowed, "utf-8")
    for name, database in databases.items():
        write_fimi(replace(database, vocabulary=numbers), own / f"{name}.dat")
        policy = write_policy(
            own / name / POLICY,
            policy_variants=[variant],
            policy_min_members=2,
            policy_min_count=1,
            policy_min_members_with=1,
            policy_unsigned_keys=True,
        )
        write_site_file(
            local / f"fedslim-site.{name}.toml",
            name,
            site_federation=file.path,
            site_results=own / name,
            site_policy=policy.path,
            data_source=own / f"{name}.dat",
            items_secret=own / "members.secret",
            items_vocabulary=own / "agreed.json",
            audit_log=own / f"{name}.jsonl",
        )
    return file


def run_simulator(folder: Path, members: list[str], stop: Stop, on_progress: OnProgress | None) -> Path:
    """Run the job to its end and give back where its results are.

    Raises:
        RunError: There are none.
    """
    workspace, log = folder / "workspace", folder / "simulator.log"
    results = workspace / "server" / JOB_ID / RESULTS
    command = [sys.executable, "-m", SIMULATOR, str(folder / "job"), "-w", str(workspace)]
    command += ["-c", ",".join(members), "-t", str(len(members)), "-m", str(len(members))]
    for _ in range(ATTEMPTS):
        with _run(command, log) as process:
            while process.poll() is None and (results.is_dir() or not _stillborn(log)):
                time.sleep(LOOK_EVERY)
                if results.is_dir():
                    if stop.asked:
                        (results / STOP).touch()
                    _show(results / STATUS, stop, on_progress)
        if results.is_dir() or not _stillborn(log):
            break
    if not (results / RECORD).is_file():
        raise RunError(_reason(results / STATUS, log))
    return results


@contextlib.contextmanager
def _run(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process and all that it starts, of which nobody is left behind."""

    def end(*_given: object) -> None:
        sys.exit(128 + signal.SIGTERM)

    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, end) if main else None
    try:
        with log.open("wb") as said:
            # In a group of its own: Ctrl-C is for us, who then ask for a stop with the best so far.
            process = subprocess.Popen(  # noqa: S603  # our own program
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
            )
            try:
                yield process
            finally:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    finally:
        if main:
            signal.signal(signal.SIGTERM, before)


def _stillborn(log: Path) -> bool:
    """Whether a site was never started: the simulator chooses ports some time before it uses them."""
    return b"Communication error with client" in log.read_bytes()


def _show(path: Path, stop: Stop, on_progress: OnProgress | None) -> None:
    status = _read_json(path)
    if on_progress is None or status is None or status["L_percent"] is None or status["over"]:
        return
    said = Communication(rounds=status["rounds"])
    for direction in ("up", "down"):
        said.add("all", direction, plain=0, sent=status[f"bytes_{direction}"])
    found = (status["itemsets"], status["accepted"], status["candidates"], status["L_percent"])
    on_progress(Progress(1, 1, *found, 0.0, stop.seconds, None), said)


def _reason(status: Path, log: Path) -> str:
    told = _read_json(status)
    if told is not None and told["reason"] is not None:
        return str(told["reason"])
    lines = log.read_text("utf-8", "replace").splitlines()
    return "NVFlare's simulator ended without a result; its last words: " + " / ".join(lines[-LAST_WORDS:])


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found


def _communication(record: RunRecord) -> Communication:
    said = Communication(rounds=int(record.figures["rounds"] or 0))
    for row in record.traffic:
        said.add(row.kind, row.direction, plain=row.bytes_uncompressed, sent=row.bytes, messages=row.messages)
    return said
