"""Attack 6: members with different secrets for items.

Attacker: nobody; a mistake. Under different secrets no two members have an item in common, so every sum is one member's
count, and nothing looked wrong.

Before: a new federation's file named no fingerprint, and the run went on. Now a file that names neither a fingerprint
nor a vocabulary is refused by everybody, `fedslim federation init` wants one of them, and a member with another secret
is told so before it connects.
"""

from __future__ import annotations

import pytest

from fedslim.cli import main
from fedslim.data import ItemSecret
from fedslim.errors import ConfigurationError
from fedslim.transport.config import FederationFile, write_template

OURS, THEIRS = ItemSecret.from_random(bytes(32)), ItemSecret.from_random(b"1" * 32)


def test_a_file_that_binds_nobody_to_a_secret_is_refused_by_everybody(tmp_path, capsys):
    path = tmp_path / "federation.toml"
    write_template(path, "study", ["a", "b", "c"], chosen={"items.secret_fingerprint": OURS.fingerprint})
    path.write_text(path.read_text("utf-8").replace("secret_fingerprint =", "# secret_fingerprint ="), "utf-8")
    client = ("--name", "a", "--data", "a.csv", "--secret", "members.secret")
    for command in (("server", path), ("client", path, *client), ("federation", "check", path)):
        assert main(list(map(str, command))) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert "items.secret_fingerprint: it is missing, so members with different secrets would not notice" in told


def test_no_new_file_is_made_without_one(tmp_path, capsys):
    assert main(["federation", "init", str(tmp_path / "federation.toml")]) == 2
    assert "`fedslim vocabulary secret`" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_member_with_another_secret_is_told(tmp_path):
    path = tmp_path / "federation.toml"
    file = write_template(path, "study", ["a", "b", "c"], chosen={"items.secret_fingerprint": OURS.fingerprint})
    assert FederationFile.read(path) == file
    file.check_items(OURS, None)
    with pytest.raises(ConfigurationError, match="get the members' secret from one of them"):
        file.check_items(THEIRS, None)
