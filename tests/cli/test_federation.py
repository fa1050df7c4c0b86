from __future__ import annotations

import json

import pytest

from fedslim.cli.commands import agreeing
from fedslim.data import ItemSecret, Vocabulary
from fedslim.settings import federation_keys as config
from fedslim.settings.federation_file import SECTIONS, FederationFile


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


PRINT = ("--fingerprint", "0123456789abcdef")


def facts(ran, *, warned=1):
    assert ran.code == 0
    assert ran.err.count("fedslim: warning: ") == ran.err.count("\n") == warned, ran.err
    return dict(line.split(maxsplit=1) for line in ran.out.splitlines())


def test_the_default_port_is_the_transports():
    assert agreeing.DEFAULT_PORT == config.DEFAULT_PORT


def test_init_writes_a_file_that_check_takes(fedslim):
    ran = fedslim("federation", "init", *PRINT)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "federation.toml: our federation, 3 members, variant x\n"
    file = FederationFile.read("federation.toml")
    told = facts(fedslim("federation", "check"))
    assert told["digest"] == file.digest().hex()
    assert told["id"] == file.federation.id
    assert told["members"] == "3: north, south, west"


def test_init_takes_what_it_is_told(fedslim):
    how = ("--name", "Kliniken Süd", "--members", "a, b,c", "--variant", "so", "--host", "::1", "--port", "99")
    assert fedslim("federation", "init", "new/f.toml", *PRINT, *how).code == 0
    file = FederationFile.read("new/f.toml")
    assert (file.federation.name, file.federation.members, file.federation.variant) == (
        "Kliniken Süd",
        ("a", "b", "c"),
        "so",
    )
    told = facts(fedslim("federation", "check", "new/f.toml"), warned=4)
    assert told["server"].startswith("[::1]:99, certificates in /")
    assert told["variant"].startswith("so, ")
    assert not {"itemsets", "published"} & set(told)
    assert file.limits.width == 1


def test_init_replaces_nothing(fedslim, tmp_path):
    fedslim("federation", "init", *PRINT)
    before = (tmp_path / "federation.toml").read_bytes()
    ran = fedslim("federation", "init", *PRINT)
    assert (ran.code, ran.out) == (2, "")
    assert "federation.toml: already exists" in ran.only_line
    assert (tmp_path / "federation.toml").read_bytes() == before


@pytest.mark.parametrize(
    ("how", "told"),
    [
        (("--members", "a,b"), "--members: with two members, each could"),
        (("--fingerprint", "x"), "items.secret_fingerprint: 'x' cannot be used"),
        (("--members", "a"), "federation.members: a list of 1 cannot be used"),
        (("--members", "a,,b"), "federation.members: '' cannot be used"),
        (("--members", "a,B,c"), "federation.members: 'B' cannot be used"),
        (("--members", "a,a,b"), "federation.members: 'a' is listed twice"),
        (("--name", ""), "federation.name: '' cannot be used"),
        (("--host", "a b"), "server.host: 'a b' cannot be used"),
    ],
)
def test_init_writes_nothing_that_cannot_be_used(fedslim, tmp_path, how, told):
    ran = fedslim("federation", "init", *PRINT, *how)
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.only_line
    assert not list(tmp_path.iterdir())


def test_two_members_must_be_asked_for(fedslim):
    assert fedslim("federation", "init", *PRINT, "--members", "a,b", "--allow-two-members").code == 0
    ran = fedslim("federation", "check")
    assert "federation.members: with two members, each can subtract its own counts" in ran.err


