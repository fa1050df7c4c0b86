"""A run folder is used by one process at a time, for one run: real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import CRAWLING, MEMBERS, PATIENCE, SLOWLY, Federation, ends_as_if_nothing_had_happened

from fedslim.errors import DataError, JournalError, ParameterError, WriteError
from fedslim.federated.folder import FINISHED, LOCK, Finished, RunFolder, set_aside
from fedslim.federated.loopback import HOST, free_port


def contents(folder):
    """Return the content of a folder, without the files that only the holder of its lock writes."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in {LOCK, "audit.jsonl"}}


# -- the lock ---------------------------------------------------------------------------------------------------------


def test_the_second_comer_is_told_who_holds_a_folder(tmp_path):
    program = "import sys; from pathlib import Path; from fedslim.federated.folder import RunFolder\n"
    program += "with RunFolder.held(Path(sys.argv[1]), 'the first'): print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        first.stdout.readline()
        with pytest.raises(ParameterError, match=rf"the first \(process {first.pid} on .*\) is working in this folder"):
            RunFolder.held(tmp_path, "the second").__enter__()
        first.kill()
    with RunFolder.held(tmp_path, "the second"):
        assert f"the second (process {os.getpid()}" in (tmp_path / LOCK).read_text()


def test_a_second_process_is_told_at_once(federate):
    """Before it reads anything, whatever the command."""
    federation = federate()
    federation.serve()
    federation.join("north")
    for who, start in (("server", federation.files.start_server), ("north", federation.files.start_member)):
        first = federation.running[who]
        federation.until(lambda who=who: (federation.files.out(who) / LOCK).exists())
        more = ("--resume", "--port", str(free_port())) if who == "server" else (who,)
        assert start(*more).wait(PATIENCE) == 2
        assert f"(process {first.pid} on " in federation.said(who)
        assert first.poll() is None


@pytest.mark.slow
@pytest.mark.parametrize("port", ["the same port", "another port"])
def test_a_second_server_does_not_touch_the_folder_of_the_first(federate, calm, port):
    federation = federate()
    federation.start()
    federation.until_round(10)
    federation.relay.delay = CRAWLING  # until the second process has ended
    first = federation.running["server"]
    more = ("--resume", "--port", str(federation.port if port == "the same port" else free_port()))
    before = federation.journal("server").stat().st_ino
    second = federation.files.start_server(*more)
    assert second.wait(PATIENCE) == 2
    assert f"(process {first.pid} on " in federation.said("server")
    assert federation.journal("server").stat().st_ino == before
    assert not (federation.files.out("server") / "codetable.json").exists()
    federation.relay.delay = SLOWLY
    ends_as_if_nothing_had_happened(federation, calm)


@pytest.mark.slow
def test_a_second_process_of_a_member_does_not_touch_the_folder_of_the_first(federate, calm):
    federation = federate()
    federation.start()
    federation.until_round(10)
    federation.relay.delay = CRAWLING  # until the second process has ended
    first = federation.running["north"]
    assert federation.files.start_member("north").wait(PATIENCE) == 2
    assert f"(process {first.pid} on " in federation.said("north")
    assert federation.said("server").count("north connected") == 1
    federation.relay.delay = SLOWLY
    ends_as_if_nothing_had_happened(federation, calm)


@pytest.mark.slow
def test_a_server_whose_port_is_taken_saves_nothing(federate):
    federation = federate()
    federation.start()
    federation.until_round(20)
    federation.kill("server")
    before = contents(federation.files.out("server"))
    with federation.taken_port():
        assert federation.serve("--resume").wait(PATIENCE) == 1
    assert f"cannot listen on {HOST}:{federation.port}" in federation.said("server")
    assert contents(federation.files.out("server")) == before


posix = pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")


