"""Sites with tables and a schema: the preparation, then the search, over calls and in NVFlare's simulator."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

import msgspec
import pytest
from prepared import MEMBERS, SCHEMA, rows_of, write_csv
from startup_kits import make_kits

from fedslim.cli import main
from fedslim.data import ItemSecret, Vocabulary, over
from fedslim.engines.job import ALLOWED, AT_SERVER, AT_SITE, DEFAULT_RESOURCES, FEDERATION, write_job
from fedslim.engines.member import SiteMember
from fedslim.engines.server import Collected, Serving
from fedslim.engines.simulator import run_simulator
from fedslim.engines.startup_kit import kit_check
from fedslim.errors import ConfigurationError, RunError
from fedslim.federated.folder import find_preparation
from fedslim.federated.records import load_run
from fedslim.mdl.codetable import CodeTable
from fedslim.mdl.driver import Stop
from fedslim.mdl.mining import mine
from fedslim.protocol.preparation import Outline, Preparation
from fedslim.safeguards.audit import summarise
from fedslim.schema import Schema, agree, conform_file
from fedslim.settings.federation_file import FederationFile, write_template
from fedslim.settings.policy import write_policy
from fedslim.settings.site_file import write_site_file


def folder_of(folder, rows, *, signed=False, **more):
    """Write the files of three sites with a schema, as for NVFlare's simulator."""
    own, local = folder / "sites", folder / "workspace" / "local"
    own.mkdir()
    local.mkdir(parents=True)
    secret = ItemSecret.from_random(bytes(range(32)))
    secret.write(own / "members.secret")
    (own / "schema.toml").write_text(SCHEMA, "utf-8")
    schema = Schema.read(own / "schema.toml")
    names = list(schema.columns)
    chosen = {
        "items.secret_fingerprint": secret.fingerprint,
        "schema.digest": schema.digest().hex(),
        "schema.outline": str(Outline.of(schema)),
        "limits.min_count": 1,
        "limits.min_members_with": 1,
        "timeouts.grace": 30.0,
        **more,
    }
    file = write_template(folder / FEDERATION, "prepared", list(rows), "x", chosen=chosen)
    write_job(file, folder / "job", sync=60.0)
    allowed = json.dumps({"format_version": 2, ALLOWED: [*AT_SERVER, *AT_SITE]})
    (local / DEFAULT_RESOURCES).write_text(allowed, "utf-8")
    for number, (name, mine_) in enumerate(rows.items()):
        write_csv(own / f"{name}.csv", mine_, names[number:] + names[:number])
        write_policy(
            own / name / "policy.toml",
            policy_min_members=2,
            policy_min_count=1,
            policy_min_members_with=1,
            policy_unsigned_keys=not signed,
        )
        write_site_file(
            local / f"fedslim-site.{name}.toml",
            name,
            site_federation=file.path,
            site_results=own / name,
            site_policy=own / name / "policy.toml",
            data_source=own / f"{name}.csv",
            data_schema=own / "schema.toml",
            items_secret=own / "members.secret",
            audit_log=own / f"{name}.jsonl",
        )
    return file


def in_one_place(folder, names):
    """Return the table of all rows, with items numbered by their ids."""
    schema, secret = Schema.read(folder / "sites" / "schema.toml"), ItemSecret.read(folder / "sites" / "members.secret")
    whole = folder / "whole.csv"
    lines = [(folder / "sites" / f"{name}.csv").read_text("utf-8").splitlines() for name in names]
    rows = [dict(zip(own[0].split(","), line.split(","), strict=True)) for own in lines for line in own[1:]]
    write_csv(whole, rows)
    site = conform_file(schema, whole)
    database = site.items(agree(schema, [site]))
    return mine(over(database, Vocabulary.merge(Vocabulary.of(database.vocabulary, secret)), secret)).table


@pytest.fixture
def rows():
    every = rows_of(120)
    return {name: every[k::3] for k, name in enumerate(MEMBERS)}


def called(folder, job="job", preparation=""):
    """Return calls to sites in this process, and the sites."""
    local, how = folder / "workspace" / "local", {"job": job, "preparation": preparation}
    sites = {name: SiteMember(local, name, kit=folder / "kits" / name, **how) for name in MEMBERS}
    return lambda frames, _: Collected({name: sites[name].answer(frame) for name, frame in frames.items()}, {}), sites


