from __future__ import annotations

import json
import re
import stat

import pytest

from fedslim.data import ItemSecret, Vocabulary, load


@pytest.fixture
def members(fedslim, tmp_path, monkeypatch):
    """Run the test in a folder with a secret and the data of two members."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "north.csv").write_text("drug,sign\nibuprofen,fever\nenalapril,cough\n")
    (tmp_path / "south.csv").write_text("drug,sign\nibuprofen,rash\n")
    assert fedslim("vocabulary", "secret", "members.secret").code == 0
    return tmp_path


@pytest.fixture
def made(fedslim, members):
    """The same folder, with the vocabularies of both members."""
    for name in ("north", "south"):
        ran = fedslim("vocabulary", "make", f"{name}.csv", "--secret", "members.secret", "--out", f"{name}.json")
        assert (ran.code, ran.err) == (0, "")
    return members


def key(folder):
    return (folder / "members.secret").read_text().split()[-1]


# -- secret ----------------------------------------------------------------------------------------------------------


def test_a_secret_is_new_private_and_told_by_its_fingerprint_only(fedslim, tmp_path):
    one, two = tmp_path / "one", tmp_path / "new" / "two"
    for path in (one, two):
        ran = fedslim("vocabulary", "secret", path)
        assert (ran.code, ran.out, ran.err) == (0, f"{path}: fingerprint {ItemSecret.read(path).fingerprint}\n", "")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert ItemSecret.read(one) != ItemSecret.read(two)


def test_a_secret_is_not_replaced(fedslim, members):
    before = key(members)
    ran = fedslim("vocabulary", "secret", "members.secret")
    assert (ran.code, ran.out) == (2, "")
    assert "members.secret: already exists" in ran.only_line
    assert key(members) == before


# -- make ------------------------------------------------------------------------------------------------------------


def test_make_writes_the_ids_of_all_items_without_labels_or_their_order(fedslim, members):
    ran = fedslim("vocabulary", "make", "north.csv", "--secret", "members.secret", "--out", "new/north.json")
    secret = ItemSecret.read("members.secret")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"new/north.json: 4 items, fingerprint {secret.fingerprint}\n"
    written = Vocabulary.read("new/north.json")
    assert written.ids == tuple(sorted(secret.ids_of(load("north.csv").vocabulary)))
    text = (members / "new" / "north.json").read_text()
    assert not [word for word in ("drug", "ibuprofen", "fever", "north", key(members)) if word in text]


def test_make_reads_data_as_the_other_commands_do(fedslim, members):
    (members / "long.txt").write_text("t,i\n1,a\n1,b\n2,a\n")
    how = ("--format", "csv", "--transaction-column", "t", "--item-column", "i")
    fedslim("vocabulary", "make", "long.txt", *how, "--secret", "members.secret", "--out", "v.json")
    assert Vocabulary.read("v.json") == Vocabulary.merge(Vocabulary.of("ab", ItemSecret.read("members.secret")))


def test_make_replaces_what_it_wrote_before(fedslim, made):
    fedslim("vocabulary", "make", "south.csv", "--secret", "members.secret", "--out", "north.json")
    assert Vocabulary.read(made / "north.json") == Vocabulary.read(made / "south.json")


@pytest.mark.parametrize(
    ("out", "told"),
    [
        ("north.csv", "--out north.csv: this is the data and would be overwritten"),
        ("members.secret", "--out members.secret: this is the secret and would be overwritten"),
        (".", "--out .: this is a folder"),
        ("north.csv/x", "is a file, not a folder"),
    ],
)
def test_make_keeps_what_it_is_made_from(fedslim, members, out, told):
    before = {path.name: path.read_bytes() for path in members.iterdir()}
    ran = fedslim("vocabulary", "make", "north.csv", "--secret", "members.secret", "--out", out)
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.only_line
    assert {path.name: path.read_bytes() for path in members.iterdir()} == before


def test_a_secret_that_others_may_read_is_refused(fedslim, members):
    (members / "members.secret").chmod(0o644)
    ran = fedslim("vocabulary", "make", "north.csv", "--secret", "members.secret", "--out", "v.json")
    assert ran.code == 2
    assert "others may read or change this secret" in ran.only_line
    assert not (members / "v.json").exists()


@pytest.mark.parametrize("debug", [[], ["--debug"]])
def test_a_damaged_secret_is_not_shown(fedslim, members, debug):
    hidden = key(members)
    (members / "members.secret").write_text(f"fedslim-item-secret 1\n{hidden}0\n")
    ran = fedslim("vocabulary", "make", "north.csv", "--secret", "members.secret", "--out", "v.json", *debug)
    assert ran.code == 2
    assert "the secret is damaged" in ran.err
    assert hidden[:8] not in ran.out + ran.err


# -- merge -----------------------------------------------------------------------------------------------------------


def test_everybody_merges_to_the_same_file(fedslim, made):
    ran = fedslim("vocabulary", "merge", "north.json", "south.json", "--out", "one.json")
    assert (ran.code, ran.err) == (0, "")
    assert re.fullmatch(r"one\.json: 5 items, fingerprint [0-9a-f]{16}\n", ran.out)
    assert fedslim("vocabulary", "merge", "south.json", "one.json", "north.json", "--out", "two.json").code == 0
    assert (made / "one.json").read_bytes() == (made / "two.json").read_bytes()


def test_vocabularies_of_two_secrets_are_told_by_file(fedslim, made):
    fedslim("vocabulary", "secret", "other.secret")
    fedslim("vocabulary", "make", "south.csv", "--secret", "other.secret", "--out", "south.json")
    ran = fedslim("vocabulary", "merge", "north.json", "south.json", "--out", "all.json")
    assert ran.code == 2
    assert re.search(r"south\.json was created with another secret \(.*\) than north\.json", ran.only_line)
    assert not (made / "all.json").exists()


def test_merge_keeps_what_it_merges(fedslim, made):
    before = (made / "south.json").read_bytes()
    ran = fedslim("vocabulary", "merge", "north.json", "south.json", "--out", "south.json")
    assert ran.code == 2
    assert "this is one of the vocabularies to merge and would be overwritten" in ran.only_line
    assert (made / "south.json").read_bytes() == before


def test_a_damaged_vocabulary_is_told_by_file(fedslim, made):
    text = (made / "south.json").read_text()
    (made / "south.json").write_text(text[:-20])
    ran = fedslim("vocabulary", "merge", "north.json", "south.json", "--out", "all.json")
    assert ran.code == 2
    assert "south.json is not a usable vocabulary" in ran.only_line


# -- show ------------------------------------------------------------------------------------------------------------


def test_show(fedslim, made):
    vocabulary = Vocabulary.read(made / "north.json")
    ran = fedslim("vocabulary", "show", "north.json", "--json")
    assert json.loads(ran.out) == {
        "file": "north.json",
        "items": 4,
        "fingerprint": vocabulary.fingerprint,
        "digest": vocabulary.digest.hex(),
    }
    told = fedslim("vocabulary", "show", "north.json").out
    assert "items        4\n" in told
    assert f"digest       {vocabulary.digest.hex()}\n" in told


def test_show_says_of_the_secret_only_its_fingerprint(fedslim, members):
    ran = fedslim("vocabulary", "show", "members.secret")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.split() == ["file", "members.secret", "fingerprint", ItemSecret.read("members.secret").fingerprint]
    assert key(members)[:8] not in ran.out
    (members / "members.secret").chmod(0o644)
    assert fedslim("vocabulary", "show", "members.secret").code == 2


def test_the_engine_is_not_loaded_for_a_vocabulary(loaded_by, made):
    assert loaded_by("vocabulary", "show", made / "north.json") & {"numba", "sklearn", "pandas"} == set()
