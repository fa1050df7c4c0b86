"""Guess what the columns of a table are: identifiers, dates, codes, numbers. Guesses are told, and can be overruled."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from fedslim.data.columns import MISSING, MISSING_TEXTS, NumberColumn
from fedslim.data.parsing import LIMIT, decimal_mark, is_code, parse_date, parse_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedslim.data.columns import Column

Kind = Literal["categorical", "numeric", "boolean", "year", "month", "ignore"]

MANY = 20
"""So many values, all different, look like an identifier."""

MAX_MONTHS = 24
"""Dates over more months than this become years."""

_ID = re.compile(r"(.*[\W_])?(id|uuid|guid|key|nr|no|number)|.*[a-z](ID|Id)", re.ASCII)
_LONG = 3
_NINES = (-9999.0, -999.0, -99.0, -9.0, 99999.0, 9999.0, 999.0)
_FAR = 5


@dataclass(frozen=True, slots=True)
class Guess:
    """What a column is; `note` says what is unusual about it, and `odd` whether people should know before mining."""

    kind: Kind
    note: str = ""
    odd: bool = False


_IDENTIFIER = Guess("ignore", "an identifier: every value is different", odd=True)


def guess_column(column: Column, bins: int) -> Guess:
    """Guess what a column is."""
    codes, distinct = column.distinct()
    here = np.unique(codes[codes != MISSING]).tolist()
    rows = int(np.count_nonzero(codes != MISSING))
    named = _ID.fullmatch(column.name) is not None
    if isinstance(column, NumberColumn):
        if named and column.values.dtype.kind in "iu" and len(here) == rows >= MANY:
            return _IDENTIFIER
        few: Kind = "boolean" if column.values.dtype == bool else "categorical"
        return _numeric({float(distinct[code]) for code in here}) if len(here) > bins else Guess(few)
    texts = {distinct[code] for code in here} - MISSING_TEXTS
    digits, different = all(map(str.isdigit, texts)), len(texts) == rows >= MANY
    if not texts:
        return Guess("categorical", "empty")
    if (guess := _guess_numbers(texts, bins)) is not None:
        return _IDENTIFIER if named and digits and different else guess
    if (guess := _guess_dates(texts, bins)) is not None:
        return guess
    return _IDENTIFIER if different else Guess("categorical", "codes with leading zeros" if digits else "")


def _guess_dates(texts: set[str], bins: int) -> Guess | None:
    """Return a guess if all texts are dates."""
    months = set()
    for text in texts:
        if (day := parse_date(text)) is None:
            return None
        months.add(day.isoformat()[:7])
    if len(texts) <= bins:
        return Guess("categorical", "dates")
    return Guess("month" if len(months) <= MAX_MONTHS else "year", "dates", odd=True)


def _guess_numbers(texts: set[str], bins: int) -> Guess | None:
    """Return a guess if all texts are numbers."""
    mark = decimal_mark(texts)
    if mark is None:
        return Guess("categorical", "numbers in which a comma may separate thousands", odd=True)
    parsed = {parse_number(text, mark) for text in texts}
    values = {value for value in parsed if value is not None}
    if len(values) < len(parsed) or any(map(is_code, texts)):
        return None
    limits = any(map(LIMIT.fullmatch, texts))
    note = " and ".join(["decimal commas"] * (mark == ",") + ["limits such as <0.5"] * limits)
    return _numeric(values, note) if len(values) > bins else Guess("categorical", note)


def _numeric(values: set[float], note: str = "") -> Guess:
    if (code := missing_code(values)) is None:
        return Guess("numeric", note)
    return Guess("numeric", " and ".join(filter(None, (note, f"{code} that may mean missing"))), odd=True)


def missing_code(values: set[float]) -> str | None:
    """Return the number of nines that may stand for a missing value, because it is far from all others."""
    for code in values.intersection(_NINES):
        rest = values - {code}
        if rest and (min(rest) >= 0 if code < 0 else code > _FAR * max(map(abs, rest))):
            return f"{code:.0f}"
    return None


def looks_long(columns: Sequence[Column]) -> tuple[str, str] | None:
    """Return the columns of transactions and items, if a table of two or three columns may have a pair in each row."""
    if not 1 < len(columns) <= _LONG:
        return None
    codes, items = columns[0].distinct()[0].astype(np.int64), columns[1].distinct()[0]
    rows, pairs = len(codes), len(np.unique(codes * (int(items.max(initial=0)) + 2) + items + 1))
    repeated = max(len(np.unique(codes)), len(np.unique(items))) < rows
    text = not isinstance(columns[1], NumberColumn)
    return (columns[0].name, columns[1].name) if text and repeated and pairs == rows >= MANY else None
