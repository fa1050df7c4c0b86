"""A seeded driver of faults: a federation of real processes that everything happens to, and that must not mind.

    python tests/chaos/driver.py --seed 7 --faults 20 --variant sa --members 4

The seed decides which faults there are, whom they meet, and before which round of the run; rounds are read from the
server's journal, so that the same seed does the same to a slow machine. Some faults come on top of the one before.

Whoever has ended is started again as docs/how-to/recover.md says. In the end everybody must have ended by itself with
exit code 0 and the table that the same members find in one process, nobody may have shown a traceback, and
for each fault that came alone somebody must have said what happened, and to whom.
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

sys.path.insert(0, str(Path(__file__).parents[1] / "network"))  # for whoever runs this as a program
from faults import ANY_TIME, ANYBODY, BEAT, DELAY, KINDS, MEMBER, NOBODY, SERVER, Faults, records_in
from processes import PATIENCE, Federation

from fedslim.data import load
from fedslim.data.partition import iid
from fedslim.federated.folder import FINISHED
from fedslim.federated.simulation import prepare, simulate
from fedslim.network import journal_records as recording

NAMES = ("north", "south", "west", "east", "centre")
GRACE = 40.0  # for four processes to start on a machine that does other things as well
WITHIN = 0.8  # of the rounds: where most faults are
AROUND = 0.2  # of the faults that may come then come before the first round, or in the last ones, or after the end
BEFORE = -1  # there is no journal yet
HASTE = 0.25  # of the faults come before all have recovered from the one before


@dataclass(frozen=True)
class Fault:
    at: int  # the round that comes next
    kind: str
    who: str
    seed: int  # of what else is random in it
    hasty: bool  # whether the next one may come at once

    def __str__(self):
        return f"{self.kind} of {self.who} before round {self.at}{', in haste' if self.hasty else ''}"


def plan(seed, faults, members, rounds, kinds=tuple(KINDS)):
    """What will happen, in order: each kind comes once before any comes twice."""
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
    """A federation, and what is done to it."""

    def __init__(self, folder, *, variant="x", members=3, rows=400, tell=lambda _text: None):
        self.names, self.variant, self.tell = NAMES[:members], variant, tell
        self.everybody = ("server", *self.names)
        databases = dict(zip(self.names, iid(load("encounters").take(range(rows)), members, seed=0).parts, strict=True))
        prepare(variant)
        self.calm = simulate(databases, variant=variant)
        self.federation = Federation(folder, databases, variant, GRACE, DELAY, keepalive=BEAT, connect=3.0)
        self.files, self.running = self.federation.files, self.federation.running
        self.born = dict.fromkeys(self.everybody, 0)  # for each party, where what its present process says begins
        self.excused = False  # whether somebody may end with an error because of what was done
        self.hurried = False  # whether the last fault may not be over yet
        self.expected = []  # (fault, [(who, pattern, from where on)]), of which one at least must have been said

    def run(self, seed, faults, kinds=tuple(KINDS)):
        """Do all of it; raises AssertionError if anything is not as it should be."""
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
            return self.over or reached >= lowest + 2  # one answer may have been on its way

        self.until(recovered, f"somebody to recover from {fault}")
        self.excused = False
        if told and alone and begun and not self.over:  # before the beginning and after the end nobody is missed
            self.expected.append((fault, [(who, pattern, *(since or [before[who]])) for who, pattern, *since in told]))

    # -- the parties --------------------------------------------------------------------------------------------

    @property
    def over(self):
        return (self.files.out("server") / FINISHED).exists()

    def reached(self):
        """The round that comes next, as the server's journal has it; -1 if there is none."""
        if self.over:
            return sys.maxsize
        try:
            data = self.federation.journal("server").read_bytes()
        except OSError:
            return -1
        for record in reversed(records_in(data)[1:]):
            with contextlib.suppress(ValueError):  # it is just being written, or we have torn it
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
        """Start somebody as docs/how-to/deploy.md says, also after a fault."""
        self.born[who] = len(self.said(who))
        if who == "server":
            self.federation.serve("--resume")
            return
        if self.excused:  # and the cause is gone
            (self.files.folder / "trust" / who / "refusals.json").unlink(missing_ok=True)
        self.federation.join(who)

    def end(self, who, number=signal.SIGKILL):
        code = self.federation.kill(who, number)
        expected = {-number, 130 if number == signal.SIGTERM else 0, 0}  # it may just have begun, or ended
        assert code in expected or self.excused, f"{who} ended with {code}"

    def until(self, condition, what):
        """Wait for something, and start again whoever has a reason to have ended, as an operator would."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            for who, process in list(self.running.items()):
                if code := process.poll():
                    assert self.excused, f"{who} ended with {code} while we waited for {what}"
                    self.tell(f"  {who} ended with {code}, and is started again")
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
"""What a line must not have that says what happened: where it was in the program, or no cause at all."""


NEVER = (
    "It cannot go on: it has lost its journal, or another one was put in its place",  # everybody goes back to it
    "within 60 s",  # nobody is given so long here: another cause was meant
)


def chaos(folder, seed, faults, *, variant="x", members=3, kinds=tuple(KINDS), tell=lambda _text: None):
    """One run of a federation in a folder, with so many faults."""
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
    parser.add_argument("--kinds", default=",".join(KINDS), help="of these only")
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