def test_sites_prepare_and_find_the_table_of_all_rows(tmp_path, rows):
    file = folder_of(tmp_path, rows)
    call, sites = called(tmp_path)
    Serving(file, tmp_path / "results").serve(call)
    for site in sites.values():
        site.close()
    expected = in_one_place(tmp_path, MEMBERS)
    tables = [CodeTable.load(tmp_path / "sites" / name / "job" / "codetable.json") for name in MEMBERS]
    assert tables == [expected] * 3
    assert '"variant":"prepare"' in (tmp_path / "sites" / "north.jsonl").read_text("utf-8")


@pytest.fixture
def odd_west(rows):
    """The rows of sites of which west shares too little with the others."""
    for row in rows["west"]:
        row |= {"age": "", "hb": "", "crea": "", "sex": "x" + row["sex"], "drug": ""}
    return rows


def serve(file, folder, job="job", kept=None):
    """Serve a job whose sites are in this process."""
    call, sites = called(folder, job, "" if kept is None else kept.digest().hex())
    keys = partial(kit_check, folder / "kits" / "server")
    try:
        return Serving(file, folder / f"results {job}", keys=keys, kept=kept).serve(call)
    finally:
        for site in sites.values():
            site.close()


def test_a_job_stops_if_a_site_shares_too_little(tmp_path, odd_west):
    file = folder_of(tmp_path, odd_west)
    with pytest.raises(RunError, match="'west' left after the preparation"):
        serve(file, tmp_path)
    assert "left after the preparation" in json.loads((tmp_path / "results job" / "status.json").read_bytes())["reason"]


def test_a_job_goes_on_without_a_site_that_left_if_the_file_says_so(tmp_path, odd_west):
    file = folder_of(tmp_path, odd_west, signed=True, **{"schema.on_departure": "continue"})
    make_kits(tmp_path / "kits", MEMBERS)
    served = serve(file, tmp_path)
    assert served.ending == "converged"
    tables = [CodeTable.load(tmp_path / "sites" / name / "job" / "codetable.json") for name in ("east", "north")]
    assert tables[0].itemsets == tables[1].itemsets
    assert tables[0].transactions == len(odd_west["east"]) + len(odd_west["north"])
    assert not (tmp_path / "sites" / "west" / "job" / "codetable.json").exists()
    assert "min_overlap" in (tmp_path / "workspace" / "local" / "fedslim-site.log").read_text("utf-8")
    path = tmp_path / "results job" / "preparation.json"
    members = write_job(file, tmp_path / "job 2", preparation=path)
    assert members == ("east", "north")
    assert json.loads((tmp_path / "job 2" / "meta.json").read_bytes())["mandatory_clients"] == ["east", "north"]
    assert serve(file, tmp_path, "again", Preparation.read(path)).table == served.table


def test_a_job_starts_from_a_kept_preparation(tmp_path, rows):
    file = folder_of(tmp_path, rows)
    first = serve(file, tmp_path)
    path = tmp_path / "results job" / "preparation.json"
    kept = Preparation.read(path)
    write_job(file, tmp_path / "job 2", preparation=path)
    config = json.loads((tmp_path / "job 2" / "fedslim_member" / "config" / "config_fed_client.json").read_bytes())
    assert config["components"][0]["args"] == {"preparation": kept.digest().hex()}
    copied = tmp_path / "job 2" / "fedslim_server" / "config" / "preparation.json"
    assert find_preparation(None, file, copied.parent) == kept
    again = serve(file, tmp_path, "again", kept)
    assert again.table == first.table
    lines = (tmp_path / "sites" / "north.jsonl").read_text("utf-8").splitlines()
    second = [line for line in lines if "NVFlare job again" in line]
    assert second
    assert not any('"variant":"prepare"' in line for line in second)
    assert Preparation.read(tmp_path / "results again" / "preparation.json") == kept


@pytest.mark.parametrize("server_has_it", [True, False])
def test_a_site_refuses_a_preparation_that_it_does_not_have(tmp_path, rows, server_has_it):
    file = folder_of(tmp_path, rows)
    serve(file, tmp_path)
    kept = Preparation.read(tmp_path / "results job" / "preparation.json")
    other = msgspec.structs.replace(kept, ids=kept.ids[1:])
    call, sites = called(tmp_path, "again", (other if server_has_it else kept).digest().hex())
    with pytest.raises(RunError, match="does not have" if server_has_it else "starts from another preparation"):
        Serving(file, tmp_path / "out", kept=other).serve(call)
    for site in sites.values():
        site.close()


