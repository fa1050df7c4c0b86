"""Attack 6, high, by mistake: members with different item secrets.

Without a fingerprint in the federation file, the run continued: no two members had an id in common, and every sum was
one member's count.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from fedslim.cli import main
from fedslim.data import ItemSecret
from fedslim.errors import ConfigurationError, ProtocolError, UntrustedError
from fedslim.protocol import messages as m
from fedslim.settings.federation_file import FederationFile, write_template
from wire import SECRET, Line, databases, inputs_of

OTHER = ItemSecret.from_random(bytes(32))


def with_different_secrets():
    named = databases({"a": ["abc"] * 4 + ["ab"] * 3, "b": ["abd"] * 5})
    inputs = inputs_of(named, agreed=False)
    return Line(named, "x", inputs={"a": inputs["a"], "b": replace(inputs["b"], secret=OTHER)}).begin()


def test_an_honest_server_refuses_the_second_secret_at_the_door():
    with pytest.raises(ProtocolError, match="different secrets"):
        with_different_secrets().run()


def test_members_notice_it_where_the_server_does_not():
    """The server pretends that all secrets are equal, but what members sign differs."""
    line = with_different_secrets()
    same = line.queue[0][1].fingerprint

    def pretend(_, message):
        return msgspec.structs.replace(message, fingerprint=same) if isinstance(message, m.Join) else message

    with pytest.raises((ProtocolError, UntrustedError)):
        line.run(up=pretend)
    assert not any(isinstance(message, m.Masked) for _, message in line.said)


# -- before anybody connects ------------------------------------------------------------------------------------------


def test_a_file_that_binds_nobody_to_a_secret_is_refused_by_everybody(tmp_path, capsys):
    path = tmp_path / "federation.toml"
    write_template(path, "study", ["a", "b", "c"], chosen={"items.secret_fingerprint": SECRET.fingerprint})
    path.write_text(path.read_text("utf-8").replace("secret_fingerprint =", "# secret_fingerprint ="), "utf-8")
    member = ("--name", "a", "--data", "a.csv", "--secret", "members.secret")
    for command in (("server", path), ("member", path, *member), ("federation", "check", path)):
        assert main(list(map(str, command))) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert "items.secret_fingerprint: missing, so members with different secrets" in told


def test_no_new_file_is_made_without_one(tmp_path, capsys):
    assert main(["federation", "init", str(tmp_path / "federation.toml")]) == 2
    assert "`fedslim vocabulary secret`" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_member_with_another_secret_is_told(tmp_path):
    path = tmp_path / "federation.toml"
    file = write_template(path, "study", ["a", "b", "c"], chosen={"items.secret_fingerprint": SECRET.fingerprint})
    assert FederationFile.read(path) == file
    file.check_items(SECRET, None)
    with pytest.raises(ConfigurationError, match="get the members' secret from another member"):
        file.check_items(OTHER, None)
