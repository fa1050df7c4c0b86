"""What a member must have agreed to, and all members must have confirmed, before it answers anything."""

from __future__ import annotations

import numpy as np
import pytest
from one_member import FIRST, PEER, confirmed, replaced, seated

from fedslim.data import ItemSecret, Vocabulary
from fedslim.errors import FedslimError, ParameterError, ProtocolError, RingError
from fedslim.protocol import messages as m
from fedslim.protocol.member import MemberInput, MemberSession
from fedslim.protocol.state import SessionState
from fedslim.secagg.keys import AgreementKey
from fedslim.secagg.ring import Ring
from wire import FIGURE, MOST, RUN, SECRET, VARIANTS, databases, inputs_of, settings_for


def test_a_member_that_has_answered_nothing_does_not_join_in_the_middle():
    """A run whose member has lost all records goes back to its beginning; anything else is another run."""
    member, roster = seated()
    with pytest.raises(ProtocolError, match="continues with round 7, but this member has answered nothing"):
        member.receive(replaced(roster, next_round=7))
    confirmed(member, roster)


def alone(roster):
    return {"members": ["c1"], "keys": roster.keys[:1], "certificates": [b""]}


def crowded(roster):
    return {"members": ["c1", "c2", "c2"], "keys": [*roster.keys, roster.keys[1]], "certificates": [b""] * 3}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda _: {"members": ["c1", "c3"]}, "has the members 'c1', 'c3', but this member agreed to"),
        (alone, "with others it shares nothing"),
        (crowded, "with others it shares nothing"),
        (lambda _: {"members": ["c1", "c1"]}, "another key under this member's name"),
        (lambda r: {"members": ["c1", "c1"], "keys": [r.keys[0]] * 2}, "with others it shares nothing"),
        (lambda _: {"members": ["c2", "c2"]}, "another key under this member's name"),
        (lambda r: {"keys": r.keys[:1]}, "2 members, 1 keys and 2 certificates"),
        (lambda r: {"keys": [*r.keys, r.keys[0]]}, "2 members, 3 keys and 2 certificates"),
        (lambda _: {"certificates": [b""]}, "2 members, 2 keys and 1 certificates"),
        (lambda r: {"keys": r.keys[::-1]}, "another key under this member's name"),
        (lambda r: {"keys": [PEER.public, r.keys[1]]}, "another key under this member's name"),
        (lambda _: {"ids": bytes(16)}, "roster has a vocabulary"),
    ],
)
def test_a_member_takes_no_seat_that_it_did_not_agree_to(change, told):
    member, roster = seated()
    with pytest.raises(FedslimError, match=told):
        member.receive(replaced(roster, **change(roster)))
    assert member.state is SessionState.JOINING
    assert isinstance(member.receive(roster), m.Confirm)


AGREED = {
    "variant": ("sa", "so", "y", ""),
    "masked": (False,),
    "max_transactions": (10, MOST - 1, MOST + 1),
    "share_labels": ("members", "server"),
    "max_rounds": (None, 99, 101),
    "pruning": (False,),
    "order": ("support", "", "size"),
    "max_itemset_size": (None, 4, 6),
    "min_support": (1, 3),
    "min_count": (1, 4, 6),
    "min_members_with": (1, 3),
    "width": (1, 7, 9),
    "effort": (2, 8),
    "seed": (1, 1 << 62),
    "schema": (b"another",),
    "outline": ("5",),
    "preparation": (b"another",),
}


def test_every_setting_is_among_those_that_are_tried():
    assert set(AGREED) == set(m.Settings.__struct_fields__)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in AGREED.items() for value in values])
def test_a_member_believes_its_own_file_and_not_the_server(name, value):
    member, roster = seated(max_rounds=100, max_itemset_size=5, min_support=2, min_count=5, min_members_with=2)
    own = getattr(roster.settings, name)
    with pytest.raises(ProtocolError, match=f"announced {name} = {value!r}, and this member agreed to {own!r}; all"):
        member.receive(replaced(roster, settings=replaced(roster.settings, **{name: value})))
    assert member.state is SessionState.JOINING
    assert isinstance(member.receive(roster), m.Confirm)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_member_runs_only_the_variant_that_it_agreed_to(variant):
    for other in VARIANTS:
        member, _ = seated(other)
        _, roster = seated(variant)
        if other == variant:
            assert isinstance(member.receive(roster), m.Confirm)
            continue
        with pytest.raises(
            ProtocolError, match=f"announced variant = '{variant}', and this member agreed to '{other}'"
        ):
            member.receive(roster)


