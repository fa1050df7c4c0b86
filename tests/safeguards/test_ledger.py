"""The ledger of a member allows no second result that, with the first, reveals one member's counts."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fedslim.data import TransactionDatabase
from fedslim.errors import DataError, LedgerError, WriteError
from fedslim.safeguards import ledger as answered
from fedslim.safeguards.ledger import AnswerLedger, Snapshot, describe_difference, singled_out
from fedslim.settings.federation_file import write_template

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
DATA, OTHER = Snapshot("ab" * 32, 850), Snapshot("cd" * 32, 851)


@pytest.fixture
def file(tmp_path):
    return write_template(
        tmp_path / "federation.toml", "Heart Study", list("abcd"), chosen={"items.vocabulary_digest": "0" * 64}
    )


@pytest.fixture
def ledger(tmp_path):
    return AnswerLedger(tmp_path / "new" / "ledger.json")


def among(file, members, name="f.toml"):
    federation = replace(file.federation, members=tuple(members), id=(name * 32)[:1].encode().hex() * 16)
    return replace(file, federation=federation, path=file.path.with_name(name))


# -- versions of data ------------------------------------------------------------------------------------------------

ROWS = st.lists(st.lists(st.sampled_from("abcde"), max_size=4), max_size=8)


@given(ROWS, st.randoms(use_true_random=False))
def test_the_same_transactions_are_the_same_version_in_whatever_order(rows, random):
    shuffled = [random.sample(row, len(row)) for row in random.sample(rows, len(rows))]
    one = TransactionDatabase.from_transactions(rows, vocabulary="abcde")
    other = TransactionDatabase.from_transactions(shuffled, vocabulary="edcbaz")
    assert Snapshot.of(one) == Snapshot.of(other)


@given(ROWS, ROWS)
def test_other_transactions_are_another_version(rows, others):
    one, other = (TransactionDatabase.from_transactions(each, vocabulary="abcde") for each in (rows, others))
    same = sorted(sorted(set(row)) for row in rows) == sorted(sorted(set(row)) for row in others)
    assert (Snapshot.of(one) == Snapshot.of(other)) == same


def test_no_data_are_a_version_too():
    assert Snapshot.of(TransactionDatabase.from_transactions([])).transactions == 0


# -- the rule --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "now", "why"),
    [
        ("abcd", "abcd", None),
        ("abcd", "abc", "the counts of 'd' alone"),
        ("abc", "abcd", "the counts of 'd' alone"),
        ("abcd", "ab", None),
        ("ab", "abcd", None),
        ("abcd", "abce", "the counts of 'e' minus those of 'd'"),
        ("abcd", "abef", None),
        ("abcd", "aefg", None),
        ("abcd", "abcefg", "the counts of 'e', 'f', 'g' minus those of 'd'"),
    ],
)
def test_whose_counts_two_results_reveal(before, now, why):
    assert describe_difference(list(before), frozenset(now)) == why


def test_the_rule_is_the_same_in_either_order():
    sets = [frozenset(each) for size in range(1, 6) for each in combinations("abcde", size)]
    for one, other in combinations(sets, 2):
        assert (describe_difference(one, other) is None) == (describe_difference(other, one) is None)


def test_a_member_does_not_answer_with_one_member_more_or_fewer(file, ledger):
    assert ledger.check(file, DATA) == []
    ledger.record(file, DATA, b"run 1", now=NOW)
    assert ledger.check(file, DATA) == []
    with pytest.raises(LedgerError) as refused:
        ledger.check(among(file, "abc"), DATA)
    told = str(refused.value)
    assert "this member answered 'a', 'b', 'c', 'd' on the same data on 2026-03-04 05:06 UTC" in told
    assert "reveal the counts of 'd' alone" in told
    assert f"`fedslim ledger allow {file.path.with_name('f.toml')} --identity {ledger.path.parent}`" in told
    assert refused.value.exit_code == 2
    assert ledger.check(among(file, "ab"), DATA) == []


def test_results_that_single_a_member_out_together_are_refused(file, ledger):
    """No two of these differ by one member; the sum of two minus the third gives the counts of 'a'."""
    for members in ("abc", "ade"):
        ledger.record(among(file, members), DATA, members.encode(), now=NOW)
    with pytest.raises(LedgerError, match="the counts of 'a' alone, together with earlier results"):
        ledger.check(among(file, "abcde"), DATA)
    assert ledger.check(among(file, "abcde"), OTHER) is not None
    assert ledger.check(among(file, "abcdefg"), DATA) == []


@given(st.lists(st.frozensets(st.sampled_from("abcdef"), min_size=1), max_size=6))
def test_singled_out_members_are_linear_combinations_of_results(sets):
    """Check by rank: adding a set of one member that the sets can make does not raise it."""
    rows = np.array([[member in one for member in "abcdef"] for one in sets], float).reshape(-1, 6)
    rank = np.linalg.matrix_rank(rows) if len(rows) else 0
    found = {
        member
        for k, member in enumerate("abcdef")
        if len(rows) and np.linalg.matrix_rank(np.vstack([rows, np.eye(6)[k]])) == rank
    }
    assert singled_out(sets) == found


def test_the_rule_counts_across_federations(file, ledger):
    """A roster is changed by a new file, which may have a new id."""
    ledger.record(file, DATA, b"run 1", now=NOW)
    other = among(file, "abc", "other.toml")
    assert other.federation.id != file.federation.id
    with pytest.raises(LedgerError):
        ledger.check(other, DATA)


def test_the_rule_counts_for_every_earlier_set(file, ledger):
    ledger.record(file, DATA, b"run 1", now=NOW)
    ledger.record(among(file, "abcdef", "six.toml"), DATA, b"run 2", now=NOW)
    with pytest.raises(LedgerError, match="'g' alone"):
        ledger.check(among(file, "abcdefg"), DATA)


def test_two_processes_at_once_cannot_both_answer(file, ledger):
    """Both were admitted before either had answered; only the first may answer."""
    smaller = among(file, "abc")
    ledger.check(file, DATA)
    ledger.check(smaller, DATA)
    ledger.record(file, DATA, b"run 1", now=NOW)
    with pytest.raises(LedgerError, match="'d' alone"):
        ledger.record(smaller, DATA, b"run 2", now=NOW)
    assert len(ledger.entries().answers) == 1


def test_an_operator_can_allow_a_set(file, ledger):
    ledger.record(file, DATA, b"run 1", now=NOW)
    smaller = among(file, "abc")
    ledger.allow(smaller, "d has left, and agrees", now=NOW)
    ledger.check(smaller, DATA)
    ledger.record(smaller, DATA, b"run 2", now=NOW)
    [permission] = ledger.entries().allowed
    assert (permission.members, permission.reason, permission.time) == (list("abc"), "d has left, and agrees", NOW)
    with pytest.raises(LedgerError, match="'b' alone"):
        ledger.check(among(file, "acd"), DATA)  # another set is still refused
    with pytest.raises(LedgerError, match="one line of at most 500"):
        ledger.allow(smaller, "x" * 501, now=NOW)


# -- other data ------------------------------------------------------------------------------------------------------


def test_other_data_are_allowed_with_a_warning_of_what_both_results_reveal(file, ledger):
    ledger.record(file, DATA, b"run 1", now=NOW)
    [told] = ledger.check(file, OTHER)
    assert "'Heart Study' on other data before (850 transactions on 2026-03-04 05:06 UTC, 851 now)" in told
    assert "the counts of the transactions that changed in between" in told
    ledger.record(file, OTHER, b"run 2", now=NOW)
    assert len(ledger.entries().answers) == 2


def test_data_of_the_same_size_may_be_other_data(file, ledger):
    ledger.record(file, DATA, b"run 1", now=NOW)
    fewer = among(file, "abc")
    with pytest.raises(LedgerError, match="'d' alone"):
        ledger.check(fewer, DATA)
    assert len(ledger.check(fewer, replace(OTHER, transactions=DATA.transactions))) == 1


def test_one_member_fewer_on_other_data_is_warned_of(file, ledger):
    ledger.record(file, DATA, b"run 1", now=NOW)
    [told] = ledger.check(among(file, "abc"), OTHER)
    assert ("'d' alone" in told, "'a' alone" in told) == (True, False)
    assert len(ledger.entries().answers) == 1  # a check records nothing


# -- the file --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["record", "allow"])
def test_nobody_else_writes_it_meanwhile(file, ledger, monkeypatch, what):
    """Otherwise both processes could pass the check, and the later one would drop the other's entry."""
    real, locked = AnswerLedger._write, []

    def write(self, entries):
        descriptor = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            locked.append(True)
        finally:
            os.close(descriptor)
        real(self, entries)

    monkeypatch.setattr(AnswerLedger, "_write", write)
    if what == "record":
        ledger.record(file, DATA, b"run 1", now=NOW)
    else:
        ledger.allow(file, "", now=NOW)
    assert locked == [True]


