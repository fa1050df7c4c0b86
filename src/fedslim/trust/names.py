"""What members, servers and hosts may be called, and what a certificate may be used for.

A name goes into certificates, file names, logs and messages, so it is of one alphabet in which no two names look alike
but are different, and none can be an option, a path or an escape sequence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TypeAlias

from fedslim.errors import ParameterError

MAX_NAME_LENGTH = 63
MAX_HOST_LENGTH = 253
MAX_HOSTS = 100
MAX_CA_NAME_LENGTH = 64
"""What X.509 allows for a common name."""

Host: TypeAlias = str | IPv4Address | IPv6Address
Hosts: TypeAlias = Iterable[str | IPv4Address | IPv6Address]

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAME = re.compile(_LABEL)
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")


class Role(Enum):
    """What the holder of a certificate may do: answer as a member, or ask as the server. Never both."""

    MEMBER = "member"
    SERVER = "server"


def checked_name(name: str, what: str = "name") -> str:
    """The name of a member or a server, if it is one.

    Raises:
        ParameterError: It is not; the message says what is allowed.
    """
    if not _NAME.fullmatch(name):
        msg = (
            f"{what}: {name!r:.80} cannot be the name of a member; use 1 to {MAX_NAME_LENGTH} small letters (a-z), "
            "digits and hyphens, with no hyphen at the ends, such as hospital-a"
        )
        raise ParameterError(msg)
    return name


def checked_ca_name(name: str) -> str:
    """The name of a certificate authority: words for people, but nothing that a terminal obeys."""
    if not name.strip() or len(name) > MAX_CA_NAME_LENGTH or not (name.isascii() and name.isprintable()):
        msg = (
            f"name: {name!r:.80} cannot be the name of a certificate authority; use 1 to {MAX_CA_NAME_LENGTH} "
            "printable ASCII characters, such as 'Heart Study CA'"
        )
        raise ParameterError(msg)
    return name


def checked_hosts(hosts: Hosts) -> tuple[Host, ...]:
    """Host names and addresses of a server, as they go into its certificate; each once, in the order given."""
    found = dict.fromkeys(map(_host, hosts))
    if len(found) > MAX_HOSTS:
        msg = f"host: there are {len(found)}, and a certificate has at most {MAX_HOSTS}; name fewer"
        raise ParameterError(msg)
    return tuple(found)


def _host(host: str | IPv4Address | IPv6Address) -> Host:
    if not isinstance(host, str):
        return host
    try:
        address = ip_address(host)
    except ValueError:
        pass
    else:
        if isinstance(address, IPv6Address) and address.scope_id:
            msg = f"host: {host!r:.80} has a zone, which means something on one machine only; leave out what follows %"
            raise ParameterError(msg)
        return address
    name = host.lower()
    last = name.rpartition(".")[2]
    if len(name) > MAX_HOST_LENGTH or not _HOST.fullmatch(name) or last.isdigit():  # 10.0.0.256 is no name either
        msg = (
            f"host: {host!r:.80} is neither a host name nor an address; give one such as fed.example.org or 10.0.0.7, "
            "without scheme, port or wildcard, and international names in their xn-- form"
        )
        raise ParameterError(msg)
    return name
