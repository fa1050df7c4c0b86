"""Members with tables and a schema, over the real network: the preparation, then the search."""

from __future__ import annotations

import json
import shutil
import stat
import time
from datetime import UTC, datetime

import pytest
from prepared import MEMBERS, PreparedLoopback, rows_of, write_csv

from fedslim.protocol.preparation import Preparation
from fedslim.safeguards.guard import Refusals
from fedslim.settings.federation_file import FederationFile


def split(rows, members=MEMBERS):
    return {name: rows[k :: len(members)] for k, name in enumerate(members)}


@pytest.fixture
def federation(tmp_path, request):
    made = PreparedLoopback.of(tmp_path, split(rows_of(240)), grace=60.0, **getattr(request, "param", {}))
    yield made
    made.close()


def finished(federation, names=MEMBERS, **data):
    server = federation.start_server()
    members = [federation.start_member(name, data=data.get(name)) for name in names]
    codes = federation.wait(server, *members)
    assert codes == [0] * len(codes), [federation.said(who) for who in ("server", *names)]


def tables(federation, names=MEMBERS):
    return [(federation.out(name) / "codetable.json").read_bytes() for name in names]


def test_every_member_has_the_table_of_all_rows_in_one_place(federation):
    finished(federation)
    assert tables(federation) == [federation.mined()] * len(MEMBERS)
    kept = [federation.out(who) / "preparation.json" for who in ("server", *MEMBERS)]
    assert len({path.read_bytes() for path in kept}) == 1
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
    assert not list(federation.folder.glob("out-*/*.journal"))
    lines = [json.loads(line) for line in (federation.out("east") / "audit.jsonl").read_text("utf-8").splitlines()[1:]]
    assert [line["kind"] for line in lines if line["variant"] == "prepare" and not line["masked"]] == [
        *("Join", "Confirm", "Ready", "Heard")
    ]
    ledger = json.loads((federation.folder / "trust" / "east" / "ledger.json").read_bytes())
    assert [(one["runs"], one["preparations"]) for one in ledger["answers"]] == [(2, 1)]


# -- kills -----------------------------------------------------------------------------------------------------------


def grown(path, size, process):
    """Wait until a journal has so many bytes, or its process has ended."""
    while process.poll() is None and not (path.exists() and path.stat().st_size > size):
        time.sleep(0.002)


@pytest.mark.slow
@pytest.mark.parametrize("size", [200, 6000])
def test_a_member_that_is_killed_in_the_preparation_comes_back(federation, size):
    server = federation.start_server()
    others = [federation.start_member(name) for name in MEMBERS[1:]]
    victim = federation.start_member("east")
    grown(federation.out("east") / "preparation.journal", size, victim)
    victim.kill()
    victim.wait()
    again = federation.start_member("east")
    assert federation.wait(server, *others, again) == [0] * 4, federation.said("east")
    assert tables(federation) == [federation.mined()] * len(MEMBERS)
    ledger = json.loads((federation.folder / "trust" / "east" / "ledger.json").read_bytes())
    assert [(one["runs"], one["preparations"]) for one in ledger["answers"]] == [(2, 1)]  # it counts once


@pytest.mark.slow
@pytest.mark.parametrize(("journal", "size"), [("preparation.journal", 2000), ("server.journal", 600)])
def test_a_server_that_is_killed_resumes_the_preparation_or_the_search(federation, journal, size):
    server = federation.start_server()
    members = [federation.start_member(name) for name in MEMBERS]
    grown(federation.out("server") / journal, size, server)
    server.kill()
    server.wait()
    again = federation.start_server("--resume")
    assert federation.wait(again, *members) == [0] * 4, federation.said("server")
    assert tables(federation) == [federation.mined()] * len(MEMBERS)


@pytest.mark.slow
def test_a_member_that_missed_the_end_of_the_preparation_is_told_it_in_the_search(federation):
    """Its journal lacks the end, and the server is in the search already."""
    server = federation.start_server()
    others = [federation.start_member(name) for name in MEMBERS[1:]]
    victim = federation.start_member("east")
    grown(federation.out("east") / "preparation.journal", 100, victim)
    copy = federation.folder / "early.journal"
    while victim.poll() is None and not (federation.out("east") / "preparation.json").exists():
        try:
            data = (federation.out("east") / "preparation.journal").read_bytes()
            copy.write_bytes(data)
        except FileNotFoundError:
            break
    victim.kill()
    victim.wait()
    (federation.out("east") / "preparation.json").unlink(missing_ok=True)
    (federation.out("east") / "member.journal").unlink(missing_ok=True)
    shutil.copy(copy, federation.out("east") / "preparation.journal")
    again = federation.start_member("east")
    assert federation.wait(server, *others, again) == [0] * 4, federation.said("east")
    assert tables(federation) == [federation.mined()] * len(MEMBERS)


