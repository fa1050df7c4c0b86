"""Inject seeded faults into a federation of real processes, which must produce the right result regardless.

    python tests/chaos/driver.py --seed 7 --faults 20 --variant sa --members 4

The seed decides on the faults, their victims and their rounds. Rounds are read from the server's journal, so that the
same seed has the same effect on a slow machine. Some faults start before the federation has recovered from the last.

A process that ends is restarted as docs/how-to/recover.md says. In the end, every process must have exited with code
0 and the code table that the same members find in one process. Nobody may have printed a traceback, and for each fault
that occurred alone, somebody must have logged what happened, and to whom.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "network"))  # when run as a program
from faults import ANY_TIME, ANYBODY, BEAT, DELAY, KINDS, MEMBER, NOBODY, SERVER, Faults, records_in
from processes import PATIENCE, Federation

from fedslim.data import load
from fedslim.data.partition import iid
from fedslim.federated.folder import FINISHED
from fedslim.federated.simulation import prepare, simulate
from fedslim.network import journal as recording

NAMES = ("north", "south", "west", "east", "centre")
GRACE = 40.0  # enough for four processes to start on a busy machine
WITHIN = 0.8  # most faults occur in this share of the rounds
AROUND = 0.2  # this share of the ANY_TIME faults occurs before the first round, in the last ones, or after the end
BEFORE = -1  # there is no journal yet
HASTE = 0.25  # after this share of faults, the next one does not wait for recovery


@dataclass(frozen=True)
class Fault:
    at: int  # the next round
    kind: str
    who: str
    seed: int  # for the random details of the fault
    hasty: bool  # whether the next fault may follow at once

    def __str__(self):
        return f"{self.kind} of {self.who} before round {self.at}{', in haste' if self.hasty else ''}"


def plan(seed, faults, members, rounds, kinds=tuple(KINDS)):
    """Return the faults in order; every kind occurs once before any occurs twice."""
    rng = random.Random(seed)
    who = {SERVER: ("server",), MEMBER: members, ANYBODY: ("server", *members, *members), NOBODY: ("nobody",)}
    chosen = []
    while len(chosen) < faults:
        chosen += rng.sample(kinds, len(kinds))
    planned = []
    for kind in chosen[:faults]:
        within = rng.randrange(int(rounds * WITHIN))
        at = rng.choice([BEFORE, rounds - 2, rounds - 1, rounds]) if rng.random() < AROUND else within
        at = at if kind in ANY_TIME else within
        planned.append(Fault(at, kind, rng.choice(who[KINDS[kind]]), rng.getrandbits(32), rng.random() < HASTE))
    return sorted(planned, key=lambda fault: fault.at)


class Chaos(Faults):
    """A federation, and the faults injected into it."""

    def __init__(self, folder, *, variant="x", members=3, rows=400, tell=lambda _text: None):
        self.names, self.variant, self.tell = NAMES[:members], variant, tell
        self.everybody = ("server", *self.names)
        databases = dict(zip(self.names, iid(load("encounters").take(range(rows)), members, seed=0).parts, strict=True))
        prepare(variant)
        self.calm = simulate(databases, variant=variant)
        self.federation = Federation(folder, databases, variant, GRACE, DELAY, keepalive=BEAT, connect=3.0)
        self.files, self.running = self.federation.files, self.federation.running
        self.born = dict.fromkeys(self.everybody, 0)  # for each party, where the output of its current process starts
        self.excused = False  # whether a party may end with an error because of a fault
        self.hurried = False  # whether the last fault may not be over yet
        self.expected = []  # (fault, [(who, pattern, start)]); at least one of the patterns must be in the output

    def run(self, seed, faults, kinds=tuple(KINDS)):
        """Inject all faults, and raise AssertionError if anything goes wrong."""
        planned = plan(seed, faults, self.names, self.calm.communication.rounds, kinds)
        try:
            for who in self.everybody:
                self.start(who)
            for fault in planned:
                self.until(lambda fault=fault: self.reached() >= fault.at, f"round {fault.at}")
                self.tell(f"{fault} (now at {self.reached()})")
                self.meet(fault)
            self.until(lambda: not any(self.alive(who) for who in self.everybody), "the end")
            self.check()
        except BaseException as error:
            error.add_note("\n".join([f"seed {seed}, {self.variant}:", *map(str, planned), self.words()]))
            raise
        return planned

    def meet(self, fault):
        before = {who: len(self.said(who)) for who in self.everybody}
        lowest = self.reached()
        begun = lowest >= 0
        told = getattr(self, fault.kind)(fault.who, random.Random(fault.seed))
        alone, self.hurried = not self.hurried, fault.hasty
        if fault.hasty:
            return

        def recovered():
            nonlocal lowest
            reached = self.reached()
            lowest = min(lowest, reached)
            return self.over or reached >= lowest + 2  # one answer may have been in transit

        self.until(recovered, f"somebody to recover from {fault}")
        self.excused = False
        if told and alone and begun and not self.over:  # before the start and after the end nobody notices
            self.expected.append((fault, [(who, pattern, *(since or [before[who]])) for who, pattern, *since in told]))

    # -- the parties --------------------------------------------------------------------------------------------

    @property
    def over(self):
        return (self.files.out("server") / FINISHED).exists()

    def reached(self):
        """Return the next round according to the server's journal; -1 if there is no journal."""
        if self.over:
            return sys.maxsize
        try:
            data = self.federation.journal("server").read_bytes()
        except OSError:
            return -1
        for record in reversed(records_in(data)[1:]):
            with contextlib.suppress(ValueError):  # it is being written, or was damaged by a fault
                kept = recording._kept.decode(record)
                if isinstance(kept, (recording.RoundRecord, recording.BackRecord)):
                    return kept.number + isinstance(kept, recording.RoundRecord)
        return 0

    def said(self, who):
        return self.files.said(who) if (self.files.folder / f"{who}.err").exists() else ""

    def words(self):
        return "\n".join(f"-- {who}:\n{self.said(who)}" for who in self.everybody)

    def alive(self, who):
        return self.running[who].poll() is None

    def start(self, who):
        """Start a party with the command from docs/how-to/deploy.md, also after a fault."""
        self.born[who] = len(self.said(who))
        if who == "server":
            self.federation.serve("--resume")
            return
        if self.excused:  # the cause is fixed
            (self.files.folder / "trust" / who / "refusals.json").unlink(missing_ok=True)
        self.federation.join(who)

    def end(self, who, number=signal.SIGKILL):
        code = self.federation.kill(who, number)
        expected = {-number, 130 if number == signal.SIGTERM else 0, 0}  # it may just have started, or ended
        assert code in expected or self.excused, f"{who} ended with {code}"

    def until(self, condition, what):
        """Wait for a condition, and restart processes that had a reason to end, as an operator would."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            for who, process in list(self.running.items()):
                if code := process.poll():
                    assert self.excused, f"{who} ended with {code} while we waited for {what}"
                    self.tell(f"  {who} ended with {code}; restarting it")
                    self.start(who)
            assert time.monotonic() < deadline, f"waited in vain for {what}"
            time.sleep(0.01)

    # -- how it must end ----------------------------------------------------------------------------------------

    def check(self):
        codes = {who: self.running[who].returncode for who in self.everybody}
        assert set(codes.values()) == {0}, codes
        result = self.federation.result()
        assert result.table == self.calm.table
        assert result.record.figures["reason"] is None
        assert set(result.told) == (set() if self.variant == "so" else set(self.names))
        assert all(table == result.table for table in result.told.values())
        for who in self.everybody:
            assert not self.federation.journal(who).exists()
            for line in self.said(who).splitlines():
                assert not UNSPEAKABLE.search(line), (who, line)
                assert not any(never in line for never in NEVER), (who, line)
        for fault, told in self.expected:
            found = any(re.search(pattern, self.said(who)[since:]) for who, pattern, since in told)
            assert found, f"nobody said what {fault} was about: {told}"


UNSPEAKABLE = re.compile(r"Traceback|internal error|\bErrno\b|\w(Error|Exception)\b|: *$|\bNone\b|^\s+File \"")
"""Messages must not contain program internals, and must give a cause."""


NEVER = (
    "It cannot go on: it has lost its journal, or another one was put in its place",  # members rewind instead
    "within 60 s",  # no timeout is that long here, so the cause would be wrong
)


def chaos(folder, seed, faults, *, variant="x", members=3, kinds=tuple(KINDS), tell=lambda _text: None):
    """Run a federation in a folder, with a number of faults."""
    driven = Chaos(folder, variant=variant, members=members, tell=tell)
    try:
        return driven.run(seed, faults, kinds)
    finally:
        driven.federation.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--variant", choices=("x", "sa", "so"), default="x")
    parser.add_argument("--members", type=int, choices=range(3, len(NAMES) + 1), default=3)
    parser.add_argument("--kinds", default=",".join(KINDS), help="only these kinds of faults")
    given = parser.parse_args()
    began = time.monotonic()

    def tell(text):
        sys.stdout.write(f"{time.monotonic() - began:6.1f} s  {text}\n")
        sys.stdout.flush()

    with tempfile.TemporaryDirectory() as folder:
        how = {"variant": given.variant, "members": given.members, "kinds": given.kinds.split(","), "tell": tell}
        chaos(Path(folder), given.seed, given.faults, **how)
    tell("as if nothing had happened")


if __name__ == "__main__":
    main()
