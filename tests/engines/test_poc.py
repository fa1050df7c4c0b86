"""NVFlare's proof-of-concept deployment: real processes, provisioned certificates, submitted jobs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from fedslim.cli import main
from fedslim.data import ItemSecret, TransactionDatabase, Vocabulary, generate
from fedslim.data.fimi import write_fimi
from fedslim.federated.loopback import free_port
from fedslim.federated.records import load_run
from fedslim.mdl.codetable import CodeTable
from fedslim.settings.federation_file import write_template

pytestmark = pytest.mark.skipif(
    find_spec("nvflare") is None,
    reason="NVFlare is not installed: make test-nvflare, or pip install 'fedslim[nvflare]'",
)

PROJECT = """\
api_version: 3
name: tests
participants:
- {{name: server, type: server, org: tests, default_host: localhost, fed_learn_port: {port}}}
- {{name: admin@tests.org, type: admin, org: tests, role: project_admin}}
- {{name: north, type: client, org: tests}}
- {{name: south, type: client, org: tests}}
- {{name: west, type: client, org: tests}}
builders:
- path: nvflare.lighter.impl.workspace.WorkspaceBuilder
  args: {{template_file: [master_template.yml, aws_template.yml, azure_template.yml]}}
- path: nvflare.lighter.impl.static_file.StaticFileBuilder
  args: {{config_folder: config}}
- path: nvflare.lighter.impl.cert.CertBuilder
- path: nvflare.lighter.impl.signature.SignatureBuilder
"""


class Deployment:
    """An NVFlare server and three sites on this machine."""

    def __init__(self, folder, sites):
        self.folder, self.sites = folder, sites
        self.env = {**os.environ, "HOME": str(folder), "NVFLARE_POC_WORKSPACE": str(folder / "poc")}
        self.env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        (folder / "project.yml").write_text(PROJECT.format(port=free_port()), "utf-8")
        self.nvflare("poc", "prepare", "-i", str(folder / "project.yml"))
        self.kits = folder / "poc" / "tests" / "prod_00"
        self.admin = self.kits / "admin@tests.org"
        assert main(["nvflare", "allow", str(self.kits / "server" / "local")]) == 0
        self.numbers = tuple(map(str, range(len(next(iter(sites.values())).vocabulary))))
        secret = ItemSecret.from_random(os.urandom(32))
        self.agreed = Vocabulary.of(self.numbers, secret)
        for name, database in sites.items():
            local = self.local(name)
            assert main(["nvflare", "site", str(local), "--name", name]) == 0
            self.give(name, replace(database, vocabulary=self.numbers))
            secret.write(local / "members.secret")
            self.agreed.write(local / "agreed.json")
            self.allow(name, source='"data.dat"', vocabulary='"agreed.json"')
            self.allow(name, variants='["x", "sa", "so"]', min_count=1, min_members_with=1)

    def local(self, name):
        return self.kits / name / "local"

    def give(self, name, database):
        """Write the data of a site."""
        write_fimi(database, self.local(name) / "data.dat")

    def nvflare(self, *arguments, check=True):
        done = subprocess.run(
            [sys.executable, "-m", "nvflare.cli", *arguments],
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=180,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def allow(self, name, **keys):
        """Change keys in a site's file or its policy."""
        for path in (self.local(name) / "fedslim-site.toml", self.local(name) / "policy.toml"):
            text = path.read_text("utf-8")
            for key, value in keys.items():
                text = re.sub(rf"(?m)^#? ?{key} = .*$", f"{key} = {value}", text)
            path.write_text(text, "utf-8")

    def submit(self, variant, **chosen):
        """Write a federation file and submit its job."""
        given = {
            "items.vocabulary_digest": self.agreed.digest.hex(),
            "limits.min_count": 1,
            "limits.min_members_with": 1,
            "timeouts.grace": 5,
            **chosen,
        }
        folder = self.folder / os.urandom(16).hex()
        write_template(folder / "federation.toml", "tests", list(self.sites), variant, chosen=given)
        for name in self.sites:
            (self.local(name) / "federation.toml").write_bytes((folder / "federation.toml").read_bytes())
            self.allow(name, log=json.dumps(str(folder / f"{name}.jsonl")))
        assert main(["nvflare", "export", str(folder / "federation.toml"), "--out", str(folder / "job")]) == 0
        said = self.nvflare("job", "submit", "-j", str(folder / "job"), "--startup-kit", str(self.admin))
        return re.search(r"job_id: (\S+)", said)[1]

    def begun(self, variant):
        """Submit a job and wait until it has found an itemset."""
        job = self.submit(variant)
        status = self.kits / "server" / job / "fedslim" / "status.json"
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            time.sleep(0.05)
            with contextlib.suppress(OSError, ValueError):
                if json.loads(status.read_bytes())["itemsets"] > 0:
                    return job
        pytest.fail(f"job {job} has found nothing in two minutes")

    def fedslim(self, *arguments):
        """Run a fedslim command in a separate process: NVFlare keeps sessions open as long as the process lives."""
        done = subprocess.run(
            [sys.executable, "-m", "fedslim", *arguments], env=self.env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def results(self, job, *, check=True):
        """Return the folder of results that the admin downloads."""
        said = self.nvflare("job", "wait", job, "--startup-kit", str(self.admin), check=check)
        out = self.folder / "results"
        self.nvflare("job", "download", job, "-o", str(out), "--startup-kit", str(self.admin))
        return out / job / "workspace" / "fedslim", said

    def processes(self, *words):
        listed = subprocess.run(["ps", "-wweo", "pid,args"], capture_output=True, text=True, check=True).stdout  # noqa: S607
        mine = [line for line in listed.splitlines() if str(self.folder) in line]
        return [int(line.split()[0]) for line in mine if all(word in line for word in words)]

    def close(self):
        """Kill only the processes started here, which have this folder in their arguments."""
        self.nvflare("poc", "stop", check=False)
        for process in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory, hospitals):
    made = Deployment(tmp_path_factory.mktemp("poc"), hospitals)
    try:
        made.nvflare("poc", "start")
        yield made
    finally:
        made.close()


