from __future__ import annotations

import re

import pytest
from typer.main import get_command

from fedslim import __version__
from fedslim.cli.app import app
from fedslim.cli.console import options, output
from fedslim.federated import folder
from fedslim.mdl import policy

TABLE = "--format --separator --encoding --query --table"
ROWS = f"{TABLE} --transaction-column --item-column --long --no-long"
READING = f"{ROWS} --bins --schema --columns --exclude --categorical --numeric --one-hot --no-one-hot --missing"
CONNECTING = "--host --port --identity"
COMMANDS = {
    "": "--version --debug --install-completion --show-completion",
    "mine": f"--out --report --top --max-time --effort --width --json --min-support --min-count --max-itemset-size "
    f"--order --no-pruning --threads {READING} --secret --from --seed "
    "--engine --address --workers --journal --live --quiet -q",
    "simulate": f"--variant --members --partition --alpha --min-dominant --seed --max-time --max-rounds --min-count "
    f"--min-members-with --width --effort --no-masking --engine --reference --classes --no-compare --out --top --json "
    f"{READING} --from --data-seed --schema --secret --live --quiet -q",
    "score": f"--out --top --json {ROWS} --from --quiet -q",
    "explain": f"--row --json {ROWS} --from --quiet -q",
    "compare": f"--by --new --fdr --out --top --json {READING} --from --quiet -q",
    "complete": f"--out --top --json {ROWS} --from --quiet -q",
    "rules": "--min-confidence --min-lift --out --top --json",
    "show": "--top --json --labels --secret",
    "report": f"--out --data --title --results --labels --secret {READING} --from",
    "demo": "--network --variant --out --quiet -q",
    "server": f"{CONNECTING} --out --resume --preparation --passphrase-file --classes --live",
    "member": f"{CONNECTING} {READING} --from --labels --name --data --out --policy --secret --vocabulary "
    "--passphrase-file --no-compare --schema --preparation --check --classes --class-column --live",
    "status": f"{CONNECTING} --watch --json",
    "audit": "--json",
    "data": "",
    "data list": "--from --json",
    "data get": "--from --quiet -q",
    "data describe": f"{READING} --from --seed --top --json --quiet -q",
    "data make": "--out --transactions --seed --quiet -q",
    "schema": "",
    "schema make": f"--out --with-values {TABLE} --quiet -q",
    "schema check": f"{TABLE} --json --quiet -q",
    "schema show": "--json",
    "vocabulary": "",
    "vocabulary secret": "",
    "vocabulary make": f"--secret --out {READING} --from --seed --quiet -q",
    "vocabulary merge": "--out --quiet -q",
    "vocabulary show": "--json",
    "federation": "",
    "federation init": "--name --members --variant --host --port --secret --fingerprint --vocabulary --schema "
    "--allow-two-members",
    "federation check": "--strict --json",
    "policy": "",
    "policy init": "",
    "policy check": "--policy --json",
    "policy show": "--json",
    "ledger": "",
    "ledger show": "--identity --json",
    "ledger allow": "--identity --policy --reason",
    "experiment": "",
    "experiment list": "--json",
    "experiment run": "--datasets --variants --seeds --jobs --references --results --from --quiet -q",
    "experiment show": "--datasets --variants --seeds --results --from --json",
    "ca": "",
    "ca init": "--name --days --passphrase --passphrase-file",
    "ca show": "--json",
    "ca sign": "--ca --role --host --days --renew --out --passphrase-file",
    "ca revoke": "--ca --passphrase-file",
    "ca crl": "--ca --days --passphrase-file",
    "ca list": "--ca --json",
    "ca demo": "--members",
    "enroll": "--name --host --out --passphrase --passphrase-file",
    "enroll install": "--ca --crl --fingerprint --out --passphrase-file",
    "enroll renew": "--host --new-key --passphrase-file",
    "enroll show": "--json --passphrase-file",
    "nvflare": "",
    "nvflare export": "--out --preparation",
    "nvflare site": "--name",
    "nvflare allow": "",
    "nvflare status": "--kit --json",
    "nvflare stop": "--kit",
}
"""Every command with its options. Removing one breaks scripts that use it."""
GROUPS = {name.partition(" ")[0] for name in COMMANDS if " " in name}
HEAVY = {"numpy", "numba", "llvmlite", "sklearn", "scipy", "pandas", "polars", "pyarrow", "msgspec", "cryptography"}


def walk(command, path=()):
    """Yield a command and its subcommands, each with its path."""
    yield " ".join(path), command
    for name, below in getattr(command, "commands", {}).items():
        yield from walk(below, (*path, name))


def options_of(command):
    return {name for each in command.params for name in (*each.opts, *each.secondary_opts) if name.startswith("-")}


def test_the_commands_and_options_are_those_promised():
    found = {path: options_of(command) for path, command in walk(get_command(app)) if not command.hidden}
    assert found == {path: set(options.split()) for path, options in COMMANDS.items()}


def test_old_names_of_commands_work(fedslim):
    assert fedslim("client", "--help") == fedslim("member", "--help")


@pytest.mark.parametrize("path", COMMANDS)
def test_help_names_every_option_and_command(fedslim, path):
    ran = fedslim(*path.split(), "--help")
    assert (ran.code, ran.err) == (0, "")
    words = set(re.findall(r"[\w-]+", ran.out))
    below = {name.removeprefix(f"{path} ") for name in COMMANDS if name.rpartition(" ")[0] == path and name}
    assert {*COMMANDS[path].split(), *below} <= words
    assert not re.search(r"^  client\b", ran.out, re.MULTILINE)


@pytest.mark.parametrize("path", ["", *sorted(GROUPS)])
def test_without_a_command_there_is_the_help(fedslim, path):
    assert fedslim(*path.split()) == fedslim(*path.split(), "--help")


def test_version(fedslim):
    assert fedslim("--version").out == f"fedslim {__version__}\n"


def test_the_highest_effort_is_the_engines():
    assert options.HIGHEST_EFFORT == policy.HIGHEST_EFFORT


def test_the_files_of_a_run_are_those_of_its_folder():
    assert {output.CODE_TABLE, output.RUN} < set(folder.RESULTS)


def test_the_widths_are_the_engines(fedslim):
    assert (options.WIDTH, options.MAX_WIDTH) == (policy.WIDTH, policy.MAX_WIDTH)
    for command in ("mine", "simulate"):
        told = " ".join(fedslim(command, "--help").out.split())
        assert f"1 to {policy.MAX_WIDTH}; 1 is SLIM as published. [default: {policy.WIDTH}]" in told


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["mine", "--help"],
        ["simulate", "--help"],
        ["demo", "--help"],
        ["report", "--help"],
        ["show", "--help"],
        ["--version"],
        ["data", "get", "--help"],
        ["vocabulary", "make", "--help"],
        ["federation", "init", "--help"],
        ["policy", "check", "--help"],
        ["ledger", "show", "--help"],
        ["audit", "--help"],
        ["ca", "sign", "--help"],
        ["enroll", "--help"],
    ],
)
def test_help_loads_nothing_heavy(loaded_by, arguments):
    assert loaded_by(*arguments) & HEAVY == set()


def test_python_dash_m_is_the_command(process):
    assert process("--version").out == f"fedslim {__version__}\n"
