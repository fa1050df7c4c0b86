from __future__ import annotations

import os
import stat

import pytest

from fedslim.data.atomic import creating, make_folder_for, replacing, writing
from fedslim.errors import DataError, WriteError


def put(path, content=b"new"):
    with writing(path) as stream:
        stream.write(content)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    put(link)
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert [path.name for path in target.parent.iterdir()] == ["target"]


def test_a_link_to_nothing_yet_gets_its_target(tmp_path):
    (tmp_path / "link").symlink_to("target")
    put(tmp_path / "link")
    assert (tmp_path / "target").read_bytes() == b"new"


def test_a_link_to_itself_is_reported(tmp_path):
    (tmp_path / "link").symlink_to("link")
    with pytest.raises(DataError, match="not a regular file"):
        put(tmp_path / "link")


def test_a_pipe_and_a_folder_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "link"):
        with pytest.raises(DataError, match="not a regular file"):
            put(path)


@pytest.mark.parametrize("bits", [0o600, 0o640, 0o666])
def test_a_file_keeps_its_permissions(tmp_path, bits):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(bits)
    with replacing(path) as (stream, partial):
        assert mode(partial) == bits  # from the first byte on
        stream.write(b"new")
    assert (mode(path), path.read_bytes()) == (bits, b"new")


@pytest.mark.parametrize("bits", [None, 0o600, 0o666])
@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_a_private_file_is_its_owners_whatever_it_replaces(tmp_path, bits, umask):
    path = tmp_path / "a"
    if bits is not None:
        path.write_bytes(b"old")
        path.chmod(bits)
    before = os.umask(umask)
    try:
        with replacing(path, private=True) as (stream, partial):
            assert mode(partial) == 0o600  # from the first byte on
            stream.write(b"new")
    finally:
        os.umask(before)
    assert (mode(path), path.read_bytes()) == (0o600, b"new")


def test_a_new_file_has_the_usual_permissions(tmp_path):
    (tmp_path / "usual").touch()
    put(tmp_path / "a")
    assert mode(tmp_path / "a") == mode(tmp_path / "usual")


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127, "x" * 251 + ".dat"])
def test_a_name_may_be_as_long_as_the_system_allows(tmp_path, name):
    put(tmp_path / name)
    put(tmp_path / name)
    assert os.listdir(tmp_path) == [name]  # noqa: PTH208  # names, not paths


def test_a_name_that_is_too_long_is_reported(tmp_path):
    with pytest.raises(WriteError, match="cannot be written"):
        put(tmp_path / ("x" * 256))
    assert not list(tmp_path.iterdir())


# -- files that must not exist yet ---------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_a_created_file_is_its_owners_alone(tmp_path, umask):
    before = os.umask(umask)
    try:
        with creating(tmp_path / "a") as stream:
            assert {mode(path) for path in tmp_path.iterdir()} == {0o600}  # from the first byte on
            stream.write(b"new")
    finally:
        os.umask(before)
    assert ((tmp_path / "a").read_bytes(), mode(tmp_path / "a")) == (b"new", 0o600)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_nothing_is_created_where_something_is(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("file", "folder", "link"):
        with pytest.raises(DataError, match=f"{name}: already exists"), creating(tmp_path / name):
            pytest.fail("begun")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("links", [True, False])
def test_what_came_while_a_file_was_written_stays(tmp_path, monkeypatch, links):
    if not links:
        monkeypatch.setattr(os, "link", no_links)
    path = tmp_path / "a"
    with pytest.raises(DataError, match="already exists"), creating(path):
        path.write_bytes(b"theirs")
    assert path.read_bytes() == b"theirs"
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def no_links(*_, **__):
    raise PermissionError


def test_a_file_is_created_also_where_there_are_no_links(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", no_links)
    with creating(tmp_path / "a") as stream:
        stream.write(b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_a_file_that_cannot_be_finished_is_not_there(tmp_path):
    with pytest.raises(TypeError), creating(tmp_path / "a") as stream:
        stream.writelines([b"half", None])
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_none_is_reported(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "none" / "a", tmp_path / "file" / "a", tmp_path / ("x" * 256)):
        with pytest.raises(WriteError, match="cannot be written"), creating(path) as stream:
            stream.write(b"new")
    with pytest.raises(WriteError, match="cannot create its folder"):
        make_folder_for(tmp_path / "file" / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
