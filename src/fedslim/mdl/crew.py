"""This process and its helpers, which carry out tasks together. Helpers only make it faster.

A helper is a process that runs this module. It gets the data once, then one task after the other, through its standard
input, and writes outcomes to its standard output. If it fails, its task is carried out by another process.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

from fedslim.mdl.driver import Stop
from fedslim.mdl.effort import Task, TaskOutcome, carry_out
from fedslim.mdl.search import SlimSearch

if TYPE_CHECKING:
    from fedslim.data import TransactionDatabase

Watch = Callable[[SlimSearch], Callable[[], None] | None]

WORTH_HELP = 2.0  # seconds after which helpers are started: what takes less is over before they are ready

PAUSE = 0.05  # seconds between two looks at the clock while only helpers are busy

GRACE = 20.0
"""Seconds that helpers have to end with their best table after a stop; a question can take that long on huge data."""


class Helper:
    """Another process that carries out tasks."""

    def __init__(self, database: TransactionDatabase, inbox: queue.Queue[tuple[Helper, Any]]) -> None:
        self.ready = False
        self.task: int | None = None  # the number of the task it is busy with
        command = [sys.executable, "-P", "-m", "fedslim.mdl.crew"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(  # noqa: S603  # ourselves
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, start_new_session=True
        )
        self._inbox = inbox
        self._outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._outbox.put(database)
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._write, self._read)]
        for thread in self._threads:
            thread.start()

    def send(self, message: Any) -> None:
        """Send a message, without waiting until it is read."""
        self._outbox.put(message)

    def _write(self) -> None:
        with suppress(OSError, ValueError):  # it has ended, which the other thread reports
            while (message := self._outbox.get()) is not None:
                _write(self._process.stdin, message)

    def _read(self) -> None:
        answers = self._process.stdout
        assert answers is not None  # noqa: S101  # it was asked for
        with suppress(OSError, EOFError, ValueError, pickle.UnpicklingError):
            while True:
                self._inbox.put((self, pickle.load(answers)))  # noqa: S301  # from ourselves
        self._inbox.put((self, None))

    def end(self) -> None:
        """Kill the process, and close what belongs to it."""
        self._process.kill()
        self._process.wait()
        self._outbox.put(None)
        for thread in self._threads:
            thread.join()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # what was not sent yet
                assert pipe is not None  # noqa: S101  # it was asked for
                pipe.close()


class Crew:
    """This process, and helpers if they are worth it."""

    def __init__(self, database: TransactionDatabase, stop: Stop, workers: int) -> None:
        self._database = database
        self._stop = stop
        self._workers = workers
        self._helpers: list[Helper] | None = None  # not started yet
        self._inbox: queue.Queue[tuple[Helper, Any]] = queue.Queue()

    def end(self) -> None:
        """End all helpers."""
        for helper in self._helpers or ():
            helper.end()

    def carry_out(self, tasks: Sequence[Task], watch: Watch = lambda _: None) -> list[TaskOutcome]:
        """Carry out tasks; return their outcomes in the same order, after a stop only of those that were begun."""
        todo = deque(range(len(tasks)))
        done: dict[int, TaskOutcome] = {}
        while todo and not (done and self._stop.now()):
            self._collect(todo, done)
            self._hand_out(todo, tasks)
            if todo:
                number = todo.popleft()
                done[number] = carry_out(tasks[number], self._database, self._stop, watch=watch)
            while not todo and self._busy() and not self._stop.now():
                self._collect(todo, done, PAUSE)
        if self._stop.now():
            for helper in self._busy():
                helper.send("stop")
            while self._busy() and self._collect(deque(), done, GRACE):
                pass
        return [done[number] for number in sorted(done)]

    def _busy(self) -> list[Helper]:
        return [helper for helper in self._helpers or () if helper.task is not None]

    def _hand_out(self, todo: deque[int], tasks: Sequence[Task]) -> None:
        """Give tasks to idle helpers, but leave one for this process."""
        if self._helpers is None and self._stop.seconds >= WORTH_HELP and len(tasks) > 1:
            self._helpers = []
            with suppress(OSError):  # they are optional
                for _ in range(self._workers - 1):
                    self._helpers.append(Helper(self._database, self._inbox))
        for helper in self._helpers or ():
            if helper.ready and helper.task is None and len(todo) > 1:
                helper.task = todo.pop()
                helper.send(tasks[helper.task])

    def _collect(self, todo: deque[int], done: dict[int, TaskOutcome], seconds: float = 0.0) -> bool:
        """Take in what helpers have sent, waiting for the first message; return whether there was one."""
        try:
            helper, message = self._inbox.get(timeout=seconds) if seconds else self._inbox.get_nowait()
        except queue.Empty:
            return False
        if message is None:  # it has ended
            helper.end()
            if self._helpers is not None:
                self._helpers.remove(helper)
            if helper.task is not None:
                todo.appendleft(helper.task)
        elif isinstance(message, TaskOutcome):
            assert helper.task is not None  # noqa: S101  # it was given one
            done[helper.task], helper.task = message, None
        else:
            helper.ready = True
        self._collect(todo, done)
        return True


def _write(pipe: IO[bytes] | None, message: Any) -> None:
    assert pipe is not None  # noqa: S101  # it was asked for
    pickle.dump(message, pipe, pickle.HIGHEST_PROTOCOL)
    pipe.flush()


def help_out() -> None:
    """Carry out the tasks that come in, until the process that sends them ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a stop comes as a message
    received, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    from fedslim.mdl.mining import prepare  # noqa: PLC0415  # it imports this module

    prepare()
    database = pickle.load(received)  # noqa: S301  # from the process that started this one
    stop = Stop()
    tasks: queue.SimpleQueue[Task] = queue.SimpleQueue()

    def listen() -> None:
        with suppress(OSError, EOFError, pickle.UnpicklingError):
            while True:
                message = pickle.load(received)  # noqa: S301  # likewise
                if message == "stop":
                    stop.ask()
                else:
                    tasks.put(message)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    _write(answers, "ready")
    while True:
        _write(answers, carry_out(tasks.get(), database, stop))


if __name__ == "__main__":
    # Not the classes of this file, which runs as `__main__`.
    from fedslim.mdl.crew import help_out as main

    main()
