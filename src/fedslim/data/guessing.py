"""Guess what the columns of a table are: identifiers, dates, codes, numbers. Guesses are told, and can be overruled."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedslim.data.columns import MISSING, Column
from fedslim.data.parsing import LIMIT, decimal_mark, is_code, parse_date, parse_number

Kind = Literal["categorical", "numeric", "boolean", "year", "month", "ignore"]

MANY = 20  # so many values, all different, look like an identifier
MAX_MONTHS = 24  # dates over more months than this become years
_ID = re.compile(r"(.*[\W_])?(id|uuid|guid|key|nr|no|number)|.*[a-z](ID|Id)", re.ASCII)
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
    values, rows = column.values, int(np.count_nonzero(column.codes != MISSING))
    named = _ID.fullmatch(column.name) is not None
    if isinstance(values, np.ndarray):
        if named and values.dtype.kind in "iu" and len(values) == rows >= MANY:
            return _IDENTIFIER
        few: Kind = "boolean" if values.dtype == bool else "categorical"
        return _numeric(set(map(float, values.tolist()))) if len(values) > bins else Guess(few)
    texts = set(values)
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


# -- long tables -----------------------------------------------------------------------------------------------------


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TRANSACTIONS = _words(
    "transaction trans tid id order basket cart invoice receipt ticket bill sale purchase session visit encounter "
    "admission hadm stay case patient subject person customer user household"
)
ITEMS = _words(
    "item product article sku stock code icd atc diagnosis drug medication medicine symptom finding procedure tag "
    "activity event term word token gene ingredient service"
)
ATTRIBUTES = _words("attribute variable feature property field parameter characteristic measure test analyte question")
VALUES = _words("value result answer response reading level")
"""The names of the columns of a long table, in the singular, without an ending such as `_id`."""

_ENDINGS = {"id", "no", "nr", "number", "key", "code", "name", "label"}
_REPEATED = 10
PAIR, _TRIPLE = 2, 3


def long_by_name(names: Sequence[str]) -> tuple[int, ...] | None:
    """Return the positions of the columns of transactions, of items or attributes and of values, if names tell.

    `InvoiceNo, product_id` gives (0, 1), `value, test, visit` (2, 1, 0), and `sex, age` None.
    """
    words = [_word(name) for name in names]
    kinds = {PAIR: (TRANSACTIONS, ITEMS), _TRIPLE: (TRANSACTIONS, ITEMS | ATTRIBUTES, VALUES)}.get(len(names), ())
    found = [[place for place, word in enumerate(words) if word in kind] for kind in kinds]
    return tuple(places[0] for places in found) if found and all(len(places) == 1 for places in found) else None


def _word(name: str) -> str:
    parts = [part for part in re.split(r"[\W_]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).casefold()) if part]
    while len(parts) > 1 and parts[-1] in _ENDINGS:
        parts.pop()
    word = "".join(parts)
    return word if word in TRANSACTIONS | ITEMS | ATTRIBUTES | VALUES else word.removesuffix("s")


def guess_long(columns: Sequence[Column]) -> tuple[int, ...] | None:
    """Return the positions of the columns of a long table, if the names of columns and the rows say that it is one."""
    # At most one row in ten may have the same transaction and item as another, as rows of a table of categories do.
    found = long_by_name([column.name for column in columns])
    if found is None or bool(np.any(columns[found[0]].codes == MISSING)) or not len(columns[found[1]].values):
        return None
    rows, transactions, pairs = _pairs(columns[found[0]], columns[found[1]])
    return found if transactions < rows and _REPEATED * (rows - pairs) <= rows else None


def looks_long(columns: Sequence[Column]) -> tuple[str, str] | None:
    """Return the columns of transactions and items, if a table of two or three columns may have a pair in each row."""
    if not PAIR <= len(columns) <= _TRIPLE or not columns[1].is_text:
        return None
    rows, transactions, pairs = _pairs(columns[0], columns[1])
    repeated = max(transactions, len(np.unique(columns[1].codes))) < rows
    return (columns[0].name, columns[1].name) if repeated and pairs == rows >= MANY else None


def _pairs(transaction: Column, item: Column) -> tuple[int, int, int]:
    """Return the number of rows, of different transactions, and of different pairs."""
    codes = transaction.codes.astype(np.int64)
    pairs = np.unique(codes * (len(item.values) + 1) + item.codes + 1)
    return len(codes), len(np.unique(codes)), len(pairs)
