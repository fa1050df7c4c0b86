"""Full disks, and disks that lose the last writes: real processes."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys

import pytest
from processes import CRAWLING, MEMBERS, PATIENCE, SLOWLY, ends_as_if_nothing_had_happened

# -- lost and damaged records -----------------------------------------------------------------------------------------

DAMAGE = {
    "torn": lambda data: data[:-7],
    "zeros behind it": lambda data: data + bytes(5000),
    "a garbled end": lambda data: data[:-300] + b"\xa5" * 300,
    "many records lost": lambda data: data[: len(data) * 2 // 3],
    "a page in the middle": lambda data: data[: len(data) // 2] + bytes(100) + data[len(data) // 2 + 100 :],
}


@pytest.mark.parametrize(
    ("who", "damage"),
    [
        ("server", "a garbled end"),
        *(
            pytest.param(who, damage, marks=pytest.mark.slow)
            for who in ("server", "north")
            for damage in DAMAGE
            if (who, damage) != ("server", "a garbled end")
        ),
    ],
)
def test_whoever_loses_its_last_records_makes_everybody_go_back(federate, calm, who, damage):
    federation = federate(grace=60.0)
    federation.start()
    federation.until_round(15)
    federation.kill(who)
    journal = federation.journal(who)
    whole = journal.read_bytes()
    journal.write_bytes(DAMAGE[damage](whole))
    federation.again(who)
    ends_as_if_nothing_had_happened(federation, calm)
    assert f"{journal}: cut off" in federation.said(who) or damage == "many records lost"
    # No member was blamed, and none had to give up its journal.
    assert not list(federation.files.folder.glob("out-*/*.old"))


@pytest.mark.slow
@pytest.mark.parametrize("who", ["server", "north"])
def test_both_may_lose_records_at_once(federate, calm, who):
    federation = federate(grace=60.0)
    federation.start()
    federation.until_round(15)
    for each in ("server", *MEMBERS):
        federation.kill(each)
        share = 2 if each == who else 3
        data = federation.journal(each).read_bytes()
        federation.journal(each).write_bytes(data[: len(data) * (share - 1) // share])
    for each in ("server", *MEMBERS):
        federation.again(each)
    ends_as_if_nothing_had_happened(federation, calm)


@pytest.mark.slow
def test_a_journal_without_a_header_is_no_obstacle(federate, calm):
    """As older versions left it on a full disk: there is nothing to resume."""
    federation = federate(delay=0.0)
    for who in ("server", "north"):
        federation.files.out(who).mkdir(mode=0o700)
        federation.journal(who).write_bytes(b"")
    federation.serve("--resume")
    federation.join(*MEMBERS)
    ends_as_if_nothing_had_happened(federation, calm)


# -- full disks -------------------------------------------------------------------------------------------------------


ROOM_FOR_THE_JOURNAL = 12 << 10  # but not for the result


@contextlib.contextmanager
def small_disk(folder, size="256k"):
    """Mount a file system in this folder; return a function that fills it and one that makes room again."""
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root on Linux can make a small disk")
    folder.mkdir(mode=0o700)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(folder)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"a small disk cannot be made: {made.stderr.strip()}")
    ballast = folder / "ballast"

    def fill(leave=0):
        with ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(512)):
                pass
        os.truncate(ballast, ballast.stat().st_size - leave)

    try:
        yield fill, ballast.unlink
    finally:
        subprocess.run([shutil.which("umount"), "--lazy", str(folder)], check=False)


@pytest.mark.slow
@pytest.mark.parametrize("who", ["server", "north"])
def test_a_disk_that_is_full_from_the_beginning(federate, calm, who):
    federation = federate(grace=60.0, delay=0.0)
    with small_disk(federation.files.out(who)) as (fill, make_room):
        fill()
        federation.start()
        process = federation.running.pop(who)
        assert process.wait(PATIENCE) == 1
        said = federation.said(who).splitlines()[-1]
        assert str(federation.files.out(who)) in said
        assert "No space left on device" in said
        make_room()
        federation.again(who)
        ends_as_if_nothing_had_happened(federation, calm)


@pytest.mark.slow
@pytest.mark.parametrize("leave", [ROOM_FOR_THE_JOURNAL, 0])
@pytest.mark.parametrize("who", ["north", "server"])
def test_a_disk_that_is_full_at_the_end(federate, calm, who, leave):
    """Results are not reported as saved if they are not; once there is room, the same command saves them."""
    federation = federate(grace=60.0)
    rounds = calm["x"].communication.rounds
    with small_disk(federation.files.out(who), "4m") as (fill, make_room):
        federation.start()
        federation.until_round(rounds - 4)
        federation.relay.delay = CRAWLING
        fill(leave)
        if leave:  # without room, the next record may already be too much
            federation.until_round(rounds - 3)
        federation.relay.delay = SLOWLY
        process = federation.running.pop(who)
        assert process.wait(PATIENCE) == 1
        said = federation.said(who)
        assert "No space left on device" in said.splitlines()[-1]
        assert "saved in" not in said
        assert federation.journal(who).exists()
        make_room()
        federation.again(who)
        ends_as_if_nothing_had_happened(federation, calm)
