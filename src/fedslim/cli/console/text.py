"""Format labels so that they cannot harm a terminal. Number formats are re-exported from `fedslim.format`."""

from __future__ import annotations

from fedslim.format import brief, count, duration, number, printable, size

__all__ = ["MAX_SHOWN", "brief", "count", "duration", "number", "printable", "shown_items", "shown_label", "size"]

MAX_SHOWN = 500
"""Longer labels are cut in tables; no label that is meant to be read is this long."""


def shown_label(label: str) -> str:
    """Format a label for a table."""
    return printable(label if len(label) <= MAX_SHOWN else label[: MAX_SHOWN - 1] + "…")


def shown_items(labels: tuple[str, ...]) -> str:
    """Format an itemset in one line, separated by commas, or by bars if a label has a comma."""
    between = " | " if any("," in label for label in labels) else ", "
    return between.join(map(shown_label, labels))
