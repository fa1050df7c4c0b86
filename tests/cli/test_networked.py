from __future__ import annotations

import logging
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from fedslim.cli.console import logs
from fedslim.cli.console.live import with_port
from fedslim.cli.console.logs import set_up_logs
from fedslim.data import load
from fedslim.errors import ParameterError
from fedslim.federated.loopback import Loopback
from fedslim.settings.federation_file import FederationFile, write_template
from fedslim.settings.federation_keys import Log

logger = logging.getLogger("fedslim.network.server")


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["x", "sa", "so"])
def test_processes_over_tls_find_what_one_process_finds(fedslim, variant):
    ran = fedslim("demo", "--network", "--variant", variant)
    assert ran.code == 0, ran.err
    assert "equal (server" in ran.out


def test_a_status_is_watched_until_ctrl_c(tmp_path):
    federation = Loopback.make(tmp_path, {name: load("encounters") for name in ("north", "south", "west")})
    command = [sys.executable, "-m", "fedslim", "status", federation.file, "--identity", tmp_path / "trust" / "north"]
    try:
        federation.start_server()
        while "waiting for north" not in federation.said("server"):
            time.sleep(0.05)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen([*command, "--watch"], **pipes) as watching:
            assert watching.stdout.readline().startswith("north: not connected")
            federation.processes[0].kill()
            while "trying again" not in watching.stdout.readline():
                assert watching.poll() is None
            watching.send_signal(signal.SIGINT)
            assert (watching.wait(10), watching.stderr.read()) == (0, "")
    finally:
        federation.close()
    refused = subprocess.run([*command, "--watch", "--json"], capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("mine chess", "mine chess"),
        ("mine chess --live", "mine chess --live=0"),
        ("mine chess --live --quiet", "mine chess --live=0 --quiet"),
        ("mine --live 8080 chess", "mine --live 8080 chess"),
        ("mine --live chess", "mine --live=0 chess"),
        ("mine --live=8080 chess", "mine --live=8080 chess"),
        ("mine -- --live", "mine -- --live"),
        ("", ""),
    ],
)
def test_the_port_of_a_live_page_may_be_left_out(given, read):
    assert with_port(given.split()) == read.split()


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
