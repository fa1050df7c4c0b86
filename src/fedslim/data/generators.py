"""Generate large benchmark data of a given shape from a seed.

Only `Generator.random` and `Generator.integers` are used: unlike numpy's distributions, these streams stay the same
across releases. Rows are generated in chunks of fixed size, each from its own stream, so a smaller data set is the head
of a larger one, and scaling can be measured on data of one kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedslim.data.database import ItemArray, TransactionDatabase
from fedslim.data.registry import did_you_mean
from fedslim.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

CHUNK = 8192
"""Transactions per chunk. The data of a seed depend on it, so it must not change."""

MAX_TRANSACTIONS = 10**8
MAX_SEED = 2**63 - 1


if TYPE_CHECKING:
    Rows = tuple[NDArray[np.int64], NDArray[np.int32]]  # the length of each transaction, and all items
    Maker = Callable[[np.random.Generator, int], Rows]  # from a stream and the number of the first transaction


@dataclass(frozen=True, slots=True)
class GeneratorKind:
    """A kind of generated data: its shape at full size, and the function that generates chunks."""

    name: str
    title: str
    transactions: int
    items: int
    length: str
    prepare: Callable[[np.random.Generator], Maker]


def generate(kind: str, *, transactions: int | None = None, seed: int = 0) -> TransactionDatabase:
    """Generate benchmark data.

    Args:
        kind: A name in `KINDS`.
        transactions: Number of transactions; defaults to the kind's full size.
        seed: Equal seeds give equal data on every machine.

    Examples:
        >>> from fedslim.data import generate
        >>> len(generate("wide-sparse", transactions=100, seed=1))
        100
    """
    if kind not in KINDS:
        raise ParameterError(f"there is no kind of generated data named {kind!r}{did_you_mean(kind, list(KINDS))}")
    chosen = KINDS[kind]
    wanted = (
        chosen.transactions if transactions is None else check_whole("transactions", transactions, 1, MAX_TRANSACTIONS)
    )
    root = check_whole("seed", seed, 0, MAX_SEED)
    make = chosen.prepare(_stream(root, 0))
    lengths, items = [], []
    for number, start in enumerate(range(0, wanted, CHUNK), 1):
        chunk_lengths, chunk_items = make(_stream(root, number), start)
        kept = chunk_lengths[: wanted - start]
        lengths.append(kept)
        items.append(chunk_items[: int(kept.sum())])
    labels = [str(item) for item in range(1, chosen.items + 1)]
    return TransactionDatabase.from_rows(np.concatenate(lengths), np.concatenate(items), labels, name=kind)


def check_whole(what: str, value: Any, low: int, high: int | None = None) -> int:
    """Return a whole number as an int, after checking its bounds."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):
        bounds = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise ParameterError(f"{what} is {value!r}; give a whole number {bounds}")
    return int(value)


def _stream(seed: int, number: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64([seed, number]))


# -- accidents-like: dense and correlated ------------------------------------------------------------------------------

_DENSE_ITEMS = 468
_SHORTEST, _MAX_LENGTH = 18, 51
_CLASSES = 8
_DENSE_PATTERNS = 600
_PATTERN_RANKS = 260  # patterns use only the more frequent items; the others are noise, as in real data

# Item frequencies by rank, as in the real Accidents: two dozen items are in most transactions, about sixty in more than
# one in seven, and hundreds are rare.
_RANKS = (0, 3, 8, 24, 35, 60, 75, 105, 150, 210, 260, 467)
_FREQUENCIES = (0.999, 0.97, 0.82, 0.47, 0.28, 0.15, 0.08, 0.035, 0.012, 0.003, 0.0015, 0.0002)


def _dense(rng: np.random.Generator) -> Maker:
    """Generate accidents of several classes, with overlapping patterns whose probability depends on the class.

    Patterns use part of each item's frequency and independent noise the rest, so the frequencies match the real data.
    """
    frequency = np.interp(np.arange(_DENSE_ITEMS), _RANKS, _FREQUENCIES)
    members, chance = _dense_patterns(rng, frequency)
    untouched = np.ones((_CLASSES, _DENSE_ITEMS))
    for pattern, items in enumerate(members):
        untouched[:, items] *= 1 - chance[:, pattern, None]
    noise = np.clip(1 - (1 - frequency) / untouched, 0, 1)
    label = np.argsort(rng.random(_DENSE_ITEMS), kind="stable")  # item numbers must not reveal frequencies
    noise[:, label] = noise.copy()
    by_pattern = np.zeros((_DENSE_PATTERNS, _DENSE_ITEMS), bool)
    for pattern, items in enumerate(members):
        by_pattern[pattern, label[items]] = True

    def make(rows: np.random.Generator, _first: int) -> Rows:
        kind = rows.integers(0, _CLASSES, CHUNK)
        present = rows.random((CHUNK, _DENSE_ITEMS)) < noise[kind]
        active = rows.random((CHUNK, _DENSE_PATTERNS)) < chance[kind]
        for pattern in range(_DENSE_PATTERNS):
            present[active[:, pattern]] |= by_pattern[pattern]
        _shorten(present, rows.random(present.shape))
        _lengthen(present, label)
        return present.sum(axis=1), np.nonzero(present)[1].astype(ItemArray)

    return make


