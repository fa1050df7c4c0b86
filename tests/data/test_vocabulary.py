from __future__ import annotations

import hashlib
import json
import os
import pickle
import stat

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fedslim.data import ItemSecret, TransactionDatabase, Vocabulary, labels_for, over, vocabulary
from fedslim.errors import DataError, ParameterError

KEY = bytes(range(32))
SECRET = ItemSecret.from_random(KEY)
OTHER = ItemSecret.from_random(bytes(32))
ODD_LABELS = ("", " ", "a\nb", "a\r\nb", "é", "e\u0301", "\0", "🦠", '","', "#" + "0" * 32, "A", "a", "a ")

labels = st.text(st.characters(codec="utf-8"), max_size=5)
databases = st.lists(st.sets(labels, max_size=6), max_size=8).map(TransactionDatabase.from_transactions)
vocabularies = st.lists(labels, unique=True, max_size=8).map(lambda given: Vocabulary.of(given, SECRET))


def content(*, items=(), **changes):
    record = {
        "format": "fedslim-vocabulary",
        "version": 1,
        "fingerprint": SECRET.fingerprint,
        "items": [item if isinstance(item, str) else SECRET.id_of(str(item)).hex() for item in items],
    }
    return json.dumps({**record, **changes})


# -- the secret ------------------------------------------------------------------------------------------------------


def test_ids_are_keyed_hashes_of_the_exact_text():
    twin = hashlib.blake2b("é".encode(), digest_size=16, key=KEY, person=b"fedslim item 1").digest()
    assert SECRET.id_of("é") == twin
    assert len(set(SECRET.ids_of(ODD_LABELS))) == len(ODD_LABELS)
    assert {len(each) for each in SECRET.ids_of(ODD_LABELS)} == {16}
    assert SECRET.id_of("a") != OTHER.id_of("a")


def test_ids_and_the_fingerprint_stay_what_they_are():
    """Members may run different releases, so these values must never change."""
    assert SECRET.id_of("milk").hex() == "a1abd1cd8525da5383deb029c821b21f"
    assert SECRET.fingerprint == "3849f5a9805d858f"
    assert (
        Vocabulary.of(["milk", "bread"], SECRET).digest.hex()
        == "ba5f232dd6f694106be0c0cdfa27a2decf6de566a1e7b7b56a61787ce60398d2"
    )


def test_the_fingerprint_is_no_id_and_tells_secrets_apart():
    assert SECRET.fingerprint == ItemSecret.from_random(KEY).fingerprint != OTHER.fingerprint
    assert not SECRET.id_of("").hex().startswith(SECRET.fingerprint)


def test_half_a_character_is_no_label():
    with pytest.raises(DataError, match=r"a label is the string 'x.udc80'.*lone surrogate"):
        SECRET.id_of("x\udc80")


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_secret_has_32_bytes(size):
    with pytest.raises(ParameterError, match=f"32 random bytes, not {size}"):
        ItemSecret.from_random(b"\x5a" * size)


def test_a_secret_is_written_once_and_for_its_owner_only(tmp_path):
    path = tmp_path / "new" / "members.secret"
    SECRET.write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert ItemSecret.read(path) == SECRET
    with pytest.raises(DataError, match=r"members\.secret: already exists"):
        OTHER.write(path)
    assert ItemSecret.read(path) == SECRET
    assert [each.name for each in path.parent.iterdir()] == ["members.secret"]


def test_a_secret_may_have_come_by_way_of_windows(write):
    path = write("s", f"fedslim-item-secret 1\r\n{KEY.hex()}\r\n\r\n")
    path.chmod(0o600)
    assert ItemSecret.read(path) == SECRET


