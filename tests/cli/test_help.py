from __future__ import annotations

import pytest

from fedslim import __version__
from fedslim.cli.commands import mine
from fedslim.mdl import effort

MINE_OPTIONS = (
    *("--out", "--top", "--max-time", "--effort", "--json", "--min-support", "--max-itemset-size", "--order"),
    *("--no-pruning", "--threads", "--format", "--bins", "--transaction-column", "--item-column", "--from"),
    *("--seed", "--quiet"),
)
SIMULATE_OPTIONS = (
    *("--variant", "--members", "--partition", "--alpha", "--min-dominant", "--seed", "--max-time", "--max-rounds"),
    *("--no-masking", "--reference", "--no-compare", "--out", "--top", "--json", "--format", "--bins", "--from"),
    *("--transaction-column", "--item-column", "--data-seed", "--quiet"),
)
COMMANDS = (
    "mine",
    "simulate",
    "demo",
    "show",
    "report",
    "audit",
    "data",
    "vocabulary",
    "federation",
    "policy",
    "ledger",
    "ca",
    "enroll",
    "server",
    "member",
    "--version",
)
HEAVY = {"numpy", "numba", "llvmlite", "sklearn", "scipy", "pandas", "polars", "pyarrow", "msgspec", "cryptography"}


def test_help_names_every_command(fedslim):
    ran = fedslim("--help")
    assert (ran.code, ran.err) == (0, "")
    assert all(command in ran.out for command in COMMANDS)
    assert "--debug" in ran.out


def test_without_a_command_there_is_the_help(fedslim):
    assert fedslim() == fedslim("--help")
    assert fedslim("data") == fedslim("data", "--help")
    assert fedslim("vocabulary") == fedslim("vocabulary", "--help")
    assert fedslim("federation") == fedslim("federation", "--help")
    assert fedslim("policy") == fedslim("policy", "--help")
    assert fedslim("ledger") == fedslim("ledger", "--help")
    assert fedslim("ca") == fedslim("ca", "--help")
    assert fedslim("enroll") == fedslim("enroll", "--help")


@pytest.mark.parametrize(("command", "options"), [("mine", MINE_OPTIONS), ("simulate", SIMULATE_OPTIONS)])
def test_help_names_every_option(fedslim, command, options):
    ran = fedslim(command, "--help")
    assert ran.code == 0
    assert [option for option in options if option not in ran.out] == []


def test_help_has_no_completion_noise(fedslim):
    assert "completion" not in fedslim("--help").out


def test_version(fedslim):
    assert fedslim("--version").out == f"fedslim {__version__}\n"


def test_the_highest_effort_is_the_engines():
    assert mine.HIGHEST_EFFORT == effort.HIGHEST_EFFORT


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
