"""Labels that cannot harm a terminal. Numbers for people are in `fedslim.format`, and handed on from here."""

from __future__ import annotations

from fedslim.format import brief, count, duration, number, printable, size

__all__ = ["MAX_SHOWN", "brief", "count", "duration", "number", "printable", "shown_items", "shown_label", "size"]

MAX_SHOWN = 500
"""Characters of one label that a table shows; no label that was meant to be read is longer."""


def shown_label(label: str) -> str:
    """A label for a table."""
    return printable(label if len(label) <= MAX_SHOWN else label[: MAX_SHOWN - 1] + "…")


def shown_items(labels: tuple[str, ...]) -> str:
    """An itemset in a line; where labels have commas of their own, something else stands between them."""
    between = " | " if any("," in label for label in labels) else ", "
    return between.join(map(shown_label, labels))
