"""Attack 7, medium, by the server: small sums.

In an honest run of X on the built-in data, about a sixth of the non-zero sums are below 5, and without `min_count` so
are some published counts: `min_support` limits neither. `min_count` keeps them out of the code table and of what can be
computed from it. The server still sees small sums during the run: no linear scheme can hide that a sum is small. To see
how many, run this file as a program: python tests/attacks/test_07_small_sums.py
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

from fedslim.data import load
from fedslim.data.partition import iid
from fedslim.federated.simulation import simulate
from fedslim.mdl.questions import Change, SlotCounts
from fedslim.protocol.x import XServer
from fedslim.protocol.x_queries import FinalCounts

SMALLEST = 5
NETWORK = {"min_count": SMALLEST, "min_members_with": 2}


def counts_in(value):
    """Return all sums in a message that a server has read."""
    match value:
        case SlotCounts() | Change() | FinalCounts():
            return [
                count for part in value[bool(isinstance(value, (SlotCounts, Change))) :] for count in counts_in(part)
            ]
        case dict():
            return [count for part in value.values() for count in counts_in(part)]
        case tuple() | list():
            return [count for part in value for count in counts_in(part)]
        case np.ndarray():
            return value.tolist()
        case None:
            return []
        case _:
            return [int(value)]


def sums_seen(monkeypatch, database, **chosen):
    """Return the code table of a run, and the non-zero sums that the server saw."""
    seen = []
    read = XServer._round

    def watched(self, wants):
        readings = yield from read(self, wants)
        seen.extend(count for reading in readings for count in counts_in(reading))
        return readings

    monkeypatch.setattr(XServer, "_round", watched)
    table = simulate(iid(database, 3, seed=0), **chosen).table
    return table, np.array([count for count in seen if count])


def published(table):
    return [*table.supports, *table.singleton_usages, table.other, *(n for _, *three in table.found for n in three)]


def test_no_published_count_is_below_the_smallest():
    before = simulate(iid(load("encounters"), 3, seed=0)).table
    after = simulate(iid(load("encounters"), 3, seed=0), **NETWORK).table
    assert any(0 < count < SMALLEST for count in published(before))
    assert not any(0 < count < SMALLEST for count in published(after))


def test_no_row_of_an_element_that_is_used_too_rarely_is_asked_for(monkeypatch):
    asked = []
    rows = XServer._wants

    def watched(self, question):
        if type(question).__name__ == "CoUsages":
            asked.extend(self.search.usages[list(question.slots)].tolist())
        return rows(self, question)

    monkeypatch.setattr(XServer, "_wants", watched)
    simulate(iid(load("encounters"), 3, seed=0), **NETWORK)
    assert min(asked) >= SMALLEST


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        for chosen in ({}, NETWORK):
            table, sums = sums_seen(patch, load("encounters"), **chosen)
            small = np.count_nonzero(sums < SMALLEST)
            least = min((count for count in published(table) if count), default=0)
            sys.stdout.write(
                f"{chosen or 'as before'}: {small:,} of {len(sums):,} sums below {SMALLEST} "
                f"({100 * small / len(sums):.1f} %), {len(table)} itemsets, smallest published count {least}\n"
            )
            patch.undo()
