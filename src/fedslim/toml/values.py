"""Checks of the values in settings files, and how to write values in TOML.

A check takes a value from `tomllib` and returns the value that the program uses, or raises `Wrong` with what is wrong
and what is allowed. It knows neither the file nor the key: the caller puts these in front of the message.
"""

from __future__ import annotations

import ipaddress
import json
import math
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from fedslim.data.database import first_repeat

Check = Callable[[Any], Any]

MAX_SHOWN = 60
"""Characters of a wrong value that are quoted."""

MAX_WIDE = 1 << 64
"""Larger numbers are not written out: Python refuses to convert very long ones to text."""

MAX_NUMBER = 1e300
"""Larger numbers are no measurements."""

GROUPED = 1_000_000
"""Numbers from here on are written with digit separators."""

MEMBER = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
MAX_HOST_LENGTH = 253
MAX_PORT = 65535
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_DIGITS = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")


class Wrong(ValueError):  # noqa: N818  # never leaves this package
    """A value is not allowed; the message quotes it and says what is allowed."""


def wrong(value: object, allowed: str) -> Wrong:
    """Return the error for a value that is not allowed."""
    return Wrong(f"{describe(value)} cannot be used; {allowed}")


def describe(value: object) -> str:  # noqa: PLR0911  # one for each TOML type
    """Quote a short value as in the file; of a large or nested one, return only the type."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value) if abs(value) < MAX_WIDE else "a number of more than 64 bits"
        case float():
            return str(value)
        case str():
            return repr(value) if len(value) <= MAX_SHOWN else f"{value[:MAX_SHOWN]!r}…"
        case list():
            return "an empty list" if not value else f"a list of {len(value)}"
        case dict():
            return "a table"
        case _:
            return "a date or time"


def spell(value: Any) -> str:
    """Return a value in TOML syntax."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return f"{value:_}" if value >= GROUPED else str(value)
        case float():
            return str(int(value)) if value.is_integer() else repr(value)
        case list() | tuple():
            return f"[{', '.join(map(spell, value))}]"
        case dict():
            return f"{{ {', '.join(f'{spell(str(name))} = {spell(one)}' for name, one in value.items())} }}"
        case _:
            return json.dumps(str(value), ensure_ascii=False)  # the escapes of JSON are valid in TOML


# -- checks ----------------------------------------------------------------------------------------------------------


def switch(value: Any) -> bool:
    """Accept true or false."""
    if not isinstance(value, bool):
        raise wrong(value, "write true or false")
    return value


def whole(low: int, high: int) -> Check:
    """Return a check for an integer within bounds."""

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise wrong(value, f"write a whole number from {low} to {high}")
        return value

    return check


def seconds(low: float, high: float) -> Check:
    """Return a check for a number of seconds within bounds."""

    def check(value: Any) -> float:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not low <= value <= high or not math.isfinite(value):
            raise wrong(value, f"write a number of seconds from {low:g} to {high:.0f}")
        return float(value)

    return check


def one_of(*choices: str) -> Check:
    """Return a check for one of several strings."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            raise wrong(value, f"write {' or '.join(map(spell, choices))}")
        return value

    return check


def finite(above: float = -math.inf) -> Check:
    """Return a check for a finite number above a bound."""

    def check(value: Any) -> float:
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < MAX_NUMBER
        if not number or not value > above:
            raise wrong(value, "write a number" if above == -math.inf else f"write a number above {above:g}")
        return float(value)

    return check


def ascending(fewest: int, most: int) -> Check:
    """Return a check for a list of ascending numbers."""

    def check(value: Any) -> tuple[float, ...]:
        if not isinstance(value, list) or not fewest <= len(value) <= most:
            raise wrong(value, f"write a list of {fewest if fewest == most else f'{fewest} to {most}'} numbers")
        numbers = tuple(map(finite(), value))
        if any(after <= before for before, after in pairwise(numbers)):
            raise wrong(value, "write the numbers in ascending order, each once")
        return numbers

    return check


def texts(most: int) -> Check:
    """Return a check for a list of strings."""

    def check(value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or len(value) > most or not all(isinstance(each, str) for each in value):
            raise wrong(value, f'write a list of at most {most} strings, such as ["a", "b"]')
        return tuple(value)

    return check


def table_of(check_each: Check) -> Check:
    """Return a check for a table with keys of any name."""

    def check(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise wrong(value, "write a table, such as { name = … }")
        return {name: check_each(each) for name, each in value.items()}

    return check


def hexadecimal(digits: int, source: str) -> Check:
    """Return a check for a number of hexadecimal digits; `source` says where to get them."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(rf"[0-9a-f]{{{digits}}}", value):
            raise wrong(value, f"write {digits} hexadecimal digits in lower case, {source}")
        return value

    return check


def title(longest: int) -> Check:
    """Return a check for a name shown on terminals and in logs: one line, without control characters."""

    def check(value: Any) -> str:
        fine = isinstance(value, str) and 1 <= len(value) <= longest and value.isprintable() and value == value.strip()
        if not fine:
            raise wrong(value, f"write 1 to {longest} printable characters, without spaces at either end")
        return str(value)

    return check


def member_name(value: Any) -> str:
    """Accept the name of a member, as in its certificate."""
    if not isinstance(value, str) or not MEMBER.fullmatch(value):
        raise wrong(value, "write 1 to 63 characters from a-z, 0-9 and -, without - at either end")
    return value


def member_names(fewest: int, most: int) -> Check:
    """Return a check for the list of members."""

    def check(value: Any) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise wrong(value, 'write a list of names, such as ["north", "south"]')
        if not fewest <= len(value) <= most:
            raise wrong(value, f"write {fewest} to {most} members")
        names = tuple(map(member_name, value))
        if (repeated := first_repeat(names)) is not None:
            msg = f"{repeated!r} is listed twice; write each member once"
            raise Wrong(msg)
        return names

    return check


def host(value: Any) -> str:
    """Accept a host name or an IP address."""
    if not isinstance(value, str) or not (_is_address(value) or _is_host_name(value)):
        raise wrong(value, "write a host name or an IP address, without a port")
    return value


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_host_name(text: str) -> bool:
    labels = text.split(".")
    numeric = _DIGITS.fullmatch(labels[-1])  # a mistyped address, which a resolver may still accept
    return len(text) <= MAX_HOST_LENGTH and not numeric and all(map(_LABEL.fullmatch, labels))


def place(value: Any) -> Path:
    """Accept a path; the caller resolves it from the folder of the file."""
    if not isinstance(value, str) or not value or not value.isprintable():
        raise wrong(value, "write a path; relative paths start at the folder of this file")
    return Path(value)
