"""Refused connections are counted, not listed."""

from __future__ import annotations

from logging import WARNING

import pytest

from fedslim.transport.telling import SUMMARY_EVERY, Refusals


class Told:
    def __init__(self):
        self.now, self.lines = 100.0, []
        self.refusals = Refusals(self.tell, lambda: self.now)

    def tell(self, text, level):
        assert level == WARNING
        self.lines.append(text)

    def after(self, seconds):
        self.now += seconds
        self.refusals.summarise()


@pytest.fixture
def told():
    return Told()


def test_the_first_is_told_with_its_reason_and_the_others_are_counted(told):
    for number in range(1001):
        told.refusals.add(f"reason {number}")
        told.refusals.summarise()
    assert told.lines == ["refused a connection: reason 0"]
    told.after(SUMMARY_EVERY - 1)
    assert len(told.lines) == 1
    told.after(1)
    assert told.lines[1:] == ["refused 1,000 more connections in the last minute; the latest: reason 1000"]
    told.after(10 * SUMMARY_EVERY)
    assert len(told.lines) == 2


def test_there_is_a_sentence_a_minute_at_most(told):
    for number in range(600):
        told.refusals.add(f"reason {number}")
        told.after(1)
    assert len(told.lines) == 11
    assert told.lines[-1] == "refused 60 more connections in the last minute; the latest: reason 599"


def test_one_after_a_quiet_minute_is_told_at_once(told):
    told.refusals.add("a reason")
    told.after(SUMMARY_EVERY)
    told.refusals.add("another")
    assert told.lines == ["refused a connection: a reason", "refused a connection: another"]


def test_none_is_lost_at_the_end(told):
    told.refusals.finish()
    told.refusals.add("a reason")
    told.refusals.add("another")
    told.refusals.finish()
    told.refusals.finish()
    assert told.lines == ["refused a connection: a reason", "refused 1 more connection; the latest: another"]
