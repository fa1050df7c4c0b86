from __future__ import annotations

import json
import re
import stat
from datetime import UTC, datetime, timedelta

import pytest

from fedslim.cli.commands import certificates as ca
from fedslim.cli.console import passphrases
from fedslim.settings.federation_file import FederationFile
from fedslim.trust.identity import Identity, read_trust
from fedslim.trust.tls import client_context, server_context

WORDS = "seven purple hedgehogs"
DIGITS = "[0-9a-f]{64}"


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    """Run every test in its own folder, without a passphrase."""
    monkeypatch.chdir(tmp_path)
    for name in ("FEDSLIM_PASSPHRASE", "FEDSLIM_CA"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def fine(fedslim):
    """Runs a command that succeeds, and returns its output."""

    def run(*arguments):
        ran = fedslim(*arguments)
        assert (ran.code, ran.err) == (0, ""), ran.err
        return ran.out

    return run


@pytest.fixture
def refused(fedslim):
    """Runs a command that fails for bad input, and returns the error line."""

    def run(*arguments):
        ran = fedslim(*arguments)
        assert (ran.code, ran.out) == (2, ""), ran
        return ran.only_line

    return run


@pytest.fixture
def later(monkeypatch):
    """Sets the clock of the commands forward."""

    def pass_by(days):
        now = datetime.now(UTC) + timedelta(days=days, hours=1)
        monkeypatch.setattr(ca, "moment", lambda: now)

    return pass_by


@pytest.fixture
def federation(fine):
    """A CA, a server and a member, made as in docs/how-to/deploy.md."""
    fingerprint = re.search(DIGITS, fine("ca", "init", "--name", "Heart Study CA")).group()
    fine("enroll", "--name", "fed", "--out", "fed", "--host", "fed.example.org", "--host", "10.0.0.7")
    fine("enroll", "--name", "hospital-a", "--out", "hospital-a")
    fine("ca", "sign", "fed/fed.csr", "--role", "server")
    fine("ca", "sign", "hospital-a/hospital-a.csr")
    fine("enroll", "install", "fed/fed.pem", "--out", "fed", "--fingerprint", fingerprint)
    fine("enroll", "install", "hospital-a/hospital-a.pem", "--out", "hospital-a", "--fingerprint", fingerprint)
    return fingerprint


def fact(printed, name):
    return re.search(rf"^{name} +(.*)$", printed, re.MULTILINE).group(1)


def all_secrets(folder):
    """The lines of all private keys below a folder."""
    files = [path for path in folder.rglob("*") if path.suffix in {".key", ".pem"}]
    texts = [path.read_text() for path in files if "PRIVATE" in path.read_text()]
    return [line for text in texts for line in text.splitlines() if not line.startswith("-----")]


# -- from nothing to certificates ------------------------------------------------------------------------------------


def test_everything_in_its_order(federation):
    now = datetime.now(UTC)
    server, member = Identity.load("fed"), Identity.load("hospital-a")
    assert (server.name, list(map(str, server.hosts))) == ("fed", ["fed.example.org", "10.0.0.7"])
    assert member.trust.fingerprint == federation
    server_context(server, now=now)
    client_context(member, now=now)


def test_what_the_commands_say(fine, tmp_path):
    made = fine("ca", "init", "keys/ca", "--days", "100")
    assert fact(made, "created") == "keys/ca: fedslim CA"
    assert fact(made, "key") == "keys/ca/ca.key, without a passphrase"
    asked = fine("enroll", "--name", "hospital-a", "--out", "member")
    assert fact(asked, "request") == "member/hospital-a.csr: send this to the CA"
    shown = fine("ca", "show", "member/hospital-a.csr")
    assert fact(shown, "key") == fact(asked, "key")
    assert json.loads(fine("ca", "show", "member/hospital-a.csr", "--json")) == {
        "file": "member/hospital-a.csr",
        "name": "hospital-a",
        "hosts": [],
        "key": fact(asked, "key"),
    }
    signed = fine("ca", "sign", "member/hospital-a.csr", "--ca", "keys/ca", "--days", "30", "--out", "new/back.pem")
    assert fact(signed, "signed") == "hospital-a, as a member"
    assert fact(signed, "send back") == "new/back.pem"
    assert fact(signed, "fingerprint") == fact(made, "fingerprint")
    assert fact(signed, "key") == fact(asked, "key")
    installed = fine("enroll", "install", "new/back.pem", "--out", "member", "--ca", "keys/ca/ca.pem")
    assert fact(installed, "name") == "hospital-a, a member"
    assert fact(installed, "CA") == "fedslim CA, revocation list 2"
    everything = made + asked + shown + signed + installed + fine("enroll", "show", "member")
    assert not [line for line in all_secrets(tmp_path) if line in everything]


def test_list(fine, federation, later):
    fine("ca", "revoke", "hospital-a")
    later(91)
    printed = fine("ca", "list")
    assert re.search(
        r"^fed +server +expired +\S+ \S+ UTC +[0-9a-f]{16} +fed\.example\.org, 10\.0\.0\.7$", printed, re.MULTILINE
    )
    assert re.search(r"^hospital-a +member +revoked ", printed, re.MULTILINE)
    assert fact(printed, "fingerprint") == federation
    record = json.loads(fine("ca", "list", "--json"))
    assert (record["name"], record["fingerprint"]) == ("Heart Study CA", federation)
    assert [(each["name"], each["state"]) for each in record["certificates"]] == [
        ("fed", "expired"),
        ("hospital-a", "revoked"),
    ]
    assert record["certificates"][0]["revoked"] is None


@pytest.mark.usefixtures("federation")
def test_listings_have_nothing_secret(fine, tmp_path):
    shown = fine("ca", "list") + fine("ca", "list", "--json") + fine("enroll", "show", "fed", "--json")
    shown += (tmp_path / "ca" / "ledger.json").read_text()
    secrets = all_secrets(tmp_path)
    assert len(secrets) == 3
    assert not [line for line in secrets if line in shown]


def test_an_empty_list(fine):
    fine("ca", "init")
    assert fact(fine("ca", "list"), "signed") == "0 certificates"


def test_the_folder_of_the_ca_may_be_in_the_environment(fine, monkeypatch):
    fine("ca", "init", "elsewhere")
    monkeypatch.setenv("FEDSLIM_CA", "elsewhere")
    assert fact(fine("ca", "list"), "signed") == "0 certificates"


def test_keys_are_where_a_new_federation_looks_for_them(fine, tmp_path):
    fine("ca", "init")
    fine("enroll", "--name", "fed", "--host", "localhost")
    fine("ca", "sign", "certificates/fed.csr", "--role", "server", "--out", "fed.pem")
    fine("enroll", "install", "fed.pem", "--ca", "ca/ca.pem")
    fine("federation", "init", "federation.toml", "--fingerprint", "0" * 16)
    assert FederationFile.read(tmp_path / "federation.toml").server.certificates == tmp_path / "certificates"
    assert fine("enroll", "show") == fine("enroll", "show", "certificates")
    fine("enroll", "install", "ca/crl.pem")
    fine("enroll", "renew")


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("federation")
def test_nothing_is_overwritten(refused, tmp_path):
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert "this folder already contains a CA, which is kept" in refused("ca", "init")
    assert "this folder already contains a key, which is kept" in refused("enroll", "--name", "fed", "--out", "fed")
    for out, told in [
        ("ca/ca.key", "is not a certificate"),
        ("fed/fed.csr", "this is the request and would be overwritten"),
        ("ca", "this is a folder"),
    ]:
        assert told in refused("ca", "sign", "fed/fed.csr", "--role", "server", "--out", out)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_request_with_hosts_is_not_signed_by_accident(fine, refused):
    fine("ca", "init")
    fine("enroll", "--name", "fed", "--out", "fed", "--host", "localhost")
    told = refused("ca", "sign", "fed/fed.csr")
    assert told.endswith("--role server or --role member")
    assert "--role: 'boss' is not a role" in refused("ca", "sign", "fed/fed.csr", "--role", "boss")
    assert fact(fine("ca", "sign", "fed/fed.csr", "--role", "member"), "signed") == "fed, as a member"


def test_names_and_hosts_are_checked_first(refused, tmp_path):
    assert "--name: 'Hospital A' cannot be the name of a member" in refused("enroll", "--name", "Hospital A")
    assert "host: '*.example.org' is neither" in refused(
        "enroll", "--name", "fed", "--out", "fed", "--host", "*.example.org"
    )
    assert "--name does not go with show" in refused("enroll", "--name", "a", "show", "a")
    assert list(tmp_path.iterdir()) == []


def test_where_there_is_no_ca(refused, fine, tmp_path):
    for command in (("ca", "list"), ("ca", "revoke", "hospital-a")):
        told = refused(*command)
        assert ("ca/ca.pem" in told, "--ca" in told) == (True, True)
    fine("enroll", "--name", "a", "--out", "a")
    assert "ca/ca.pem" in refused("ca", "sign", "a/a.csr")
    assert "nothing.csr" in refused("ca", "sign", "nothing.csr")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]  # the refused command created nothing


