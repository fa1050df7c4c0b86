"""The server's session over calls: the same result as over connections, and a clear end whatever happens to a site."""

from __future__ import annotations

import json
import re
import time
import zlib
from dataclasses import replace

import pytest

from fedslim.engines import server as room
from fedslim.engines.member import SiteMember
from fedslim.engines.server import STOP, WORKING, Broken, Collected, Serving
from fedslim.engines.simulator import prepare_folder
from fedslim.errors import RunError
from fedslim.federated.records import load_run
from fedslim.mdl.codetable import CodeTable
from fedslim.protocol import framing, messages as m
from fedslim.safeguards.ledger import AnswerLedger

MAX_CALLS = 5_000
"""Much longer than a run takes."""


class Sites:
    """An engine in one process: it calls the members, unless a test overrides it."""

    def __init__(self, folder, sites, variant="x", **chosen):
        given = {"timeouts.grace": 0, **{k.replace("_", ".", 1): v for k, v in chosen.items()}}
        self.file = prepare_folder(folder, sites, variant, given)
        self.folder, self.labels = folder, next(iter(sites.values())).vocabulary
        local = folder / "workspace" / "local"
        self.members = {n: SiteMember(local, n, kit=folder, job="j1") for n in sites}
        self.calls, self.meddle = 0, {}

    def call(self, frames, within):
        assert within > 0
        self.calls += 1
        assert self.calls < MAX_CALLS, "it does not come to an end"
        replies, failures = {}, {}
        for name, frame in frames.items():
            try:
                replies[name] = self.meddle.get(name, lambda given, answer: answer(given))(
                    frame, self.members[name].answer
                )
            except ConnectionError as error:
                failures[name] = str(error)
        return Collected(replies, failures)

    def run(self):
        self.serving = Serving(self.file, self.folder / "out")
        try:
            return self.serving.serve(self.call)
        finally:
            for member in self.members.values():
                member.close()

    def record(self):
        return load_run(self.folder / "out").figures

    def table(self):
        return replace(CodeTable.load(self.folder / "out" / "codetable.json"), vocabulary=self.labels)


def after(rounds, then):
    """Behave for a number of calls, then do something else."""
    seen = []

    def meddle(frame, answer):
        seen.append(frame)
        return then(frame, answer, len(seen) - rounds) if len(seen) > rounds else answer(frame)

    return meddle


def gone(*_given):
    raise ConnectionError("it is gone")


@pytest.fixture(autouse=True)
def hurry(monkeypatch):
    monkeypatch.setattr(room, "TRY_EVERY", 0.01)


@pytest.mark.parametrize("variant", ["x", "sa", "so"])
def test_the_table_is_that_of_our_own_transport(tmp_path, hospitals, native, variant):
    sites = Sites(tmp_path, hospitals, variant)
    served = sites.run()
    assert sites.table() == native[variant].table
    assert served.communication.rounds == native[variant].communication.rounds
    assert sites.record()["ending"] == "converged"
    assert not (tmp_path / "out" / "best.json").exists()
    saved = tmp_path / "sites" / "north" / "j1" / "codetable.json"
    told = CodeTable.load(saved)
    assert {path.stat().st_mode & 0o777 for path in (saved, tmp_path / "out" / "codetable.json")} == {0o600}
    assert len(told) == len(sites.table()) or variant == "so"


def test_a_site_writes_down_what_it_answers_before_the_first_answer(tmp_path, hospitals):
    sites = Sites(tmp_path, hospitals, limits_max_rounds=5)
    ledger = AnswerLedger(tmp_path / "sites" / "west" / "ledger.json")
    seen = []

    def watch(frame, answer):
        reply = answer(frame)
        if reply and isinstance(framing.from_member(reply[framing.PREFIX_BYTES :]), m.Masked):
            seen.append(len(ledger.entries().answers))
        return reply

    sites.meddle["west"] = watch
    sites.run()
    assert set(seen) == {1}
    [found] = ledger.entries().answers
    assert (found.members, found.runs) == (["north", "south", "west"], 1)
    assert found.transactions == len(hospitals["west"])