@posix
def test_a_folder_that_others_may_write_is_not_held(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(JournalError, match="others may replace files"):
        RunFolder.held(tmp_path, "me").__enter__()
    assert list(tmp_path.iterdir()) == []


@posix
def test_a_lock_is_no_way_into_another_file(tmp_path):
    (tmp_path / "run").mkdir(mode=0o700)
    (tmp_path / "precious").write_text("data")
    (tmp_path / "run" / LOCK).symlink_to(tmp_path / "precious")
    with pytest.raises(WriteError, match="--out"):
        RunFolder.held(tmp_path / "run", "me").__enter__()
    assert (tmp_path / "precious").read_text() == "data"


@posix
def test_a_note_that_others_may_write_is_not_believed(tmp_path):
    folder = RunFolder(tmp_path)
    folder.finish(Finished("server", "ab", "00", "converged", 3, "2026-01-01T00:00:00+00:00"))
    (tmp_path / FINISHED).chmod(0o666)
    with pytest.raises(JournalError, match="others may change this file"):
        folder.finished(who="server", federation="ab")


# -- a finished run ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(databases, calm, tmp_path_factory):
    federation = Federation(tmp_path_factory.mktemp("finished"), databases, delay=0.0)
    federation.start()
    ends_as_if_nothing_had_happened(federation, calm)
    yield federation
    federation.close()


def test_a_finished_run_stays_finished(finished):
    """The same commands, and those of the shipped units, show the result and exit with 0, without waiting."""
    for who, start in (("server", finished.files.start_server), ("north", finished.files.start_member)):
        out = finished.files.out(who)
        before = contents(out)
        shown = (finished.files.folder / f"{who}.txt").read_bytes()
        finished.journal(who).write_bytes(b"remains")  # killed before the journal was removed
        assert start("--resume" if who == "server" else who).wait(PATIENCE) == 0
        assert (finished.files.folder / f"{who}.txt").read_bytes() == shown + shown
        assert contents(out) == before


def test_a_folder_with_the_result_of_another_federation_is_left_alone(finished):
    file = finished.files.file
    agreed = file.read_text()
    file.write_text(agreed.replace("max_rounds = 20000", "max_rounds = 19999"))
    assert file.read_text() != agreed
    for who in ("server", "north"):
        before = contents(finished.files.out(who))
        process = finished.serve() if who == "server" else finished.files.start_member(who)
        assert process.wait(PATIENCE) == 2
        assert str(finished.files.out(who)) in finished.said(who).splitlines()[-1]
        assert contents(finished.files.out(who)) == before
    file.write_text(agreed)


def test_a_note_that_cannot_be_read_is_named(tmp_path):
    folder = RunFolder(tmp_path)
    done = Finished("server", "ab", "00", "converged", 3, "2026-01-01T00:00:00+00:00")
    folder.finish(done)
    assert (tmp_path / FINISHED).stat().st_mode & 0o077 == 0
    assert folder.finished(who="server", federation="ab") == done
    for other in ({"who": "north", "federation": "ab"}, {"who": "server", "federation": "cd"}):
        with pytest.raises(ParameterError, match="--out"):
            folder.finished(**other)
    for data in (b"", b"{}", b"\xff", json.dumps({"who": 3}).encode()):
        (tmp_path / FINISHED).write_bytes(data)
        with pytest.raises(DataError, match=FINISHED):
            folder.finished(who="server", federation="ab")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")  # noqa: PTH110
def test_a_result_that_is_saved_counts_where_nobody_can_take_the_output(federate, calm):
    """Otherwise the systemd unit would restart it."""
    federation = federate(delay=0.0)
    federation.files.stdout = Path("/dev/full")
    federation.start()
    ends_as_if_nothing_had_happened(federation, calm)
    for who in ("server", *MEMBERS):
        assert str(federation.files.out(who)) in federation.said(who)
        assert (federation.files.out(who) / FINISHED).exists()


# -- two processes of one member --------------------------------------------------------------------------------------


def test_two_processes_of_one_member_are_noticed_before_the_run_and_in_it(federate, tmp_path):
    """In separate folders: the log names the likely cause, in a few lines."""
    federation = federate(grace=30.0)
    federation.serve()
    federation.join("north")
    twin = federation.files.start_member("north", "--out", str(tmp_path / "twin"))
    federation.until(lambda: "check whether two processes use its certificate" in federation.said("server"))
    twin.send_signal(signal.SIGKILL)
    twin.wait(PATIENCE)
    told = [line for line in federation.said("server").splitlines() if "north connected again" in line]
    assert len(told) <= 5


# -- earlier results --------------------------------------------------------------------------------------------------


def test_results_are_set_aside_and_nothing_else(tmp_path):
    assert set_aside(tmp_path) is None
    for number in ("1", "2"):
        for name in ("run.json", "report.html", "audit.jsonl"):
            (tmp_path / name).write_text(f"{name} {number}")
        assert set_aside(tmp_path) == tmp_path / "earlier" / number
        assert (tmp_path / "earlier" / number / "report.html").read_text() == f"report.html {number}"
        assert {path.name for path in tmp_path.iterdir()} == {"audit.jsonl", "earlier"}
    (tmp_path / "run.json").write_text("3")
    shown = tmp_path / "earlier"
    shown.rename(tmp_path / "kept")
    shown.write_text("a file in the way")
    with pytest.raises(WriteError, match="choose another folder with --out"):
        set_aside(tmp_path)
    assert (tmp_path / "run.json").read_text() == "3"