@pytest.mark.skipif(os.name != "posix", reason="files have no such permissions here")
@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o644, 0o777])
def test_a_secret_that_others_may_use_is_refused(tmp_path, mode):
    path = tmp_path / "s"
    SECRET.write(path)
    path.chmod(mode)
    with pytest.raises(
        DataError, match=f"s: others may read or change this secret .*are {mode:o}.* chmod 600"
    ) as error:
        ItemSecret.read(path)
    assert KEY.hex() not in str(error.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "not a secret of fedslim"),
        (b"\xff\x00", "not a secret of fedslim"),
        (KEY.hex().encode(), "not a secret of fedslim"),
        (content().encode(), "not a secret of fedslim"),
        (b"fedslim-item-secret", "secrets of version 1"),
        (b"fedslim-item-secret 2\n" + KEY.hex().encode(), "secrets of version 1"),
        (b"fedslim-item-secret 1\n", "damaged"),
        (b"fedslim-item-secret 1\n" + KEY.hex()[:-1].encode(), "damaged"),
        (b"fedslim-item-secret 1\n" + KEY.hex().upper().encode(), "damaged"),
        (b"fedslim-item-secret 1\n" + KEY.hex().encode() + b"\n" + KEY.hex().encode(), "damaged"),
        (b"fedslim-item-secret 1\n" + KEY.hex().encode() * 1000, "damaged"),
        (b"fedslim-item-secret 1\n" + "٠".encode() * 32, "damaged"),
    ],
)
def test_a_bad_secret_is_reported_without_its_content(write, text, says):
    path = write("bad.secret", text)
    path.chmod(0o600)
    with pytest.raises(DataError, match=says) as error:
        ItemSecret.read(path)
    assert str(error.value).startswith(f"{path}: ")
    assert KEY.hex()[:16] not in str(error.value).lower()


def test_a_secret_that_is_not_there_or_no_file_is_reported(tmp_path):
    for path, says in ((tmp_path / "none", "no such file"), (tmp_path, "folder"), ("a\0b", "NUL")):
        with pytest.raises(DataError, match=says):
            ItemSecret.read(path)


def test_the_secret_shows_nowhere(tmp_path):
    made = Vocabulary.of(["a"], SECRET)
    made.write(tmp_path / "v.json")
    shown = [repr(SECRET), str(SECRET), f"{SECRET}", f"{[SECRET]!r}", repr(made), (tmp_path / "v.json").read_text()]
    for act in (
        lambda: over(TransactionDatabase.from_transactions([["b"]]), made, SECRET),
        lambda: labels_for(made, OTHER, ["a"]),
        lambda: SECRET.write(tmp_path),
        lambda: SECRET.id_of("\udc80"),
        lambda: ItemSecret(KEY + KEY),
    ):
        with pytest.raises((DataError, ParameterError)) as error:
            act()
        shown.append(str(error.value))
    assert not [text for text in shown if KEY.hex()[:8] in text or repr(KEY)[2:20] in text]
    assert repr(SECRET) == "ItemSecret()"


# -- vocabularies ----------------------------------------------------------------------------------------------------


def test_a_list_of_labels_keeps_its_order():
    made = Vocabulary.of(["b", "a", "c"], SECRET)
    assert made.ids == SECRET.ids_of("bac")
    assert made.index == {SECRET.id_of("b"): 0, SECRET.id_of("a"): 1, SECRET.id_of("c"): 2}
    assert (len(made), made.fingerprint) == (3, SECRET.fingerprint)
    assert repr(made) == f"Vocabulary(3 items, fingerprint {SECRET.fingerprint})"
    assert made.digest != Vocabulary.of(["a", "b", "c"], SECRET).digest


def test_a_label_twice_is_reported():
    with pytest.raises(DataError, match="label 'a' occurs twice"):
        Vocabulary.of(["a", "b", "a"], SECRET)


