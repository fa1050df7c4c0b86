"""How large the server of X makes the answers that it asks for.

The number of entries of an answer is not known in advance, so the server guesses it from earlier answers. If a sketch
was too small, the server asks again for a larger one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from fedslim.errors import ProtocolError
from fedslim.mdl.kernels.bounds import PURE
from fedslim.protocol import messages as m
from fedslim.protocol.sums import SUMS_CONTRADICT
from fedslim.protocol.x_queries import Shape, bits_for, sketch_of
from fedslim.secagg.ring import Sketch, words_of_rows

if TYPE_CHECKING:
    from fedslim.mdl import questions as q

SPREADS = 2.25
"""How many standard deviations a sketch has room for."""

MEMORY = 64
"""How many trials are remembered, about."""

MORE = 3
"""The factor by which a sketch grows when it was too small."""


class Asked(NamedTuple):
    """A want, and what only the server knows about it."""

    want: m.Want
    bounds: Sequence[int] = ()  # a proven bound of the sums in each packed vector
    entries: int = 0  # the number of entries that a sketch was made for
    expected: Sequence[q.Change] = ()  # what each trial most likely finds
    guesses: Sequence[Guess] = ()  # of the entries of each trial
    slots: int | None = None  # how many slots the table has had when it is answered, if not as many as now


def ask_rows(slots: list[int], usages: Sequence[int]) -> Asked:
    """Ask for packed rows of the pair matrix: no co-usage is above the usage of the row's element."""
    return Asked(m.WantRows(slots, bytes(map(bits_for, usages))), usages)


def enlarge(asked: Asked, shape: Shape, seed: int) -> Asked:
    """Ask again with more room; a sketch with room for more entries than places fails only if a member lies."""
    match asked.want:
        case m.WantSparseRow(slot):
            return ask_rows([slot], asked.bounds)
        case m.WantInsertions() | m.WantRemovals() as want:
            if asked.entries > MORE * sketch_of(want, shape).universe:
                raise ProtocolError(SUMS_CONTRADICT)
            entries = MORE * asked.entries
            return asked._replace(want=replace(want, cells=_cells_for(entries), seed=seed), entries=entries)
    raise AssertionError(asked)


def _cells_for(entries: int) -> int:
    return Sketch.for_entries(entries, universe=1).per_table


class Guess:
    """Guesses how many entries the next trials have from the last ones: too low costs a round, too high costs bytes."""

    def __init__(self, first: float) -> None:
        self._mean, self._variance = first, first * first / 4

    def guess(self) -> tuple[float, float]:
        """Return the mean and the variance of the number of entries of a trial."""
        return self._mean, self._variance

    def learn(self, entries: int) -> None:
        """Learn how many entries a trial had."""
        off = entries - self._mean
        self._mean += off / MEMORY
        self._variance += (off * off - self._variance) / MEMORY


class Sizes:
    """What is known about the number of entries of answers: it affects only their size, never the counts."""

    def __init__(self) -> None:
        # Itemsets that were rejected before change much more than others; nothing is expected of a first trial removal.
        # What was tried before in the same step is expected to change more than its parents, and mostly does.
        self._insertion = {
            (keep, pure): Guess(2.0 if keep else 20.0) for keep in (True, False) for pure in (True, False)
        }
        self._again = Guess(20.0)  # nothing is expected of itemsets that enter again
        # By the bits of the number of slots that are expected to change, and whether that is from the same step.
        self._removal: dict[tuple[int, bool], Guess] = {}
        self.wide = False  # whether counts may be too large for cells of one word
        self._rows: dict[int, Guess] = {}  # entries of rows that are not known before, by the bits of their usage

    def ask_insertions(
        self, question: q.TryInsertions, parents: Sequence[tuple[int, int]], expected: Sequence[q.Change], seed: int
    ) -> Asked:
        """Ask what itemsets change by entering the table; `parents` is how each of them is named."""
        new = [
            m.NewUnion(move.slot, named, move.entry, keep)
            for move, named, keep in zip(question.moves, parents, question.keep, strict=True)
        ]
        guesses = [
            self._again if move.is_again else self._insertion[keep, len(change.slots) <= PURE]
            for move, keep, change in zip(question.moves, question.keep, expected, strict=True)
        ]
        entries = entries_of(guesses)
        want = m.WantInsertions(new, list(question.gone), _cells_for(entries), seed, self.wide)
        return Asked(want, entries=entries, expected=expected, guesses=guesses)

    def ask_removals(
        self,
        slots: tuple[int, ...],
        expected: Sequence[q.Change],
        seed: int,
        gone: tuple[bool, ...] = (),
        fresh: Collection[int] = (),
    ) -> Asked:
        """Ask what each of several removals would change; what is expected of `fresh` ones is from the same step."""
        lengths = [len(change.slots) for change in expected]
        keys = [(n.bit_length(), slot in fresh) for n, slot in zip(lengths, slots, strict=True)]
        guesses = [self._removal.setdefault(key, Guess(2.0 + n / 2)) for n, key in zip(lengths, keys, strict=True)]
        entries = entries_of(guesses)
        want = m.WantRemovals(list(slots), _cells_for(entries), seed, gone, self.wide)
        return Asked(want, entries=entries, expected=expected, guesses=guesses)

    def ask_rows(self, slots: tuple[int, ...], usages: list[int], length: int, seed: int) -> list[Asked]:
        """Ask for each row in the form with fewer words: packed, or sketched for a few more entries than last time."""
        packed: list[tuple[int, int]] = []
        sparse: list[Asked] = []
        for slot, usage in zip(slots, usages, strict=True):
            words = words_of_rows((bits_for(usage),), length)
            entries = entries_of([self._rows.setdefault(usage.bit_length(), Guess(4.0 * usage))])
            sketch = Sketch.for_entries(min(entries + entries // 8 + 4, words), length, wide=self.wide)
            if sketch.words < words:
                sparse.append(Asked(m.WantSparseRow(slot, sketch.per_table, seed, self.wide), (usage,)))
            else:
                packed.append((slot, usage))
        return [*sparse, ask_rows(*map(list, zip(*packed, strict=True)))] if packed else sparse

    def learn_changes(self, asked: Asked, entries: list[int]) -> None:
        """Learn how many entries of each trial were not as expected; none if they could not be read."""
        for guess, found in zip(asked.guesses, entries, strict=False):
            guess.learn(found)

    def learn_row(self, usage: int, entries: int) -> None:
        """Learn how many entries the row of an element had that were not known."""
        if usage.bit_length() in self._rows:
            self._rows[usage.bit_length()].learn(entries)


def entries_of(guesses: Sequence[Guess]) -> int:
    """Return for how many entries there should be room."""
    means, variances = zip(*[guess.guess() for guess in guesses], strict=True)
    return int(sum(means) + SPREADS * sum(variances) ** 0.5) + 1
