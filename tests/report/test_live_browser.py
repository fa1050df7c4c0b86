"""The live page in a real browser, during real runs of the commands."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedslim.data import load
from fedslim.data.partition import iid
from fedslim.federated.loopback import Loopback

# The tests are not a package, so load the neighbouring file by its path.
_spec = importlib.util.spec_from_file_location("report_chromium", Path(__file__).with_name("chromium.py"))
_chromium = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_chromium)

PATIENCE = 120.0


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    path, why = _chromium.chromium()
    if path is None:
        pytest.skip(why)
    with sync_api.sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"), executable_path=path, headless=True, args=[*_chromium.FLAGS]
        )
        yield context
        context.close()


@pytest.fixture
def watch(browser):
    """Opens a live page; fails if it logs to the console or sends a request to anywhere else."""
    logged, requested, tabs, own = [], [], [], []
    ready = [browser.new_page()]  # before the run begins: on a busy machine, this may take longer than the run

    def open_page(address):
        tab = ready.pop() if ready else browser.new_page()
        tabs.append(tab)
        own.append(address)
        tab.set_default_timeout(1_000 * PATIENCE)
        tab.on("console", lambda message: logged.append(f"{message.type}: {message.text}"))
        tab.on("pageerror", lambda error: logged.append(str(error)))
        tab.on("request", lambda request: requested.append(request.url))
        tab.goto(address)
        return tab

    yield open_page
    for tab in ready + tabs:
        tab.close()
    assert logged == []
    assert [url for url in requested if not url.startswith((*own, "data:"))] == []


@pytest.fixture
def started(tmp_path):
    """Starts a command with a live page, and returns its process and the address."""
    running = []

    def start(*arguments):
        with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
            given = [sys.executable, "-m", "fedslim", *arguments, "--live"]
            running.append(subprocess.Popen(given, stdout=out, stderr=err))
        return running[-1], printed_address((tmp_path / "err").read_text)

    yield start
    for process in running:
        process.kill()
        process.wait()


def printed_address(said):
    until = time.monotonic() + PATIENCE
    while not (found := re.findall(r"http://127\.0\.0\.1:\d+/\S+", said())):
        assert time.monotonic() < until, said()
        time.sleep(0.05)
    return found[-1]


def points(tab):
    return [int(each) for each in tab.locator("#compression .curve").evaluate_all("c => c.map(p => p.dataset.points)")]


def grows(tab, before=None):
    """Wait until the curve has more points than before."""
    tab.locator("#compression .curve").first.wait_for()
    before, until = before or points(tab), time.monotonic() + PATIENCE
    while points(tab) <= before:
        assert time.monotonic() < until
        assert tab.locator("#view").count() == 0, "the run ended too early"
        time.sleep(0.1)


def becomes_report(tab):
    tab.locator("#view").wait_for(state="attached")
    tab.locator("#lead").wait_for()
    assert tab.locator("#table tbody tr").count() > 3
    return tab.inner_text("#lead")


def test_mining_is_watched_stopped_and_reported(watch, started, tmp_path):
    process, address = started("mine", "accidents-like:1500", "--effort", "8")
    tab = watch(address)
    grows(tab)
    assert tab.locator("#latest tbody tr").count() > 3
    assert float(tab.locator("#facts dd.value").first.inner_text()) < 100
    tab.get_by_role("button", name="Stop with the best so far").click()
    lead = becomes_report(tab)
    assert process.wait(PATIENCE) == 0
    out = (tmp_path / "out").read_text()
    assert "stopped" in out
    assert re.search(r"[\d,]+ itemsets", lead)[0] in out
    assert address.split("/")[3] not in out


def test_the_runs_of_a_classifier_are_watched_and_reported(watch, started):
    _, address = started("simulate", "encounters", "--classes", "female,male", "--members", "3", "--effort", "2")
    tab = watch(address)
    tab.locator("#compression .curve").first.wait_for()
    assert "class female" in tab.inner_text("#doing") + tab.inner_text("#compression")
    becomes_report(tab)
    assert tab.locator("input[name=run]").count() == 2


def test_a_simulation_is_watched_and_reported(watch, started):
    process, address = started("simulate", "accidents-like:8000", "--members", "3", "--no-compare")
    tab = watch(address)
    grows(tab)
    assert tab.locator("#members tbody tr").count() == 3
    assert "rounds" in tab.inner_text("#facts")
    assert "3 members" in becomes_report(tab)
    assert process.wait(PATIENCE) == 0


@pytest.mark.slow
def test_a_member_that_is_killed_and_comes_back_is_seen(watch, tmp_path):
    parts = dict(zip(("north", "south", "west"), iid(load("accidents-like:9000"), 3).parts, strict=True))
    loopback = Loopback.make(tmp_path, parts)
    try:
        server = loopback.start_server("--live")
        tab = watch(printed_address(lambda: loopback.said("server")))
        north = loopback.start_member("north", "--live")
        own = watch(printed_address(lambda: loopback.said("north")))
        south, west = (loopback.start_member(name, "--no-compare") for name in ("south", "west"))
        tab.bring_to_front()  # pages in the background draw nothing
        tab.locator("#compression .curve").wait_for()
        south.kill()
        tab.locator("#members tr", has_text="south").locator(".badge.no").wait_for()
        tab.locator("#warnings", has_text="south").wait_for()
        assert "masked" in own.inner_text("#sent")
        assert own.get_by_role("button", name="Stop").count() == 0
        before = points(tab)
        south = loopback.start_member("south", "--no-compare")
        tab.locator("#members .badge.no").wait_for(state="detached")
        grows(tab, before)
        assert "3 members" in becomes_report(tab)
        own.bring_to_front()
        assert "Alone, north finds" in becomes_report(own)
        assert [process.wait(PATIENCE) for process in (server, north, south, west)] == [0, 0, 0, 0]
    finally:
        loopback.close()