def test_ids_are_checked():
    one, two = SECRET.ids_of("ab")
    with pytest.raises(DataError, match="numbers 2 and 4 are the same id"):
        Vocabulary((one, two, one[::-1], two), SECRET.fingerprint)
    with pytest.raises(DataError, match="number 2 has 15 bytes"):
        Vocabulary((one, two[1:]), SECRET.fingerprint)
    with pytest.raises(DataError, match="fingerprint: 'x' is not 16 hexadecimal digits"):
        Vocabulary((one,), "x")


@given(vocabularies, vocabularies, vocabularies)
def test_merging_depends_on_the_items_only(a, b, c):
    merge = Vocabulary.merge
    assert merge(a, b) == merge(b, a)
    assert merge(merge(a, b), c) == merge(a, merge(b, c)) == merge(c, a, b)
    assert merge(a, a) == merge(a) == merge(merge(a))
    assert merge(a, b).ids == tuple(sorted({*a.ids, *b.ids}))
    assert merge(a, b).digest == merge(b, a).digest


@given(vocabularies)
def test_what_was_written_or_pickled_is_read_again(tmp_path_factory, made):
    path = tmp_path_factory.mktemp("v") / "v.json"
    made.write(path)
    assert Vocabulary.read(path) == made
    assert Vocabulary.read(path).digest == made.digest
    assert json.loads(path.read_text())["items"] == [each.hex() for each in made.ids]
    assert pickle.loads(pickle.dumps(made)) == made  # noqa: S301  # our own


def test_vocabularies_of_different_secrets_are_not_merged():
    ours, theirs = Vocabulary.of("ab", SECRET), Vocabulary.of("ab", OTHER)
    assert ours != theirs
    says = (
        f"vocabulary 2 was created with another secret .*{OTHER.fingerprint}.* than vocabulary 1 .*{SECRET.fingerprint}"
    )
    with pytest.raises(DataError, match=says):
        Vocabulary.merge(ours, theirs)
    with pytest.raises(DataError, match=r"y\.json was created with another secret .* than x\.json"):
        Vocabulary.merge(ours, theirs, names=["x.json", "y.json"])
    with pytest.raises(ParameterError, match="no vocabularies"):
        Vocabulary.merge()


# -- files -----------------------------------------------------------------------------------------------------------


def test_the_file_is_as_it_is(tmp_path):
    Vocabulary.of(["b", "a"], SECRET).write(tmp_path / "v.json")
    assert (tmp_path / "v.json").read_text() == (
        "{\n"
        '  "format": "fedslim-vocabulary",\n'
        '  "version": 1,\n'
        f'  "fingerprint": "{SECRET.fingerprint}",\n'
        '  "items": [\n'
        f'    "{SECRET.id_of("b").hex()}",\n'
        f'    "{SECRET.id_of("a").hex()}"\n'
        "  ]\n"
        "}\n"
    )


