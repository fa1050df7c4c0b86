"""How long a server and its members wait for each other."""

from __future__ import annotations

from dataclasses import dataclass

HANDSHAKE = 10.0
"""Seconds for a handshake."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a server or member waits, in seconds."""

    answer: float = 3600.0  # for an answer of a member that is there
    grace: float = 600.0  # for a member, or the server, that is away
    frame: float = 60.0  # for a frame that has begun to come, or to go
    farewell: float = 5.0  # after the end, for everybody to say that it has heard the result
    connect: float = HANDSHAKE  # for a connection, each time it is tried
    keepalive: float = 10.0  # between two signs of life
    handshake: float = HANDSHAKE  # for a stranger to show its certificate