def test_whose_word_it_is(fine, refused, tmp_path):
    fine("ca", "init")
    fine("enroll", "--name", "a", "--out", "a")
    fine("ca", "sign", "a/a.csr")
    told = refused("enroll", "install", "a/a.pem", "--out", "a")
    assert all(part in told for part in ("a/a.pem", "--fingerprint", "--ca"))
    told = refused("enroll", "install", "a/a.pem", "--out", "a", "--fingerprint", "00" * 32)
    assert "00" * 32 in told
    assert "a/certificate.pem" in refused("enroll", "show", "a")
    installed = ("certificate.pem", "ca.pem", "crl.pem")
    assert not any((tmp_path / "a" / name).exists() for name in installed)
    fine("enroll", "install", "a/a.pem", "--out", "a", "--ca", "ca/ca.pem", "--crl", "ca/crl.pem")
    assert all((tmp_path / "a" / name).exists() for name in installed)


@pytest.mark.usefixtures("federation")
def test_a_key_that_others_may_read(refused, tmp_path):
    (tmp_path / "hospital-a" / "key.pem").chmod(0o640)
    told = refused("enroll", "show", "hospital-a")
    assert ("hospital-a/key.pem" in told, "640" in told) == (True, True)
    (tmp_path / "ca" / "ca.key").chmod(0o604)
    told = refused("ca", "crl")
    assert ("ca/ca.key" in told, "604" in told) == (True, True)


