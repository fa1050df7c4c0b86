"""The faults that can be injected into a federation. Each is a method, named as in `KINDS`.

It does its damage, restarts the processes it ended, and returns pairs of a party and a pattern, at least one of which
must appear in that party's output. A fault that nobody has to notice returns nothing.
"""

from __future__ import annotations

import contextlib
import re
import resource
import signal
import socket
import time

from processes import CRAWLING, PATIENCE, WHOLE

from fedslim.federated.folder import LOCK
from fedslim.federated.loopback import HOST, free_port
from fedslim.network.journal import HEAD_BYTES, LENGTH_BYTES, MAGIC

BEAT = 0.7  # seconds
DELAY = 0.02  # of the relay per round, so that rounds are left when a process has restarted

# The victim: the server, a member, or either; NOBODY for faults of the network or of all parties.
SERVER, MEMBER, ANYBODY, NOBODY = "server", "member", "anybody", "nobody"
KINDS = {
    "kill": ANYBODY,
    "kill_everybody": NOBODY,
    "terminate": MEMBER,
    "pause": ANYBODY,
    "stop": ANYBODY,
    "cut": NOBODY,
    "delay": NOBODY,
    "throttle": NOBODY,
    "split": NOBODY,
    "mute": NOBODY,
    "fill_disk": ANYBODY,
    "full_stdout": ANYBODY,
    "same_folder": MEMBER,
    "second_server": SERVER,
    "same_certificate": MEMBER,
    "cut_journal": ANYBODY,
    "zeros_in_journal": ANYBODY,
    "garbage_in_journal": ANYBODY,
    "flipped_bit_in_journal": ANYBODY,
    "behead_journal": ANYBODY,
    "power_cut": NOBODY,
    "garbage_flood": SERVER,
    "silent_flood": SERVER,
}


# The others damage journals, which members cannot help to repair once they have received the end and exited.
ANY_TIME = {"kill", "kill_everybody", "terminate", "pause", "stop", "cut", "mute"}


