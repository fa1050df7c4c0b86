"""Which itemsets the local search takes out of the table before it continues: the kinds of ruins, and which to try.

A ruin that takes out much may lead to a much better table, and costs much more. What pays changes during a run and
from data set to data set. So each kind is tried in proportion to what it has gained for its cost.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from fedslim.mdl.itemsets import Itemset

One = TypeVar("One")

MEMORY = 0.95
"""How much of what a kind gained and cost is remembered each time it is tried again."""

LEAST = 0.5
"""Each kind is tried at least this often, compared with the one that pays best."""


class Dice:
    """Random numbers that are the same with every version of Python, as only `random()` of a seeded generator is."""

    def __init__(self, *seed: int) -> None:
        digest = hashlib.sha256("/".join(map(str, seed)).encode()).digest()
        self._random = random.Random(int.from_bytes(digest, "big"))  # noqa: S311  # not for secrets

    def fraction(self) -> float:
        """Return a number from 0 to below 1."""
        return self._random.random()

    def below(self, n: int) -> int:
        """Return a whole number from 0 to n - 1."""
        return int(self._random.random() * n)

    def between(self, least: int, most: int) -> int:
        """Return a whole number from `least` to `most`."""
        return least + self.below(most - least + 1)

    def one_of(self, several: Sequence[One]) -> One:
        """Return one of several."""
        return several[self.below(len(several))]


@dataclass(frozen=True, slots=True)
class Standing:
    """An itemset of the table: its slot, items and usage."""

    slot: int
    items: Itemset
    usage: int


Ruin = Callable[[Sequence[Standing], Dice], list[Standing]]


def few(least: int, most: int, table: Sequence[Standing], dice: Dice) -> list[Standing]:
    """Take out a few itemsets, any."""
    places = {dice.below(len(table)) for _ in range(dice.between(least, most))}
    return [table[k] for k in sorted(places)]


def similar(least: int, most: int, table: Sequence[Standing], dice: Dice) -> list[Standing]:
    """Take out one itemset and those that have most in common with it."""
    n, items = dice.between(least, most), set(dice.one_of(table).items)

    def common(one: Standing) -> float:
        both = len(items.intersection(one.items))
        return both / (len(items) + len(one.items) - both)

    return sorted(table, key=common, reverse=True)[:n]


def related(table: Sequence[Standing], dice: Dice) -> list[Standing]:
    """Take out one itemset, its subsets and its supersets."""
    items = set(dice.one_of(table).items)
    return [one for one in table if items.issuperset(one.items) or items.issubset(one.items)]


def having(share: float, table: Sequence[Standing], dice: Dice) -> list[Standing]:
    """Take out this share of the itemsets with one item."""
    item = dice.one_of(dice.one_of(table).items)
    return [one for one in table if item in one.items and dice.fraction() < share]


def rarest(least: int, most: int, table: Sequence[Standing], dice: Dice) -> list[Standing]:
    """Take out itemsets that are used least, with some chance for others."""
    n = dice.between(least, most)
    luck = {one.slot: one.usage * (0.5 + dice.fraction()) for one in table}
    return sorted(table, key=lambda one: luck[one.slot])[:n]


def scattered(share: float, table: Sequence[Standing], dice: Dice) -> list[Standing]:
    """Take out this share of the table, anywhere."""
    return [one for one in table if dice.fraction() < share]


RUINS: tuple[Ruin, ...] = (
    *[partial(few, *limits) for limits in ((1, 2), (3, 5))],
    *[partial(similar, *limits) for limits in ((2, 5), (6, 15), (16, 60))],
    related,
    *[partial(having, share) for share in (0.3, 0.8)],
    partial(rarest, 2, 20),
    *[partial(scattered, share) for share in (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)],
)


@dataclass(slots=True)
class Experience:
    """What each kind of ruin has gained, in bits, and cost, in itemsets taken out and candidates tried."""

    gained: list[float] = field(default_factory=lambda: [0.0] * len(RUINS))
    cost: list[float] = field(default_factory=lambda: [0.0] * len(RUINS))

    def choose(self, dice: Dice) -> int:
        """Choose a kind, in proportion to what it gains for its cost; one that was not tried yet counts as the best."""
        rates = [g / c if c > 0 else None for g, c in zip(self.gained, self.cost, strict=True)]
        top = max([r for r in rates if r is not None], default=0.0)
        if top == 0.0:
            return dice.below(len(RUINS))
        weights = [top if r is None else max(r, LEAST * top) for r in rates]
        left = dice.fraction() * sum(weights)
        for kind, weight in enumerate(weights):
            left -= weight
            if left < 0:
                return kind
        return len(RUINS) - 1

    def learn(self, kind: int, gained: float, cost: float) -> None:
        """Take in how one ruin went."""
        self.gained[kind] = MEMORY * self.gained[kind] + gained
        self.cost[kind] = MEMORY * self.cost[kind] + cost

    @staticmethod
    def mean(several: Sequence[Experience]) -> Experience:
        """Return the mean of what several chains have learned."""
        gained = zip(*[one.gained for one in several], strict=True)
        cost = zip(*[one.cost for one in several], strict=True)
        return Experience([sum(g) / len(several) for g in gained], [sum(c) / len(several) for c in cost])
