"""Valid names of members, servers and hosts, the roles of certificates, and their times.

A name appears in certificates, file names, logs and messages. Its alphabet is small, so that no two different names
look alike, and none can be an option, a path or an escape sequence.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import Enum
from ipaddress import IPv4Address, IPv6Address
from typing import TypeAlias

from fedslim.errors import ParameterError
from fedslim.toml.values import MEMBER, address, is_host_name

MAX_NAME_LENGTH = 63
MAX_HOSTS = 100
MAX_CA_NAME_LENGTH = 64  # the limit of X.509 for a common name
Host: TypeAlias = str | IPv4Address | IPv6Address
Hosts: TypeAlias = Iterable[Host]


class Role(Enum):
    """What the holder of a certificate may do: answer as a member, or ask as the server, never both."""

    MEMBER = "member"
    SERVER = "server"


def checked_name(name: str, what: str = "name") -> str:
    """Return the name of a member or a server if it is valid."""
    if not MEMBER.fullmatch(name):
        raise ParameterError(
            f"{what}: {name!r:.80} cannot be the name of a member; use 1 to {MAX_NAME_LENGTH} lower-case letters "
            "(a-z), digits and hyphens, without a hyphen at either end, such as hospital-a"
        )
    return name


def checked_ca_name(name: str) -> str:
    """Return the name of a certificate authority if it is valid: printable, without control characters."""
    if not name.strip() or len(name) > MAX_CA_NAME_LENGTH or not (name.isascii() and name.isprintable()):
        raise ParameterError(
            f"name: {name!r:.80} cannot be the name of a certificate authority; use 1 to {MAX_CA_NAME_LENGTH} "
            "printable ASCII characters, such as 'Heart Study CA'"
        )
    return name


def checked_hosts(hosts: Hosts) -> tuple[Host, ...]:
    """Return the host names and addresses for a server's certificate, in the order given, without repeats."""
    found = dict.fromkeys(map(_host, hosts))
    if len(found) > MAX_HOSTS:
        raise ParameterError(f"host: {len(found)} hosts are too many; give at most {MAX_HOSTS}")
    return tuple(found)


def _host(host: Host) -> Host:
    if not isinstance(host, str):
        return host
    if (found := address(host)) is not None:
        if isinstance(found, IPv6Address) and found.scope_id:
            msg = f"host: {host!r:.80} has a zone, which is valid on one machine only; remove the % and what follows it"
            raise ParameterError(msg)
        return found
    if not is_host_name(host):
        raise ParameterError(
            f"host: {host!r:.80} is neither a host name nor an address; give one such as fed.example.org or 10.0.0.7, "
            "without scheme, port or wildcard, and international names in their xn-- form"
        )
    return host.lower()


# -- times as in certificates: UTC, in whole seconds ------------------------------------------------------------------

SLACK = timedelta(minutes=10)
"""Certificates and lists are valid from a little earlier than now, because other clocks may be behind."""


def whole(now: datetime) -> datetime:
    """Convert a time to UTC and whole seconds."""
    if now.tzinfo is None:
        raise ParameterError("now: this time has no time zone; give one in UTC, such as datetime.now(UTC)")
    return now.astimezone(UTC).replace(microsecond=0)


def validity(days: int, most: int) -> timedelta:
    """Convert a lifetime from days."""
    if not 1 <= days <= most:
        raise ParameterError(f"days: {days} is out of range; give 1 to {most:,}")
    return timedelta(days=days)


def format_time(moment: datetime) -> str:
    """Format a time for people."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
