"""How values are written as items: by what they are worth, never by which of their equals came first.

1, 1.0 and True are equal in Python, so whoever keeps them in a set keeps the first and forgets the others; labels would
depend on the order of the rows. Here every value becomes a text, a whole number or a fraction before anything is
compared: numbers by value (1.0 is 1), booleans and dates by their text.
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
    """The rows with every item a text, an int or a float; equal items are written alike, and all can be written.

    Raises:
        DataError: Something in a transaction is no item; the message names the transaction.
    """
    kinds = set(map(type, chain.from_iterable(rows)))
    if kinds <= {str, int, float} and not any(map(is_missing, distinct := set(chain.from_iterable(rows)))):
        plain = {item: _plain(0, item) for item in distinct}  # here equals are written alike: once for all will do
        rows = rows if float not in kinds else [list(map(plain.__getitem__, row)) for row in rows]
    else:
        rows = [[_plain(number, item) for item in row] for number, row in enumerate(rows, 1)]
    bad = {item for item in set(chain.from_iterable(rows)) if unwritable(item)}
    if bad:
        number, item = next((n, item) for n, row in enumerate(rows, 1) for item in row if item in bad)
        msg = f"transaction {number} holds {unwritable(item)}; use other texts or numbers as items"
        raise DataError(msg)
    return rows


def _plain(number: int, item: Any) -> str | float:
    if is_missing(item):
        msg = f"transaction {number} holds a missing value (None, NaN or NaT); leave it out of the transaction"
        raise DataError(msg)
    if isinstance(item, (str, bool, np.bool_, *_DATES)):
        return str(item)
    if isinstance(item, (int, float, np.integer, np.floating)):
        return plain_number(item)
    msg = (
        f"transaction {number} holds a value of type {type(item).__name__}, which is no item; "
        "items are texts, numbers, booleans and dates"
    )
    raise DataError(msg)


def plain_number(number: Any) -> float:
    """A number as Python's own, whole ones as int: whatever is equal is then written alike."""
    if isinstance(number, (int, np.integer)):
        return int(number)
    value = float(number)
    return int(value) if value.is_integer() else value


def is_missing(item: Any) -> bool:
    """None, NaN, NaT, and pandas' own missing values, which are known by name so that pandas need not be here."""
    if isinstance(item, (float, np.floating)):
        return bool(np.isnan(item))
    if isinstance(item, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(item))
    return item is None or type(item).__name__ in {"NAType", "NaTType"}


def unwritable(item: Hashable) -> str | None:
    """What is wrong with an item that cannot be written down, or None."""
    try:
        str(item).encode()
    except UnicodeEncodeError:
        return f"the text {item!a:.60}, which has half a character (a lone surrogate) and is no UTF-8"
    except ValueError:  # Python refuses to write integers of many thousand digits
        return "a number with thousands of digits"
    return None


def _says_nothing(kind: Any) -> bool:
    """Whether the text of a value is its address in memory, which is another one tomorrow."""
    return kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__


def value_text(value: Any) -> str:
    """What is written for the value of a table cell, which may be of many types but must be a single value.

    Raises:
        ValueError: It cannot be written; the message says why.
    """
    if isinstance(value, _COLLECTIONS) or _says_nothing(type(value)):
        msg = f"a {type(value).__name__}, which is no single value"
        raise ValueError(msg)
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    plain = plain_number(value) if number else value
    if (wrong := unwritable(plain)) is not None:
        raise ValueError(wrong)
    return str(plain)
