"""Format labels, ids, counts, bytes and durations for the terminal, notebooks and reports."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_ID = re.compile(r"#[0-9a-f]{32}")
_SHORTEST_ID = 7

_BLANKS = re.compile(r"[\t-\r\x85\u2028\u2029]+")
# Control characters start escape sequences, bidirectional marks reorder the text after them, and lone surrogates (from
# names that are not UTF-8) cannot be encoded.
_HARMFUL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f\ud800-\udfff]")


def printable(text: str) -> str:
    """Return the text on one line, with characters that control a terminal or browser replaced."""
    return _HARMFUL.sub("\ufffd", _BLANKS.sub(" ", text))


def as_html(text: str) -> str:
    """Return the text escaped for HTML, on one line and without control characters."""
    return html.escape(printable(text))


def number(value: float, digits: int = 0) -> str:
    """Format a number with thousands separators, and never as negative zero."""
    return f"{round(value, digits) + 0.0:,.{digits}f}"


def count(of: int, what: str) -> str:
    """Format a count with its noun, in the singular or plural."""
    return f"{of:,} {what}{'' if of == 1 else 's'}"


def size(of: int) -> str:
    """Format a number of bytes with three significant digits."""
    value, units = float(of), iter(("bytes", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while value >= 999.5 and unit != "TB":  # noqa: PLR2004  # rounds to 1,000
        value, unit = value / 1000, next(units)
    digits = 0 if unit == "bytes" or value >= 99.95 else 1 if value >= 9.995 else 2  # noqa: PLR2004  # three digits
    return f"{value:,.{digits}f} {unit}" if of != 1 else "1 byte"


def duration(seconds: float) -> str:
    """Format a duration with two or three significant digits."""
    if seconds < 0.01:  # noqa: PLR2004  # too short to notice
        return "under 0.01 s"
    if seconds < 10:  # noqa: PLR2004  # decimals matter only below this
        return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2f} s"
    whole = round(seconds)
    if whole < 100:  # noqa: PLR2004  # 90 s rather than 1 min 30 s
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 100:  # noqa: PLR2004  # 90 min rather than 1 h 30 min
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes:02} min"


def brief(labels: Sequence[str]) -> tuple[str, ...]:
    """Shorten ids, which replace labels at the server, to the shortest length at which they differ."""
    ids = {label for label in labels if _ID.fullmatch(label)}
    for length in range(_SHORTEST_ID, 33):
        short = {label: label[:length] for label in ids}
        if len({*short.values(), *labels}) == len(set(labels)) + len(ids):
            return tuple(short.get(label, label) for label in labels)
    return tuple(labels)
