"""What must not be sent is not sent: asserted on recorded bytes."""

from __future__ import annotations

import math
import random
import zlib
from itertools import pairwise

import numpy as np
import pytest

from fedslim.data import TransactionDatabase
from fedslim.errors import ProtocolError
from fedslim.protocol import messages as m
from fedslim.protocol.member import MemberInput, MemberSession
from fedslim.secagg.keys import AgreementKey
from wire import (
    FIGURE,
    MOST,
    RUN,
    SECRET,
    VARIANTS,
    Line,
    databases,
    decoded,
    entropy_of,
    of_numbers,
    recorded,
    settings_for,
    walk,
)

LABELS = ["diagnosis-melanoma", "therapy-nivolumab", "ward-4711", "outcome-deceased", "payer-statutory"]
MASKED = ("x", "sa")
WORD = (1 << 64) - 1


def labelled():
    """The figure's data, with labels that are easy to find in bytes."""
    named = dict(zip("abcde", LABELS, strict=True))
    return databases({own: [[named[x] for x in row] for row in rows] for own, rows in FIGURE.items()}, sorted(LABELS))


def plain(frame):
    return zlib.decompress(frame.data[4:])


def words_of(reply):
    return np.frombuffer(reply.words.data, "<u8")


# -- nothing secret is sent ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agreed", [True, False])
@pytest.mark.parametrize("variant", VARIANTS)
def test_no_label_and_no_secret_is_in_any_frame(variant, agreed):
    named = labelled()
    federation, _, seen = recorded(named, variant, agreed=agreed, seed=5)
    draw = entropy_of(5)
    entropies = [draw(32) for _ in named]
    keys = {name: AgreementKey.from_random(e) for name, e in zip(named, entropies, strict=True)}
    (digest,) = {confirm.signature for confirm in seen.messages("up", "Confirm")}  # where signatures prove nothing
    pair = keys["c1"].agree("c1", "c2", keys["c2"].public, run=digest)
    assert pair == keys["c2"].agree("c2", "c1", keys["c1"].public, run=digest)
    if variant != "so":
        assert federation.members["c1"]._secrets == {"c2": pair}
    secrets = [SECRET.key, pair.key, *entropies]
    texts = [label.encode() for label in LABELS] + [part.encode() for label in LABELS for part in label.split("-")]
    for frame in seen.frames:
        for data in (frame.data, plain(frame)):
            for secret in (*secrets, *texts):
                assert secret not in data
                assert secret[::-1] not in data
            for secret in secrets:
                assert secret.hex().encode() not in data
                assert secret[:16] not in data
    # The public keys, in contrast, are found: so the search works.
    assert all(any(key.public in plain(frame) for frame in seen.frames) for key in keys.values())


@pytest.mark.parametrize("variant", VARIANTS)
def test_with_an_agreed_vocabulary_not_even_ids_are_sent(variant):
    _, _, seen = recorded(labelled(), variant)
    for join in seen.messages("up", "Join"):
        assert (join.ids, join.labels, join.items, len(join.digest)) == (b"", [], 5, 32)
        assert join.fingerprint == bytes.fromhex(SECRET.fingerprint)
        assert len(join.fingerprint) == 8
    for roster in seen.messages("down", "Roster"):
        assert roster.ids == b""
    ids = SECRET.ids_of(LABELS)
    assert not any(i in plain(frame) for frame in seen.frames for i in ids)


@pytest.mark.parametrize("variant", VARIANTS)
def test_otherwise_ids_are_keyed_hashes_in_an_order_that_says_nothing(variant):
    named = labelled()
    _, _, seen = recorded(named, variant, agreed=False)
    ids = SECRET.ids_of(sorted(LABELS))
    for join in seen.messages("up", "Join"):
        assert (join.ids, join.labels, join.digest) == (b"".join(ids), [], b"")
    (roster, _) = seen.messages("down", "Roster")
    assert roster.ids == b"".join(sorted(ids))
    assert all(len(i) == 16 for i in ids)