@pytest.mark.usefixtures("federation")
def test_names_that_were_never_signed(refused, tmp_path):
    before = (tmp_path / "ca" / "ledger.json").read_bytes()
    assert "'hospital-b'" in refused("ca", "revoke", "hospital-b")
    assert "\x1b" not in refused("ca", "revoke", "\x1b[2J")
    assert (tmp_path / "ca" / "ledger.json").read_bytes() == before


@pytest.mark.parametrize("debug", [[], ["--debug"]])
@pytest.mark.usefixtures("federation")
def test_a_damaged_key_is_not_shown(fedslim, tmp_path, debug):
    path = tmp_path / "hospital-a" / "key.pem"
    hidden = path.read_text().splitlines()[1]
    path.write_text(f"-----BEGIN PRIVATE KEY-----\n{hidden[:-8]}\n-----END PRIVATE KEY-----\n")
    ran = fedslim("enroll", "show", "hospital-a", *debug)
    assert ran.code == 2
    assert "this is not a private key" in ran.err
    assert hidden[:12] not in ran.out + ran.err


# -- revocation and renewal ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("federation")
def test_revoking_and_telling_everybody(fine, refused, fedslim):
    told = fine("ca", "revoke", "hospital-a")
    assert told == "hospital-a: revoked 1 certificate; give ca/crl.pem to the server and all members\n"
    assert "certificates/ca.pem: there is no such file" in refused("enroll", "install", "ca/crl.pem")
    assert (
        fine("enroll", "install", "ca/crl.pem", "--out", "fed")
        == "fed: installed revocation list 4 of Heart Study CA\n"
    )
    assert read_trust("fed").number == 4
    fine("enroll", "install", "ca/crl.pem", "--out", "hospital-a")
    ran = fedslim("enroll", "show", "hospital-a")
    assert ran.code == 0
    assert ran.only_line.startswith("fedslim: warning: the certificate of 'hospital-a' was revoked by 'Heart Study CA'")