def test_runs_are_counted_once_each(file, ledger):
    for run in (b"one", b"two"):
        for resumed in (False, True):
            ledger.record(file, DATA, run, now=NOW + timedelta(days=run == b"two"), resumed=resumed)
    [found] = ledger.entries().answers
    assert (found.runs, found.first, found.last) == (2, NOW, NOW + timedelta(days=1))
    assert (found.transactions, found.federation, found.federation_id) == (850, "Heart Study", file.federation.id)


def test_the_ledger_is_its_owners_alone(file, ledger):
    for run in (b"one", b"two"):
        ledger.record(file, DATA, run, now=NOW)
        assert ledger.path.stat().st_mode & 0o777 == 0o600
        assert [path.name for path in ledger.path.parent.iterdir()] == ["ledger.json"]


def test_a_ledger_that_others_may_change_is_refused(file, ledger):
    ledger.record(file, DATA, b"one", now=NOW)
    ledger.path.chmod(0o622)
    with pytest.raises(DataError, match=r"ledger\.json: others may change this member's ledger"):
        ledger.check(file, DATA)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda text: text[:-20], "Input data was truncated"),
        (lambda _: "[]", "Expected `object`"),
        (lambda text: text.replace("fedslim-member-ledger", "fedslim-ca-ledger"), "its format is 'fedslim-ca-ledger'"),
        (lambda text: text.replace('"version": 1', '"version": 0'), "it is of version 0"),
        (lambda text: text.replace('"runs": 1', '"runs": 0'), r"Expected `int` >= 1 - at `\$.answers"),
        (lambda text: text.replace('"runs"', '"rums"'), "contains unknown field `rums`"),
        (lambda text: text.replace("ab" * 32, "no digest"), "matching regex"),
        (lambda _: "[" * 100_000, ""),
        (lambda _: "\udc80", ""),
    ],
)
def test_a_damaged_ledger_keeps_everybody_out(file, ledger, change, why):
    ledger.record(file, DATA, b"one", now=NOW)
    ledger.path.write_bytes(change(ledger.path.read_text()).encode("utf-8", "surrogateescape"))
    damaged = ledger.path.read_bytes()
    with pytest.raises(LedgerError, match=rf"ledger\.json: this member's ledger is damaged.*{why}.*backup"):
        ledger.record(file, DATA, b"two", now=NOW)
    assert ledger.path.read_bytes() == damaged


