from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from fedslim.safeguards.ledger import AnswerLedger, Snapshot
from fedslim.settings.federation_file import write_template
from fedslim.settings.policy import write_policy

NOW = datetime(2026, 3, 4, 5, 6, tzinfo=UTC)
DATA, OTHER = Snapshot("ab" * 32, 850), Snapshot("cd" * 32, 851)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def among(members, path):
    return write_template(path, "Heart Study", list(members), chosen={"items.vocabulary_digest": "0" * 64})


@pytest.fixture
def four():
    return among("abcd", "four.toml")


@pytest.fixture
def ledger(tmp_path):
    return AnswerLedger(tmp_path / "certificates" / "ledger.json")


def test_nothing_was_answered_yet(fedslim, ledger):
    ran = fedslim("ledger", "show")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.split(maxsplit=2) == ["file", str(ledger.path), "answered  nothing yet\n"]


def test_show_says_what_was_answered_and_what_a_second_result_would_reveal(fedslim, four, ledger):
    ledger.record(four, DATA, b"run 1", now=NOW)
    ledger.record(four, OTHER, b"run 2", now=NOW)
    ran = fedslim("ledger", "show")
    assert (ran.code, ran.err) == (0, "")
    assert "850     1  abababab  2026-03-04 05:06 UTC  2026-03-04 05:06 UTC  Heart Study  a, b, c, d\n" in ran.out
    assert "2 sets of members, on 2 versions of the data\n" in ran.out
    assert "with one member more or fewer, it would reveal that member's counts: it is refused\n" in ran.out
    assert "together reveal the counts of what changed between 850 and 851 transactions\n" in ran.out
    assert fedslim("ledger", "show", ledger.path).out == ran.out
    assert fedslim("ledger", "show", "--identity", "certificates").out == ran.out
    record = json.loads(fedslim("ledger", "show", "--json").out)
    assert [each["transactions"] for each in record["answers"]] == [850, 851]
    assert len(record["reveals"]) == 4


def test_allow_lets_a_set_of_members_be_answered(fedslim, four, ledger):
    ledger.record(four, DATA, b"run 1", now=NOW)
    three = among("abc", "three.toml")
    ran = fedslim("ledger", "allow", "three.toml", "--reason", "d has left, and agrees")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"{ledger.path}: 'a', 'b', 'c' are allowed from now on, on any data\n"
    ledger.check(three, DATA)
    told = fedslim("ledger", "show").out
    assert f"a, b, c, on {datetime.now(UTC):%Y-%m-%d}" in told
    assert "d has left, and agrees\n" in told


@pytest.mark.usefixtures("four")
def test_allow_finds_the_ledger_by_identity_and_policy(fedslim, tmp_path):
    write_policy("member/policy.toml", ledger_file="books/answered.json")
    for how in (("--identity", "member"), ("--policy", "member/policy.toml")):
        assert fedslim("ledger", "allow", "four.toml", *how).code == 0
    found = AnswerLedger(tmp_path / "member" / "books" / "answered.json").entries()
    assert [each.reason for each in found.allowed] == ["", ""]
    assert "no reason given" in fedslim("ledger", "show", "--identity", "member").out


@pytest.mark.parametrize(
    ("how", "told"),
    [
        (("show", "none.json"), "none.json: the file does not exist"),
        (("show", "none.json", "--identity", "x"), "both name a ledger"),
        (("allow", "four.toml", "--reason", "a\nb"), "one line of at most 500 characters"),
        (("allow", "none.toml"), "none.toml: there is no such file"),
    ],
)
@pytest.mark.usefixtures("four")
def test_what_cannot_be_used_is_said(fedslim, tmp_path, how, told):
    ran = fedslim("ledger", *how)
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.only_line
    assert [path.name for path in tmp_path.iterdir()] == ["four.toml"]


def test_a_damaged_ledger_is_said(fedslim, ledger):
    ledger.path.parent.mkdir()
    ledger.path.write_text("{}")
    ran = fedslim("ledger", "show")
    assert (ran.code, ran.out) == (2, "")
    assert "this member's ledger is damaged" in ran.only_line


def test_the_engine_is_not_loaded(loaded_by):
    assert loaded_by("ledger", "show") & {"numba", "sklearn"} == set()
