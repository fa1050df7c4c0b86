"""Times as in certificates: UTC, in whole seconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from fedslim.errors import ParameterError

SLACK = timedelta(minutes=10)
"""Certificates and lists are valid from a little earlier than now, because other clocks may be behind."""


def whole(now: datetime) -> datetime:
    """Convert a time to UTC and whole seconds.

    Raises:
        ParameterError: It has no time zone.
    """
    if now.tzinfo is None:
        msg = "now: this time has no time zone; give one in UTC, such as datetime.now(UTC)"
        raise ParameterError(msg)
    return now.astimezone(UTC).replace(microsecond=0)


def validity(days: int, most: int) -> timedelta:
    """Convert a lifetime from days.

    Raises:
        ParameterError: It is out of range.
    """
    if not 1 <= days <= most:
        msg = f"days: {days} is out of range; give 1 to {most:,}"
        raise ParameterError(msg)
    return timedelta(days=days)


def format_time(moment: datetime) -> str:
    """Format a time for people."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
