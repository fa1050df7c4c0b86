"""Run a federation in NVFlare's simulator: a process for the server and one for each site, on this machine.

It uses the same kinds of files as a deployment: a file for each site, the federation file, a job. The simulator has no
startup kits, so agreement keys are not signed, as in fedslim's own simulation.
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
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from fedslim.data import ItemSecret, TransactionDatabase, Vocabulary
from fedslim.data.fimi import write_fimi
from fedslim.data.partition import Partition
from fedslim.engines import require
from fedslim.engines.job import ALLOWED, AT_SERVER, AT_SITE, DEFAULT_RESOURCES, FEDERATION, write_job
from fedslim.engines.server import STATUS, STOP
from fedslim.errors import ParameterError, RunError
from fedslim.federated.accounting import CODE_TABLE, RECORD
from fedslim.federated.records import load_run
from fedslim.federated.simulation import Databases, OnProgress, RunOptions, Simulation, named_databases
from fedslim.mdl.codetable import CodeTable
from fedslim.mdl.driver import Progress, Stop
from fedslim.mdl.steps import Tally
from fedslim.network.traffic import Communication
from fedslim.settings.federation_file import FederationFile, write_template
from fedslim.settings.federation_keys import LARGEST
from fedslim.settings.policy import FILE as POLICY, write_policy
from fedslim.settings.site_file import write_site_file

SIMULATOR = "nvflare.private.fed.app.simulator.simulator"
JOB_ID = "simulate_job"
RESULTS = "fedslim"
LOOK_EVERY = 0.2
GRACE = 30.0
LAST_WORDS = 15
ATTEMPTS = 3
"""Attempts to start the simulator. Another program may take a port that it chose, and then a site is missing."""

SYNC = 60.0


class EndedEarly(RunError):  # noqa: N818  # it has a result
    """The run lost a site; `simulation` has the best table so far."""

    def __init__(self, reason: str, simulation: Simulation) -> None:
        super().__init__(reason)
        self.simulation = simulation


def simulate(
    databases: Databases,
    *,
    stop: Stop | None = None,
    on_progress: OnProgress | None = None,
    folder: Path | None = None,
    grace: float = GRACE,
    **chosen: Any,
) -> Simulation:
    """Run a federation in NVFlare's simulator, with the parameters of `federated.simulate` but `masking`.

    Keys and masks are random here: `seed` is that of the partition, for the record, and of the local search. All files
    and logs are in `folder`, by default a temporary one. A site that does not answer is lost after `grace` seconds.

    Raises:
        MissingExtraError: NVFlare is not installed.
        EndedEarly: The run ended early; the error has the best table so far, and its message names the site.
        RunError: The run failed without a result; the message may have the simulator's last output.
    """
    require("nvflare")
    named = named_databases(databases)
    options = RunOptions.of(len(named), **chosen, masking=True)
    if len(named) == 1:
        raise ParameterError("there is only one member; a federation over NVFlare needs at least two")
    given = asdict(options) | {"seed": options.seed if options.effort > 1 else 0}
    del given["variant"], given["masked"]
    limits = {f"limits.{name}": value for name, value in given.items() if value is not None} | {"timeouts.grace": grace}
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedslim-nvflare-")))
        prepare_folder(folder, named, options.variant, limits)
        results = run_simulator(folder, list(named), stop or Stop(), on_progress)
        vocabulary = next(iter(named.values())).vocabulary
        names = {f"item {number}": label for number, label in enumerate(vocabulary)}
        table = CodeTable.load(results / CODE_TABLE).renamed(names)
        record = load_run(results / RECORD)
    figures: dict[str, Any] = dict(record.figures)
    communication = Communication(rounds=figures["rounds"])
    for row in record.traffic:
        communication.add(row.kind, row.direction, plain=row.bytes_uncompressed, sent=row.bytes, messages=row.messages)
    found = table, Tally(**{each.name: figures[f"tally_{each.name}"] for each in fields(Tally)}), figures["ending"]
    costs = communication, figures["seconds_in_rounds"], tuple(record.history)
    seen = {one.name: one.usages for one in record.members if one.usages is not None} or None
    partition = databases if isinstance(databases, Partition) else None
    simulation = Simulation(*found, *costs, seen, options, named, partition)
    if figures["reason"] is not None:
        raise EndedEarly(figures["reason"], simulation)
    return simulation


def prepare_folder(
    folder: Path, databases: Mapping[str, TransactionDatabase], variant: str, chosen: Mapping[str, Any]
) -> FederationFile:
    """Write all files: the federation file, the job, and each site's file, policy, secret and data.

    The data are written with numbers as labels, in the order of the agreed vocabulary, so the table is that of all data
    in one place and every label survives the file format.
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
        "limits.min_count": 1,  # as in `federated.simulate`
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
    """Run the job to its end and return the folder of its results; without results, raise the reason."""
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
    """Start a process, and kill it and all its children at the end of the `with` block."""

    def end(*_given: object) -> None:
        sys.exit(128 + signal.SIGTERM)

    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, end) if main else None
    try:
        with log.open("wb") as output:
            # In a separate process group, so that Ctrl-C reaches only this process, which then asks for a stop.
            process = subprocess.Popen(  # noqa: S603  # a fixed command
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
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
    """Tell whether a site failed to start: the simulator chooses ports some time before it uses them."""
    return b"Communication error with client" in log.read_bytes()


def _show(path: Path, stop: Stop, on_progress: OnProgress | None) -> None:
    status = _read_json(path)
    if on_progress is None or status is None or status["L_percent"] is None or status["over"]:
        return
    communication = Communication(rounds=status["rounds"])
    for direction in ("up", "down"):
        communication.add("all", direction, plain=0, sent=status[f"bytes_{direction}"])
    found = (status["itemsets"], status["accepted"], status["candidates"], status["L_percent"])
    on_progress(Progress(1, 1, *found, 0.0, stop.seconds, None), communication)


def _reason(status: Path, log: Path) -> str:
    found = _read_json(status)
    if found is not None and found["reason"] is not None:
        return str(found["reason"])
    lines = log.read_text("utf-8", "replace").splitlines()
    return "NVFlare's simulator ended without a result; its last output: " + " / ".join(lines[-LAST_WORDS:])


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found
