"""Completion as a shell asks for it: the words so far are in the environment."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys

import pytest

HEAVY = {"numpy", "numba", "sklearn", "msgspec", "cryptography"}

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")


@pytest.fixture
def complete(process):
    def ask(line):
        words = line.split(" ")
        asked = {"_FEDSLIM_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
        ran = process(env=os.environ | asked)
        assert (ran.code, ran.err) == (0, "")
        return ran.out.split()

    return ask


@pytest.mark.parametrize(
    ("line", "suggested"),
    [
        ("fedslim mi", ["mine"]),
        ("fedslim mem", ["member"]),
        ("fedslim cl", []),  # the old name of `member` is not suggested
        ("fedslim data ", ["list", "get", "describe", "make"]),
        ("fedslim mine --max-t", ["--max-time"]),
        ("fedslim simulate --variant ", ["x", "sa", "so"]),
    ],
)
def test_words_are_completed(complete, line, suggested):
    assert complete(line) == suggested


def test_no_hidden_command_is_suggested(complete):
    assert "client" not in complete("fedslim ")


def test_completing_loads_nothing_heavy(loaded_by, monkeypatch):
    for name, value in {"_FEDSLIM_COMPLETE": "complete_bash", "COMP_WORDS": "fedslim mi", "COMP_CWORD": "1"}.items():
        monkeypatch.setenv(name, value)
    assert loaded_by() & HEAVY == set()


def test_an_instruction_that_is_none_is_an_error(process):
    ran = process(env=os.environ | {"_FEDSLIM_COMPLETE": "nonsense"})
    assert (ran.code, ran.out) == (1, "")
    assert "Invalid completion instruction" in ran.only_line


def test_an_empty_instruction_is_none(process):
    ran = process("no-such-command", env=os.environ | {"_FEDSLIM_COMPLETE": ""})
    assert (ran.code, ran.out) == (2, "")
    assert ran.only_line.startswith("fedslim: error: ")


@pytest.fixture
def bash(tmp_path):
    """Runs a script in bash with its own home folder, and `fedslim` on its path."""
    command = tmp_path / "bin" / "fedslim"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m fedslim "$@"\n')
    command.chmod(0o755)
    surroundings = os.environ | {"HOME": str(tmp_path), "PATH": f"{command.parent}:{os.environ['PATH']}"}

    def run(script):
        return subprocess.run(
            [shutil.which("bash"), "--norc", "-c", script],
            env=surroundings,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout

    return run


COMPLETED = 'COMP_WORDS=(fedslim mi); COMP_CWORD=1; _fedslim_completion fedslim; echo "${COMPREPLY[@]}"'


@needs_bash
def test_the_script_that_is_shown_completes_in_bash(bash):
    script = bash("fedslim --show-completion; true")  # `true` keeps bash alive, so that it is recognised
    assert "complete -o default -F _fedslim_completion fedslim" in script
    assert bash(f"{script}\n{COMPLETED}") == "mine\n"


@needs_bash
def test_the_script_that_is_installed_completes_in_bash(bash, tmp_path):
    assert "completion installed in" in bash("fedslim --install-completion; true")
    assert "bash_completions/fedslim.sh" in (tmp_path / ".bashrc").read_text()
    assert bash(f". ~/.bashrc; {COMPLETED}") == "mine\n"