def test_a_site_that_cannot_write_its_ledger_answers_nothing(tmp_path, hospitals):
    sites = Sites(tmp_path, hospitals)
    said = []

    def full(frame, answer):
        if frame:
            (tmp_path / "sites" / "west" / "policy.toml").parent.joinpath("ledger.json").mkdir(exist_ok=True)
        reply = answer(frame)
        said.append(framing.from_member(reply[framing.PREFIX_BYTES :]) if reply else None)
        return reply

    sites.meddle["west"] = full
    with pytest.raises(RunError, match="'west' gave up: it cannot go on"):
        sites.run()
    assert not any(isinstance(message, m.Masked) for message in said)


@pytest.mark.parametrize(("rounds", "counted"), [(0, False), (1, True), (5, False)])
def test_a_site_that_is_sent_away_when_it_was_ready_comes_back_later(tmp_path, hospitals, rounds, counted):
    """Not a member without a roster, nor one that has answered: from these the server learns nothing that way."""
    sites = Sites(tmp_path, hospitals)
    give_up = framing.to_bytes(m.Abort("I give up")).data
    sites.meddle["south"] = after(rounds, lambda *_: give_up)
    with pytest.raises(RunError, match="I give up"):
        sites.run()
    assert (tmp_path / "sites" / "north" / "refusals.json").exists() == counted


@pytest.mark.parametrize("kept", ["ids", "none"])
def test_a_site_keeps_of_the_table_what_its_policy_says(tmp_path, hospitals, kept, logged):
    sites = Sites(tmp_path, hospitals, limits_max_rounds=20)
    path = tmp_path / "sites" / "west" / "policy.toml"
    path.write_text(path.read_text("utf-8").replace('table = "labels"', f'table = "{kept}"'), "utf-8")
    sites.run()
    saved = tmp_path / "sites" / "west" / "j1" / "codetable.json"
    assert saved.exists() == (kept == "ids")
    if kept == "ids":
        assert all(re.fullmatch(r"#[0-9a-f]{32}", label) for label in CodeTable.load(saved).vocabulary)
    else:
        assert any("this site's policy keeps none" in told for told in logged.messages)


def test_sites_that_all_refuse_end_the_run(tmp_path, hospitals):
    """Each member is told how the run ended and does not reply, or the exchange would never stop."""
    sites = Sites(tmp_path, hospitals)
    for name in sites.members:
        path = tmp_path / "sites" / name / "policy.toml"
        path.write_text(re.sub(r"(?m)^variants = .*$", 'variants = ["so"]', path.read_text("utf-8")), "utf-8")
    with pytest.raises(RunError, match=r"policy\.variants has so, but federation\.variant is x"):
        sites.run()
    assert sites.calls < 10
    assert sites.serving.status()["over"]


def test_budgets_hold(tmp_path, hospitals):
    sites = Sites(tmp_path, hospitals, limits_max_rounds=20)
    sites.run()
    assert sites.record()["ending"] == "out of rounds"
    assert sites.record()["rounds"] in range(20, 25)


def test_a_file_called_stop_ends_the_run_with_the_best_so_far(tmp_path, hospitals):
    sites = Sites(tmp_path, hospitals)
    modes = set()

    def stop(frame, answer, _):
        modes.add((tmp_path / "out" / "best.json").stat().st_mode & 0o777)
        (tmp_path / "out" / STOP).touch()
        return answer(frame)

    sites.meddle["west"] = after(30, stop)
    sites.run()
    assert modes == {0o600}
    assert sites.record()["ending"] == "interrupted"
    assert 0 < sites.record()["itemsets"] < 99


def test_a_site_that_dies_is_named_and_the_best_so_far_is_kept(tmp_path, hospitals, logged):
    sites = Sites(tmp_path, hospitals)
    sites.meddle["west"] = after(30, gone)
    with pytest.raises(RunError, match="member 'west' stayed away for 0 s: it is gone"):
        sites.run()
    record = sites.record()
    assert record["ending"] == "member lost"
    assert "'west'" in record["reason"]
    assert len(sites.table()) == record["itemsets"] > 0
    assert load_run(tmp_path / "out").settings["not_told"] == ["west"]
    assert any("'west' stayed away" in told for told in logged.messages if told.startswith("the run is over"))


