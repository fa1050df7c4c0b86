"""Random conversations in a preparation: refusals are sentences that do not depend on the data."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pandas as pd
from hypothesis import given, settings, strategies as st

from fedslim.data import ItemSecret, Vocabulary
from fedslim.data.frames import dataframe_table
from fedslim.errors import FrameError, ProtocolError
from fedslim.protocol import framing, messages as m
from fedslim.protocol.bisection import PARTS
from fedslim.protocol.preparation import MAX_ROUNDS, Outline
from fedslim.protocol.prepare import FIRST_SKETCH, GROWTH, PrepareMember, Site
from fedslim.protocol.server import ServerSession
from fedslim.schema import Schema, conform

SECRET = ItemSecret.from_random(bytes(range(32)))
SCHEMA = Schema.of(
    {
        "columns": {
            "a": {"kind": "numeric", "bins": 3, "resolution": 5},
            "b": {"kind": "numeric", "bins": 2},
            "c": {"kind": "categorical", "cap": 2},
        }
    }
)
SETTINGS = m.Settings("prepare", True, 1 << 40, max_rounds=MAX_ROUNDS, outline=str(Outline.of(SCHEMA)))
COLUMNS = [
    {"a": [1.0, 7.5, -3.0], "b": [1e300, 0.0, 5e-324], "c": ["u", "v", "w"]},
    {"a": [60.0], "b": [2.0], "c": ["x"]},
]
SITES = [conform(SCHEMA, dataframe_table(pd.DataFrame(one))) for one in COLUMNS]
IDS = [SECRET.id_of(f"c={one}") for one in "uvwxyz"] + [b"", b"short", bytes(16), b"\xff" * 16]


def vectors(most, length=8):
    honest = st.lists(st.integers(0, most), max_size=length).map(lambda one: m.Vector.of(np.array(one, np.int64)))
    return honest | st.builds(m.Vector, st.integers(0, 9), st.sampled_from([1, 8, 16, 64]), st.binary(max_size=72))


SIZES = st.sampled_from([FIRST_SKETCH, FIRST_SKETCH * GROWTH]) | st.integers(1, 1 << 20)
BITS = st.integers(1, 64)
ID_LISTS = st.lists(st.sampled_from(IDS), max_size=6, unique=True).map(lambda one: b"".join(sorted(one)))
WANTS = st.one_of(
    st.just(m.WantValues()),
    st.builds(m.WantBetween, BITS),
    st.builds(m.WantCategories, SIZES),
    st.builds(m.WantCategoryCounts, vectors(9), ID_LISTS, BITS),
    st.builds(m.WantItems, vectors(1), SIZES),
    st.builds(m.WantReady, ID_LISTS, vectors(1)),
)


def ask(want, chosen=()):
    return m.AskPreparation(0, 0, m.Vector.of(np.array(chosen, np.int64)), want)


def openings(draw):
    """Return an honest beginning of some length, through parts that the server chooses."""
    most = draw(st.tuples(st.integers(0, 2), st.integers(0, 1)))
    said, guide = [ask(m.WantValues())], PrepareMember(Site(SCHEMA, SITES[0], SECRET), SETTINGS, 3)
    guide.answer(said[0])
    chosen = most
    while len(said) < draw(st.integers(0, 20)):
        try:
            guide.answer(question := ask(m.WantBetween(40), chosen))
        except ProtocolError:
            break
        said.append(question)
        spots = guide._bisection
        chosen = sorted(draw(st.integers(0, PARTS - 1)) for one in spots.intervals if spots._is_open(one))
    else:
        return said
    flags = m.Vector.of(np.array(draw(st.lists(st.integers(0, 1), min_size=3, max_size=3)), np.int64))
    sizes = m.Vector.of(np.array([3]))
    ids = b"".join(sorted(IDS[:3]))
    rest = [
        ask(m.WantCategories(FIRST_SKETCH), chosen),
        ask(m.WantCategoryCounts(sizes, ids, 40)),
        ask(m.WantItems(flags, FIRST_SKETCH)),
        ask(m.WantReady(ids, flags)),
    ]
    return [*said, *rest[: draw(st.integers(0, len(rest)))]]


@st.composite
def conversations(draw):
    chosen = vectors(PARTS) | st.just(m.Vector.of(np.empty(0, np.int64)))
    more = st.lists(st.builds(m.AskPreparation, st.just(0), st.just(0), chosen, WANTS), min_size=1, max_size=4)
    return openings(draw) + draw(more)


def replies(site, conversation):
    """Return what a member's answers look like from outside: their sizes, or the words of a refusal."""
    member, seen = PrepareMember(Site(SCHEMA, site, SECRET), SETTINGS, 3), []
    for question in conversation:
        sent = framing.from_server(framing.to_bytes(question).data[framing.PREFIX_BYTES :])
        try:
            answer = member.answer(sent)
        except ProtocolError as error:
            return [*seen, str(error)]
        seen.append(answer if isinstance(answer, m.Ready) else len(answer.words))
    return seen


