"""The live page: a feed of bounded size, and a server that answers only its own page."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest

from fedslim.cli.console.live import report_on_saved
from fedslim.cli.console.progress import reporter
from fedslim.data import load
from fedslim.errors import ParameterError
from fedslim.federated.records import RUN, save_run
from fedslim.mdl import mine
from fedslim.report.captions import Fact
from fedslim.report.feed import MAX_POINTS, MAX_WARNINGS, Feed, LiveMember
from fedslim.report.live import AT_ONCE, MAX_CONNECTIONS, LivePage

IDLE = """
import socket, sys, time
lines = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(1_000)]
print("connected", flush=True)
sys.stdin.readline()
def is_open(line):
    line.setblocking(False)
    try:
        return line.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False
for _ in range(40):  # some may still wait to be accepted
    if (kept := sum(map(is_open, lines))) < int(sys.argv[2]):
        break
    time.sleep(0.1)
print(kept)
"""
"""Opens 1,000 connections, sends nothing, and prints how many are still open."""

HOSTILE = "</script><img src=x onerror=alert(1)>\u202e\n{{script}}"


def shown(feed):
    return json.loads(feed.snapshot()[1])


# -- the feed ---------------------------------------------------------------------------------------------------------


def test_a_snapshot_does_not_grow_with_the_run():
    feed = Feed("chess", "fedslim mine")
    feed.begin("mining", curve="mining")
    sizes = []
    for number in range(10_000):
        seconds = 0.1 * number
        feed.reach(seconds, number, 100 - number / 200)
        feed.warn(f"warning {number}")
        feed.show(facts=[Fact("itemsets", str(number))], latest=[(["a", "b"], number)])
        if number % 50 == 0:
            sizes.append(len(feed.snapshot()[1]))
    (curve,) = shown(feed)["curves"]
    assert len(curve["seconds"]) <= MAX_POINTS
    assert (curve["seconds"][0], curve["seconds"][-1], curve["itemsets"][-1]) == (0, seconds, 9_999)
    assert curve["seconds"] == sorted(curve["seconds"])
    assert largest_gap(curve["seconds"]) < 6 * seconds / MAX_POINTS
    assert len(shown(feed)["warnings"]) == MAX_WARNINGS
    assert max(sizes) < 40_000
    for _ in range(20):
        feed.begin("mining alone", curve="alone")
    feed.show(members=[LiveMember(f"m{k}", here=True, state="") for k in range(4_000)])
    feed.show(latest=[(["x" * 10_000] * 1_000, 1)] * 12)
    assert len(feed.snapshot()[1]) < 250_000


def largest_gap(values):
    return max(after - before for before, after in pairwise(values))


def test_a_warning_of_the_log_is_shown_on_one_line():
    feed = Feed(HOSTILE, "fedslim server")
    feed.handle(logging.LogRecord("fedslim", logging.WARNING, "", 1, "%s is\ngone\x1b[2J", ("north",), None))
    assert shown(feed)["warnings"] == ["north is gone\ufffd[2J"]
    assert "\u202e" not in shown(feed)["title"]


def test_a_run_can_be_asked_to_stop_once_and_only_while_it_can():
    feed, asked = Feed("chess", ""), []
    assert not feed.ask_stop()
    feed.begin("mining", lambda: asked.append(1))
    assert shown(feed)["stoppable"]
    assert (feed.ask_stop(), feed.ask_stop(), asked) == (True, False, [1])
    assert (shown(feed)["stoppable"], shown(feed)["ended"]) == (False, "")
    feed.begin("mining", lambda: asked.append(2))
    feed.end(failure="out of memory")
    assert (feed.ask_stop(), asked, shown(feed)["ended"]) == (False, [1], "out of memory")


# -- the server -------------------------------------------------------------------------------------------------------


@pytest.fixture
def feed():
    feed = Feed(HOSTILE, "fedslim mine")
    feed.begin("mining", curve="mining")
    return feed


@pytest.fixture
def live(feed):
    with LivePage(feed) as page:
        yield page
        feed.end()


def parts(page):
    return re.fullmatch(r"http://(127\.0\.0\.1):(\d+)/([\w-]+)/", page.address).groups()


def connected(page):
    host, port, _ = parts(page)
    return socket.create_connection((host, int(port)), timeout=10)


def asked(page, name="", method="GET", secret=None, host=None, body=b"", **fields):
    """Send a request and return the status and the whole answer."""
    address, port, own = parts(page)
    lines = [f"{method} /{own if secret is None else secret}/{name} HTTP/1.1"]
    lines.append(f"Host: {f'{address}:{port}' if host is None else host}")
    lines += [f"{key.replace('_', '-')}: {value}" for key, value in fields.items()]
    with connected(page) as line:
        line.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        answer = b""
        while piece := line.recv(65536):
            answer += piece
    return int(answer.split(b" ", 2)[1]), answer.decode()


def origin(page):
    return page.address[: page.address.index("/", 8)]


def test_the_page_loads_nothing_from_elsewhere_and_no_label_is_markup(live):
    code, text = asked(live, Sec_Fetch_Site="none")
    head, _, body = text.partition("\r\n\r\n")
    assert code == 200
    policy = re.search(r"Content-Security-Policy: (.*?)\r", head + "\r")[1]
    assert {"default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'"} <= set(policy.split("; "))
    assert "unsafe" not in policy
    assert "Access-Control" not in head
    assert "Referrer-Policy: no-referrer" in head
    assert "<img" not in body
    assert re.findall(r"https?://[^\s\"']+", body.replace("http://www.w3.org/2000/svg", "")) == []


def test_requests_that_are_not_of_the_page_are_refused(live, feed):
    stopped = []
    feed.begin("mining", lambda: stopped.append(1))
    own, (_, port, secret) = origin(live), parts(live)
    assert asked(live, secret="A" * 32)[0] == 404
    assert asked(live, secret=secret[:-1])[0] == 404
    assert asked(live, secret="")[0] == 404
    assert asked(live, "other")[0] == 404
    assert asked(live, secret="%C3%A9\u00e9")[0] == 404  # noqa: S106  # not ASCII
    for host in (f"evil.example:{port}", f"localhost:{port}", "127.0.0.1", ""):
        assert asked(live, host=host)[0] == 421, host
    for name in ("", "events"):
        assert asked(live, name, Origin="http://evil.example")[0] == 403
        assert asked(live, name, Origin="null")[0] == 403
        assert asked(live, name, Sec_Fetch_Site="cross-site")[0] == 403
        assert asked(live, name, Sec_Fetch_Site="same-site")[0] == 403
    assert asked(live, "stop", "POST")[0] == 403  # without an origin
    assert asked(live, "stop", "POST", Origin="http://evil.example")[0] == 403
    assert asked(live, "stop", "POST", secret="A" * 32, Origin=own)[0] == 404
    assert asked(live, "stop")[0] == 405
    assert asked(live, "", "POST", Origin=own)[0] == 405
    assert asked(live, "", "OPTIONS", Origin=own)[0] == 405
    assert asked(live, "stop", "POST", Origin=own, Content_Length=3, body=b"abc")[0] == 413
    assert asked(live, "stop", "POST", Origin=own, Transfer_Encoding="chunked")[0] == 413
    assert asked(live, Cookie="x" * 20_000)[0] == 431
    assert asked(live, **{"host": f"127.0.0.1:{port}", "Host ": "evil.example"})[0] in {200, 421}
    assert stopped == []
    assert asked(live, "stop", "POST", Origin=own, Sec_Fetch_Site="same-origin")[0] == 204
    assert asked(live, "stop", "POST", Origin=own)[0] == 409
    assert stopped == [1]


@pytest.mark.parametrize(
    "request_", [b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nHost\r\n\r\n", b"\xff\x00 \r\n\r\n"]
)
def test_malformed_requests_are_refused(live, request_):
    with connected(live) as line:
        line.sendall(request_)
        assert line.recv(65536).startswith(b"HTTP/1.1 421 ")


def test_events_are_throttled_and_begin_with_all_there_is(live, feed):
    feed.reach(0.0, 0, 100.0)
    host, port, secret = parts(live)
    with connected(live) as line:
        line.sendall(f"GET /{secret}/events HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        until = time.monotonic() + 1.5
        number = 0
        while time.monotonic() < until:
            number += 1
            feed.reach(float(number), number, 90.0)
        feed.end(failure="the end")
        text = b""
        while piece := line.recv(65536):
            text += piece
    events = [json.loads(event) for event in re.findall(rb"data: (.*)\n\n", text)]
    assert number > 1_000
    assert 2 <= len(events) <= 8
    assert (events[0]["curves"][0]["percent"][0], events[-1]["curves"][0]["itemsets"][-1]) == (100.0, number)
    assert [event["ended"] for event in events[-2:]] == ["", "the end"]


def test_the_page_becomes_the_report(feed):
    with LivePage(feed) as page:
        feed.end(report=b"<!doctype html><title>report</title>")
        assert asked(page)[1].endswith("<title>report</title>")
    with pytest.raises(OSError, match="refused"):
        asked(page)


def test_a_port_that_is_taken_is_named(live, feed):
    port = int(parts(live)[1])
    with pytest.raises(ParameterError, match=rf"--live {port}\b"):
        LivePage(feed, port)


def test_a_page_ends_quietly_before_its_thread_has_begun(feed, monkeypatch):
    listen = LivePage._listen

    async def slowly(page):
        await asyncio.sleep(0.2)
        return await listen(page)

    monkeypatch.setattr(LivePage, "_listen", slowly)
    with LivePage(feed) as page:
        pass
    assert not page._thread.is_alive()


def test_a_page_ends_quietly_while_there_are_viewers_and_idle_connections(feed, capfd, caplog):
    with LivePage(feed) as page:
        host, port, secret = parts(page)
        lines = [connected(page) for _ in range(40)]
        lines[0].sendall(f"GET /{secret}/events HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        receive(lines[0], b"data: ")
    assert (capfd.readouterr().err, caplog.messages) == ("", [])
    for line in lines:
        line.close()


def test_a_flood_takes_few_file_descriptors(feed, monkeypatch):
    answer, listen, taken = LivePage._answer, LivePage._listen, []
    all_connected = threading.Event()

    def descriptors():
        return len(list(Path("/proc/self/fd").iterdir()))

    async def counted(page, reader, writer):
        taken.append(descriptors())
        await answer(page, reader, writer)

    async def later(page):
        all_connected.wait()
        return await listen(page)

    monkeypatch.setattr(LivePage, "_answer", counted)
    monkeypatch.setattr(LivePage, "_listen", later)
    with LivePage(feed) as page:
        lines = [connected(page) for _ in range(120)]
        before = descriptors()
        all_connected.set()
        until = time.monotonic() + 60
        while len(taken) < len(lines) and time.monotonic() < until:
            time.sleep(0.01)
    assert len(taken) == len(lines)
    assert max(taken) - before < MAX_CONNECTIONS + 4 * AT_ONCE
    for line in lines:
        line.close()


def test_idle_connections_are_few_and_do_not_disturb_the_run(live, feed):
    database = load("encounters")
    expected = mine(database).table
    host, port, secret = parts(live)
    viewer = connected(live)
    viewer.sendall(f"GET /{secret}/events HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    receive(viewer, b"data: ")
    idle = subprocess.Popen(
        [sys.executable, "-c", IDLE, port, str(MAX_CONNECTIONS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert idle.stdout.readline() == "connected\n"
    found = mine(database, on_progress=lambda now: feed.reach(now.seconds, now.itemsets, now.percent)).table
    assert found == expected
    kept = int(idle.communicate("\n", timeout=10)[0])
    assert 0 < kept < MAX_CONNECTIONS
    feed.warn("still here")
    receive(viewer, b"still here")
    viewer.close()


def receive(line, awaited):
    text = b""
    while awaited not in text:
        text += line.recv(65536)


# -- the end ----------------------------------------------------------------------------------------------------------


def test_the_page_becomes_the_report_on_all_runs_that_were_saved(tmp_path, records):
    watched, folders = reporter(quiet=True), [tmp_path / name for name in ("class-1", "class-2", "refused")]
    report_on_saved(watched, folders)
    assert watched.result is None  # nothing was saved
    for folder, record in zip(folders[:2], records, strict=False):
        folder.mkdir()
        save_run(record, folder / RUN)
    report_on_saved(watched, folders)
    assert [run.variant for run in watched.result().runs] == ["x", "sa"]