def test_a_site_that_was_out_of_reach_comes_back_and_nothing_is_lost(tmp_path, hospitals, native, logged):
    sites = Sites(tmp_path, hospitals, timeouts_grace=60)
    sites.meddle["west"] = after(20, lambda frame, answer, late: gone() if late <= 2 else answer(frame))
    sites.meddle["south"] = after(
        35, lambda frame, answer, late: (answer(frame), gone())[1] if late == 1 else answer(frame)
    )
    sites.run()
    assert sites.table() == native["x"].table
    assert sum("repeating round" in told for told in logged.messages) == 2


def test_a_site_may_work_for_longer_than_a_call_lasts(tmp_path, hospitals, native):
    sites = Sites(tmp_path, hospitals)
    waiting = []

    def slow(frame, answer):
        if frame != WORKING:
            waiting[:] = [answer(frame)] if len(waiting) != 1 else waiting
            return WORKING
        return waiting.pop()

    sites.meddle["west"] = slow
    sites.run()
    assert sites.table() == native["x"].table


def test_but_not_for_ever(tmp_path, hospitals):
    sites = Sites(tmp_path, hospitals, timeouts_answer=0.05)
    sites.meddle["west"] = after(10, lambda *_: time.sleep(0.001) or WORKING)
    with pytest.raises(RunError, match=r"'west' stayed away for 0 s: no answer within 0\.05 s"):
        sites.run()


def test_an_engine_that_ends_the_run_leaves_the_best_so_far_and_who_had_not_answered(tmp_path, hospitals):
    sites = Sites(tmp_path, hospitals)

    def broken(*_):
        raise Broken("the job was aborted", ["west"])

    sites.meddle["west"] = after(30, broken)
    with pytest.raises(RunError, match="the job was aborted; no answer from west"):
        sites.run()
    assert sites.record()["reason"] == "the job was aborted; no answer from west"
    assert len(sites.table()) > 0


@pytest.mark.parametrize(
    "said",
    [b"\0\0\0\5hello", framing.to_bytes(m.Confirm(7, b"")).data, b"x" * 1_000_000],
    ids=["noise", "not now", "too much"],
)
def test_a_site_that_says_what_it_may_not_say_ends_the_run(tmp_path, hospitals, said):
    sites = Sites(tmp_path, hospitals)
    sites.meddle["west"] = after(30, lambda frame, answer, late: said if late == 1 else answer(frame))
    with pytest.raises(RunError, match="member 'west'"):
        sites.run()
    assert len(sites.table()) > 0


def test_a_frame_is_no_longer_than_what_it_may_say_even_if_little_is_in_it(tmp_path, hospitals):
    """200,000 empty zlib blocks decompress to nothing, but are a megabyte to receive and keep."""

    def stuffed(frame):
        packed = frame[framing.PREFIX_BYTES :]
        data = packed[:2] + b"\0\0\0\xff\xff" * 200_000 + packed[2:]
        assert zlib.decompress(data) == zlib.decompress(packed)
        return len(data).to_bytes(framing.PREFIX_BYTES, "big") + data

    sites = Sites(tmp_path, hospitals)
    sites.meddle["west"] = after(5, lambda frame, answer, late: stuffed(answer(frame)) if late == 1 else answer(frame))
    with pytest.raises(RunError, match="member 'west'"):
        sites.run()


def test_a_site_that_never_comes_is_named_where_there_is_no_result_yet(tmp_path, hospitals):
    sites = Sites(tmp_path, hospitals)
    sites.meddle["west"] = gone
    with pytest.raises(RunError, match="'west' stayed away"):
        sites.run()
    assert "'west' stayed away" in json.loads((tmp_path / "out" / "status.json").read_text("utf-8"))["reason"]