def test_labels_are_not_in_the_file(tmp_path):
    labels = ["diabetes", "HIV positive", "é" * 9, "line\nbreak"]
    Vocabulary.of(labels, SECRET).write(tmp_path / "v.json")
    written = (tmp_path / "v.json").read_text()
    plain = {hashlib.blake2b(label.encode(), digest_size=16).hexdigest() for label in labels}
    assert not [text for text in (*labels, "positive", "break", *plain) if text in written]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is empty"),
        ("{", "truncated"),
        (content(items="ab")[:-9], "truncated"),
        ("[]", "Expected `object`"),
        (b"\xff\xfe", "malformed"),
        ("[" * 100_000, "Expected `object`"),
        ('{"x":' + "[" * 2_000_000, "nested too deeply"),
        ('{"version": 1}', "missing required field `format`"),
        (content(format="fedslim-code-table"), "its format is 'fedslim-code-table', not 'fedslim-vocabulary'"),
        (content(format=None), r"\$\.format"),
        (content(version=0), "of version 0, and this fedslim reads version 1"),
        (content(version=10**30), r"\$\.version"),
        (content(version=1.5), r"\$\.version"),
        (content(version=1).replace("1,", "1e999,"), r"\$\.version"),
        (content(version=1).replace("1,", "9" * 5000 + ","), r"\$\.version"),
        (content().replace("[]", "7"), r"\$\.items"),
        (content().replace("[]", "[7]"), r"\$\.items"),
        (content(fingerprint=7), r"\$\.fingerprint"),
        (content(fingerprint="F" * 16), "fingerprint: 'FFFFFFFFFFFFFFFF' is not 16 hexadecimal digits"),
        (content(labels=["a"]), "unknown field `labels`"),
        (content(items=["a", "b", "c" * 31]), "items: number 1 is 'a'"),
        (content(items=[1, "c" * 31]), "items: number 2 is 'c+', not 32 hexadecimal digits"),
        (content(items=["c" * 33]), "items: number 1"),
        (content(items=["C" * 32]), "items: number 1"),
        (content(items=["٠" * 32]), "items: number 1"),
        (content(items=[" " + "c" * 31]), "items: number 1"),
        (content(items=["c" * 32 + "\n"]), "items: number 1"),
        (content(items=[1, 2, 3, 2]), "items: numbers 2 and 4 are the same id"),
    ],
)
def test_a_bad_file_is_reported_by_name_and_field(write, text, says):
    path = write("bad.json", text)
    with pytest.raises(DataError, match=says) as error:
        Vocabulary.read(path)
    assert str(error.value).startswith(f"{path} is not a usable vocabulary: ")
    assert "fedslim vocabulary make" in str(error.value)
    assert len(str(error.value)) < 400 + len(str(path))


def test_a_newer_file_asks_to_update(write):
    path = write("new.json", content(version=2))
    with pytest.raises(DataError, match=r"newer than this fedslim.* of version 2, .* reads version 1; update fedslim"):
        Vocabulary.read(path)


def test_the_secret_is_not_taken_for_a_vocabulary(tmp_path):
    SECRET.write(tmp_path / "s")
    with pytest.raises(DataError, match="this is a secret, not a vocabulary") as error:
        Vocabulary.read(tmp_path / "s")
    assert KEY.hex() not in str(error.value)


def test_a_file_that_is_too_large_is_not_decoded(write, monkeypatch):
    path = write("v.json", content(items=range(20)))
    monkeypatch.setattr(vocabulary, "MAX_ITEMS", 20)
    assert len(Vocabulary.read(path)) == 20
    with pytest.raises(DataError, match=r"items: there are 21.* at most 20"):
        Vocabulary.of(list(map(str, range(21))), SECRET)
    monkeypatch.setattr(vocabulary, "MAX_ITEMS", 10)
    with pytest.raises(DataError, match="more than 10 items"):
        Vocabulary.read(path)
    monkeypatch.setattr(vocabulary, "MAX_BYTES", 300)
    with pytest.raises(DataError, match="larger than 300 bytes"):
        Vocabulary.read(path)


def test_a_file_that_is_not_there_or_cannot_be_is_reported(tmp_path):
    for path, says in ((tmp_path / "none", "no such file"), (tmp_path, "folder"), ("a\0b", "NUL")):
        with pytest.raises(DataError, match=says):
            Vocabulary.read(path)
    with pytest.raises(DataError, match="not a regular file"):
        Vocabulary.of("a", SECRET).write(tmp_path)


# -- databases over a vocabulary -------------------------------------------------------------------------------------


@given(databases, vocabularies, st.randoms(use_true_random=False))
def test_every_transaction_stays_what_it_is(database, more, random):
    ids = [*Vocabulary.merge(Vocabulary.of(database.vocabulary, SECRET), more).ids]
    random.shuffle(ids)
    agreed = Vocabulary(tuple(ids), SECRET.fingerprint)
    renumbered = over(database, agreed, SECRET)
    assert [set(each) for each in renumbered] == [set(each) for each in database]
    assert renumbered.n_items == len(agreed)
    for item, label in zip(agreed.ids, renumbered.vocabulary, strict=True):
        known = label in database.vocabulary
        assert item == (SECRET.id_of(label) if known else bytes.fromhex(label[1:]))
    # Compare with a slow version, transaction by transaction.
    twin = [sorted(agreed.index[SECRET.id_of(label)] for label in each) for each in database]
    assert [renumbered.item_ids(t).tolist() for t in range(len(renumbered))] == twin
    assert labels_for(agreed, SECRET, database.vocabulary) == renumbered.vocabulary


