"""Read the values of one column as its rule in the schema says."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedslim.data import columns
from fedslim.data.columns import FLAG_TEXTS, MISSING, MISSING_TEXTS, Column, in_order
from fedslim.data.discretise import number_label
from fedslim.data.guessing import MANY, missing_code
from fedslim.data.parsing import LIMIT, decimal_mark, parse_date, parse_number
from fedslim.schema.rules import ColumnRule

OTHER = "other"
FLAGS = FLAG_TEXTS | dict.fromkeys(("yes", "y", "t"), True) | dict.fromkeys(("no", "n", "f"), False)
_USUAL = frozenset(text.casefold() for text in MISSING_TEXTS)
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SHOWN = 3
_FACTORS = (10, 100, 1000, 1e6)


@dataclass(slots=True)
class ColumnValues:
    """The values of a column: for each row the index of its label or number, or `MISSING`; and what looks wrong."""

    codes: NDArray[np.int32]
    labels: list[str] = field(default_factory=list)
    numbers: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    notes: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def of(self, meant: Sequence[Any], order: Callable[[set[Any]], list[Any]] = sorted) -> list[Any]:
        """Replace the code of each value by that of what it means, None for missing; return the meanings in order."""
        distinct = order({each for each in meant if each is not None})
        place = {each: code for code, each in enumerate(distinct)}
        self.codes = np.array([*(place.get(each, MISSING) for each in meant), MISSING], np.int32)[self.codes]
        return distinct


def read_column(column: Column, rule: ColumnRule, missing: Sequence[str], unit: str | None = None) -> ColumnValues:
    """Read a column by its rule; `missing` are spellings of a missing value in all columns, `unit` that of the site."""
    reading = ColumnValues(column.codes)
    gone = _USUAL | {text.strip().casefold() for text in (*missing, *rule.missing)}
    texts = map(text_of_value, column.values)
    known = [None if text.casefold() in gone else text for text in texts]
    _READERS[rule.kind](reading, known, rule, unit)
    return reading


def text_of_value(value: Any) -> str:
    """Return how a distinct value of a column is read."""
    return unicodedata.normalize("NFC", columns.text_of_value(value))


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(f"{text!r:.40}" for text in texts[:_SHOWN]) + (", …" if len(texts) > _SHOWN else "")


def _refuse(reading: ColumnValues, wrong: Sequence[str], what: str, remedy: str) -> None:
    if wrong:
        verb, each = ("is", "it") if len(wrong) == 1 else ("are", "them")
        reading.errors.append(f"{_listed(wrong)} {verb} {what}; {remedy.replace('{}', each)}")


def _categories(reading: ColumnValues, known: Sequence[str | None], rule: ColumnRule, _unit: str | None) -> None:
    fold: Callable[[str], str] = str.casefold if rule.fold_case else str
    names = {fold(name): name for name in (*rule.categories, *(rule.synonyms or ()))}
    names |= {fold(text): name for name, texts in (rule.synonyms or {}).items() for text in texts}
    new = sorted({text for text in known if text is not None and fold(text) not in names}) if rule.categories else []
    if rule.unknown == "error":
        _refuse(
            reading, new, "not among the categories of the schema", "add {} to categories, to synonyms or to missing"
        )
    elif new:
        reading.notes.append(f"{len(new)} unknown categories become {OTHER!r}")
    if rule.synonyms and not rule.categories:
        own = sorted({text for text in known if text is not None and fold(text) not in names})
        if own:
            reading.notes.append(f"the synonyms do not name {_listed(own)}; if it is another spelling, add it to them")
    other = dict.fromkeys(new, OTHER)
    meant = [None if text is None else other.get(text) or names.get(fold(text), fold(text)) for text in known]
    reading.labels = reading.of(meant, in_order)
    _suspect_category(reading, [text for text in known if text is not None])


def _suspect_category(reading: ColumnValues, texts: Sequence[str]) -> None:
    rows = int(np.count_nonzero(reading.codes != MISSING))
    if rows >= MANY and len(texts) == rows:
        reading.notes.append('every value is different, as in an identifier; consider kind = "ignore"')
    elif texts and all(map(parse_date, texts)):
        reading.notes.append('the values are dates; consider kind = "date"')


def _flags(reading: ColumnValues, known: Sequence[str | None], rule: ColumnRule, _unit: str | None) -> None:
    names = dict(FLAGS)
    for name, texts in (rule.synonyms or {}).items():
        names |= {text.casefold(): name == "true" for text in texts}
    wrong = sorted({text for text in known if text is not None and text.casefold() not in names})
    _refuse(reading, wrong, "neither true nor false", "add {} to synonyms or to missing, or choose another kind")
    reading.labels = reading.of(["true" if text is not None and names.get(text.casefold()) else None for text in known])


def _dates(reading: ColumnValues, known: Sequence[str | None], rule: ColumnRule, _unit: str | None) -> None:
    days = [None if text is None else parse_date(text, rule.date_format) for text in known]
    wrong = sorted({text for text, day in zip(known, days, strict=True) if text is not None and day is None})
    _refuse(reading, wrong, "not readable as a date", "set date_format, or add {} to missing")
    if rule.part == "weekday":
        numbers = reading.of([None if day is None else day.weekday() for day in days])
        reading.labels = [_WEEKDAYS[number] for number in numbers]
    else:
        length = len("2026") if rule.part == "year" else len("2026-03")
        reading.labels = reading.of([None if day is None else day.isoformat()[:length] for day in days])


def _numbers(reading: ColumnValues, known: Sequence[str | None], rule: ColumnRule, unit: str | None) -> None:
    texts = [text for text in known if text is not None]
    mark = rule.decimal or decimal_mark(texts)
    factor = 1.0 if unit in {None, rule.unit} else (rule.units or {})[str(unit)]
    values = [None if text is None else parse_number(text, mark or ".", factor) for text in known]
    if mark is None:
        reading.errors.append('1,234 may be a thousand or one; write decimal = "," or write numbers without commas')
    else:
        wrong = sorted({text for text, value in zip(known, values, strict=True) if text is not None and value is None})
        _refuse(reading, wrong, "not readable as a number", "add {} to missing, or choose another kind")
    if mark == ",":
        reading.notes.append("decimal commas")
    if any(map(LIMIT.fullmatch, texts)):
        reading.notes.append("<0.5 is taken as just below 0.5, >9 as just above 9")
    if factor != 1:
        reading.notes.append(f"{unit} × {factor:g} = {rule.unit or 'the unit of the schema'}")
    reading.numbers = np.array(reading.of(values), np.float64)
    if factor == 1 and (code := missing_code(set(reading.numbers.tolist()))) is not None:
        reading.notes.append(f"{code} may mean missing; if so, add it to missing")
    _suspect_unit(reading, rule, unit)


def _suspect_unit(reading: ColumnValues, rule: ColumnRule, unit: str | None) -> None:
    """Compare the median with the plausible range; without one, tell if all values are beyond the fixed cuts."""
    values = np.sort(reading.numbers[reading.codes[reading.codes != MISSING]])
    bounds = rule.range or ((rule.cuts[0], rule.cuts[-1]) if len(rule.cuts) > 1 else None)
    if rule.units and unit is None and bounds is None:
        reading.notes.append("without a range in the schema, a wrong unit would not be noticed")
    if bounds is None or not len(values):
        return
    low, high = bounds
    outside = int(np.count_nonzero((values < low) | (values > high)))
    median = float(values[len(values) // 2])
    if outside and rule.range:
        reading.notes.append(f"{outside:,} of {len(values):,} values are outside the plausible range")
    if low <= median <= high or (rule.range is None and values[0] < high and values[-1] >= low):
        return
    known = {unit: factor for unit, factor in (rule.units or {}).items() if low <= median * factor <= high}
    guess = next((f for size in _FACTORS for f in (1 / size, size) if low <= median * f <= high), None)
    if known:
        unit = next(iter(known))
        hint = f"it looks like {unit}: name the unit in the header, or the column in alias_units"
    elif guess is not None:
        hint = f"the unit looks wrong by a factor of {guess if guess > 1 else 1 / guess:g}: declare it in units"
    else:
        hint = "check the column and its unit"
    place = f"the plausible range {number_label(low)} to {number_label(high)}" if rule.range else "the cuts"
    message = f"the median {number_label(median)} is outside {place}; {hint}"
    if rule.range:
        reading.errors.append(message)
    elif known or guess is not None:
        reading.notes.append(message)


_READERS: Mapping[str, Callable[..., None]] = {
    "categorical": _categories,
    "numeric": _numbers,
    "boolean": _flags,
    "date": _dates,
    "ignore": lambda reading, known, *_: reading.of([None] * len(known)),
}
