"""One member with a server played by a test, which may ask anything."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import msgspec

from fedslim.protocol import messages as m
from fedslim.protocol.member import MemberSession
from fedslim.protocol.variant import sides
from fedslim.protocol.wire_types import MAX_SLOTS
from fedslim.secagg.keys import AgreementKey
from wire import FIGURE, RUN, databases, inputs_of, of_numbers, settings_for, sprinkled, vector

SUPPORTS = m.WantSupports()
FINAL = m.WantFinal(40)
LAST = MAX_SLOTS - 1
N_ITEMS = 9


def side(variant, seed=1, n_items=N_ITEMS, transactions=50, **settled):
    """One member's side of a variant, and its database."""
    (database,) = of_numbers([sprinkled(seed, n_items, 1, transactions, noise=0.2)[0]], n_items).values()
    return sides(variant)[1](database, settings_for(variant, **settled), 2), database


def check_covers(state, database, dropped=()):
    """Check that elements of the table cover every transaction exactly; dropped items count as absent."""
    for t in range(database.transactions):
        slots = state.cover(t)
        items = [i for s in slots for i in state.table.items_of(s)]
        begin, end = database.offsets[t : t + 2]
        assert sorted(items) == [i for i in database.items[begin:end].tolist() if i not in dropped]


def allocated(act):
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def asked(*wants, moves=(), number=0):
    return m.Ask(number, 0, list(moves), list(wants))


PAIR = N_ITEMS
"""The slot of the union of the first two items in these tests; the next slot is free."""

FREE = N_ITEMS + 1
ROW = m.WantRows([0], b"\x28")
"""A question that can always be answered during the search."""


def searching(seed=1, *, pair=True, **settled):
    """A member in the middle of the search, with one itemset in its table or none."""
    variant, database = side("x", seed, **settled)
    variant.answer(asked(m.WantSupports()))
    if pair:
        variant.answer(asked(ROW, moves=[m.InsertUnion(PAIR, (0, 1), 9)]))
    return variant, database


def insertion(slot=FREE, parents=(2, 3), *, entry=9, cells=9, keep=True, gone=()):
    """A question about one new itemset."""
    return insertions((slot, parents), entry=entry, cells=cells, keep=keep, gone=gone)


def insertions(*new, entry=9, cells=9, keep=True, gone=()):
    """A question about several new itemsets, each a slot and two parents, one after the other."""
    return m.WantInsertions([m.NewUnion(slot, parents, entry, keep) for slot, parents in new], list(gone), cells, 0)


def entries(*rows, codes=None):
    """A question about pairs; each row is an element and its partners. A code is half the bits of a count."""
    steps = [b - a for _, others in rows for a, b in pairwise([0, *others])]
    codes = [*(codes or [4] * len(steps)), 0]
    widths = bytes(low | high << 4 for low, high in zip(codes[::2], codes[1::2], strict=False))
    named = b"".join(map(step_bytes, steps))
    return m.WantEntries(vector([slot for slot, _ in rows]), vector([len(o) for _, o in rows]), named, widths)


def step_bytes(step):
    """A step as `WantEntries` has it: seven bits in a byte, the lowest first."""
    return bytes([step]) if step < 128 else bytes([step % 128 + 128]) + step_bytes(step // 128)


def next_slots(table, n):
    """The slots of the next itemsets, without ending a trial."""
    return [*table._freed[::-1], *range(table.fresh_slot, table.fresh_slot + n)][:n]


def dropping(*items):
    return m.DropItems(vector(items))


NOTHING_THERE = "which is empty"
ALREADY = "in the table already"
ONCE = "allowed only once, at the start"
PEER = AgreementKey.from_random(bytes(31) + b"\7")


def seated(variant="x", *, agreed=True, **settled):
    """A member that has joined, and the roster that an honest server sends it."""
    named = databases(FIGURE)
    own = inputs_of(named, variant, agreed=agreed, **settled)["c1"]
    member = MemberSession("c1", own)
    keys = [member.join(bytes(range(32))).key, PEER.public]
    return member, m.Roster(RUN, own.settings, ["c1", "c2"], keys, b"", 0, [b"", b""], 0)


def confirmed(member, roster):
    """The same member, with the signatures of all members: it answers from now on."""
    confirm = member.receive(roster)
    assert member.receive(m.Confirmed(roster.epoch, [confirm.signature] * 2)) is None
    return member


def replaced(roster, **fields):
    return msgspec.structs.replace(roster, **fields)


NONE = vector([])
FIRST = {"x": m.Ask(0, 0, [], [m.WantSupports()]), "sa": m.AskIndexedUsages(0, 0), "so": m.AskUsages(0)}