def test_the_most_transactions_may_be_just_enough():
    """A member checks its own share before it sends anything."""
    member, roster = seated(most=10)
    assert isinstance(member.receive(roster), m.Confirm)
    with pytest.raises(ParameterError, match="allows 9 transactions for 2 members, and this member's 5 are more"):
        seated(most=9)


@pytest.mark.parametrize("ids", [bytes(15), bytes(17), bytes(32), b"\2" * 16 + b"\1" * 16])
def test_a_vocabulary_of_the_servers_must_be_one(ids):
    member, roster = seated(agreed=False)
    with pytest.raises(ProtocolError, match="the server's vocabulary"):
        member.receive(replaced(roster, ids=ids))
    assert member.state is SessionState.JOINING


def test_a_vocabulary_of_the_servers_must_have_the_members_items():
    member, roster = seated(agreed=False)
    own = sorted(SECRET.ids_of("abcde"))
    for ids in (bytes(16), b"".join(own[:-1]), b"".join(own[1:]), b""):
        with pytest.raises(ProtocolError, match="lacks ids that this member has sent"):
            member.receive(replaced(roster, ids=ids))
        assert member.state is SessionState.JOINING
    assert isinstance(member.receive(replaced(roster, ids=b"".join(own))), m.Confirm)


def test_a_member_that_uses_another_secret_does_not_take_part():
    named = databases(FIGURE)
    other = ItemSecret.from_random(bytes(32))
    vocabulary = Vocabulary.of(named["c1"].vocabulary, SECRET)
    own = MemberInput(named["c1"], ("c1", "c2"), settings_for("x"), other, vocabulary)
    with pytest.raises(FedslimError, match="secret"):
        MemberSession("c1", own)


def test_whoever_is_not_among_its_own_members_cannot_begin():
    with pytest.raises(FedslimError, match="'c9' is not among the members 'c1', 'c2'"):
        MemberSession("c9", inputs_of(databases(FIGURE))["c1"])


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda own: m.Confirmed(0, [own]), "sent 1 signatures of epoch 0 for a roster of 2"),
        (lambda own: m.Confirmed(0, [own] * 3), "sent 3 signatures of epoch 0 for a roster of 2"),
        (lambda own: m.Confirmed(1, [own] * 2), "2 signatures of epoch 1 .* in epoch 0"),
        (lambda own: m.Confirmed(0, [own, bytes(32)]), "member 'c2' was sent another roster"),
        (lambda own: m.Confirmed(0, [own, b""]), "member 'c2' was sent another roster"),
        (lambda own: m.Confirmed(0, [bytes(32), own]), "member 'c1' was sent another roster"),
    ],
)
def test_a_member_answers_nothing_before_everybody_signed_what_it_signed(variant, change, told):
    member, roster = seated(variant)
    own = member.receive(roster).signature
    for _ in range(2):
        with pytest.raises(FedslimError, match=told):
            member.receive(change(own))
        assert member.state is SessionState.CONFIRMING
        assert not member._secrets
        with pytest.raises(ProtocolError, match="while this member was waiting for the others to confirm"):
            member.receive(FIRST[variant])
    member.receive(m.Confirmed(0, [own, own]))
    assert member.receive(FIRST[variant]) is not None


@pytest.mark.parametrize(
    ("key", "told"),
    [(None, "cannot agree on a secret with itself"), (bytes(32), "the key of member 'c2' is not a usable X25519")],
)
@pytest.mark.parametrize("variant", ["x", "sa"])
def test_a_member_shares_no_secret_under_a_key_that_hides_nothing(variant, key, told):
    member, roster = seated(variant)
    own = member.receive(replaced(roster, keys=[roster.keys[0], key or roster.keys[0]])).signature
    with pytest.raises(FedslimError, match=told):
        member.receive(m.Confirmed(0, [own, own]))
    assert member.state is SessionState.CONFIRMING
    with pytest.raises(ProtocolError, match="while this member was waiting for the others to confirm"):
        member.receive(FIRST[variant])


