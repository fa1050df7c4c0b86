"""A member waits longer after each refusal; its policy decides what it keeps of a result."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from fedslim.data import ItemSecret, TransactionDatabase
from fedslim.errors import LedgerError, PolicyError, WriteError
from fedslim.mdl.mining import mine
from fedslim.safeguards import guard as room
from fedslim.safeguards.guard import Guard, Refusals
from fedslim.settings.federation_file import write_template
from fedslim.settings.policy import MemberPolicy, write_policy

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
WAITS = [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]


def later(seconds):
    return NOW + timedelta(seconds=seconds)


@pytest.fixture
def refusals(tmp_path):
    return Refusals(tmp_path / "refusals.json", "ab" * 16)


@pytest.fixture
def file(tmp_path):
    return write_template(
        tmp_path / "federation.toml", "hospitals", list("abc"), chosen={"items.vocabulary_digest": "0" * 64}
    )


def test_nobody_waits_before_a_refusal(refusals):
    assert (refusals.wait(NOW), refusals.count) == (0.0, 0)
    refusals.reset()
    assert not refusals.path.exists()


def test_each_refusal_doubles_the_wait_up_to_an_hour(refusals):
    now = NOW
    for number, seconds in enumerate(WAITS, 1):
        refusals.add(now)
        assert (refusals.wait(now), refusals.count) == (seconds, number)
        now += timedelta(seconds=seconds)
        assert refusals.wait(now - timedelta(seconds=1)) == 1.0
        assert refusals.wait(now) == 0.0


def test_the_wait_outlives_the_process(refusals):
    refusals.add(NOW)
    again = Refusals(refusals.path, "ab" * 16)
    assert again.wait(later(10)) == 20.0
    assert refusals.path.stat().st_mode & 0o777 == 0o600


def test_a_run_that_ended_well_is_a_new_beginning(refusals):
    for _ in range(5):
        refusals.add(NOW)
    refusals.reset()
    assert refusals.wait(NOW) == 0.0
    refusals.add(NOW)
    assert refusals.wait(NOW) == 30.0


def test_federations_do_not_wait_for_each_other(refusals):
    other = Refusals(refusals.path, "cd" * 16)
    refusals.add(NOW)
    assert other.wait(NOW) == 0.0
    other.add(NOW)
    refusals.reset()
    assert (refusals.wait(NOW), other.wait(NOW)) == (0.0, 30.0)


def test_a_clock_that_is_put_back_makes_nobody_wait_for_ever(refusals):
    refusals.add(later(1e6))
    assert refusals.wait(NOW) == 30.0
    assert refusals.wait(later(30)) == 0.0


def test_any_number_of_refusals_is_an_hour(refusals):
    for _ in range(3):
        refusals.add(NOW)
    refusals.path.write_text(refusals.path.read_text().replace('"count": 3', '"count": 123456789012345'))
    assert refusals.wait(NOW) == 3600.0


def test_the_file_stays_small(refusals, monkeypatch):
    monkeypatch.setattr(room, "MAX_ENTRIES", 3)
    for number in range(5):
        Refusals(refusals.path, f"{number:032x}").add(later(number))
    assert [Refusals(refusals.path, f"{k:032x}").count for k in range(5)] == [0, 0, 1, 1, 1]


def test_a_damaged_file_is_an_error(refusals):
    refusals.path.write_text("{")
    with pytest.raises(LedgerError, match=r"refusals\.json: .* damaged .* remove it"):
        refusals.wait(NOW)


# -- the guard -------------------------------------------------------------------------------------------------------


def test_a_guard_checks_the_policy_before_anything_else(tmp_path):
    two = write_template(tmp_path / "f.toml", "two", ["a", "b"], chosen={"items.vocabulary_digest": "0" * 64})
    with pytest.raises(PolicyError):
        Guard(MemberPolicy.find(tmp_path), two)


def test_a_member_waits_and_says_so(file, tmp_path, logged):
    guard = Guard(MemberPolicy.find(tmp_path), file, first_wait=0.5)
    asyncio.run(guard.waited())
    assert logged.messages == []
    guard.refused()
    asyncio.run(guard.waited())
    (told,) = logged.messages
    assert told.startswith("this member and the server refused each other (1 time); the member reconnects in 0.")
    assert f"remove {tmp_path / 'refusals.json'}" in told
    assert guard.wait() == 0.0
    guard.finished()
    assert guard.refusals.count == 0


def test_what_is_answered_is_written_down_once(file, tmp_path):
    guard = Guard(MemberPolicy.find(tmp_path), file, now=lambda: NOW)
    guard.admit(TransactionDatabase.from_transactions([["x"]]))
    assert not guard.ledger.path.exists()
    for _ in range(3):
        guard.answering(b"run")
    [found] = guard.ledger.entries().answers
    assert (found.transactions, found.runs, found.run) == (1, 1, b"run".hex())


def test_what_could_not_be_written_down_is_not_taken_for_written(file, tmp_path, monkeypatch):
    guard = Guard(MemberPolicy.find(tmp_path), file, now=lambda: NOW)
    guard.admit(TransactionDatabase.from_transactions([["x"]]))

    def full(*_given, **_how):
        message = "the disk is full"
        raise WriteError(message)

    with monkeypatch.context() as patch:
        patch.setattr(guard.ledger, "record", full)
        for _ in range(2):  # a second attempt fails too
            with pytest.raises(WriteError):
                guard.answering(b"run")
    guard.answering(b"run")
    assert len(guard.ledger.entries().answers) == 1


def test_a_ledger_that_could_not_be_written_keeps_a_member_out(file, tmp_path, monkeypatch):
    guard = Guard(MemberPolicy.find(tmp_path / "new"), file)
    monkeypatch.setattr("os.access", lambda path, _mode: path != tmp_path / "new")
    with pytest.raises(WriteError, match=r"ledger\.json: this member's ledger cannot be written"):
        guard.admit(TransactionDatabase.from_transactions([["x"]]))


def test_too_few_transactions_are_not_admitted(file, tmp_path):
    write_policy(tmp_path / "policy.toml", policy_min_transactions=2)
    guard = Guard(MemberPolicy.find(tmp_path), file)
    with pytest.raises(PolicyError, match="min_transactions"):
        guard.admit(TransactionDatabase.from_transactions([["x"]]))


@pytest.mark.parametrize("kept", ["labels", "ids", "none"])
def test_what_is_kept_of_a_table(file, tmp_path, kept):
    write_policy(tmp_path / "policy.toml", results_table=kept)
    guard = Guard(MemberPolicy.find(tmp_path), file)
    secret = ItemSecret.from_random(bytes(32))
    theirs = "#" + secret.id_of("z").hex()  # an item that another member has
    ours = TransactionDatabase.from_transactions([["x", "y"]] * 9)
    table = mine(TransactionDatabase.from_transactions([["x", "y"], ["x", "y", theirs]] * 9)).table
    found = guard.kept(table, ours, secret)
    if kept == "labels":
        assert found == table
    elif kept == "none":
        assert found is None
    else:
        expected = ["#" + secret.id_of(label).hex() for label in "xyz"]
        assert sorted(found.vocabulary) == sorted(expected)
        assert found.found == table.found
