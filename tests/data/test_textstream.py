from __future__ import annotations

import gzip
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from fedslim.data import read, textstream
from fedslim.data.textstream import blocks, text_lines
from fedslim.errors import DataError

EVERY_TEXT_FORMAT = pytest.mark.parametrize("name", ["data.dat", "data.txt", "data.csv", "data.tsv"])


def packed(content, **options):
    return gzip.compress(content, mtime=0, **options)


@given(content=st.binary(min_size=1, max_size=300), chunk=st.integers(1, 20))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_blocks_are_the_file_cut_at_line_ends(content, chunk, write):
    content = content.replace(b"\0", b"").replace(b"\r", b"") or b"\n"
    path = write("any.dat", b"x" + content)  # the x prevents a byte order mark or gzip by chance
    before, textstream.CHUNK = textstream.CHUNK, chunk
    try:
        found = list(blocks(path))
    finally:
        textstream.CHUNK = before
    whole = b"x" + content
    assert b"".join(block.data for block in found) == whole + (b"" if whole.endswith(b"\n") else b"\n")
    line = 1
    for block in found:
        assert block.data.endswith(b"\n")
        assert block.first_line == line
        line += block.data.count(b"\n")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_end_is_a_newline(write, end):
    assert list(text_lines(write("a.csv", f"a{end}b{end}"))) == ["a\n", "b\n"]


def test_form_feeds_and_the_like_do_not_end_a_line(write):
    assert list(text_lines(write("a.csv", "a\x0cb\u2028c\n"))) == ["a\x0cb\u2028c\n"]


@EVERY_TEXT_FORMAT
def test_a_missing_file_is_reported(tmp_path, name):
    with pytest.raises(DataError, match=f"{name}: there is no such file; check"):
        read(tmp_path / name)


@EVERY_TEXT_FORMAT
def test_a_folder_is_reported(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(DataError, match=f"{name}: this is a folder; name one file in it"):
        read(tmp_path / name)


@EVERY_TEXT_FORMAT
@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", packed(b"")])
def test_an_empty_file_is_reported(write, name, content):
    with pytest.raises(DataError, match=f"{name}: the file is empty"):
        read(write(name, content))


def test_an_unreadable_file_is_reported(write, monkeypatch):
    path = write("a.dat", "1 2\n")

    def refuse(*_, **__):
        raise PermissionError

    monkeypatch.setattr(type(path), "open", refuse)  # root can open a file without permissions
    with pytest.raises(DataError, match=r"a\.dat: .*no permission"):
        read(path)


def test_any_other_trouble_of_the_system_is_reported(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path / ("n" * 5000 + ".dat"))


def test_a_path_with_a_nul_is_reported():
    with pytest.raises(DataError, match="contains a NUL character"):
        read("a\0b.dat")


@EVERY_TEXT_FORMAT
def test_bytes_that_are_not_utf8_are_reported_with_their_line(write, name):
    row = b"1 2\n" if name.endswith(("dat", "txt")) else b"a\nb\n"
    with pytest.raises(DataError, match=rf"{name}:{row.count(10) + 1}: byte 0xe9 is not UTF-8; give the encoding"):
        read(write(name, row + b"caf\xe9\n"))


@EVERY_TEXT_FORMAT
def test_nul_bytes_are_reported_with_their_line(write, name):
    with pytest.raises(DataError, match=f"{name}:2: contains a NUL byte"):
        read(write(name, b"1\n1\0\n"))


def test_a_byte_order_mark_is_no_content(write):
    assert list(read(write("a.dat", b"\xef\xbb\xbf1 2\n"))) == [("1", "2")]


def test_gzip_is_known_by_content_and_not_by_name(write):
    assert list(read(write("a.dat", packed(b"1 2\n")))) == [("1", "2")]
    with pytest.raises(DataError, match="the content is not gzip"):
        read(write("a.dat.gz", b"1 2\n"))


def test_a_truncated_gzip_is_reported(write):
    with pytest.raises(DataError, match="truncated"):
        read(write("a.dat.gz", packed(b"1 2 3\n" * 1000)[:-12]))


@pytest.mark.parametrize("spoilt", [10, 14, -6])
def test_a_damaged_gzip_is_reported(write, spoilt):
    content = bytearray(packed(b"".join(b"%d\n" % (i * 7919) for i in range(2000))))
    content[spoilt] ^= 0xFF
    with pytest.raises(DataError, match=r"damaged|truncated"):
        read(write("a.dat.gz", bytes(content)))


@pytest.mark.parametrize("name", ["line.dat.gz", "line.csv.gz"])
def test_a_line_without_end_is_reported_before_it_fills_the_memory(write, name):
    size = 400 * 2**20
    path = write(name, packed(b"1", compresslevel=1))
    with path.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=1) as out:
        for _ in range(size // 2**22):
            out.write(b"1" * 2**22)
    assert path.stat().st_size < size // 100
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=rf"{name}:1: the line is longer than 16,777,216 bytes"):
            read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * 2**20


def test_the_long_line_is_named_by_its_number(write, monkeypatch):
    monkeypatch.setattr(textstream, "LINE_LIMIT", 50)
    with pytest.raises(DataError, match=r"a\.dat:3: the line is longer than 50 bytes"):
        read(write("a.dat", "1\n2\n" + "3 " * 40 + "\n"))


def test_lines_up_to_the_limit_are_read(write, monkeypatch):
    monkeypatch.setattr(textstream, "LINE_LIMIT", 50)
    assert read(write("a.dat", "1" * 15 + " \n" + "3 " * 25 + "\n")).transactions == 2


@given(content=st.binary(max_size=200), name=st.sampled_from(["f.dat", "f.csv", "f.tsv", "f.dat.gz", "f.csv.gz"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
def test_any_bytes_make_a_database_or_a_data_error(content, name, write):
    if name.endswith(".gz"):
        content = packed(content)
    try:
        db = read(write(name, content))
    except DataError as error:
        assert "\n" not in str(error)  # noqa: PT017  # either outcome is fine; the message is what counts
        assert name in str(error)  # noqa: PT017  # as above
    else:
        assert db.transactions >= 1


@given(content=st.text(alphabet='ab1 ,\t\n"?.-=;é', max_size=60), name=st.sampled_from(["f.dat", "f.csv", "f.tsv"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=400)
def test_any_text_makes_a_database_or_a_data_error(content, name, write):
    try:
        read(write(name, content))
    except DataError as error:
        assert name in str(error)  # noqa: PT017  # either outcome is fine
