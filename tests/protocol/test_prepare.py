"""The preparation: what it finds equals what `agree` finds in one place, and what a lying server cannot do."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from fedslim.data import ItemSecret, Vocabulary
from fedslim.data.frames import dataframe_table
from fedslim.errors import ProtocolError, UntrustedError
from fedslim.federated.simulation import entropy_of
from fedslim.network.in_process import FrameSent, MemoryFederation
from fedslim.protocol import framing, messages as m
from fedslim.protocol.bisection import PARTS, Bisection, OpenColumn, ordered, round_all, value_of
from fedslim.protocol.member import MemberInput, MemberSession
from fedslim.protocol.preparation import MAX_ROUNDS, Outline, Preparation
from fedslim.protocol.prepare import FIRST_SKETCH, PrepareMember, Site
from fedslim.protocol.roster import Unsigned
from fedslim.protocol.server import ServerSession
from fedslim.schema import Schema, agree, conform
from fedslim.schema.agreeing import rounded

SECRET = ItemSecret.from_random(bytes(range(32)))
SCHEMA = Schema.of(
    {
        "columns": {
            "a": {"kind": "numeric", "bins": 4},
            "b": {"kind": "numeric", "bins": 3, "resolution": 0.1},
            "c": {"kind": "categorical", "cap": 2},
        }
    }
)


def site_of(schema, rows):
    names = list(schema.columns)
    frame = pd.DataFrame({name: [row[k] for row in rows] for k, name in enumerate(names)})
    return conform(schema, dataframe_table(frame))


def settings_of(schema):
    outline = str(Outline.of(schema))
    return m.Settings("prepare", True, 1 << 40, max_rounds=MAX_ROUNDS, schema=schema.digest(), outline=outline)


def federation(schema, sites, *, min_overlap=0.0, trace=lambda _: None):
    names, agreed = tuple(sites), settings_of(schema)
    server = ServerSession(names, agreed, run=bytes(16), vocabulary=Vocabulary((), SECRET.fingerprint).digest)
    inputs = {
        name: MemberInput.preparing(Site(schema, one, SECRET, min_overlap), names, agreed, Unsigned())
        for name, one in sites.items()
    }
    return MemoryFederation(server, inputs, entropy=entropy_of(1), trace=trace)


def rows_of(number, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    return [(shift + rng.normal(), shift + rng.normal(), str(rng.choice(list("uvwxyz")))) for _ in range(number)]


# -- it finds what is found in one place -----------------------------------------------------------------------------

VALUES = st.one_of(
    st.floats(allow_nan=False, width=64),
    st.sampled_from([0.0, -0.0, 1.0, 1.5, 2.5, 0.25, 0.05, 0.15, -7.0, 1e300, -1e300, math.inf, -math.inf, 5e-324]),
    st.none(),
)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([2, 3, 10]).flatmap(
        lambda n: st.lists(
            st.lists(st.tuples(VALUES, VALUES, st.sampled_from(["u", "v", "w", "x", None])), min_size=1, max_size=12),
            min_size=n,
            max_size=n,
        )
    ),
    st.sampled_from([None, 0.1, 0.5, 1.0, 3.0, 1e-7]),
)
def test_cuts_categories_and_items_are_those_of_all_rows_in_one_place(members, step):
    given_step = {} if step is None else {"resolution": step}
    schema = Schema.of(
        {
            "columns": {
                "a": {"kind": "numeric", "bins": 4, **given_step},
                "b": {"kind": "numeric", "bins": 3},
                "c": {"kind": "categorical", "cap": 2},
            }
        }
    )
    texts = [[tuple(one if one is None else str(one) for one in row) for row in rows] for rows in members]
    sites = {f"m{k}": site_of(schema, rows) for k, rows in enumerate(texts)}
    together = agree(schema, list(sites.values()))
    run = federation(schema, sites)
    made = run.run().preparation
    labels = set()
    for name, site in sites.items():
        received = run.members[name].received
        assert received.preparation == made
        assert msgspec.json.decode(msgspec.json.encode(made), type=Preparation) == made
        found = made.agreed(schema, site, SECRET)
        assert found.cuts == together.cuts
        assert found.kept == {"c": together.kept["c"] & set(site.categories("c"))}
        assert list(made.database(schema, site, SECRET)) == list(site.items(together))
        labels |= set(site.items(together).vocabulary)
    assert made.ids == sorted(SECRET.ids_of(labels))


@given(st.lists(st.floats(allow_nan=False), max_size=30), st.sampled_from([0.1, 0.5, 1.0, 7.0, 1e-7, 1e10]))
def test_rounding_all_values_equals_rounding_each(values, step):
    values += [k * step / 2 for k in range(-5, 6)]
    assert round_all(np.array(values), step).tolist() == sorted(rounded(value, step) for value in values)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_ordered_numbers_compare_as_the_values(one, other):
    first, second = ordered(np.array([one, other])).tolist()
    assert (first < second) == (one < other)
    assert (first == second) == (one == other)
    assert value_of(first) == one


def test_the_exact_order_statistic_is_never_asked_about():
    bisection = Bisection([OpenColumn(2, 1.0)])
    bisection.begin([1])
    exact = int(ordered(np.array([50.0]))[0])
    rounds = 0
    while intervals := bisection.open:
        (interval,) = intervals
        bisection.choose([int(np.searchsorted(interval.edges(), exact, side="right")) - 1])
        rounds += 1
    (last,) = bisection.intervals
    assert rounds <= 5
    assert last.high - last.low > 1 << 30  # the interval still has many values
    assert bisection.statistics() == [["50.0"]]


# -- what leaves a member --------------------------------------------------------------------------------------------


def test_recorded_bytes_have_no_count_and_no_item_of_a_single_member():
    sites = {f"m{k}": site_of(SCHEMA, rows_of(50, k)) for k in range(3)}
    frames = []
    made = federation(SCHEMA, sites, trace=lambda e: frames.append(e) if isinstance(e, FrameSent) else None)
    found = made.run().preparation
    kinds = {frame.kind for frame in frames if frame.direction == "up"}
    assert kinds == {"Join", "Confirm", "Masked", "Ready"}
    for frame in frames:
        if frame.direction == "up":
            assert not any(one in frame.data for one in found.ids)
        if frame.kind == "Ready":
            assert framing.from_member(frame.data[framing.PREFIX_BYTES :]).signature == b""
    masked = [framing.from_member(f.data[framing.PREFIX_BYTES :]) for f in frames if f.kind == "Masked"]
    words = np.concatenate([np.frombuffer(one.words.data, "<u8") for one in masked])
    assert abs(np.unpackbits(words.view(np.uint8)).mean() - 0.5) < 0.01  # it looks random


# -- departures ------------------------------------------------------------------------------------------------------


def departing():
    """Return a federation in which the last member shares nothing."""
    plain = {"columns": {"c": {"kind": "categorical"}}}
    schema = Schema.of(plain)
    labels = {"m0": "uv", "m1": "uv", "m2": "xy"}
    return schema, {name: site_of(schema, [(one,) for one in text]) for name, text in labels.items()}


def test_a_member_that_shares_too_little_leaves_and_signs_that():
    schema, sites = departing()
    run = federation(schema, sites, min_overlap=0.5)
    made = run.run().preparation
    assert list(made.left) == ["m2"]
    assert run.members["m2"].received.overlap[:2] == (2, 0)
    assert run.members["m0"].received.preparation.left == made.left


def test_a_server_cannot_say_that_a_member_left_which_did_not():
    schema, sites = departing()
    run = federation(schema, sites)
    finish, stranger = (m.Finish("converged", None, (), [m.Departure(name, b"never signed")]) for name in ("m2", "m9"))
    run.run()
    member = run.members["m0"]
    with pytest.raises(UntrustedError, match="'m2'"):
        member._variant.end(finish, "m0", member._roster, member._digest, Unsigned())
    with pytest.raises(ProtocolError, match="not a member"):
        member._variant.end(stranger, "m0", member._roster, member._digest, Unsigned())


# -- a lying server --------------------------------------------------------------------------------------------------


def ask(want, chosen=(), number=0):
    return m.AskPreparation(number, 0, m.Vector.of(np.array(chosen, np.int64)), want)


@pytest.fixture
def member():
    return PrepareMember(Site(SCHEMA, site_of(SCHEMA, rows_of(30, 1)), SECRET), settings_of(SCHEMA), 3)


BETWEEN, ITEMS = m.WantBetween(20), m.WantItems(m.Vector.of(np.empty(0, np.int64)), FIRST_SKETCH)


@pytest.mark.parametrize(
    ("lies", "told"),
    [
        ([ask(BETWEEN)], "WantBetween at the start"),
        ([ask(ITEMS)], "WantItems at the start"),
        ([ask(m.WantValues()), ask(m.WantValues())], "order statistics"),
        ([ask(m.WantValues()), ask(BETWEEN, (4, 2))], "order statistics"),
        ([ask(m.WantValues()), ask(BETWEEN, (3, 2)), ask(BETWEEN, (5, 9, 3, 1, 1))], "not in ascending order"),
        ([ask(m.WantValues()), ask(BETWEEN, (3, 2)), ask(BETWEEN, (5, 5))], "not one for each"),
        ([ask(m.WantValues()), ask(BETWEEN, (3, 2)), ask(BETWEEN, (5, 5, 5, 1, PARTS))], "not one for each"),
        ([ask(m.WantValues()), ask(BETWEEN, (3, 2)), ask(m.WantCategories(FIRST_SKETCH), (5,) * 5)], "never does"),
        ([ask(m.WantValues()), ask(m.WantCategories(FIRST_SKETCH), (0, 0)), ask(ITEMS)], "never does"),
        ([ask(m.WantValues()), ask(m.WantCategories(FIRST_SKETCH * 2), (0, 0))], "is next"),
        ([ask(m.WantValues()), ask(m.WantBetween(64), (1, 0))], "counts of 64 bits"),
    ],
)
def test_questions_that_no_preparation_asks_are_refused(member, lies, told):
    for question in lies[:-1]:
        member.answer(question)
    with pytest.raises(ProtocolError, match=told):
        member.answer(lies[-1])


def test_a_lack_of_items_is_no_reason_to_refuse_and_so_no_oracle():
    schema, sites = departing()
    for name in ("m0", "m2"):
        member = PrepareMember(Site(schema, sites[name], SECRET), settings_of(schema), 3)
        member.answer(ask(ITEMS))
        some = sorted(SECRET.ids_of(["c=u", "c=v"]))
        flags = m.Vector.of(np.ones(2, np.int64))
        assert member.answer(ask(m.WantReady(b"".join(some), flags), number=1)) == m.Ready(1, False, b"")


# -- files -----------------------------------------------------------------------------------------------------------


def test_a_kept_preparation_reads_back_and_a_damaged_one_says_so(tmp_path):
    sites = {f"m{k}": site_of(SCHEMA, rows_of(20, k)) for k in range(2)}
    made = federation(SCHEMA, sites).run().preparation
    made.write(tmp_path / "preparation.json")
    assert Preparation.read(tmp_path / "preparation.json") == made
    text = (tmp_path / "preparation.json").read_text("utf-8")
    (tmp_path / "bad.json").write_text(text.replace('"ids"', '"idz"'), "utf-8")
    with pytest.raises(Exception, match=r"bad.json is not a usable preparation: "):
        Preparation.read(tmp_path / "bad.json")


@pytest.mark.parametrize("text", ["10/0.1 5 <=20", "", "<=3", "2"])
def test_an_outline_reads_back(text):
    assert str(Outline.parse(text)) == text


@pytest.mark.parametrize("text", ["10/", "x", "10 /2", "<=", "10/0.10", "5  5"])
def test_other_texts_are_no_outlines(text):
    with pytest.raises(ValueError, match=r"outline|literal|float"):
        Outline.parse(text)


# -- faults ----------------------------------------------------------------------------------------------------------


def test_a_member_that_was_killed_continues_where_it_was():
    sites = {f"m{k}": site_of(SCHEMA, rows_of(40, k)) for k in range(3)}
    told = []
    run = federation(SCHEMA, sites, trace=lambda e: told.append(e) if isinstance(e, FrameSent) else None)
    made = run.run().preparation
    down = [frame for frame in told if (frame.direction, frame.member) == ("down", "m1")]
    heard = [framing.from_server(frame.data[framing.PREFIX_BYTES :]) for frame in down]
    own = MemberInput.preparing(Site(SCHEMA, sites["m1"], SECRET), tuple(sites), settings_of(SCHEMA), Unsigned())
    for cut in range(1, len(heard) + 1):
        again = MemberSession("m1", own)
        again.replay(heard[:cut])
        assert again.position == sum(isinstance(one, m.AskPreparation) for one in heard[:cut])
    assert again.received.preparation == made
