"""Non-interference: what a member answers or refuses does not depend on its counts.

Two members with the same public facts (name, settings, vocabulary, keys) and different transactions get the same
messages from a server that sends anything. Their messages have the same kinds, the same lengths and the same order,
and they refuse the same questions in the same words.
"""

from __future__ import annotations

import random

import msgspec
import numpy as np
from hypothesis import example, given, strategies as st
from one_member import entries, next_slots

from fedslim.data import Vocabulary
from fedslim.errors import FedslimError, KeyAgreementError, ProtocolError, UntrustedError
from fedslim.mdl.table import WorkingTable
from fedslim.protocol import framing, messages as m
from fedslim.protocol.member import MemberInput, MemberSession
from fedslim.protocol.roster import apply_update, roster_digest
from fedslim.protocol.wire_types import MAX_SLOTS
from fedslim.secagg.keys import AgreementKey
from wire import RUN, SECRET, entropy_of, of_numbers, settings_for, sprinkled

N_ITEMS = 9
MEMBERS = ("a", "b", "c")
LAST = MAX_SLOTS - 1


def twins(rng, variant, **settled):
    """The same member with two databases that have only their vocabulary in common."""
    made = []
    for _ in range(2):
        rows = sprinkled(
            rng.randrange(1 << 30), N_ITEMS, 1, rng.choice([0, 1, 7, 60]), noise=rng.choice([0.0, 0.2, 0.5])
        )
        (database,) = of_numbers([rows[0]], N_ITEMS).values()
        vocabulary = Vocabulary.of(database.vocabulary, SECRET)
        own = MemberInput(database, MEMBERS, settings_for(variant, **settled), SECRET, vocabulary)
        made.append(MemberSession("a", own))
    return made


def told(session, message):
    """What a member sends after a message, as seen on the network: kind and length, or the text of a refusal."""
    try:
        reply = session.receive(message)
    except FedslimError as error:
        public = isinstance(error, (ProtocolError, UntrustedError, KeyAgreementError))
        return ("refused", str(error) if public else "it cannot go on")
    if reply is None:
        return ("nothing",)
    return type(reply).__name__, len(framing.to_bytes(reply).data)


