"""What may stand behind a key of a federation's file: checks that say what is allowed, and values as TOML spells them.

A check takes a value as `tomllib` gives it and returns what the program uses, or raises `Wrong` with the end of a
sentence about it. It knows neither file nor key: whoever calls it puts these in front.
"""

from __future__ import annotations

import ipaddress
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedslim.data.database import first_repeat

Check = Callable[[Any], Any]

MAX_SHOWN = 60
"""Characters of a wrong value that are quoted."""

MAX_WIDE = 1 << 64
"""Numbers beyond this are not written out: Python itself refuses to write very long ones."""

GROUPED = 1_000_000
"""From here on a person would have to count digits."""

MEMBER = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
MAX_HOST_LENGTH = 253
MAX_PORT = 65535
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_DIGITS = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")


class Wrong(ValueError):  # noqa: N818  # never seen outside this room
    """A value that cannot be used; the text says what it is and what is allowed."""


def wrong(value: object, allowed: str) -> Wrong:
    """The usual sentence."""
    return Wrong(f"{describe(value)} cannot be used; {allowed}")


def describe(value: object) -> str:  # noqa: PLR0911  # one for each kind of value that TOML has
    """A value as the file has it, and short: of what is large or nested only the kind."""
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
    """A value in TOML."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return f"{value:_}" if value >= GROUPED else str(value)
        case float():
            return str(int(value)) if value.is_integer() else repr(value)
        case list() | tuple():
            return f"[{', '.join(map(spell, value))}]"
        case _:
            return json.dumps(str(value), ensure_ascii=False)  # whose escapes TOML has as well


# -- checks ----------------------------------------------------------------------------------------------------------


def switch(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise wrong(value, "write true or false")
    return value


def whole(low: int, high: int) -> Check:
    """A whole number within bounds."""

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise wrong(value, f"write a whole number from {low} to {high}")
        return value

    return check


def seconds(low: float, high: float) -> Check:
    """A number of seconds within bounds."""

    def check(value: Any) -> float:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not low <= value <= high or not math.isfinite(value):
            raise wrong(value, f"write a number of seconds from {low:g} to {high:.0f}")
        return float(value)

    return check


def one_of(*choices: str) -> Check:
    """One of a few words."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            raise wrong(value, f"write {' or '.join(map(spell, choices))}")
        return value

    return check


def hexadecimal(digits: int, source: str) -> Check:
    """So many digits; `source` says where one gets them."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(rf"[0-9a-f]{{{digits}}}", value):
            raise wrong(value, f"write {digits} hexadecimal digits in lower case, {source}")
        return value

    return check


def title(longest: int) -> Check:
    """A name for people. It is shown on terminals and in logs, so it is one line without anything they would obey."""

    def check(value: Any) -> str:
        fine = isinstance(value, str) and 1 <= len(value) <= longest and value.isprintable() and value == value.strip()
        if not fine:
            raise wrong(value, f"write a text of 1 to {longest} printable characters, with no blank at either end")
        return str(value)

    return check


def member_name(value: Any) -> str:
    """The name of a member, which is also that in its certificate."""
    if not isinstance(value, str) or not MEMBER.fullmatch(value):
        raise wrong(value, "a name has 1 to 63 of a-z, 0-9 and -, and no - at either end")
    return value


def member_names(fewest: int, most: int) -> Check:
    """The names of all members."""

    def check(value: Any) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise wrong(value, 'write a list of names, such as ["north", "south"]')
        if not fewest <= len(value) <= most:
            raise wrong(value, f"a federation has {fewest} to {most} members")
        names = tuple(map(member_name, value))
        if (twin := first_repeat(names)) is not None:
            msg = f"{twin!r} is there twice; name each member once"
            raise Wrong(msg)
        return names

    return check


def host(value: Any) -> str:
    """The name or address of a machine."""
    if not isinstance(value, str) or not (_is_address(value) or _is_host_name(value)):
        raise wrong(value, "write a host name or an IP address, without port")
    return value


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_host_name(text: str) -> bool:
    labels = text.split(".")
    numeric = _DIGITS.fullmatch(labels[-1])  # an address with a mistake in it, which a resolver may still take for one
    return len(text) <= MAX_HOST_LENGTH and not numeric and all(map(_LABEL.fullmatch, labels))


def place(value: Any) -> Path:
    """A path; whoever knows the file puts its folder in front."""
    if not isinstance(value, str) or not value or not value.isprintable():
        raise wrong(value, "write a path; a relative one is taken from the folder of this file")
    return Path(value)
