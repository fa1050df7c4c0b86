"""Iterated local search (prototype)."""
from __future__ import annotations

import random
import time
import numpy as np
from fedslim.mdl.objective import standard_length
from fedslim.mdl.questions import GoBack, Insert, Mark, RemoveAll, TryInsertions
from fedslim.mdl.ranking import KeptRanking
from fedslim.mdl.search import SlimSearch
from fedslim.mdl.table import KeptTable


class LocalSearch(SlimSearch):
    start_from = ()
    seed = 0
    iterations = 10**9
    moves = ("share", "item", "near", "worst")
    widths = (1, 2, 4, 6, 8, 12)
    log = None
    patience = None

    def run(self):
        yield from self._begin()
        yield from self._install(self.start_from)
        yield from self._sweep(set(self._table))
        while (yield from self._step()):
            pass
        yield from self._mark()
        self.rng = random.Random(self.seed)
        for k in range(self.iterations):
            yield from self._iterate(k)
        self.converged = True
        return self.result()

    def _install(self, table):
        for items, entry in table:
            (slot,) = self._table.free_slots(1)
            self._reserve(slot)
            self._standard[slot] = standard_length(items, self._item_lengths)
            move = Insert(slot, items, entry, (0, 0))
            change = (yield TryInsertions((move,), keep=True)).changes[0]
            bits = self._bits_changed(change)
            self._table.stage(slot, items, entry)
            self._table.place(slot)
            self.ranking.welcome(slot)
            self._apply(change, bits)

    def _mark(self):
        self.bits_now = self.bits().total
        if not hasattr(self, "_kept"):
            self._kept = (KeptTable(), KeptRanking())
        self._table.mark(self._kept[0])
        self.ranking.mark(self._kept[1])
        self._kept_rest = (self._usage.copy(), self._standard.copy(), self._total, self._in_use, self.bits_now, dict(self._tried))
        yield Mark()

    def _go_back(self):
        yield GoBack()
        usage, standard, self._total, self._in_use, self.bits_now, tried = self._kept_rest
        self._usage[:] = 0
        self._usage[: len(usage)] = usage
        self._standard[: len(usage)] = standard
        self._tried = dict(tried)
        self._table.go_back(self._kept[0])
        self.ranking.go_back(self._kept[1])

    def pick(self, n):
        return int(self.rng.random() * n)

    def choose_move(self):
        rng, slots = self.rng, list(self._table)
        if not slots: return "none", []
        kind = self.moves[self.pick(len(self.moves))]
        if kind == "share":
            share = (0.02, 0.05, 0.1, 0.2, 0.3)[self.pick(5)]
            return f"share{share}", [s for s in slots if rng.random() < share]
        if kind == "few":
            n = 1 + self.pick(5)
            return "few", list({slots[self.pick(len(slots))] for _ in range(n)})
        one = slots[self.pick(len(slots))]
        items = set(self._table.itemsets[one])
        if kind == "item":
            item = self._table.itemsets[one][self.pick(len(items))]
            return "item", [s for s in slots if item in self._table.itemsets[s] and rng.random() < 0.8]
        if kind == "item3":
            item = self._table.itemsets[one][self.pick(len(items))]
            return "item3", [s for s in slots if item in self._table.itemsets[s] and rng.random() < 0.3]
        if kind == "near":
            # those with the largest overlap (Jaccard)
            n = 2 + self.pick(12)
            def far(s):
                o = set(self._table.itemsets[s]); return (-len(o & items) / len(o | items), s)
            return f"near", sorted(slots, key=far)[:n]
        if kind == "cluster":
            n = 10 + self.pick(60)
            def far(s):
                o = set(self._table.itemsets[s]); return (-len(o & items) / len(o | items), s)
            return f"cluster", sorted(slots, key=far)[:n]
        if kind == "inside":
            return "inside", [s for s in slots if s == one or (set(self._table.itemsets[s]) < items or items < set(self._table.itemsets[s]))]
        if kind == "worst":
            n = 2 + self.pick(20)
            return "worst", sorted(slots, key=lambda s: (int(self._usage[s]) * (0.5 + rng.random()), s))[:n]
        if kind == "last":
            n = 2 + self.pick(20)
            return "last", sorted(slots, key=lambda s: (-self.ranking.birth_of(s), s))[:n]
        raise ValueError(kind)

    def _iterate(self, k):
        t0 = time.process_time()
        kind, drop = self.choose_move()
        before = self.bits_now
        if not drop: return
        self._touched, self._shrunk = set(), set()
        if drop:
            change = yield RemoveAll(tuple(drop))
            bits = self._bits_changed(change)
            for slot in drop:
                self._leave(slot, None)
            self._apply(change, bits)
        dropped = self.bits_now
        for slot in self._unused():
            from fedslim.mdl.questions import Remove
            yield Remove(slot); self._leave(slot, None)
        yield from self._sweep(self._shrunk)
        pruned = self.bits_now
        width = self.widths[self.pick(len(self.widths))]
        self.ranking.width = width
        acc0 = self.tally.accepted
        steps = []
        gave_up = False
        while True:
            last = self.bits_now
            if not (yield from self._step()): break
            steps.append(self.bits_now - before)
            if self.patience is not None:
                # deficit against the gain of the last step
                gain = last - self.bits_now
                deficit = self.bits_now - before
                if deficit > self.patience * max(self.best_gain, 0) * 1:
                    gave_up = True
                    break
        after = self.bits_now
        better = after < before
        if self.log is not None:
            self.log(dict(kind=kind, width=width, n=len(drop), better=better, gain=before - after, deficit=dropped - before, steps=steps, gave_up=gave_up, acc=self.tally.accepted - acc0, cpu=time.process_time() - t0))
        if better:
            yield from self._mark()
        else:
            yield from self._go_back()