class Adversary:
    """Knows everything public, has the keys of the other members, and sends any message."""

    def __init__(self, rng, sessions, variant):
        self.rng, self.sessions, self.variant = rng, sessions, variant
        self.number, self.odd = 0, False
        self.next: list[m.FromServer] = []  # messages that it has planned

    def joined(self):
        draw = entropy_of(self.rng.randrange(1 << 30))
        entropy, others = draw(32), [AgreementKey.from_random(draw(32)).public for _ in MEMBERS[1:]]
        joins = [session.join(entropy) for session in self.sessions]
        assert framing.to_bytes(joins[0]) == framing.to_bytes(joins[1])
        own = self.sessions[0]._own
        self.roster = m.Roster(RUN, own.settings, list(MEMBERS), [joins[0].key, *others], b"", 0, [b""] * 3, 0)

    def digest(self, roster):
        own = self.sessions[0]._own
        return roster_digest(roster, vocabulary=own.vocabulary.digest, fingerprint=own.fingerprint)

    def message(self):
        if self.next:
            return self.next.pop(0)
        kind = self.rng.random()
        if kind < 0.01:
            return self.back_to(self.rng.randrange(self.number + 1))
        if kind < 0.03:
            return self.rng.choice([self.roster, self.twisted(), m.RosterUpdate(self.number, [], 0)])
        if kind < 0.04:
            epoch = getattr(self.sessions[0]._roster, "epoch", 0)
            signature = self.rng.choice([self.digest(self.sessions[0]._roster or self.roster), b"", bytes(32)])
            return m.Confirmed(epoch, [signature] * self.rng.choice([3, 3, 3, 2]))
        self.number += self.rng.choice([1] * 20 + [0, 2])
        epoch = getattr(self.sessions[0]._roster, "epoch", 0)
        return {"x": self.ask, "sa": self.ask_indexed}[self.variant](self.number, self.rng.choice([epoch] * 30 + [7]))

    def back_to(self, number):
        """Make all members go back to a round; repeat the questions from there, up to a point."""
        session = self.sessions[0]
        if session._roster is None:
            return self.roster
        self.number = number
        update = m.RosterUpdate(session._roster.epoch + 1, [], number)
        new = apply_update(session._roster, update)
        self.next = [m.Confirmed(new.epoch, [self.digest(new)] * 3)]
        for asked, question in session._asked.items():
            if asked >= number and self.rng.random() < 0.9:
                self.next.append(msgspec.structs.replace(question, attempt=new.epoch))
                self.number = asked
        return update

    def twisted(self):
        settings = self.rng.choice(
            [
                {"max_transactions": self.rng.randrange(1, 200)},
                {"max_rounds": self.rng.randrange(1, 9)},
                {"min_count": 2},
                {"variant": "so", "masked": False},
                {"share_labels": "members"},
            ]
        )
        changed = msgspec.structs.replace(self.roster.settings, **settings)
        return self.rng.choice(
            [
                msgspec.structs.replace(self.roster, settings=changed),
                msgspec.structs.replace(self.roster, epoch=self.rng.randrange(1, 9)),
                msgspec.structs.replace(self.roster, members=["a", "b", "d"]),
                msgspec.structs.replace(self.roster, ids=bytes(16)),
            ]
        )

    # -- questions ------------------------------------------------------------------------------------------------

    def ask(self, number, attempt):
        """Mostly questions that a search could ask: a refusal ends the conversation."""
        rng = self.rng
        self.odd = rng.random() < 0.06
        moves = [self.move() for _ in range(rng.choice([0, 0, 0, 1]))]
        wants = [self.want() for _ in range(rng.choice([1, 1, 2, 3] if self.odd else [1]))]
        if number <= 1 and not self.odd:
            moves, wants = [], [m.WantSupports()]
        elif moves and not self.odd:
            wants = [m.WantRows([0, 3], b"\x08\x02")]
        return m.Ask(number, attempt, moves, wants)

    def table(self):
        variant = self.sessions[0]._variant
        return WorkingTable(N_ITEMS) if variant is None else variant._members._state.table

    def pick(self):
        """A slot that may be empty."""
        table = self.table()
        odd = [table.free_slot, table.free_slot + 1, LAST] if self.odd else []
        return self.rng.choice([*range(N_ITEMS), *table.itemsets, *odd])

    def parents(self):
        """Two elements that could be joined, if they are in the table."""
        table = self.table()
        for _ in range(20):
            x, y = self.pick(), self.pick()
            if self.odd:
                return x, y
            items = {*table.items_of(x), *table.items_of(y)}
            apart = len(items) == len(table.items_of(x)) + len(table.items_of(y))
            if apart and tuple(sorted(items)) not in table.present:
                return x, y
        return 0, 1

    def fresh(self):
        free = self.table().free_slot
        return self.rng.choice([0, free + 1]) if self.odd else free

    def entry(self):
        return self.rng.choice([0, 3, 9] if self.odd else [3, 9])

    def move(self):
        rng, table = self.rng, self.table()
        itemsets = [*table.itemsets] or [self.pick()]
        odd = [
            m.RestoreElement(self.pick()),
            m.DropItems(m.Vector.of(np.array([rng.randrange(N_ITEMS + 1)], np.int64))),
        ]
        legal = [m.RemoveElement(rng.choice(itemsets))] if table.itemsets else []
        if self.roster.settings.effort > 1:
            legal += [m.MarkTable(), m.GoBackToMark(), m.EmptyTable()]
        return rng.choice(
            [*legal, m.InsertUnion(self.fresh(), self.parents(), self.entry()), *(odd if self.odd else [])]
        )

    def entries(self, slots):
        """Some pairs of some elements, with counts of any width."""
        rows = [(slot, sorted({self.pick() for _ in range(self.rng.choice([1, 3, 6]))})) for slot in slots]
        count = sum(len(others) for _, others in rows)
        want = entries(*rows, codes=[self.rng.choice([1, 2, 9, 15, *([0] if self.odd else [])]) for _ in range(count)])
        return msgspec.structs.replace(want, widths=want.widths[1:]) if self.odd and self.rng.random() < 0.3 else want

    def insertions(self, cells, seed):
        """One itemset, or several if it does not matter whether the question is refused; some leave afterwards."""
        table = self.table()
        new = [
            m.NewUnion(self.fresh(), self.parents(), self.entry(), self.rng.random() < 0.5)
            for _ in range(self.rng.choice([1, 2, 9]) if self.odd else 1)
        ]
        if not self.odd and self.rng.random() < 0.3:
            keep = new[0].keep
            new.append(m.NewUnion(next_slots(table, 2)[1] if keep else table.free_slot, (0, 1), self.entry(), keep))
            if new[0].parents in {(0, 1), (1, 0)} or (0, 1) in table.present:
                new.pop()
        gone = [self.pick()] if self.odd else self.rng.sample([*table.itemsets], min(len(table.itemsets), 1))
        return m.WantInsertions(new, gone if self.rng.random() < 0.2 else [], cells, seed)

    def want(self):
        rng, table = self.rng, self.table()
        cells, seed = rng.choice([1, 5, 30]), rng.getrandbits(40)
        slots = [self.pick() for _ in range(rng.choice([1, 2, 5]))]
        widths = bytes(rng.choice([1, 2, 5, 8, 40, 56]) for _ in slots)
        odd = [m.WantRows(slots, b"\x40"), m.WantFinal(8), m.WantFinal(60), m.WantSupports()]
        return rng.choice(
            [
                m.WantRows(slots, widths),
                m.WantSparseRow(slots[0], cells, seed),
                self.entries(slots),
                self.insertions(cells, seed),
                self.insertions(cells, seed),
                m.WantUnionSupport(self.parents(), rng.choice([1, 4, 30, 60] if self.odd else [1, 4, 30])),
                *([m.WantRemovals([rng.choice([*table.itemsets])], cells, seed)] if table.itemsets else []),
                *(odd if self.odd else []),
            ]
        )

    def ask_indexed(self, number, attempt):
        """A question of SA, except for structure, which the server may see."""
        rng = self.rng
        if number <= 1 and rng.random() < 0.9:
            return m.AskIndexedUsages(number, attempt)
        bits = rng.choice([1, 2, 8, 40, 56, 60])
        x = sorted(rng.sample(range(N_ITEMS), rng.choice([1, 2, 4])))
        y = [rng.randrange(N_ITEMS + 1) for _ in x]
        vectors = [m.Vector.of(np.array(part, np.int64)) for part in (x, y, sorted(set(y)))]
        pair = (rng.randrange(N_ITEMS), rng.randrange(N_ITEMS + 2))
        pairs = [pair, *([(0, 1)] if rng.random() < 0.3 else [])]
        return rng.choice(
            [
                m.AskIndexed(number, attempt, *vectors, bits),
                m.AskEvaluation(number, attempt, m.Entered(rng.choice([N_ITEMS, N_ITEMS, 99]), pairs, 5), bits),
                m.AskIndexedUsages(number, attempt),
                *([m.AskIndexedSupports(number, attempt, None, vectors[0], bits)] if rng.random() < 0.1 else []),
            ]
        )


