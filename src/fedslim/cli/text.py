"""Labels that cannot harm a terminal. Numbers for people are in `fedslim.words`, and handed on from here."""

from __future__ import annotations

import re

from fedslim.words import brief, count, duration, number, size

__all__ = ["MOST_SHOWN", "brief", "count", "duration", "number", "printable", "shown_items", "shown_label", "size"]

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