@settings(max_examples=150, deadline=None)
@given(conversations())
def test_what_a_member_refuses_does_not_depend_on_its_data(conversation):
    one, other = (replies(site, conversation) for site in SITES)
    assert one == other


def mangled(data, changes):
    data = bytearray(data)
    for place, value in changes:
        data[framing.PREFIX_BYTES + place % (len(data) - framing.PREFIX_BYTES)] = value
    return bytes(data[framing.PREFIX_BYTES :])


@settings(max_examples=100, deadline=None)
@given(WANTS, st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=4))
def test_mangled_questions_are_refused_in_a_sentence(want, changes):
    """Sizes that a message claims are not allocated before they are checked."""
    member = PrepareMember(Site(SCHEMA, SITES[0], SECRET), SETTINGS, 3)
    with suppress(ProtocolError, FrameError):
        question = framing.from_server(mangled(framing.to_bytes(ask(want)).data, changes))
        if isinstance(question, m.AskPreparation):  # otherwise the session's table refuses it
            member.answer(question)


ANSWERS = st.one_of(
    st.none(),  # what fits, with words of one kind
    st.builds(m.Ready, st.integers(0, 3), st.booleans(), st.binary(max_size=9)),
    st.builds(m.Labels, st.integers(0, 3), st.just(0), st.binary(max_size=9)),
    st.just(m.Heard()),
    st.builds(m.Masked, st.integers(0, 2), st.integers(0, 2), vectors(9)),
)


def fitting(server, fill):
    """Return an answer of the right kind and size to the current question."""
    number, words = server.rounds - 1, server._round.words
    if server._round.reply is m.Ready:
        return m.Ready(number, bool(fill % 2), b"")
    small = np.random.default_rng(fill).integers(0, max(fill, 1), words).astype("<u8")
    return m.Masked(number, 0, m.Vector(words, 64, small.tobytes()))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), ANSWERS, st.integers(0, 3)), max_size=40))
def test_a_server_refuses_any_answer_in_a_sentence_or_ends(answers):
    names, agreed = ("a", "b"), Vocabulary((), SECRET.fingerprint).digest
    server = ServerSession(names, SETTINGS, run=bytes(16), vocabulary=agreed)
    fingerprint = bytes.fromhex(SECRET.fingerprint)
    for k, name in enumerate(names):
        join = m.Join(m.PROTOCOL, "1", bytes([k + 1] * 32), fingerprint, agreed, b"", 0, [], b"", b"", b"", 0, 0)
        server.receive(name, join, 0.0)
    for name in names:
        server.receive(name, m.Confirm(0, server.gathering._digest), 0.0)
    for name, message, fill in answers:
        if server.over:
            return
        with suppress(ProtocolError):
            server.receive(name, message or fitting(server, fill), 0.0)
