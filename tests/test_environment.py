from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "tools" / "environment.sh"
INTERPRETER = """#!/bin/sh
case "$*" in
    *'import pip'*) exit {broken} ;;
    *ensurepip*) exit {bare} ;;
    *print*) echo its-package ;;
    -c*) exit {old} ;;
    '-m venv'*)
        mkdir -p "$4/bin"
        echo "$0" > "$4/made-by"
        echo '#!/bin/sh' > "$4/bin/python"
        chmod +x "$4/bin/python"
        ;;
esac
"""


@pytest.fixture
def machine(tmp_path):
    """A machine with few programs, and a function that puts an interpreter on it."""
    programs, home = tmp_path / "bin", tmp_path / "home"
    programs.mkdir()
    home.mkdir()
    for name in ("sh", "mkdir", "chmod", "touch"):
        (programs / name).symlink_to(shutil.which(name))

    def put(name, *, old=False, bare=False, broken=False, folder=programs):
        path = folder / name
        path.write_text(INTERPRETER.format(old=int(old), bare=int(bare), broken=int(broken)))
        path.chmod(0o755)
        return path

    def run(**given):
        surroundings = {name: value for name, value in os.environ.items() if name != "PYTHON"}
        surroundings |= {"PATH": str(programs), **given}
        command = [str(SCRIPT), "env", "dev"]
        return subprocess.run(command, cwd=home, env=surroundings, capture_output=True, text=True, check=False)

    def made_by():
        return Path((home / "env" / "made-by").read_text().strip()).name

    put.run, put.made_by, put.home = run, made_by, home
    return put


@pytest.mark.parametrize(
    ("good", "old", "chosen"),
    [
        (["python3", "python3.14"], [], "python3"),
        (["python3.11", "python3.12"], ["python3"], "python3.12"),
        (["python3.12", "python3.15"], [], "python3.15"),
    ],
)
def test_an_interpreter_is_found(machine, good, old, chosen):
    for name in good:
        machine(name)
    for name in old:
        machine(name, old=True)
    done = machine.run()
    assert (done.returncode, done.stderr) == (0, "")
    assert machine.made_by() == chosen
    assert (machine.home / "env" / ".ready").exists()


def test_the_one_that_is_named_is_taken(machine):
    machine("python3")
    assert machine.run(PYTHON=str(machine("mine", folder=machine.home))).returncode == 0
    assert machine.made_by() == "mine"


@pytest.mark.parametrize("old", [True, False])
def test_where_there_is_none_that_is_said_in_one_line(machine, old):
    if old:
        machine("python3", old=True)
    done = machine.run()
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "3.11" in done.stderr
    assert not (machine.home / "env").exists()


def test_one_that_is_named_and_of_no_use_is_named_again(machine):
    machine("python3")
    machine("ancient", old=True)
    done = machine.run(PYTHON="ancient")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "ancient" in done.stderr


def test_what_is_missing_to_make_environments_is_named(machine):
    machine("python3", bare=True)
    done = machine.run()
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "its-package" in done.stderr


def test_an_environment_that_works_is_kept(machine):
    machine("python3")
    (machine.home / "env" / "bin").mkdir(parents=True)
    machine("python", folder=machine.home / "env" / "bin")
    assert machine.run().returncode == 0
    assert not (machine.home / "env" / "made-by").exists()


@pytest.mark.parametrize("gone", [True, False])
def test_an_environment_that_lost_its_interpreter_is_made_anew(machine, gone):
    machine("python3")
    (machine.home / "env" / "bin").mkdir(parents=True)
    if not gone:
        machine("python", broken=True, folder=machine.home / "env" / "bin")
    assert machine.run().returncode == 0
    assert machine.made_by() == "python3"
