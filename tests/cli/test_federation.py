from __future__ import annotations

import json

import pytest

from fedslim.cli import federation
from fedslim.transport import config
from fedslim.transport.config import FederationFile


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def facts(ran):
    assert (ran.code, ran.err) == (0, "")
    return dict(line.split(maxsplit=1) for line in ran.out.splitlines() if not line.startswith("lost member"))


def test_the_default_port_is_the_transports():
    assert federation.DEFAULT_PORT == config.DEFAULT_PORT


def test_init_writes_a_file_that_check_takes(fedslim):
    ran = fedslim("federation", "init")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "federation.toml: our federation, 2 members, variant x\n"
    file = FederationFile.read("federation.toml")
    told = facts(fedslim("federation", "check"))
    assert told["digest"] == file.digest().hex()
    assert told["id"] == file.federation.id
    assert told["members"] == "2: north, south"


def test_init_takes_what_it_is_told(fedslim):
    how = ("--name", "Kliniken Süd", "--members", "a, b,c", "--variant", "so", "--host", "::1", "--port", "99")
    assert fedslim("federation", "init", "new/f.toml", *how).code == 0
    file = FederationFile.read("new/f.toml")
    assert (file.federation.name, file.federation.members, file.federation.variant) == (
        "Kliniken Süd",
        ("a", "b", "c"),
        "so",
    )
    told = facts(fedslim("federation", "check", "new/f.toml"))
    assert told["server"].startswith("[::1]:99, certificates in /")
    assert told["variant"].startswith("so, ")
    assert "itemsets" not in told


def test_init_replaces_nothing(fedslim, tmp_path):
    fedslim("federation", "init")
    before = (tmp_path / "federation.toml").read_bytes()
    ran = fedslim("federation", "init")
    assert (ran.code, ran.out) == (2, "")
    assert "federation.toml: there is something of that name already, and it is kept" in ran.only_line
    assert (tmp_path / "federation.toml").read_bytes() == before


@pytest.mark.parametrize(
    ("how", "told"),
    [
        (("--members", "a"), "federation.members: a list of 1 cannot be used"),
        (("--members", "a,,b"), "federation.members: '' cannot be used"),
        (("--members", "a,B"), "federation.members: 'B' cannot be used"),
        (("--members", "a,a"), "federation.members: 'a' is there twice"),
        (("--name", ""), "federation.name: '' cannot be used"),
        (("--host", "a b"), "server.host: 'a b' cannot be used"),
    ],
)
def test_init_writes_nothing_that_cannot_be_used(fedslim, tmp_path, how, told):
    ran = fedslim("federation", "init", *how)
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.only_line
    assert not list(tmp_path.iterdir())


def test_check_says_everything(fedslim, tmp_path):
    fedslim("federation", "init", "--members", ",".join(f"m{k}" for k in range(12)))
    path = tmp_path / "federation.toml"
    text = path.read_text()
    for key in (
        "vocabulary_digest",
        "secret_fingerprint",
        "max_time",
        "max_rounds",
        "max_itemset_size",
        "file",
        "port",
    ):
        text = text.replace(f"# {key} =", f"{key} =")
    path.write_text(text.replace("pruning = true", "pruning = false").replace("grace = 300", "grace = 0"))
    ran = fedslim("federation", "check")
    told = facts(ran)
    assert told["members"].startswith("12: m0, ")
    assert told["members"].endswith("m9, …")
    assert told["vocabulary"] == "agreed, digest " + "0" * 64
    assert told["secret"] == "fingerprint " + "0" * 16
    assert told["budgets"] == "time 60 min 00 s, 500 rounds"
    assert told["itemsets"] == "of up to 8 items, in at least 1 transaction, without pruning"
    assert told["log"] == f"{tmp_path / 'fedslim.log'}, from info on"
    assert told["metrics"] == "127.0.0.1:9464"
    assert "lost member   wait-then-stop, grace none" in ran.out


def test_check_as_json(fedslim, tmp_path):
    fedslim("federation", "init")
    record = json.loads(fedslim("federation", "check", "--json").out)
    assert set(record) == {"file", "digest", *config.SECTIONS}
    assert record["file"] == "federation.toml"
    assert record["server"]["certificates"] == str(tmp_path / "certificates")
    assert record["limits"]["max_time"] is None


def test_check_names_file_and_key(fedslim, tmp_path):
    fedslim("federation", "init")
    path = tmp_path / "federation.toml"
    path.write_text(path.read_text().replace("min_support", "min_suport"))
    ran = fedslim("federation", "check")
    assert (ran.code, ran.out) == (2, "")
    assert ran.only_line == (
        "fedslim: error: federation.toml: limits.min_suport: there is no such key; did you mean min_support?"
    )


def test_checking_does_not_load_the_engine(loaded_by):
    assert "numba" not in loaded_by("federation", "init")
    assert "numba" not in loaded_by("federation", "check")
