"""Convert values to item labels, independently of the order of rows.

1, 1.0 and True are equal in Python, so a set would keep the first and drop the others, and labels would depend on the
order of the rows. Therefore every value becomes a str, an int or a float before any comparison: numbers by value (1.0
becomes 1), booleans and dates as strings.
"""

from __future__ import annotations

import datetime as dt
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from fedslim.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Hashable

_DATES = (dt.date, dt.time, dt.timedelta, np.datetime64, np.timedelta64)
_COLLECTIONS = (bytes, bytearray, tuple, list, set, frozenset, dict)


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
    msg = (
        f"transaction {number} contains a value of type {type(item).__name__}; "
        "items must be strings, numbers, booleans or dates"
    )
    raise DataError(msg)


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


def _has_no_text(kind: Any) -> bool:
    """Return whether a type has only the default string, which contains a memory address."""
    return kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__


def value_text(value: Any) -> str:
    """Return the string for the value of a table cell; a ValueError says why it has none."""
    if isinstance(value, _COLLECTIONS) or _has_no_text(type(value)):
        raise ValueError(f"a {type(value).__name__}, which is not a single value")
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    plain = plain_number(value) if number else value
    if (wrong := unwritable(plain)) is not None:
        raise ValueError(wrong)
    return str(plain)
