from __future__ import annotations

import json
from dataclasses import fields

import pytest

from fedslim.settings.federation_file import write_template
from fedslim.settings.policy import SECTIONS, MemberPolicy, write_policy

ITEMS = {"items.vocabulary_digest": "0" * 64}


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def two():
    """A federation that the defaults do not allow."""
    return write_template("two.toml", "Two", ["a", "b"], "so", chosen=ITEMS).path


def test_init_writes_where_a_member_looks(fedslim, tmp_path):
    ran = fedslim("policy", "init")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "certificates/policy.toml: review what this member allows\n"
    assert (tmp_path / "certificates").stat().st_mode & 0o777 == 0o700
    assert MemberPolicy.find("certificates").written
    ran = fedslim("policy", "init")
    assert ran.code == 2
    assert "already exists" in ran.only_line
    assert fedslim("policy", "init", "policy.toml").code == 0


def test_show_says_what_holds_and_what_is_not_the_default(fedslim, tmp_path):
    told = fedslim("policy", "show").out
    assert told.startswith(
        "file                     none (certificates/policy.toml does not exist), so the defaults apply\n"
    )
    assert 'policy.variants          ["x"]\n' in told
    assert f'ledger.file              "{tmp_path / "certificates" / "ledger.json"}"\n' in told
    write_policy("certificates/policy.toml", policy_min_members=5, results_table="none")
    told = fedslim("policy", "show").out
    assert "policy.min_members       5 (default: 3)\n" in told
    assert 'results.table            "none" (default: "labels")\n' in told
    record = json.loads(fedslim("policy", "show", "--json").out)
    assert record["file"] == "certificates/policy.toml"
    assert record["keys"]["policy.min_members"] == {"value": 5, "default": 3}
    assert len(record["keys"]) == sum(len(fields(kind)) for kind in SECTIONS.values())


def test_show_of_a_file_that_is_not_there(fedslim):
    assert fedslim("policy", "show", "mine.toml").code == 2


def test_check_says_yes(fedslim):
    write_template("three.toml", "Three", ["a", "b", "c"], chosen=ITEMS)
    ran = fedslim("policy", "check", "three.toml")
    assert (ran.code, ran.err) == (0, "")
    assert "allowed     yes\n" in ran.out
    assert "the defaults apply" in ran.out


def test_check_says_no_with_every_reason(fedslim, two):
    ran = fedslim("policy", "check", two)
    assert (ran.code, ran.err) == (2, "")
    assert "allowed     no\n" in ran.out
    assert ran.out.count("because ") == 4
    assert "policy.variants has x, but federation.variant is so" in ran.out
    record = json.loads(fedslim("policy", "check", two, "--json").out)
    assert (record["allowed"], len(record["reasons"]), record["policy"]) == (False, 4, None)


def test_check_takes_another_policy(fedslim, two):
    loose = {"policy_min_members": 2, "policy_variants": ["so"], "policy_min_count": 1, "policy_min_members_with": 1}
    write_policy("loose.toml", **loose)
    ran = fedslim("policy", "check", two, "--policy", "loose.toml")
    assert ran.code == 0
    assert "policy      loose.toml\n" in ran.out


def test_a_misspelt_policy_is_told(fedslim, two, tmp_path):
    (tmp_path / "p.toml").write_text("[policy]\nmin_member = 2\n")
    ran = fedslim("policy", "check", two, "--policy", "p.toml")
    assert ran.code == 2
    assert "p.toml: policy.min_member: unknown key; did you mean min_members" in ran.only_line


def test_the_engine_is_not_loaded(loaded_by):
    for command in ("init", "show"):
        assert loaded_by("policy", command) & {"numba", "sklearn"} == set()