def test_a_newer_ledger_keeps_everybody_out(file, ledger):
    ledger.record(file, DATA, b"one", now=NOW)
    newer = ledger.path.read_text().replace('"version": 1', '"version": 2')
    ledger.path.write_text(newer)
    with pytest.raises(LedgerError, match=r"ledger\.json is newer than this fedslim.*update fedslim"):
        ledger.record(file, DATA, b"two", now=NOW)
    assert ledger.path.read_text() == newer


def test_what_is_read_is_bounded(file, ledger, monkeypatch):
    ledger.record(file, DATA, b"one", now=NOW)
    monkeypatch.setattr(answered, "MAX_BYTES", 100)
    with pytest.raises(DataError, match="larger than 100 bytes"):
        ledger.entries()


def test_a_full_ledger_forgets_nothing(file, ledger, monkeypatch):
    monkeypatch.setattr(answered, "MAX_ENTRIES", 2)
    for number in range(2):
        ledger.record(file, Snapshot(f"{number:02}" * 32, 1), b"one", now=NOW)
    with pytest.raises(LedgerError, match="ledger is full"):
        ledger.record(file, DATA, b"one", now=NOW)
    assert len(ledger.entries().answers) == 2
    ledger.record(file, Snapshot("00" * 32, 1), b"two", now=NOW)  # an existing entry


def test_a_ledger_that_cannot_be_written_says_so(file, tmp_path):
    (tmp_path / "f").touch()
    with pytest.raises(WriteError):
        AnswerLedger(tmp_path / "f" / "ledger.json").record(file, DATA, b"one", now=NOW)


def test_no_data_are_in_it(file, ledger):
    database = TransactionDatabase.from_transactions([["ibuprofen"], ["rash"]])
    ledger.record(file, Snapshot.of(database), b"one", now=NOW)
    text = ledger.path.read_text()
    assert "ibuprofen" not in text
    assert json.loads(text)["answers"][0]["transactions"] == 2
