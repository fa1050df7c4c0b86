"""The NVFlare job: its files, and the classes that a site must allow for it."""

from __future__ import annotations

import json

import pytest

from fedslim.cli import main
from fedslim.engines.job import AT_SITE, allow, write_job
from fedslim.errors import ConfigurationError, DataError
from fedslim.settings.federation_file import write_template
from fedslim.settings.policy import MemberPolicy
from fedslim.settings.site_file import SiteFile

ITEMS = {"items.secret_fingerprint": "0" * 16}


@pytest.fixture
def federation(tmp_path):
    return write_template(tmp_path / "federation.toml", "Heart Study", ["west", "north"], chosen=ITEMS)


def test_a_job_is_four_files_without_code_that_name_the_members_and_nothing_else_about_them(tmp_path, federation):
    folder = tmp_path / "job"
    write_job(federation, folder)
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files == {
        "meta.json",
        "fedslim_server/config/config_fed_server.json",
        "fedslim_server/config/federation.toml",
        "fedslim_member/config/config_fed_client.json",
    }
    meta = json.loads((folder / "meta.json").read_text("utf-8"))
    assert meta["deploy_map"] == {"fedslim_server": ["server"], "fedslim_member": ["north", "west"]}
    assert meta["min_clients"] == 2
    assert meta["mandatory_clients"] == ["north", "west"]
    text = (folder / "fedslim_member/config/config_fed_client.json").read_text("utf-8")
    assert all(name in text for name in AT_SITE)


def test_a_job_replaces_nothing(tmp_path, federation):
    write_job(federation, tmp_path / "job")
    with pytest.raises(DataError, match="this folder is not empty"):
        write_job(federation, tmp_path / "job")


def test_no_site_can_be_called_like_nvflares_server(tmp_path):
    file = write_template(tmp_path / "federation.toml", "Heart Study", ["server", "north"], chosen=ITEMS)
    with pytest.raises(ConfigurationError, match="'server'"):
        write_job(file, tmp_path / "job")


def test_a_site_allows_our_classes_beside_those_that_it_allows_already(tmp_path):
    (tmp_path / "resources.json.default").write_text('{"class_allow_list": ["a.B"], "other": 1}', "utf-8")
    assert allow(tmp_path, AT_SITE) == list(AT_SITE)
    assert json.loads((tmp_path / "resources.json").read_text("utf-8")) == {
        "class_allow_list": ["a.B", *AT_SITE],
        "other": 1,
    }
    assert allow(tmp_path, AT_SITE) == []


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"class_allow_list": 5}'])
def test_a_file_that_is_not_nvflares_is_left_alone(tmp_path, content):
    (tmp_path / "resources.json").write_text(content, "utf-8")
    with pytest.raises(DataError, match="not a resources file of NVFlare"):
        allow(tmp_path, AT_SITE)
    assert (tmp_path / "resources.json").read_text("utf-8") == content


def test_the_commands(tmp_path, federation, capsys):
    assert main(["nvflare", "export", str(federation.path), "--out", str(tmp_path / "job")]) == 0
    assert federation.digest().hex() in capsys.readouterr().out
    (tmp_path / "resources.json.default").write_text('{"class_allow_list": []}', "utf-8")
    assert main(["nvflare", "site", str(tmp_path), "--name", "north"]) == 0
    assert (tmp_path / "fedslim-site.toml").is_file()
    assert SiteFile.find(tmp_path, "north").policy() == MemberPolicy.read(tmp_path / "policy.toml")
    assert main(["nvflare", "site", str(tmp_path), "--name", "north"]) == 2
    assert main(["nvflare", "allow", str(tmp_path)]) == 0
    assert "FedslimServer" in capsys.readouterr().out
