"""Data made from a seed: large benchmark data of a given shape, and the built-in encounters of six hospitals.

Only `Generator.random` and `Generator.integers` are used: unlike numpy's distributions, these streams stay the same
across releases. Rows are generated in chunks of fixed size, each from its own stream, so a smaller data set is the head
of a larger one, and scaling can be measured on data of one kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedslim.data.database import ItemArray, TransactionDatabase
from fedslim.data.parsing import check_whole
from fedslim.data.store import did_you_mean
from fedslim.errors import DataError, ParameterError

Rows = tuple[NDArray[np.int64], NDArray[np.int32]]  # the length of each transaction, and all items
Maker = Callable[[np.random.Generator, int], Rows]  # from a stream and the number of the first transaction

CHUNK = 8192  # transactions per chunk. The data of a seed depend on it, so it must not change.
MAX_TRANSACTIONS = 10**8
MAX_SEED = 2**63 - 1


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
    size = chosen.transactions if transactions is None else transactions
    wanted = check_whole("transactions", size, 1, MAX_TRANSACTIONS)
    root = check_whole("seed", seed, 0, MAX_SEED)
    make = chosen.prepare(stream_of(root, 0))
    lengths, items = [], []
    for number, start in enumerate(range(0, wanted, CHUNK), 1):
        chunk_lengths, chunk_items = make(stream_of(root, number), start)
        kept = chunk_lengths[: wanted - start]
        lengths.append(kept)
        items.append(chunk_items[: int(kept.sum())])
    labels = [str(item) for item in range(1, chosen.items + 1)]
    return TransactionDatabase.from_rows(np.concatenate(lengths), np.concatenate(items), labels, name=kind)


def stream_of(seed: int, number: int) -> np.random.Generator:
    """Return one of the random streams of a seed."""
    return np.random.Generator(np.random.PCG64([seed, number]))


# -- accidents-like: dense and correlated -----------------------------------------------------------------------------

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
    """Generate accidents of several classes, with overlapping patterns whose probability depends on the class."""
    # Patterns use part of each item's frequency and independent noise the rest, so the frequencies match the real data.
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
    """Return patterns as arrays of item ranks, and the probability of each in each class."""
    # Each item's frequency is a budget, and a pattern takes a share of what its rarest item has left.
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


# -- wide-sparse: many items, short transactions, power-law supports --------------------------------------------------

_WIDE_ITEMS = 20_000
_WIDE_PATTERNS = 1_500
_LARGEST_PATTERN = 7
_NOISE = 8  # maximum number of items drawn independently for a transaction


def _sparse(rng: np.random.Generator) -> Maker:
    """Generate transactions from up to three patterns, some items drawn by popularity, and one item in turn."""
    # The item in turn makes every item occur once in 20,000 transactions.
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


# -- encounters: there are no real patients ---------------------------------------------------------------------------

# Three kinds of syndrome are planted: common ones that every hospital sees, local ones that one hospital sees, and thin
# ones: drug interactions with a few cases at each hospital. The drugs and symptoms of a thin syndrome are common
# everywhere, so the cases of one hospital do not justify a pattern, but all cases together do.

_COMPLETE = 0.95  # probability that an item of a common or local syndrome is recorded in a case


@dataclass(frozen=True, slots=True)
class Syndrome:
    """Items planted to occur together."""

    name: str
    kind: Literal["common", "local", "thin"]
    items: tuple[str, ...]
    rate: float = 0.0  # share of encounters at the hospitals that see it
    age: str = "adult"  # the most affected age group
    hospital: str | None = None  # the hospital that sees a local syndrome


@dataclass(frozen=True, slots=True)
class Hospital:
    """A member: its number of encounters and the shares of the age groups."""

    name: str
    encounters: int
    ages: tuple[float, ...]


AGES = ("child", "young adult", "adult", "older adult", "elderly")
SEXES = ("female", "male")


class _Encounters(msgspec.Struct, frozen=True):
    hospitals: tuple[Hospital, ...]
    syndromes: tuple[Syndrome, ...]
    background: dict[str, dict[str, float]]  # the rate of each item apart from syndromes, by groups of items


_DATA = msgspec.toml.decode(Path(__file__).with_name("encounters.toml").read_bytes(), type=_Encounters)
HOSPITALS, PLANTED = _DATA.hospitals, _DATA.syndromes
"""The members and the planted syndromes. Every encounter also has an age group and a sex, which no syndrome has."""

_THIN_CASES = (4, 5)  # minimum and maximum number of cases of a thin syndrome at one member
_BACKGROUND = {label: rate for group in _DATA.background.values() for label, rate in group.items()}
_VOCABULARY = (*AGES, *SEXES, *_BACKGROUND)
_INDEX = {label: item for item, label in enumerate(_VOCABULARY)}
_RATES = np.array([0.0] * (len(AGES) + len(SEXES)) + list(_BACKGROUND.values()))

BUILTIN_NAMES = ("encounters",)  # the names of the built-in data sets


def builtin_members(name: str = "encounters", *, seed: int = 0) -> list[tuple[str, TransactionDatabase]]:
    """Return the (name, database) pairs of a built-in data set's members, over one vocabulary.

    Examples:
        >>> from fedslim.data import builtin_members
        >>> [(name, len(database)) for name, database in builtin_members("encounters")][:2]
        [('Northgate', 910), ('Riverside', 860)]
    """
    if name not in BUILTIN_NAMES:
        raise DataError(f"there is no built-in data set {name!r}{did_you_mean(name, list(BUILTIN_NAMES))}")
    check_whole("seed", seed, 0)
    return [(hospital.name, _encounters(hospital, seed, number)) for number, hospital in enumerate(HOSPITALS)]


def builtin_database(name: str = "encounters", *, seed: int = 0) -> TransactionDatabase:
    """Return a built-in data set as one database, member after member."""
    return TransactionDatabase.joined([database for _, database in builtin_members(name, seed=seed)], name=name)


def _encounters(hospital: Hospital, seed: int, number: int) -> TransactionDatabase:
    """Generate one hospital's encounters from its own random stream; the result is the same on every machine."""
    rng = stream_of(seed, number)
    size = hospital.encounters
    habits = 0.8 + 0.4 * rng.random(len(_RATES))  # hospitals differ in how often they record an item
    present = rng.random((size, len(_RATES))) < _RATES * habits
    age = np.searchsorted(np.cumsum(hospital.ages)[:-1], rng.random(size), side="right")
    _plant_frequent(rng, hospital, present, age)
    _plant_thin(rng, present)
    rows = np.arange(size)
    present[rows, age] = True
    present[rows, len(AGES) + (rng.random(size) < 0.48)] = True  # noqa: PLR2004  # share of men
    return TransactionDatabase.from_rows(
        present.sum(axis=1), np.nonzero(present)[1], _VOCABULARY, name=f"encounters at {hospital.name}"
    )