def test_labels_are_sent_only_by_a_member_that_shares_them():
    """As its own file says; it refuses a server that announces otherwise."""
    database = labelled()["c1"]
    for share, other in (("none", "server"), ("members", "none"), ("server", "members")):
        member = MemberSession("c1", MemberInput(database, ("c1",), settings_for("x", share=share), SECRET))
        join = member.join(bytes(32))
        assert join.labels == (list(database.vocabulary) if share == "server" else [])
        ids = b"".join(sorted(SECRET.ids_of(database.vocabulary)))
        roster = m.Roster(RUN, settings_for("x", share=other), ["c1"], [join.key], ids, 0, [b""], 0)
        with pytest.raises(ProtocolError, match=f"announced share_labels = {other!r}"):
            member.receive(roster)


# -- in x and sa the server sees sums --------------------------------------------------------------------------------


def test_x_sends_nothing_upward_but_masked_words():
    _, _, seen = recorded(databases(FIGURE), "x")
    assert {frame.kind for frame in seen.frames if frame.direction == "up"} == {"Join", "Confirm", "Masked"}
    fields = {path for reply in seen.messages("up", "Masked") for path, _ in walk(reply)}
    assert fields == {"round", "attempt", "words.length", "words.bits", "words.data"}


def test_sa_sends_structure_without_counts_and_masked_words():
    _, _, seen = recorded(databases(FIGURE), "sa")
    assert {frame.kind for frame in seen.frames if frame.direction == "up"} == {
        "Join",
        "Confirm",
        "Structure",
        "Masked",
    }
    for reply in seen.messages("up", "Structure"):
        assert {path.split(".")[0] for path, _ in walk(reply)} == {"round", "x", "y"}
        assert max(reply.x.values().max(initial=0), reply.y.values().max(initial=0)) < 30  # numbers of elements


def differing(one, other):
    """The frames of two runs, side by side; they must have the same kinds, and differ only in masked words."""
    assert [f[:5] for f in one.frames] == [f[:5] for f in other.frames]  # kind, direction, member and both sizes
    words = 0
    for a, b in zip(one.frames, other.frames, strict=True):
        if a.kind != "Masked":
            assert a.data == b.data
            continue
        left, right = decoded(a), decoded(b)
        assert (left.round, left.attempt, left.words.length) == (right.round, right.attempt, right.words.length)
        words += left.words != right.words
    return words


