"""Built-in example data: synthetic patient encounters of six hospitals, with planted syndromes.

    members = builtin_members("encounters")       # one database per hospital, over one vocabulary
    whole = builtin_database("encounters")        # the same encounters in one place

There are no real patients. Three kinds of syndrome are planted (`PLANTED`): common ones that every hospital sees, local
ones that one hospital sees, and thin ones: drug interactions with a few cases at each hospital. The drugs and symptoms
of a thin syndrome are common everywhere, so the cases of one hospital do not justify a pattern, but all cases together
do.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from fedslim.data.database import TransactionDatabase
from fedslim.data.generators import check_whole
from fedslim.data.registry import did_you_mean
from fedslim.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEFAULT_SEED = 0

_COMPLETE = 0.95
"""Probability that an item of a common or local syndrome is recorded in a case."""


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

_THIN_CASES = (4, 5)
"""Minimum and maximum number of cases of a thin syndrome at one member."""

_BACKGROUND = {label: rate for group in _DATA.background.values() for label, rate in group.items()}
_VOCABULARY = (*AGES, *SEXES, *_BACKGROUND)
_INDEX = {label: item for item, label in enumerate(_VOCABULARY)}
_RATES = np.array([0.0] * (len(AGES) + len(SEXES)) + list(_BACKGROUND.values()))

BUILTIN_NAMES = ("encounters",)
"""The names of the built-in data sets."""


def builtin_members(name: str = "encounters", *, seed: int = DEFAULT_SEED) -> list[tuple[str, TransactionDatabase]]:
    """Return the (name, database) pairs of a built-in data set's members, over one vocabulary.

    Examples:
        >>> from fedslim.data import builtin_members
        >>> [(name, len(database)) for name, database in builtin_members("encounters")][:2]
        [('Northgate', 910), ('Riverside', 860)]
    """
    _check(name, seed)
    return [(hospital.name, _encounters(hospital, seed, number)) for number, hospital in enumerate(HOSPITALS)]


def builtin_database(name: str = "encounters", *, seed: int = DEFAULT_SEED) -> TransactionDatabase:
    """Return a built-in data set as one database, member after member."""
    return TransactionDatabase.joined([database for _, database in builtin_members(name, seed=seed)], name=name)


def _check(name: str, seed: int) -> None:
    if name not in BUILTIN_NAMES:
        raise DataError(f"there is no built-in data set {name!r}{did_you_mean(name, list(BUILTIN_NAMES))}")
    check_whole("seed", seed, 0)


def _encounters(hospital: Hospital, seed: int, number: int) -> TransactionDatabase:
    """Generate one hospital's encounters from its own random stream; the result is the same on every machine."""
    rng = np.random.Generator(np.random.PCG64([seed, number]))
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