def _plant_frequent(
    rng: np.random.Generator, hospital: Hospital, present: NDArray[np.bool_], age: NDArray[np.int64]
) -> None:
    for syndrome in PLANTED:
        if syndrome.kind == "thin" or syndrome.hospital not in {None, hospital.name}:
            continue
        share = syndrome.rate * (0.7 + 0.6 * rng.random())  # rates differ between hospitals
        cases = np.flatnonzero(rng.random(len(present)) < share)
        recorded = rng.random((len(cases), len(syndrome.items))) < _COMPLETE
        present[np.ix_(cases, _columns(syndrome))] |= recorded
        typical = cases[rng.random(len(cases)) < 0.5]  # noqa: PLR2004  # half of the cases are in the typical age group
        age[typical] = AGES.index(syndrome.age)


def _plant_thin(rng: np.random.Generator, present: NDArray[np.bool_]) -> None:
    """Plant a few cases of each thin syndrome, at most one in each encounter."""
    fewest, most = _THIN_CASES
    order = np.argsort(rng.random(len(present)), kind="stable")
    first = 0
    for syndrome in PLANTED:
        if syndrome.kind == "thin":
            cases = order[first : first + int(rng.integers(fewest, most + 1))]
            first += len(cases)
            present[np.ix_(cases, _columns(syndrome))] = True


def _columns(syndrome: Syndrome) -> NDArray[np.int64]:
    return np.array([_INDEX[label] for label in syndrome.items], np.int64)