def _dense_patterns(
    rng: np.random.Generator, frequency: NDArray[np.float64]
) -> tuple[list[NDArray[np.int64]], NDArray[np.float64]]:
    """Return patterns as arrays of item ranks, and the probability of each in each class.

    Each item's frequency is a budget, and a pattern takes a share of what its rarest item has left. Later patterns find
    less, so a few patterns are common and many are rare.
    """
    members = []
    chance = np.zeros((_CLASSES, _DENSE_PATTERNS))
    budget = 0.9 * frequency
    for pattern in range(_DENSE_PATTERNS):
        size = 3 + int(10 * rng.random() ** 2)
        ranks = np.argsort(rng.random(_PATTERN_RANKS), kind="stable")
        reach = 12 + int((_PATTERN_RANKS - 12) * rng.random())  # a pattern is about as rare as its rarest item
        items = np.sort(ranks[ranks < reach][:size])
        share = (0.1 + 0.4 * rng.random()) * float(budget[items].min())
        budget[items] -= share
        kinds = rng.random(_CLASSES) < 0.4  # noqa: PLR2004  # about three classes of eight
        kinds[int(rng.integers(0, _CLASSES))] = True
        chance[kinds, pattern] = np.minimum(share * _CLASSES / kinds.sum(), 0.9)
        members.append(items)
    return members, chance


def _shorten(present: NDArray[np.bool_], draw: NDArray[np.float64]) -> None:
    """Drop items at random from the few transactions that are too long."""
    rows = np.flatnonzero(present.sum(axis=1) > _MAX_LENGTH)
    order = np.argsort(np.where(present[rows], draw[rows], 2.0), axis=1, kind="stable")
    kept = np.zeros((len(rows), present.shape[1]), bool)
    np.put_along_axis(kept, order[:, :_MAX_LENGTH], values=True, axis=1)
    present[rows] = kept


def _lengthen(present: NDArray[np.bool_], by_frequency: NDArray[np.int64]) -> None:
    """Add the most frequent absent items to the few transactions that are too short."""
    rows = np.flatnonzero(present.sum(axis=1) < _SHORTEST)
    lacking = ~present[rows][:, by_frequency]
    needed = _SHORTEST - present[rows].sum(axis=1)
    row, place = np.nonzero(lacking & (np.cumsum(lacking, axis=1) <= needed[:, None]))
    present[rows[row], by_frequency[place]] = True


# -- wide-sparse: many items, short transactions, power-law supports ---------------------------------------------------

_WIDE_ITEMS = 20_000
_WIDE_PATTERNS = 1_500
_LARGEST_PATTERN = 7
_NOISE = 8  # maximum number of items drawn independently for a transaction


def _sparse(rng: np.random.Generator) -> Maker:
    """Generate transactions from up to three patterns, some items drawn by popularity, and one item in turn.

    Popularity follows a power law of the rank. The item in turn makes every item occur once in 20,000 transactions.
    """
    label = np.argsort(rng.random(_WIDE_ITEMS), kind="stable")
    item_cdf = _power_law(_WIDE_ITEMS, offset=20)
    pattern_cdf = _power_law(_WIDE_PATTERNS, offset=10)
    members = _draw(item_cdf, rng.random((_WIDE_PATTERNS, _LARGEST_PATTERN)))
    uniform = (rng.random(members.shape) * _WIDE_ITEMS).astype(np.int64)
    members = np.where(rng.random(members.shape) < 0.5, members, uniform)  # noqa: PLR2004  # half popular, half any
    sizes = 2 + (rng.random(_WIDE_PATTERNS) * (_LARGEST_PATTERN - 1)).astype(np.int64)
    members[np.arange(_LARGEST_PATTERN) >= sizes[:, None]] = -1

    def make(rows: np.random.Generator, first: int) -> Rows:
        slots = [(first + np.arange(CHUNK)[:, None]) % _WIDE_ITEMS]
        noise = _draw(item_cdf, rows.random((CHUNK, _NOISE)))
        slots.append(np.where(rows.random(noise.shape) < 0.46, noise, -1))  # noqa: PLR2004  # for a mean length of 10
        for chance in (0.8, 0.3, 0.1):
            pattern = _draw(pattern_cdf, rows.random(CHUNK))
            slots.append(np.where(rows.random((CHUNK, 1)) < chance, members[pattern], -1))
        ranks = np.concatenate(slots, axis=1)
        row, slot = np.nonzero(ranks >= 0)
        keys = np.unique(row * _WIDE_ITEMS + label[ranks[row, slot]])
        return np.bincount(keys // _WIDE_ITEMS, minlength=CHUNK), (keys % _WIDE_ITEMS).astype(ItemArray)

    return make


def _power_law(size: int, *, offset: int) -> NDArray[np.float64]:
    """Return cumulative probabilities proportional to 1 / (rank + offset)."""
    weights = 1.0 / (np.arange(size) + offset)
    cumulative = np.cumsum(weights)
    result: NDArray[np.float64] = cumulative / cumulative[-1]
    return result


def _draw(cumulative: NDArray[np.float64], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.searchsorted(cumulative, uniform, side="right")


KINDS = {
    kind.name: kind
    for kind in (
        GeneratorKind(
            "accidents-like", "dense and correlated, shaped like Accidents", 340_183, _DENSE_ITEMS, "18-51", _dense
        ),
        GeneratorKind("wide-sparse", "short transactions over very many items", 100_000, _WIDE_ITEMS, "1-30", _sparse),
    )
}
"""The kinds of generated data, by name."""
