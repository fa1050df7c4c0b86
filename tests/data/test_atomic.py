from __future__ import annotations

import os
import stat

import pytest

from fedslim.data.atomic import replacing, writing
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


def test_a_link_to_itself_is_told(tmp_path):
    (tmp_path / "link").symlink_to("link")
    with pytest.raises(DataError, match="not an ordinary file"):
        put(tmp_path / "link")


def test_a_pipe_and_a_folder_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "link"):
        with pytest.raises(DataError, match="not an ordinary file"):
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


def test_a_new_file_has_the_usual_permissions(tmp_path):
    (tmp_path / "usual").touch()
    put(tmp_path / "a")
    assert mode(tmp_path / "a") == mode(tmp_path / "usual")


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127, "x" * 251 + ".dat"])
def test_a_name_may_be_as_long_as_the_system_allows(tmp_path, name):
    put(tmp_path / name)
    put(tmp_path / name)
    assert os.listdir(tmp_path) == [name]  # noqa: PTH208  # names, not paths


def test_a_name_that_is_too_long_is_told(tmp_path):
    with pytest.raises(WriteError, match="cannot be written"):
        put(tmp_path / ("x" * 256))
    assert not list(tmp_path.iterdir())