@pytest.mark.parametrize(
    "change",
    [
        {"run": bytes(16)},
        {"epoch": 1},
        {"keys": "another"},
        {"ids": "one more"},
    ],
    ids=repr,
)
def test_members_that_were_shown_different_rosters_sign_different_things(change):
    """And where signatures prove nothing, the sum of their answers is noise."""
    named = databases(FIGURE)
    members = {name: MemberSession(name, own) for name, own in inputs_of(named, agreed=False).items()}
    keys = [member.join(bytes([k]) * 32).key for k, member in enumerate(members.values())]
    ids = sorted(SECRET.ids_of("abcde"))
    roster = m.Roster(RUN, settings_for("x"), list(members), keys, b"".join(ids), 0, [b"", b""], 0)
    if "keys" in change:
        change = {"keys": [PEER.public, keys[1]]}
    if "ids" in change:
        change = {"ids": b"".join(sorted([*ids, bytes(16)]))}
    rosters = {"c1": roster, "c2": replaced(roster, **change)}
    signed = {name: members[name].receive(shown).signature for name, shown in rosters.items()}
    assert len(set(signed.values())) == 2
    for name, member in members.items():
        with pytest.raises(FedslimError, match="was sent another roster"):
            member.receive(m.Confirmed(rosters[name].epoch, list(signed.values())))
        member.receive(m.Confirmed(rosters[name].epoch, [signed[name]] * 2))
    answers = [
        member.receive(m.Ask(0, rosters[name].epoch, [], [m.WantSupports()])) for name, member in members.items()
    ]
    words = sum(np.frombuffer(answer.words.data, "<u8")[:6] for answer in answers)
    with pytest.raises(RingError, match="masks do not cancel"):
        Ring.for_sums_up_to(MOST).read(words, length=6)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("update", "told"),
    [
        (lambda _: m.RosterUpdate(1, [m.Seat(0, PEER.public, b"")], 0), "another key under this member's name"),
        (
            lambda _: m.RosterUpdate(1, [m.Seat(2, PEER.public, b"")], 0),
            "outside of the roster of 2",
        ),
        (
            lambda r: m.RosterUpdate(1, [m.Seat(4095, r.keys[0], b"")], 0),
            "outside of the roster of 2",
        ),
        (lambda _: m.RosterUpdate(0, [m.Seat(1, PEER.public, b"")], 0), "does not belong to the run"),
        (lambda _: m.RosterUpdate(0, [], 0), "does not belong to the run"),
        (lambda r: r, "does not belong to the run"),
        (lambda r: replaced(r, epoch=1, run=bytes(16)), "does not belong to the run"),
        (lambda r: replaced(r, epoch=1, ids=bytes(16)), "does not belong to the run"),
        (lambda r: replaced(r, epoch=1, members=["c1", "c3"]), "does not belong to the run"),
        (lambda r: replaced(r, epoch=1, settings=replaced(r.settings, min_count=9)), "does not belong to the run"),
        (lambda r: replaced(r, epoch=1, keys=[PEER.public] * 2), "another key under this member's name"),
        (lambda r: replaced(r, epoch=1, keys=r.keys[:1]), "2 members, 1 keys"),
    ],
)
def test_a_new_roster_must_be_of_the_run_that_the_member_is_in(variant, update, told):
    member, roster = seated(variant)
    confirmed(member, roster).receive(FIRST[variant])
    before = member.state
    with pytest.raises(ProtocolError, match=told):
        member.receive(update(roster))
    assert member.state is before
    # The session is unchanged: it accepts an honest roster, and answers only after all have confirmed it.
    confirm = member.receive(m.RosterUpdate(1, [m.Seat(1, AgreementKey.from_random(b"7" * 32).public, b"")], 0))
    assert confirm.epoch == 1
    assert member.state is SessionState.CONFIRMING
    member.receive(m.Confirmed(1, [confirm.signature] * 2))
    assert member.state is before


@pytest.mark.parametrize("variant", ["x", "sa"])
def test_masks_are_made_for_the_epoch_that_was_confirmed_and_no_other(variant):
    member, roster = seated(variant)
    confirmed(member, roster)
    for attempt in (1, 65_535):
        with pytest.raises(ProtocolError, match=f"sent attempt {attempt} in epoch 0"):
            member.receive(replaced(FIRST[variant], attempt=attempt))
    assert member.receive(FIRST[variant]) is not None
