"""Texts and numbers for people, as terminal, notebook and report share them: labels, ids, counts, bytes, durations."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_ID = re.compile(r"#[0-9a-f]{32}")
_SHORTEST_ID = 7

_BLANKS = re.compile(r"[\t-\r\x85\u2028\u2029]+")
# Control characters begin escape sequences, the marks of direction reorder what follows them, and halves of
# surrogate pairs (from names that are not UTF-8) cannot be written at all.
_HARMFUL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f\ud800-\udfff]")


def printable(text: str) -> str:
    """The text on one line, with everything that a terminal or browser might obey replaced by a mark."""
    return _HARMFUL.sub("\ufffd", _BLANKS.sub(" ", text))


def as_html(text: str) -> str:
    """The text for a page."""
    return html.escape(printable(text))


def number(value: float, digits: int = 0) -> str:
    """A number with its thousands apart, and never a negative zero."""
    return f"{round(value, digits) + 0.0:,.{digits}f}"


def count(of: int, what: str) -> str:
    """How many there are of something, in the singular if it is one."""
    return f"{of:,} {what}{'' if of == 1 else 's'}"


def size(of: int) -> str:
    """Bytes as people say them, to three figures."""
    value, units = float(of), iter(("bytes", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while value >= 999.5 and unit != "TB":  # noqa: PLR2004  # which is written 1,000
        value, unit = value / 1000, next(units)
    digits = 0 if unit == "bytes" or value >= 99.95 else 1 if value >= 9.995 else 2  # noqa: PLR2004  # three figures
    return f"{value:,.{digits}f} {unit}" if of != 1 else "1 byte"


def duration(seconds: float) -> str:
    """A time as people say it, to two or three figures."""
    if seconds < 0.01:  # noqa: PLR2004  # what a person cannot tell from nothing
        return "under 0.01 s"
    if seconds < 10:  # noqa: PLR2004  # where tenths begin to matter
        return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2f} s"
    whole = round(seconds)
    if whole < 100:  # noqa: PLR2004  # people say ninety seconds
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 100:  # noqa: PLR2004  # and ninety minutes
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes:02} min"


def brief(labels: Sequence[str]) -> tuple[str, ...]:
    """Labels for people: ids, which stand where a server is not told names, are as short as tells them apart."""
    ids = {label for label in labels if _ID.fullmatch(label)}
    for length in range(_SHORTEST_ID, 33):
        short = {label: label[:length] for label in ids}
        if len({*short.values(), *labels}) == len(set(labels)) + len(ids):
            return tuple(short.get(label, label) for label in labels)
    return tuple(labels)
