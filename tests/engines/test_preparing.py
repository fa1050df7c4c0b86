"""Sites with tables and a schema: the preparation, then the search, over calls and in NVFlare's simulator."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest
from prepared import MEMBERS, SCHEMA, rows_of, write_csv

from fedslim.data import ItemSecret, Vocabulary, over
from fedslim.engines.exchange import Collected
from fedslim.engines.job import ALLOWED, AT_SERVER, AT_SITE, DEFAULT_RESOURCES, FEDERATION, write_job
from fedslim.engines.member import SiteMember
from fedslim.engines.server import Serving
from fedslim.engines.simulator import run_simulator
from fedslim.errors import RunError
from fedslim.mdl.codetable import CodeTable
from fedslim.mdl.driver import Stop
from fedslim.mdl.mining import mine
from fedslim.protocol.preparation import Outline
from fedslim.schema import Schema, agree, conform_file
from fedslim.settings.new_federation import write_template
from fedslim.settings.policy import write_policy
from fedslim.settings.site_file import write_site_file


def folder_of(folder, rows):
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
    }
    file = write_template(folder / FEDERATION, "prepared", list(rows), "x", chosen=chosen)
    write_job(file, folder / "job", sync=60.0)
    allowed = json.dumps({"format_version": 2, ALLOWED: [*AT_SERVER, *AT_SITE]})
    (local / DEFAULT_RESOURCES).write_text(allowed, "utf-8")
    for number, (name, mine_) in enumerate(rows.items()):
        write_csv(own / f"{name}.csv", mine_, names[number:] + names[:number])
        write_policy(
            own / name / "policy.toml",
            policy_min_count=1,
            policy_min_members_with=1,
            policy_unsigned_keys=True,
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


def called(folder):
    """Return calls to sites in this process, and the sites."""
    sites = {name: SiteMember(folder / "workspace" / "local", name, kit=folder, job="job") for name in MEMBERS}
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


def test_a_job_ends_if_a_site_shares_too_little(tmp_path, rows):
    for row in rows["west"]:
        row |= {"age": "", "hb": "", "crea": "", "sex": "x" + row["sex"], "drug": ""}
    file = folder_of(tmp_path, rows)
    call, sites = called(tmp_path)
    with pytest.raises(RunError, match="west left after the preparation"):
        Serving(file, tmp_path / "results").serve(call)
    for site in sites.values():
        site.close()


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
    run_simulator(tmp_path, list(MEMBERS), Stop(), None)
    found = [next((tmp_path / "sites" / name).glob("*/codetable.json")) for name in MEMBERS]
    assert [CodeTable.load(path) for path in found] == [in_one_place(tmp_path, MEMBERS)] * 3