def conversation(seed, variant, **settled):
    """What the twins sent; if the two lists differ, they can be told apart."""
    rng = random.Random(seed)
    sessions = twins(rng, variant, **settled)
    adversary = Adversary(rng, sessions, variant)
    adversary.joined()
    said = []
    begin = [adversary.roster, m.Confirmed(0, [adversary.digest(adversary.roster)] * 3)]
    for message in begin + [None] * 40:
        message = message or adversary.message()  # noqa: PLW2901  # made when its turn comes
        one, other = (told(session, message) for session in sessions)
        assert one == other, message
        assert sessions[0].state is sessions[1].state
        said.append(one)
        if sessions[0].state.name == "FINISHED":
            break
    return said


@example(0, 1, 1, 1)
@given(st.integers(0, 1 << 60), st.sampled_from([1, 3]), st.sampled_from([1, 2]), st.sampled_from([1, 3]))
def test_whatever_is_asked_in_x_no_two_members_can_be_told_apart_by_what_they_say(seed, least, members, effort):
    conversation(seed, "x", min_count=least, min_members_with=members, min_support=least, effort=effort)


@given(st.integers(0, 1 << 60))
def test_whatever_is_asked_in_sa_but_for_structure_no_two_members_can_be_told_apart(seed):
    conversation(seed, "sa")


def test_conversations_get_far_enough_to_mean_something():
    """Questions of every kind are both answered and refused."""
    said = [one for seed in range(150) for one in conversation(seed, "x", min_count=3, min_support=2)]
    answered = [one for one in said if one[0] == "Masked"]
    refused = {one[1][:24] for one in said if one[0] == "refused"}
    assert len(answered) > 400
    assert len({length for _, length in answered}) > 30
    assert len(refused) > 12
