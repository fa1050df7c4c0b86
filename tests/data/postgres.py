"""A private PostgreSQL server for tests, on a socket of its own, with a password."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

PASSWORD = "s3cret p@ss/word"  # noqa: S105  # with characters that a URL must escape


def binaries():
    """The folder of PostgreSQL's programs, or None."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [Path(shutil.which("initdb") or "/nowhere")]
    return found[-1].parent if found[-1].exists() else None


def unprivileged():
    """A user that may run the server: it refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name for entry in pwd.getpwall()}
    return {"user": next(name for name in ("postgres", "nobody") if name in names), "group": None}


class Postgres:
    def __init__(self, folder, programs, who):
        self.folder, self._programs = Path(folder), programs
        self._who = {key: value for key, value in who.items() if value is not None}
        self._server = None

    def url(self, password=PASSWORD):
        return f"postgresql://tester:{quote(password, safe='')}@/postgres?host={quote(str(self.folder), safe='')}"

    def run(self, sql, data=None):
        """Run SQL with psql; `data` is the input of a COPY FROM STDIN."""
        given = {"env": {"PGPASSWORD": PASSWORD, "PATH": os.environ["PATH"]}, "check": True, "capture_output": True}
        command = [
            self._programs / "psql",
            "-h",
            self.folder,
            "-U",
            "tester",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
            "postgres",
        ]
        return subprocess.run([*command, "-c", sql], input=data, **given)  # noqa: PLW1510

    def start(self):
        secret = self.folder / "password"
        secret.write_text(PASSWORD + "\n")
        if self._who:
            shutil.chown(self.folder, self._who["user"])
            shutil.chown(secret, self._who["user"])
        data = self.folder / "data"
        subprocess.run(
            [
                *(self._programs / "initdb", "-D", data, "-U", "tester", "--auth=scram-sha-256"),
                *(f"--pwfile={secret}", "--no-sync", "-E", "UTF8", "--locale=C"),
            ],
            check=True,
            capture_output=True,
            cwd=self.folder,
            **self._who,
        )
        self._server = subprocess.Popen(
            [
                *(self._programs / "postgres", "-D", data, "-c", "listen_addresses=", "-c", "fsync=off"),
                *("-c", f"unix_socket_directories={self.folder}"),
            ],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **self._who,
        )
        for _ in range(200):
            if (self.folder / ".s.PGSQL.5432").exists():
                try:
                    self.run("select 1")
                except subprocess.CalledProcessError:
                    pass
                else:
                    return self
            time.sleep(0.05)
        raise TimeoutError

    def stop(self):
        if self._server is not None:
            self._server.terminate()
            self._server.wait(30)


@contextmanager
def running():
    """Start a server and stop it in the end; raises FileNotFoundError if PostgreSQL is not installed."""
    programs = binaries()
    if programs is None:
        raise FileNotFoundError
    with tempfile.TemporaryDirectory(prefix="pg-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        server = Postgres(folder, programs, unprivileged())
        try:
            yield server.start()
        finally:
            server.stop()