def test_a_new_file_binds_everybody_to_one_secret(fedslim, tmp_path):
    ran = fedslim("federation", "init")
    assert ran.code == 2
    assert "`fedslim vocabulary secret`" in ran.only_line
    assert "--secret FILE, --fingerprint HEX or --vocabulary FILE" in ran.only_line
    assert not list(tmp_path.iterdir())
    secret, other = ItemSecret.from_random(b"7" * 32), ItemSecret.from_random(b"1" * 32)
    secret.write("members.secret")
    other.write("other.secret")
    agreed = Vocabulary.of("ab", secret)
    agreed.write("agreed.json")
    told = fedslim("vocabulary", "show", "members.secret").out
    assert told.split()[-1] == secret.fingerprint
    for how, digest in (
        (("--secret", "members.secret"), None),
        (("--fingerprint", secret.fingerprint), None),
        (("--vocabulary", "agreed.json"), agreed.digest.hex()),
        (("--vocabulary", "agreed.json", "--secret", "members.secret"), agreed.digest.hex()),
    ):
        path = tmp_path / "".join(how)
        assert fedslim("federation", "init", path, *how).code == 0
        items = FederationFile.read(path).items
        assert (items.secret_fingerprint, items.vocabulary_digest) == (secret.fingerprint, digest)
        assert secret.key.hex() not in path.read_text()
    ran = fedslim("federation", "init", "f", "--vocabulary", "agreed.json", "--secret", "other.secret")
    assert (ran.code, (tmp_path / "f").exists()) == (2, False)
    assert "the fingerprints differ" in ran.only_line


def test_strict_takes_a_warning_for_an_error(fedslim, tmp_path):
    fedslim("federation", "init", *PRINT)
    ran = fedslim("federation", "check", "--strict")
    assert ran.code == 2
    assert "1 warning with --strict: items.vocabulary_digest" in ran.err.splitlines()[-1]
    path = tmp_path / "federation.toml"
    path.write_text(path.read_text().replace("# vocabulary_digest", "vocabulary_digest"))
    assert fedslim("federation", "check", "--strict").code == 0


def test_check_says_everything(fedslim, tmp_path):
    fedslim("federation", "init", *PRINT, "--members", ",".join(f"m{k}" for k in range(12)))
    path = tmp_path / "federation.toml"
    text = path.read_text()
    for key in (
        "vocabulary_digest",
        "max_time",
        "max_itemset_size",
        "file",
        "port",
    ):
        text = text.replace(f"# {key} =", f"{key} =")
    path.write_text(text.replace("pruning = true", "pruning = false").replace("grace = 300", "grace = 0"))
    ran = fedslim("federation", "check")
    told = facts(ran, warned=0)
    assert told["members"].startswith("12: m0, ")
    assert told["members"].endswith("m9, …")
    assert told["vocabulary"] == "agreed, digest " + "0" * 64
    assert told["secret"] == f"fingerprint {PRINT[1]}"
    assert told["budgets"] == "time 60 min 00 s, 20,000 rounds"
    assert told["itemsets"] == "of up to 8 items, in at least 1 transaction, without pruning, width 8, effort 1"
    assert told["published"] == "no count below 5, itemsets of at least 2 members"
    assert told["log"] == f"{tmp_path / 'fedslim.log'}, level info"
    assert told["metrics"] == "127.0.0.1:9464"
    assert told["timeouts"] == "connect 10 s, answer 10 min 00 s, grace none, keep-alive 10 s"


def test_check_as_json(fedslim, tmp_path):
    fedslim("federation", "init", *PRINT)
    record = json.loads(fedslim("federation", "check", "--json").out)
    assert set(record) == {"file", "digest", "warnings", *SECTIONS}
    assert record["file"] == "federation.toml"
    assert record["server"]["certificates"] == str(tmp_path / "certificates")
    assert record["limits"]["max_time"] is None
    assert [each["key"] for each in record["warnings"]] == ["items.vocabulary_digest"]


def test_check_names_file_and_key(fedslim, tmp_path):
    fedslim("federation", "init", *PRINT)
    path = tmp_path / "federation.toml"
    path.write_text(path.read_text().replace("min_support", "min_suport"))
    ran = fedslim("federation", "check")
    assert (ran.code, ran.out) == (2, "")
    told = "federation.toml: limits.min_suport: unknown key; did you mean min_support or min_count?"
    assert ran.only_line == f"fedslim: error: {told}"


def test_checking_does_not_load_the_engine(loaded_by):
    assert "numba" not in loaded_by("federation", "init", *PRINT)
    assert "numba" not in loaded_by("federation", "check")