# -- the next run ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_next_weeks_data_run_with_the_kept_preparation(federation):
    finished(federation)
    later = split(rows_of(120, seed=5))
    later["east"][0] |= {"age": "140", "hb": "3.0", "drug": "Z"}  # beyond the range, a new category
    later["west"][0]["sex"] = "diverse"
    before = {name: federation.out(name) / "preparation.json" for name in ("server", *MEMBERS)}
    for name, rows in later.items():
        write_csv(federation.folder / f"{name}.csv", rows)
    kept = {name: shutil.copy(path, federation.folder / f"{name}.kept.json") for name, path in before.items()}
    for name in ("server", *MEMBERS):
        shutil.rmtree(federation.out(name))
    server = federation.start_server("--preparation", kept["server"])
    members = [federation.start_member(name, "--preparation", kept[name]) for name in MEMBERS]
    assert federation.wait(server, *members) == [0] * 4, [federation.said(name) for name in MEMBERS]
    found = json.loads((federation.out("east") / "codetable.json").read_bytes())
    assert len(set(tables(federation))) == 1
    assert found["transactions"] == 120
    assert not any(new in json.dumps(found) for new in ("drug=z", "diverse"))
    lines = (federation.out("east") / "audit.jsonl").read_text("utf-8")
    assert '"variant":"prepare"' not in lines
    assert Preparation.read(federation.out("west") / "preparation.json").ids == Preparation.read(kept["west"]).ids


# -- mistakes and departures -----------------------------------------------------------------------------------------


def test_a_wrong_file_is_noticed_before_connecting_and_the_others_are_not_touched(federation):
    folder = federation.folder
    rows = rows_of(20)
    write_csv(folder / "separator.csv", rows, separator=";")
    write_csv(
        folder / "column.csv", [{**row, "weight": row["hb"]} for row in rows], ("age", "weight", "crea", "sex", "drug")
    )
    server = federation.start_server()
    others = [federation.start_member(name) for name in MEMBERS[1:]]
    mistakes = [("separator.csv", (), "age"), ("column.csv", (), "'hb'"), ("missing.csv", (), "missing.csv")]
    mistakes.append(("east.csv", ("--bins", "5"), "--bins does not go with --schema"))
    for data, more, told in mistakes:
        wrong = federation.start_member("east", *more, data=folder / data)
        assert wrong.wait(60) != 0
        said = federation.said("east").splitlines()[-1]
        assert told in said
        assert "Traceback" not in said
    right = federation.start_member("east")
    assert federation.wait(server, *others, right) == [0] * 4
    assert "east disconnected" not in federation.said("server")


def test_check_connects_nowhere(federation):
    dry = federation.start_member("east", "--check")
    assert dry.wait(60) == 0, federation.said("east")
    assert "nothing was sent" in federation.said("east")
    assert "hb" in (federation.folder / "east.txt").read_text("utf-8")
    assert not federation.out("east").exists()


def departing(folder, on_departure):
    rows = split(rows_of(120), (*MEMBERS, "wrong"))
    schema = '[columns.sex]\nkind = "categorical"\nfold_case = false\n[columns.drug]\nkind = "categorical"\n'
    for row in rows["wrong"]:
        row |= {"sex": "unknown-" + row["sex"], "drug": "old-" + row["drug"]}
    return PreparedLoopback.of(folder, rows, schema, on_departure=on_departure, policy={"policy_min_members": 3})


@pytest.mark.slow
def test_a_member_that_shares_too_little_leaves_and_the_others_stop(tmp_path):
    federation = departing(tmp_path, "stop")
    agreed = FederationFile.read(federation.file).federation.id
    refusals = Refusals(tmp_path / "trust" / "wrong" / "refusals.json", agreed)
    refusals.add(datetime(2026, 1, 1, tzinfo=UTC))  # its wait is over
    try:
        server = federation.start_server()
        members = [federation.start_member(name) for name in (*MEMBERS, "wrong")]
        assert 0 not in federation.wait(server, *members)
        assert "shares too little" in federation.said("wrong")
        assert refusals.count == 2  # a preparation does not end the waits, or a server could ask as often as it likes
        for who in ("server", *MEMBERS):
            assert "'wrong' left after the preparation" in federation.said(who)
        assert "%" not in federation.said("server")
    finally:
        federation.close()


@pytest.mark.slow
def test_the_others_go_on_without_it_if_the_file_says_so(tmp_path):
    federation = departing(tmp_path, "continue")
    try:
        server = federation.start_server()
        wrong = federation.start_member("wrong")
        members = [federation.start_member(name) for name in MEMBERS]
        assert federation.wait(server, *members) == [0] * 4, [federation.said(who) for who in ("server", *MEMBERS)]
        assert wrong.wait(60) != 0
        found = json.loads(tables(federation)[0])
        assert found["transactions"] == 90
        assert len(set(tables(federation))) == 1
        ledger = json.loads((tmp_path / "trust" / "east" / "ledger.json").read_bytes())
        assert [(one["members"], one["runs"], one["preparations"]) for one in ledger["answers"]] == [
            (sorted((*MEMBERS, "wrong")), 1, 1),
            (sorted(MEMBERS), 1, 0),
        ]
        assert ledger["allowed"] == []  # only the operator allows anything for good
    finally:
        federation.close()
