"""Run a federation of real processes on this machine: a server and its members over mutual TLS.

For demonstrations and tests: all keys are in one folder, without passphrases; see `trust/enrolment.py`.
"""

from __future__ import annotations

import contextlib
import csv
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fedslim.data import TransactionDatabase
from fedslim.data.vocabulary import ItemSecret, Vocabulary
from fedslim.errors import RunError
from fedslim.federated.records import RunRecord, load_run
from fedslim.mdl.codetable import CodeTable
from fedslim.settings.federation_file import write_template
from fedslim.settings.policy import FILE as POLICY, write_policy
from fedslim.trust.enrolment import make_demo_ca

HOST = "127.0.0.1"
TRANSACTION, ITEM = "transaction", "item"
MAX_SECONDS = 600.0
NOTHING_LEFT_OUT = MappingProxyType({"min_count": 1, "min_members_with": 1})
"""Limits with which x finds the table of all data in one place, including the rarest items."""


@dataclass(frozen=True, slots=True)
class LoopbackResult:
    """The results in the processes' run folders."""

    table: CodeTable  # the server's table, with the members' labels
    told: Mapping[str, CodeTable]  # the members' tables, if the variant sends them one
    record: RunRecord
    seconds: float


@dataclass(slots=True)
class Loopback:
    """The files of a federation and its processes."""

    folder: Path
    databases: Mapping[str, TransactionDatabase]
    port: int
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    stdout: Path | None = None
    """The file for the standard output of all processes; by default, one file for each process."""

    @classmethod
    def make(
        cls,
        folder: Path,
        databases: Mapping[str, TransactionDatabase],
        *,
        variant: str = "x",
        limits: Mapping[str, int] = NOTHING_LEFT_OUT,
        share_labels: str = "none",
        **timeouts: float,
    ) -> Loopback:
        """Write all files of a federation: certificates, federation file, secret, vocabulary, policies and data.

        All databases must have the same vocabulary. `limits` go into the federation file and the policies.
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
            "items.share_labels": share_labels,
            **{f"limits.{name}": limit for name, limit in limits.items()},
            **{f"timeouts.{name}": seconds for name, seconds in timeouts.items()},
        }
        for name in members:
            write_policy(
                folder / "trust" / name / POLICY,
                policy_variants=[variant],
                policy_min_members=2,
                policy_share_labels=share_labels,
                **{f"policy_{name}": limit for name, limit in limits.items()},
            )
        write_template(made.file, "loopback", members, variant, host=HOST, port=made.port, chosen=chosen)
        return made

    @property
    def file(self) -> Path:
        """The path of the federation file."""
        return self.folder / "federation.toml"

    def out(self, who: str) -> Path:
        """Return the run folder of the server or a member."""
        return self.folder / f"out-{who}"

    def start_server(self, *more: str) -> subprocess.Popen[bytes]:
        """Start the server; its output goes to `server.txt` and `server.err`."""
        return self._start("server", "server", *more)

    def start_member(self, name: str, *more: str) -> subprocess.Popen[bytes]:
        """Start a member; its output goes to `<name>.txt` and `<name>.err`."""
        own = ("--name", name, "--data", str(self.folder / f"{name}.csv"))
        columns = ("--transaction-column", TRANSACTION, "--item-column", ITEM)
        shared = ("--secret", str(self.folder / "secret.txt"), "--vocabulary", str(self.folder / "vocabulary.json"))
        return self._start(name, "member", *own, *columns, *shared, *more)

    def _start(self, who: str, command: str, *more: str) -> subprocess.Popen[bytes]:
        given = [sys.executable, "-m", "fedslim", command, str(self.file), "--out", str(self.out(who)), *more]
        if "--identity" not in more:
            given += ["--identity", str(self.folder / "trust" / who)]
        output = self.folder / f"{who}.txt" if self.stdout is None else self.stdout
        with output.open("ab") as stdout, (self.folder / f"{who}.err").open("ab") as stderr:
            process = subprocess.Popen(given, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr)  # noqa: S603
        self.processes.append(process)
        return process

    def said(self, who: str) -> str:
        """Return what the server or a member has written to stderr so far, including before restarts."""
        return (self.folder / f"{who}.err").read_text("utf-8")

    def run(self, *, compare: bool = False) -> LoopbackResult:
        """Start all processes, wait for them and return the result; no process is left running.

        With `compare`, members compare themselves with the others after the run.
        """
        began = time.monotonic()
        started = {"server": self.start_server()}
        started |= {name: self.start_member(name, *(() if compare else ("--no-compare",))) for name in self.databases}
        try:
            waiting = dict(started)
            while waiting:
                for who, process in list(waiting.items()):
                    if process.poll() is None:
                        continue
                    del waiting[who]
                    if process.returncode:
                        msg = f"{who} exited with {process.returncode}: {(self.said(who).splitlines() or [''])[-1]}"
                        raise RunError(msg)
                if time.monotonic() - began > MAX_SECONDS:
                    raise RunError(f"{', '.join(waiting)} did not end within {MAX_SECONDS:.0f} s")
                time.sleep(0.02)
        finally:
            self.close()
        return self.result(time.monotonic() - began)

    def result(self, seconds: float = 0.0) -> LoopbackResult:
        """Return the results in the run folders, with labels in place of items' numbers and ids."""
        labels = next(iter(self.databases.values())).vocabulary
        names = {f"item {number}": label for number, label in enumerate(labels)}
        secret = ItemSecret.read(self.folder / "secret.txt")
        names |= {f"#{one.hex()}": label for one, label in zip(secret.ids_of(labels), labels, strict=True)}
        table = CodeTable.load(self.out("server") / "codetable.json").renamed(names)
        record = load_run(self.out("server"))
        # In so, members save tables of their own and do not receive the common one.
        saved = {} if record.variant == "so" else {name: self.out(name) / "codetable.json" for name in self.databases}
        told = {name: CodeTable.load(path).renamed(names) for name, path in saved.items() if path.exists()}
        return LoopbackResult(table, told, record, seconds)

    def close(self) -> None:
        """Kill all processes that are still running."""
        for process in self.processes:
            with contextlib.suppress(OSError):
                process.kill()
            process.wait()
        self.processes.clear()


def free_port() -> int:
    """Return a port that is not in use."""
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        port: int = sock.getsockname()[1]
        return port
