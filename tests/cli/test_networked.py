from __future__ import annotations

import logging
import subprocess
import sys
from dataclasses import replace

import pytest

from fedslim.cli.console import logs
from fedslim.cli.console.logs import set_up_logs
from fedslim.errors import ParameterError
from fedslim.settings.federation_file import FederationFile
from fedslim.settings.federation_keys import Log
from fedslim.settings.new_federation import write_template

logger = logging.getLogger("fedslim.network.server")


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
    set_up_logs(plain.log)
    logger.info("hathaway connected")
    assert capsys.readouterr().err == "hathaway connected\n"
    for _ in range(2):  # the second time replaces the first
        set_up_logs(replace(plain.log, file=tmp_path / "run.log"))
    logger.debug("a detail")
    logger.info("hathaway connected")
    logger.warning("%s is gone", "100%s north")
    assert capsys.readouterr().err == "hathaway connected\n100%s north is gone\n"
    first, second = (tmp_path / "run.log").read_text().splitlines()
    assert first.endswith(" INFO hathaway connected")
    assert second.endswith(" WARNING 100%s north is gone")


def test_nothing_below_the_level_is_shown(tmp_path, capsys):
    set_up_logs(Log(file=tmp_path / "run.log", level="warning"))
    logger.info("hathaway connected")
    logger.warning("north is gone")
    assert capsys.readouterr().err == "north is gone\n"
    assert (tmp_path / "run.log").read_text().endswith(" WARNING north is gone\n")


def test_a_library_shows_nothing_by_itself():
    code = "import logging, fedslim; logging.getLogger('fedslim.network.server').warning('north is gone')"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert (ran.stdout, ran.stderr) == (b"", b"")


def test_a_log_is_its_owners_and_has_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "MAX_BYTES", 200)
    set_up_logs(Log(file=tmp_path / "run.log"))
    for number in range(100):
        logger.info("line %s", number)
    found = sorted(tmp_path.iterdir())
    assert [path.name for path in found] == ["run.log", *(f"run.log.{k}" for k in range(1, logs.OLD_FILES + 1))]
    for path in found:
        assert path.stat().st_size <= 200
        assert path.stat().st_mode & 0o777 == 0o600
    assert found[0].read_text().endswith(" INFO line 99\n")


def test_a_log_that_cannot_be_written_is_told(tmp_path):
    with pytest.raises(ParameterError, match=r"gone/run\.log: the log file \(log\.file\) cannot be written"):
        set_up_logs(Log(file=tmp_path / "gone" / "run.log"))