def test_members_with_the_same_vocabulary_number_alike():
    ours = TransactionDatabase.from_transactions([["a", "b"], [], ["c"]], name="ours")
    theirs = TransactionDatabase.from_transactions([["d", "b"]])
    agreed = Vocabulary.merge(*(Vocabulary.of(each.vocabulary, SECRET) for each in (ours, theirs)))
    first, second = (over(each, agreed, SECRET) for each in (ours, theirs))
    number = agreed.index[SECRET.id_of("b")]
    assert first.vocabulary[number] == second.vocabulary[number] == "b"
    assert first.vocabulary[agreed.index[SECRET.id_of("d")]] == "#" + SECRET.id_of("d").hex()
    assert (first.name, first.transactions, first.lengths.tolist()) == ("ours", 3, [2, 0, 1])


def test_what_is_known_of_the_data_stays_known():
    database = TransactionDatabase.from_transactions([["a", "a", "b"]], name="n")
    renumbered = over(database, Vocabulary.of(["b", "a"], SECRET), SECRET)
    assert (renumbered.duplicates_removed, renumbered.name) == (1, "n")
    assert renumbered.items.dtype == np.int32


def test_over_its_own_vocabulary_a_database_is_equal():
    database = TransactionDatabase.from_transactions([["a", "c"], ["b"]])
    assert over(database, Vocabulary.of(database.vocabulary, SECRET), SECRET) == database


def test_an_empty_database_has_a_place_too():
    nothing = TransactionDatabase.from_transactions([])
    assert over(nothing, Vocabulary.of([], SECRET), SECRET) == nothing
    assert over(nothing, Vocabulary.of("ab", SECRET), SECRET).n_items == 2


@pytest.mark.parametrize(
    ("given", "says"), [("a", "lacks 'a';"), ("abc", "lacks 'a', 'b', 'c';"), ("abcde", "'b', 'c' and 2 more;")]
)
def test_an_item_that_the_vocabulary_lacks_is_reported(given, says):
    database = TransactionDatabase.from_transactions([[*given, "x"]], name="ward")
    with pytest.raises(DataError, match=f"ward: the agreed vocabulary .*{says} .*merge it"):
        over(database, Vocabulary.of("xyz", SECRET), SECRET)


def test_another_secret_is_reported_before_everything_is_lacking():
    database = TransactionDatabase.from_transactions([["a"]])
    with pytest.raises(DataError, match=f"another secret .*{OTHER.fingerprint}.*{SECRET.fingerprint}"):
        over(database, Vocabulary.of("a", OTHER), SECRET)


def test_labels_may_be_given_that_nobody_has():
    agreed = Vocabulary.of(["b", "a"], SECRET)
    assert labels_for(agreed, SECRET, iter(["a", "never"])) == ("#" + SECRET.id_of("b").hex(), "a")


def test_a_label_that_looks_like_another_items_stand_in_is_reported():
    mean = "#" + SECRET.id_of("b").hex()
    database = TransactionDatabase.from_transactions([[mean]])
    with pytest.raises(DataError, match=r"the label .* is the same as the id of another item"):
        over(database, Vocabulary.of([mean, "b"], SECRET), SECRET)
    with pytest.raises(DataError, match=r"the label .* is the same as the id of another item"):
        labels_for(Vocabulary.of([mean, "b"], SECRET), SECRET, [mean])