@pytest.mark.usefixtures("federation")
def test_a_new_list(fine, refused):
    told = fine("ca", "crl", "--days", "10")
    assert re.fullmatch(r"ca/crl\.pem: list 4 with 0 revoked certificates, valid until .* UTC; give it to .*\n", told)
    assert "is out of range" in refused("ca", "crl", "--days", "0")
    assert "give 1 to 398" in refused("ca", "crl", "--days", "399")


@pytest.mark.usefixtures("federation")
def test_renewal_with_the_same_key(fine, fedslim, later):
    before = Identity.load("fed")
    later(80)
    warned = fedslim("enroll", "show", "fed").err
    assert "warning: the certificate of 'fed' expires in 9 days" in warned
    assert "`fedslim enroll renew fed`" in warned
    assert "the certificate of 'hospital-a' expires in 9 days" in fedslim("ca", "list").err
    assert json.loads(fedslim("enroll", "show", "fed", "--json").out)["warnings"]
    fine("enroll", "renew", "fed")
    fine("ca", "sign", "fed/fed.csr", "--role", "server")
    fine("enroll", "install", "fed/fed.pem", "--out", "fed")
    after = Identity.load("fed")
    assert (after.name, after.hosts) == (before.name, before.hosts)
    assert after.expires > before.expires
    assert [each for each in fedslim("ca", "list").err.splitlines() if "'fed'" in each] == []


@pytest.mark.usefixtures("federation")
def test_renewal_with_a_new_key(fine, refused, tmp_path):
    fine("enroll", "renew", "hospital-a", "--new-key")
    assert "sign it with --renew, which revokes the old key" in refused("ca", "sign", "hospital-a/hospital-a.csr")
    told = fine("ca", "sign", "hospital-a/hospital-a.csr", "--renew")
    assert fact(told, "revoked").startswith("1 certificate of the older key")
    fine("enroll", "install", "hospital-a/hospital-a.pem", "--out", "hospital-a")
    states = [each["state"] for each in json.loads(fine("ca", "list", "--json"))["certificates"]]
    assert states == ["valid", "superseded", "valid"]
    assert stat.S_IMODE((tmp_path / "hospital-a" / "key.pem").stat().st_mode) == 0o600


def test_a_ca_that_ends_is_told_in_time(fine, fedslim, later):
    fine("ca", "init", "--days", "60")
    fine("enroll", "--name", "a", "--out", "a")
    later(50)
    ran = fedslim("ca", "sign", "a/a.csr")
    assert (ran.code, ran.only_line.startswith("fedslim: warning: the CA 'fedslim CA' expires in 9 days")) == (0, True)
    later(61)
    ran = fedslim("ca", "sign", "a/a.csr")
    assert (ran.code, ran.out, ran.only_line.startswith("fedslim: error: ")) == (2, "", True)


# -- passphrases -----------------------------------------------------------------------------------------------------


def written(path, text, mode=0o600):
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_passphrase_from_the_environment(fine, refused, monkeypatch, tmp_path):
    monkeypatch.setenv("FEDSLIM_PASSPHRASE", WORDS)
    assert fact(fine("ca", "init"), "key") == "ca/ca.key, with a passphrase"
    fine("enroll", "--name", "a", "--out", "a")
    fine("ca", "sign", "a/a.csr")
    fine("enroll", "install", "a/a.pem", "--out", "a", "--ca", "ca/ca.pem")
    fine("enroll", "renew", "a", "--new-key")
    assert (tmp_path / "a" / "next-key.pem").read_text().startswith("-----BEGIN ENCRYPTED PRIVATE KEY-----")
    monkeypatch.setenv("FEDSLIM_PASSPHRASE", "some other words")
    for command in (("ca", "crl"), ("enroll", "show", "a")):
        told = refused(*command)
        assert "the passphrase is wrong" in told
        assert "other words" not in told
    monkeypatch.delenv("FEDSLIM_PASSPHRASE")
    told = refused("ca", "revoke", "a")
    assert "there is no terminal to ask for it; set FEDSLIM_PASSPHRASE or use --passphrase-file" in told


