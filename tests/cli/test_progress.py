from __future__ import annotations

import io
import math
import re
import time

import pytest
from rich.console import Console

from fedslim.cli.console import progress as shown
from fedslim.cli.console.progress import Lively, Plain, ProgressFacts, Reporter, reporter
from fedslim.mdl.driver import Progress, Stop


def at(seconds, **other):
    facts = {"policy": 1, "policies": 1, "itemsets": 12, "accepted": 14, "candidates": 1500, "percent": 31.824}
    return Progress(**{**facts, "best_gain": 1234.56, "seconds": seconds, "remaining": 25.0, **other})


@pytest.fixture
def screen():
    """A terminal in memory."""
    return Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None, markup=False)


# -- phrases ---------------------------------------------------------------------------------------------------------


def test_a_report_becomes_phrases():
    facts = ProgressFacts()
    facts.learn(at(1.0))
    facts.learn(at(2.0, accepted=114, itemsets=90))
    assert facts.policy == []
    assert facts.found == ["90 itemsets", "100 per second", "1,500 candidates tried", "L% 31.82"]
    assert facts.outlook == ["best candidate now 1,234.6 bits", "about 25 s to go"]


def test_a_local_search_tells_its_iterations_and_the_best_so_far():
    facts = ProgressFacts()
    facts.learn(at(1.0, policies=8, policy=8, iterations=1234, best=30.5))
    assert facts.policy == ["1,234 iterations"]
    assert facts.found[-2:] == ["L% 31.82", "best L% 30.50"]
    facts.learn(at(2.0, policies=8, policy=8, iterations=1235, best=31.824))
    assert facts.found[-1] == "L% 31.82"


def test_what_comes_beside_a_report_has_a_line_of_its_own():
    facts = ProgressFacts()
    facts.learn(at(1.0), ["384 rounds", "1.65 MB sent"])
    assert [line[0] for line in facts.lines()] == ["12 itemsets", "384 rounds", "best candidate now 1,234.6 bits"]
    facts.learn(at(2.0))
    assert len(facts.lines()) == 2


def test_nothing_is_said_before_the_first_report():
    facts = ProgressFacts()
    assert (facts.policy, facts.found, facts.outlook) == ([], [], [])


def test_what_is_not_known_is_left_out():
    facts = ProgressFacts()
    facts.learn(at(1.0, best_gain=math.inf, remaining=None))
    assert facts.outlook == []
    assert facts.found == ["12 itemsets", "1,500 candidates tried", "L% 31.82"]


def test_the_rate_is_the_present_one():
    facts = ProgressFacts()
    for second in range(101):
        facts.learn(at(float(second), accepted=100 * min(second, 50) + max(0, second - 50)))
    assert "1.0 per second" in facts.found


def test_each_policy_has_a_rate_of_its_own():
    facts = ProgressFacts()
    facts.learn(at(1.0, policies=4, accepted=1000))
    facts.learn(at(2.0, policies=4, policy=2, accepted=0))
    facts.learn(at(3.0, policies=4, policy=2, accepted=20))
    assert facts.policy == ["search 2 of 4"]
    assert "20 per second" in facts.found


# -- lines -----------------------------------------------------------------------------------------------------------


def test_lines_come_after_five_seconds_and_then_ever_more_rarely(capsys):
    with Plain().mining("data", Stop()) as on_progress:
        for tenth in range(10_000):
            on_progress(at(tenth / 10))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("fedslim: mining data: 5.0 s, 12 itemsets, ")
    assert 8 <= len(lines) <= 20
    assert all("L% 31.82" in line for line in lines)


def test_a_line_says_what_is_done_and_what_comes_beside_it(capsys):
    with Plain().mining("data", Stop(), "x over 10 members of") as on_progress:
        on_progress(at(7.0), ["384 rounds"])
    line = capsys.readouterr().err
    assert line.startswith("fedslim: x over 10 members of data: 7.0 s, 12 itemsets, ")
    assert ", L% 31.82, 384 rounds, best candidate" in line


def test_a_stage_is_told_if_it_lasts(capsys, monkeypatch):
    monkeypatch.setattr(shown, "WORTH_TELLING", 0.05)
    with Plain().stage("reading \x1b[1mx"):
        time.sleep(0.3)
    assert capsys.readouterr().err == "fedslim: reading \ufffd[1mx\n"
    monkeypatch.setattr(shown, "WORTH_TELLING", 5)
    with Plain().stage("reading x"):
        pass
    assert capsys.readouterr().err == ""


def test_quiet_is_quiet(capsys):
    silent = reporter(quiet=True)
    assert isinstance(silent, Reporter)
    with silent.stage("reading"), silent.mining("data", Stop()) as on_progress:
        assert on_progress is None
    assert capsys.readouterr() == ("", "")


def test_what_is_no_terminal_gets_lines_even_if_colours_are_wanted(monkeypatch, capsys):
    del capsys
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert isinstance(reporter(quiet=False), Plain)


# -- live ------------------------------------------------------------------------------------------------------------


def test_the_live_lines_say_everything(screen):
    stop = Stop()
    with Lively(screen).mining("my [data]\x1b[2J", stop) as on_progress:
        on_progress(at(1.0, policies=4, policy=2))
        time.sleep(0.4)
        stop.ask()
        time.sleep(0.4)
    text = screen.file.getvalue()
    for phrase in (
        *("mining my [data]\ufffd[2J", "search 2 of 4", "12 itemsets", "1,500 candidates tried", "L% 31.82"),
        *("best candidate now 1,234.6 bits", "about 25 s to go", shown.HINT, shown.STOPPING),
    ):
        assert phrase in text


def test_a_terminal_shows_live_progress_and_is_left_tidy(terminal):
    run = terminal("mine", "accidents-like:4000", "--max-time", "3", "--top", "3")
    run.wait_for("reading accidents-like:4000")
    run.wait_for("mining accidents-like:4000")
    run.wait_for("candidates tried")
    run.wait_for("Ctrl-C to stop with the best so far")
    assert run.finish() == 0
    assert run.screen.rfind("\x1b[?25h") > run.screen.rfind("\x1b[?25l")  # the cursor is back
    result = run.screen[run.screen.rfind("bits saved") :]
    assert "L%" in result
    assert "Ctrl-C for" not in result


@pytest.mark.parametrize("columns", [40, 80])
def test_a_table_fits_the_terminal(terminal, columns):
    run = terminal("mine", "encounters", "--quiet", columns=columns)
    assert run.finish() == 0
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in run.screen.splitlines()]
    assert max(map(len, lines)) <= columns
    assert "metformin" in run.screen
    assert "…" not in run.screen


def test_no_color_is_honoured(terminal, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    run = terminal("mine", "encounters")
    assert run.finish() == 0
    assert "mining encounters" in run.screen
    assert re.search(r"\x1b\[[0-9;]*[349][0-7]", run.screen) is None


def test_a_terminal_that_cannot_move_its_cursor_is_not_asked_to(terminal):
    run = terminal("mine", "encounters", term="dumb")
    assert run.finish() == 0
    assert "\x1b" not in run.screen
