"""Numbers and dates in the texts of tables."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
LIMIT = re.compile(r"([<>≤≥])\s*(.+)")
"""A value beyond the limits of a device, such as <0.5."""

_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+", re.ASCII)
_DATE = re.compile(r"(\d{4}-\d\d-\d\d|\d{4}/\d\d?/\d\d?|\d\d?\.\d\d?\.\d{4})(?!\d)", re.ASCII)
_FORMATS = ("%Y-%m-%d", "%d.%m.%Y", "%Y/%m/%d")


def parse_number(text: str, mark: str = ".", factor: float = 1.0) -> float | None:
    """Return the number that a text means, times a factor, in 64 bits; None if it means none.

    `<0.5` means the number just below 0.5. The factor is exact in decimals: 136 times 0.1 is 13.6.
    """
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