class Faults:
    """The faults; `driver.py` decides when they occur, and checks the end."""

    def kill(self, who, _rng):
        self.end(who)
        self.start(who)
        if who == "server":
            return [(who, r"resumed after \d+ round|no journal to resume")]
        return [("server", rf"{who} disconnected: \w+"), (who, r"rejoining the run: replaying \d+ message")]

    def kill_everybody(self, _who, rng):
        for who in self.everybody:
            self.end(who)
        for who in rng.sample(self.everybody, len(self.everybody)):
            self.start(who)
        return [("server", r"resumed after \d+ round|no journal to resume")]

    def terminate(self, who, _rng):
        self.end(who, signal.SIGTERM)
        self.start(who)
        return [("server", rf"{who} disconnected: \w+")]

    def pause(self, who, _rng):
        """Suspend a process for too short a time to be noticed."""
        self._stop(who, BEAT)

    def stop(self, who, rng):
        self._stop(who, rng.uniform(5, 8) * BEAT)
        silent = r"nothing was received for [\d.]+ s"
        others = self.names if who == "server" else ("server",)
        return [
            (other, f"disconnected from the server: {silent}" if who == "server" else f"{who} disconnected: {silent}")
            for other in others
        ]

    def _stop(self, who, seconds):
        self.running[who].send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.running[who].send_signal(signal.SIGCONT)

    def cut(self, _who, _rng):
        self.federation.relay.cut()
        return [("server", r"\w+ disconnected: \w+")]

    def mute(self, _who, rng):
        up, down = rng.choice([(True, True), (True, False), (False, True)])
        self.federation.relay.mute(up=up, down=down)
        silent = r"nothing was received for [\d.]+ s"
        return [
            ("server", rf"\w+ disconnected: {silent}"),
            *((name, f"disconnected from the server: {silent}") for name in self.names),
        ]

    def delay(self, _who, rng):
        self._hinder(rng, delay=rng.uniform(0.1, 0.4))

    def throttle(self, _who, rng):
        self._hinder(rng, piece=rng.randint(16, 64), pause=0.01)

    def split(self, _who, rng):
        self._hinder(rng, piece=rng.randint(1, 3), pause=0.0)

    def _hinder(self, rng, **how):
        """Degrade every connection for some rounds."""
        relay, until = self.federation.relay, self.reached() + rng.randint(2, 6)
        for name, value in how.items():
            setattr(relay, name, value)
        self.until(lambda: self.reached() >= until or self.over, "rounds on bad connections")
        relay.delay, relay.piece, relay.pause = DELAY, WHOLE, 0.0

    def fill_disk(self, who, rng):
        """Soon, no file of the process can grow any more, as if its disk were full."""
        written = max([each.stat().st_size for each in self.files.out(who).iterdir()], default=0)
        most = max(written, len(self.said(who)) + 2000) + rng.randrange(1000)  # leave room for its messages
        process = self.running.pop(who)
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most, most))
        self.until(lambda: process.poll() is not None, f"the disk of {who} to be full")
        code = process.returncode
        assert code == 1 or self.over or self.excused, f"{who} ended with {code} on a full disk"
        self.start(who)
        return [(who, r"error: \S+: .*(cannot|could not) be written.*File too large")]

    def full_stdout(self, who, _rng):
        """Stdout cannot be written; the process notices only at the end."""
        self.end(who)
        place = self.files.folder / f"{who}.txt"
        place.unlink()
        place.symlink_to("/dev/full")
        self.start(who)
        return [(who, r"could not be printed .*; it is saved in")]

    def same_folder(self, who, _rng):
        self.federation.relay.delay = CRAWLING  # the second process takes a moment to start
        held, lock = self.running[who].pid, self.files.out(who) / LOCK
        # A process that has just started may not hold the lock yet.
        there = f"process {held} "
        self.until(lambda: not self.alive(who) or (lock.exists() and there in lock.read_text()), f"{who} to be there")
        second = self.files.start_server("--resume", "--port", str(free_port())) if who == "server" else None
        second = second or self.files.start_member(who)
        code = second.wait(PATIENCE)
        self.federation.relay.delay = DELAY
        assert code == 2 or not self.alive(who) or self.excused, f"the second {who} ended with {code}"
        return [(who, rf"process {held} on \S+ is working in this folder")]

    second_server = same_folder

    def same_certificate(self, who, rng):
        """Start the same member twice: they take the connection from each other until one of them ends."""
        self.excused = True
        self.federation.relay.delay = CRAWLING
        before = len(self.said("server"))
        twin = self.files.start_member(who, "--out", str(self.files.folder / f"out-{who}-twin"))
        met = re.compile(rf"{who} connected")
        self.until(lambda: met.search(self.said("server")[before:]) or twin.poll() is not None, "the twin")
        time.sleep(rng.uniform(0.5, 3.0))
        twin.kill()
        twin.wait()
        self.federation.relay.delay = DELAY
        return [("server", rf"{who} connected again while its old connection was open"), (who, "refused|another run")]

    def cut_journal(self, who, rng):
        self._tear(who, lambda data, first: data[: max(first, len(data) - rng.randint(1, 4000))])
        return [(who, r"\d+ damaged bytes"), ("server", rf"{who} has lost its last journal records|resumed after")]

    def zeros_in_journal(self, who, rng):
        self._tear(who, lambda data, _: data + bytes(rng.randint(1, 5000)))
        return [(who, r"\d+ damaged bytes")]

    def garbage_in_journal(self, who, rng):
        def garble(data, _first):
            last = min(len(records_in(data)[-1]), 500)
            return data[:-last] + rng.randbytes(last)

        self._tear(who, garble)
        return [(who, r"\d+ damaged bytes")]

    def flipped_bit_in_journal(self, who, rng):
        def flip(data, first):
            data[rng.randrange(first, len(data))] ^= 1 << rng.randrange(8)
            return data

        self._tear(who, flip)
        return [(who, r"\d+ damaged bytes")]

    def behead_journal(self, who, rng):
        """Cut off the start of a journal; if it is the server's, a new run starts and members find theirs gone."""
        self.excused |= who == "server"
        self._tear(who, lambda data, first: data[: rng.randrange(first)])
        return [(who, r"journal: the journal is damaged from the start")]

    def power_cut(self, _who, rng):
        """End all processes at once, and lose the last records of each journal."""
        for who in self.everybody:
            self.end(who)
        for who in self.everybody:
            self._tear(who, lambda data, first: data[: max(first, len(data) - rng.randrange(3000))])
        return [("server", r"resumed after \d+ round|no journal to resume")]

    def _tear(self, who, how):
        if who in self.running:
            self.end(who)
        path = self.federation.journal(who)
        data = bytearray(path.read_bytes()) if path.exists() else bytearray()
        first = len(MAGIC) + HEAD_BYTES + len(records_in(data)[0]) if records_in(data) else 0
        if first < len(data):
            path.write_bytes(how(data, first))
        self.start(who)

    def garbage_flood(self, _who, rng):
        for _ in range(50):
            with contextlib.suppress(OSError), socket.create_connection((HOST, self.federation.port), 2) as connection:
                connection.sendall(rng.randbytes(rng.randint(1, 2000)))
        # A process logs only its first refused connection at once.
        return [("server", r"refused a connection: \w+", self.born["server"])]

    def silent_flood(self, _who, rng):
        """Open handshakes that stall, while the members have to reconnect."""
        connections = []
        for _ in range(150):
            with contextlib.suppress(OSError):
                connections.append(socket.create_connection((HOST, self.federation.port), 2))
                connections[-1].sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[: rng.randint(0, 11)])
        self.federation.relay.cut()
        time.sleep(2 * BEAT)
        for connection in connections:
            connection.close()
        return [("server", r"\w+ disconnected: \w+")]


def records_in(data):
    """Return the complete records of a journal, starting with the header."""
    at, found = len(MAGIC), []
    while at + HEAD_BYTES <= len(data):
        end = at + HEAD_BYTES + int.from_bytes(data[at : at + LENGTH_BYTES], "big")
        if end > len(data):
            break
        found.append(bytes(data[at + HEAD_BYTES : end]))
        at = end
    return found
