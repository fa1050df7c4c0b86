from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedslim.cli import app, main
from fedslim.cli.console.output import say
from fedslim.errors import CodeTableError, DataError, MissingExtraError, RunError, WriteError


@pytest.fixture
def failing(monkeypatch):
    """Makes `fedslim data describe x` end with an error."""

    def end_with(error):
        def load(*_, **__):
            raise error

        monkeypatch.setattr("fedslim.data.load", load)
        return ("data", "describe", "x")

    return end_with


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["mien"], "'mien'"),
        (["mine"], "'DATA'"),
        (["mine", "encounters", "--nonsense"], "--nonsense"),
        (["mine", "encounters", "--top", "-1"], "'--top'"),
        (["mine", "encounters", "--top", "some"], "'--top'"),
        (["mine", "encounters", "--max-time", "nan"], "'--max-time'"),
        (["mine", "encounters", "--max-time", "inf"], "'--max-time'"),
        (["mine", "encounters", "--max-time", "0"], "'--max-time'"),
        (["mine", "encounters", "--max-time", "-3"], "'--max-time'"),
        (["mine", "encounters", "--effort", "0"], "'--effort'"),
        (["mine", "encounters", "--effort", "99"], "'--effort'"),
        (["mine", "encounters", "--min-support", "0"], "'--min-support'"),
        (["mine", "encounters", "--max-itemset-size", "0"], "'--max-itemset-size'"),
        (["mine", "encounters", "--threads", "0"], "'--threads'"),
        (["mine", "encounters", "--order", "size"], "'--order'"),
        (["mine", "encounters", "--bins", "1"], "'--bins'"),
        (["mine", "encounters", "--seed", "-1"], "'--seed'"),
        (["data", "make", "wide-sparse"], "'--out'"),
        (["data", "make", "wide-sparse", "--out", "x.dat", "--transactions", "0"], "'--transactions'"),
        (["data", "describe", "encounters", "--top", "-1"], "'--top'"),
        (["show"], "'FILE'"),
        (["vocabulary", "secret"], "'FILE'"),
        (["vocabulary", "make", "encounters", "--out", "x"], "'--secret'"),
        (["vocabulary", "make", "encounters", "--secret", "x"], "'--out'"),
        (["vocabulary", "merge", "--out", "x"], "'FILE"),
        (["vocabulary", "show"], "'FILE'"),
        (["federation", "init", "--variant", "y"], "'--variant'"),
        (["federation", "init", "--port", "0"], "'--port'"),
        (["audit"], "'FILE'"),
    ],
)
def test_wrong_usage_is_one_line_that_names_the_option_and_the_help(fedslim, arguments, told):
    ran = fedslim(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.only_line.startswith("fedslim: error: ")
    assert told in ran.only_line
    assert ran.only_line.endswith(" --help)")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["mine", "nowhere.dat"], "nowhere.dat"),
        (["mine", "encounterz"], "did you mean encounters"),
        (["mine", "."], "folder"),
        (["mine", "encounters", "--format", "csv"], "is generated"),
        (["mine", "wide-sparse:many"], "number of transactions"),
        (["show", "nowhere.json"], "nowhere.json"),
        (["federation", "check", "nowhere.toml"], "nowhere.toml: there is no such file"),
        (["audit", "nowhere.jsonl"], "nowhere.jsonl: there is no such file"),
        (["vocabulary", "secret", "."], "already exists"),
        (["vocabulary", "make", "encounters", "--secret", "nowhere", "--out", "x"], "nowhere: there is no such file"),
        (["vocabulary", "merge", "a.json", "--out", "x"], "a.json is the only vocabulary"),
        (["vocabulary", "merge", "a.json", "b.json", "--out", "x"], "a.json: there is no such file"),
        (["vocabulary", "merge", "a.json", "b.json", "--out", "."], "--out .: this is a folder"),
        (["vocabulary", "show", "nowhere.json"], "nowhere.json"),
        (["data", "get", "nothing"], "nothing"),
        (["data", "get", "chess", "--from", "nowhere"], "--from"),
        (["data", "list", "--from", "nowhere"], "--from"),
        (["data", "describe", "nowhere.csv"], "nowhere.csv"),
        (["data", "make", "nothing", "--out", "x.dat"], "encounters"),
        (["data", "make", "encounters", "--out", "x.csv"], ".dat"),
        (["data", "make", "encounters", "--out", "x.dat", "--transactions", "3"], "--transactions"),
    ],
)
def test_bad_input_ends_with_2_and_one_line(fedslim, tmp_path, monkeypatch, arguments, told):
    monkeypatch.chdir(tmp_path)
    ran = fedslim(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.only_line.startswith("fedslim: error: ")
    assert told in ran.only_line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DataError("bad"), 2),
        (CodeTableError("bad"), 2),
        (MissingExtraError("bad"), 2),
        (RunError("bad"), 1),
        (WriteError("bad"), 1),
    ],
)
def test_our_errors_end_with_their_exit_code(fedslim, failing, error, code):
    ran = fedslim(*failing(error))
    assert (ran.code, ran.only_line) == (code, "fedslim: error: bad")


def test_other_errors_are_ours_to_mend(fedslim, failing):
    ran = fedslim(*failing(KeyError("oh\nno")))
    assert ran.code == 1
    assert ran.only_line.startswith("fedslim: internal error: KeyError: ")
    assert ran.only_line.endswith("; run again with --debug, and report this as a bug")


def test_too_little_memory_is_no_bug(fedslim, failing):
    ran = fedslim(*failing(MemoryError()))
    assert (ran.code, "memory" in ran.only_line, "internal" in ran.only_line) == (1, True, False)


@pytest.mark.parametrize("place", [0, 2, 3])
def test_debug_shows_where_an_error_came_from_wherever_it_is_written(fedslim, failing, place):
    arguments = list(failing(DataError("bad")))
    arguments.insert(place, "--debug")
    ran = fedslim(*arguments)
    assert ran.code == 2
    assert ran.err.startswith("Traceback (most recent call last):\n")
    assert ran.err.endswith("\nfedslim: error: bad\n")


def test_what_follows_two_dashes_is_no_option(fedslim):
    ran = fedslim("mine", "--", "--debug")
    assert ran.only_line.startswith("fedslim: error: '--debug' is neither an existing file")


def test_an_error_cannot_send_escape_sequences(fedslim, failing):
    ran = fedslim(*failing(DataError("\x1b[31mred\x07 \x9b2J\u202e\nand more")))
    assert ran.only_line == "fedslim: error: \ufffd[31mred\ufffd \ufffd2J\ufffd and more"


def test_whatever_is_said_is_one_line(capsys):
    say("converged\nfedslim: error: call 555\r\x1b[2J")
    assert capsys.readouterr().err == "converged fedslim: error: call 555 \ufffd[2J\n"


def test_an_interrupt_is_one_line_and_130(capsys, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "run", interrupted)
    assert main(["--help"]) == 130
    assert capsys.readouterr().err == "fedslim: interrupted\n"


def test_a_reader_that_goes_away_ends_it_quietly():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "fedslim", "--help"], stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])  # a buffer is flushed, and fails, once more at exit
@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["data", "list"], ["data", "list", "--json"]])
def test_output_that_finds_no_room_is_a_failed_run(arguments, unbuffered, monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "fedslim", *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr.startswith("fedslim: error: the output cannot be written")
    assert "Traceback" not in done.stderr
