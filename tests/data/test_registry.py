from __future__ import annotations

import gzip
import hashlib
import re
import subprocess

import pytest

from fedslim.data import get, load, locate, public_set, public_sets
from fedslim.data.store import UNPACKED_LIMIT, PublicSet, verify
from fedslim.errors import DataError

HERE = [record.name for record in public_sets() if record.name != "accidents"]


def record(content, **options):
    checksum = {"sha256": hashlib.sha256(content).hexdigest()} if "git_blob" not in options else {}
    return PublicSet("toy", "Toy", 2, 2, "1", "nowhere", "free", "nobody", url="http://nowhere/", **checksum, **options)


def test_every_set_can_be_checked_and_says_where_it_is_from():
    for known in public_sets():
        assert re.fullmatch("[0-9a-f]{64}", known.sha256 or "0" * 64)
        assert re.fullmatch("[0-9a-f]{40}", known.git_blob or "0" * 40)
        assert known.sha256 or known.git_blob
        assert known.url or known.by_hand
        assert known.source
        assert known.licence
        assert known.citation


def test_the_head_of_accidents_is_marked_as_a_part():
    assert [known.name for known in public_sets() if known.partial] == ["accidents_head"]


@pytest.mark.parametrize("name", HERE)
def test_the_public_sets_are_as_the_registry_says(name, public_data):
    db = load(name, folder=public_data)
    known = public_set(name)
    lengths = sorted({int(db.lengths.min()), int(db.lengths.max())})
    assert (db.transactions, db.n_items) == (known.transactions, known.items)
    assert "-".join(map(str, lengths)) == known.length
    assert (db.name, db.duplicates_removed) == (name, 0)


def test_connect_is_the_same_by_either_checksum(public_data):
    known = public_set("connect")
    by_blob = PublicSet("connect", "", 0, 0, "", "", "", "", git_blob=known.git_blob)
    verify(by_blob, public_data / "connect.dat.gz")


def test_the_git_blob_id_is_what_git_says(write):
    path = write("toy.dat", "1 2\n")
    done = subprocess.run(["git", "hash-object", str(path)], capture_output=True, text=True, check=True)  # noqa: S607  # git, on our file
    verify(record(b"", git_blob=done.stdout.strip()), path)


@pytest.mark.parametrize("options", [{}, {"git_blob": "0" * 40}])
def test_another_content_is_reported(write, options):
    with pytest.raises(DataError, match=r"toy\.dat: this is not the public set toy .* expected .* download it by hand"):
        verify(record(b"1 2\n", **options), write("toy.dat", b"1 3\n"))


def test_packed_content_counts_unpacked(write):
    verify(record(b"1 2\n"), write("toy.dat.gz", gzip.compress(b"1 2\n")))


def test_an_archive_without_end_is_not_unpacked_to_the_end(write, monkeypatch):
    monkeypatch.setattr("fedslim.data.store.UNPACKED_LIMIT", 2**22)
    assert UNPACKED_LIMIT > 2**22
    with pytest.raises(DataError, match="larger than 4,194,304 bytes"):
        verify(record(b""), write("toy.dat.gz", gzip.compress(bytes(2**24))))


def test_an_unknown_set_is_reported_with_its_likes():
    with pytest.raises(DataError, match="no public data set 'mushrom'; did you mean mushroom"):
        public_set("mushrom")
    with pytest.raises(DataError, match="the names are ionosphere, chess"):
        public_set("zzz")


@pytest.mark.parametrize("find", [public_set, get, locate])
def test_data_that_need_no_fetching_are_reported(find):
    with pytest.raises(DataError, match=r"^encounters is built in.*mine encounters$"):
        find("encounters")
    with pytest.raises(DataError, match=r"^wide-sparse:300 is generated"):
        find("wide-sparse:300")


@pytest.mark.parametrize("name", ["letters to the editor", "counter", "cheese", "ionic"])
def test_only_close_names_are_suggested(name):
    with pytest.raises(DataError, match="the names are ionosphere, chess") as caught:
        public_set(name)
    assert "did you mean" not in str(caught.value)
