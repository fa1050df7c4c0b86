"""Points in time as certificates have them: UTC, whole seconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from fedslim.errors import ParameterError

SLACK = timedelta(minutes=10)
"""What is signed now counts from a little earlier, for clocks that are behind ours."""


def whole(now: datetime) -> datetime:
    """A point in time in UTC without fractions.

    Raises:
        ParameterError: It is of no time zone, so that nobody knows when it is.
    """
    if now.tzinfo is None:
        msg = "now: this point in time has no time zone; give one in UTC, such as datetime.now(UTC)"
        raise ParameterError(msg)
    return now.astimezone(UTC).replace(microsecond=0)


def validity(days: int, most: int) -> timedelta:
    """A lifetime that makes sense.

    Raises:
        ParameterError: It does not.
    """
    if not 1 <= days <= most:
        msg = f"days: {days} is no lifetime for this; give 1 to {most:,}"
        raise ParameterError(msg)
    return timedelta(days=days)


def format_time(moment: datetime) -> str:
    """A point in time for people."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
