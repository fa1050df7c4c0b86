"""A federation of real processes on this machine: a server and its members over mutual TLS, on loopback.

    federation = Loopback.make(folder, partition, variant="x")
    served = federation.run()                                    # starts everybody, waits, gives back what was found
    process = federation.start_member("north")                   # or one by one

For demonstrations and tests: all keys are in one folder and without passphrases, see `trust/demo_ca.py`.
"""

from __future__ import annotations

import contextlib
import csv
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fedslim.data.vocabulary import ItemSecret, Vocabulary
from fedslim.errors import RunError
from fedslim.federated.records import RunRecord, load_run
from fedslim.mdl.codetable import CodeTable
from fedslim.settings.federation_file import write_template
from fedslim.settings.policy import FILE as POLICY
from fedslim.settings.policy import write_policy
from fedslim.trust import make_demo_ca

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fedslim.data import TransactionDatabase

HOST = "127.0.0.1"
TRANSACTION, ITEM = "transaction", "item"
MAX_SECONDS = 600.0
NOTHING_LEFT_OUT = MappingProxyType({"min_count": 1, "min_members_with": 1})
"""Limits with which x finds the table of all data in one place, to the last rare item."""


@dataclass(frozen=True, slots=True)
class LoopbackResult:
    """What the processes left in their folders."""

    table: CodeTable
    """The server's, with the members' labels."""
    told: Mapping[str, CodeTable]
    """The members', where the variant tells them."""
    record: RunRecord
    seconds: float


@dataclass(slots=True)
class Loopback:
    """The files of a federation, and the processes that were started on them."""

    folder: Path
    databases: Mapping[str, TransactionDatabase]
    port: int
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    stdout: Path | None = None
    """Where everybody's standard output goes; a file for each if left out."""

    @classmethod
    def make(
        cls,
        folder: Path,
        databases: Mapping[str, TransactionDatabase],
        *,
        variant: str = "x",
        limits: Mapping[str, int] = NOTHING_LEFT_OUT,
        **timeouts: float,
    ) -> Loopback:
        """Write everything that a federation needs: certificates, its file, a secret and vocabulary, each one's data.

        All members have the same vocabulary. `limits` are those of the file that a policy has as well.
        """
        members = list(databases)
        make_demo_ca(folder / "trust", members, now=datetime.now(UTC))
        secret = ItemSecret.from_random(os.urandom(32))
        secret.write(folder / "secret.txt")
        agreed = Vocabulary.of(next(iter(databases.values())).vocabulary, secret)
        agreed.write(folder / "vocabulary.json")
        for name, database in databases.items():
            with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as stream:
                rows = csv.writer(stream)
                rows.writerow((TRANSACTION, ITEM))
                rows.writerows((at, label) for at in range(len(database)) for label in database.transaction(at))
        made = cls(folder, databases, free_port())
        chosen: dict[str, Any] = {
            "items.vocabulary_digest": agreed.digest.hex(),
            "items.secret_fingerprint": secret.fingerprint,
            **{f"limits.{name}": limit for name, limit in limits.items()},
            **{f"timeouts.{name}": seconds for name, seconds in timeouts.items()},
        }
        for name in members:
            write_policy(
                folder / "trust" / name / POLICY,
                policy_variants=[variant],
                policy_min_members=2,
                **{f"policy_{name}": limit for name, limit in limits.items()},
            )
        write_template(made.file, "loopback", members, variant, host=HOST, port=made.port, chosen=chosen)
        return made

    @property
    def file(self) -> Path:
        """The federation's file."""
        return self.folder / "federation.toml"

    def out(self, who: str) -> Path:
        """The folder of the server's or a member's results."""
        return self.folder / f"out-{who}"

    def start_server(self, *more: str) -> subprocess.Popen[bytes]:
        """Start the server; what it says goes to `server.txt` and `server.err`."""
        return self._start("server", "server", *more)

    def start_member(self, name: str, *more: str) -> subprocess.Popen[bytes]:
        """Start a member."""
        own = ("--name", name, "--data", str(self.folder / f"{name}.csv"))
        columns = ("--transaction-column", TRANSACTION, "--item-column", ITEM)
        shared = ("--secret", str(self.folder / "secret.txt"), "--vocabulary", str(self.folder / "vocabulary.json"))
        return self._start(name, "member", *own, *columns, *shared, *more)

    def _start(self, who: str, command: str, *more: str) -> subprocess.Popen[bytes]:
        given = [sys.executable, "-m", "fedslim", command, str(self.file), "--out", str(self.out(who)), *more]
        if "--identity" not in more:
            given += ["--identity", str(self.folder / "trust" / who)]
        shown = self.folder / f"{who}.txt" if self.stdout is None else self.stdout
        with shown.open("ab") as stdout, (self.folder / f"{who}.err").open("ab") as stderr:
            process = subprocess.Popen(given, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr)  # noqa: S603
        self.processes.append(process)
        return process

    def said(self, who: str) -> str:
        """What the server or a member has said on stderr so far, in all its lives."""
        return (self.folder / f"{who}.err").read_text("utf-8")

    def run(self) -> LoopbackResult:
        """Start everybody, wait for the end and give back what was found; nobody is left behind.

        Raises:
            RunError: Somebody failed; the message has its last words.
        """
        began = time.monotonic()
        started = {"server": self.start_server(), **{name: self.start_member(name) for name in self.databases}}
        try:
            waiting = dict(started)
            while waiting:
                for who, process in list(waiting.items()):
                    if process.poll() is None:
                        continue
                    del waiting[who]
                    if process.returncode:
                        msg = f"{who} ended with {process.returncode}: {(self.said(who).splitlines() or [''])[-1]}"
                        raise RunError(msg)
                if time.monotonic() - began > MAX_SECONDS:
                    msg = f"{', '.join(waiting)} did not end within {MAX_SECONDS:.0f} s"
                    raise RunError(msg)
                time.sleep(0.02)
        finally:
            self.close()
        return self.result(time.monotonic() - began)

    def result(self, seconds: float = 0.0) -> LoopbackResult:
        """What is in the folders; items that somebody knows by number or id only get their labels back."""
        labels = next(iter(self.databases.values())).vocabulary
        names = {f"item {number}": label for number, label in enumerate(labels)}
        secret = ItemSecret.read(self.folder / "secret.txt")
        names |= {f"#{one.hex()}": label for one, label in zip(secret.ids_of(labels), labels, strict=True)}
        table = CodeTable.load(self.out("server") / "codetable.json").renamed(names)
        record = load_run(self.out("server"))
        # In so a member has a table of its own, and is not told that of all.
        saved = {} if record.variant == "so" else {name: self.out(name) / "codetable.json" for name in self.databases}
        told = {name: CodeTable.load(path).renamed(names) for name, path in saved.items() if path.exists()}
        return LoopbackResult(table, told, record, seconds)

    def close(self) -> None:
        """End whatever still runs."""
        for process in self.processes:
            with contextlib.suppress(OSError):
                process.kill()
            process.wait()
        self.processes.clear()


def free_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as line:
        line.bind((HOST, 0))
        port: int = line.getsockname()[1]
        return port