@pytest.mark.parametrize("least", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_in_x_only_the_sums_decide_what_is_said(seed, least):
    """The same transactions, dealt differently: everything but masked words is the same to the byte."""
    rng = random.Random(seed)
    rows = [row for part in of_rows(seed) for row in part]
    runs = []
    for _ in range(3):
        rng.shuffle(rows)
        cuts = sorted(rng.sample(range(len(rows) + 1), 2))
        parts = [rows[: cuts[0]], rows[cuts[0] : cuts[1]], rows[cuts[1] :]]
        _, outcome, seen = recorded(of_numbers(parts, 12), "x", seed=1, min_count=least)
        runs.append((outcome.table, seen))
    for table, seen in runs[1:]:
        assert table == runs[0][0]
        assert differing(runs[0][1], seen) > 0


def of_rows(seed):
    from federation import skewed

    return skewed(seed, 12, 3, 40)


def test_in_x_members_that_change_places_change_nothing_for_the_server():
    one, other = of_rows(1)[:2]
    _, _, first = recorded(of_numbers([one, other], 12), "x")
    _, _, second = recorded(of_numbers([other, one], 12), "x")
    downward = [[f.data for f in seen.frames if f.direction == "down"] for seen in (first, second)]
    assert downward[0] == downward[1]
    assert differing(first, second) > 0


def test_in_x_a_member_without_data_looks_like_any_other():
    rows = [row for part in of_rows(2) for row in part]
    _, _, spread = recorded(of_numbers([rows[::2], rows[1::2]], 12), "x")
    _, _, alone = recorded(of_numbers([rows, []], 12), "x")
    assert differing(spread, alone) > 0


def test_in_sa_only_structure_and_sums_decide_what_is_said():
    """The same pairs at the same members, other counts with the same sums."""
    one = {"c1": ["abc"] * 6 + ["de"] * 9 + ["a"] * 3, "c2": ["abc"] * 9 + ["de"] * 4 + ["a"] * 2}
    other = {"c1": ["abc"] * 4 + ["de"] * 7 + ["a"] * 1, "c2": ["abc"] * 11 + ["de"] * 6 + ["a"] * 4}
    runs = [recorded(databases(parts), "sa") for parts in (one, other)]
    assert runs[0][1].table == runs[1][1].table
    assert runs[0][1].tally.accepted > 1
    assert differing(runs[0][2], runs[1][2]) > 0


@pytest.mark.parametrize("variant", MASKED)
def test_the_length_of_an_answer_is_said_by_the_question(variant):
    """All members answer a round with the same number of words, whatever their data."""
    parts = [*of_rows(3), []]
    _, _, seen = recorded(of_numbers(parts, 12), variant)
    lengths = {}
    for reply in seen.messages("up", "Masked"):
        lengths.setdefault(reply.round, set()).add((reply.words.length, reply.words.bits, len(reply.words.data)))
    assert lengths
    assert all(len(each) == 1 for each in lengths.values())


# -- masked words are noise ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=MASKED)
def noisy(request):
    """The masked and the plain words of every member, by round, of the same run."""
    named = of_numbers([part * 3 for part in of_rows(4)], 12)
    if request.param == "sa":
        named = {name: database.take([*range(database.transactions)] * 2) for name, database in named.items()}
    runs = []
    for masked in (True, False):
        _, outcome, seen = recorded(named, request.param, masked=masked, seed=3)
        words = {(f.member, decoded(f).round): words_of(decoded(f)) for f in seen.frames if f.kind == "Masked"}
        runs.append((outcome.table, words))
    assert runs[0][0] == runs[1][0]
    return runs[0][1], runs[1][1]


def test_no_plain_word_is_sent(noisy):
    masked, unmasked = noisy
    assert masked.keys() == unmasked.keys()
    for key, words in masked.items():
        assert len(words) == len(unmasked[key])
        assert not (words == unmasked[key]).any()
    small = {int(w) for words in unmasked.values() for w in words if w < 1 << 20}
    assert small
    assert not small & {int(w) for words in masked.values() for w in words}


def chi_square(data):
    counts = np.bincount(np.frombuffer(data, np.uint8), minlength=256)
    expected = len(data) / 256
    return float(((counts - expected) ** 2 / expected).sum())


def test_masked_words_are_uniform(noisy):
    """Chi-square of 255 degrees of freedom, at five standard deviations; plain words are nowhere near."""
    masked, unmasked = noisy
    for name in {name for name, _ in masked}:
        data = b"".join(words.tobytes() for (own, _), words in masked.items() if own == name)
        assert len(data) > 256 * 20
        assert abs(chi_square(data) - 255) < 5 * math.sqrt(2 * 255)
        # and each byte of the word on its own
        each = np.frombuffer(data, np.uint8).reshape(-1, 8)
        for place in range(8):
            bits = np.unpackbits(each[:, place])
            assert abs(bits.mean() - 0.5) < 5 * 0.5 / math.sqrt(len(bits))
    plain_data = b"".join(words.tobytes() for words in unmasked.values())
    assert chi_square(plain_data) > 10_000


def signs(words):
    """Bits as ±1: for independent ones the mean product is 0, up to 1/√n."""
    return 2.0 * np.unpackbits(words.view(np.uint8)) - 1.0


def independent(one, other):
    n = min(len(one), len(other))
    product = float((signs(one[:n].copy()) * signs(other[:n].copy())).mean())
    return abs(product) < 5 / math.sqrt(64 * n)


def test_masked_words_say_nothing_about_plain_words_other_rounds_or_other_members(noisy):
    masked, unmasked = noisy
    names = sorted({name for name, _ in masked})
    rounds = sorted({number for _, number in masked})
    together = {name: np.concatenate([masked[name, r] for r in rounds]) for name in names}
    truth = {name: np.concatenate([unmasked[name, r] for r in rounds]) for name in names}
    for name in names:
        assert independent(together[name], truth[name])
        for k in (1, 2, 7):
            assert independent(together[name][:-k], together[name][k:])
        pairs = [(masked[name, a], masked[name, b]) for a, b in pairwise(rounds)]
        short = [(a[: min(len(a), len(b))], b[: min(len(a), len(b))]) for a, b in pairs]
        assert independent(np.concatenate([a for a, _ in short]), np.concatenate([b for _, b in short]))
    for k, name in enumerate(names[:-1]):
        assert independent(together[name], together[names[k + 1]])
    # Differences of two rounds' answers, where plain answers are often the same, are as random.
    sums = sum(together.values())
    assert (sums == sum(truth.values())).all()


@pytest.mark.parametrize("variant", MASKED)
def test_two_runs_share_no_masks(variant):
    named = of_numbers(of_rows(5), 12)
    one, other = (
        np.concatenate([words_of(r) for r in recorded(named, variant, seed=seed)[2].messages("up", "Masked")])
        for seed in (1, 2)
    )
    assert len(one) == len(other)
    assert not (one == other).any()
    assert independent(one, other)


def test_a_member_alone_has_nobody_to_hide_among():
    """The sum of one member is its own answer: this is known, and no different from sending it."""
    _, _, seen = recorded(databases({"c1": ["ab"] * 3 + ["a"]}), "x")
    first = seen.messages("up", "Masked")[0]
    assert words_of(first)[0] & 0xFF == 4


# -- in so members see nothing of each other --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_so_asks_a_member_about_its_own_elements_and_nothing_else(seed):
    parts = of_rows(seed)
    named = of_numbers(parts, 12)
    _, outcome, seen = recorded(named, "so")
    assert len(outcome.table.itemsets) > 2
    for name, database in named.items():
        own = set(np.flatnonzero(database.supports).tolist())
        proposed, following = set(), 12
        for frame in (f for f in seen.frames if f.member == name):
            message = decoded(frame)
            if frame.direction == "up":
                if isinstance(message, m.Candidates):
                    proposed |= set(zip(message.x.values().tolist(), message.y.values().tolist(), strict=True))
                continue
            accepted = getattr(message, "accepted", None)
            pairs = [*getattr(message, "pairs", []), *(accepted.pairs if accepted else [])]
            for x, y in pairs:
                assert {x, y} <= own
                assert (x, y) in proposed or (y, x) in proposed
            if accepted:
                own.add(following)
                following += 1
        fields = {
            (f.kind, path)
            for f in seen.frames
            if f.member == name and f.direction == "down"
            for path, _ in walk(decoded(f))
        }
        assert {path for kind, path in fields if kind not in {"Roster", "Confirmed", "Finish"}} <= {
            "round",
            "accepted",
            "accepted.pairs",
            "pairs",
        }


def test_so_tells_members_no_table():
    federation, _, seen = recorded(databases(FIGURE), "so")
    assert all(finish.table is None for finish in seen.messages("down", "Finish"))
    for name, member in federation.members.items():
        # A member knows only its own table.
        own = member.received.table
        assert own.transactions == member._own.database.transactions
        covered = sum(len(e.items) * e.usage for e in (*own.itemsets, *own.singletons))
        assert covered == member._own.database.occurrences, name


def test_so_a_member_cannot_tell_what_another_one_has():
    """The messages to c1 are the same whatever items c2's patterns have."""
    own = ["abc"] * 6 + ["ab"] * 2 + ["c"]
    told = []
    for theirs in (["def"] * 7, ["dgh"] * 7):
        named = databases({"c1": own, "c2": theirs}, list("abcdefgh"))
        _, _, seen = recorded(named, "so")
        told.append([f.data for f in seen.frames if f.member == "c1" and f.direction == "down"])
    assert told[0] == told[1]


def test_x_and_sa_tell_everybody_the_same():
    for variant in MASKED:
        _, _, seen = recorded(databases(FIGURE), variant)
        one, other = ([f.data for f in seen.frames if f.member == c and f.direction == "down"] for c in FIGURE)
        assert one == other


def test_the_bound_of_a_run_says_nothing_about_the_data():
    small = TransactionDatabase.from_transactions([["a"]])
    for named in ({"c1": small, "c2": small}, databases(FIGURE)):
        _, _, seen = recorded(named, "x")
        assert {roster.settings.max_transactions for roster in seen.messages("down", "Roster")} == {MOST}


@pytest.mark.parametrize("variant", ["x", "sa"])
@pytest.mark.parametrize("left", [0, 1])
def test_counts_leave_with_the_masks_of_all_others_or_not_at_all(variant, left):
    """No message from a server leads here; if a bug did, the counts would stay."""
    line = Line(databases(FIGURE | {"c3": ["ab"]}), variant).begin()

    def down(name, message):
        if name == "c1" and hasattr(message, "attempt"):
            member = line.members[name]
            member._secrets = dict(list(member._secrets.items())[:left])
        return message

    with pytest.raises(ProtocolError, match="without masks"):
        line.run(down=down)