def test_a_preparation_of_another_federation_is_not_exported(tmp_path, rows):
    file = folder_of(tmp_path, rows)
    serve(file, tmp_path)
    path = tmp_path / "results job" / "preparation.json"
    other = replace(file, limits=replace(file.limits, min_count=2))
    with pytest.raises(ConfigurationError, match="belongs to another federation file"):
        write_job(other, tmp_path / "job 2", preparation=path)


def test_a_site_has_a_record_that_can_be_shown_and_reported(tmp_path, rows, capsys):
    served = serve(folder_of(tmp_path, rows), tmp_path)
    place = tmp_path / "sites" / "north" / "job"
    record = load_run(place / "run.json")
    assert record.own.transactions == len(rows["north"])
    assert record.own.differences is not None
    assert len(record.own.supports) == record.figures["itemsets"] == len(served.table)
    audited = summarise(tmp_path / "sites" / "north.jsonl")
    assert record.figures["bytes_up"] == audited.total.bytes
    assert {kind: amount.messages for kind, amount in record.own.sent.items()} == {
        kind: amount.messages for kind, amount in audited.by_kind.items()
    }
    assert place.stat().st_mode & 0o077 == 0 or (place / "run.json").stat().st_mode & 0o077 == 0
    assert main(["show", str(place), "--top", "2"]) == 0
    assert "itemsets" in capsys.readouterr().out
    assert main(["report", str(place)]) == 0
    serve(FederationFile.read(tmp_path / FEDERATION), tmp_path, "again")
    both, again = summarise(tmp_path / "sites" / "north.jsonl"), load_run(tmp_path / "sites" / "north" / "again")
    assert again.figures["bytes_up"] == both.total.bytes - audited.total.bytes


def test_a_site_that_keeps_no_table_has_no_record(tmp_path, rows):
    file = folder_of(tmp_path, rows)
    path = tmp_path / "sites" / "north" / "policy.toml"
    path.write_text(path.read_text("utf-8").replace('table = "labels"', 'table = "none"'), "utf-8")
    serve(file, tmp_path)
    assert [p.name for p in (tmp_path / "sites" / "north" / "job").iterdir()] == ["preparation.json"]


def test_bins_do_not_go_with_a_schema_at_a_site_either(tmp_path, rows):
    folder_of(tmp_path, rows)
    path = tmp_path / "workspace" / "local" / "fedslim-site.north.toml"
    path.write_text(path.read_text("utf-8").replace("# bins = 5", "bins = 5"), "utf-8")
    site = SiteMember(path.parent, "north", kit=tmp_path, job="job")
    site.answer(b"")
    site.close()
    assert "data.bins does not go with data.schema" in (path.parent / "fedslim-site.log").read_text("utf-8")


@pytest.mark.skipif(find_spec("nvflare") is None, reason="NVFlare is not installed: make test-nvflare")
def test_nvflares_simulator_prepares_and_finds_the_table_of_all_rows(tmp_path, rows):
    folder_of(tmp_path, rows)
    results = run_simulator(tmp_path, list(MEMBERS), Stop(), None)
    found = [next((tmp_path / "sites" / name).glob("*/codetable.json")) for name in MEMBERS]
    assert [CodeTable.load(path) for path in found] == [in_one_place(tmp_path, MEMBERS)] * 3
    assert load_run(found[0].parent / "run.json").own.member == MEMBERS[0]
    # Another job starts from the preparation. The simulator calls all jobs the same.
    kept = results / "preparation.json"
    for name in MEMBERS:
        (tmp_path / "sites" / name / "simulate_job").rename(tmp_path / "sites" / name / "first")
    shutil.rmtree(tmp_path / "job")
    write_job(FederationFile.read(tmp_path / FEDERATION), tmp_path / "job", sync=60.0, preparation=kept)
    shutil.rmtree(results.parent)
    run_simulator(tmp_path, list(MEMBERS), Stop(), None)
    for name in MEMBERS:
        first, second = (tmp_path / "sites" / name / job / "codetable.json" for job in ("first", "simulate_job"))
        assert first.read_bytes() == second.read_bytes()
        assert not second.with_name("preparation.json").exists()


@pytest.mark.skipif(find_spec("nvflare") is None, reason="NVFlare is not installed: make test-nvflare")
def test_nvflares_simulator_goes_on_without_a_site_that_left(tmp_path, odd_west):
    folder_of(tmp_path, odd_west, **{"schema.on_departure": "continue"})
    results = run_simulator(tmp_path, list(MEMBERS), Stop(), None)
    assert load_run(results).figures["ending"] == "converged"
    tables = [path.parts[-3] for path in (tmp_path / "sites").glob("*/simulate_job/codetable.json")]
    assert sorted(tables) == ["east", "north"]
