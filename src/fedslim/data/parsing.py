"""Numbers and dates in the texts of tables, and the labels of values, which do not depend on the order of rows.

1, 1.0 and True are equal in Python, so a set would keep the first only. Therefore every value becomes a str, an int or
a float before any comparison: numbers by value (1.0 becomes 1), booleans and dates as strings.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Hashable, Iterable
from decimal import Decimal
from itertools import chain
from typing import Any

import numpy as np

from fedslim.errors import DataError, ParameterError

NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
LIMIT = re.compile(r"([<>≤≥])\s*(.+)")  # a value beyond the limits of a device, such as <0.5
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+", re.ASCII)
_DATE = re.compile(r"(\d{4}-\d\d-\d\d|\d{4}/\d\d?/\d\d?|\d\d?\.\d\d?\.\d{4})(?!\d)", re.ASCII)
_FORMATS = ("%Y-%m-%d", "%d.%m.%Y", "%Y/%m/%d")

_DATES = (dt.date, dt.time, dt.timedelta, np.datetime64, np.timedelta64)
_COLLECTIONS = (bytes, bytearray, tuple, list, set, frozenset, dict)


def parse_number(text: str, mark: str = ".", factor: float = 1.0) -> float | None:
    """Return the number that a text means, times a factor, or None; `<0.5` means the number just below 0.5."""
    if mark == "." and factor == 1 and NUMBER.fullmatch(text):
        return float(text) + 0.0  # -0.0 becomes 0.0
    towards = 0.0
    if limit := LIMIT.fullmatch(text):
        towards, text = {"<": -math.inf, ">": math.inf}.get(limit[1], 0.0), limit[2]
    if mark == ",":
        text = text.translate({ord(","): ".", ord("."): "!"})
    if text.lstrip("+-").casefold() in {"inf", "infinity"} and len(text.lstrip("+-")) + 1 >= len(text):
        value = float(text)
    elif not NUMBER.fullmatch(text):
        return None
    else:
        value = float(text) if factor == 1 else float(Decimal(text) * Decimal(repr(factor)))
    return (math.nextafter(value, towards) if towards else value) + 0.0


def check_whole(what: str, value: Any, low: int, high: int | None = None) -> int:
    """Return a whole number as an int, after checking its bounds."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):
        bounds = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise ParameterError(f"{what} is {value!r}; give a whole number {bounds}")
    return int(value)


def decimal_mark(texts: Iterable[str]) -> str | None:
    """Return the decimal mark with which all texts are numbers; None if a comma may separate thousands."""
    texts = list(texts)
    marked = [text for text in texts if "," in text]
    if not marked or not all(parse_number(text, ",") is not None for text in texts):
        return "."
    return None if all(map(_THOUSANDS.fullmatch, marked)) else ","


def is_code(text: str) -> bool:
    """Return whether digits are a code rather than a number, because they start with a zero: 0123."""
    return text[:1] == "0" and text[1:2].isdigit()


def parse_date(text: str, form: str | None = None) -> dt.date | None:
    """Return the day of a date, as `form` or one of the usual formats says; a time after it is ignored."""
    if form is None:
        match = _DATE.match(text)
        if match is None:
            return None
        text = match[1]
    for each in _FORMATS if form is None else (form,):
        try:
            return dt.datetime.strptime(text, each).date()  # noqa: DTZ007  # a day has no time zone
        except ValueError:
            continue
    return None


# -- labels -----------------------------------------------------------------------------------------------------------


def plain_rows(rows: list[list[Hashable]]) -> list[list[Any]]:
    """Convert every item to a str, an int or a float; equal items get equal labels."""
    kinds = set(map(type, chain.from_iterable(rows)))
    if kinds <= {str, int, float} and not any(map(is_missing, distinct := set(chain.from_iterable(rows)))):
        plain = {item: _plain(0, item) for item in distinct}  # these types need only one conversion per value
        rows = rows if float not in kinds else [list(map(plain.__getitem__, row)) for row in rows]
    else:
        rows = [[_plain(number, item) for item in row] for number, row in enumerate(rows, 1)]
    bad = {item for item in set(chain.from_iterable(rows)) if unwritable(item)}
    if bad:
        number, item = next((n, item) for n, row in enumerate(rows, 1) for item in row if item in bad)
        raise DataError(f"transaction {number} contains {unwritable(item)}; use other strings or numbers as items")
    return rows


def _plain(number: int, item: Any) -> str | float:
    if is_missing(item):
        raise DataError(f"transaction {number} contains a missing value (None, NaN or NaT); remove it")
    if isinstance(item, (str, bool, np.bool_, *_DATES)):
        return str(item)
    if isinstance(item, (int, float, np.integer, np.floating)):
        return plain_number(item)
    raise DataError(
        f"transaction {number} contains a value of type {type(item).__name__}; "
        "items must be strings, numbers, booleans or dates"
    )


def plain_number(number: Any) -> float:
    """Return a Python int if the number is whole, else a float, so that equal numbers get equal labels."""
    if isinstance(number, (int, np.integer)):
        return int(number)
    value = float(number)
    return int(value) if value.is_integer() else value


def is_missing(item: Any) -> bool:
    """Return whether `item` is None, NaN, NaT or pandas' NA, recognised by name to avoid importing pandas."""
    if isinstance(item, (float, np.floating)):
        return bool(np.isnan(item))
    if isinstance(item, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(item))
    return item is None or type(item).__name__ in {"NAType", "NaTType"}


def unwritable(item: Hashable) -> str | None:
    """Return why an item cannot be written as UTF-8, or None if it can."""
    try:
        str(item).encode()
    except UnicodeEncodeError:
        return f"the string {item!a:.60}, which has a lone surrogate and cannot be encoded as UTF-8"
    except ValueError:  # Python does not convert integers of many thousand digits to strings
        return "a number with thousands of digits"
    return None


def text_of(name: str, value: Any, where: str = "") -> str:
    """Return the string of a cell's value; raise `DataError` if it is not a single value."""
    kind: Any = type(value)
    address = kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__  # its text would be one of memory
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    plain = plain_number(value) if number else value
    if isinstance(value, _COLLECTIONS) or address:
        wrong: str | None = f"a {kind.__name__}, which is not a single value"
    else:
        wrong = unwritable(plain)
    if wrong is None:
        return str(plain)
    raise DataError(
        f"column {name!r} has {wrong}{where}; convert it to text or numbers, split it into columns, "
        "or give a table of (transaction, item) rows"
    )
