from __future__ import annotations

import gzip
import hashlib
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fedslim.data import cache_folder, get, load, locate, store
from fedslim.data.store import PublicSet
from fedslim.errors import DataError

CONTENT = b"1 2\n2 3\n"


class Server(ThreadingHTTPServer):
    """A local HTTP server that answers every path with the configured response."""

    daemon_threads = True
    answers: dict[str, tuple[int, dict[str, str], bytes]]


class Answering(BaseHTTPRequestHandler):
    def do_GET(self):
        status, headers, body = self.server.answers[self.path]
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server(("127.0.0.1", 0), Answering) as running:
        running.answers = {}
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def toy(monkeypatch):
    """Adds a small set with the given URL to the registry."""

    def known(url=None):
        checksum = hashlib.sha256(CONTENT).hexdigest()
        record = PublicSet("toy", "Toy", 2, 3, "2", "", "", "", sha256=checksum, url=url, by_hand="ask a friend for it")
        monkeypatch.setattr(store, "_SETS", (record,))

    known()
    return known


def address(server, path="/toy.dat"):
    return f"http://127.0.0.1:{server.server_port}{path}"


def files(folder):
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.usefixtures("toy")
def test_a_file_is_looked_for_in_the_given_folder_then_the_environment_then_the_cache(tmp_path, monkeypatch):
    places = [tmp_path / name for name in ("given", "first", "second")]
    for place in [*places, cache_folder()]:
        place.mkdir(exist_ok=True)
        (place / "toy.dat").write_bytes(CONTENT)
    monkeypatch.setenv("FEDSLIM_DATA", os.pathsep.join(map(str, places[1:])))
    for place in [*places, cache_folder()]:
        assert locate("toy", folder=places[0]) == place / "toy.dat"
        (place / "toy.dat").unlink()
    with pytest.raises(
        DataError, match=r"toy was not found \(looked in .*; ask a friend for it, and pass --from FOLDER"
    ):
        locate("toy", folder=places[0])


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.delenv("FEDSLIM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "fedslim"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "fedslim"


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(("name", "content"), [("toy.dat", CONTENT), ("toy.dat.gz", gzip.compress(CONTENT, mtime=0))])
def test_a_given_file_is_checked_and_kept(write, name, content):
    path = write(name, content)
    kept = get("toy", folder=path.parent)
    assert kept == cache_folder() / name
    assert files(cache_folder()) == [name]
    path.unlink()
    assert get("toy") == kept
    assert list(load("toy")) == [("1", "2"), ("2", "3")]


@pytest.mark.usefixtures("toy")
def test_a_wrong_file_is_reported_and_never_kept(write):
    path = write("toy.dat", b"1 2\n")
    with pytest.raises(DataError, match="not the public set toy"):
        get("toy", folder=path.parent)
    with pytest.raises(DataError, match="not the public set toy"):
        load("toy", folder=path.parent)
    assert files(cache_folder()) == []


@pytest.mark.usefixtures("toy")
def test_a_copy_in_the_cache_that_went_bad_is_replaced(write):
    (cache_folder() / "toy.dat").write_bytes(b"1 2\n")
    path = write("toy.dat.gz", gzip.compress(CONTENT))
    assert get("toy", folder=path.parent).name == "toy.dat.gz"
    assert files(cache_folder()) == ["toy.dat.gz"]


@pytest.mark.usefixtures("toy")
def test_a_folder_that_is_none_is_reported(tmp_path):
    with pytest.raises(DataError, match=r"this is not a folder.*--from"):
        get("toy", folder=tmp_path / "nowhere")


@pytest.mark.usefixtures("toy")
def test_a_cache_that_cannot_be_made_is_reported(write, monkeypatch):
    path = write("toy.dat", CONTENT)
    monkeypatch.setenv("FEDSLIM_CACHE", str(path / "below a file"))
    with pytest.raises(DataError, match="cannot create the cache folder"):
        get("toy", folder=path.parent)


def test_a_set_is_downloaded_checked_and_kept(server, toy):
    toy(address(server))
    server.answers["/toy.dat"] = (200, {}, gzip.compress(CONTENT))
    assert get("toy") == cache_folder() / "toy.dat.gz"
    server.answers.clear()
    assert get("toy") == cache_folder() / "toy.dat.gz"


def test_a_redirect_is_followed(server, toy):
    toy(address(server, "/old"))
    server.answers["/old"] = (302, {"Location": address(server, "/new")}, b"")
    server.answers["/new"] = (200, {}, CONTENT)
    assert get("toy").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((404, {}, b""), r"HTTP status 404\); download it by hand from http.* and pass --from FOLDER"),
        ((302, {"Location": "file:///etc/hostname"}, b""), "could not be downloaded"),
        ((302, {"Location": "ftp://127.0.0.1/x"}, b""), "could not be downloaded"),
        ((200, {}, b"1 9\n"), "not the public set toy"),
        ((200, {"Content-Length": "900"}, CONTENT[:4]), "could not be downloaded|not the public set toy"),
        ((200, {}, b""), "is empty"),
        ((200, {}, b"1 2\n" * 2000), "did not end within 1,000 bytes"),
    ],
)
def test_a_download_that_fails_is_reported_and_leaves_nothing(server, toy, monkeypatch, answer, says):
    monkeypatch.setattr(store, "DOWNLOAD_LIMIT", 1000)
    monkeypatch.setattr(store, "TIMEOUT", 0.5)
    toy(address(server))
    server.answers["/toy.dat"] = answer
    with pytest.raises(DataError, match=says):
        get("toy")
    assert files(cache_folder()) == []


def test_a_download_that_takes_too_long_is_given_up(server, toy, monkeypatch):
    monkeypatch.setattr(store, "DEADLINE", -1.0)
    toy(address(server))
    server.answers["/toy.dat"] = (200, {}, CONTENT)
    with pytest.raises(DataError, match="did not end within"):
        get("toy")


def test_without_a_network_it_says_how_to_do_it_by_hand(server, toy):
    toy(address(server).replace("127.0.0.1", "127.0.0.1:1/#"))
    with pytest.raises(DataError, match=r"could not be downloaded .*; download it by hand from .* or set FEDSLIM_DATA"):
        get("toy")


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://127.0.0.1/x", "data:,1"])
def test_nothing_but_http_is_spoken(toy, url):
    toy(url)
    with pytest.raises(DataError, match="could not be downloaded"):
        get("toy")


def test_nothing_is_downloaded_if_that_is_not_wanted(server, toy):
    toy(address(server))
    with pytest.raises(DataError, match="is not available locally; download it by hand"):
        get("toy", download=False)
    with pytest.raises(DataError, match="fetch it with: fedslim data get toy"):
        load("toy")


def test_a_set_without_an_address_says_how_to_get_it(toy):
    toy(None)
    with pytest.raises(DataError, match="ask a friend for it"):
        get("toy")


def test_the_shared_folder_works_offline(public_data, monkeypatch):
    monkeypatch.setenv("FEDSLIM_DATA", str(public_data))
    assert get("mushroom", download=False).parent == Path(os.environ["FEDSLIM_CACHE"])
