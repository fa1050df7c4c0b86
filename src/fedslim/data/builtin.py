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
from typing import TYPE_CHECKING, Literal

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

HOSPITALS = (
    Hospital("Northgate", 910, (0.10, 0.20, 0.30, 0.25, 0.15)),
    Hospital("Riverside", 860, (0.12, 0.24, 0.30, 0.22, 0.12)),
    Hospital("Harbour", 780, (0.08, 0.22, 0.34, 0.24, 0.12)),
    Hospital("Hillcrest", 740, (0.06, 0.14, 0.26, 0.30, 0.24)),
    Hospital("Lakeside", 830, (0.18, 0.22, 0.28, 0.20, 0.12)),
    Hospital("Old Town", 880, (0.10, 0.18, 0.28, 0.26, 0.18)),
)

PLANTED = (
    Syndrome("influenza", "common", ("fever", "cough", "muscle ache", "influenza", "oseltamivir"), 0.09),
    Syndrome(
        "pneumonia",
        "common",
        ("fever", "cough", "raised CRP", "infiltrate on X-ray", "pneumonia", "amoxicillin"),
        0.06,
        "elderly",
    ),
    Syndrome(
        "type 2 diabetes",
        "common",
        ("high blood sugar", "high HbA1c", "obesity", "type 2 diabetes", "metformin"),
        0.09,
        "older adult",
    ),
    Syndrome(
        "heart failure",
        "common",
        ("shortness of breath", "leg swelling", "raised BNP", "heart failure", "furosemide"),
        0.06,
        "elderly",
    ),
    Syndrome(
        "COPD", "common", ("shortness of breath", "wheeze", "low oxygen", "COPD", "salbutamol"), 0.06, "older adult"
    ),
    Syndrome(
        "coronary disease", "common", ("chest pain", "coronary disease", "aspirin", "simvastatin"), 0.06, "elderly"
    ),
    Syndrome("urinary infection", "common", ("painful urination", "urinary infection", "nitrofurantoin"), 0.07),
    Syndrome(
        "gastroenteritis",
        "common",
        ("nausea", "vomiting", "diarrhoea", "gastroenteritis", "rehydration"),
        0.07,
        "child",
    ),
    Syndrome(
        "migraine",
        "common",
        ("headache", "nausea", "light sensitivity", "migraine", "sumatriptan"),
        0.05,
        "young adult",
    ),
    Syndrome(
        "Lyme disease",
        "local",
        ("tick bite", "spreading rash", "joint pain", "Lyme disease", "doxycycline"),
        0.05,
        hospital="Northgate",
    ),
    Syndrome(
        "lead poisoning",
        "local",
        ("abdominal pain", "high blood lead", "lead poisoning", "chelation"),
        0.05,
        hospital="Harbour",
    ),
    Syndrome(
        "legionellosis",
        "local",
        ("fever", "confusion", "low sodium", "legionellosis", "azithromycin"),
        0.04,
        "older adult",
        "Old Town",
    ),
    Syndrome(
        "kidney injury by three drugs",
        "thin",
        ("dizziness", "high creatinine", "ibuprofen", "enalapril", "hydrochlorothiazide"),
    ),
    Syndrome("serotonin syndrome", "thin", ("tremor", "sweating", "agitation", "tramadol", "citalopram")),
    Syndrome("lack of vitamin B12", "thin", ("tingling feet", "tiredness", "anaemia", "omeprazole", "gliclazide")),
)
"""The syndromes planted in `encounters`. Every encounter also has an age group and a sex, which no syndrome has."""

_THIN_CASES = (4, 5)
"""Minimum and maximum number of cases of a thin syndrome at one member."""

# Background rate of each item, apart from syndromes. Items of thin syndromes are deliberately common.
_ORDINARY = 0.08
_BACKGROUND = {
    "symptoms": {
        "fever": 0.04,
        "cough": 0.05,
        "shortness of breath": 0.03,
        "wheeze": 0.01,
        "chest pain": 0.03,
        "abdominal pain": 0.05,
        "nausea": 0.03,
        "vomiting": 0.02,
        "diarrhoea": 0.02,
        "painful urination": 0.01,
        "headache": 0.05,
        "light sensitivity": 0.005,
        "muscle ache": 0.03,
        "joint pain": 0.04,
        "leg swelling": 0.02,
        "tick bite": 0.004,
        "spreading rash": 0.005,
        "confusion": 0.01,
        "dizziness": _ORDINARY,
        "tremor": _ORDINARY,
        "sweating": _ORDINARY,
        "agitation": _ORDINARY,
        "tingling feet": _ORDINARY,
        "tiredness": _ORDINARY,
    },
    "findings": {
        "raised CRP": 0.04,
        "infiltrate on X-ray": 0.005,
        "high blood sugar": 0.03,
        "high HbA1c": 0.02,
        "obesity": 0.06,
        "raised BNP": 0.01,
        "low oxygen": 0.02,
        "low sodium": 0.01,
        "high blood lead": 0.002,
        "high blood pressure": 0.10,
        "high creatinine": _ORDINARY,
        "anaemia": _ORDINARY,
    },
    "diagnoses": {
        "influenza": 0.002,
        "pneumonia": 0.002,
        "type 2 diabetes": 0.02,
        "heart failure": 0.005,
        "COPD": 0.005,
        "coronary disease": 0.01,
        "urinary infection": 0.005,
        "gastroenteritis": 0.005,
        "migraine": 0.01,
        "Lyme disease": 0.001,
        "lead poisoning": 0.001,
        "legionellosis": 0.001,
    },
    "medications": {
        "paracetamol": 0.12,
        "oseltamivir": 0.002,
        "amoxicillin": 0.03,
        "metformin": 0.02,
        "furosemide": 0.02,
        "salbutamol": 0.02,
        "aspirin": 0.05,
        "simvastatin": 0.05,
        "nitrofurantoin": 0.003,
        "rehydration": 0.005,
        "sumatriptan": 0.002,
        "doxycycline": 0.01,
        "chelation": 0.001,
        "azithromycin": 0.01,
        "ibuprofen": _ORDINARY,
        "enalapril": _ORDINARY,
        "hydrochlorothiazide": _ORDINARY,
        "tramadol": _ORDINARY,
        "citalopram": _ORDINARY,
        "omeprazole": _ORDINARY,
        "gliclazide": _ORDINARY,
    },
}

_VOCABULARY = (*AGES, *SEXES, *(label for group in _BACKGROUND.values() for label in group))
_INDEX = {label: item for item, label in enumerate(_VOCABULARY)}
_RATES = np.array(
    [0.0] * (len(AGES) + len(SEXES)) + [rate for group in _BACKGROUND.values() for rate in group.values()]
)

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
        msg = f"there is no built-in data set {name!r}{did_you_mean(name, list(BUILTIN_NAMES))}"
        raise DataError(msg)
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
