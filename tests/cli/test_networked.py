from __future__ import annotations

from dataclasses import replace

import pytest

from fedslim.cli import serve
from fedslim.transport.config import FederationFile, write_template


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["x", "sa", "so"])
def test_processes_over_tls_find_what_one_process_finds(fedslim, variant):
    ran = fedslim("demo", "--network", "--variant", variant)
    assert ran.code == 0, ran.err
    assert "equal (server" in ran.out


def test_what_is_told_is_shown_once_and_logged_if_the_file_says_where(tmp_path, capsys):
    path = tmp_path / "federation.toml"
    write_template(path, "wards", ["north", "south"], chosen={"items.secret_fingerprint": "0" * 16})
    plain = FederationFile.read(path)
    serve._teller(plain)("north is away: its line is closed")
    assert capsys.readouterr().err.count("north is away") == 1
    logged = replace(plain, log=replace(plain.log, file=tmp_path / "run.log"))
    serve._teller(logged)("north is away: its line is closed")
    assert capsys.readouterr().err.count("north is away") == 1
    assert (tmp_path / "run.log").read_text().endswith(" WARNING north is away: its line is closed\n")
