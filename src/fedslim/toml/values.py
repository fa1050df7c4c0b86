"""Checks of the values in settings files, and how to write values in TOML.

A check takes a value from `tomllib` and returns the value that the program uses, or raises `Wrong` with what is wrong
and what is allowed. It knows neither the file nor the key: the caller puts these in front of the message.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import pairwise
from pathlib import Path
from typing import Any

from fedslim.data.database import first_repeat

Check = Callable[[Any], Any]

MAX_SHOWN = 60  # characters of a wrong value that are quoted
MAX_WIDE = 1 << 64  # larger numbers are not written out: Python refuses to convert very long ones to text
MAX_NUMBER = 1e300  # larger numbers are no measurements
GROUPED = 1_000_000  # numbers from here on are written with digit separators
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


def describe(value: object) -> str:  # one for each TOML type
    """Quote a short value as in the file; of a large or nested one, return only the type."""
    match value:
        case bool() | float():
            return str(value).lower()
        case int():
            return str(value) if abs(value) < MAX_WIDE else "a number of more than 64 bits"
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


def accept(right: Callable[[Any], bool], allowed: str, convert: Callable[[Any], Any] = lambda value: value) -> Check:
    """Return a check that converts a value if it is right, and otherwise says what is allowed."""

    def check(value: Any) -> Any:
        if not right(value):
            raise wrong(value, allowed)
        return convert(value)

    return check


def is_number(value: Any) -> bool:
    """Return whether a value is a number; true and false are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


switch = accept(lambda value: isinstance(value, bool), "write true or false")


def whole(low: int, high: int) -> Check:
    """Return a check for an integer within bounds."""
    return accept(
        lambda value: is_number(value) and isinstance(value, int) and low <= value <= high,
        f"write a whole number from {low} to {high}",
    )


def seconds(low: float, high: float) -> Check:
    """Return a check for a number of seconds within bounds."""
    allowed = f"write a number of seconds from {low:g} to {high:.0f}"
    return accept(lambda value: is_number(value) and low <= value <= high and math.isfinite(value), allowed, float)


def one_of(*choices: str) -> Check:
    """Return a check for one of several strings."""
    return accept(
        lambda value: isinstance(value, str) and value in choices, f"write {' or '.join(map(spell, choices))}"
    )


def finite(above: float = -math.inf) -> Check:
    """Return a check for a finite number above a bound."""
    allowed = "write a number" if above == -math.inf else f"write a number above {above:g}"
    return accept(lambda value: is_number(value) and abs(value) < MAX_NUMBER and value > above, allowed, float)


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
    return accept(
        lambda value: isinstance(value, list) and len(value) <= most and all(isinstance(each, str) for each in value),
        f'write a list of at most {most} strings, such as ["a", "b"]',
        tuple,
    )


def table_of(check_each: Check) -> Check:
    """Return a check for a table with keys of any name."""
    return accept(
        lambda value: isinstance(value, dict),
        "write a table, such as { name = … }",
        lambda value: {name: check_each(each) for name, each in value.items()},
    )


def hexadecimal(digits: int, source: str) -> Check:
    """Return a check for a number of hexadecimal digits; `source` says where to get them."""
    return accept(
        lambda value: isinstance(value, str) and re.fullmatch(rf"[0-9a-f]{{{digits}}}", value) is not None,
        f"write {digits} hexadecimal digits in lower case, {source}",
    )


def title(longest: int) -> Check:
    """Return a check for a name shown on terminals and in logs: one line, without control characters."""

    def right(value: Any) -> bool:
        text = isinstance(value, str) and 1 <= len(value) <= longest
        return text and value.isprintable() and value == value.strip()

    return accept(right, f"write 1 to {longest} printable characters, without spaces at either end")


member_name = accept(
    lambda value: isinstance(value, str) and MEMBER.fullmatch(value) is not None,
    "write 1 to 63 characters from a-z, 0-9 and -, without - at either end",
)


def member_names(fewest: int, most: int) -> Check:
    """Return a check for the list of members."""

    def check(value: Any) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise wrong(value, 'write a list of names, such as ["north", "south"]')
        if not fewest <= len(value) <= most:
            raise wrong(value, f"write {fewest} to {most} members")
        names = tuple(map(member_name, value))
        if (repeated := first_repeat(names)) is not None:
            raise Wrong(f"{repeated!r} is listed twice; write each member once")
        return names

    return check


def address(text: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address that a text is, or None."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def is_host_name(text: str) -> bool:
    """Return whether a text may be a host name; 10.0.0.256 is none."""
    labels = text.split(".")
    numeric = _DIGITS.fullmatch(labels[-1])  # a mistyped address, which a resolver may still accept
    return len(text) <= MAX_HOST_LENGTH and not numeric and all(map(_LABEL.fullmatch, labels))


host = accept(
    lambda value: isinstance(value, str) and (address(value) is not None or is_host_name(value)),
    "write a host name or an IP address, without a port",
)
place = accept(
    lambda value: isinstance(value, str) and value != "" and value.isprintable(),
    "write a path; relative paths start at the folder of this file",
    Path,
)
"""A path, which the caller resolves from the folder of the file."""
