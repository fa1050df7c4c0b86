"""Words and numbers for people: labels that cannot harm a terminal, bits, durations."""

from __future__ import annotations

import re

MOST_SHOWN = 500
"""Characters of one label that a table shows; no label that was meant to be read is longer."""

_BLANKS = re.compile(r"[\t-\r\x85\u2028\u2029]+")
# Control characters begin escape sequences, the marks of direction reorder what follows them, and halves of
# surrogate pairs (from names that are not UTF-8) cannot be written at all.
_HARMFUL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """The text on one line, with everything that a terminal might obey replaced by a mark."""
    return _HARMFUL.sub("\ufffd", _BLANKS.sub(" ", text))


def shown_label(label: str) -> str:
    """A label for a table."""
    return printable(label if len(label) <= MOST_SHOWN else label[: MOST_SHOWN - 1] + "…")


def shown_items(labels: tuple[str, ...]) -> str:
    """An itemset in a line; where labels have commas of their own, something else stands between them."""
    between = " | " if any("," in label for label in labels) else ", "
    return between.join(map(shown_label, labels))


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