@pytest.fixture
def long_run(deployed, hospitals):
    """A job that has found an itemset and will run for minutes, on data with many itemsets."""
    items = len(deployed.numbers)
    rows = [[str(int(label) % items) for label in row] for row in generate("accidents-like", transactions=3000)]
    for k, name in enumerate(deployed.sites):
        given = [sorted(set(row)) for row in rows[k::3]]
        deployed.give(name, TransactionDatabase.from_transactions(given, vocabulary=deployed.numbers))
    yield deployed.begun("sa")
    for name, database in hospitals.items():
        deployed.give(name, replace(database, vocabulary=deployed.numbers))


@pytest.mark.parametrize("variant", ["x", "sa", "so"])
def test_processes_find_the_table_of_our_own_transport(deployed, hospitals, native, variant):
    job = deployed.submit(variant)
    results, _ = deployed.results(job)
    labels = hospitals["north"].vocabulary
    assert replace(CodeTable.load(results / "codetable.json"), vocabulary=labels) == native[variant].table
    record = load_run(results).figures
    assert (record["ending"], record["rounds"]) == ("converged", native[variant].communication.rounds)
    if variant != "so":
        told = CodeTable.load(deployed.local("west") / "fedslim" / job / "codetable.json")
        assert replace(told, vocabulary=labels) == native[variant].table


def test_a_site_that_does_not_allow_the_variant_says_so_and_nothing_runs(deployed):
    deployed.allow("west", variants='["x"]')
    try:
        job = deployed.submit("so")
        results, said = deployed.results(job, check=False)
    finally:
        deployed.allow("west", variants='["x", "sa", "so"]')
    assert "EXCEPTION" in said
    reason = json.loads((results / "status.json").read_text("utf-8"))["reason"]
    why = "policy.variants has x, but federation.variant is so"
    assert reason == f"member 'west' gave up: this site does not take part: {why}"
    assert not (results / "run.json").exists()


def test_an_admin_can_ask_how_far_a_run_is_and_end_it_with_the_best_so_far(deployed, long_run):
    kit = ("--kit", str(deployed.admin))
    told = json.loads(deployed.fedslim("nvflare", "status", long_run, *kit, "--json"))
    assert told["rounds"] > 0
    assert "after this round" in deployed.fedslim("nvflare", "stop", long_run, *kit)
    results, _ = deployed.results(long_run)
    record = load_run(results).figures
    assert record["ending"] == "interrupted"
    assert record["rounds"] >= told["rounds"]
    table = CodeTable.load(deployed.local("west") / "fedslim" / long_run / "codetable.json")
    assert len(table) == record["itemsets"] > 0


def test_a_site_whose_process_is_killed_is_named_and_the_best_so_far_is_kept(deployed, long_run):
    [process] = deployed.processes("worker_process", long_run, "/west ")
    os.kill(process, signal.SIGKILL)
    results, said = deployed.results(long_run, check=False)
    assert "EXCEPTION" in said
    record = load_run(results).figures
    assert record["ending"] == "member lost"
    assert "west" in record["reason"]
    assert len(CodeTable.load(results / "codetable.json")) == record["itemsets"] > 0
