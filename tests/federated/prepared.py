"""A federation of real processes whose members have tables and a schema."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime

import numpy as np

from fedslim.data import ItemSecret
from fedslim.federated.loopback import HOST, Loopback, free_port
from fedslim.protocol.preparation import Outline
from fedslim.schema import Schema
from fedslim.settings.federation_file import write_template
from fedslim.settings.policy import write_policy
from fedslim.trust.enrolment import make_demo_ca

MEMBERS = ("east", "north", "west")
SCHEMA = """
[columns.age]
kind = "numeric"
bins = 4
resolution = 5

[columns.hb]
kind = "numeric"
bins = 3
resolution = 0.5
unit = "g/dL"
units = {"g/L" = 0.1}

[columns.crea]
kind = "numeric"
bins = 3

[columns.sex]
kind = "categorical"
synonyms = {"female" = ["f", "w"], "male" = ["m"]}

[columns.drug]
kind = "categorical"
cap = 3
"""


def rows_of(number, seed=0):
    """Return rows of all columns: dictionaries of texts, as in a CSV file."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(number):
        old = rng.random() < 0.5
        rows.append(
            {
                "age": str(int(rng.integers(60, 95) if old else rng.integers(18, 60))),
                "hb": f"{rng.normal(11 if old else 14, 1):.1f}",
                "crea": "" if rng.random() < 0.1 else f"{rng.lognormal(0, 0.4):.3f}",
                "sex": str(rng.choice(["female", "male"])),
                "drug": str(rng.choice(["A", "B", "C", "D", "E"], p=[0.4, 0.3, 0.15, 0.1, 0.05])),
            }
        )
    return rows


def write_csv(path, rows, order=("age", "hb", "crea", "sex", "drug"), separator=","):
    lines = [separator.join(order), *(separator.join(row[name] for name in order) for row in rows)]
    path.write_text("\n".join(lines) + "\n", "utf-8")


class PreparedLoopback(Loopback):
    """The files of a federation with a schema; each member's columns are in another order."""

    @classmethod
    def of(cls, folder, rows, schema=SCHEMA, *, limits=None, policy=None, on_departure="stop", **timeouts):
        members = list(rows)
        make_demo_ca(folder / "trust", members, now=datetime.now(UTC))
        secret = ItemSecret.from_random(bytes(range(32)))
        secret.write(folder / "secret.txt")
        (folder / "schema.toml").write_text(schema, "utf-8")
        agreed = Schema.read(folder / "schema.toml")
        names = list(agreed.columns)
        for number, (name, own) in enumerate(rows.items()):
            write_csv(folder / f"{name}.csv", own, names[number:] + names[:number])
        write_csv(folder / "all.csv", [row for own in rows.values() for row in own], names)
        made = cls(folder, {}, free_port())
        limits = {"min_count": 1, "min_members_with": 1} | (limits or {})
        for name in members:
            chosen = {"policy_min_members": 2, "policy_min_count": 1, "policy_min_members_with": 1} | (policy or {})
            write_policy(folder / "trust" / name / "policy.toml", **chosen)
        chosen = {
            "items.secret_fingerprint": secret.fingerprint,
            "schema.digest": agreed.digest().hex(),
            "schema.outline": str(Outline.of(agreed)),
            "schema.on_departure": on_departure,
            **{f"limits.{name}": limit for name, limit in limits.items()},
            **{f"timeouts.{name}": seconds for name, seconds in timeouts.items()},
        }
        write_template(made.file, "prepared", members, "x", host=HOST, port=made.port, chosen=chosen)
        return made

    def start_member(self, name, *more, data=None):
        own = ("--name", name, "--data", str(data or self.folder / f"{name}.csv"))
        shared = ("--secret", str(self.folder / "secret.txt"), "--schema", str(self.folder / "schema.toml"))
        return self._start(name, "member", *own, *shared, *more)

    def mined(self, *more, out="all.json"):
        """Mine all rows in one place; return the bytes of the code table."""
        command = [sys.executable, "-m", "fedslim", "mine", str(self.folder / "all.csv"), "--top", "0", "-q"]
        command += ["--schema", str(self.folder / "schema.toml"), "--secret", str(self.folder / "secret.txt")]
        subprocess.run([*command, "--out", str(self.folder / out), *more], check=True, env=os.environ, timeout=300)
        return (self.folder / out).read_bytes()

    def wait(self, *processes, seconds=120):
        return [process.wait(seconds) for process in processes]
