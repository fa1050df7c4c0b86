"""Helpers for tests with real processes: a federation whose members connect through a relay that can disturb them."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import time

from fedslim.federated.loopback import HOST, Loopback, free_port
from fedslim.network.journal import HEAD_BYTES, MAGIC

MEMBERS = ("north", "south", "west")
GRACE = 20.0
SLOWLY = 0.005  # seconds by which the relay delays the server's messages: a run then takes a second or two
CRAWLING = 0.4
WHOLE = 1 << 16
PATIENCE = 90.0  # of the tests, on a busy machine


class Relay:
    """Relays between members and server; it can delay, cut, throttle, split and mute every connection."""

    def __init__(self, port, target, delay=SLOWLY):
        self.target, self.delay = target, delay
        self.piece, self.pause = WHOLE, 0.0  # bytes to pass on at a time, and seconds to wait after each piece
        self.lines, self._threads = [], []
        self._ways = []  # (from, to the member or not) of what it passes on
        self._mute = set()  # data of these are acknowledged and not passed on
        self._listener = socket.create_server((HOST, port))
        self._start(self._accept)

    def _start(self, target, *arguments):
        self._threads.append(threading.Thread(target=target, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                member, _ = self._listener.accept()
                try:
                    server = socket.create_connection((HOST, self.target))
                except OSError:
                    member.close()
                    continue
                self.lines += [member, server]
                self._ways += [(member, False), (server, True)]
                for line in (member, server):
                    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # pieces stay pieces
                self._start(self._pass, member, server, False)
                self._start(self._pass, server, member, True)

    def _pass(self, source, target, down):
        with contextlib.suppress(OSError):
            while data := source.recv(WHOLE):
                if down:
                    time.sleep(self.delay)
                for at in range(0, len(data), self.piece):
                    if source not in self._mute:
                        target.sendall(data[at : at + self.piece])
                        time.sleep(self.pause)
        shut(source)
        if source not in self._mute:  # otherwise its end is not passed on either
            shut(target)

    def mute(self, *, up=True, down=True):
        """Silently stop passing on data of the open connections; new ones work."""
        self._mute.update(source for source, is_down in self._ways if (down if is_down else up))

    def cut(self):
        for line in list(self.lines):
            shut(line)

    def ports(self):
        """Return the ports of the open connections, at the members' and at the relay's side."""
        lines = list(self.lines)
        return {line.getpeername()[1] for line in lines[::2]} | {line.getsockname()[1] for line in lines[1::2]}

    def close(self):
        shut(self._listener)
        self.cut()
        for thread in self._threads:
            thread.join(PATIENCE)
        for line in (self._listener, *self.lines):
            line.close()


def shut(line):
    with contextlib.suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)


class Federation:
    """A federation whose members connect through a relay."""

    def __init__(self, folder, databases, variant="x", grace=GRACE, delay=SLOWLY, **timeouts):
        self.files = Loopback.make(folder, databases, variant=variant, grace=grace, **timeouts)
        self.port = free_port()
        self.relay = Relay(self.files.port, self.port, delay)
        self.running = {}

    def serve(self, *more):
        self.running["server"] = self.files.start_server("--port", str(self.port), *more)
        return self.running["server"]

    def join(self, *names):
        for name in names:
            self.running[name] = self.files.start_member(name, "--no-compare")

    def start(self):
        self.serve()
        self.join(*MEMBERS)

    def kill(self, who, number=signal.SIGKILL):
        process = self.running.pop(who)
        process.send_signal(number)
        return process.wait(PATIENCE)

    def again(self, who):
        """Restart a killed party; the server resumes its journal if there is one."""
        if who != "server":
            self.join(who)
        else:
            self.serve(*(["--resume"] if self.journal("server").exists() else []))

    def ends(self, *who):
        """Wait for all processes and return their exit codes in order."""
        return [self.running[each].wait(PATIENCE) for each in who or self.running]

    def said(self, who):
        return self.files.said(who)

    def journal(self, who):
        return self.files.out(who) / f"{'server' if who == 'server' else 'member'}.journal"

    def records(self, who):
        """Return the number of records in a party's journal, without the header."""
        try:
            data = self.journal(who).read_bytes()
        except OSError:
            return -1
        at, count = len(MAGIC), -1
        while at + HEAD_BYTES <= len(data):
            at += HEAD_BYTES + int.from_bytes(data[at : at + 4], "big")
            count += at <= len(data)
        return count

    def until(self, condition):
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, {who: self.said(who) for who in self.running}
            time.sleep(0.002)

    def until_round(self, number):
        self.until(lambda: self.records("server") >= number)

    @contextlib.contextmanager
    def taken_port(self):
        """Occupy the server's port."""
        with socket.create_server((HOST, self.port)):
            yield

    def result(self):
        return self.files.result()

    def close(self):
        self.files.close()
        self.relay.close()


def ends_as_if_nothing_had_happened(federation, calm, variant="x"):
    assert federation.ends() == [0] * 4, {who: federation.said(who) for who in federation.running}
    result = federation.result()
    assert result.table == calm[variant].table
    assert all(table == result.table for table in result.told.values())
    assert set(result.told) == (set() if variant == "so" else set(MEMBERS))
    assert result.record.figures["reason"] is None
    for who in ("server", *MEMBERS):
        assert not federation.journal(who).exists()
        assert "internal error" not in federation.said(who)
        assert "Traceback" not in federation.said(who)