def test_a_passphrase_from_a_file(fine, refused, tmp_path):
    file = written(tmp_path / "words", WORDS + "\n")
    fine("ca", "init", "--passphrase-file", file)
    fine("ca", "crl", "--passphrase-file", file)
    for text, told in [("\n", "line 1 is empty"), ("", "line 1 is empty")]:
        assert told in refused("ca", "crl", "--passphrase-file", written(tmp_path / "w", text))
    (tmp_path / "w").write_bytes(b"\xff\xfe\n")
    assert "is not UTF-8" in refused("ca", "crl", "--passphrase-file", tmp_path / "w")
    file.chmod(0o644)
    told = refused("ca", "crl", "--passphrase-file", file)
    assert "others may read or change this passphrase" in told
    assert WORDS not in told


def test_a_passphrase_that_is_asked_for(fine, refused, monkeypatch, tmp_path):
    answers = []
    monkeypatch.setattr(passphrases, "is_terminal", lambda _: True)
    monkeypatch.setattr(passphrases, "getpass", lambda _: answers.pop(0))
    answers[:] = [WORDS, WORDS]
    fine("ca", "init", "--passphrase")
    answers[:] = [WORDS]
    fine("ca", "crl")
    answers[:] = [WORDS, WORDS + "!"]
    refused("enroll", "--name", "a", "--out", "a", "--passphrase")
    assert answers == []
    answers[:] = ["short"]  # and it is not asked for again
    assert "short" not in refused("enroll", "--name", "a", "--out", "a", "--passphrase").partition(":")[2]
    assert (answers, (tmp_path / "a").exists()) == ([], False)


def test_a_passphrase_that_is_no_text(refused, monkeypatch, tmp_path):
    monkeypatch.setenv("FEDSLIM_PASSPHRASE", "seven purple \udcff hedgehogs")
    assert "passphrase: it is not UTF-8" in refused("ca", "init")
    assert not (tmp_path / "ca" / "ca.key").exists()


def test_there_is_no_argument_for_it(refused):
    for command in (("ca", "init"), ("enroll", "--name", "a", "--out", "a")):
        told = refused(*command, f"--passphrase={WORDS}")
        assert "does not take a value" in told
        assert WORDS not in told


# -- a test on one machine ---------------------------------------------------------------------------------------------


def test_demo(fedslim, tmp_path):
    ran = fedslim("ca", "demo", "try", "--members", "a, b")
    assert ran.code == 0
    assert ran.only_line == "Use these keys for tests only: they are all in one place, without passphrases."
    assert fact(ran.out, "try/server") == "the server, for localhost, 127.0.0.1, ::1"
    assert fact(ran.out, "try/b") == "the member b"
    now = datetime.now(UTC)
    server_context(Identity.load("try/server"), now=now)
    client_context(Identity.load("try/a"), now=now)
    assert not [line for line in all_secrets(tmp_path) if line in ran.out]
    again = fedslim("ca", "demo", "try")
    assert again.code == 2
    assert "this folder is not empty, and its files are kept; choose a new one" in again.only_line


def test_demo_with_bad_names(refused, tmp_path):
    assert "members: 'A' cannot be the name of a member" in refused("ca", "demo", "try", "--members", "A")
    assert "each once" in refused("ca", "demo", "try", "--members", "a,a")
    assert "cannot be the name" in refused("ca", "demo", "try", "--members", "")
    assert not (tmp_path / "try").exists()


def test_the_engine_is_not_loaded(loaded_by):
    heavy = {"numba", "sklearn", "pandas", "scipy"}
    assert loaded_by("ca", "demo", "try", "--members", "a") & heavy == set()


def test_the_default_days_are_those_of_the_authority():
    from fedslim.trust import authority

    assert (ca.CA_DAYS, ca.DAYS, ca.DAYS) == (authority.CA_DAYS, authority.DAYS, authority.LIST_DAYS)
